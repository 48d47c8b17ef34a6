//! Settings of a network over typed edges.

use burn::tensor::backend::Backend;
use edgecut_graph::NodeTypeId;
use serde::{Deserialize, Serialize};

use super::graph_schema::GraphSchema;
use super::model_error::ModelError;
use super::model_kind::ModelKind;
use super::relational_net::RelationalNet;
use crate::nn::{RelationAggregation, TypedConvConfig, TypedConvKind};

/// Settings of a [`RelationalNet`]; what its model file holds beside the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationalConfig {
    /// Which convolution.
    pub kind: ModelKind,
    /// The graph that the model is for.
    pub graph: GraphSchema,
    /// What the model computes of seeds, by node type; the first is what it classifies. Seeds of a type that is not among them
    /// come out as the last layer left them, which without any outputs ends in the convolution itself: dot products of rows
    /// that are nowhere negative could tell no pair from an edge by a score below zero.
    pub outputs: Vec<RelationalOutput>,
    /// Columns of all node types between layers, and of learned embeddings.
    pub hidden_channels: usize,
    /// Number of convolutions, and so of hops. Without any, nodes are mapped one by one.
    pub num_layers: usize,
    /// How a node combines what it hears over several edge types; an R-GCN sums.
    pub relation_aggregation: RelationAggregation,
    /// True if a layer's input is added to its output.
    pub residual: bool,
    /// Whether a layer's input is normalised (Ba, Kiros and Hinton, "Layer normalization", 2016).
    pub layer_norm: bool,
    /// Probability of dropout after every layer, and after features were mapped.
    pub dropout: f64,
    /// Probability of dropout on the features.
    pub input_dropout: f64,
    /// As [`NodeModelConfig::normalize_features`](super::NodeModelConfig::normalize_features).
    pub normalize_features: bool,
}

/// What a model computes of the seeds of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationalOutput {
    /// The seeds' type.
    pub node_type: NodeTypeId,
    /// Columns of the output, such as classes.
    pub channels: usize,
}

impl RelationalConfig {
    /// A model without residuals, normalisation and dropout that classifies nodes of one type.
    pub fn new(
        kind: ModelKind,
        graph: GraphSchema,
        output: RelationalOutput,
        hidden_channels: usize,
        num_layers: usize,
    ) -> Self {
        Self {
            kind,
            graph,
            outputs: vec![output],
            hidden_channels,
            num_layers,
            relation_aggregation: RelationAggregation::Sum,
            residual: false,
            layer_norm: false,
            dropout: 0.0,
            input_dropout: 0.0,
            normalize_features: false,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`ModelError`] for sizes of 0 or beyond memory, dropouts outside `[0, 1)`, heads or blocks that do not divide the hidden
    /// channels, a kind of model that has no typed form, and outputs of types that are not there.
    pub fn validate(&self) -> Result<(), ModelError> {
        self.graph.validate()?;
        let sizes = [("hidden_channels", self.hidden_channels)];
        let outputs = self.outputs.iter().map(|output| ("num_classes", output.channels));
        if let Some((setting, _)) = sizes.into_iter().chain(outputs).find(|(_, size)| *size == 0) {
            return Err(ModelError::Zero { setting });
        }
        for (setting, value) in [("dropout", self.dropout), ("input_dropout", self.input_dropout)] {
            ModelError::check_probability(setting, value)?;
        }
        self.kind.validate(self.hidden_channels)?;
        let settings = |what: String| Err(ModelError::Settings { what });
        for (position, output) in self.outputs.iter().enumerate() {
            if output.node_type.index() >= self.graph.node_types.len() {
                let (node_type, types) = (output.node_type.index(), self.graph.node_types.len());
                return Err(ModelError::NoSuchNodeType { node_type, types });
            }
            if self.outputs[..position].iter().any(|other| other.node_type == output.node_type) {
                return settings(format!("node type {} has two outputs", output.node_type.index()));
            }
        }
        self.conv_kind()?;
        self.num_parameters().map(|_| ()).ok_or(ModelError::TooLarge)
    }

    /// The model with its initial weights, which depend on the seed alone.
    ///
    /// # Errors
    /// As [`RelationalConfig::validate`].
    pub fn init<B: Backend>(&self, seed: u64, device: &B::Device) -> Result<RelationalNet<B>, ModelError> {
        self.validate()?;
        RelationalNet::new(self, seed, device)
    }

    /// Number of parameters of the model; `None` if their bytes cannot be addressed.
    pub fn num_parameters(&self) -> Option<usize> {
        let (hidden, ends) = (self.hidden_channels, self.graph.edge_ends());
        let conv = self.conv(&ends).ok()?.num_parameters()?;
        let norms = if self.layer_norm { hidden.checked_mul(2)?.checked_mul(self.graph.node_types.len())? } else { 0 };
        let layers = conv.checked_add(norms)?.checked_mul(self.num_layers)?;
        let encoded = self.graph.node_types.iter().map(|nodes| nodes.feature_dim).filter(|&dim| dim > 0);
        let encoders = encoded.map(|dim| (dim, hidden));
        let outputs = self.outputs.iter().map(|output| (hidden, output.channels));
        let total = encoders
            .chain(outputs)
            .try_fold(layers, |sum, (fan_in, fan_out)| sum.checked_add(fan_in.checked_add(1)?.checked_mul(fan_out)?))?;
        (total <= isize::MAX as usize / size_of::<f32>()).then_some(total)
    }

    /// The convolution of each layer, `edge_types` being the graph's.
    pub(super) fn conv<'a>(&self, edge_types: &'a [(usize, usize)]) -> Result<TypedConvConfig<'a>, ModelError> {
        Ok(TypedConvConfig {
            kind: self.conv_kind()?,
            edge_types,
            num_node_types: self.graph.node_types.len(),
            channels: self.hidden_channels,
            combine: self.relation_aggregation,
        })
    }

    fn conv_kind(&self) -> Result<TypedConvKind, ModelError> {
        match self.kind {
            ModelKind::Sage { aggregation } => Ok(TypedConvKind::Sage { aggregation }),
            ModelKind::Gat(gat) => Ok(TypedConvKind::Gat { version: gat.version, heads: gat.heads }),
            ModelKind::Rgcn { decomposition } => Ok(TypedConvKind::Rgcn { decomposition }),
            ModelKind::Gcn => Err(ModelError::Settings {
                what: "a GCN takes homogeneous graphs with features, without an encoder and a decoder, to classify nodes: take sage, gat, gatv2 or rgcn"
                    .into(),
            }),
        }
    }
}
