//! The model of a prediction.

use super::args::PredictArgs;
use crate::exit::UsageError;
use crate::model_bytes::read_on_rank_0;
use crate::saved_model::{Sampling, check_data, check_graphs};
use anyhow::{Context, bail};
use edgecut_cluster::ProcessGroup;
use edgecut_graph::{GraphDataset, Meta};
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::model_file::{ModelTask, SavedEmbeddings, SavedTask, TrainedOn};
use edgecut_trainer::models::{
    EdgeModel, EdgeModelConfig, GraphNet, GraphNetConfig, LinkModel, LinkModelConfig, ModelConfig, NodeModel,
};
use std::path::Path;

/// A saved model, by its task.
pub(super) enum Model<B: TrainingBackend> {
    Node(NodeModel<B>, ModelConfig, SavedEmbeddings, OutputKind),
    Link(LinkModel<B>, LinkModelConfig, SavedEmbeddings),
    Edge(Box<OpenEdgeModel<B>>),
    Graph(GraphNet<B>, GraphNetConfig, OutputKind),
}

/// A model for edges.
pub(super) struct OpenEdgeModel<B: TrainingBackend> {
    pub(super) model: EdgeModel<B>,
    pub(super) config: EdgeModelConfig,
    pub(super) embeddings: SavedEmbeddings,
    pub(super) outputs: OutputKind,
    /// The sampling of the training.
    pub(super) sampling: Sampling,
}

/// The data to predict for.
#[derive(Clone, Copy)]
pub(super) enum Data<'a> {
    Graph(&'a Meta),
    Graphs(&'a GraphDataset),
    /// Only the model is read.
    None,
}

/// Reads the model of `--load-model` on rank 0, and opens it on all ranks. The data must be like that of the training.
pub(super) fn open<B: TrainingBackend>(
    args: &PredictArgs,
    data: Data<'_>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> anyhow::Result<Model<B>> {
    let path = &args.load_model;
    let bytes = read_on_rank_0(path, world).context("--load-model")?;
    let saved = SavedTask::of_file(&bytes, path)?;
    if let Data::Graph(meta) = data {
        // Edges are predicted with the sampling of the training.
        let sampling = if saved.task == ModelTask::Edge { sampling_of(&bytes, path)? } else { Sampling::default() };
        check_data(&bytes, path, meta, &sampling, world)?;
    }
    let precision = args.device.mixed_precision.unwrap_or_default();
    Ok(match saved.task {
        ModelTask::Node => {
            let (mut model, config, embeddings) = B::open_node_model(&bytes, path, device)?;
            model.set_precision(precision);
            let num_outputs = match &config {
                ModelConfig::Stack(stack) => stack.num_classes,
                ModelConfig::Relational(net) => net.outputs.first().map_or(0, |output| output.channels),
            };
            Model::Node(model, config, embeddings, saved.outputs_or_classes(num_outputs))
        }
        ModelTask::Link => {
            let (mut model, config, embeddings) = B::open_link_model(&bytes, path, device)?;
            model.set_precision(precision);
            Model::Link(model, config, embeddings)
        }
        ModelTask::Edge => {
            let (mut model, config, embeddings) = B::open_edge_model(&bytes, path, device)?;
            model.set_precision(precision);
            let outputs = saved.outputs_or_classes(config.num_outputs);
            let sampling = sampling_of(&bytes, path)?;
            Model::Edge(Box::new(OpenEdgeModel { model, config, embeddings, outputs, sampling }))
        }
        ModelTask::Graph => {
            let (mut model, config) = B::open_graph_model(&bytes, path, device)?;
            if let Data::Graphs(graphs) = data {
                check_graphs(&bytes, path, graphs, config.num_classes)?;
            }
            model.set_precision(precision);
            let outputs = saved.outputs_or_classes(config.num_classes);
            Model::Graph(model, config, outputs)
        }
    })
}

/// Returns the sampling of the training of a model, from the bytes of its file.
fn sampling_of(bytes: &[u8], path: &Path) -> anyhow::Result<Sampling> {
    let trained_on = TrainedOn::of_file(bytes, path)?.unwrap_or_default();
    Ok(Sampling { time_attr: trained_on.time_attr, weighted: trained_on.weighted, has_flags: false })
}

/// A model for links, its settings and its embeddings.
pub(super) type OpenLinkModel<B> = (LinkModel<B>, LinkModelConfig, SavedEmbeddings);

/// Opens a model for links. `flag` is the flag that needs one.
pub(super) fn open_link<B: TrainingBackend>(
    args: &PredictArgs,
    flag: &str,
    data: Data<'_>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> anyhow::Result<OpenLinkModel<B>> {
    match open::<B>(args, data, world, device)? {
        Model::Link(model, config, embeddings) => Ok((model, config, embeddings)),
        Model::Node(..) | Model::Edge(..) | Model::Graph(..) => bail!(UsageError(format!(
            "{flag} needs a model for links, which {} is not: load a model of train link, or use --output prediction, \
             probability, logit or embedding",
            args.load_model.display()
        ))),
    }
}
