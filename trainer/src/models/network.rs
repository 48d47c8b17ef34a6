//! The network of all models.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_graph::{EdgeTypeId, NodeTypeId};

use super::graph_input::{GraphClassifier, GraphInput};
use super::layered_model::LayeredModel;
use super::model_input::ModelInput;
use super::network_config::{NetworkConfig, NetworkOutput, Pooling, Readout};
use super::node_model::NodeClassifier;
use crate::error::ModelError;
use edgecut_gnn::nn::{
    AnyTypedConv, BatchNorm, Dense, FeedForward, GraphNorm, HeteroShape, HiddenActivation, Incoming, LayerForm,
    LayerPass, Mode, TimeEncoder, TypedConv, TypedConvInput, VirtualNode, WeightInit, prefix,
};
use edgecut_gnn::ops::{Activation, DropoutMask, GnnBackend, Precision, Segments, masked, pool};
use std::ops::Range;

// The numbers of dropout masks. The mask after layer `l`, counted from 0, adds `l` to a number that follows them.
const INPUT: u64 = 0;
const ENCODED: u64 = 1;
const POOLED: u64 = 1;
/// The number of the first mask within feed-forward parts. The part of each layer has two masks.
const FEED_FORWARD: u64 = 1 << 33;

/// A graph neural network: encoders of the features of each node type, layers of a convolution each, pooling, and output
/// layers. [`NetworkConfig::init`] makes it with the parts that the settings ask for.
///
/// A layer computes `norm(conv(x))`, an activation and dropout, or with layer normalisation `conv(norm(x))`, and adds its
/// input with residuals. A [`FeedForward`] part may follow. The result of the model has neither activation nor dropout. A node type that is not the
/// destination of any edge type keeps its rows. Each layer computes only the rows that the seeds need: those within as
/// many hops as layers follow.
///
/// Invariants: optimizers, checkpoints and collectives order the parameters as the fields are ordered, and model files
/// name tensors by the fields.
///
/// ```
/// # use std::sync::Arc;
/// use burn::tensor::Tensor;
/// use edgecut_trainer::Cpu;
/// use edgecut_trainer::models::{ConvKind, Mode, ModelInput, NetworkConfig, NodeClassifier, SageSettings};
/// use edgecut_gnn::ops::{BatchGraph, Block};
/// let device = Default::default();
/// let kind = ConvKind::Sage(SageSettings::default());
/// let model = NetworkConfig::stack(kind, 8, 16, 3, 2).init::<Cpu>(42, &device)?;
/// // The seed 0 has the neighbors 1 and 2, node 1 has the neighbor 3, node 2 has no neighbors.
/// let graph = Arc::new(BatchGraph::new(vec![0, 2, 3, 3], vec![1, 2, 3], 4)?);
/// let input = ModelInput::new(Tensor::ones([4, 8], &device), Block::layers(&graph, &[1, 3, 4])?)?;
/// assert_eq!(model.forward(input, Mode::Eval)?.dims(), [1, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Module, Debug)]
pub struct Network<B: Backend> {
    /// The encoder of the features of each node type, and of the embeddings that it has beside them; `None` for node types
    /// whose embeddings, or sums of features and embeddings, have the hidden width, and without encoders.
    pub encoders: Vec<Option<Dense<B>>>,
    /// The layer that maps the features of each node type to the width of the embeddings that are added to them; `None` for
    /// node types without such embeddings.
    pub projections: Vec<Option<Dense<B>>>,
    /// The layers.
    pub layers: Vec<Layer<B>>,
    /// The normalisations of layers of the form [`LayerForm::Direct`]: of the inputs of all layers but the first, or of
    /// the outputs of the layers. Empty without normalisation.
    pub norms: Vec<Norm<B>>,
    /// The output layer of each node type, if it has one.
    pub outputs: Vec<Option<Dense<B>>>,
    /// The output layer after the pooling.
    pub output: Option<Dense<B>>,
    /// The encoder of the times between edges and seeds, if the model reads them.
    pub times: Option<TimeEncoder<B>>,
    /// The virtual nodes before all layers but the first; empty without.
    pub virtual_nodes: Vec<VirtualNode<B>>,
    settings: Settings,
}

/// A layer of a [`Network`].
#[derive(Module, Debug)]
pub struct Layer<B: Backend> {
    /// The normalisation of each node type's rows in layers of the form [`LayerForm::Typed`]; empty without
    /// normalisation.
    pub norms: Vec<Norm<B>>,
    /// The convolution.
    pub conv: AnyTypedConv<B>,
    /// The feed-forward part after the convolution for each node type that edges enter; empty without.
    pub feed_forward: Vec<Option<FeedForward<B>>>,
}

/// A normalisation of rows.
#[derive(Module, Debug)]
pub enum Norm<B: Backend> {
    /// Of each row, before a convolution.
    Layer(LayerNorm<B>),
    /// Of each column over the batch, after a convolution.
    Batch(BatchNorm<B>),
    /// Of each column over the nodes of each graph, after a convolution.
    Graph(GraphNorm<B>),
}

/// The settings of a network, which are not tensors.
#[derive(Debug, Clone)]
struct Settings(Box<NetworkConfig>);

/// The part of a batch that a layer reads.
#[derive(Clone, Copy)]
struct LayerInput<'a, B: Backend> {
    input: &'a ModelInput<B>,
    /// The number of the blocks.
    at: usize,
    /// The nodes of each graph, in models for whole graphs.
    segments: Option<&'a Segments>,
}

/// The rows of each node type; `None` for node types without nodes in the batch.
type Rows<B> = Vec<Option<Tensor<B, 2>>>;

impl<B: Backend> Network<B> {
    /// Makes the network. The settings must be valid.
    pub(super) fn new(config: &NetworkConfig, init: &mut WeightInit, device: &B::Device) -> Self {
        let hidden = config.hidden_channels;
        let node_types = &config.graph.node_types;
        let mut encoders = Vec::with_capacity(node_types.len());
        let mut projections = Vec::with_capacity(node_types.len());
        for nodes in node_types {
            let mut encoder = None;
            if config.has_encoder(nodes) {
                encoder = Some(Dense::new(nodes.encoded_width(), hidden, init, device));
            }
            encoders.push(encoder);
            let mut projection = None;
            if nodes.adds_embedding() {
                projection = Some(Dense::new(nodes.feature_dim, nodes.embedding_dim, init, device));
            }
            projections.push(projection);
        }
        let ends = config.graph.edge_shapes();
        let shape = HeteroShape {
            edge_types: &ends,
            num_node_types: node_types.len(),
            channels: hidden,
            combine: config.relation_aggregation,
        };
        let mut layers = Vec::with_capacity(config.num_layers);
        let mut norms = Vec::new();
        for layer in 0..config.num_layers {
            layers.push(match config.form() {
                LayerForm::Direct => {
                    norms.extend(Norm::of_layer(config, layer, init, device));
                    let conv = config.kind.init(config.conv_shape(layer), init, device);
                    let feed_forward = Layer::feed_forward_parts(config, layer, init, device);
                    Layer { norms: Vec::new(), conv: AnyTypedConv::Direct(conv), feed_forward }
                }
                LayerForm::Typed => Layer {
                    norms: node_types.iter().filter_map(|_| Norm::of_layer(config, layer, init, device)).collect(),
                    conv: config.kind.init_typed(&shape, init, device),
                    feed_forward: Layer::feed_forward_parts(config, layer, init, device),
                },
            });
        }
        let read = config.channels_read(config.num_layers).unwrap_or(usize::MAX);
        let mut outputs = Vec::with_capacity(node_types.len());
        let mut output = None;
        for node_type in 0..node_types.len() {
            let of_type = config.outputs.iter().find(|output| output.node_type.index() == node_type);
            let made = match of_type {
                Some(of_type) if config.has_output_layers() => Some(Dense::new(read, of_type.channels, init, device)),
                _ => None,
            };
            if config.pooling.is_some() {
                output = output.or(made);
                outputs.push(None);
            } else {
                outputs.push(made);
            }
        }
        let time_dim = config.graph.time_dim();
        let times = if time_dim > 0 { Some(TimeEncoder::new(time_dim, init, device)) } else { None };
        let mut virtual_nodes = Vec::new();
        for _ in (0..config.num_layers).filter(|&layer| config.has_virtual_node_before(layer)) {
            virtual_nodes.push(VirtualNode::with_init(hidden, init, device));
        }
        let settings = Settings(Box::new(config.clone()));
        Self { encoders, projections, layers, norms, outputs, output, times, virtual_nodes, settings }
    }

    /// Returns the network with some columns of the output for one node type as its only output. The network must have
    /// encoders.
    pub fn with_output(mut self, node_type: NodeTypeId, columns: Range<usize>) -> Self {
        let outputs = std::mem::take(&mut self.outputs).into_iter().enumerate();
        self.outputs = outputs
            .map(|(t, output)| output.filter(|_| t == node_type.index()).map(|output| output.columns(columns.clone())))
            .collect();
        self.settings.0.outputs = vec![NetworkOutput { node_type, channels: columns.len() }];
        self
    }

    /// Returns the settings of the model.
    pub fn config(&self) -> &NetworkConfig {
        &self.settings.0
    }

    /// Returns the normalisation of a node type's rows in a layer, counted from 0.
    pub(super) fn norm(&self, layer: usize, node_type: usize) -> Option<&Norm<B>> {
        let config = self.config();
        let direct = if config.layer_norm { layer.checked_sub(1) } else { Some(layer) };
        self.layers[layer].norms.get(node_type).or_else(|| self.norms.get(direct?))
    }

    /// Returns the dropout mask of a node type's rows.
    fn mask(&self, mode: Mode, probability: f64, number: u64, node_type: usize) -> DropoutMask {
        let mask = mode.mask(probability, number);
        match self.config().form() {
            LayerForm::Direct => mask,
            LayerForm::Typed => mask.for_type(node_type as u64),
        }
    }
}

impl<B: Backend> Layer<B> {
    /// Makes the feed-forward parts of a layer.
    fn feed_forward_parts(
        config: &NetworkConfig,
        layer: usize,
        init: &mut WeightInit,
        device: &B::Device,
    ) -> Vec<Option<FeedForward<B>>> {
        let mut parts = Vec::new();
        if let Some(ratio) = config.feed_forward.filter(|_| config.computes_hidden_rows(layer)) {
            for node_type in 0..config.graph.node_types.len() {
                let is_destination = config.graph.edge_types.iter().any(|edges| edges.dst.index() == node_type);
                parts.push(is_destination.then(|| FeedForward::new(config.hidden_channels, ratio, init, device)));
            }
        }
        parts
    }
}

impl<B: Backend> Norm<B> {
    /// Makes the normalisation of the rows of one node type in a layer.
    fn of_layer(config: &NetworkConfig, layer: usize, init: &mut WeightInit, device: &B::Device) -> Option<Self> {
        if config.layer_norm && config.reads_hidden_rows(layer) {
            return Some(Self::Layer(init.layer_norm(config.hidden_channels, device)));
        }
        if config.batch_norm && config.computes_hidden_rows(layer) {
            return Some(Self::Batch(BatchNorm::with_init(config.hidden_channels, init, device)));
        }
        if config.graph_norm && config.computes_hidden_rows(layer) {
            return Some(Self::Graph(GraphNorm::with_init(config.hidden_channels, init, device)));
        }
        None
    }
}

impl<B: GnnBackend> Network<B> {
    /// Sets the type in which matrices are multiplied for this model (mixed-precision training). The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        for layer in &mut self.layers {
            layer.conv.set_precision(precision);
            for part in layer.feed_forward.iter_mut().flatten() {
                part.set_precision(precision);
            }
        }
        for virtual_node in &mut self.virtual_nodes {
            virtual_node.set_precision(precision);
        }
        let of_nodes = self.encoders.iter_mut().chain(&mut self.projections).chain(&mut self.outputs);
        for dense in of_nodes.chain([&mut self.output]).flatten() {
            dense.set_precision(precision);
        }
    }

    /// Computes the outputs of the batch's seeds by node type; `None` for node types without seeds.
    ///
    /// # Shapes
    /// - of each node type: `[seeds of the type, channels]`, with `hidden_channels` columns for a type without an output
    ///
    /// # Errors
    /// [`ModelError`] if the batch has another schema or number of layers than the model, or lacks data that it needs.
    pub fn forward_by_type(&self, input: &ModelInput<B>, mode: Mode) -> Result<Rows<B>, ModelError> {
        if input.num_layers() != self.layers.len() {
            return Err(ModelError::layer_count(input.num_layers(), self.layers.len()));
        }
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for (node_type, parts) in self.parts(input, None, mode)?.into_iter().enumerate() {
            let num_seeds = input.nodes()[node_type].within_hop[0];
            let mut of_seeds = Vec::with_capacity(parts.len());
            if num_seeds > 0 {
                of_seeds.extend(parts.into_iter().map(|rows| prefix(rows, num_seeds)));
            }
            outputs.push(joined(of_seeds).map(|rows| self.output_of_type(node_type, rows)));
        }
        Ok(outputs)
    }

    /// Computes the pooled rows of the graphs, which the output layer reads.
    ///
    /// # Shapes
    /// - output: `[num_graphs, pooled_channels]`. The columns are `hidden_channels` of the last layer, or the columns of
    ///   the features and of all layers ([`Readout`])
    ///
    /// # Errors
    /// [`ModelError`] if the batch does not match the model, or if the model has no pooling.
    pub fn pooled(&self, input: &GraphInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let (Some(pooling), Some(output)) = (self.config().pooling, self.config().outputs.first()) else {
            return Err(ModelError::Settings { what: "a model for nodes cannot classify whole graphs".into() });
        };
        let parts = self.parts(input.nodes(), Some((input.segments(), pooling)), mode)?;
        let of_type = parts.into_iter().nth(output.node_type.index()).unwrap_or_default();
        // Graphs without nodes.
        let width = self.config().pooled_channels().unwrap_or(usize::MAX);
        let zeros = || Tensor::zeros([input.num_graphs(), width], &input.nodes().device());
        Ok(joined(of_type).unwrap_or_else(zeros))
    }

    /// Runs all layers. Returns the rows that the output layers read, by node type: of the last layer, or of all layers
    /// in their order. With `pooled`, these are the pooled rows of graphs.
    fn parts(
        &self,
        input: &ModelInput<B>,
        pooled: Option<(&Segments, Pooling)>,
        mode: Mode,
    ) -> Result<Vec<Vec<Tensor<B, 2>>>, ModelError> {
        let config = self.config();
        if let Some(what) = config.graph.difference(input.schema()) {
            return Err(ModelError::batch(format!("the batch is of another graph than the model: {what}")));
        }
        self.check_norm(input)?;
        let mut rows = self.encode(input, mode)?;
        let mut parts = vec![Vec::new(); rows.len()];
        let mut greatest: Rows<B> = vec![None; rows.len()];
        let mut of_virtual_node = None;
        for layer in 0..self.layers.len() {
            if config.readout == Readout::JumpingKnowledge {
                add_parts(&mut parts, &rows, pooled);
            }
            // All layers of whole graphs read the same block.
            let at = if pooled.is_some() { 0 } else { layer };
            let segments = pooled.map(|(segments, _)| segments);
            let virtual_node = layer.checked_sub(1).and_then(|before| self.virtual_nodes.get(before));
            if let (Some(virtual_node), Some(segments)) = (virtual_node, segments) {
                // A model of whole graphs has one node type.
                for rows in rows.iter_mut().flatten() {
                    *rows = virtual_node.forward(rows.clone(), &mut of_virtual_node, segments, mode);
                }
            }
            rows = self.convolve(layer, rows, LayerInput { input, at, segments }, mode);
            if config.readout == Readout::JumpingKnowledgeMax {
                let of_types = greatest.into_iter().zip(&rows);
                greatest = of_types.map(|(before, rows)| greater(before, rows.clone())).collect();
            }
        }
        if config.readout == Readout::JumpingKnowledgeMax {
            rows = greatest;
        }
        add_parts(&mut parts, &rows, pooled);
        Ok(parts)
    }

    /// Checks that the batch has the normalisation that a GCN needs.
    fn check_norm(&self, input: &ModelInput<B>) -> Result<(), ModelError> {
        if self.config().kind.needs_gcn_norm() { input.gcn_norm().map(|_| ()) } else { Ok(()) }
    }

    /// Applies the output layer of a node type, if it has one, to the rows that it reads.
    fn output_of_type(&self, node_type: usize, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        match &self.outputs[node_type] {
            Some(output) => output.forward(rows, Activation::Identity),
            None => rows,
        }
    }

    /// Returns the rows before the first layer: encoded features, embeddings, sums of both, or the features themselves.
    fn encode(&self, input: &ModelInput<B>, mode: Mode) -> Result<Rows<B>, ModelError> {
        let config = self.config();
        let mut all = Vec::with_capacity(self.encoders.len());
        for (t, (encoder, nodes)) in self.encoders.iter().zip(input.nodes()).enumerate() {
            if nodes.within_hop.last().is_none_or(|&count| count == 0) {
                all.push(None);
                continue;
            }
            let of_type = &config.graph.node_types[t];
            let expected = match of_type.input_width() {
                0 => config.channels_before(0),
                width => width,
            };
            let width = nodes.features.as_ref().map_or(0, |features| features.dims()[1]);
            let Some(features) = nodes.features.clone().filter(|_| width == expected) else {
                return Err(ModelError::batch(format!(
                    "node type {}: {width} columns of features or embeddings, the model reads {expected}",
                    of_type.name
                )));
            };
            let of_input = self.mask(mode, config.input_dropout, INPUT, t);
            let of_encoded = self.mask(mode, config.dropout, ENCODED, t);
            let rows = match &self.projections[t] {
                Some(projection) => {
                    let [count, _] = features.dims();
                    let embeddings = last_columns(features.clone(), of_type.embedding_dim);
                    let features = features.slice([0..count, 0..of_type.feature_dim]);
                    projection.forward(masked(features, of_input), Activation::Identity) + embeddings
                }
                None if encoder.is_some() || !config.encoders => masked(features, of_input),
                None => features,
            };
            all.push(Some(match encoder {
                Some(encoder) => {
                    let is_result = config.num_layers == 0 && config.outputs.is_empty();
                    let activation = if is_result { Activation::Identity } else { Activation::Relu(of_encoded) };
                    encoder.forward(rows, activation)
                }
                None if config.encoders => masked(rows, of_encoded),
                None => rows,
            }));
        }
        Ok(all)
    }

    /// Applies a layer, counted from 0, to a block of the input. Returns the rows of the nodes that the next layer reads.
    fn convolve(&self, layer: usize, rows: Rows<B>, source: LayerInput<'_, B>, mode: Mode) -> Rows<B> {
        let LayerInput { input, at, segments } = source;
        let config = self.config();
        let hop = input.num_layers() - 1 - at;
        let form = config.form();
        let number = layer as u64;
        // Layers without encoders have always been numbered from 1.
        let pass = LayerPass::new(mode, if form == LayerForm::Direct { number + 1 } else { number });
        let first_mask = if form == LayerForm::Typed || config.pooling.is_some() { 2 } else { 1 };
        let mut normalised = Vec::with_capacity(rows.len());
        for (node_type, rows) in rows.iter().enumerate() {
            normalised.push(match (rows.clone(), self.norm(layer, node_type)) {
                (Some(rows), Some(Norm::Layer(norm))) => Some(norm.forward(rows)),
                (rows, _) => rows,
            });
        }
        let mut outputs = Vec::with_capacity(rows.len());
        for (node_type, rows) in rows.into_iter().enumerate() {
            let num_dst = input.nodes()[node_type].within_hop[hop];
            let (Some(rows), Some(x), 1..) = (rows, normalised[node_type].clone(), num_dst) else {
                self.layer_without_rows(layer, node_type, mode);
                outputs.push(None);
                continue;
            };
            let mut is_destination = false;
            let mut incoming = Vec::new();
            for (relation, edges) in config.graph.edge_types.iter().enumerate() {
                if edges.dst.index() != node_type {
                    continue;
                }
                is_destination = true;
                let edge_type = EdgeTypeId(relation as u16);
                if let (Some(x), Some(block)) = (&normalised[edges.src.index()], input.blocks_of(edge_type).get(at)) {
                    let edges = input.edge_data(edge_type, at, self.times.as_ref());
                    incoming.push(Incoming { relation, x: x.clone(), block: block.clone(), edges });
                }
            }
            if !is_destination {
                outputs.push(Some(prefix(rows, num_dst)));
                continue;
            }
            let mask = self.mask(mode, config.dropout, first_mask + number, node_type);
            let activation = Activation::Identity;
            let input = TypedConvInput { node_type, x, num_dst, incoming: &incoming, pass, activation };
            let output = self.activated(layer, input, segments, mask);
            // The order of the operands decides the order in which gradients are summed, and so their last bits. Both
            // forms keep the order of earlier versions.
            let output = match form {
                _ if !config.has_residual(layer) => output,
                LayerForm::Direct => output + prefix(rows, num_dst),
                LayerForm::Typed => prefix(rows, num_dst) + output,
            };
            outputs.push(Some(self.feed_forward(layer, node_type, output, mode)));
        }
        outputs
    }

    /// Applies the feed-forward part of a layer to the rows of a node type, if the layer has it.
    fn feed_forward(&self, layer: usize, node_type: usize, rows: Tensor<B, 2>, mode: Mode) -> Tensor<B, 2> {
        let Some(Some(part)) = self.layers[layer].feed_forward.get(node_type) else { return rows };
        let dropout = self.config().dropout;
        let number = FEED_FORWARD + 2 * layer as u64;
        let of_hidden = self.mask(mode, dropout, number, node_type);
        let of_output = self.mask(mode, dropout, number + 1, node_type);
        part.forward(rows, of_hidden, of_output)
    }

    /// Applies the convolution of a layer, the normalisation after it, the activation and dropout.
    fn activated(
        &self,
        layer: usize,
        input: TypedConvInput<'_, B>,
        segments: Option<&Segments>,
        mask: DropoutMask,
    ) -> Tensor<B, 2> {
        let config = self.config();
        let is_elu = config.activation() == HiddenActivation::Elu;
        let is_result = config.is_result(layer);
        // An activation that is applied together with the operation before it.
        let fused = if is_result || is_elu { Activation::Identity } else { Activation::Relu(mask) };
        let conv = &self.layers[layer].conv;
        let mode = input.pass.mode;
        let x = match self.norm(layer, input.node_type) {
            Some(Norm::Batch(norm)) => norm.forward(conv.convolve(input), mode, fused),
            Some(Norm::Graph(norm)) => {
                let segments = segments.expect("settings with graph norm have pooling");
                fused.apply(norm.forward(conv.convolve(input), segments))
            }
            Some(Norm::Layer(_)) | None => conv.convolve(TypedConvInput { activation: fused, ..input }),
        };
        if is_elu && !is_result { masked(elu(x), mask) } else { x }
    }
}

/// Adds the rows of each node type, or their pooled rows, to the parts that the output layers read.
fn add_parts<B: GnnBackend>(parts: &mut [Vec<Tensor<B, 2>>], rows: &Rows<B>, pooled: Option<(&Segments, Pooling)>) {
    for (parts, rows) in parts.iter_mut().zip(rows) {
        let Some(rows) = rows.clone() else { continue };
        parts.push(match pooled {
            Some((segments, pooling)) => pool(rows, segments, &pooling.aggregation.reduce()),
            None => rows,
        });
    }
}

/// Returns the greater elements of the rows of a layer and of the first rows before it.
fn greater<B: Backend>(before: Option<Tensor<B, 2>>, rows: Option<Tensor<B, 2>>) -> Option<Tensor<B, 2>> {
    match (before, rows) {
        (Some(before), Some(rows)) => Some(prefix(before, rows.dims()[0]).max_pair(rows)),
        (_, rows) => rows,
    }
}

/// Returns the columns of all parts; `None` without parts.
fn joined<B: Backend>(mut parts: Vec<Tensor<B, 2>>) -> Option<Tensor<B, 2>> {
    if parts.len() > 1 { Some(Tensor::cat(parts, 1)) } else { parts.pop() }
}

/// Returns `x` for positive elements and `exp(x) - 1` for others. NaN stays NaN.
///
/// Unlike burn's ELU, it never computes the exponential of a large positive number, so its gradient is finite for any
/// `x`.
fn elu<B: GnnBackend>(x: Tensor<B, 2>) -> Tensor<B, 2> {
    Mode::Eval.relu_and_dropout(0.0, 0).apply(x.clone()) + (x.clamp_max(0.0).exp() - 1.0)
}

impl<B: GnnBackend> NodeClassifier<B> for Network<B> {
    fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let config = self.config();
        let output = match config.outputs.first() {
            Some(output) if config.pooling.is_none() => output,
            _ => {
                let what = "a model without outputs or with pooling cannot classify nodes".into();
                return Err(ModelError::Settings { what });
            }
        };
        let mut rows = self.forward_by_type(&input, mode)?;
        let logits = rows.swap_remove(output.node_type.index());
        Ok(logits.unwrap_or_else(|| Tensor::empty([0, output.channels], &input.device())))
    }

    fn forward_without_seeds(&self, mode: Mode) {
        self.forward_without_rows(mode);
    }

    fn layered(&self) -> Option<&dyn LayeredModel<B>> {
        Some(self)
    }
}

impl<B: GnnBackend> GraphClassifier<B> for Network<B> {
    fn forward(&self, input: &GraphInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let pooled = self.pooled(input, mode)?;
        let (Some(pooling), Some(output)) = (self.config().pooling, &self.output) else { return Ok(pooled) };
        Ok(output.forward(masked(pooled, mode.mask(pooling.dropout, POOLED)), Activation::Identity))
    }

    fn forward_without_seeds(&self, mode: Mode) {
        self.forward_without_rows(mode);
    }
}

/// The passes are the encoders, the layers, and the output layers, if there are any. With jumping knowledge, the rows of a
/// pass have the columns of the passes before as well, or the greatest values of the layers before the values of the last
/// one.
impl<B: GnnBackend> LayeredModel<B> for Network<B> {
    fn num_passes(&self) -> usize {
        let config = self.config();
        usize::from(config.encoders) + self.layers.len() + usize::from(config.has_output_layers())
    }

    fn reads_neighbors(&self, pass: usize) -> bool {
        self.layer_of(pass).is_some_and(|layer| layer < self.layers.len())
    }

    fn width(&self, pass: usize, node_type: NodeTypeId) -> usize {
        let config = self.config();
        let num_layers = self.layer_of(pass).map_or(0, |layer| layer + 1);
        let output = config.outputs.iter().find(|output| output.node_type == node_type);
        match output {
            Some(output) if num_layers > self.layers.len() => output.channels,
            _ if config.readout == Readout::JumpingKnowledgeMax && (2..self.layers.len()).contains(&num_layers) => {
                2 * config.hidden_channels
            }
            _ => config.channels_read(num_layers.min(self.layers.len())).unwrap_or(usize::MAX),
        }
    }

    fn run_pass(&self, pass: usize, node_type: NodeTypeId, input: &ModelInput<B>) -> Result<Tensor<B, 2>, ModelError> {
        let t = node_type.index();
        let rows = match self.layer_of(pass) {
            None => self.encode(input, Mode::Eval)?.swap_remove(t),
            Some(layer) if layer < self.layers.len() => {
                self.check_norm(input)?;
                self.run_layer(layer, t, input)
            }
            Some(_) => input.nodes()[t].features.clone().map(|rows| self.output_of_type(t, rows)),
        };
        Ok(rows.unwrap_or_else(|| Tensor::zeros([0, self.width(pass, node_type)], &input.device())))
    }
}

impl<B: GnnBackend> Network<B> {
    /// Returns the layer of a pass, counted from 0. The output layers follow the last layer; `None` are the encoders.
    fn layer_of(&self, pass: usize) -> Option<usize> {
        pass.checked_sub(usize::from(self.config().encoders))
    }

    /// Computes the rows of the seeds of one type after a layer. The features of the input are the rows of the pass
    /// before.
    fn run_layer(&self, layer: usize, node_type: usize, input: &ModelInput<B>) -> Option<Tensor<B, 2>> {
        let config = self.config();
        let width = config.channels_before(layer);
        let mut rows = Vec::with_capacity(input.nodes().len());
        for nodes in input.nodes() {
            rows.push(nodes.features.clone().map(|rows| last_columns(rows, width)));
        }
        let source = LayerInput { input, at: 0, segments: None };
        let computed = self.convolve(layer, rows, source, Mode::Eval).swap_remove(node_type)?;
        let num_rows = computed.dims()[0];
        match config.readout {
            Readout::Last => Some(computed),
            Readout::JumpingKnowledge => {
                let before = prefix(input.nodes()[node_type].features.clone()?, num_rows);
                Some(Tensor::cat(vec![before, computed], 1))
            }
            Readout::JumpingKnowledgeMax if layer == 0 => Some(computed),
            Readout::JumpingKnowledgeMax => {
                let before = prefix(input.nodes()[node_type].features.clone()?, num_rows);
                let greatest = before.slice([0..num_rows, 0..config.hidden_channels]).max_pair(computed.clone());
                let is_last = layer + 1 == self.layers.len();
                Some(if is_last { greatest } else { Tensor::cat(vec![greatest, computed], 1) })
            }
        }
    }
}

fn last_columns<B: Backend>(rows: Tensor<B, 2>, width: usize) -> Tensor<B, 2> {
    let [count, columns] = rows.dims();
    if columns == width { rows } else { rows.slice([0..count, columns - width..columns]) }
}
