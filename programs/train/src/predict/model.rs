//! The model of a prediction.

use super::args::{PredictArgs, TimeLimit};
use crate::exit::UsageError;
use crate::tasks::model_bytes::read_on_rank_0;
use crate::tasks::saved_model::{check_data, check_graphs, matched};
use anyhow::{Context, bail};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{SamplerConfig, Temporal};
use edgecut_graph::{GraphDataset, Meta};
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::model_file::{ModelTask, SavedEmbeddings, SavedTask, TrainedOn};
use edgecut_trainer::models::{EdgeModel, EdgeModelConfig, LinkModel, LinkModelConfig, Network, NetworkConfig};

/// A saved model, by its task.
pub(super) enum Model<B: TrainingBackend> {
    Node(Network<B>, NetworkConfig, SavedEmbeddings, OutputKind),
    Link(LinkModel<B>, LinkModelConfig, SavedEmbeddings),
    Edge(Box<OpenEdgeModel<B>>),
    Graph(Network<B>, NetworkConfig, OutputKind),
}

/// A saved model, and the sampler of its neighbors; `None` reads all neighbors.
pub(super) struct Opened<B: TrainingBackend> {
    pub(super) model: Model<B>,
    pub(super) sampler: Option<SamplerConfig>,
}

/// A model for edges.
pub(super) struct OpenEdgeModel<B: TrainingBackend> {
    pub(super) model: EdgeModel<B>,
    pub(super) config: EdgeModelConfig,
    pub(super) embeddings: SavedEmbeddings,
    pub(super) outputs: OutputKind,
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
) -> anyhow::Result<Opened<B>> {
    let path = &args.load_model;
    let bytes = read_on_rank_0(path, world).context("--load-model")?;
    let saved = SavedTask::of_file(&bytes, path)?;
    let sampler = sampler(args, saved.task, TrainedOn::of_file(&bytes, path)?.as_ref())?;
    if let Data::Graph(meta) = data {
        check_data(&bytes, path, meta, sampler.as_ref(), world)?;
    }
    let precision = args.device.mixed_precision.unwrap_or_default();
    let model = match saved.task {
        ModelTask::Node => {
            let (mut model, config, embeddings) = B::open_network(&bytes, path, ModelTask::Node, device)?;
            model.set_precision(precision);
            let outputs = saved.outputs_or_classes(config.num_outputs());
            Model::Node(model, config, matched(embeddings, args.new_embeddings), outputs)
        }
        ModelTask::Link => {
            let (mut model, config, embeddings) = B::open_link_model(&bytes, path, device)?;
            model.set_precision(precision);
            Model::Link(model, config, matched(embeddings, args.new_embeddings))
        }
        ModelTask::Edge => {
            let (mut model, config, embeddings) = B::open_edge_model(&bytes, path, device)?;
            model.set_precision(precision);
            let outputs = saved.outputs_or_classes(config.num_outputs);
            Model::Edge(Box::new(OpenEdgeModel {
                model,
                config,
                embeddings: matched(embeddings, args.new_embeddings),
                outputs,
            }))
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
    };
    Ok(Opened { model, sampler })
}

/// Returns the sampler of neighbors; `None` if all neighbors are read, layer by layer. A model whose evaluation did not
/// read all neighbors, because of times or weights, predicts as it was evaluated.
fn sampler(
    args: &PredictArgs,
    task: ModelTask,
    trained_on: Option<&TrainedOn>,
) -> anyhow::Result<Option<SamplerConfig>> {
    let fanouts = args.num_neighbors.as_ref().map(|fanouts| fanouts.value.clone());
    let is_of_nodes = args.output.is_prediction();
    let mut sampler = match trained_on.and_then(|trained_on| trained_on.sampler.clone()) {
        Some(saved) if fanouts.is_some() || is_of_nodes => Some(saved),
        _ => fanouts.clone().map(SamplerConfig::new),
    };
    if let (Some(sampler), Some(fanouts)) = (&mut sampler, &fanouts) {
        sampler.num_neighbors = fanouts.clone();
    }
    match (args.time_attr, &mut sampler) {
        (Some(TimeLimit::None), Some(sampler)) => sampler.temporal = None,
        (Some(TimeLimit::Attr(attr)), Some(sampler)) => {
            let strategy = sampler.temporal.map(|temporal| temporal.strategy).unwrap_or_default();
            sampler.temporal = Some(Temporal { attr, strategy });
        }
        (Some(TimeLimit::Attr(_)), None) => bail!(UsageError(format!(
            "--time-attr: {} does not say the fan-outs of its evaluation, or --output is no prediction: add \
             --num-neighbors",
            args.load_model.display()
        ))),
        (None, _) | (Some(TimeLimit::None), None) => {}
    }
    let differs = |sampler: &SamplerConfig| sampler.temporal.is_some() || sampler.weighted;
    // Layers cannot be computed for all edges at once, since each edge is left out of its own neighborhood.
    let is_sampled = fanouts.is_some() || task == ModelTask::Edge;
    let sampler = sampler.filter(|sampler| is_sampled || differs(sampler));
    let is_temporal = sampler.as_ref().is_some_and(|sampler| sampler.temporal.is_some());
    let without_effect = [
        ("--seed-time", args.seed_time.is_some() && task == ModelTask::Edge, "edges have times of their own"),
        ("--seed-time", args.seed_time.is_some() && !is_temporal, "no times are compared: add --time-attr"),
        ("--batch-size", args.batch_size.is_some() && sampler.is_none(), NOT_SAMPLED),
        ("--seed", args.seed.is_some() && sampler.is_none(), NOT_SAMPLED),
    ];
    if let Some((flag, _, why)) = without_effect.into_iter().find(|(_, given, _)| *given) {
        bail!(UsageError(format!("{flag} has no effect: {why}, or leave the flag out")));
    }
    Ok(sampler)
}

const NOT_SAMPLED: &str = "all neighbors are read, layer by layer: add --num-neighbors";

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
    match open::<B>(args, data, world, device)?.model {
        Model::Link(model, config, embeddings) => Ok((model, config, embeddings)),
        Model::Node(..) | Model::Edge(..) | Model::Graph(..) => bail!(UsageError(format!(
            "{flag} needs a model for links, which {} is not: load a model of train link, or use --output prediction, \
             probability, logit or embedding",
            args.load_model.display()
        ))),
    }
}
