//! Edge types with the reverses of seed edges, although nothing declares them to be reverses.

use crate::errors::failed_in;
use crate::graph::OpenGraph;
use edgecut_dist_loader::EdgeRelations;
use edgecut_dist_sampler::{DistGraph, SampleError};
use edgecut_graph::{EdgeTypeId, EdgeTypeMeta, SeedEdgeSet, Split};
use pyo3::prelude::*;
use std::sync::Arc;

/// The most seed edges that are looked up.
pub(crate) const MAX_EDGES: usize = 1000;

/// Returns a warning for each edge type with the reverses of at least half of some seed edges in the share of this process, if
/// `relations` do not know it. Messages over such edges tell that the seed edges exist. Types are not compared if the edges of
/// both have times, since the same two nodes may meet again.
///
/// `listed` has the ends of the first edges that the program gives, as global ids.
pub(crate) fn undeclared_reverses(
    graph: &OpenGraph,
    relations: &EdgeRelations,
    edge_type: EdgeTypeId,
    split: Split,
    listed: Option<&[(u32, u32)]>,
) -> PyResult<Vec<String>> {
    let node = graph.node();
    let types = &graph.meta_data().edge_types;
    let predicted = &types[edge_type.index()];
    let mut reversed: Option<Vec<(u32, u32)>> = None;
    let mut warnings = Vec::new();
    for (at, other) in types.iter().enumerate() {
        let reverse = EdgeTypeId(at as u16);
        if relations.reverses[edge_type.index()].contains(&reverse) || !is_comparable(predicted, other) {
            continue;
        }
        let looked_up = match reversed.take() {
            Some(pairs) => Ok(pairs),
            None => first_reversed(node, edge_type, split, listed),
        };
        let pairs = looked_up.map_err(|error| failed_in(node.cluster(), &error))?;
        let found = node.handle().block_on(node.has_edges(reverse, &pairs, false));
        let found = found.map_err(|error| failed_in(node.cluster(), &error))?;
        let num_found = found.iter().filter(|is_edge| **is_edge).count();
        if num_found > 0 && 2 * num_found >= pairs.len() {
            warnings.push(format!(
                "`exclude_seed_edges`: the reverse of {num_found} of {} edges of {} is an edge of {}: if that type holds the reverse \
                 edges, messages over it tell which edges exist: name the pair in `reverse_types`, or pass `reverse_types=[]` if it \
                 holds other edges",
                pairs.len(),
                predicted.full_name(),
                other.full_name()
            ));
        }
        reversed = Some(pairs);
    }
    Ok(warnings)
}

/// Returns true for types that join the same node types in opposite directions, and whose edges with the same ends are equal.
fn is_comparable(edges: &EdgeTypeMeta, other: &EdgeTypeMeta) -> bool {
    let is_opposite = (&edges.src_type, &edges.dst_type) == (&other.dst_type, &other.src_type);
    is_opposite && !(edges.has_times && other.has_times)
}

/// Returns the destinations and sources of the first seed edges.
fn first_reversed(
    graph: &Arc<DistGraph>,
    edge_type: EdgeTypeId,
    split: Split,
    listed: Option<&[(u32, u32)]>,
) -> Result<Vec<(u32, u32)>, SampleError> {
    if let Some(listed) = listed {
        return Ok(listed.iter().map(|&(src, dst)| (dst, src)).collect());
    }
    let set = SeedEdgeSet::Links(split);
    let mut reversed = Vec::new();
    for part in graph.seed_share().parts {
        let num_edges = graph.num_seed_edges(part, edge_type, set)?.min(MAX_EDGES - reversed.len());
        let positions = (0..num_edges as u32).collect();
        let edges = graph.handle().block_on(graph.seed_edges(part, edge_type, set, positions))?;
        reversed.extend(edges.iter().map(|edge| (edge.dst, edge.src)));
    }
    Ok(reversed)
}
