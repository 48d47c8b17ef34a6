//! How work is laid out over a device.

use cubecl::prelude::*;

/// The most cubes along one axis: what CUDA allows in y and z, and Vulkan in all.
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

/// The number of this cube.
#[cube]
pub(crate) fn cube_number() -> usize {
    CUBE_POS_Y as usize * CUBE_COUNT_X as usize + CUBE_POS_X as usize
}
