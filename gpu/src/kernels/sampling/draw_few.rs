//! Draws of few neighbors per row, one row per unit. They give what `Positions::draw` gives on the CPU.

use crate::kernels::grid::{THREADS, cube_number};
use crate::kernels::random::{combine, nth_below};
use crate::kernels::sampling::draw_many::degree_of;
use cubecl::prelude::*;

/// Draws for each row with more neighbors than its count. Writes the positions of the drawn neighbors, ascending, to
/// the row's stretch of `positions`, which is kept sorted during the draw.
#[cube(launch_unchecked)]
pub(crate) fn draw_few(
    indptr: &Array<u64>,
    original_ids: &Array<u32>,
    rows: &Array<u32>,
    offsets: &Array<u32>,
    positions: &mut Array<u32>,
    first_row: usize,
    num_rows: usize,
    key: u64,
    #[comptime] replace: bool,
) {
    let at = cube_number() * THREADS + UNIT_POS as usize;
    if at < num_rows {
        let row = rows[first_row + at];
        let degree = degree_of(indptr, row);
        let start = offsets[at] as usize;
        let count = offsets[at + 1] - offsets[at];
        let key = combine(key, u64::cast_from(original_ids[row as usize]));
        if comptime!(replace) {
            with_replacement(positions, start, count, degree, key);
        } else if count < degree {
            distinct(positions, start, count, degree, key);
        }
    }
}

/// Draws `count` positions with replacement, by insertion sort.
#[cube]
fn with_replacement(positions: &mut Array<u32>, start: usize, count: u32, degree: u32, key: u64) {
    for drawn in 0..count {
        let position = nth_below(key, drawn, degree);
        let place = first_above(positions, start, drawn, position);
        insert(positions, start, drawn, place, position);
    }
}

/// Draws `count` distinct positions by Floyd's algorithm. Drawn positions are kept sorted, so the search for the
/// insertion point of a position also finds the position itself.
#[cube]
fn distinct(positions: &mut Array<u32>, start: usize, count: u32, degree: u32, key: u64) {
    for drawn in 0..count {
        let last = degree - count + drawn;
        let position = nth_below(key, drawn, last + 1);
        let place = first_above(positions, start, drawn, position);
        // The maximum keeps the index in range for `place` 0, since both sides of `&&` are computed.
        let before = start + max(place, 1u32) as usize - 1;
        let is_drawn = place > 0 && positions[before] == position;
        if is_drawn {
            // `last` is larger than all earlier positions.
            positions[start + drawn as usize] = last;
        } else {
            insert(positions, start, drawn, place, position);
        }
    }
}

/// Returns the first of `count` ascending numbers from `start` that is above `value`.
#[cube]
fn first_above(positions: &Array<u32>, start: usize, count: u32, value: u32) -> u32 {
    let mut low = 0u32;
    let mut high = count;
    while low < high {
        let middle = (low + high) / 2;
        if positions[start + middle as usize] <= value {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Inserts `value` before number `place` of `count`.
#[cube]
fn insert(positions: &mut Array<u32>, start: usize, count: u32, place: u32, value: u32) {
    let mut at = count;
    while at > place {
        positions[start + at as usize] = positions[start + at as usize - 1];
        at -= 1;
    }
    positions[start + place as usize] = value;
}
