//! The model of a prediction.

use super::args::{PredictArgs, TimeLimit};
use crate::exit::UsageError;
use crate::saved_model::{OpenModel, SavedModel};
use crate::tasks::link::LinkTask;
use crate::tasks::{Open, TaskEntry, TaskProgram, open_model};
use anyhow::{Context, bail};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{SamplerConfig, Temporal};
use edgecut_graph::Meta;
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::model_file::{NewEmbeddings, TrainedOn};
use std::any::Any;

/// A saved model, and the sampler of its neighbors; `None` reads all neighbors.
pub(super) struct Opened<'a, B: TrainingBackend> {
    pub(super) saved: SavedModel<'a>,
    pub(super) model: Box<dyn OpenModel<B>>,
    pub(super) sampler: Option<SamplerConfig>,
}

/// Returns a model if it is of the task `T`.
pub(super) fn model_of<T: TaskProgram, B: TrainingBackend>(model: Box<dyn OpenModel<B>>) -> Option<Open<T, B>> {
    let model: Box<dyn Any> = model;
    model.downcast().ok().map(|model| *model)
}

/// Reads the model of `--load-model` on rank 0, and opens it on all ranks. A graph must be like the training's. Every
/// rank must call this.
pub(super) fn open<'a, B: TrainingBackend>(
    args: &'a PredictArgs,
    graph: Option<&Meta>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> anyhow::Result<Opened<'a, B>> {
    let precision = args.device.mixed_precision.unwrap_or_default();
    let mut saved =
        SavedModel::read(&args.load_model, precision, args.new_embeddings, world).context("--load-model")?;
    saved.seed = args.seed.unwrap_or(0);
    saved.targets = &args.target;
    let model = open_model::<B>(&saved, device)?;
    let sampler = sampler(args, model.leaves_out_targets(), saved.trained_on.as_ref())?;
    if let Some(meta) = graph {
        let reads = TaskEntry::named(&saved.task.task).map(|task| (task.reads)(model.outputs())).unwrap_or_default();
        saved.check_graph(meta, reads, sampler.as_ref(), world)?;
    }
    Ok(Opened { saved, model, sampler })
}

/// Returns the sampler of neighbors; `None` if all neighbors are read, layer by layer. A model whose evaluation did not
/// read all neighbors, because of times or weights, predicts as it was evaluated.
fn sampler(
    args: &PredictArgs,
    leaves_out_targets: bool,
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
            "--time-attr: {} does not say the fan-outs of its evaluation: add --num-neighbors",
            args.load_model.display()
        ))),
        (None, _) | (Some(TimeLimit::None), None) => {}
    }
    // Layers cannot be computed for all edges at once, since each edge is left out of its own neighborhood.
    let is_sampled = fanouts.is_some() || leaves_out_targets;
    let sampler = sampler.filter(|sampler| is_sampled || sampler.temporal.is_some() || sampler.weighted);
    let is_temporal = sampler.as_ref().is_some_and(|sampler| sampler.temporal.is_some());
    let is_random_start = args.new_embeddings == Some(NewEmbeddings::Random);
    let without_effect = [
        ("--seed-time", args.seed_time.is_some() && leaves_out_targets, "edges have times of their own"),
        ("--seed-time", args.seed_time.is_some() && !is_temporal, "no times are compared: add --time-attr"),
        ("--batch-size", args.batch_size.is_some() && sampler.is_none() && !args.explain, NOT_SAMPLED),
        ("--seed", args.seed.is_some() && sampler.is_none() && !is_random_start, NOT_SAMPLED),
    ];
    if let Some((flag, _, why)) = without_effect.into_iter().find(|(_, given, _)| *given) {
        bail!(UsageError(format!("{flag} has no effect: {why}, or leave the flag out")));
    }
    Ok(sampler)
}

const NOT_SAMPLED: &str = "all neighbors are read, layer by layer: add --num-neighbors";

/// Opens a model for links, and returns the description of its training. `flag` is the flag that needs the model.
pub(super) fn open_link<B: TrainingBackend>(
    args: &PredictArgs,
    flag: &str,
    graph: Option<&Meta>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> anyhow::Result<(Open<LinkTask, B>, Option<TrainedOn>)> {
    let Opened { saved, model, .. } = open::<B>(args, graph, world, device)?;
    let Some(model) = model_of(model) else {
        bail!(UsageError(format!(
            "{flag} needs a model for links, which {} is not: load a model of train link, or use --output prediction, \
             probability, logit or embedding",
            args.load_model.display()
        )));
    };
    Ok((model, saved.trained_on))
}
