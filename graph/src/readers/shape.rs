//! The sizes of a dataset, from the headers of its files.

use super::DatasetSource;
use super::fake::{FAKE_HETERO_NAME, FAKE_NAME, FakeOptions};
use super::source::fake_options;
use crate::GraphError;
use crate::dataset::{Dataset, EdgeData, NodeData, Split};
use crate::memory::{FeatureDtype, Features};

/// The sizes of a dataset that is not read yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphShape {
    /// The node types.
    pub node_types: Vec<NodeShape>,
    /// The edge types.
    pub edge_types: Vec<EdgeShape>,
    /// The bytes of arrays that are unpacked before they are read.
    pub unpacked_bytes: u64,
}

/// The sizes of a node type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeShape {
    /// The name of the type.
    pub name: String,
    /// The number of nodes.
    pub num_nodes: u64,
    /// The number of features and their stored type, if there are features.
    pub features: Option<(usize, FeatureDtype)>,
    /// True if nodes have labels.
    pub has_labels: bool,
    /// The targets per node, 0 without targets.
    pub target_dim: usize,
    /// True if nodes have times.
    pub has_times: bool,
    /// The most nodes that the splits can hold together.
    pub num_in_splits: u64,
}

/// The sizes of an edge type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EdgeShape {
    /// The type of the sources.
    pub src_type: usize,
    /// The type of the destinations.
    pub dst_type: usize,
    /// The number of edges.
    pub num_edges: u64,
    /// The number of features and their stored type, if there are features.
    pub features: Option<(usize, FeatureDtype)>,
    /// True if edges have weights.
    pub has_weights: bool,
    /// True if edges have times.
    pub has_times: bool,
    /// The bytes of the label and the split of each edge, 0 without labels.
    pub label_bytes: u64,
    /// The mean bytes of the id of an edge, 0 without ids.
    pub id_bytes: u64,
    /// The number of held-out edges and given negatives.
    pub num_held_out: u64,
}

impl GraphShape {
    /// Returns the sizes of the dataset that `source` describes, before its options are applied. Reads the headers of its
    /// files.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] with the searched folders if there is no dataset, an error for a layout whose headers do
    /// not tell the sizes, and errors of damaged files.
    pub fn read(source: &DatasetSource) -> Result<Self, GraphError> {
        let mut shape = Self::read_files(source)?;
        if let Some(split) = &source.split_nodes {
            for nodes in shape.node_types.iter_mut().filter(|nodes| nodes.has_labels || nodes.target_dim > 0) {
                nodes.num_in_splits = split.num_in_splits(nodes.num_nodes);
            }
        }
        Ok(shape)
    }

    fn read_files(source: &DatasetSource) -> Result<Self, GraphError> {
        let is_named = source.folder.is_none();
        if is_named && source.name == FAKE_NAME {
            return Ok(Self::of_fake(fake_options(source)?));
        }
        if is_named && source.name == FAKE_HETERO_NAME {
            let why = "the sizes of a generated heterogeneous graph are known only once it is generated".into();
            return Err(GraphError::Dataset { dataset: source.name.clone(), why });
        }
        let (folder, layout) = source.find()?;
        let Some(shape) = layout.shape else {
            let what = layout.what;
            let why = format!("it holds {what}, whose sizes are known only once they are read: save .npy arrays");
            return Err(GraphError::format(folder, why));
        };
        shape(&source.name, &folder)
    }

    /// Returns the sizes of a dataset in memory.
    pub fn of(dataset: &Dataset) -> Self {
        Self {
            node_types: dataset.node_types.iter().map(node_shape).collect(),
            edge_types: dataset.edge_types.iter().map(edge_shape).collect(),
            unpacked_bytes: 0,
        }
    }

    /// Returns the sizes of the homogeneous graph that `options` generate.
    pub(super) fn of_fake(options: &FakeOptions) -> Self {
        let num_nodes = options.avg_num_nodes as u64;
        let dim = options.num_channels;
        let nodes = NodeShape {
            name: crate::DEFAULT_NODE_TYPE.into(),
            num_nodes,
            features: (dim > 0).then_some((dim, FeatureDtype::F32)),
            has_labels: true,
            target_dim: 0,
            has_times: options.edge_attributes,
            num_in_splits: num_nodes,
        };
        let edges = EdgeShape {
            num_edges: 2 * options.num_pairs() as u64,
            features: options.edge_attributes.then_some((super::fake::EDGE_CHANNELS, FeatureDtype::F32)),
            has_weights: options.edge_attributes,
            has_times: options.edge_attributes,
            ..EdgeShape::default()
        };
        Self { node_types: vec![nodes], edge_types: vec![edges], unpacked_bytes: 0 }
    }

    /// Returns the number of nodes of all types.
    pub fn num_nodes(&self) -> u64 {
        self.node_types.iter().map(|nodes| nodes.num_nodes).sum()
    }

    /// Returns the number of edges of all types.
    pub fn num_edges(&self) -> u64 {
        self.edge_types.iter().map(|edges| edges.num_edges).sum()
    }

    /// Doubles the edges of types that join a node type to itself, as the most that
    /// [`to_undirected`](Dataset::to_undirected) can return.
    #[must_use]
    pub fn undirected(mut self) -> Self {
        self.edge_types
            .iter_mut()
            .filter(|edges| edges.src_type == edges.dst_type)
            .for_each(|edges| edges.num_edges *= 2);
        self
    }

    /// Adds a reverse type for each edge type, without labels.
    #[must_use]
    pub fn with_reverse_types(mut self) -> Self {
        let reversed = |edges: &EdgeShape| EdgeShape {
            src_type: edges.dst_type,
            dst_type: edges.src_type,
            label_bytes: 0,
            ..edges.clone()
        };
        let reverse: Vec<EdgeShape> = self.edge_types.iter().map(reversed).collect();
        self.edge_types.extend(reverse);
        self
    }
}

fn node_shape(nodes: &NodeData) -> NodeShape {
    NodeShape {
        name: nodes.name.clone(),
        num_nodes: nodes.num_nodes as u64,
        features: nodes.features.as_ref().map(features),
        has_labels: nodes.labels.is_some(),
        target_dim: nodes.targets.as_ref().map_or(0, |targets| targets.dim),
        has_times: nodes.times.is_some(),
        num_in_splits: Split::ALL.iter().map(|&split| nodes.splits.get(split).len() as u64).sum(),
    }
}

fn edge_shape(edges: &EdgeData) -> EdgeShape {
    let negatives = |list: &crate::dataset::EdgeList| {
        list.negatives.as_ref().map_or(0, |negatives| negatives.stored_bytes() as u64 / 8)
    };
    EdgeShape {
        src_type: edges.src_type.index(),
        dst_type: edges.dst_type.index(),
        num_edges: edges.src.len() as u64,
        features: edges.attributes.features.as_ref().map(features),
        has_weights: edges.attributes.weights.is_some(),
        has_times: edges.attributes.times.is_some(),
        label_bytes: edges.attributes.labels.as_ref().map_or(0, |labels| labels.values.kind().bytes() as u64 + 1),
        id_bytes: edges.attributes.ids.as_ref().map_or(0, |ids| ids.stored_bytes() / (ids.len() as u64).max(1)),
        num_held_out: edges.held_out.lists().map(|(_, list)| list.len() as u64 + negatives(list)).iter().sum(),
    }
}

fn features(features: &Features) -> (usize, FeatureDtype) {
    (features.dim(), features.dtype())
}
