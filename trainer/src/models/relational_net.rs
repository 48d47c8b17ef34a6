//! A network over typed edges.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_graph::{EdgeTypeId, NodeTypeId};

use super::model_error::ModelError;
use super::model_input::ModelInput;
use super::node_model::NodeClassifier;
use super::relational_config::RelationalConfig;
use crate::nn::{
    AnyTypedConv, Dense, HeteroShape, Incoming, LayerPass, Mode, TypedConv, TypedConvInput, WeightInit, prefix,
};
use crate::ops::{Activation, GnnBackend, Precision, masked};

// The numbers of dropout masks between layers. Layer `l`, counted from 0, adds `l` to `HIDDEN`.
const INPUT: u64 = 0;
const ENCODED: u64 = 1;
const HIDDEN: u64 = 2;

/// A stack of typed convolutions over all node types. Encoders map the features of all node types to the same width
/// first.
///
/// With residuals a layer computes `h + dropout(relu(conv(norm(h))))`, without residuals it replaces `h`. If the model
/// has no output layers, the last layer has neither ReLU nor dropout. A node type that is not the destination of any
/// edge type keeps its rows. Each layer computes only the rows that the seeds need: those within as many hops as layers
/// follow.
#[derive(Module, Debug)]
pub struct RelationalNet<B: Backend> {
    /// The encoder of the features of each node type; `None` for node types with learned embeddings.
    pub encoders: Vec<Option<Dense<B>>>,
    /// The convolutions.
    pub layers: Vec<RelationalLayer<B>>,
    /// The output layer of each node type, if it has one.
    pub outputs: Vec<Option<Dense<B>>>,
    settings: Settings,
}

/// A layer of a [`RelationalNet`].
#[derive(Module, Debug)]
pub struct RelationalLayer<B: Backend> {
    /// The normalisation of each node type's rows; empty without normalisation.
    pub norms: Vec<LayerNorm<B>>,
    /// The convolution.
    pub conv: AnyTypedConv<B>,
}

/// The settings of a network that are not tensors.
#[derive(Debug, Clone)]
struct Settings(Box<RelationalConfig>);

/// The rows of each node type; `None` for node types without nodes in the batch.
type Rows<B> = Vec<Option<Tensor<B, 2>>>;

impl<B: Backend> RelationalNet<B> {
    /// Makes the network. The settings must be valid.
    pub(super) fn new(config: &RelationalConfig, init: &mut WeightInit, device: &B::Device) -> Self {
        let hidden = config.hidden_channels;
        let node_types = &config.graph.node_types;
        let mut encoders = Vec::with_capacity(node_types.len());
        for nodes in node_types {
            let has_features = nodes.feature_dim > 0;
            encoders.push(if has_features { Some(Dense::new(nodes.feature_dim, hidden, init, device)) } else { None });
        }
        let ends = config.graph.edge_ends();
        let shape = HeteroShape {
            edge_types: &ends,
            num_node_types: node_types.len(),
            channels: hidden,
            combine: config.relation_aggregation,
        };
        let mut layers = Vec::with_capacity(config.num_layers);
        for _ in 0..config.num_layers {
            let norms = if config.layer_norm { node_types.len() } else { 0 };
            let norms = (0..norms).map(|_| init.layer_norm(hidden, device)).collect();
            layers.push(RelationalLayer { norms, conv: config.kind.init_typed(&shape, init, device) });
        }
        let mut outputs = Vec::with_capacity(node_types.len());
        for node_type in 0..node_types.len() {
            let output = config.outputs.iter().find(|output| output.node_type.index() == node_type);
            outputs.push(output.map(|output| Dense::new(hidden, output.channels, init, device)));
        }
        Self { encoders, layers, outputs, settings: Settings(Box::new(config.clone())) }
    }

    /// Sets the type in which a GPU multiplies matrices for this model (mixed-precision training). The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        for layer in &mut self.layers {
            layer.conv.set_precision(precision);
        }
        for dense in self.encoders.iter_mut().chain(&mut self.outputs).flatten() {
            dense.set_precision(precision);
        }
    }

    /// Returns the settings of the model.
    pub fn config(&self) -> &RelationalConfig {
        &self.settings.0
    }
}

impl<B: GnnBackend> RelationalNet<B> {
    /// Computes the outputs of the batch's seeds by node type; `None` for node types without seeds.
    ///
    /// # Shapes
    /// - of each node type: `[seeds of the type, channels]`, with `hidden_channels` columns for a type without an
    ///   output layer
    ///
    /// # Errors
    /// [`ModelError`] if the batch has another schema or number of layers than the model, or lacks features or
    /// embeddings.
    pub fn forward_by_type(&self, input: &ModelInput<B>, mode: Mode) -> Result<Rows<B>, ModelError> {
        if let Some(what) = self.config().graph.difference(input.schema()) {
            return Err(ModelError::ForeignSchema { what });
        }
        if input.num_layers() != self.layers.len() {
            return Err(ModelError::LayerCount { blocks: input.num_layers(), layers: self.layers.len() });
        }
        let mut rows = self.encode(input, mode)?;
        for number in 0..self.layers.len() {
            rows = self.convolve(number, &rows, input, number, mode);
        }
        let output = |(t, rows): (usize, Option<Tensor<B, 2>>)| rows.map(|rows| self.output(t, rows));
        Ok(rows.into_iter().enumerate().map(output).collect())
    }

    /// Applies the output layer of a node type, if it has one, to rows of the last layer.
    pub(crate) fn output(&self, node_type: usize, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        match &self.outputs[node_type] {
            Some(output) => output.forward(rows, Activation::Identity),
            None => rows,
        }
    }

    /// Computes one layer, counted from 0, from the rows of the layer before it, which are the features of the input.
    /// Returns the rows of the seeds by node type; `None` for node types without seeds.
    pub(crate) fn forward_layer(&self, number: usize, input: &ModelInput<B>) -> Rows<B> {
        let rows = input.nodes().iter().map(|nodes| nodes.features.clone()).collect();
        self.convolve(number, &rows, input, 0, Mode::Eval)
    }

    /// Maps the features of all node types to rows of the hidden width.
    pub(crate) fn encode(&self, input: &ModelInput<B>, mode: Mode) -> Result<Rows<B>, ModelError> {
        let config = self.config();
        let mut all = Vec::with_capacity(self.encoders.len());
        for ((encoder, nodes), t) in self.encoders.iter().zip(input.nodes()).zip(0..) {
            if nodes.within_hop.last().is_none_or(|&count| count == 0) {
                all.push(None);
                continue;
            }
            let of_type = &config.graph.node_types[t];
            let expected = if encoder.is_some() { of_type.feature_dim } else { config.hidden_channels };
            let width = nodes.features.as_ref().map_or(0, |features| features.dims()[1]);
            let Some(features) = nodes.features.clone().filter(|_| width == expected) else {
                return Err(ModelError::NodeWidth { node_type: of_type.name.clone(), given: width, expected });
            };
            let mask = mode.mask(config.dropout, ENCODED).for_type(t as u64);
            all.push(Some(match encoder {
                Some(encoder) => {
                    let features = masked(features, mode.mask(config.input_dropout, INPUT).for_type(t as u64));
                    let is_last = config.num_layers == 0 && config.outputs.is_empty();
                    encoder.forward(features, if is_last { Activation::Identity } else { Activation::Relu(mask) })
                }
                None => masked(features, mask),
            }));
        }
        Ok(all)
    }

    /// Applies layer `number` to block `at` of the input. Returns the rows of the nodes that the next layer reads.
    fn convolve(&self, number: usize, rows: &Rows<B>, input: &ModelInput<B>, at: usize, mode: Mode) -> Rows<B> {
        let config = self.config();
        let layer = &self.layers[number];
        let hop = input.num_layers() - 1 - at;
        // Without output layers these rows are the result, which must be able to be negative: no ReLU.
        let is_last = number + 1 == self.layers.len() && config.outputs.is_empty();
        let normalised: Rows<B> = if layer.norms.is_empty() {
            rows.clone()
        } else {
            rows.iter().zip(&layer.norms).map(|(rows, norm)| Some(norm.forward(rows.clone()?))).collect()
        };
        let pass = LayerPass::new(mode, number as u64);
        let of_type = |(t, rows): (usize, &Option<Tensor<B, 2>>)| {
            let num_dst = input.nodes()[t].within_hop[hop];
            let rows = rows.clone().filter(|_| num_dst > 0)?;
            let entering = config.graph.edge_types.iter().enumerate().filter(|(_, edges)| edges.dst.index() == t);
            let incoming: Vec<Incoming<B>> = entering
                .clone()
                .filter_map(|(relation, edges)| {
                    let x = normalised[edges.src.index()].clone()?;
                    let block = input.blocks_of(EdgeTypeId(relation as u16)).get(at)?.clone();
                    Some(Incoming { relation, x, block })
                })
                .collect();
            if entering.count() == 0 {
                return Some(prefix(rows, num_dst));
            }
            let x_dst = prefix(normalised[t].clone()?, num_dst);
            let output = layer.conv.convolve(TypedConvInput { node_type: t, x_dst, incoming: &incoming, pass });
            let mask = mode.mask(config.dropout, HIDDEN + number as u64).for_type(t as u64);
            let output = if is_last { output } else { Activation::Relu(mask).apply(output) };
            Some(if config.residual { prefix(rows, num_dst) + output } else { output })
        };
        rows.iter().enumerate().map(of_type).collect()
    }
}

impl<B: GnnBackend> NodeClassifier<B> for RelationalNet<B> {
    fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let Some(output) = self.config().outputs.first() else {
            return Err(ModelError::Settings { what: "a model without output layers cannot classify nodes".into() });
        };
        let mut rows = self.forward_by_type(&input, mode)?;
        let NodeTypeId(seed_type) = output.node_type;
        let logits = rows.swap_remove(usize::from(seed_type));
        Ok(logits.unwrap_or_else(|| Tensor::empty([0, output.channels], &input.device())))
    }
}
