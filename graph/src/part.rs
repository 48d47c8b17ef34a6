//! One part of a partitioned graph, memory-mapped.

mod open;

use crate::dataset::count_in_parts;
use crate::{
    Buffer, Csc, EdgeAttributes, EdgeTypeId, EdgeTypeMeta, Features, GlobalNodeId, GraphError, HeldOutEdges, Meta,
    NodeTypeId, Overlaps, PartitionId, Splits,
};
use open::Opener;
use std::path::Path;
use std::sync::Arc;

/// Returns the folder of a part, relative to `META.json`.
pub fn part_dir(part: PartitionId) -> String {
    format!("part_{part}")
}

/// Returns the folder of a node type, relative to its part.
pub fn node_dir(node_type: &str) -> String {
    format!("nodes/{node_type}")
}

/// Returns the folder of an edge type, relative to its part.
pub fn edge_dir(edge_type: &EdgeTypeMeta) -> String {
    edge_dir_name(&edge_type.src_type, &edge_type.relation, &edge_type.dst_type)
}

/// Returns the folder of the edge type with these names, relative to its part.
pub fn edge_dir_name(src_type: &str, relation: &str, dst_type: &str) -> String {
    format!("edges/{src_type}__{relation}__{dst_type}")
}

/// One part: the nodes that it owns and all their in-edges. Opening a part maps its files. Pages are read on first use
/// and shared between the processes of a machine.
#[derive(Clone, Debug)]
pub struct Part {
    id: PartitionId,
    meta: Arc<Meta>,
    nodes: Vec<PartNodes>,
    edges: Vec<PartEdges>,
}

/// The owned nodes of one type, in ascending order of their original ids. The *row* of a node is its global id minus
/// the start of the part's range.
#[derive(Clone, Debug)]
pub struct PartNodes {
    /// The original id of each row, strictly ascending.
    pub original_ids: Buffer<u32>,
    /// The features of each row, if the type has features.
    pub features: Option<Features>,
    /// The class of each row, -1 if unlabeled, if the type has labels.
    pub labels: Option<Buffer<i64>>,
    /// The rows of the training, validation and test nodes, ascending.
    pub splits: Splits,
    /// The time of each row, if the type has times.
    pub times: Option<Buffer<i64>>,
}

/// The in-edges of the owned nodes, for one edge type.
#[derive(Clone, Debug)]
pub struct PartEdges {
    /// The type of the sources.
    pub src_type: NodeTypeId,
    /// The type of the destinations.
    pub dst_type: NodeTypeId,
    /// The in-neighbors. Rows are the owned destinations, and indices are global ids of sources.
    pub csc: Csc,
    /// The features, weights and times of the edges, in the order of the indices.
    pub attributes: EdgeAttributes,
    /// The time of each edge's source, in the order of the indices, if the source type has times.
    pub src_times: Option<Buffer<i64>>,
    /// The held-out edges into the owned destinations. Both ends are global ids.
    pub held_out: HeldOutEdges,
}

impl Part {
    /// Opens the part `part` of the partitioned graph in `dir`, the `N-parts` folder. Checks the invariants of original
    /// ids, labels, splits, edges, weights and held-out edges, but does not read features and times. If `verify` is
    /// true, it first compares checksums, which reads every byte of the part once.
    ///
    /// # Errors
    /// Fails if a file is missing, truncated, altered or inconsistent. The error names the file.
    pub fn open(dir: &Path, part: PartitionId, verify: bool) -> Result<Self, GraphError> {
        let meta = Meta::read(dir)?;
        if part.0 >= meta.num_parts {
            let why = format!("part {part} was requested, but it has parts 0 to {}", meta.num_parts - 1);
            return Err(GraphError::format(dir, why));
        }
        if verify {
            meta.verify_files(dir, Some(part))?;
        }
        let root = dir.join(part_dir(part));
        let open = Opener { root: &root, part };
        let nodes = meta.node_types.iter().map(|t| open.nodes(t)).collect::<Result<Vec<_>, _>>()?;
        let edges = meta.edge_types.iter().map(|e| open.edges(e, &meta)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { id: part, meta: Arc::new(meta), nodes, edges })
    }

    /// Copies the edges, their weights and times, and the original ids into the memory of this process.
    ///
    /// A hop reads edges at random, which is faster from an allocator with huge pages than from the 4 KiB pages of a
    /// mapped file. The copy takes 4 bytes per edge and 12 per node, plus 4 per edge for weights and 8 per edge for
    /// each kind of times. Processes no longer share these arrays. Features and held-out edges stay mapped.
    pub fn with_edges_in_memory(mut self) -> Self {
        let in_memory = |edges: PartEdges| PartEdges {
            csc: edges.csc.into_memory(),
            attributes: EdgeAttributes {
                features: edges.attributes.features,
                weights: edges.attributes.weights.map(Buffer::into_memory),
                times: edges.attributes.times.map(Buffer::into_memory),
            },
            src_times: edges.src_times.map(Buffer::into_memory),
            ..edges
        };
        self.edges = self.edges.into_iter().map(in_memory).collect();
        for nodes in &mut self.nodes {
            nodes.original_ids = std::mem::take(&mut nodes.original_ids).into_memory();
        }
        self
    }

    /// Counts the held-out edges that are also training edges, and the nodes that are in two splits. `parts` must be
    /// all parts of a graph. Reads the edges of all parts if any edge is held out.
    pub fn overlaps(parts: &[Self]) -> Overlaps {
        count_in_parts(parts)
    }

    /// Returns the id of this part.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Returns the description of the whole partitioned graph.
    pub fn meta(&self) -> &Arc<Meta> {
        &self.meta
    }

    /// Returns the owned nodes of one type.
    pub fn nodes(&self, node_type: NodeTypeId) -> &PartNodes {
        &self.nodes[node_type.index()]
    }

    /// Returns the in-edges of one edge type.
    pub fn edges(&self, edge_type: EdgeTypeId) -> &PartEdges {
        &self.edges[edge_type.index()]
    }

    /// Returns the ids of the edge types, in order.
    pub fn edge_type_ids(&self) -> impl Iterator<Item = EdgeTypeId> + use<> {
        (0..self.edges.len() as u16).map(EdgeTypeId)
    }

    /// Returns the global ids of one node type that this part owns.
    pub fn owned(&self, node_type: NodeTypeId) -> std::ops::Range<u32> {
        self.meta.node_types[node_type.index()].book.range(self.id)
    }

    /// Returns the row of an owned node.
    pub fn row(&self, node_type: NodeTypeId, node: GlobalNodeId) -> usize {
        (node.0 - self.owned(node_type).start) as usize
    }

    /// Finds the node with an original id by binary search. Returns `None` if this part does not own it.
    pub fn find_original(&self, node_type: NodeTypeId, original: u32) -> Option<GlobalNodeId> {
        let row = self.nodes(node_type).original_ids.binary_search(&original).ok()?;
        Some(GlobalNodeId(self.owned(node_type).start + row as u32))
    }
}
