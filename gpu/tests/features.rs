//! Cached and fetched rows assembled to a batch's features, compared with plain loops.

mod support;

use cubecl::client::ComputeClient;
use cubecl::cuda::CudaRuntime;
use cubecl::prelude::{CubeElement, Float};
use edgecut_gpu::kernels::{FeatureRows, KernelError, assemble_rows};
use half::{bf16, f16};
use support::{Numbers, device};

/// Returns 8-bit integers, which all types represent exactly.
fn values<T>(len: usize, seed: u64, of: impl Fn(f32) -> T) -> Vec<T> {
    let mut numbers = Numbers(seed);
    (0..len).map(|_| of(numbers.below(256) as f32 - 128.0)).collect()
}

/// Checks `num_nodes` nodes of which `share` in 10 are in a cache of `num_cached` rows. Returns false if the device
/// lacks these types.
fn check<I, O>(
    client: &ComputeClient<CudaRuntime>,
    (num_nodes, num_cached, share, width): (usize, usize, u64, usize),
    from: impl Fn(f32) -> I,
    into: impl Fn(I) -> O,
) -> bool
where
    I: Float + CubeElement + Copy,
    O: Float + CubeElement + Copy + PartialEq,
{
    let mut numbers = Numbers(num_nodes as u64);
    let mut slot = |_| if numbers.below(10) < share { numbers.below(num_cached as u64) as u32 } else { u32::MAX };
    let slots: Vec<u32> = (0..num_nodes).map(&mut slot).collect();
    let num_rows = slots.iter().filter(|&&slot| slot == u32::MAX).count();
    let cache = values(num_cached * width, 1, &from);
    let rows = values(num_rows * width, 2, &from);
    let mut next = rows.chunks_exact(width);
    let mut expected = Vec::new();
    for &slot in &slots {
        let row = if slot == u32::MAX { next.next().expect("a row") } else { &cache[slot as usize * width..][..width] };
        expected.extend(row.iter().map(|&value| into(value)));
    }
    let array = |values: &[I]| client.create_from_slice(if values.is_empty() { &[0; 4] } else { I::as_bytes(values) });
    let cache = array(&cache);
    let rows = array(&rows);
    let cache = FeatureRows { handle: &cache, num_rows: num_cached };
    let rows = FeatureRows { handle: &rows, num_rows };
    let found = match assemble_rows::<CudaRuntime, I, O>(client, width, cache, rows, &slots) {
        Err(KernelError::Unsupported { what }) => {
            eprintln!("skipped: the device {what}");
            return false;
        }
        found => client.read_one(found.expect("valid arrays")).expect("features"),
    };
    let found = &O::from_bytes(&found)[..expected.len()];
    let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert!(differs.is_none(), "{num_nodes} nodes, {num_cached} cached, width {width}: element {differs:?}");
    true
}

const SIZES: [(usize, usize, u64, usize); 10] = [
    (0, 3, 5, 4),
    (1, 1, 10, 1),
    (1, 1, 0, 1),
    (7, 4, 5, 3),
    (255, 10, 5, 1),
    (257, 10, 5, 4),
    (1_000, 50, 7, 100),
    (1_000, 50, 7, 129),
    (333, 9, 10, 8),
    (333, 9, 0, 6),
];

#[test]
fn rows_of_any_width() {
    let Some(client) = device() else { return };
    for sizes in SIZES {
        assert!(check(&client, sizes, |value| value, |value: f32| value), "every device has f32");
    }
}

#[test]
fn more_rows_than_a_grid_has_cubes_on_an_axis() {
    let Some(client) = device() else { return };
    assert!(check(&client, (70_000, 1_000, 5, 5), |value| value, |value: f32| value));
    // More than 65,535 cubes of 256 vectors, with one element each.
    assert!(check(&client, (180_000, 1_000, 5, 99), |value| value, |value: f32| value));
}

#[test]
fn rows_of_half_the_bytes() {
    let Some(client) = device() else { return };
    for sizes in SIZES {
        let has_f16 = check(&client, sizes, f16::from_f32, f16::to_f32);
        if !has_f16 {
            break;
        }
        check(&client, sizes, f16::from_f32, |value| value);
    }
    for sizes in SIZES {
        let has_bf16 = check(&client, sizes, bf16::from_f32, bf16::to_f32);
        if !has_bf16 {
            break;
        }
        check(&client, sizes, bf16::from_f32, |value| value);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(client) = device() else { return };
    let handle = client.create_from_slice(&[0; 24]);
    let rows = |num_rows| FeatureRows { handle: &handle, num_rows };
    let assemble = |cached, fetched, slots: &[u32]| {
        let features = assemble_rows::<CudaRuntime, f32, f32>(&client, 2, rows(cached), rows(fetched), slots);
        features.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(assemble(3, 1, &[2, u32::MAX]), Ok(()));
    let refused = |cached, fetched, slots: &[u32]| assemble(cached, fetched, slots).expect_err("refused");
    assert!(refused(3, 1, &[3, u32::MAX]).contains("node 0 is in slot 3 of a cache of 3 rows"));
    assert!(refused(3, 2, &[2, u32::MAX]).contains("1 nodes of a batch are not cached, but 2 rows were fetched"));
    assert!(refused(4, 0, &[2]).contains("4 cached rows of 2 features take 32 bytes, not 24"));
}
