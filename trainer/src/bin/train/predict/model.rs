//! The model of a prediction.

use super::args::PredictArgs;
use crate::exit::UsageError;
use crate::model_bytes::read_on_rank_0;
use anyhow::{Context, bail};
use edgecut_cluster::ProcessGroup;
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::model_file::{ModelTask, SavedEmbeddings, task_of_model};
use edgecut_trainer::models::{GraphNet, GraphNetConfig, LinkModel, LinkModelConfig, ModelConfig, NodeModel};

/// A saved model, by its task.
pub(super) enum Model<B: TrainingBackend> {
    Node(NodeModel<B>, ModelConfig, SavedEmbeddings),
    Link(LinkModel<B>, LinkModelConfig, SavedEmbeddings),
    Graph(GraphNet<B>, GraphNetConfig),
}

/// Reads the model of `--load-model` on rank 0, and opens it on all ranks.
pub(super) fn open<B: TrainingBackend>(
    args: &PredictArgs,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> anyhow::Result<Model<B>> {
    let path = &args.load_model;
    let bytes = read_on_rank_0(path, world).context("--load-model")?;
    let precision = args.device.mixed_precision.unwrap_or_default();
    Ok(match task_of_model(&bytes, path)? {
        ModelTask::Node => {
            let (mut model, config, embeddings) = B::open_node_model(&bytes, path, device)?;
            model.set_precision(precision);
            Model::Node(model, config, embeddings)
        }
        ModelTask::Link => {
            let (mut model, config, embeddings) = B::open_link_model(&bytes, path, device)?;
            model.set_precision(precision);
            Model::Link(model, config, embeddings)
        }
        ModelTask::Graph => {
            let (mut model, config) = B::open_graph_model(&bytes, path, device)?;
            model.set_precision(precision);
            Model::Graph(model, config)
        }
    })
}

/// A model for links, its settings and its embeddings.
pub(super) type OpenLinkModel<B> = (LinkModel<B>, LinkModelConfig, SavedEmbeddings);

/// Opens a model for links. `flag` is the flag that needs one.
pub(super) fn open_link<B: TrainingBackend>(
    args: &PredictArgs,
    flag: &str,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> anyhow::Result<OpenLinkModel<B>> {
    match open::<B>(args, world, device)? {
        Model::Link(model, config, embeddings) => Ok((model, config, embeddings)),
        Model::Node(..) | Model::Graph(..) => bail!(UsageError(format!(
            "{flag} needs a model for links, and {} classifies: load a model of train link, or use --output class, \
             probability, logit or embedding",
            args.load_model.display()
        ))),
    }
}
