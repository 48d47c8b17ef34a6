//! The settings of a network.

use burn::backend::NdArray;
use burn::tensor::backend::Backend;
use edgecut_graph::NodeTypeId;
use edgecut_settings::words;
use serde::{Deserialize, Serialize};

use super::graph_schema::{GraphSchema, NodeTypeSchema};
use super::network::Network;
use super::old_settings::current;
use crate::error::{ModelError, TrainError};
use edgecut_gnn::nn::{
    Aggregation, ConvKind, ConvRole, ConvShape, EdgeFeatureUse, EdgeWeighting, HeteroConv, HiddenActivation, LayerForm,
    PygLayer, RelationAggregation, WeightInit,
};

/// The settings of a [`Network`], which its model file stores in addition to the weights.
///
/// The constructors make the usual networks: [`stack`](Self::stack) for the nodes of a graph with one node type and one
/// edge type, [`typed`](Self::typed) for the nodes of any graph, and [`whole_graphs`](Self::whole_graphs). All other
/// settings combine with each of them, and [`validate`](Self::validate) says where they cannot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// Kind of the convolutions.
    pub kind: ConvKind,
    /// Node types and edge types of the graph that the model is for.
    pub graph: GraphSchema,
    /// True if dense layers map the features of each node type to the hidden width before the first convolution. The
    /// layers then have the form [`LayerForm::Typed`], and output layers follow the last one. Otherwise the first
    /// convolution reads the features of the only node type.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub encoders: bool,
    /// Outputs by node type. The model predicts for the node type of the first one.
    ///
    /// Seeds of a node type without an output keep the rows of the last convolution. If there are no outputs at all, the
    /// last convolution has no ReLU: dot products of non-negative rows are never negative, so a link model could not
    /// give a negative pair a score below zero.
    pub outputs: Vec<NetworkOutput>,
    /// Columns of the rows of all node types between layers, and of learned embeddings.
    pub hidden_channels: usize,
    /// Number of convolutions, which is the number of hops. With 0, each node is mapped on its own.
    pub num_layers: usize,
    /// Combination of the messages that a node receives over several edge types. An R-GCN always sums.
    pub relation_aggregation: RelationAggregation,
    /// True if the input of a layer is added to its output, where both have the hidden width.
    pub residual: bool,
    /// True if the input of each layer is normalised (Ba, Kiros and Hinton, "Layer normalization", 2016), except
    /// features.
    pub layer_norm: bool,
    /// True if the output of each convolution is normalised over the batch, except logits. Layers of an MLP within a
    /// convolution of the form [`LayerForm::Direct`] are normalised too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub batch_norm: bool,
    /// True if the output of each convolution is normalised over the nodes of each graph, except logits
    /// ([`GraphNorm`](edgecut_gnn::nn::GraphNorm)). For models of whole graphs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub graph_norm: bool,
    /// True if a virtual node of each graph reads all nodes before each layer but the first, and adds its row to theirs. For
    /// models of whole graphs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub virtual_node: bool,
    /// Width of the [`FeedForward`](edgecut_gnn::nn::FeedForward) parts after all layers that compute rows of the hidden
    /// width, as a multiple of it. `None` without such parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed_forward: Option<usize>,
    /// Rows that the output layers read.
    #[serde(default, skip_serializing_if = "Readout::is_last")]
    pub readout: Readout,
    /// Pooling of the nodes of each graph before the output, for models of whole graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Pooling>,
    /// Probability of dropout after the encoders and after every layer but the last one of a stack.
    pub dropout: f64,
    /// Probability of dropout on the features.
    pub input_dropout: f64,
    /// True if each feature row is divided by its sum, or by 1 if the sum is smaller, before the model reads it (PyG's
    /// `NormalizeFeatures`). [`TensorBatch`](crate::TensorBatch) does this; the model uses its input unchanged.
    pub normalize_features: bool,
}

/// The output for the nodes of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkOutput {
    /// Node type.
    pub node_type: NodeTypeId,
    /// Columns of the output, for example the number of classes.
    pub channels: usize,
}

/// The rows that the output layers, or the pooling before them, read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readout {
    /// The rows after the last convolution.
    #[default]
    Last,
    /// The rows before the first convolution and after each one, concatenated (Xu et al., "Representation learning on
    /// graphs with jumping knowledge networks", ICML 2018, as in the GIN paper).
    JumpingKnowledge,
    /// The greatest value of each column after all convolutions (the same paper), which all have the hidden width.
    JumpingKnowledgeMax,
}

words!(
    Readout,
    "readout",
    JumpingKnowledge = "jumping-knowledge": "The input features and the outputs of all layers, concatenated",
    JumpingKnowledgeMax = "jumping-knowledge-max": "The greatest value of each column over the outputs of all layers",
    Last = "last": "The output of the last layer only",
);

/// The pooling of the nodes of a graph into one row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pooling {
    /// Aggregation of the nodes.
    pub aggregation: Aggregation,
    /// Probability of dropout on the pooled rows.
    pub dropout: f64,
}

impl Readout {
    fn is_last(&self) -> bool {
        *self == Self::Last
    }
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_false(value: &bool) -> bool {
    !value
}

impl NetworkConfig {
    /// Makes the settings of a network whose first convolution reads the features of a homogeneous graph, and whose last
    /// one computes `num_classes` columns.
    pub fn stack(
        kind: ConvKind,
        in_channels: usize,
        hidden_channels: usize,
        num_classes: usize,
        num_layers: usize,
    ) -> Self {
        let output = NetworkOutput { node_type: NodeTypeId(0), channels: num_classes };
        let graph = GraphSchema::homogeneous(in_channels);
        Self { encoders: false, ..Self::typed(kind, graph, output, hidden_channels, num_layers) }
    }

    /// Makes the settings of a network over typed edges with encoders, and an output layer for the nodes of one type.
    pub fn typed(
        kind: ConvKind,
        graph: GraphSchema,
        output: NetworkOutput,
        hidden_channels: usize,
        num_layers: usize,
    ) -> Self {
        Self {
            kind,
            graph,
            encoders: true,
            outputs: vec![output],
            hidden_channels,
            num_layers,
            relation_aggregation: RelationAggregation::Sum,
            residual: false,
            layer_norm: false,
            batch_norm: false,
            graph_norm: false,
            virtual_node: false,
            feed_forward: None,
            readout: Readout::Last,
            pooling: None,
            dropout: 0.0,
            input_dropout: 0.0,
            normalize_features: false,
        }
    }

    /// Makes the settings of the GIN paper's network for whole graphs: sum pooling, batch normalisation, a readout of all
    /// layers, no dropout.
    pub fn whole_graphs(
        kind: ConvKind,
        in_channels: usize,
        hidden_channels: usize,
        num_classes: usize,
        num_layers: usize,
    ) -> Self {
        Self {
            batch_norm: true,
            readout: Readout::JumpingKnowledge,
            pooling: Some(Pooling { aggregation: Aggregation::Sum, dropout: 0.0 }),
            ..Self::stack(kind, in_channels, hidden_channels, num_classes, num_layers)
        }
    }

    /// Parses the settings from the JSON that serialising writes, or that earlier versions have written.
    ///
    /// # Errors
    /// If the text is not JSON or has other entries.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_value(current(serde_json::from_str(text)?)?)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`ModelError`] for sizes of 0 or too large for memory, dropouts outside `[0, 1)`, a convolution that does not fit,
    /// outputs of node types that do not exist, and blocks that contradict each other or have no effect.
    pub fn validate(&self) -> Result<(), ModelError> {
        self.graph.validate()?;
        let mut sizes = vec![("hidden_channels", self.hidden_channels)];
        sizes.extend(self.feed_forward.map(|ratio| ("feed_forward", ratio)));
        sizes.extend(self.outputs.iter().map(|output| ("num_classes", output.channels)));
        if !self.encoders {
            sizes.extend([("in_channels", self.graph.node_types[0].feature_dim), ("num_layers", self.num_layers)]);
        }
        if let Some((setting, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(ModelError::Zero { setting });
        }
        let of_pooling = self.pooling.map_or(0.0, |pooling| pooling.dropout);
        for (setting, value) in [
            ("dropout", self.dropout),
            ("input_dropout", self.input_dropout),
            ("dropout of the pooled rows", of_pooling),
        ] {
            ModelError::check_probability(setting, value)?;
        }
        ModelError::check_num_layers(self.num_layers)?;
        self.kind.check(self.form(), self.hidden_channels).map_err(|what| ModelError::Settings { what })?;
        self.check_outputs()?;
        let dims: Vec<usize> = self.graph.edge_types.iter().map(|edges| edges.edge_dim).collect();
        self.graph.clone().set_edge_features(self.kind, &dims)?;
        self.check_values_of_edges()?;
        match self.contradiction() {
            Some(what) => Err(ModelError::Settings { what }),
            None => self.num_parameters().map(|_| ()).ok_or(ModelError::TooLarge),
        }
    }

    /// Checks the settings of the encoder of a model for `task`.
    ///
    /// # Errors
    /// Outputs, pooling or no encoders, and the errors of [`NetworkConfig::validate`].
    pub(super) fn validate_encoder(&self, task: &str) -> Result<(), ModelError> {
        if !self.outputs.is_empty() || !self.encoders || self.pooling.is_some() {
            let what =
                format!("the encoder of a model for {task} has encoders of features, and neither outputs nor pooling");
            return Err(ModelError::Settings { what });
        }
        self.validate()
    }

    /// Checks that there are fan-outs for each layer.
    pub(crate) fn check_hops(&self, hops: usize) -> Result<(), TrainError> {
        let layers = self.num_layers;
        if hops == layers {
            return Ok(());
        }
        Err(TrainError::config(format!(
            "the model has {layers} layers, but `num_neighbors` has {hops} fan-outs: give a fan-out for each layer"
        )))
    }

    /// Checks that the convolution reads the weights and times of edges that the graph has for it.
    fn check_values_of_edges(&self) -> Result<(), ModelError> {
        let model = self.kind.model_name();
        let what = if self.graph.has_edge_weights() && self.kind.edge_weighting() == EdgeWeighting::None {
            format!("messages of {model} are not multiplied by weights of edges, which the graph has for the model")
        } else if self.graph.time_dim() > 0 && self.kind.edge_features() == EdgeFeatureUse::Ignored {
            format!("{model} reads no features of edges, to which the encoding of times of the graph belongs")
        } else {
            return Ok(());
        };
        Err(ModelError::Settings { what })
    }

    fn check_outputs(&self) -> Result<(), ModelError> {
        for (position, output) in self.outputs.iter().enumerate() {
            if output.node_type.index() >= self.graph.node_types.len() {
                let node_type = output.node_type.index();
                let types = self.graph.node_types.len();
                return Err(ModelError::NoSuchNodeType { node_type, types });
            }
            if self.outputs[..position].iter().any(|other| other.node_type == output.node_type) {
                let what = format!("node type {} has two outputs", output.node_type.index());
                return Err(ModelError::Settings { what });
            }
        }
        Ok(())
    }

    /// Describes the first block of the network that contradicts another one or has no effect.
    fn contradiction(&self) -> Option<String> {
        let Self { num_layers, encoders, residual, layer_norm, batch_norm, graph_norm, virtual_node, .. } = *self;
        if !encoders && !self.graph.is_homogeneous() {
            return Some("a graph of several node types or edge types needs encoders (`encoders`)".into());
        }
        if !encoders && self.graph.node_types[0].adds_embedding() {
            return Some("features with added embeddings need encoders (`encoders`)".into());
        }
        if layer_norm && batch_norm {
            return Some("it has layer norm and batch norm: choose one of them".into());
        }
        if graph_norm && (layer_norm || batch_norm) {
            return Some("it has graph norm and another norm: choose one of them".into());
        }
        if graph_norm && self.pooling.is_none() {
            return Some("graph norm is for models of whole graphs: choose layer norm or batch norm".into());
        }
        if virtual_node && self.pooling.is_none() {
            return Some("a virtual node is for models of whole graphs: leave `virtual_node` out".into());
        }
        if (self.pooling.is_some() || !encoders) && self.outputs.len() != 1 {
            return Some("a network without encoders or with pooling has one output".into());
        }
        if self.readout == Readout::JumpingKnowledgeMax && num_layers == 0 {
            return Some(
                "jumping knowledge reads the outputs of layers, but the model has none: choose another readout".into(),
            );
        }
        if self.readout != Readout::Last && self.outputs.is_empty() {
            return Some("jumping knowledge is for output layers, but the model has no outputs".into());
        }
        let effects = [
            (
                residual,
                "residuals apply to the layers between rows of the hidden width",
                Self::has_residual as fn(_, _) -> _,
            ),
            (layer_norm, "layer norm applies to the input of all layers but the first", Self::reads_hidden_rows),
            (batch_norm, "batch norm applies to the output of all layers but the last", Self::computes_hidden_rows),
            (graph_norm, "graph norm applies to the output of all layers but the last", Self::computes_hidden_rows),
            (
                virtual_node,
                "a virtual node passes rows on before all layers but the first",
                Self::has_virtual_node_before,
            ),
            (
                self.feed_forward.is_some(),
                "feed-forward parts follow the layers that compute rows of the hidden width",
                Self::computes_hidden_rows,
            ),
        ];
        for (is_set, what, applies) in effects {
            // A model without convolutions has none of these blocks.
            if !is_set || num_layers == 0 || (0..num_layers).any(|layer| applies(self, layer)) {
                continue;
            }
            let advice = match self.kind.check(LayerForm::Typed, self.hidden_channels) {
                Ok(()) => "add layers, or an encoder and a decoder (`encoder_decoder`)",
                Err(_) => "add layers",
            };
            return Some(format!("{what}, but the model has {num_layers} and no such layer: {advice}"));
        }
        None
    }

    /// Makes the model with its initial weights, which depend on the seed only.
    ///
    /// # Errors
    /// The errors of [`NetworkConfig::validate`].
    pub fn init<B: Backend>(&self, seed: u64, device: &B::Device) -> Result<Network<B>, ModelError> {
        self.validate()?;
        Ok(Network::new(self, &mut WeightInit::new(seed), device))
    }

    /// Returns the number of parameters of the model including running statistics, or `None` if their bytes cannot be
    /// addressed.
    pub fn num_parameters(&self) -> Option<usize> {
        WeightInit::count(|init| {
            Network::<NdArray>::new(self, init, &Default::default());
        })
    }

    /// Returns the number of columns of the first output; 0 if the model has none.
    pub fn num_outputs(&self) -> usize {
        self.outputs.first().map_or(0, |output| output.channels)
    }

    /// Returns the number of columns of a graph's pooled row, or `None` if it overflows.
    pub fn pooled_channels(&self) -> Option<usize> {
        self.channels_read(self.num_layers)
    }

    /// Returns the layers of PyG that compute the same as the convolutions; empty if the Python package knows them. They
    /// are by layer, and by edge type if the layers have several convolutions.
    pub(crate) fn pyg_layers(&self) -> Vec<PygLayer> {
        let shapes: Vec<ConvShape> = match self.form() {
            LayerForm::Direct => (0..self.num_layers).map(|layer| self.conv_shape(layer)).collect(),
            LayerForm::Typed => {
                let edge_types = self.graph.edge_shapes().into_iter();
                edge_types.map(|edges| HeteroConv::<NdArray>::shape_of(edges, self.hidden_channels)).collect()
            }
        };
        let layers = shapes.into_iter().map(|shape| self.kind.pyg(shape));
        layers.collect::<Option<Vec<PygLayer>>>().unwrap_or_default()
    }

    /// Returns the form of the layers.
    pub fn form(&self) -> LayerForm {
        if self.encoders { LayerForm::Typed } else { LayerForm::Direct }
    }

    /// Returns true if the network has an encoder of the rows of a node type. The sum of features and an embedding is the first
    /// row of a node if it has the hidden width.
    pub(super) fn has_encoder(&self, nodes: &NodeTypeSchema) -> bool {
        let width = nodes.encoded_width();
        self.encoders && width > 0 && !(nodes.adds_embedding() && width == self.hidden_channels)
    }

    /// Returns true if output layers follow the last convolution. Otherwise it computes the result.
    pub(super) fn has_output_layers(&self) -> bool {
        let is_stack = !self.encoders && self.pooling.is_none() && self.readout == Readout::Last;
        !self.outputs.is_empty() && !is_stack
    }

    /// Returns true if the last convolution computes the outputs.
    pub(crate) fn ends_in_logits(&self) -> bool {
        !self.outputs.is_empty() && !self.has_output_layers()
    }

    /// Returns true if a layer, counted from 0, computes the result of the model.
    pub(super) fn is_result(&self, layer: usize) -> bool {
        layer + 1 == self.num_layers && !self.has_output_layers()
    }

    /// Returns true if a layer reads rows of the hidden width instead of features.
    pub(super) fn reads_hidden_rows(&self, layer: usize) -> bool {
        self.encoders || layer > 0
    }

    /// Returns true if a layer computes rows of the hidden width instead of logits.
    pub(super) fn computes_hidden_rows(&self, layer: usize) -> bool {
        self.encoders || !self.is_result(layer)
    }

    /// Returns true if nodes pass their rows through a virtual node before a layer.
    pub(super) fn has_virtual_node_before(&self, layer: usize) -> bool {
        self.virtual_node && layer > 0
    }

    /// Returns true if the input of a layer is added to its output.
    pub(super) fn has_residual(&self, layer: usize) -> bool {
        self.residual && self.reads_hidden_rows(layer) && self.computes_hidden_rows(layer)
    }

    /// Returns the number of columns of a node type's rows before a layer. `num_layers` is the layer after the last one.
    pub(super) fn channels_before(&self, layer: usize) -> usize {
        match layer.checked_sub(1) {
            None if !self.encoders => self.graph.node_types[0].encoded_width(),
            Some(before) if !self.computes_hidden_rows(before) => self.num_outputs(),
            _ => self.hidden_channels,
        }
    }

    /// Returns the number of columns of the rows that an output layer after `num_layers` layers reads: those of the last
    /// layer, or of all layers.
    pub(super) fn channels_read(&self, num_layers: usize) -> Option<usize> {
        match self.readout {
            // The maximum over layers has the width of each.
            Readout::Last | Readout::JumpingKnowledgeMax => Some(self.channels_before(num_layers)),
            Readout::JumpingKnowledge => {
                let before = self.channels_before(0);
                num_layers.checked_mul(self.hidden_channels)?.checked_add(before)
            }
        }
    }

    /// Returns the shape of the only convolution of a layer.
    pub(super) fn conv_shape(&self, layer: usize) -> ConvShape {
        ConvShape {
            in_channels: self.channels_before(layer),
            out_channels: self.channels_before(layer + 1),
            edge_channels: self.graph.edge_types[0].encoded_width(),
            role: if self.is_result(layer) { ConvRole::Output } else { ConvRole::Hidden },
            batch_norm: self.batch_norm,
        }
    }

    /// Returns the activation of hidden layers.
    pub(super) fn activation(&self) -> HiddenActivation {
        // The stacks of PyG have another activation for some convolutions. The other networks always had ReLU.
        if self.encoders || self.pooling.is_some() { HiddenActivation::Relu } else { self.kind.hidden_activation() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::EdgeTypeSchema;
    use edgecut_gnn::nn::{Decomposition, GatSettings, GcnSettings, GinSettings, RgcnSettings};
    use edgecut_gnn::ops::AttentionVersion;

    const GCN: ConvKind = ConvKind::Gcn(GcnSettings);

    fn gat(version: AttentionVersion, heads: usize) -> ConvKind {
        ConvKind::Gat(GatSettings { heads, version, attention_dropout: 0.1, projection_bias: true })
    }

    fn fault(config: NetworkConfig) -> String {
        config.validate().expect_err("settings that make no model").to_string()
    }

    #[test]
    fn rejects_settings_that_make_no_model() {
        for config in [NetworkConfig::stack(GCN, 4, 8, 2, 2), NetworkConfig::whole_graphs(GCN, 4, 8, 2, 2)] {
            assert_eq!(config.validate(), Ok(()));
            let broken = NetworkConfig { num_layers: 0, ..config.clone() };
            assert_eq!(broken.validate(), Err(ModelError::Zero { setting: "num_layers" }));
            let broken = NetworkConfig { graph: GraphSchema::homogeneous(0), ..config.clone() };
            assert_eq!(broken.validate(), Err(ModelError::Zero { setting: "in_channels" }));
            let broken = NetworkConfig { dropout: 1.0, ..config.clone() };
            assert_eq!(broken.validate(), Err(ModelError::Probability { setting: "dropout", value: 1.0 }));
            assert!(NetworkConfig { input_dropout: f64::NAN, ..config.clone() }.validate().is_err());
            let broken = NetworkConfig { graph: GraphSchema::homogeneous(usize::MAX), ..config.clone() };
            assert_eq!(broken.validate(), Err(ModelError::TooLarge));
            let kind = |kind| fault(NetworkConfig { kind, ..config.clone() });
            assert!(kind(gat(AttentionVersion::V1, 0)).contains("heads is 0"));
            assert!(kind(gat(AttentionVersion::V1, 3)).contains("3 heads do not divide 8"));
            assert!(
                kind(ConvKind::Gin(GinSettings { mlp_layers: 0, learn_epsilon: false }))
                    .contains("mlp_layers is 0, it must be at least 1")
            );
            let rgcn = ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::None });
            assert!(kind(rgcn).contains("use encoders"));
            let two = NetworkOutput { node_type: NodeTypeId(0), channels: 2 };
            assert!(fault(NetworkConfig { outputs: vec![two; 2], ..config.clone() }).contains("two outputs"));
            assert!(fault(NetworkConfig { outputs: vec![], ..config.clone() }).contains("has one output"));
            let mut graph = config.graph.clone();
            graph.edge_types[0].weighted = true;
            let weighted = NetworkConfig { graph, kind: gat(AttentionVersion::V1, 2), ..config.clone() };
            assert!(fault(weighted).contains("gat are not multiplied by weights"));
            let mut graph = config.graph.clone();
            graph.edge_types[0].time_dim = 3;
            let of_times = NetworkConfig { graph: graph.clone(), ..config.clone() };
            assert!(fault(of_times.clone()).contains("gcn reads no features of edges"));
            graph.edge_types.push(EdgeTypeSchema { time_dim: 4, ..graph.edge_types[0].clone() });
            assert!(fault(NetworkConfig { graph, ..of_times }).contains("the same number of columns"));
            let both = NetworkConfig { layer_norm: true, batch_norm: true, ..config };
            assert!(fault(both).contains("choose one of them"));
        }
    }
}
