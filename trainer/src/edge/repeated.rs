//! Validation and test edges that repeat training edges.

use crate::error::TrainError;
use crate::gather::all_gather_records;
use bytemuck::{Pod, Zeroable};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::rng::combine;
use edgecut_graph::{EdgeLabelValues, EdgeTypeId, Part, Split};
use std::collections::HashMap;

/// The ends of an edge as global ids, and its label.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
struct LabeledEdge {
    src: u32,
    dst: u32,
    /// The class, or a hash of the numbers.
    label: u64,
}

/// Equal validation and test edges, and their numbers.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct ScoredEdges {
    edge: LabeledEdge,
    counts: [u64; 2],
}

/// Returns the numbers of validation and test edges of a type whose nodes a training edge of the type joins with the same
/// label, within a node type in either direction. A model may know such a label from the training. Clients of servers hold no
/// edges, so they count none. Every rank must call this.
///
/// # Errors
/// A failure of the job.
pub fn count_repeated_edges(
    graph: &DistGraph,
    edge_type: EdgeTypeId,
    world: &mut ProcessGroup,
) -> Result<[u64; 2], TrainError> {
    let part = graph.part();
    let edges = part.edges(edge_type);
    let owned = part.owned(edges.dst_type);
    let mut counts = [0; 2];
    let mut scored = HashMap::new();
    // Several ranks may hold a part. The first of them counts.
    if graph.holds_first_copy() {
        scored = scored_edges(part, edge_type);
        remove_repeated(part, edge_type, &mut scored, &mut counts);
    }
    if edges.src_type == edges.dst_type {
        // The reverse of an edge is in the part of the source.
        let mut sent = Vec::new();
        for (edge, counts) in scored {
            if !owned.contains(&edge.src) {
                sent.push(ScoredEdges { edge, counts });
            }
        }
        let mut received = HashMap::new();
        all_gather_records(world, bytemuck::cast_slice(&sent), size_of::<ScoredEdges>(), |theirs| {
            for ScoredEdges { edge, counts } in bytemuck::pod_collect_to_vec::<u8, ScoredEdges>(theirs) {
                if owned.contains(&edge.src) {
                    received.insert(edge, counts);
                }
            }
        })?;
        if graph.holds_first_copy() {
            remove_repeated(part, edge_type, &mut received, &mut counts);
        }
    }
    world.all_reduce(&mut counts, ReduceOp::Sum)?;
    Ok(counts)
}

/// Returns the validation and test edges of a part with their numbers.
fn scored_edges(part: &Part, edge_type: EdgeTypeId) -> HashMap<LabeledEdge, [u64; 2]> {
    let mut scored: HashMap<LabeledEdge, [u64; 2]> = HashMap::new();
    for (at, split) in [Split::Valid, Split::Test].into_iter().enumerate() {
        for edge in edges_of(part, edge_type, split) {
            scored.entry(edge).or_default()[at] += 1;
        }
    }
    scored
}

/// Removes the edges that training edges of a part repeat, and adds their numbers to `counts`.
fn remove_repeated(
    part: &Part,
    edge_type: EdgeTypeId,
    scored: &mut HashMap<LabeledEdge, [u64; 2]>,
    counts: &mut [u64; 2],
) {
    if scored.is_empty() {
        return;
    }
    let edges = part.edges(edge_type);
    let num_directions = if edges.src_type == edges.dst_type { 2 } else { 1 };
    for edge in edges_of(part, edge_type, Split::Train) {
        let directions = [edge, LabeledEdge { src: edge.dst, dst: edge.src, ..edge }];
        for same in &directions[..num_directions] {
            if let Some(repeated) = scored.remove(same) {
                counts[0] += repeated[0];
                counts[1] += repeated[1];
            }
        }
    }
}

/// Returns the labeled edges of a part that are in a split.
fn edges_of(part: &Part, edge_type: EdgeTypeId, split: Split) -> impl Iterator<Item = LabeledEdge> + '_ {
    let edges = part.edges(edge_type);
    let first = part.owned(edges.dst_type).start;
    let labels = edges.attributes.labels.as_ref();
    (0..edges.csc.num_rows()).flat_map(move |row| {
        let start = edges.csc.indptr()[row] as usize;
        let in_edges = (start..).zip(edges.csc.neighbors(row));
        in_edges.filter_map(move |(position, &src)| {
            let labels = labels.filter(|labels| labels.splits[position] == split.code())?;
            Some(LabeledEdge { src, dst: first + row as u32, label: label_of(&labels.values, position) })
        })
    })
}

/// Returns a number that equal labels share.
fn label_of(values: &EdgeLabelValues, position: usize) -> u64 {
    match values {
        EdgeLabelValues::Classes { of_edges, .. } => of_edges[position] as u64,
        EdgeLabelValues::Targets(targets) => {
            let row = &targets.values[position * targets.dim..][..targets.dim];
            row.iter().fold(0, |hash, value| combine(hash, u64::from(value.to_bits())))
        }
    }
}
