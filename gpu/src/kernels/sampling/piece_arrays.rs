//! The launches of the kernels that draw a piece of a hop.

use crate::kernels::grid::{THREADS, cube_number, cubes};
use crate::kernels::sampling::draw_few::draw_few;
use crate::kernels::sampling::draw_many::{degree_of, draw_each, merge, resolve, row_of};
use crate::kernels::sampling::{DeviceTopology, Draw};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// The largest fan-out for which one unit draws all neighbors of a row.
pub(crate) const SHORT_FANOUT: u32 = 48;

/// The inputs of the kernels of a piece.
pub(crate) struct Arrays<'a, R: Runtime> {
    pub(crate) topology: &'a DeviceTopology<R>,
    pub(crate) draw: Draw,
    /// The rows of the hop, and their number.
    pub(crate) rows: (&'a Handle, usize),
    pub(crate) first_row: usize,
    /// The offsets of the piece's rows, and their number.
    pub(crate) offsets: (&'a Handle, usize),
    /// The number of drawn neighbors of the piece.
    pub(crate) num_words: usize,
    /// The index type of kernels with a unit for each neighbor.
    pub(crate) by_word: AddressType,
    /// The index type of kernels that read all edges.
    pub(crate) by_edge: AddressType,
}

/// Returns an array of `len` elements as an argument of a kernel.
fn array<R: Runtime>((handle, len): (&Handle, usize)) -> ArrayArg<R> {
    // SAFETY: every array is passed with the length that it was allocated with.
    unsafe { ArrayArg::from_raw_parts(handle.clone(), len) }
}

// SAFETY of all launches: offsets ascend to `num_words`, and give each row the count of `count_neighbors`, so that each
// unit writes only its own elements. Rows were checked, and positions are below the in-degree.
impl<R: Runtime> Arrays<'_, R> {
    /// Allocates an array of `num_words` words.
    pub(crate) fn words(&self, num_words: usize) -> Handle {
        self.topology.client.empty(num_words * size_of::<u32>())
    }

    fn num_rows(&self) -> usize {
        self.offsets.1 - 1
    }

    fn original_ids(&self) -> ArrayArg<R> {
        array((&self.topology.original_ids, self.topology.num_rows))
    }

    /// Draws positions of neighbors, one row per unit.
    pub(crate) fn draw_few(&self) -> Handle {
        let positions = self.words(self.num_words);
        // SAFETY: see above.
        unsafe {
            draw_few::launch_unchecked::<R>(
                &self.topology.client,
                cubes(self.num_rows(), THREADS),
                CubeDim::new_1d(THREADS as u32),
                self.topology.indptr(),
                self.original_ids(),
                array(self.rows),
                array(self.offsets),
                array((&positions, self.num_words)),
                self.first_row,
                self.num_rows(),
                self.draw.key,
                self.draw.replace,
            );
        }
        positions
    }

    /// Draws positions of neighbors, one neighbor per unit; `longest` is the maximum number of neighbors drawn in a
    /// row.
    pub(crate) fn draw_many(&self, longest: u32) -> Handle {
        let replace = self.draw.replace;
        let positions = self.words(self.num_words);
        let draws = self.words(if replace { 1 } else { self.num_words });
        // SAFETY: see above.
        unsafe {
            draw_each::launch_unchecked::<R>(
                &self.topology.client,
                cubes(self.num_words, THREADS),
                CubeDim::new_1d(THREADS as u32),
                self.by_word,
                self.topology.indptr(),
                self.original_ids(),
                array(self.rows),
                array(self.offsets),
                array((&positions, self.num_words)),
                array((&draws, if replace { 1 } else { self.num_words })),
                self.first_row,
                self.num_rows(),
                self.draw.key,
                replace,
            );
        }
        if replace {
            return self.sort(positions, None, longest);
        }
        // The draws sorted by position give the first draw of each position; then the taken positions are sorted for
        // the output.
        let draws = self.sort(draws, Some(&positions), longest);
        self.sort(self.resolve(&positions, &draws), None, longest)
    }

    /// Computes the positions that draws take. The draws are sorted by their random positions.
    fn resolve(&self, positions: &Handle, draws: &Handle) -> Handle {
        let taken = self.words(self.num_words);
        // SAFETY: see above.
        unsafe {
            resolve::launch_unchecked::<R>(
                &self.topology.client,
                cubes(self.num_words, THREADS),
                CubeDim::new_1d(THREADS as u32),
                self.by_word,
                self.topology.indptr(),
                array(self.rows),
                array(self.offsets),
                array((positions, self.num_words)),
                array((draws, self.num_words)),
                array((&taken, self.num_words)),
                self.first_row,
                self.num_rows(),
            );
        }
        taken
    }

    /// Sorts the positions of each row, or its draws by their positions. A row has at most `longest` of them.
    fn sort(&self, mut sorted: Handle, positions: Option<&Handle>, longest: u32) -> Handle {
        let mut other = self.words(self.num_words);
        let widths = std::iter::successors(Some(1_u32), |width| width.checked_mul(2));
        for width in widths.take_while(|&width| width < longest) {
            // SAFETY: see above. When positions are sorted, the kernel reads no other positions.
            unsafe {
                merge::launch_unchecked::<R>(
                    &self.topology.client,
                    cubes(self.num_words, THREADS),
                    CubeDim::new_1d(THREADS as u32),
                    self.by_word,
                    array(self.offsets),
                    positions.map_or_else(|| array(self.offsets), |positions| array((positions, self.num_words))),
                    array((&sorted, self.num_words)),
                    array((&other, self.num_words)),
                    self.num_rows(),
                    self.draw.fanout,
                    width,
                    positions.is_some(),
                );
            }
            std::mem::swap(&mut sorted, &mut other);
        }
        sorted
    }

    /// Replaces positions by neighbors, in place.
    pub(crate) fn gather(&self, positions: &Handle) {
        let num_edges = self.topology.num_edges;
        // SAFETY: see above.
        unsafe {
            gather::launch_unchecked::<R>(
                &self.topology.client,
                cubes(self.num_words, THREADS),
                CubeDim::new_1d(THREADS as u32),
                self.by_edge,
                self.topology.indptr(),
                array((&self.topology.indices, num_edges)),
                array(self.rows),
                array(self.offsets),
                array((positions, self.num_words)),
                self.first_row,
                self.num_rows(),
                self.draw.replace,
            );
        }
    }
}

/// Replaces each position by the neighbor at it, one per unit, so that many units copy the lists of hubs. For rows that
/// take all neighbors, `neighbors` holds nothing yet, and positions are counted.
#[cube(launch_unchecked, address_type = "dynamic")]
fn gather(
    indptr: &Array<u64>,
    indices: &Array<u32>,
    rows: &Array<u32>,
    offsets: &Array<u32>,
    neighbors: &mut Array<u32>,
    first_row: usize,
    num_rows: usize,
    #[comptime] replace: bool,
) {
    let at = cube_number() * THREADS + UNIT_POS as usize;
    if at < neighbors.len() {
        let word = at as u32;
        let within = row_of(offsets, num_rows, word);
        let row = rows[first_row + within];
        let start = offsets[within];
        let is_drawn = comptime!(replace) || offsets[within + 1] - start < degree_of(indptr, row);
        let position = select(is_drawn, neighbors[at], word - start);
        neighbors[at] = indices[usize::cast_from(indptr[row as usize]) + position as usize];
    }
}
