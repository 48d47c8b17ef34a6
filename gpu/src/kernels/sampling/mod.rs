//! Draws in-neighbors on a device.

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
use edgecut_graph::HopError;

/// Words of neighbors that are drawn at a time.
const WORDS_PER_PIECE: usize = 32 << 20;
/// What stands for no fan-out: no row has as many neighbors.
const ALL: u32 = u32::MAX;

/// One edge type's in-edges on a device: the compressed sparse columns, and the original ids of their rows, the destinations.
///
/// ```no_run
/// # fn sample<R: cubecl::Runtime>(client: cubecl::client::ComputeClient<R>) -> Result<(), Box<dyn std::error::Error>> {
/// use edgecut_gpu::DeviceTopology;
/// let edges = DeviceTopology::<R>::new(client, &[0, 2, 2], &[7, 9], &[0, 1])?;
/// let mut out = Vec::new();
/// edges.sample_hop(&[0, 1], None, false, 0, usize::MAX, &mut out)?;
/// assert_eq!(out, [2, 0, 7, 9]);
/// # Ok(())
/// # }
/// ```
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

/// How a hop is drawn.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    /// The most neighbors of a row; [`ALL`] for all.
    pub(crate) fanout: u32,
    pub(crate) replace: bool,
    pub(crate) key: u64,
}

/// Some of a hop's rows, and where their neighbors begin among those of the piece, one more than there are rows.
struct Piece {
    first_row: usize,
    offsets: Vec<u32>,
}

impl<R: Runtime> DeviceTopology<R> {
    /// Copies the in-edges to the device. All hops will run on the stream of the calling thread, whichever threads ask for them: a
    /// stream keeps memory of its own, and each thread has one.
    ///
    /// # Shapes
    /// `indptr` has a number more than there are rows: it begins with 0, never decreases, and ends with the number of
    /// `indices`; `original_ids` has one for each row. A row has fewer than 2^32 - 1 neighbors.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] for other shapes, [`KernelError::Unsupported`] if the device has no integers of 64 bits or holds no
    /// array as long as `indices`, and [`KernelError::Failed`] if it fails, for lack of memory, say.
    pub fn new(
        client: ComputeClient<R>,
        indptr: &[u64],
        indices: &[u32],
        original_ids: &[u32],
    ) -> Result<Self, KernelError> {
        check_shapes(indptr, indices, original_ids)?;
        if !client.properties().supports_type(ElemType::UInt(UIntKind::U64)) {
            return Err(KernelError::Unsupported { what: "has no integers of 64 bits".into() });
        }
        Ok(Self {
            // A number of 64 bits is two words, the low one first, on all devices.
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

    /// Draws up to `words` neighbors at a time, of whole rows, which bounds the memory that a hop takes on the device: 4 bytes for
    /// each of them, and with fan-outs above 48 five times that. Default: 32 Mi.
    pub fn with_words_per_piece(mut self, words: usize) -> Self {
        self.words_per_piece = words;
        self
    }

    /// Bytes that an edge type takes on a device, but for what the device's allocator adds.
    pub const fn bytes_of(num_rows: usize, num_edges: usize) -> u64 {
        let words = 2 * (num_rows as u64 + 1) + num_edges as u64 + num_rows as u64;
        words * size_of::<u32>() as u64
    }

    /// Bytes that this one takes; see [`DeviceTopology::bytes_of`].
    pub fn num_bytes(&self) -> u64 {
        Self::bytes_of(self.num_rows, self.num_edges)
    }

    /// Rows, which are the destinations.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Appends to `out` the number of neighbors drawn for each of `rows`, then the neighbors of all rows end to end, each row's in
    /// the order of its in-edges: `indices` of the rows, as [`HopKernel`](edgecut_graph::HopKernel) says which. `fanout` is the
    /// most neighbors of a row, or `None` for all, each once; `key` names the random numbers. Waits for the device; must not be
    /// called from async code.
    ///
    /// # Errors
    /// [`HopError::TooLarge`] if `out` would be longer than `max_words`, before anything is drawn; [`HopError::Failed`] with a
    /// [`KernelError`] for a row that is out of range, or if the device fails.
    pub fn sample_hop(
        &self,
        rows: &[u32],
        fanout: Option<u32>,
        replace: bool,
        key: u64,
        max_words: usize,
        out: &mut Vec<u32>,
    ) -> Result<(), HopError> {
        if let Some(row) = rows.iter().find(|&&row| row as usize >= self.num_rows) {
            let what = format!("row {row} was asked for of {} on the device", self.num_rows);
            return Err(failed(KernelError::Invalid { what }));
        }
        // A fan-out that is no bound draws without replacement what all neighbors are.
        let draw = Draw { fanout: fanout.unwrap_or(ALL), replace: replace && fanout.is_some(), key };
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

    fn run<T>(&self, operation: &'static str, work: impl FnOnce() -> Result<T, KernelError>) -> Result<T, HopError> {
        self.stream.executes(|| guarded(operation, work)).map_err(failed)
    }

    /// Appends the number of neighbors of each row. Gives back the rows on the device.
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

    /// Appends the neighbors of the rows of `piece`; `rows` are all of the hop, `num_rows` of them.
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
            // All rows take all of their neighbors.
            fanout if longest < fanout => arrays.words(num_words),
            0..=SHORT_FANOUT => arrays.draw_few(),
            _ if i32::try_from(longest).is_ok() => arrays.draw_many(longest),
            fanout => {
                return Err(KernelError::Unsupported { what: format!("draws no {fanout} neighbors of a node") });
            }
        };
        arrays.gather(&positions);
        self.read(positions, num_words, out)
    }

    pub(crate) fn indptr(&self) -> ArrayArg<R> {
        // SAFETY: that is its length.
        unsafe { ArrayArg::from_raw_parts(self.indptr.clone(), self.num_rows + 1) }
    }

    /// Waits for an array of `num_words` and appends it.
    fn read(&self, words: Handle, num_words: usize, out: &mut Vec<u32>) -> Result<(), KernelError> {
        let operation = "read neighbors from the device";
        let bytes = self.client.read_one(words).map_err(|error| KernelError::failed(operation, &error))?;
        let Some(bytes) = bytes.get(..num_words * size_of::<u32>()) else {
            let why = format!("{} bytes came back for {num_words} words", bytes.len());
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

/// Cuts a hop's rows into pieces of up to `most` neighbors; a row that has more is a piece of its own.
fn pieces(counts: &[u32], most: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (row, &count) in counts.iter().enumerate() {
        let fits = |piece: &Piece| piece.num_words() + count as usize <= most;
        if !pieces.last().is_some_and(fits) {
            pieces.push(Piece { first_row: row, offsets: vec![0] });
        }
        if let Some(piece) = pieces.last_mut() {
            // A piece has either up to `most` neighbors or those of a row, which are fewer than 2^32.
            piece.offsets.push(piece.num_words() as u32 + count);
        }
    }
    pieces
}

fn check_shapes(indptr: &[u64], indices: &[u32], original_ids: &[u32]) -> Result<(), KernelError> {
    let invalid = |what: String| Err(KernelError::Invalid { what });
    if indptr.len() != original_ids.len() + 1 || original_ids.len() >= u32::MAX as usize {
        return invalid(format!("{} offsets do not belong to {} rows", indptr.len(), original_ids.len()));
    }
    if indptr.first() != Some(&0) || indptr.last() != Some(&(indices.len() as u64)) {
        return invalid(format!("the offsets of rows do not go from 0 to the {} edges", indices.len()));
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

/// A unit for each row: how many neighbors are drawn.
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
