//! Held-out edges whose reverses are training edges of a declared reverse type.

use super::config::{LinkTrainingConfig, reverse_edge_types, target_edge_types};
use crate::error::TrainError;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{EdgeTypeId, EdgeTypeMeta, OverlapPolicy, SeedEdgeSet, Split};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The number of held-out edges that a process looks up at once.
const EDGES_AT_ONCE: usize = 1 << 17;

/// Checks that no held-out edge to predict is a training edge of a type that the settings declare as its reverse. Readers only
/// know reverses by the prefix `rev_`. Each process looks up its share of the held-out edges. Types whose edges have times are
/// not checked: the same two nodes may meet again. Every rank must call this.
///
/// # Errors
/// [`TrainError::Config`] on all ranks if there are such edges, unless overlaps are allowed. An error of a peer.
pub(super) fn check_reverse_types(
    graph: &Arc<DistGraph>,
    config: &LinkTrainingConfig,
    world: &mut ProcessGroup,
) -> Result<(), TrainError> {
    let meta = graph.part().meta();
    if config.allows_overlap || meta.provenance.overlap == OverlapPolicy::Allow {
        return Ok(());
    }
    let declared = reverse_edge_types(meta, config)?;
    let mut leaks = Vec::new();
    for edge_type in target_edge_types(meta, config)? {
        let both_ways = declared.iter().flat_map(|&(one, other)| [(one, other), (other, one)]);
        let reverses: BTreeSet<EdgeTypeId> =
            both_ways.filter(|(one, _)| *one == edge_type).map(|(_, other)| other).collect();
        let predicted = &meta.edge_types[edge_type.index()];
        for reverse in reverses {
            let other = &meta.edge_types[reverse.index()];
            if !is_comparable(predicted, other) {
                continue;
            }
            let mut found = [0; 2];
            for (at, split) in [Split::Valid, Split::Test].into_iter().enumerate() {
                found[at] = count_in_reverse_type(graph, edge_type, split, reverse)?;
            }
            world.all_reduce(&mut found, ReduceOp::Sum)?;
            for (at, name) in ["validation", "test"].into_iter().enumerate() {
                if found[at] > 0 {
                    leaks.push(format!(
                        "{} of {} {name} edges of {} are training edges of the reverse type {}",
                        found[at],
                        predicted.held_out[at],
                        predicted.full_name(),
                        other.full_name()
                    ));
                }
            }
        }
    }
    if leaks.is_empty() {
        return Ok(());
    }
    Err(TrainError::config(format!(
        "{}. The model would be evaluated on its training data. Remove these edges from the reverse type, name it `rev_NAME` after \
         its type NAME, so that `overlap=remove` removes them when the graph is read, or read it with `overlap=allow`",
        leaks.join("; ")
    )))
}

/// Returns true if two edge types join the same node types in opposite directions, and edges with the same ends are equal.
fn is_comparable(edges: &EdgeTypeMeta, reverse: &EdgeTypeMeta) -> bool {
    let are_opposite = (&edges.src_type, &edges.dst_type) == (&reverse.dst_type, &reverse.src_type);
    are_opposite && !(edges.held_out_has_times && reverse.has_times)
}

/// Counts the held-out edges in the share of this process whose reverse is a training edge of a type.
fn count_in_reverse_type(
    graph: &Arc<DistGraph>,
    edge_type: EdgeTypeId,
    split: Split,
    reverse: EdgeTypeId,
) -> Result<u64, TrainError> {
    let set = SeedEdgeSet::Links(split);
    let share = graph.seed_share();
    let mut count = 0;
    for part in share.parts {
        let num_edges = graph.num_seed_edges(part, edge_type, set)? as u32;
        let mine: Vec<u32> = (share.mine as u32..num_edges).step_by(share.sharers).collect();
        for positions in mine.chunks(EDGES_AT_ONCE) {
            let edges = graph.seed_edges(part, edge_type, set, positions.to_vec());
            let edges = graph.handle().block_on(edges)?;
            let pairs: Vec<(u32, u32)> = edges.iter().map(|edge| (edge.dst, edge.src)).collect();
            let found = graph.handle().block_on(graph.has_edges(reverse, &pairs, false))?;
            count += found.iter().filter(|is_edge| **is_edge).count() as u64;
        }
    }
    Ok(count)
}
