//! The settings of a network over typed edges.

use burn::backend::NdArray;
use burn::tensor::backend::Backend;
use edgecut_graph::NodeTypeId;
use serde::{Deserialize, Serialize};

use super::graph_schema::GraphSchema;
use super::model_error::ModelError;
use super::relational_net::RelationalNet;
use crate::nn::{ConvKind, HeteroConv, Network, PygLayer, RelationAggregation, WeightInit};

/// The settings of a [`RelationalNet`], which its model file stores in addition to the weights.
///
/// ```
/// use edgecut_graph::NodeTypeId;
/// use edgecut_trainer::models::{ConvKind, GraphSchema, RelationalConfig, RelationalOutput, RgcnSettings, SageSettings};
/// use edgecut_trainer::nn::Decomposition;
/// let kind = ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::Basis { num_bases: 2 } });
/// let output = RelationalOutput { node_type: NodeTypeId(0), channels: 3 };
/// let config = RelationalConfig {
///     dropout: 0.5,
///     ..RelationalConfig::new(kind, GraphSchema::homogeneous(16), output, 8, 2)
/// };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationalConfig {
    /// Kind of the convolutions.
    pub kind: ConvKind,
    /// Node types and edge types of the graph that the model is for.
    pub graph: GraphSchema,
    /// Output layers by node type. The model classifies the node type of the first one.
    ///
    /// Seeds of a node type without an output layer keep the rows of the last convolution. If there are no output
    /// layers at all, the last convolution has no ReLU: dot products of non-negative rows are never negative, so a link
    /// model could not give a negative pair a score below zero.
    pub outputs: Vec<RelationalOutput>,
    /// Columns of the rows of all node types between layers, and of learned embeddings.
    pub hidden_channels: usize,
    /// Number of convolutions, which is the number of hops. With 0, each node is mapped on its own.
    pub num_layers: usize,
    /// Combination of the messages that a node receives over several edge types. An R-GCN always sums.
    pub relation_aggregation: RelationAggregation,
    /// True if the input of a layer is added to its output.
    pub residual: bool,
    /// True if the input of each layer is normalised (Ba, Kiros and Hinton, "Layer normalization", 2016).
    pub layer_norm: bool,
    /// Probability of dropout after every layer and after the encoders.
    pub dropout: f64,
    /// Probability of dropout on the features.
    pub input_dropout: f64,
    /// True if feature rows are divided by their sums, see
    /// [`NodeModelConfig::normalize_features`](super::NodeModelConfig::normalize_features).
    pub normalize_features: bool,
}

/// The output layer for the seeds of one node type.
///
/// ```
/// use edgecut_graph::NodeTypeId;
/// use edgecut_trainer::models::{ConvKind, GraphSchema, ModelError, RelationalConfig, RelationalOutput, RgcnSettings, SageSettings};
/// use edgecut_trainer::nn::Aggregation;
/// let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
/// let output = RelationalOutput { node_type: NodeTypeId(1), channels: 3 };
/// let config = RelationalConfig::new(kind, GraphSchema::homogeneous(16), output, 8, 2);
/// assert_eq!(config.validate(), Err(ModelError::NoSuchNodeType { node_type: 1, types: 1 }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationalOutput {
    /// Node type of the seeds.
    pub node_type: NodeTypeId,
    /// Columns of the output, for example the number of classes.
    pub channels: usize,
}

impl RelationalConfig {
    /// Makes the settings of a model that classifies nodes of one type, without residuals, normalisation and dropout.
    pub fn new(
        kind: ConvKind,
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
    /// [`ModelError`] for sizes of 0 or too large for memory, dropouts outside `[0, 1)`, heads or blocks that do not
    /// divide the hidden channels, a kind of model that has no typed form, and outputs of node types that do not exist.
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
        ModelError::check_num_layers(self.num_layers)?;
        self.kind.check(Network::Typed, self.hidden_channels).map_err(|what| ModelError::Settings { what })?;
        let settings = |what: String| Err(ModelError::Settings { what });
        for (position, output) in self.outputs.iter().enumerate() {
            if output.node_type.index() >= self.graph.node_types.len() {
                let node_type = output.node_type.index();
                let types = self.graph.node_types.len();
                return Err(ModelError::NoSuchNodeType { node_type, types });
            }
            if self.outputs[..position].iter().any(|other| other.node_type == output.node_type) {
                return settings(format!("node type {} has two outputs", output.node_type.index()));
            }
        }
        self.num_parameters().map(|_| ()).ok_or(ModelError::TooLarge)
    }

    /// Makes the model with its initial weights, which depend on the seed only.
    ///
    /// # Errors
    /// The errors of [`RelationalConfig::validate`].
    pub fn init<B: Backend>(&self, seed: u64, device: &B::Device) -> Result<RelationalNet<B>, ModelError> {
        self.validate()?;
        Ok(RelationalNet::new(self, &mut WeightInit::new(seed), device))
    }

    /// Returns the layers of PyG that compute the same as a layer, by edge type; empty if the Python package knows them.
    pub(crate) fn pyg_layers(&self) -> Vec<PygLayer> {
        let shapes =
            self.graph.edge_ends().into_iter().map(|ends| HeteroConv::<NdArray>::shape_of(ends, self.hidden_channels));
        shapes.filter_map(|shape| self.kind.pyg(shape)).collect()
    }

    /// Returns the number of parameters of the model, or `None` if their bytes cannot be addressed.
    ///
    /// ```
    /// use edgecut_graph::NodeTypeId;
    /// use edgecut_trainer::models::{ConvKind, GraphSchema, RelationalConfig, RelationalOutput, RgcnSettings, SageSettings};
    /// use edgecut_trainer::nn::Aggregation;
    /// let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    /// let output = RelationalOutput { node_type: NodeTypeId(0), channels: 3 };
    /// let config = RelationalConfig::new(kind, GraphSchema::homogeneous(16), output, 8, 1);
    /// let dense = |fan_in: usize, fan_out: usize| fan_in * fan_out + fan_out;
    /// // The encoder, the weights of the edges and of the nodes themselves, and the output.
    /// assert_eq!(config.num_parameters(), Some(dense(16, 8) + 8 * 8 + dense(8, 8) + dense(8, 3)));
    /// ```
    pub fn num_parameters(&self) -> Option<usize> {
        WeightInit::count(|init| {
            RelationalNet::<NdArray>::new(self, init, &Default::default());
        })
    }
}
