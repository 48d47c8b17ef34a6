//! The layout of work over a device.

use cubecl::prelude::*;

/// The maximum number of cubes along one axis: CUDA's limit in y and z.
const MAX_CUBES: usize = 65_535;
/// The number of threads of a cube.
pub(crate) const THREADS: usize = 256;

/// Returns as many cubes as `units` need at `per_cube` each, folded over two axes; [`cube_number`] numbers them. Some
/// cubes at the end may have nothing to do.
pub(crate) fn cubes(units: usize, per_cube: usize) -> CubeCount {
    let cubes = units.div_ceil(per_cube).max(1);
    let x = cubes.min(MAX_CUBES);
    CubeCount::Static(x as u32, cubes.div_ceil(x) as u32, 1)
}

/// Returns a layout with a thread for each of `units` values; [`unit_number`] numbers them.
pub(crate) fn threads(units: usize) -> (CubeCount, CubeDim) {
    (cubes(units, THREADS), CubeDim::new_1d(THREADS as u32))
}

/// Returns a layout with adjacent threads for each of `rows` rows of `lanes` vectors; [`row_number`] numbers the rows.
pub(crate) fn rows(rows: usize, lanes: usize) -> (CubeCount, CubeDim) {
    let across = lanes.next_power_of_two().min(THREADS);
    let rows_per_cube = THREADS / across;
    (cubes(rows, rows_per_cube), CubeDim::new_2d(across as u32, rows_per_cube as u32))
}

/// A bound on the threads without work in cubes that are folded over two axes: fewer than one row of cubes has.
pub(crate) const IDLE_THREADS: usize = 1 << 24;

/// Returns the index type of a launch: 64 bits if its largest buffer needs them.
pub(crate) fn addresses(lengths: &[usize]) -> AddressType {
    AddressType::from_len(lengths.iter().copied().max().unwrap_or(0).saturating_add(IDLE_THREADS))
}

/// Returns the number of this cube.
#[cube]
pub(crate) fn cube_number() -> usize {
    CUBE_POS_Y as usize * CUBE_COUNT_X as usize + CUBE_POS_X as usize
}

/// Returns the number of this thread.
#[cube]
pub(crate) fn unit_number() -> usize {
    cube_number() * CUBE_DIM_X as usize + UNIT_POS_X as usize
}

/// Returns the row that this thread works on.
#[cube]
pub(crate) fn row_number() -> usize {
    cube_number() * CUBE_DIM_Y as usize + UNIT_POS_Y as usize
}
