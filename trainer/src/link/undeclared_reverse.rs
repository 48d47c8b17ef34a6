//! Edge types that seem to hold the reverses of the edges to predict, although neither a name nor a setting says so.

use super::config::{LinkTrainingConfig, target_edge_types};
use super::reverse_overlap::are_opposite;
use crate::edge_type_name::reverse_edge_types;
use crate::error::TrainError;
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{EdgeTypeId, EdgeTypeMeta, SeedEdgeSet, Split};
use std::sync::Arc;

/// The most held-out edges of a type that are looked up.
const MAX_EDGES: usize = 1000;

/// Returns a note for each edge type in the opposite direction of a type to predict that has the reverses of at least half of
/// the held-out edges, and is not declared as its reverse. Looks up some held-out edges of this process. Types are not
/// compared if the edges of both have times, since the same two nodes may meet again.
///
/// # Errors
/// [`TrainError::Config`] for types that `config` names wrongly. An error of a peer.
pub fn undeclared_reverses(graph: &Arc<DistGraph>, config: &LinkTrainingConfig) -> Result<Vec<String>, TrainError> {
    let meta = graph.part().meta();
    let declared = reverse_edge_types(meta, &config.reverse_types)?;
    let mut notes = Vec::new();
    for edge_type in target_edge_types(meta, config)? {
        let predicted = &meta.edge_types[edge_type.index()];
        let mut reversed = None;
        for (at, other) in meta.edge_types.iter().enumerate() {
            let reverse = EdgeTypeId(at as u16);
            let is_declared = declared.contains(&(edge_type, reverse)) || declared.contains(&(reverse, edge_type));
            if reverse == edge_type || is_declared || !is_comparable(predicted, other) {
                continue;
            }
            let pairs = match reversed.take() {
                Some(pairs) => pairs,
                None => reversed_held_out(graph, edge_type)?,
            };
            let found = graph.handle().block_on(graph.has_edges(reverse, &pairs, false))?;
            let num_found = found.iter().filter(|is_edge| **is_edge).count();
            if num_found > 0 && 2 * num_found >= pairs.len() {
                let one = predicted.full_name();
                let other = other.full_name();
                notes.push(format!(
                    "note: edge type {one}: the reverse of {num_found} of {} held-out edges is a training edge of {other}; if \
                     that type holds the reverse edges, messages over it leak held-out edges: declare it \
                     (--reverse-types {one}={other}), or leave it out and add reverse edges (--add-reverse-edges)",
                    pairs.len()
                ));
            }
            reversed = Some(pairs);
        }
    }
    Ok(notes)
}

/// Returns true for types that join the same node types in opposite directions, whose names do not declare them as reverses, and
/// whose edges with the same ends are equal.
fn is_comparable(edges: &EdgeTypeMeta, other: &EdgeTypeMeta) -> bool {
    let is_rev = edges.relation.strip_prefix("rev_") == Some(other.relation.as_str())
        || other.relation.strip_prefix("rev_") == Some(edges.relation.as_str());
    are_opposite(edges, other) && !is_rev && !(edges.held_out_has_times && other.has_times)
}

/// Returns the reverses of some held-out edges in the share of this process.
fn reversed_held_out(graph: &Arc<DistGraph>, edge_type: EdgeTypeId) -> Result<Vec<(u32, u32)>, TrainError> {
    let mut pairs = Vec::new();
    for split in [Split::Valid, Split::Test] {
        let set = SeedEdgeSet::Links(split);
        for part in graph.seed_share().parts {
            let num_edges = graph.num_seed_edges(part, edge_type, set)?.min(MAX_EDGES - pairs.len());
            let positions = (0..num_edges as u32).collect();
            let edges = graph.handle().block_on(graph.seed_edges(part, edge_type, set, positions))?;
            pairs.extend(edges.iter().map(|edge| (edge.dst, edge.src)));
        }
    }
    Ok(pairs)
}
