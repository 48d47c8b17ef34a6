//! Assembly of a batch's features on a device, from cached and fetched rows.

use crate::kernels::addresses::address_type;
use crate::kernels::error::{KernelError, guarded};
use crate::kernels::grid::{THREADS, cube_number, cubes};
use crate::kernels::in_flight::hand_over;
use crate::kernels::sampling::upload::stage;
use cubecl::future::block_on;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// The slot of a node that is not cached.
const NOT_CACHED: u32 = u32::MAX;
/// The bit of a source that marks a row of the cache.
const OF_CACHE: u32 = 1 << 31;
/// The number of elements that a unit copies if it divides the width of rows.
const ELEMENTS: usize = 4;

/// Rows of features on a device: `[num_rows, width]`, row-major and without gaps.
#[derive(Clone, Copy, Debug)]
pub struct FeatureRows<'a> {
    /// The array. It must exist even if it has no rows.
    pub handle: &'a Handle,
    /// The number of rows.
    pub num_rows: usize,
}

/// Assembles the features of a batch's nodes. Node `i` gets row `cache_slots[i]` of `cache`, or, if that is `u32::MAX`,
/// the next row of `rows`, which holds the rows of uncached nodes in order. Elements are converted from `I` to `O`.
///
/// The result is `[cache_slots.len(), width]`, and the device has finished writing it. So a loader's thread may make
/// it, and the inputs may change afterwards.
///
/// # Errors
/// Returns [`KernelError::Invalid`] for a slot outside of the cache, a number of `rows` that differs from the number of
/// uncached nodes, 2^31 or more rows of either kind, and arrays that are too short. Returns
/// [`KernelError::Unsupported`] if the device lacks one of the types, and [`KernelError::Failed`] if it has failed.
pub fn assemble_rows<R: Runtime, I: Float + CubeElement, O: Float + CubeElement>(
    client: &ComputeClient<R>,
    width: usize,
    cache: FeatureRows<'_>,
    rows: FeatureRows<'_>,
    cache_slots: &[u32],
) -> Result<Handle, KernelError> {
    let sources = sources(cache_slots, cache.num_rows, rows.num_rows)?;
    for (name, matrix) in [("cached", cache), ("fetched", rows)] {
        let bytes = matrix.num_rows.saturating_mul(width).saturating_mul(size_of::<I>()) as u64;
        if bytes > matrix.handle.size_in_used() {
            let held = matrix.handle.size_in_used();
            let what = format!("{} {name} rows of {width} features take {bytes} bytes, not {held}", matrix.num_rows);
            return Err(KernelError::Invalid { what });
        }
    }
    for storage in [I::as_type_native_unchecked(), O::as_type_native_unchecked()] {
        if !client.properties().supports_type(storage) {
            return Err(KernelError::Unsupported { what: format!("has no numbers of type {storage}") });
        }
    }
    guarded("assemble features on the device", || {
        let len = cache_slots.len() * width;
        let out = client.empty((len * size_of::<O>()).max(size_of::<u32>()));
        if len > 0 {
            launch::<R, I, O>(client, width, cache, rows, &sources, &out)?;
            let operation = "assemble features on the device";
            block_on(client.sync()).map_err(|error| KernelError::failed(operation, &error))?;
        }
        hand_over(&out);
        Ok(out)
    })
}

/// Launches the kernel that copies the rows.
fn launch<R: Runtime, I: Float, O: Float>(
    client: &ComputeClient<R>,
    width: usize,
    cache: FeatureRows<'_>,
    rows: FeatureRows<'_>,
    sources: &[u32],
    out: &Handle,
) -> Result<(), KernelError> {
    let elements = if width.is_multiple_of(ELEMENTS) { ELEMENTS } else { 1 };
    let units = sources.len() * width / elements;
    let longest = sources.len().max(cache.num_rows).max(rows.num_rows) * width;
    let addresses = address_type(client, longest, units)?;
    // SAFETY: the lengths are those of the arrays, `sources` has checked the row numbers, and there is a unit for each
    // vector.
    unsafe {
        let matrix = |rows: FeatureRows<'_>| ArrayArg::from_raw_parts(rows.handle.clone(), rows.num_rows * width);
        copy_rows::launch_unchecked::<I, O, R>(
            client,
            cubes(units, THREADS),
            CubeDim::new_1d(THREADS as u32),
            addresses,
            elements,
            matrix(cache),
            matrix(rows),
            ArrayArg::from_raw_parts(stage(client, sources), sources.len()),
            ArrayArg::from_raw_parts(out.clone(), sources.len() * width),
            width / elements,
        );
    }
    Ok(())
}

/// Returns the source of each row of the result: a row of the cache if it has [`OF_CACHE`], else a fetched row.
fn sources(cache_slots: &[u32], num_cached: usize, num_rows: usize) -> Result<Vec<u32>, KernelError> {
    let invalid = |what: String| Err(KernelError::Invalid { what });
    let most = OF_CACHE as usize;
    if num_cached >= most || num_rows >= most {
        return invalid(format!(
            "{num_cached} cached and {num_rows} fetched rows: there may be fewer than 2^31 of either"
        ));
    }
    let mut sources = Vec::with_capacity(cache_slots.len());
    let mut next = 0;
    for (i, &slot) in cache_slots.iter().enumerate() {
        if slot == NOT_CACHED {
            sources.push(next as u32);
            next += 1;
        } else if (slot as usize) < num_cached {
            sources.push(slot | OF_CACHE);
        } else {
            return invalid(format!("node {i} is in slot {slot} of a cache of {num_cached} rows"));
        }
    }
    if next == num_rows {
        Ok(sources)
    } else {
        invalid(format!("{next} nodes of a batch are not cached, but {num_rows} rows were fetched"))
    }
}

/// Copies one vector of the result per unit.
#[cube(launch_unchecked, address_type = "dynamic")]
fn copy_rows<I: Float, O: Float, N: Size>(
    cache: &Array<Vector<I, N>>,
    rows: &Array<Vector<I, N>>,
    sources: &Array<u32>,
    out: &mut Array<Vector<O, N>>,
    vectors_per_row: usize,
) {
    let at = cube_number() * THREADS + UNIT_POS as usize;
    if at < out.len() {
        let source = sources[at / vectors_per_row];
        let start = (source & 0x7fff_ffff) as usize * vectors_per_row;
        let column = at % vectors_per_row;
        if source >= 0x8000_0000u32 {
            out[at] = Vector::<O, N>::cast_from(cache[start + column]);
        } else {
            out[at] = Vector::<O, N>::cast_from(rows[start + column]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_source() {
        assert!(sources(&[], 5, 0).unwrap().is_empty());
        let found = sources(&[2, NOT_CACHED, 0, NOT_CACHED, 2], 3, 2).unwrap();
        assert_eq!(found, [OF_CACHE | 2, 0, OF_CACHE, 1, OF_CACHE | 2]);
        for (slots, num_cached, num_rows) in
            [(&[3][..], 3, 0), (&[NOT_CACHED], 3, 0), (&[NOT_CACHED], 3, 2), (&[0], 1, 1), (&[0], (1 << 31) + 1, 0)]
        {
            assert!(sources(slots, num_cached, num_rows).is_err(), "{slots:?}, {num_cached}, {num_rows}");
        }
    }
}
