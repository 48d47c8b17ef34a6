//! A whole graph as one part that no file holds.

use super::arrays::{PartEdges, PartNodes};
use super::format::{FORMAT_NAME, version_of};
use super::{
    Csc, EdgeTypeMeta, Meta, NodeTypeMeta, Part, PartMeta, PartitionBook, Provenance, Report, SplitIndex, TypeDigests,
};
use crate::dataset::{EdgeAttributes, HeldOutEdges, bad_weight, first_bad_weight};
use crate::memory::{Buffer, FeatureDtype};
use crate::{GraphError, NodeTypeId, PartitionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The nodes of one type of a graph in memory.
#[derive(Clone, Debug, Default)]
pub struct NodesInMemory {
    /// The number of nodes.
    pub num_nodes: usize,
    /// The time of each node, if the type has times.
    pub times: Option<Buffer<i64>>,
}

/// The edges of one type of a graph in memory, grouped by destination.
#[derive(Clone, Debug)]
pub struct EdgesInMemory {
    /// The type of the sources.
    pub src_type: NodeTypeId,
    /// The type of the destinations.
    pub dst_type: NodeTypeId,
    /// The start of the in-edges of each destination, and the number of edges.
    pub indptr: Vec<u64>,
    /// The source of each edge.
    pub indices: Vec<u32>,
    /// The sampling weight of each edge, if the type has weights.
    pub weights: Option<Buffer<f32>>,
    /// The time of each edge, if the type has times.
    pub times: Option<Buffer<i64>>,
}

impl Part {
    /// Makes the only part of a graph from its structure. Ids are kept. Node type `t` has the name `n<t>`, and edge type
    /// `e` has the relation `e<e>`, so that names of callers can be any text.
    ///
    /// # Errors
    /// [`GraphError::Book`] for too many nodes, [`GraphError::Csc`] for an edge whose end is not a node, and
    /// [`GraphError::Dataset`] for attributes that do not fit. All errors name the type by its number.
    pub fn in_memory(name: &str, nodes: Vec<NodesInMemory>, edges: Vec<EdgesInMemory>) -> Result<Self, GraphError> {
        let num_nodes: Vec<usize> = nodes.iter().map(|nodes| nodes.num_nodes).collect();
        let num_edges: usize = edges.iter().map(|edges| edges.indices.len()).sum();
        let mut node_types = Vec::with_capacity(nodes.len());
        let mut part_nodes = Vec::with_capacity(nodes.len());
        for (t, nodes) in nodes.into_iter().enumerate() {
            check_length(name, "times", nodes.times.as_ref().map(|times| times.len()), nodes.num_nodes)?;
            node_types.push(describe_nodes(t, &nodes)?);
            part_nodes.push(nodes_of_part(nodes));
        }
        let mut edge_types = Vec::with_capacity(edges.len());
        let mut part_edges = Vec::with_capacity(edges.len());
        for (e, edges) in edges.into_iter().enumerate() {
            if edges.src_type.index().max(edges.dst_type.index()) >= num_nodes.len() {
                let why = format!("edge type {e} has an end that is not one of the {} node types", num_nodes.len());
                return Err(GraphError::Dataset { dataset: name.into(), why });
            }
            edge_types.push(describe_edges(e, &edges));
            let src_times = part_nodes[edges.src_type.index()].times.as_ref();
            let num_ends = [num_nodes[edges.src_type.index()], num_nodes[edges.dst_type.index()]];
            part_edges.push(edges_of_part(name, edges, num_ends, src_times)?);
        }
        let nodes = num_nodes.iter().sum::<usize>() as u64;
        let whole = PartMeta { nodes, edges: num_edges as u64, train_nodes: 0, halo_nodes: 0 };
        let meta = Meta {
            format: FORMAT_NAME.into(),
            version: version_of(&[], &[]),
            dataset: name.into(),
            num_parts: 1,
            provenance: Provenance::whole(),
            node_types,
            edge_types,
            report: Report { parts: vec![whole], cut_edges: 0, cut_fraction: 0.0, remote_neighbor_fraction: 0.0 },
            has_transforms: false,
            time_unit: None,
            files: BTreeMap::new(),
            on_disk: None,
        };
        Ok(Self {
            id: PartitionId(0),
            on_disk: 0..1,
            built_features: Vec::new(),
            meta: Arc::new(meta),
            nodes: part_nodes,
            edges: part_edges,
        })
    }
}

fn describe_nodes(node_type: usize, nodes: &NodesInMemory) -> Result<NodeTypeMeta, GraphError> {
    Ok(NodeTypeMeta {
        name: format!("n{node_type}"),
        book: PartitionBook::new(vec![0, nodes.num_nodes as u64])?,
        feature_dim: 0,
        feature_dtype: FeatureDtype::F32,
        has_labels: false,
        num_classes: 0,
        targets: None,
        split_sizes: [0; 3],
        has_times: nodes.times.is_some(),
        has_hotness: false,
        has_id_map: false,
        has_table: false,
        has_deferred_features: false,
        label_name: None,
        more_labels: Vec::new(),
        digests: TypeDigests::default(),
    })
}

fn describe_edges(edge_type: usize, edges: &EdgesInMemory) -> EdgeTypeMeta {
    EdgeTypeMeta {
        src_type: format!("n{}", edges.src_type.index()),
        relation: format!("e{edge_type}"),
        dst_type: format!("n{}", edges.dst_type.index()),
        num_edges: edges.indices.len() as u64,
        has_weights: edges.weights.is_some(),
        has_times: edges.times.is_some(),
        ..EdgeTypeMeta::default()
    }
}

fn nodes_of_part(nodes: NodesInMemory) -> PartNodes {
    PartNodes {
        original_ids: (0..nodes.num_nodes as u32).collect::<Vec<_>>().into(),
        times: nodes.times,
        ..PartNodes::default()
    }
}

/// Checks the edges. `num_ends` has the numbers of nodes of the types of sources and destinations.
fn edges_of_part(
    graph: &str,
    edges: EdgesInMemory,
    num_ends: [usize; 2],
    times_of_nodes: Option<&Buffer<i64>>,
) -> Result<PartEdges, GraphError> {
    let num_edges = edges.indices.len();
    check_length(graph, "indptr", Some(edges.indptr.len()), num_ends[1] + 1)?;
    check_length(graph, "weights", edges.weights.as_ref().map(|weights| weights.len()), num_edges)?;
    check_length(graph, "times", edges.times.as_ref().map(|times| times.len()), num_edges)?;
    if let Some(weights) = &edges.weights
        && let Some(edge) = first_bad_weight(weights)
    {
        return Err(GraphError::Dataset { dataset: graph.into(), why: bad_weight(edge, weights[edge]) });
    }
    let csc = Csc::new(edges.indptr.into(), edges.indices.into(), num_ends[0])?;
    let src_times: Option<Vec<i64>> =
        times_of_nodes.map(|times| csc.indices().iter().map(|&source| times[source as usize]).collect());
    Ok(PartEdges {
        src_type: edges.src_type,
        dst_type: edges.dst_type,
        csc,
        attributes: EdgeAttributes { weights: edges.weights, times: edges.times, ..EdgeAttributes::default() },
        split_index: SplitIndex::default(),
        src_times: src_times.map(Buffer::from),
        held_out: HeldOutEdges::default(),
    })
}

fn check_length(graph: &str, array: &str, found: Option<usize>, expected: usize) -> Result<(), GraphError> {
    match found {
        Some(found) if found != expected => {
            let why = format!("`{array}` has {found} entries, expected {expected}");
            Err(GraphError::Dataset { dataset: graph.into(), why })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(indptr: Vec<u64>, indices: Vec<u32>) -> EdgesInMemory {
        let node = NodeTypeId(0);
        EdgesInMemory { src_type: node, dst_type: node, indptr, indices, weights: None, times: None }
    }

    fn nodes(times: Option<Vec<i64>>) -> Vec<NodesInMemory> {
        vec![NodesInMemory { num_nodes: 3, times: times.map(Buffer::from) }]
    }

    #[test]
    fn arrays_that_do_not_fit_are_rejected() {
        let fail = |nodes, edges| Part::in_memory("graph", nodes, vec![edges]).unwrap_err().to_string();
        assert!(fail(nodes(None), edges(vec![0, 1], vec![0])).contains("`indptr` has 2 entries, expected 4"));
        assert!(fail(nodes(None), edges(vec![0, 1, 1, 1], vec![3])).contains("past the last of 3"));
        assert!(fail(nodes(Some(vec![1])), edges(vec![0; 4], vec![])).contains("`times` has 1 entries, expected 3"));
        let other = EdgesInMemory { dst_type: NodeTypeId(1), ..edges(vec![0; 4], vec![]) };
        assert!(fail(nodes(None), other).contains("edge type 0 has an end that is not one of the 1 node types"));
        let weighted = EdgesInMemory { weights: Some(vec![-1.0].into()), ..edges(vec![0, 1, 1, 1], vec![1]) };
        assert!(fail(nodes(None), weighted).contains("edge 0 has weight -1, which is negative"));
    }

    #[test]
    fn edges_know_the_times_of_their_sources() {
        let part = Part::in_memory("graph", nodes(Some(vec![7, 8, 9])), vec![edges(vec![0, 2, 2, 3], vec![2, 1, 0])]);
        let part = part.unwrap();
        assert_eq!(part.edges(crate::EdgeTypeId(0)).src_times.as_deref(), Some(&[9, 8, 7][..]));
    }
}
