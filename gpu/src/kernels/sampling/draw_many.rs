//! Draws of many neighbors per row, one neighbor per unit. They give what `Positions::draw` gives on the CPU.
//!
//! Draw `j` of `count` from a list of `degree` neighbors takes a random position `t(j)` in `0..=last(j)`, where
//! `last(j)` is `degree - count + j`. Without replacement Floyd's algorithm takes `last(j)` instead if `t(j)` was taken
//! before, which seems to need all earlier draws. But `t(j)` was taken before if and only if an earlier draw has the
//! same random position, or it is `last(i)` of an earlier draw `i` that took `last(i)`. So each unit follows this chain
//! of draws until one decides, after about `ln(count)` steps. The first draw of a position is found by bisection in the
//! draws, sorted by position. No kernel here loops over a row's neighbors, and no result depends on the order in which
//! units run.

use crate::kernels::grid::{THREADS, cube_number};
use crate::kernels::random::{combine, nth_below};
use cubecl::prelude::*;

/// Returns the last row that begins at `word` or before, counted within the piece. Rows without neighbors begin where
/// the next row does, and so are never returned.
#[cube]
pub(crate) fn row_of(offsets: &Array<u32>, num_rows: usize, word: u32) -> usize {
    let mut low = 0usize;
    let mut high = num_rows;
    while high - low > 1 {
        let middle = (low + high) / 2;
        if offsets[middle] <= word {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Returns the number of in-neighbors of a row of a part.
#[cube]
pub(crate) fn degree_of(indptr: &Array<u64>, row: u32) -> u32 {
    u32::cast_from(indptr[row as usize + 1] - indptr[row as usize])
}

/// Computes the random position of each drawn neighbor, and without replacement the number of its draw.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(crate) fn draw_each(
    indptr: &Array<u64>,
    original_ids: &Array<u32>,
    rows: &Array<u32>,
    offsets: &Array<u32>,
    positions: &mut Array<u32>,
    draws: &mut Array<u32>,
    first_row: usize,
    num_rows: usize,
    key: u64,
    #[comptime] replace: bool,
) {
    let at = cube_number() * THREADS + UNIT_POS as usize;
    if at < positions.len() {
        let within = row_of(offsets, num_rows, at as u32);
        let row = rows[first_row + within];
        let degree = degree_of(indptr, row);
        let count = offsets[within + 1] - offsets[within];
        let draw = at as u32 - offsets[within];
        let key = combine(key, u64::cast_from(original_ids[row as usize]));
        if comptime!(replace) {
            positions[at] = nth_below(key, draw, degree);
        } else {
            // Also for rows that take all neighbors: the sort uses draws as indices, so they must be in range.
            draws[at] = draw;
            if count < degree {
                positions[at] = nth_below(key, draw, degree - count + draw + 1);
            }
        }
    }
}

/// Computes the position that each draw takes. The `draws` of each row are sorted by their random position, and stably
/// for equal ones.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(crate) fn resolve(
    indptr: &Array<u64>,
    rows: &Array<u32>,
    offsets: &Array<u32>,
    positions: &Array<u32>,
    draws: &Array<u32>,
    taken: &mut Array<u32>,
    first_row: usize,
    num_rows: usize,
) {
    let at = cube_number() * THREADS + UNIT_POS as usize;
    if at < positions.len() {
        let within = row_of(offsets, num_rows, at as u32);
        let start = offsets[within] as usize;
        let count = offsets[within + 1] - offsets[within];
        let degree = degree_of(indptr, rows[first_row + within]);
        if count < degree {
            // The last position of draw 0.
            let base = degree - count;
            let own = at as u32 - offsets[within];
            let mut draw = own;
            let mut takes_last = false;
            let mut looking = true;
            while looking {
                let position = positions[start + draw as usize];
                takes_last = first_draw(positions, draws, start, count, position) < draw;
                // An earlier draw has this position as its last one. It decides whether the position was taken.
                looking = !takes_last && position >= base && position < base + draw;
                if looking {
                    draw = position - base;
                }
            }
            taken[at] = select(takes_last, base + own, positions[at]);
        }
    }
}

/// Returns the first draw with this random position, which at least one has.
#[cube]
fn first_draw(positions: &Array<u32>, draws: &Array<u32>, start: usize, count: u32, position: u32) -> u32 {
    let mut low = 0u32;
    let mut high = count;
    while low < high {
        let middle = (low + high) / 2;
        if positions[start + draws[start + middle as usize] as usize] < position {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    draws[start + low as usize]
}

/// Does one step of a merge sort, in the rows of which `fanout` neighbors are drawn: pairs of ascending stretches of
/// `width` positions become ascending stretches of twice that length. With `of_draws` it sorts draws by their
/// `positions`. Each unit places one element: it counts by bisection how many elements of the other stretch come before
/// it. Among equal elements those of the left stretch come first, so the sort is stable.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(crate) fn merge(
    offsets: &Array<u32>,
    positions: &Array<u32>,
    from: &Array<u32>,
    to: &mut Array<u32>,
    num_rows: usize,
    fanout: u32,
    width: u32,
    #[comptime] of_draws: bool,
) {
    let at = cube_number() * THREADS + UNIT_POS as usize;
    if at < from.len() {
        let within = row_of(offsets, num_rows, at as u32);
        let start = offsets[within] as usize;
        let count = offsets[within + 1] - offsets[within];
        // A row with fewer takes all its neighbors and is not sorted.
        if count == fanout {
            let value = from[at];
            let position = position_of(positions, start, value, of_draws);
            let own = at as u32 - offsets[within];
            let stretch = own / width;
            let side = stretch % 2;
            let begin = (stretch - side) * width;
            // The other stretch of the pair, which may be shorter or empty.
            let other = min(begin + (1 - side) * width, count);
            let mut low = other;
            let mut high = min(other + width, count);
            while low < high {
                let middle = (low + high) / 2;
                let there = position_of(positions, start, from[start + middle as usize], of_draws);
                if there < position || (there == position && side == 1) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            to[start + (begin + own % width + low - other) as usize] = value;
        }
    }
}

/// Returns the sort key of an element.
#[cube]
fn position_of(positions: &Array<u32>, start: usize, value: u32, #[comptime] of_draws: bool) -> u32 {
    let mut position = value;
    if comptime!(of_draws) {
        position = positions[start + value as usize];
    }
    position
}
