//! The counter-based random numbers of the CPU (SplitMix64), on the device.

use cubecl::prelude::*;

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64.
#[cube]
pub(crate) fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30u64)) * 0xbf58_476d_1ce4_e5b9u64;
    let z = (z ^ (z >> 27u64)) * 0x94d0_49bb_1331_11ebu64;
    z ^ (z >> 31u64)
}

/// Draw number `n`, from 0, of the sequence that `key` names.
#[cube]
pub(crate) fn nth(key: u64, n: u64) -> u64 {
    mix(key + (n + 1u64) * GAMMA)
}
