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
use edgecut_trainer::model_file::{ModelTask, SavedEmbeddings, SavedTask};
use edgecut_trainer::models::{LinkModel, LinkModelConfig, Network, NetworkConfig};

/// A saved model, by its task.
pub(super) enum Model<B: TrainingBackend> {
    Node(Network<B>, NetworkConfig, SavedEmbeddings, OutputKind),
    Link(LinkModel<B>, LinkModelConfig, SavedEmbeddings),
    Graph(Network<B>, NetworkConfig, OutputKind),
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
    if let Data::Graph(meta) = data {
        check_data(&bytes, path, meta, &Sampling::default(), world)?;
    }
    let precision = args.device.mixed_precision.unwrap_or_default();
    let saved = SavedTask::of_file(&bytes, path)?;
    Ok(match saved.task {
        ModelTask::Node => {
            let (mut model, config, embeddings) = B::open_network(&bytes, path, ModelTask::Node, device)?;
            model.set_precision(precision);
            let outputs = saved.outputs_or_classes(config.num_outputs());
            Model::Node(model, config, embeddings, outputs)
        }
        ModelTask::Link => {
            let (mut model, config, embeddings) = B::open_link_model(&bytes, path, device)?;
            model.set_precision(precision);
            Model::Link(model, config, embeddings)
        }
        ModelTask::Graph => {
            let (mut model, config, _) = B::open_network(&bytes, path, ModelTask::Graph, device)?;
            if let Data::Graphs(graphs) = data {
                check_graphs(&bytes, path, graphs, config.num_outputs())?;
            }
            model.set_precision(precision);
            let outputs = saved.outputs_or_classes(config.num_outputs());
            Model::Graph(model, config, outputs)
        }
    })
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
        Model::Node(..) | Model::Graph(..) => bail!(UsageError(format!(
            "{flag} needs a model for links, which {} is not: load a model of train link, or use --output prediction, \
             probability, logit or embedding",
            args.load_model.display()
        ))),
    }
}
