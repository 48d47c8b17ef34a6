//! The check that a device draws the same as the CPU.

use crate::kernels::error::KernelError;
use crate::kernels::sampling::DeviceTopology;
use cubecl::prelude::*;
use edgecut_graph::Fanout::{self, All, Count};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeTypeId, HopError, PlainHop};
use std::collections::BTreeSet;

const KEY: u64 = 0x9d2c_5680_efc6_0000;

/// Draws from a small graph in all ways and compares the results with the CPU's. The runtime drops launches whose
/// compilation panics, and still returns the arrays that they should have filled. So a device can be wrong without an
/// error.
///
/// # Errors
/// Returns [`KernelError::Failed`] if the device draws something else than the CPU, or an error of the device.
pub(crate) fn check<R: Runtime>(client: &ComputeClient<R>) -> Result<(), KernelError> {
    // No neighbors, fewer than any fan-out, and more than the short and long ones.
    let indptr = [0, 0, 3, 503, 563];
    let original_ids = [7, 1 << 31, 40, 5];
    let indices: Vec<u32> = (0..563_u32).map(|edge| edge.wrapping_mul(7_654_321)).collect();
    let topology = DeviceTopology::<R>::new(client.clone(), &indptr, &indices, &original_ids)?;
    for (fanout, replace) in [(Count(5), false), (Count(5), true), (Count(60), false), (Count(60), true), (All, false)]
    {
        let mut counts = Vec::new();
        let mut neighbors = Vec::new();
        for (ends, &id) in indptr.windows(2).zip(&original_ids) {
            let list = &indices[ends[0] as usize..ends[1] as usize];
            let drawn = positions(list.len() as u32, fanout, replace, combine(KEY, u64::from(id)));
            counts.push(drawn.len() as u32);
            neighbors.extend(drawn.into_iter().map(|position| list[position as usize]));
        }
        let mut found = Vec::new();
        let hop = PlainHop { edge_type: EdgeTypeId(0), rows: &[0, 1, 2, 3], fanout, replace, key: KEY };
        let drawn = topology.sample_hop(&hop, usize::MAX, &mut found);
        let operation = "check what the device draws";
        drawn.map_err(|error| match error {
            HopError::Failed(cause) => KernelError::Failed { operation, why: cause.to_string() },
            HopError::TooLarge => KernelError::Failed { operation, why: error.to_string() },
        })?;
        if found != [counts, neighbors].concat() {
            let why =
                format!("with a fan-out of {fanout:?} and replacement {replace} it differs from what the CPU draws");
            return Err(KernelError::Failed { operation, why });
        }
    }
    Ok(())
}

/// Returns the positions of drawn neighbors, ascending, as a slow and obvious reference.
fn positions(degree: u32, fanout: Fanout, replace: bool, key: u64) -> Vec<u32> {
    let mut rng = CounterRng::new(key);
    match fanout {
        Count(fanout) if replace && degree > 0 => {
            let mut drawn: Vec<u32> = (0..fanout).map(|_| rng.below(u64::from(degree)) as u32).collect();
            drawn.sort_unstable();
            drawn
        }
        Count(fanout) if fanout < degree => {
            let mut drawn = BTreeSet::new();
            for last in degree - fanout..degree {
                let at = rng.below(u64::from(last) + 1) as u32;
                if !drawn.insert(at) {
                    drawn.insert(last);
                }
            }
            drawn.into_iter().collect()
        }
        _ => (0..degree).collect(),
    }
}
