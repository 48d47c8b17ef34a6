//! What a model reads.

use std::sync::Arc;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_graph::{EdgeTypeId, NodeTypeId};

use super::graph_schema::GraphSchema;
use super::model_error::ModelError;
use crate::nn::GcnNorm;
use crate::ops::{Activation, Block, DropoutKey, DropoutMask};

/// Whether a pass is for training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No dropout.
    Eval,
    /// Dropout with the masks of this key.
    Train(DropoutKey),
}

impl Mode {
    /// What follows a hidden layer: ReLU, and dropout in training. `layer` counts from 1; each has masks of its own.
    pub fn relu_and_dropout(self, probability: f64, layer: u64) -> Activation {
        Activation::Relu(self.mask(probability, layer))
    }

    /// A layer's dropout mask in training; else the one that keeps everything.
    pub fn mask(self, probability: f64, layer: u64) -> DropoutMask {
        let (key, probability) = match self {
            Self::Train(key) => (key, probability),
            Self::Eval => (DropoutKey::new(0, 0, 0), 0.0),
        };
        DropoutMask::new(probability, key.for_layer(layer))
    }
}

/// The nodes of one type in a batch.
#[derive(Debug, Clone)]
pub struct NodeInput<B: Backend> {
    /// `[nodes, feature_dim]`; nothing for a type without features, until [`ModelInput::with_embeddings`] puts embeddings in
    /// their place.
    pub features: Option<Tensor<B, 2>>,
    /// How many nodes are within each number of hops of the seeds, from 0 on: an entry more than there are layers.
    pub within_hop: Vec<usize>,
}

/// One batch as tensors, of a graph of one or of several types. Cloning is cheap.
///
/// Invariants: nodes and blocks are as many as the schema has node and edge types; layer `l` of
/// `L` computes the nodes of each type within `L - 1 - l` hops from those within `L - l`, and its blocks have these sizes.
#[derive(Debug, Clone)]
pub struct ModelInput<B: Backend> {
    schema: Arc<GraphSchema>,
    nodes: Vec<NodeInput<B>>,
    /// By edge type and layer.
    blocks: Vec<Vec<Block>>,
    gcn_norm: Option<GcnNorm>,
}

impl<B: Backend> ModelInput<B> {
    /// A batch of a homogeneous graph: features, and blocks, the first layer's first.
    ///
    /// # Shapes
    /// - `features`: `[blocks[0].num_src, in_channels]`
    ///
    /// # Errors
    /// [`ModelError::LayerCount`] without blocks, [`ModelError::BlocksDoNotChain`] if sizes do not follow on each other.
    pub fn new(features: Tensor<B, 2>, blocks: Vec<Block>) -> Result<Self, ModelError> {
        if blocks.is_empty() {
            return Err(ModelError::LayerCount { blocks: 0, layers: 1 });
        }
        let [rows, feature_dim] = features.dims();
        let mut given = rows;
        for (position, block) in blocks.iter().enumerate() {
            if block.num_src() != given {
                return Err(ModelError::BlocksDoNotChain { block: position, num_src: block.num_src(), given });
            }
            given = block.num_dst();
        }
        let mut within_hop: Vec<usize> = blocks.iter().rev().map(Block::num_dst).collect();
        within_hop.push(rows);
        let schema = Arc::new(GraphSchema::homogeneous(feature_dim));
        Self::typed(schema, vec![NodeInput { features: Some(features), within_hop }], vec![blocks])
    }

    /// A batch of a graph of these types: nodes by node type; blocks by edge type, the first layer's first.
    ///
    /// # Errors
    /// [`ModelError`] if counts or sizes contradict each other.
    pub fn typed(
        schema: Arc<GraphSchema>,
        nodes: Vec<NodeInput<B>>,
        blocks: Vec<Vec<Block>>,
    ) -> Result<Self, ModelError> {
        schema.validate()?;
        let counts = |given: usize, expected: usize, what: &'static str| match given == expected {
            true => Ok(()),
            false => Err(ModelError::TypeCount { what, given, expected }),
        };
        counts(nodes.len(), schema.node_types.len(), "node")?;
        counts(blocks.len(), schema.edge_types.len(), "edge")?;
        let layers = blocks[0].len();
        for (nodes, of_type) in nodes.iter().zip(&schema.node_types) {
            let name = || of_type.name.clone();
            let ascending = nodes.within_hop.windows(2).all(|pair| pair[0] <= pair[1]);
            if nodes.within_hop.len() != layers + 1 || !ascending {
                return Err(ModelError::Prefixes { node_type: name(), layers });
            }
            let expected = nodes.within_hop[layers];
            match nodes.features.as_ref().map(Tensor::dims) {
                Some([given, _]) if given != expected => {
                    return Err(ModelError::FeatureRows { node_type: name(), given, expected });
                }
                _ => {}
            }
        }
        for (blocks, edges) in blocks.iter().zip(&schema.edge_types) {
            if blocks.len() != layers {
                return Err(ModelError::LayerCount { blocks: blocks.len(), layers });
            }
            let (src, dst) = (&nodes[edges.src.index()].within_hop, &nodes[edges.dst.index()].within_hop);
            for (layer, block) in blocks.iter().enumerate() {
                let expected = [dst[layers - 1 - layer], src[layers - layer]];
                let given = [block.num_dst(), block.num_src()];
                if given != expected {
                    return Err(ModelError::BlockSize { relation: edges.relation.clone(), layer, given, expected });
                }
            }
        }
        Ok(Self { schema, nodes, blocks, gcn_norm: None })
    }

    /// Adds what a GCN needs.
    ///
    /// # Errors
    /// [`ModelError::ForeignNorm`] if it was not computed for this batch.
    pub fn with_gcn_norm(mut self, norm: GcnNorm) -> Result<Self, ModelError> {
        if self.blocks().iter().any(|block| !norm.weights().fits(block.graph())) {
            return Err(ModelError::ForeignNorm);
        }
        self.gcn_norm = Some(norm);
        Ok(self)
    }

    /// Puts learned embeddings in the place of the features that a node type does not have.
    ///
    /// # Shapes
    /// - `rows`: `[nodes of the type, columns]`
    ///
    /// # Errors
    /// [`ModelError::NoSuchNodeType`], and [`ModelError::FeatureRows`] if there are more or fewer nodes.
    pub fn with_embeddings(mut self, node_type: NodeTypeId, rows: Tensor<B, 2>) -> Result<Self, ModelError> {
        let types = self.nodes.len();
        let Some(nodes) = self.nodes.get_mut(node_type.index()) else {
            return Err(ModelError::NoSuchNodeType { node_type: node_type.index(), types });
        };
        let ([given, _], expected) = (rows.dims(), nodes.within_hop.last().copied().unwrap_or(0));
        if given != expected {
            let node_type = self.schema.node_types[node_type.index()].name.clone();
            return Err(ModelError::FeatureRows { node_type, given, expected });
        }
        nodes.features = Some(rows);
        Ok(self)
    }

    /// The types of the batch's graph.
    pub fn schema(&self) -> &Arc<GraphSchema> {
        &self.schema
    }

    /// The nodes of each type.
    pub fn nodes(&self) -> &[NodeInput<B>] {
        &self.nodes
    }

    /// The blocks of an edge type, the first layer's first; none if there is no such edge type.
    pub fn blocks_of(&self, edge_type: EdgeTypeId) -> &[Block] {
        self.blocks.get(edge_type.index()).map_or(&[], Vec::as_slice)
    }

    /// Number of layers.
    pub fn num_layers(&self) -> usize {
        self.blocks().len()
    }

    /// Nodes of a type that are seeds; 0 if there is no such type.
    pub fn num_seeds_of(&self, node_type: NodeTypeId) -> usize {
        self.nodes.get(node_type.index()).and_then(|nodes| nodes.within_hop.first()).copied().unwrap_or(0)
    }

    /// The features of all nodes of a homogeneous batch, of a typed one those of the first node type; without columns if there
    /// are none.
    ///
    /// # Shapes
    /// - output: `[blocks[0].num_src, in_channels]`
    pub fn features(&self) -> Tensor<B, 2> {
        let nodes = &self.nodes[0];
        let rows = nodes.within_hop.last().copied().unwrap_or(0);
        nodes.features.clone().unwrap_or_else(|| Tensor::empty([rows, 0], &self.device()))
    }

    /// Where the features are; the backend's default if no node type has some.
    pub(crate) fn device(&self) -> B::Device {
        let features = self.nodes.iter().find_map(|nodes| nodes.features.as_ref());
        features.map(Tensor::device).unwrap_or_default()
    }

    /// What a [`GcnConv`](crate::nn::GcnConv) scales edges by.
    ///
    /// # Errors
    /// [`ModelError::MissingNorm`] if the batch was made without it.
    pub fn gcn_norm(&self) -> Result<&GcnNorm, ModelError> {
        self.gcn_norm.as_ref().ok_or(ModelError::MissingNorm)
    }

    /// Seeds of all types.
    pub fn num_seeds(&self) -> usize {
        self.nodes.iter().filter_map(|nodes| nodes.within_hop.first()).sum()
    }

    /// The blocks of a homogeneous batch, the first layer's first; of a typed one those of the first edge type.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks[0]
    }

    /// Fails unless this is a homogeneous batch of these many layers and columns of features.
    ///
    /// # Errors
    /// [`ModelError::Heterogeneous`], [`ModelError::LayerCount`] or [`ModelError::FeatureWidth`].
    pub fn check(&self, layers: usize, in_channels: usize) -> Result<(), ModelError> {
        if !self.schema.is_homogeneous() {
            let (node_types, edge_types) = (self.nodes.len(), self.blocks.len());
            return Err(ModelError::Heterogeneous { node_types, edge_types });
        }
        if self.num_layers() != layers {
            return Err(ModelError::LayerCount { blocks: self.num_layers(), layers });
        }
        let given = self.nodes[0].features.as_ref().map_or(0, |features| features.dims()[1]);
        if given != in_channels {
            return Err(ModelError::FeatureWidth { given, expected: in_channels });
        }
        Ok(())
    }
}
