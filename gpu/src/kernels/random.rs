//! The random numbers of `edgecut_graph::rng`, with the same bits, in kernels.

use cubecl::prelude::*;

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Computes [`edgecut_graph::rng::mix`].
#[cube]
pub(crate) fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30u64)) * 0xbf58_476d_1ce4_e5b9u64;
    let z = (z ^ (z >> 27u64)) * 0x94d0_49bb_1331_11ebu64;
    z ^ (z >> 31u64)
}

/// Computes [`edgecut_graph::rng::combine`].
#[cube]
pub(crate) fn combine(key: u64, value: u64) -> u64 {
    mix((key + GAMMA) ^ mix(value + GAMMA))
}

/// Computes [`edgecut_graph::rng::CounterRng::nth`] of the sequence of `key`.
#[cube]
pub(crate) fn nth(key: u64, n: u64) -> u64 {
    mix(key + (n + 1u64) * GAMMA)
}

/// Computes the result of call `n`, counted from 0, of [`edgecut_graph::rng::CounterRng::below`] for the sequence of
/// `key`. It takes two products by 32 bits, because not every runtime has the upper half of a 64-bit product.
#[cube]
pub(crate) fn nth_below(key: u64, n: u32, bound: u32) -> u32 {
    let bits = nth(key, u64::cast_from(n));
    let bound = u64::cast_from(bound);
    let low = (bits & 0xffff_ffffu64) * bound;
    let high = (bits >> 32u64) * bound;
    u32::cast_from((high + (low >> 32u64)) >> 32u64)
}
