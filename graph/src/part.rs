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

/// The folder of a part, relative to `META.json`.
pub fn part_dir(part: PartitionId) -> String {
    format!("part_{part}")
}

/// The folder of a node type, relative to its part.
pub fn node_dir(node_type: &str) -> String {
    format!("nodes/{node_type}")
}

/// The folder of an edge type, relative to its part.
pub fn edge_dir(edge_type: &EdgeTypeMeta) -> String {
    edge_dir_name(&edge_type.src_type, &edge_type.relation, &edge_type.dst_type)
}

/// The folder of the edge type of these names, relative to its part.
pub fn edge_dir_name(src_type: &str, relation: &str, dst_type: &str) -> String {
    format!("edges/{src_type}__{relation}__{dst_type}")
}

/// What one part holds: the nodes it owns, and all in-edges of those. Opening it maps the files; pages are read when
/// they are first used, and processes of one machine share them.
#[derive(Clone, Debug)]
pub struct Part {
    id: PartitionId,
    meta: Arc<Meta>,
    nodes: Vec<PartNodes>,
    edges: Vec<PartEdges>,
}

/// The owned nodes of one type, in ascending order of their original ids. The *row* of a node is its global id less
/// the start of the part's range.
#[derive(Clone, Debug)]
pub struct PartNodes {
    /// The original id of each row, strictly ascending.
    pub original_ids: Buffer<u32>,
    /// Features per row, if the type has any.
    pub features: Option<Features>,
    /// A class per row, -1 where unlabelled, if the type has labels.
    pub labels: Option<Buffer<i64>>,
    /// Rows of the training, validation and test nodes, ascending.
    pub splits: Splits,
    /// A time per row, if the type has times.
    pub times: Option<Buffer<i64>>,
}

/// The in-edges of the owned nodes, by one edge type.
#[derive(Clone, Debug)]
pub struct PartEdges {
    /// The type of the sources.
    pub src_type: NodeTypeId,
    /// The type of the destinations.
    pub dst_type: NodeTypeId,
    /// Rows are those of the owned destinations; indices are global ids of sources.
    pub csc: Csc,
    /// What edges carry besides their ends, in the order of the indices.
    pub attributes: EdgeAttributes,
    /// The time of each edge's source, in the order of the indices, if the type of the sources has times.
    pub src_times: Option<Buffer<i64>>,
    /// The held-out edges into the owned destinations; both ends are global ids.
    pub held_out: HeldOutEdges,
}

impl Part {
    /// Opens `part` of the partitioned graph in `dir`, the `N-parts` folder. Original ids, labels, splits, edges,
    /// weights and held-out edges are checked against their invariants; features and times are not read. With `verify`,
    /// checksums are compared first, which reads every byte of the part once.
    ///
    /// # Errors
    /// A missing, truncated, altered or contradictory file, named.
    pub fn open(dir: &Path, part: PartitionId, verify: bool) -> Result<Self, GraphError> {
        let meta = Meta::read(dir)?;
        if part.0 >= meta.num_parts {
            let why = format!("part {part} was asked for, but it has parts 0 to {}", meta.num_parts - 1);
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

    /// The same with the edges and the original ids, by which neighbors are drawn, in memory of this process instead of in
    /// mapped files.
    ///
    /// A hop reads edges at random, which with an allocator that gives huge pages is faster than in the 4 KiB pages of
    /// a file. It takes 4 bytes an edge and 12 a node, 4 more an edge for weights and 8 for each kind of times,
    /// and processes no longer share them. Features and held-out edges stay mapped.
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

    /// Counts the held-out edges that are training edges as well, and the nodes that are in two splits, of the
    /// partitioned graph that `parts` are all parts of. Reads the edges of all parts if any are held out.
    pub fn overlaps(parts: &[Self]) -> Overlaps {
        count_in_parts(parts)
    }

    /// Which part it is.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The description of the whole partitioned graph.
    pub fn meta(&self) -> &Arc<Meta> {
        &self.meta
    }

    /// The owned nodes of one type.
    pub fn nodes(&self, node_type: NodeTypeId) -> &PartNodes {
        &self.nodes[node_type.index()]
    }

    /// The in-edges by one edge type.
    pub fn edges(&self, edge_type: EdgeTypeId) -> &PartEdges {
        &self.edges[edge_type.index()]
    }

    /// Ids of the edge types, in order.
    pub fn edge_type_ids(&self) -> impl Iterator<Item = EdgeTypeId> + use<> {
        (0..self.edges.len() as u16).map(EdgeTypeId)
    }

    /// The global ids of one type that this part owns.
    pub fn owned(&self, node_type: NodeTypeId) -> std::ops::Range<u32> {
        self.meta.node_types[node_type.index()].book.range(self.id)
    }

    /// The row of an owned node.
    pub fn row(&self, node_type: NodeTypeId, node: GlobalNodeId) -> usize {
        (node.0 - self.owned(node_type).start) as usize
    }

    /// The node with an original id, if this part owns it; a binary search.
    pub fn find_original(&self, node_type: NodeTypeId, original: u32) -> Option<GlobalNodeId> {
        let row = self.nodes(node_type).original_ids.binary_search(&original).ok()?;
        Some(GlobalNodeId(self.owned(node_type).start + row as u32))
    }
}
