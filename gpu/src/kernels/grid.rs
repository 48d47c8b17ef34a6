//! How work is laid out over a device.

use cubecl::prelude::*;

/// The most cubes along one axis: what CUDA allows in y and z.
const MAX_CUBES: usize = 65_535;
/// Threads of a cube.
pub(crate) const THREADS: usize = 256;

/// As many cubes as `units` need at `per_cube` each, folded over two axes; [`cube_number`] tells them apart. Some at the end
/// may have nothing to do.
pub(crate) fn cubes(units: usize, per_cube: usize) -> CubeCount {
    let cubes = units.div_ceil(per_cube).max(1);
    let x = cubes.min(MAX_CUBES);
    CubeCount::Static(x as u32, cubes.div_ceil(x) as u32, 1)
}

/// A thread for each of `units` values, which [`unit_number`] tells apart.
pub(crate) fn threads(units: usize) -> (CubeCount, CubeDim) {
    (cubes(units, THREADS), CubeDim::new_1d(THREADS as u32))
}

/// A few threads, side by side, for each of `rows` rows of `lanes` vectors; [`row_number`] tells rows apart.
pub(crate) fn rows(rows: usize, lanes: usize) -> (CubeCount, CubeDim) {
    let across = lanes.next_power_of_two().min(THREADS);
    let rows_per_cube = THREADS / across;
    (cubes(rows, rows_per_cube), CubeDim::new_2d(across as u32, rows_per_cube as u32))
}

/// Threads that cubes folded over two axes have more than there is work: fewer than a row of cubes.
pub(crate) const IDLE_THREADS: usize = 1 << 24;

/// How a launch counts elements: in 64 bits where its largest buffer needs them.
pub(crate) fn addresses(lengths: &[usize]) -> AddressType {
    AddressType::from_len(lengths.iter().copied().max().unwrap_or(0).saturating_add(IDLE_THREADS))
}

/// The number of this cube.
#[cube]
pub(crate) fn cube_number() -> usize {
    CUBE_POS_Y as usize * CUBE_COUNT_X as usize + CUBE_POS_X as usize
}

/// The number of this thread.
#[cube]
pub(crate) fn unit_number() -> usize {
    cube_number() * CUBE_DIM_X as usize + UNIT_POS_X as usize
}

/// The row that this thread works on.
#[cube]
pub(crate) fn row_number() -> usize {
    cube_number() * CUBE_DIM_Y as usize + UNIT_POS_Y as usize
}
