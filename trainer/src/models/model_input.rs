//! The input of a model: a batch as tensors.

use std::sync::Arc;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_graph::{EdgeTypeId, NodeTypeId};

use super::graph_schema::GraphSchema;
use crate::error::ModelError;
use edgecut_gnn::nn::{EdgeData, GcnNorm, TimeEncoder, prefix};
use edgecut_gnn::ops::{Block, EdgeWeights};

/// The nodes of one type in a batch.
#[derive(Debug, Clone)]
pub struct NodeInput<B: Backend> {
    /// The features, `[nodes, feature_dim]`. `None` for a type without features. [`ModelInput::with_embeddings`] adds
    /// learned embeddings.
    pub features: Option<Tensor<B, 2>>,
    /// The number of nodes within `h` hops of the seeds for each `h`, `[num_layers + 1]`.
    pub within_hop: Vec<usize>,
}

/// The nodes or edges to which rows of an input belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputRows {
    /// The nodes of a type.
    Nodes(NodeTypeId),
    /// The edges of a type.
    Edges(EdgeTypeId),
}

/// A batch of a homogeneous or heterogeneous graph as tensors. Cloning is cheap.
///
/// Invariants: there is one [`NodeInput`] per node type and one list of blocks per edge type of the schema. Layer `l`
/// of `L` computes the nodes of each type within `L - 1 - l` hops from the nodes within `L - l` hops, and its blocks
/// have these sizes.
#[derive(Debug, Clone)]
pub struct ModelInput<B: Backend> {
    schema: Arc<GraphSchema>,
    nodes: Vec<NodeInput<B>>,
    /// By edge type and layer.
    blocks: Vec<Vec<Block>>,
    gcn_norm: Option<GcnNorm>,
    /// By edge type, the features of all edges of the batch. The edges of a block are the first ones.
    edge_features: Vec<Option<Tensor<B, 2>>>,
    /// By edge type, the times between the edges and their seeds, `[num_edges, 1]`.
    edge_ages: Vec<Option<Tensor<B, 2>>>,
    /// By edge type, the factors of messages.
    edge_factors: Vec<Option<Arc<EdgeWeights>>>,
}

impl<B: Backend> ModelInput<B> {
    /// Makes a batch of a homogeneous graph. `blocks` are in the order of the layers.
    ///
    /// # Shapes
    /// - `features`: `[blocks[0].num_src, in_channels]`
    ///
    /// # Errors
    /// [`ModelError::Batch`] without blocks, and if a block does not read as many nodes as the features or the block before
    /// supply.
    pub fn new(features: Tensor<B, 2>, blocks: Vec<Block>) -> Result<Self, ModelError> {
        if blocks.is_empty() {
            return Err(ModelError::layer_count(0, 1));
        }
        let [rows, feature_dim] = features.dims();
        let mut given = rows;
        for (position, block) in blocks.iter().enumerate() {
            if block.num_src() != given {
                return Err(ModelError::batch(format!(
                    "block {position} reads {} nodes, but the features or the block before it have {given}",
                    block.num_src()
                )));
            }
            given = block.num_dst();
        }
        let mut within_hop: Vec<usize> = blocks.iter().rev().map(Block::num_dst).collect();
        within_hop.push(rows);
        let schema = Arc::new(GraphSchema::homogeneous(feature_dim));
        Self::typed(schema, vec![NodeInput { features: Some(features), within_hop }], vec![blocks])
    }

    /// Makes a batch of a graph with the types of `schema`. `nodes` are by node type, `blocks` by edge type and then by
    /// layer.
    ///
    /// # Errors
    /// [`ModelError`] if the numbers or sizes are inconsistent.
    pub fn typed(
        schema: Arc<GraphSchema>,
        nodes: Vec<NodeInput<B>>,
        blocks: Vec<Vec<Block>>,
    ) -> Result<Self, ModelError> {
        schema.validate()?;
        for (what, given, expected) in
            [("node", nodes.len(), schema.node_types.len()), ("edge", blocks.len(), schema.edge_types.len())]
        {
            if given != expected {
                let what = format!("a batch with {given} {what} types for a graph with {expected}");
                return Err(ModelError::batch(what));
            }
        }
        let layers = blocks[0].len();
        for (nodes, of_type) in nodes.iter().zip(&schema.node_types) {
            let ascending = nodes.within_hop.windows(2).all(|pair| pair[0] <= pair[1]);
            if nodes.within_hop.len() != layers + 1 || !ascending {
                return Err(ModelError::batch(format!(
                    "node type {}: prefix lengths must not decrease, and there must be one more than the {layers} layers",
                    of_type.name
                )));
            }
            if let Some(features) = &nodes.features {
                check_rows(&of_type.name, features.dims()[0], nodes.within_hop[layers])?;
            }
        }
        for (blocks, edges) in blocks.iter().zip(&schema.edge_types) {
            if blocks.len() != layers {
                return Err(ModelError::layer_count(blocks.len(), layers));
            }
            let src = &nodes[edges.src.index()].within_hop;
            let dst = &nodes[edges.dst.index()].within_hop;
            for (layer, block) in blocks.iter().enumerate() {
                let expected = [dst[layers - 1 - layer], src[layers - layer]];
                let given = [block.num_dst(), block.num_src()];
                if given != expected {
                    return Err(ModelError::batch(format!(
                        "edge type {}, layer {layer}: a block of {given:?} destinations and sources, expected {expected:?}",
                        edges.relation
                    )));
                }
            }
        }
        Ok(Self {
            schema,
            nodes,
            blocks,
            gcn_norm: None,
            edge_features: Vec::new(),
            edge_ages: Vec::new(),
            edge_factors: Vec::new(),
        })
    }

    /// Adds the normalisation that a GCN needs.
    ///
    /// # Errors
    /// [`ModelError::Batch`] if the normalisation was made for a batch of another size.
    pub fn with_gcn_norm(mut self, norm: GcnNorm) -> Result<Self, ModelError> {
        if self.blocks().iter().any(|block| !norm.weights().fits(block.graph())) {
            return Err(ModelError::batch("the GCN normalisation was made for a batch of another size"));
        }
        self.gcn_norm = Some(norm);
        Ok(self)
    }

    /// Adds learned embeddings to the features of a node type, as further columns. They are the features of a node type
    /// without features.
    ///
    /// # Shapes
    /// - `rows`: `[nodes of the type, columns]`
    ///
    /// # Errors
    /// [`ModelError::NoSuchNodeType`] if the node type does not exist, [`ModelError::Batch`] if the number of rows differs
    /// from the number of nodes.
    pub fn with_embeddings(mut self, node_type: NodeTypeId, rows: Tensor<B, 2>) -> Result<Self, ModelError> {
        let types = self.nodes.len();
        let Some(nodes) = self.nodes.get_mut(node_type.index()) else {
            return Err(ModelError::NoSuchNodeType { node_type: node_type.index(), types });
        };
        let of_type = &self.schema.node_types[node_type.index()];
        check_rows(&of_type.name, rows.dims()[0], nodes.within_hop.last().copied().unwrap_or(0))?;
        nodes.features = Some(match nodes.features.take().filter(|_| of_type.feature_dim > 0) {
            Some(features) => Tensor::cat(vec![features, rows], 1),
            None => rows,
        });
        Ok(self)
    }

    /// Returns the node types and edge types of the batch's graph.
    pub fn schema(&self) -> &Arc<GraphSchema> {
        &self.schema
    }

    /// Returns the nodes of each type.
    pub fn nodes(&self) -> &[NodeInput<B>] {
        &self.nodes
    }

    /// Returns the blocks of an edge type in the order of the layers; empty if the edge type does not exist.
    pub fn blocks_of(&self, edge_type: EdgeTypeId) -> &[Block] {
        self.blocks.get(edge_type.index()).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of layers.
    pub fn num_layers(&self) -> usize {
        self.blocks().len()
    }

    /// Returns the features of the first node type, which is the only one of a homogeneous batch. Without features the
    /// tensor has no columns.
    ///
    /// # Shapes
    /// - output: `[blocks[0].num_src, in_channels]`
    pub fn features(&self) -> Tensor<B, 2> {
        let nodes = &self.nodes[0];
        let rows = nodes.within_hop.last().copied().unwrap_or(0);
        nodes.features.clone().unwrap_or_else(|| Tensor::empty([rows, 0], &self.device()))
    }

    /// Returns the device of the features, or the backend's default device if no node type has features.
    pub(crate) fn device(&self) -> B::Device {
        let features = self.nodes.iter().find_map(|nodes| nodes.features.as_ref());
        features.map(Tensor::device).unwrap_or_default()
    }

    /// Returns the normalisation that a [`GcnConv`](edgecut_gnn::nn::GcnConv) needs.
    ///
    /// # Errors
    /// [`ModelError::Batch`] if the batch was made without normalisation.
    pub fn gcn_norm(&self) -> Result<&GcnNorm, ModelError> {
        let what = "a GCN needs the normalisation of the batch, but this batch was made without it";
        self.gcn_norm.as_ref().ok_or_else(|| ModelError::batch(what))
    }

    /// Adds the features of edges, by edge type, and their columns to the schema. The edges of each type are all edges of its
    /// widest block, row by row.
    ///
    /// # Shapes
    /// - each of `rows`: `[num_edges, edge_dim]`
    ///
    /// # Errors
    /// [`ModelError::Batch`] if the number of rows is not the number of edges.
    pub fn with_edge_features(mut self, rows: Vec<Option<Tensor<B, 2>>>) -> Result<Self, ModelError> {
        for (edge_type, rows) in rows.iter().enumerate().take(self.blocks.len()) {
            let dims = rows.as_ref().map(Tensor::dims);
            self.check_edge_rows(edge_type, dims.map(|[given, _]| given))?;
            let dim = dims.map_or(0, |[_, dim]| dim);
            if self.schema.edge_types[edge_type].edge_dim != dim {
                Arc::make_mut(&mut self.schema).edge_types[edge_type].edge_dim = dim;
            }
        }
        self.edge_features = rows;
        Ok(self)
    }

    /// Replaces the features of nodes, then the features of edges, by rows of the same shape.
    pub(crate) fn map_rows(mut self, change: &mut dyn FnMut(InputRows, Tensor<B, 2>) -> Tensor<B, 2>) -> Self {
        for (nodes, number) in self.nodes.iter_mut().zip(0..) {
            nodes.features = nodes.features.take().map(|rows| change(InputRows::Nodes(NodeTypeId(number)), rows));
        }
        for (features, number) in self.edge_features.iter_mut().zip(0..) {
            *features = features.take().map(|rows| change(InputRows::Edges(EdgeTypeId(number)), rows));
        }
        self
    }

    /// Adds the times between edges and their seeds, by edge type, which the schema describes.
    ///
    /// # Shapes
    /// - each of `ages`: `[num_edges, 1]`
    ///
    /// # Errors
    /// [`ModelError::Batch`] if the number of rows is not the number of edges.
    pub fn with_edge_ages(mut self, ages: Vec<Option<Tensor<B, 2>>>) -> Result<Self, ModelError> {
        for (edge_type, rows) in ages.iter().enumerate() {
            let given = rows.as_ref().map(|rows| rows.dims()[0]);
            self.check_edge_rows(edge_type, given)?;
        }
        self.edge_ages = ages;
        Ok(self)
    }

    /// Adds the factors of messages, by edge type, and the weights to the schema.
    ///
    /// # Errors
    /// [`ModelError::Batch`] if the number of factors is not the number of edges.
    pub fn with_edge_factors(mut self, factors: Vec<Option<Arc<EdgeWeights>>>) -> Result<Self, ModelError> {
        for (edge_type, of_type) in factors.iter().enumerate() {
            self.check_edge_rows(edge_type, of_type.as_ref().map(|factors| factors.edges().len()))?;
            if of_type.is_some() != self.schema.edge_types[edge_type].weighted {
                Arc::make_mut(&mut self.schema).edge_types[edge_type].weighted = of_type.is_some();
            }
        }
        self.edge_factors = factors;
        Ok(self)
    }

    fn check_edge_rows(&self, edge_type: usize, given: Option<usize>) -> Result<(), ModelError> {
        let expected = self.blocks_of(EdgeTypeId(edge_type as u16)).first().map_or(0, Block::num_edges);
        match given {
            Some(given) if given != expected => {
                let relation = &self.schema.edge_types[edge_type].relation;
                Err(ModelError::batch(format!("{given} rows of features for {expected} edges of type {relation}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the values of the edges of a block. `times` encodes times, as further features.
    pub(crate) fn edge_data(&self, edge_type: EdgeTypeId, layer: usize, times: Option<&TimeEncoder<B>>) -> EdgeData<B> {
        let num_edges = self.blocks_of(edge_type).get(layer).map_or(0, Block::num_edges);
        let mut features = rows_of_type(&self.edge_features, edge_type, num_edges);
        if let (Some(encoder), Some(ages)) = (times, rows_of_type(&self.edge_ages, edge_type, num_edges)) {
            let encoded = encoder.forward(ages);
            features = Some(match features {
                Some(features) => Tensor::cat(vec![features, encoded], 1),
                None => encoded,
            });
        }
        let factors = self.edge_factors.get(edge_type.index()).cloned().flatten();
        // All blocks of the only edge type share the normalisation.
        EdgeData { gcn_norm: self.gcn_norm.clone(), features, factors }
    }

    /// Returns the number of seeds of all node types.
    pub fn num_seeds(&self) -> usize {
        self.nodes.iter().filter_map(|nodes| nodes.within_hop.first()).sum()
    }

    /// Returns the blocks of the first edge type, which is the only one of a homogeneous batch, in the order of the
    /// layers.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks[0]
    }

    /// Checks that this is a homogeneous batch with `layers` layers and `in_channels` feature columns.
    ///
    /// # Errors
    /// [`ModelError::Batch`] if it is not.
    pub fn check(&self, layers: usize, in_channels: usize) -> Result<(), ModelError> {
        if !self.schema.is_homogeneous() {
            let node_types = self.nodes.len();
            let edge_types = self.blocks.len();
            return Err(ModelError::batch(format!(
                "a batch of {node_types} node types and {edge_types} edge types for a model of homogeneous graphs: use a \
                 relational model"
            )));
        }
        if self.num_layers() != layers {
            return Err(ModelError::layer_count(self.num_layers(), layers));
        }
        let given = self.nodes[0].features.as_ref().map_or(0, |features| features.dims()[1]);
        if given != in_channels {
            return Err(ModelError::batch(format!("features have {given} columns, the model reads {in_channels}")));
        }
        Ok(())
    }
}

/// Checks that there is a row for each node of a type.
fn check_rows(node_type: &str, given: usize, expected: usize) -> Result<(), ModelError> {
    if given == expected {
        return Ok(());
    }
    let what = format!("node type {node_type}: {given} rows of features or embeddings for {expected} nodes");
    Err(ModelError::batch(what))
}

/// Returns the first rows of an edge type, if it has some.
fn rows_of_type<B: Backend>(
    rows: &[Option<Tensor<B, 2>>],
    edge_type: EdgeTypeId,
    num_edges: usize,
) -> Option<Tensor<B, 2>> {
    let of_type = rows.get(edge_type.index())?.clone()?;
    Some(prefix(of_type, num_edges))
}
