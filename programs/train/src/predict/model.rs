//! The model of a prediction.

use super::args::{PredictArgs, TimeLimit};
use super::request_of;
use crate::exit::UsageError;
use crate::saved_model::{OpenModel, Predictor, SavedModel};
use crate::tasks::{TASKS, TaskEntry, open_model};
use anyhow::{Context, bail};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{Fanout, NumNeighbors, SamplerConfig, Temporal};
use edgecut_graph::Meta;
use edgecut_trainer::inference::LayerWiseConfig;
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::model_file::{NewEmbeddings, TrainedOn};
use edgecut_trainer::{EmbeddingSource, TrainingBackend};
use std::any::Any;
use std::path::PathBuf;

/// A saved model, and the sampler of its neighbors; `None` reads all neighbors.
pub(super) struct Opened<'a, B: TrainingBackend> {
    pub(super) args: &'a PredictArgs,
    task: &'static TaskEntry,
    pub(super) saved: SavedModel<'a>,
    pub(super) model: OpenModel<B>,
    pub(super) sampler: Option<SamplerConfig>,
}

impl<B: TrainingBackend> Opened<'_, B> {
    /// Returns the meaning of the outputs of a model for one target.
    pub(super) fn outputs(&self) -> anyhow::Result<OutputKind> {
        self.model.outputs.context("the outputs of the model have no meaning")
    }

    /// Returns the embeddings of nodes that the training has learned.
    pub(super) fn embeddings(&self) -> EmbeddingSource<'_> {
        (&self.model.embeddings).into()
    }

    /// Returns the network that makes the predictions, with its settings.
    ///
    /// # Errors
    /// A model that predicts for other items.
    pub(super) fn predictor<P: Predictor<B>>(&self) -> Result<&P, UsageError> {
        let predictor: &dyn Any = &*self.model.predictor;
        predictor.downcast_ref().ok_or_else(|| self.unfit())
    }

    /// Returns the error of a model that does not predict for the items of the request.
    pub(super) fn unfit(&self) -> UsageError {
        unfit(self.args, self.task)
    }
}

/// Returns the error of a model of a task that does not predict for the items of a request.
pub(super) fn unfit(args: &PredictArgs, task: &TaskEntry) -> UsageError {
    let request = request_of(args);
    let others = TASKS.iter().filter(|other| other.items == request.items);
    let others: Vec<String> = others.map(|other| format!("train {}", other.name)).collect();
    UsageError(format!(
        "--load-model {}: the model is for {}: {}, or load a model of {} for {}",
        args.load_model.display(),
        task.kind.items,
        task.items.remedy,
        others.join(" or "),
        request.flags
    ))
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
    let task = TaskEntry::named(&saved.task.task).context("no command trains models for this task")?;
    let sampler = sampler(args, model.leaves_out_targets, saved.trained_on.as_ref())?;
    if let Some(meta) = graph {
        saved.check_graph(meta, (task.reads)(model.outputs), sampler.as_ref(), world)?;
    }
    Ok(Opened { args, task, saved, model, sampler })
}

/// Returns the settings of an inference layer by layer. It reads the edge types that the evaluation of the model reads.
pub(super) fn layer_wise(args: &PredictArgs, trained_on: Option<&TrainedOn>, scratch_dir: PathBuf) -> LayerWiseConfig {
    LayerWiseConfig {
        memory_bytes: args.memory_bytes as usize,
        scratch_dir,
        num_neighbors: evaluated_fanouts(trained_on).cloned(),
    }
}

/// Returns the fan-outs of all neighbors over the edge types that the evaluation of the model reads.
pub(super) fn all_neighbors(trained_on: Option<&TrainedOn>, num_layers: usize) -> NumNeighbors {
    match evaluated_fanouts(trained_on) {
        Some(fanouts) => fanouts.exhaustive(),
        None => vec![Fanout::All; num_layers].into(),
    }
}

/// Returns the fan-outs of the evaluation of the model. Files of earlier versions lack them.
fn evaluated_fanouts(trained_on: Option<&TrainedOn>) -> Option<&NumNeighbors> {
    Some(&trained_on?.sampler.as_ref()?.num_neighbors)
}

/// Returns the sampler of neighbors; `None` if all neighbors are read, layer by layer. A model whose evaluation cannot be
/// computed layer by layer, because of times, weights, or fan-outs of 0 in some hops only, predicts as it was evaluated.
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
    let sampler = sampler.filter(|sampler| {
        is_sampled || sampler.temporal.is_some() || sampler.weighted || sampler.num_neighbors.skips_hops()
    });
    let is_temporal = sampler.as_ref().is_some_and(|sampler| sampler.temporal.is_some());
    let is_random_start = args.new_embeddings == Some(NewEmbeddings::Random);
    let without_effect = [
        ("--seed-time", args.seed_time.is_some() && leaves_out_targets, "edges have times of their own"),
        ("--seed-time", args.seed_time.is_some() && !is_temporal, "no times are compared: add --time-attr"),
        ("--batch-size", args.batch_size.is_some() && sampler.is_none() && !args.own.explain.explain, NOT_SAMPLED),
        ("--seed", args.seed.is_some() && sampler.is_none() && !is_random_start, NOT_SAMPLED),
    ];
    if let Some((flag, _, why)) = without_effect.into_iter().find(|(_, given, _)| *given) {
        bail!(UsageError(format!("{flag} has no effect: {why}, or leave the flag out")));
    }
    Ok(sampler)
}

const NOT_SAMPLED: &str = "all neighbors are read, layer by layer: add --num-neighbors";
