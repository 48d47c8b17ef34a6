//! Rows of all nodes of a type, computed by a trained model.

use super::layer_wise::{LayerWiseConfig, LayerWiseInput, layer_wise, layer_wise_types, write_rows};
use crate::batch_input::{BatchOptions, tensor_batches};
use crate::embeddings::{EmbeddingSource, Embeddings};
use crate::error::TrainError;
use crate::inference_progress::{InferenceProgress, InferenceStep};
use crate::models::{GraphSchema, LayeredModel, Mode, Network, NetworkConfig, NodeClassifier};
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistGraph, DistRows, RowsWriter, SamplerConfig};
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::NodeTypeId;
use edgecut_settings::suggestion;
use std::sync::Arc;

/// The rows to compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedRows {
    /// The output of a node classifier: a row of logits.
    Logits,
    /// The output of a layer, counted from 1. 0 are the encoded features of a model with encoders. `None` is the last
    /// layer before the logits.
    Layer(Option<usize>),
}

/// The neighborhoods from which rows are computed.
#[derive(Clone, Debug)]
pub enum Neighborhoods {
    /// All neighbors, layer by layer. The result is exact.
    LayerWise(LayerWiseConfig),
    /// Sampled neighbors of batches of nodes. The rows depend neither on the batches nor on the parts and processes.
    Sampled {
        /// The fan-outs, the hop at the nodes first, and the rules of the draws.
        sampler: SamplerConfig,
        /// In temporal sampling, the time of all nodes. `None` takes the own time of each node.
        time: Option<i64>,
        /// The number of nodes of a batch.
        batch_size: usize,
        /// The random seed.
        seed: u64,
        /// The memory for batches, and the folder of the file of rows.
        files: LayerWiseConfig,
    },
}

/// A request for rows of all nodes of a type.
#[derive(Clone, Debug)]
pub struct PredictionConfig {
    /// The rows to compute.
    pub wanted: WantedRows,
    /// The name of the node type. `None` is the type that the model classifies, or the only type.
    pub node_type: Option<String>,
    /// The neighborhoods from which rows are computed.
    pub neighborhoods: Neighborhoods,
}

/// A graph, and the job that computes.
pub struct PredictionJob<'a, 'b, B: Backend> {
    /// The graph.
    pub graph: &'a Arc<DistGraph>,
    /// All ranks.
    pub world: &'b mut ProcessGroup,
    /// The device of this rank.
    pub device: &'a B::Device,
    /// The receiver of the progress.
    pub progress: &'a dyn InferenceProgress,
}

/// Computes rows of all nodes of a type by a node classifier, or embeddings by the encoder of another model. Every rank must
/// call this with the same arguments, and gets the rows of its own nodes and access to the others.
///
/// # Errors
/// A model that does not match the graph, a layer or node type that does not exist, the errors of [`layer_wise`], or a
/// failure of the job.
pub fn predict_node<'s, B: GnnBackend>(
    job: PredictionJob<'_, '_, B>,
    model: &Network<B>,
    model_config: &NetworkConfig,
    saved: impl Into<EmbeddingSource<'s>>,
    config: &PredictionConfig,
) -> Result<DistRows, TrainError> {
    let trained = Trained::new(model, model_config);
    let target = trained.node_type(job.graph, config.node_type.as_deref())?;
    let WantedRows::Layer(layer) = config.wanted else {
        let mut rows = predict_outputs(job, model, model_config, saved, &[target], &config.neighborhoods)?;
        return rows.pop().ok_or_else(|| TrainError::config("the rows of the node type are missing"));
    };
    let Neighborhoods::LayerWise(limits) = &config.neighborhoods else {
        let what = "embeddings are computed from all neighbors: leave out the fan-outs (`num_neighbors`)";
        return Err(TrainError::config(what));
    };
    let PredictionJob { graph, world, device, progress } = job;
    let embeddings = trained.embeddings(graph, saved, world)?;
    let num_passes = trained.passes_of_layer(layer)?;
    let options = trained.options;
    let input = LayerWiseInput { graph, schema: &model_config.graph, options, embeddings: &embeddings, progress };
    layer_wise(&input, model, (target, num_passes), limits, world, device)
}

/// Computes the outputs of a network for all nodes of some types, in the order of `node_types`, which are distinct. The types
/// share the layers of a layer-wise inference. Every rank must call this with the same arguments.
///
/// # Errors
/// A node type without outputs, and the errors of [`predict_node`].
pub fn predict_outputs<'s, B: GnnBackend>(
    job: PredictionJob<'_, '_, B>,
    model: &Network<B>,
    model_config: &NetworkConfig,
    saved: impl Into<EmbeddingSource<'s>>,
    node_types: &[NodeTypeId],
    neighborhoods: &Neighborhoods,
) -> Result<Vec<DistRows>, TrainError> {
    let trained = Trained::new(model, model_config);
    let PredictionJob { graph, world, device, progress } = job;
    for node_type in node_types {
        trained.check_classified(graph, *node_type)?;
    }
    let mut saved = saved.into();
    if let Neighborhoods::Sampled { sampler, .. } = neighborhoods {
        saved = saved.read_by(sampler)?;
    }
    let embeddings = trained.embeddings(graph, saved, world)?;
    let (sampler, time, batch_size, seed, files) = match neighborhoods {
        Neighborhoods::LayerWise(limits) => {
            let options = trained.options;
            let schema = &model_config.graph;
            let input = LayerWiseInput { graph, schema, options, embeddings: &embeddings, progress };
            return layer_wise_types(&input, model, (node_types, model.num_passes()), limits, world, device);
        }
        Neighborhoods::Sampled { sampler, time, batch_size, seed, files } => (sampler, *time, batch_size, seed, files),
    };
    model_config.check_hops(sampler.num_neighbors.num_hops())?;
    let schema = Arc::new(GraphSchema::read_by(&model_config.graph, graph.part().meta())?);
    let sampler = schema.sampler(graph, with_own_neighborhoods(sampler.clone()))?;
    let options = BatchOptions { labels: false, ..trained.options };
    let seeds = time.map_or(Seeds::Owned, Seeds::OwnedAt);
    let num_passes = node_types.len();
    let mut all = Vec::with_capacity(num_passes);
    for (pass, &node_type) in (1..).zip(node_types) {
        let loader_config = LoaderConfig {
            seed: *seed,
            prefetch_bytes: files.memory_bytes,
            ..LoaderConfig::new(*batch_size, options.wanted())
        };
        let loader = DistNeighborLoader::new(sampler.clone(), node_type, seeds.clone(), loader_config, world)?;
        let loader = loader.with_draws_by_seed();
        let width = model.width(model.num_passes() - 1, node_type);
        let writer = RowsWriter::create(graph, node_type, width, &files.scratch_dir)?;
        let batches = tensor_batches::<B>(&loader, 0, &schema, options, device);
        let first = InferenceStep { pass, num_passes, step: 1, num_steps: loader.num_steps() };
        // A model with several outputs computes the first one.
        let other = (model_config.outputs.len() > 1).then(|| model.clone().with_output(node_type, 0..width));
        let of_type = other.as_ref().unwrap_or(model);
        let compute = |input| NodeClassifier::forward(of_type, input, Mode::Eval);
        all.push(write_rows((&embeddings, device), batches, compute, writer, (progress, first), world)?);
        world.barrier()?;
    }
    Ok(all)
}

/// Gives each seed a neighborhood of its own, unless all neighborhoods hold all neighbors. In shared neighborhoods, the hop in which
/// a node draws its neighbors depends on the other seeds of a batch.
pub(crate) fn with_own_neighborhoods(mut sampler: SamplerConfig) -> SamplerConfig {
    sampler.disjoint |= !sampler.num_neighbors.are_all() || sampler.num_neighbors.skips_hops();
    sampler
}

/// A trained network and its settings.
pub(super) struct Trained<'a, B: GnnBackend> {
    pub(super) model: &'a Network<B>,
    config: &'a NetworkConfig,
    pub(super) options: BatchOptions,
}

impl<'a, B: GnnBackend> Trained<'a, B> {
    pub(super) fn new(model: &'a Network<B>, config: &'a NetworkConfig) -> Self {
        Self { model, config, options: BatchOptions::of_model(config, false) }
    }

    /// Returns the node type that the model predicts for.
    fn classified(&self) -> Option<NodeTypeId> {
        self.config.outputs.first().map(|output| output.node_type)
    }

    /// Checks that the graph is one that the model can read, and loads the embeddings.
    pub(super) fn embeddings<'s>(
        &self,
        graph: &Arc<DistGraph>,
        saved: impl Into<EmbeddingSource<'s>>,
        world: &mut ProcessGroup,
    ) -> Result<Embeddings, TrainError> {
        let found = GraphSchema::read_by(&self.config.graph, graph.part().meta())?;
        self.config.graph.check_graph(&found)?;
        let saved = saved.into();
        let mut embeddings = Embeddings::new(graph, &found, self.config.hidden_channels, saved.seed())?;
        embeddings.load(saved, world)?;
        Ok(embeddings)
    }

    /// Returns the node type with this name; by default the type that the model predicts for, or the only one.
    pub(super) fn node_type(&self, graph: &DistGraph, name: Option<&str>) -> Result<NodeTypeId, TrainError> {
        let types = &graph.part().meta().node_types;
        let names = || types.iter().map(|nodes| nodes.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = match name {
            Some(name) => types.iter().position(|nodes| nodes.name == name).map(|t| NodeTypeId(t as u16)),
            None => self.classified().or((types.len() == 1).then_some(NodeTypeId(0))),
        };
        found.ok_or_else(|| {
            let what = match name {
                Some(name) => {
                    let hint = suggestion(name, types.iter().map(|nodes| nodes.name.as_str()));
                    format!("there is no node type {name}{hint}: choose one of {} (`node_type`)", names())
                }
                None => format!("the graph has several node types: choose one of {} (`node_type`)", names()),
            };
            TrainError::Config { what }
        })
    }

    /// Checks that the model has outputs for the nodes of a type.
    pub(super) fn check_classified(&self, graph: &DistGraph, target: NodeTypeId) -> Result<(), TrainError> {
        if self.config.outputs.iter().any(|output| output.node_type == target) {
            return Ok(());
        }
        let name = &graph.part().meta().node_types[target.index()].name;
        Err(TrainError::config(format!("the model does not classify nodes of type {name}: ask for embeddings")))
    }

    /// Returns the number of passes up to a layer.
    fn passes_of_layer(&self, layer: Option<usize>) -> Result<usize, TrainError> {
        let NetworkConfig { num_layers, encoders, .. } = *self.config;
        // The rows before the first layer are features if there are no encoders, and the last layer may compute logits.
        let first = usize::from(!encoders);
        let last = if self.config.ends_in_logits() { num_layers - 1 } else { num_layers };
        let layer = layer.unwrap_or(last);
        if (first..=last).contains(&layer) {
            return Ok(layer + usize::from(encoders));
        }
        let what = if first > last {
            "the only layer of the model computes logits, so there are no embeddings".to_owned()
        } else {
            format!("the model has no embeddings of layer {layer}: choose a layer from {first} to {last} (`layer`)")
        };
        Err(TrainError::Config { what })
    }
}
