//! Sampling of in-neighbors on a device.
//!
//! Invariant: all launches are over rows or over neighbors, without atomics, so the result of a unit never depends on
//! when it runs.

mod draw_few;
mod draw_many;
mod hops;
mod piece_arrays;
mod self_check;
pub(super) mod upload;

pub use hops::DeviceHops;

use crate::kernels::addresses::address_type;
use crate::kernels::error::{KernelError, guarded};
use crate::kernels::grid::{THREADS, cube_number, cubes};
use crate::kernels::sampling::draw_many::degree_of;
use crate::kernels::sampling::piece_arrays::{Arrays, SHORT_FANOUT};
use crate::kernels::sampling::upload::{stage, upload};
use cubecl::ir::{ElemType, UIntKind};
use cubecl::prelude::*;
use cubecl::server::Handle;
use cubecl::stream_id::StreamId;
use edgecut_graph::{Fanout, HopError, PlainHop};

/// The default number of neighbors that are drawn at a time.
const WORDS_PER_PIECE: usize = 32 << 20;
/// The value that stands for no fan-out. No row has this many neighbors.
const ALL: u32 = u32::MAX;

/// The in-edges of one edge type on a device: the compressed sparse columns, and the original ids of their rows, the
/// destinations.
pub struct DeviceTopology<R: Runtime> {
    pub(crate) client: ComputeClient<R>,
    indptr: Handle,
    pub(crate) indices: Handle,
    pub(crate) original_ids: Handle,
    pub(crate) num_rows: usize,
    pub(crate) num_edges: usize,
    words_per_piece: usize,
    stream: StreamId,
}

/// The parameters of a hop.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    /// The maximum number of neighbors per row; [`ALL`] for all.
    pub(crate) fanout: u32,
    pub(crate) replace: bool,
    pub(crate) key: u64,
}

/// A range of a hop's rows.
struct Piece {
    first_row: usize,
    /// The start of each row's neighbors within the piece, followed by the number of all of them.
    offsets: Vec<u32>,
}

impl<R: Runtime> DeviceTopology<R> {
    /// Copies the in-edges to the device. All hops will run on the stream of the calling thread, whichever thread asks
    /// for them: each thread has a stream, and each stream keeps memory of its own.
    ///
    /// # Shapes
    /// `indptr` has `num_rows + 1` entries: it starts with 0, never decreases, and ends with the number of `indices`.
    /// `original_ids` is `[num_rows]`. A row has fewer than 2^32 - 1 neighbors.
    ///
    /// # Errors
    /// Returns [`KernelError::Invalid`] for other shapes, [`KernelError::Unsupported`] if the device has no 64-bit
    /// integers or cannot hold an array as long as `indices`, and [`KernelError::Failed`] if it fails, for example for
    /// lack of memory.
    pub fn new(
        client: ComputeClient<R>,
        indptr: &[u64],
        indices: &[u32],
        original_ids: &[u32],
    ) -> Result<Self, KernelError> {
        check_shapes(indptr, indices, original_ids)?;
        if !client.properties().supports_type(ElemType::UInt(UIntKind::U64)) {
            return Err(KernelError::Unsupported { what: "has no 64-bit integers".into() });
        }
        Ok(Self {
            // A 64-bit number is two words, the low one first, on all devices.
            indptr: upload(&client, bytemuck::cast_slice(indptr))?,
            indices: upload(&client, indices)?,
            original_ids: upload(&client, original_ids)?,
            client,
            num_rows: original_ids.len(),
            num_edges: indices.len(),
            words_per_piece: WORDS_PER_PIECE,
            stream: StreamId::current(),
        })
    }

    /// Sets the maximum number of neighbors that are drawn at a time, in whole rows. It bounds the memory of a hop on
    /// the device: 4 bytes per neighbor, and five times that for fan-outs above 48. Default: 32 Mi.
    pub fn with_words_per_piece(mut self, words: usize) -> Self {
        self.words_per_piece = words;
        self
    }

    /// Returns the bytes that an edge type takes on a device, without the overhead of the device's allocator.
    pub const fn bytes_of(num_rows: usize, num_edges: usize) -> u64 {
        let words = 2 * (num_rows as u64 + 1) + num_edges as u64 + num_rows as u64;
        words * size_of::<u32>() as u64
    }

    /// Returns the bytes that this edge type takes; see [`DeviceTopology::bytes_of`].
    pub fn num_bytes(&self) -> u64 {
        Self::bytes_of(self.num_rows, self.num_edges)
    }

    /// Returns the number of rows, which are the destinations.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Appends to `out` the number of drawn neighbors of each row of `hop`, followed by the neighbors of all rows, one
    /// row after another, each in the order of its in-edges. Neighbors are entries of `indices`, chosen as
    /// [`HopKernel`](edgecut_graph::HopKernel) defines. The edge type of `hop` is ignored. The call waits for the
    /// device, so it must not be made from async code.
    ///
    /// # Errors
    /// Returns [`HopError::TooLarge`] if `out` would be longer than `max_words`, before anything is drawn, and
    /// [`HopError::Failed`] with a [`KernelError`] for a row that is out of range, or if the device fails.
    pub fn sample_hop(&self, hop: &PlainHop<'_>, max_words: usize, out: &mut Vec<u32>) -> Result<(), HopError> {
        let PlainHop { rows, fanout, replace, key, .. } = *hop;
        if let Some(row) = rows.iter().find(|&&row| row as usize >= self.num_rows) {
            let what = format!("row {row} is out of range: the device has {} rows", self.num_rows);
            return Err(failed(KernelError::Invalid { what }));
        }
        // Without a fan-out all neighbors are taken once, so replacement does not apply.
        let draw = match fanout {
            Fanout::All => Draw { fanout: ALL, replace: false, key },
            Fanout::Count(count) => Draw { fanout: count, replace, key },
        };
        let start = out.len();
        let staged = self.run("count neighbors on the device", || self.count(rows, draw, out))?;
        let counts = &out[start..];
        let words = counts.iter().map(|&count| u64::from(count)).sum::<u64>() + out.len() as u64;
        if words > max_words as u64 {
            return Err(HopError::TooLarge);
        }
        let pieces = pieces(counts, self.words_per_piece);
        out.reserve(words as usize - out.len());
        for piece in pieces.iter().filter(|piece| piece.num_words() > 0) {
            self.run("draw neighbors on the device", || self.draw(&staged, rows.len(), piece, draw, out))?;
        }
        Ok(())
    }

    /// Runs `work` on the stream of this topology, with panics turned into errors.
    fn run<T>(&self, operation: &'static str, work: impl FnOnce() -> Result<T, KernelError>) -> Result<T, HopError> {
        self.stream.executes(|| guarded(operation, work)).map_err(failed)
    }

    /// Appends the number of drawn neighbors of each row. Returns the rows on the device.
    fn count(&self, rows: &[u32], draw: Draw, out: &mut Vec<u32>) -> Result<Handle, KernelError> {
        let staged = stage(&self.client, rows);
        if rows.is_empty() {
            return Ok(staged);
        }
        let counts = self.client.empty(size_of_val(rows));
        // SAFETY: the lengths are those of the arrays; the rows were checked, and there is a unit for each.
        unsafe {
            count_neighbors::launch_unchecked::<R>(
                &self.client,
                cubes(rows.len(), THREADS),
                CubeDim::new_1d(THREADS as u32),
                self.indptr(),
                ArrayArg::from_raw_parts(staged.clone(), rows.len()),
                ArrayArg::from_raw_parts(counts.clone(), rows.len()),
                draw.fanout,
                draw.replace,
            );
        }
        self.read(counts, rows.len(), out)?;
        Ok(staged)
    }

    /// Appends the neighbors of the rows of `piece`. `rows` are all `num_rows` rows of the hop.
    fn draw(
        &self,
        rows: &Handle,
        num_rows: usize,
        piece: &Piece,
        draw: Draw,
        out: &mut Vec<u32>,
    ) -> Result<(), KernelError> {
        let num_words = piece.num_words();
        let arrays = Arrays {
            topology: self,
            draw,
            rows: (rows, num_rows),
            first_row: piece.first_row,
            offsets: (&stage(&self.client, &piece.offsets), piece.offsets.len()),
            num_words,
            by_word: address_type(&self.client, num_words, num_words)?,
            by_edge: address_type(&self.client, self.num_edges, num_words)?,
        };
        let longest = piece.offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
        let positions = match draw.fanout {
            // All rows take all of their neighbors, so positions need not be drawn.
            fanout if longest < fanout => arrays.words(num_words),
            0..=SHORT_FANOUT => arrays.draw_few(),
            // The merge sort doubles widths in 32 bits, which must not overflow.
            _ if i32::try_from(longest).is_ok() => arrays.draw_many(longest),
            fanout => {
                return Err(KernelError::Unsupported { what: format!("cannot draw {fanout} neighbors of a node") });
            }
        };
        arrays.gather(&positions);
        self.read(positions, num_words, out)
    }

    pub(crate) fn indptr(&self) -> ArrayArg<R> {
        // SAFETY: the array has this length.
        unsafe { ArrayArg::from_raw_parts(self.indptr.clone(), self.num_rows + 1) }
    }

    /// Waits for an array of `num_words` words and appends it.
    fn read(&self, words: Handle, num_words: usize, out: &mut Vec<u32>) -> Result<(), KernelError> {
        let operation = "read neighbors from the device";
        let bytes = self.client.read_one(words).map_err(|error| KernelError::failed(operation, &error))?;
        let Some(bytes) = bytes.get(..num_words * size_of::<u32>()) else {
            let why = format!("the device returned {} bytes for {num_words} words", bytes.len());
            return Err(KernelError::Failed { operation, why });
        };
        match bytemuck::try_cast_slice(bytes) {
            Ok(words) => out.extend_from_slice(words),
            Err(_) => out.extend(bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned::<u32>)),
        }
        Ok(())
    }
}

impl Piece {
    fn num_words(&self) -> usize {
        self.offsets.last().map_or(0, |&end| end as usize)
    }
}

/// Cuts a hop's rows into pieces of at most `most` neighbors. A row with more neighbors is a piece of its own.
fn pieces(counts: &[u32], most: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (row, &count) in counts.iter().enumerate() {
        if pieces.last().is_none_or(|piece| piece.num_words() + count as usize > most) {
            pieces.push(Piece { first_row: row, offsets: vec![0] });
        }
        if let Some(piece) = pieces.last_mut() {
            // A piece has either at most `most` neighbors or those of one row, which are fewer than 2^32.
            piece.offsets.push(piece.num_words() as u32 + count);
        }
    }
    pieces
}

/// Checks the shapes that [`DeviceTopology::new`] documents.
fn check_shapes(indptr: &[u64], indices: &[u32], original_ids: &[u32]) -> Result<(), KernelError> {
    let invalid = |what: String| Err(KernelError::Invalid { what });
    if indptr.len() != original_ids.len() + 1 || original_ids.len() >= u32::MAX as usize {
        return invalid(format!("{} offsets do not fit {} rows", indptr.len(), original_ids.len()));
    }
    if indptr.first() != Some(&0) || indptr.last() != Some(&(indices.len() as u64)) {
        return invalid(format!("the offsets of rows do not start at 0 and end at the {} edges", indices.len()));
    }
    let is_degree = |ends: &[u64]| ends[1].checked_sub(ends[0]).is_some_and(|degree| degree < u64::from(ALL));
    match indptr.windows(2).position(|ends| !is_degree(ends)) {
        Some(row) => invalid(format!("row {row} ends before it begins, or has 2^32 - 1 neighbors or more")),
        None => Ok(()),
    }
}

fn failed(error: KernelError) -> HopError {
    HopError::Failed(Box::new(error))
}

/// Counts the drawn neighbors of each row.
#[cube(launch_unchecked)]
fn count_neighbors(
    indptr: &Array<u64>,
    rows: &Array<u32>,
    counts: &mut Array<u32>,
    fanout: u32,
    #[comptime] replace: bool,
) {
    let at = cube_number() * THREADS + UNIT_POS as usize;
    if at < rows.len() {
        let degree = degree_of(indptr, rows[at]);
        let count = if comptime!(replace) { select(degree == 0, 0u32, fanout) } else { min(degree, fanout) };
        counts[at] = count;
    }
}
