//! Short draws of neighbors, a unit for each row: what `Positions::draw` of the CPU finds.

use crate::kernels::grid::{THREADS, cube_number};
use crate::kernels::random::{combine, nth_below};
use crate::kernels::sampling::draw_many::degree_of;
use cubecl::prelude::*;

/// Writes the positions of the neighbors of each row of which some are drawn, ascending, to its stretch of `positions`, which is in
/// order at all times.
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

#[cube]
fn with_replacement(positions: &mut Array<u32>, start: usize, count: u32, degree: u32, key: u64) {
    for drawn in 0..count {
        let position = nth_below(key, drawn, degree);
        let place = first_above(positions, start, drawn, position);
        insert(positions, start, drawn, place, position);
    }
}

/// Floyd's algorithm. What was drawn is in order, so that a look for the place of a position finds it as well.
#[cube]
fn distinct(positions: &mut Array<u32>, start: usize, count: u32, degree: u32, key: u64) {
    for drawn in 0..count {
        let last = degree - count + drawn;
        let position = nth_below(key, drawn, last + 1);
        let place = first_above(positions, start, drawn, position);
        let before = start + max(place, 1u32) as usize - 1;
        let is_drawn = place > 0 && positions[before] == position;
        if is_drawn {
            // Above all that were drawn.
            positions[start + drawn as usize] = last;
        } else {
            insert(positions, start, drawn, place, position);
        }
    }
}

/// Of `count` numbers from `start`, which ascend, the first that is above `value`.
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

/// Puts `value` before number `place` of `count`.
#[cube]
fn insert(positions: &mut Array<u32>, start: usize, count: u32, place: u32, value: u32) {
    let mut at = count;
    while at > place {
        positions[start + at as usize] = positions[start + at as usize - 1];
        at -= 1;
    }
    positions[start + place as usize] = value;
}
