//! The launches that draw a piece of a hop.

use crate::kernels::grid::{THREADS, cube_number, cubes};
use crate::kernels::sampling::draw_few::draw_few;
use crate::kernels::sampling::draw_many::{degree_of, draw_each, merge, resolve, row_of};
use crate::kernels::sampling::{DeviceTopology, Draw};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Up to this fan-out, a unit draws all neighbors of a row.
pub(crate) const SHORT_FANOUT: u32 = 48;

/// What the kernels of a piece read.
pub(crate) struct Arrays<'a, R: Runtime> {
    pub(crate) topology: &'a DeviceTopology<R>,
    pub(crate) draw: Draw,
    /// The rows of the hop, and how many.
    pub(crate) rows: (&'a Handle, usize),
    pub(crate) first_row: usize,
    /// The offsets of the piece's rows, and how many.
    pub(crate) offsets: (&'a Handle, usize),
    pub(crate) num_words: usize,
    /// Of kernels with a unit for each neighbor.
    pub(crate) by_word: AddressType,
    /// Of those that read all edges.
    pub(crate) by_edge: AddressType,
}

/// An argument of a kernel that is an array of so many elements.
fn array<R: Runtime>((handle, len): (&Handle, usize)) -> ArrayArg<R> {
    // SAFETY: all arrays are made with the lengths that they are given with.
    unsafe { ArrayArg::from_raw_parts(handle.clone(), len) }
}

// SAFETY of all launches: offsets ascend up to `num_words`, and are as many for a row as `count_neighbors` has counted, so that
// each unit stays in what is its own; rows were checked, and positions are below the in-degree.
impl<R: Runtime> Arrays<'_, R> {
    pub(crate) fn words(&self, num_words: usize) -> Handle {
        self.topology.client.empty(num_words * size_of::<u32>())
    }

    fn num_rows(&self) -> usize {
        self.offsets.1 - 1
    }

    fn original_ids(&self) -> ArrayArg<R> {
        array((&self.topology.original_ids, self.topology.num_rows))
    }

    /// Positions of drawn neighbors, a unit for each row.
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

    /// Positions of drawn neighbors, a unit for each of them; `longest` are the most of a row.
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
        let draws = self.sort(draws, Some(&positions), longest);
        self.sort(self.resolve(&positions, &draws), None, longest)
    }

    /// The positions that draws take, which are sorted by their random positions.
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

    /// Sorts what each row has: positions, or draws by their positions, of which a row has up to `longest`.
    fn sort(&self, mut sorted: Handle, positions: Option<&Handle>, longest: u32) -> Handle {
        let mut other = self.words(self.num_words);
        let widths = std::iter::successors(Some(1_u32), |width| width.checked_mul(2));
        for width in widths.take_while(|&width| width < longest) {
            // SAFETY: see above; where positions are sorted, no others are read.
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

    /// Makes neighbors of positions, where they are.
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

/// A unit for each neighbor: takes it from the list, so that the lists of hubs are copied by many. `neighbors` holds the
/// positions of those rows of which some are drawn.
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
