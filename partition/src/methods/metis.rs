//! The METIS method. It checks everything that METIS itself does not check.

use crate::PartitionError;
use crate::methods::constraints::Constraints;
use crate::own_folder;
use ::metis::option::{Opt, Seed, UFactor};
use edgecut_graph::part_writer::Groups;
use edgecut_graph::rng::CounterRng;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Mutex;

/// A lock for METIS, which draws from the C library's only generator (`rand`): two concurrent runs would disturb each
/// other's choices.
static METIS: Mutex<()> = Mutex::new(());

/// The imbalance that METIS allows by default for k-way partitioning, in thousandths. Its own default for bisections is
/// so tight that it cuts communities to gain one percent of balance.
const KWAY_IMBALANCE: i32 = 30;

/// The index of METIS's option that writes graphs to disk while it coarsens them, `METIS_OPTION_ONDISK`. The crate `metis` has
/// no name for it.
const ON_DISK: usize = 10;

/// A symmetric graph that may have weights of edges.
pub(crate) struct Weighted<'a> {
    /// The start of each row, followed by the end of the last row.
    pub(crate) offsets: &'a [u64],
    /// The neighbors of all nodes, row by row.
    pub(crate) neighbors: Cow<'a, [u32]>,
    /// The weight of the edge to each neighbor, the same in both directions. Their sum is at most `i32::MAX`.
    pub(crate) edge_weights: Option<&'a [i32]>,
}

impl<'a> From<&'a Groups> for Weighted<'a> {
    fn from(graph: &'a Groups) -> Self {
        let mut neighbors = Cow::Borrowed(&graph.values[..]);
        // METIS may write to its inputs, so neighbors in a mapped file are copied.
        if graph.values.is_mapped() {
            neighbors = Cow::Owned(neighbors.into_owned());
        }
        Self { offsets: &graph.offsets, neighbors, edge_weights: None }
    }
}

/// Splits the symmetric graph into `num_parts` parts, and returns the part of each node.
///
/// Two parts are found by one bisection even if `recursive` is false. K-way partitioning would bisect a coarse graph
/// five times and then refine the best result: for two parts this takes half as much time again and a tenth more
/// memory, and the cut is no smaller.
///
/// METIS keeps a graph for each of its levels, and in most graphs the first levels have nearly all edges. With
/// `scratch_dir` it writes those that take more than 128 MiB to this folder, which must be empty, and keeps two in memory.
///
/// The caller guarantees what METIS assumes or crashes on: at least one node and at least as many nodes as parts, a
/// symmetric graph without self loops and duplicates, and no constraint whose total weight is zero. METIS traps SIGTERM
/// while it runs, with a handler that jumps out of this call. This is undefined behavior if the handler runs on another
/// thread, so programs block SIGTERM, as the crate's documentation asks.
///
/// # Errors
/// Returns [`PartitionError::TooLargeForMetis`] before METIS is called, and [`PartitionError::Metis`] if it fails.
pub(crate) fn split(
    graph: Weighted<'_>,
    constraints: &Constraints,
    num_parts: u32,
    recursive: bool,
    seed: u64,
    scratch_dir: Option<&Path>,
) -> Result<Vec<u32>, PartitionError> {
    let num_nodes = graph.offsets.len() - 1;
    // Both extremes have one answer up to the names of parts, and need no METIS.
    if num_parts == 1 {
        return Ok(vec![0; num_nodes]);
    }
    if num_nodes == num_parts as usize {
        return Ok((0..num_parts).collect());
    }
    check_size(graph.neighbors.len() as u64, "neighbors in the symmetric graph")?;
    check_size((num_nodes as u64 + 1) * constraints.num() as u64, "weights")?;
    check_size(u64::from(num_parts) * constraints.num() as u64, "shares of parts")?;

    let starts: Vec<i32> = graph.offsets.iter().map(|&offset| offset as i32).collect();
    let neighbors: &[i32] = bytemuck::cast_slice(&graph.neighbors[..]);
    let mut parts = vec![0_i32; num_nodes];
    let fail = |source| PartitionError::Metis { source };
    let mut metis = ::metis::Graph::new(constraints.num() as i32, num_parts as i32, &starts, neighbors)
        .map_err(|e| fail(e.into()))?
        .set_vwgt(&constraints.weights);
    if let Some(weights) = graph.edge_weights {
        metis = metis.set_adjwgt(weights);
    }
    let mut options = [-1; ::metis::NOPTIONS];
    options[Seed::INDEX] = Seed(metis_seed(seed)).value();
    if !recursive {
        options[UFactor::INDEX] = UFactor(KWAY_IMBALANCE).value();
    }
    let bisect = recursive || num_parts == 2;
    let run = |on_disk: bool| {
        let mut options = options;
        options[ON_DISK] = i32::from(on_disk);
        let metis = metis.set_options(&options);
        let _only_one = METIS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if bisect { metis.part_recursive(&mut parts) } else { metis.part_kway(&mut parts) }
    };
    match scratch_dir {
        Some(dir) => own_folder::with(dir, run),
        None => run(false),
    }
    .map_err(fail)?;
    // The caller indexes by these ids, so they are checked like any input.
    if parts.iter().any(|&part| part < 0 || part >= num_parts as i32) {
        return Err(fail(::metis::Error::Other));
    }
    Ok(bytemuck::cast_vec(parts))
}

fn check_size(count: u64, what: &'static str) -> Result<(), PartitionError> {
    if count > i32::MAX as u64 {
        return Err(PartitionError::TooLargeForMetis { count, what });
    }
    Ok(())
}

/// Returns a seed for METIS, which takes 31 bits and reads -1 as its default. The seed is hashed, because the C
/// library's generator gives the same numbers for seeds 0 and 1.
fn metis_seed(seed: u64) -> i32 {
    (CounterRng::new(seed).next_u64() >> 33) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_and_are_never_the_default() {
        let seeds: std::collections::BTreeSet<i32> = (0..1000).map(metis_seed).collect();
        assert_eq!(seeds.len(), 1000);
        assert!(seeds.iter().all(|&seed| seed >= 0));
    }

    #[test]
    fn rejects_what_does_not_fit_32_bits() {
        assert!(check_size(i32::MAX as u64, "weights").is_ok());
        let error = check_size(1 << 31, "weights").unwrap_err().to_string();
        assert!(error.contains("`method=semi-external`") && error.contains("2147483648 weights"), "{error}");
    }
}
