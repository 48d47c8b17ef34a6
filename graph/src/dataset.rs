//! A whole graph in memory, with original ids.

mod checks;
mod directions;
mod edges;
mod held_out;
mod held_out_index;
mod overlap;

pub(crate) use checks::{bad_weight, first_bad_weight};
pub use edges::{EdgeAttributes, EdgeData, EdgeList, HeldOutEdges};
pub use held_out::{HoldOut, HoldOutChoice};
pub(crate) use overlap::count_in_parts;
pub use overlap::{EdgeOverlap, NodeOverlap, OverlapPolicy, Overlaps};

use crate::{Buffer, EdgeTypeId, Features, NodeTypeId};

/// A graph as a reader or a generator gives it: node types, edge types, original ids `0..num_nodes` per type.
///
/// Self loops, duplicate edges, isolated nodes, missing features and missing labels are all legal. Self loops and
/// duplicates are kept as they are: each is an edge of its own.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// The name under which parts are stored.
    pub name: String,
    /// Node types; at least one.
    pub node_types: Vec<NodeData>,
    /// Edge types.
    pub edge_types: Vec<EdgeData>,
}

/// The nodes of one type.
#[derive(Clone, Debug)]
pub struct NodeData {
    /// The type's name.
    pub name: String,
    /// The number of nodes.
    pub num_nodes: usize,
    /// Features `[num_nodes, dim]`, if the type has any.
    pub features: Option<Features>,
    /// A class per node, -1 where unlabelled, if the type has labels.
    pub labels: Option<Buffer<i64>>,
    /// The number of classes: one more than the largest label, 0 without labels.
    pub num_classes: usize,
    /// Training, validation and test nodes.
    pub splits: Splits,
    /// When each node came to be, in any unit, if the type has times.
    pub times: Option<Buffer<i64>>,
}

/// One of the three standard node sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Nodes whose labels train the model.
    Train,
    /// Nodes that choose the epoch.
    Valid,
    /// Nodes that are looked at once, at the end.
    Test,
}

impl Split {
    /// All three, in the usual order.
    pub const ALL: [Split; 3] = [Split::Train, Split::Valid, Split::Test];

    /// `train`, `valid` or `test`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Valid => "valid",
            Self::Test => "test",
        }
    }
}

/// Node ids of the three splits, each ascending and without duplicates. Which id space they are in is said where a
/// `Splits` is held.
#[derive(Clone, Debug, Default)]
pub struct Splits {
    /// Training nodes.
    pub train: Buffer<u32>,
    /// Validation nodes.
    pub valid: Buffer<u32>,
    /// Test nodes.
    pub test: Buffer<u32>,
}

impl Splits {
    /// The ids of one split.
    pub fn get(&self, split: Split) -> &Buffer<u32> {
        match split {
            Split::Train => &self.train,
            Split::Valid => &self.valid,
            Split::Test => &self.test,
        }
    }

    /// Replaces one split.
    pub fn set(&mut self, split: Split, ids: Buffer<u32>) {
        match split {
            Split::Train => self.train = ids,
            Split::Valid => self.valid = ids,
            Split::Test => self.test = ids,
        }
    }
}

impl Dataset {
    /// A homogeneous graph: one node type and one edge type.
    pub fn homogeneous(name: &str, nodes: NodeData, src: Buffer<u32>, dst: Buffer<u32>) -> Self {
        let edges = EdgeData::new(NodeTypeId(0), crate::DEFAULT_RELATION, NodeTypeId(0), src, dst);
        Self { name: name.into(), node_types: vec![nodes], edge_types: vec![edges] }
    }

    /// The nodes of one type.
    pub fn nodes(&self, node_type: NodeTypeId) -> &NodeData {
        &self.node_types[node_type.index()]
    }

    /// The edges of one type.
    pub fn edges(&self, edge_type: EdgeTypeId) -> &EdgeData {
        &self.edge_types[edge_type.index()]
    }

    /// The number of edges over all types.
    pub fn num_edges(&self) -> usize {
        self.edge_types.iter().map(|e| e.src.len()).sum()
    }

    /// The ids of all edge types, in order.
    pub fn edge_type_ids(&self) -> Vec<EdgeTypeId> {
        (0..self.edge_types.len() as u16).map(EdgeTypeId).collect()
    }

    /// `paper__cites__paper` for the edges of a relation between known node types: what errors call them.
    fn edge_type_name(&self, edges: &EdgeData) -> String {
        let name = |t: NodeTypeId| self.node_types.get(t.index()).map_or("?", |nodes| &nodes.name);
        format!("{}__{}__{}", name(edges.src_type), edges.relation, name(edges.dst_type))
    }
}
