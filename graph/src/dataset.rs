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

/// A graph as read from files or generated: node types and edge types, with original ids `0..num_nodes` per node type.
///
/// Self loops, duplicate edges, isolated nodes, missing features and missing labels are all allowed. Self loops and
/// duplicates are kept as separate edges.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// The name under which the parts are stored.
    pub name: String,
    /// The node types, at least one.
    pub node_types: Vec<NodeData>,
    /// The edge types.
    pub edge_types: Vec<EdgeData>,
}

/// The nodes of one type.
#[derive(Clone, Debug)]
pub struct NodeData {
    /// The name of the type.
    pub name: String,
    /// The number of nodes.
    pub num_nodes: usize,
    /// The features, `[num_nodes, dim]`, if the type has features.
    pub features: Option<Features>,
    /// The class of each node, -1 if unlabeled, if the type has labels.
    pub labels: Option<Buffer<i64>>,
    /// The number of classes: one more than the largest label, 0 without labels.
    pub num_classes: usize,
    /// The training, validation and test nodes.
    pub splits: Splits,
    /// The creation time of each node, in any unit, if the type has times.
    pub times: Option<Buffer<i64>>,
}

/// One of the three standard sets of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Nodes whose labels train the model.
    Train,
    /// Nodes that select the best epoch.
    Valid,
    /// Nodes for the final evaluation.
    Test,
}

impl Split {
    /// All splits, in the usual order.
    pub const ALL: [Split; 3] = [Split::Train, Split::Valid, Split::Test];

    /// Returns `train`, `valid` or `test`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Valid => "valid",
            Self::Test => "test",
        }
    }
}

/// The node ids of the three splits, each ascending and without duplicates. The owner of a `Splits` names the id space.
#[derive(Clone, Debug, Default)]
pub struct Splits {
    /// The training nodes.
    pub train: Buffer<u32>,
    /// The validation nodes.
    pub valid: Buffer<u32>,
    /// The test nodes.
    pub test: Buffer<u32>,
}

impl Splits {
    /// Returns the ids of one split.
    pub fn get(&self, split: Split) -> &Buffer<u32> {
        match split {
            Split::Train => &self.train,
            Split::Valid => &self.valid,
            Split::Test => &self.test,
        }
    }

    /// Replaces the ids of one split.
    pub fn set(&mut self, split: Split, ids: Buffer<u32>) {
        match split {
            Split::Train => self.train = ids,
            Split::Valid => self.valid = ids,
            Split::Test => self.test = ids,
        }
    }
}

impl Dataset {
    /// Creates a homogeneous graph, with one node type and one edge type.
    pub fn homogeneous(name: &str, nodes: NodeData, src: Buffer<u32>, dst: Buffer<u32>) -> Self {
        let edges = EdgeData::new(NodeTypeId(0), crate::DEFAULT_RELATION, NodeTypeId(0), src, dst);
        Self { name: name.into(), node_types: vec![nodes], edge_types: vec![edges] }
    }

    /// Returns the nodes of one type.
    pub fn nodes(&self, node_type: NodeTypeId) -> &NodeData {
        &self.node_types[node_type.index()]
    }

    /// Returns the edges of one type.
    pub fn edges(&self, edge_type: EdgeTypeId) -> &EdgeData {
        &self.edge_types[edge_type.index()]
    }

    /// Returns the number of edges over all types.
    pub fn num_edges(&self) -> usize {
        self.edge_types.iter().map(|e| e.src.len()).sum()
    }

    /// Returns the ids of all edge types, in order.
    pub fn edge_type_ids(&self) -> Vec<EdgeTypeId> {
        (0..self.edge_types.len() as u16).map(EdgeTypeId).collect()
    }

    /// Returns the name of an edge type for error messages, such as `paper__cites__paper`.
    fn edge_type_name(&self, edges: &EdgeData) -> String {
        let name = |t: NodeTypeId| self.node_types.get(t.index()).map_or("?", |nodes| &nodes.name);
        format!("{}__{}__{}", name(edges.src_type), edges.relation, name(edges.dst_type))
    }
}
