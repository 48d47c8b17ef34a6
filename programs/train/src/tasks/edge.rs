//! The command `train edge`.

use crate::args::conv::OnNodes;
use crate::args::objective::ObjectiveArgs;
use crate::class_names;
use crate::exit::UsageError;
use crate::progress::reporter::EpochText;
use crate::saved_model::{Items, Predictor, SavedModel};
use crate::settings::flags::{Flags, Profile};
use crate::settings::model_settings::{Setting, check_flags};
use crate::tasks::epoch_lines::SeedText;
use crate::tasks::part_flags::PartFlags;
use crate::tasks::{CommonConfig, Open, TaskArgs, TaskFlags, TaskProgram, TaskRun};
use anyhow::bail;
use edgecut_cli::message;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_trainer::edge::{
    EdgePrediction, EdgeTrainingConfig, count_repeated_edges, labeled_edge_type, unknown_reverse_pair,
};
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::metrics::Metric;
use edgecut_trainer::model_file::{ReadData, SavedTask, TrainedOn};
use edgecut_trainer::models::{EdgeModel, EdgeModelConfig};
use edgecut_trainer::{Compiles, SeedResult, SeedScores, TrainingBackend};
use std::path::Path;

/// Edges of a graph.
pub(crate) const EDGES: Items =
    Items { remedy: "add --edges all, and leave out --output embedding, score, top-k or relation" };

/// A model for edges, and its settings.
pub(crate) type ForEdges<B> = (EdgeModel<B>, EdgeModelConfig);

impl<B: TrainingBackend> Predictor<B> for ForEdges<B> {}

/// The task of predicting classes, labels or numbers of edges.
#[derive(Debug)]
pub(crate) struct EdgeTask;

impl Profile<EdgeTrainingConfig> for OnNodes {
    const HEADING: &'static str = "Edges";

    fn defaults() -> EdgeTrainingConfig {
        EdgeTrainingConfig::default()
    }
}

impl TaskProgram for EdgeTask {
    type Task = EdgePrediction;

    const ITEMS: Items = EDGES;
    const ABOUT: &'static str = "Trains or evaluates a model of the classes or numbers of edges";
    const EXAMPLES: &'static str = "Examples on graphs with labels of edges:\n  \
        train edge --dataset-root-dir data/partitions/payments/2-parts --nproc-per-node 2 --num-neighbors 10,5 --metric roc-auc\n  \
        train edge --dataset-root-dir data/ratings --edge-type user__rates__film --loss mse --time-attr edge_time";
    const LEAVES_OUT_TARGETS: bool = true;

    type Flags = PartFlags<Flags<EdgeTrainingConfig, OnNodes>, ObjectiveArgs>;
    type Outcome = SeedResult;

    fn objective(args: &TaskArgs<Self>) -> Option<&ObjectiveArgs> {
        Some(&args.own.objective)
    }

    fn config(args: &TaskArgs<Self>, num_workers: usize) -> anyhow::Result<EdgeTrainingConfig> {
        let training = args.training_config(num_workers)?;
        if training.eval_layer_wise.is_some() {
            bail!(UsageError(
                "--eval layer-wise computes each node once, with messages over all edges, also over those to predict: \
                 leave it out, or give fan-outs by --eval-num-neighbors"
                    .into()
            ));
        }
        Ok(EdgeTrainingConfig { training, scoring: args.own.objective.scoring(), ..args.own.task.settings.clone() })
    }

    fn common(config: &mut EdgeTrainingConfig) -> CommonConfig<'_> {
        CommonConfig { scoring: Some(&mut config.scoring), ..(&mut config.training).into() }
    }

    fn describe(
        _: &TaskArgs<Self>,
        config: &EdgeTrainingConfig,
        graph: &DistGraph,
        trained_on: TrainedOn,
    ) -> anyhow::Result<TrainedOn> {
        let meta = graph.part().meta();
        // A graph without a type to train is an error of the training.
        let Ok(edge_type) = labeled_edge_type(meta, config.edge_type.as_deref()) else { return Ok(trained_on) };
        Ok(trained_on.with_scored_edges(meta, edge_type))
    }

    fn class_names(
        args: &TaskArgs<Self>,
        config: &EdgeTrainingConfig,
        graph: &DistGraph,
    ) -> anyhow::Result<Option<Vec<String>>> {
        let meta = graph.part().meta();
        // A graph without a type to train is an error of the training.
        let Ok(edge_type) = labeled_edge_type(meta, config.edge_type.as_deref()) else { return Ok(None) };
        class_names::of_edges(args.own.dataset_root_dir(), meta, edge_type)
    }

    fn metric(config: &EdgeTrainingConfig, graph: &DistGraph) -> anyhow::Result<Option<Metric>> {
        Ok(Some(config.chosen_metric(graph.part().meta())?))
    }

    fn epoch_text(_args: &TaskArgs<Self>) -> impl EpochText<SeedScores> {
        SeedText::default()
    }

    fn train<B: TrainingBackend>(run: TaskRun<'_, Self, B>) -> anyhow::Result<SeedResult> {
        warn_of_repeated_edges(run.config, run.data, run.world)?;
        Ok(<B as Compiles<EdgePrediction>>::train(run.data, run.config, run.world, run.device, run.observer)?.result)
    }

    fn outputs(saved: &SavedTask, config: &EdgeModelConfig) -> Option<OutputKind> {
        Some(saved.outputs_or_classes(config.num_outputs))
    }

    fn reads(outputs: Option<OutputKind>) -> ReadData {
        ReadData { edge_classes: matches!(outputs, Some(OutputKind::Classes(_))), ..ReadData::default() }
    }

    fn evaluate<B: TrainingBackend>(
        run: TaskRun<'_, Self, B>,
        saved: &SavedModel<'_>,
        open: &Open<Self, B>,
    ) -> anyhow::Result<SeedResult> {
        let TaskRun { args, config, data, world, device, .. } = run;
        let model_config = &open.config;
        config.training.step.loss = saved.loss(config.training.step.loss.take())?;
        config.scoring.decision = saved.decision();
        // The model has an edge type of its own.
        config.edge_type.get_or_insert_with(|| model_config.edge_type_name());
        let own = &args.own.task.settings;
        let mut settings = args.own.training.settings_of(&model_config.encoder, model_config.reads_edge_features());
        settings.push(Setting::new("decoder", own.decoder, model_config.edge_decoder));
        settings.push(Setting::new("target_edges", own.target_edges, model_config.target_edges));
        check_flags(&args.given, saved.path, &settings)?;
        check_reverse_types(&own.reverse_types, model_config, saved.path, data)?;
        args.adopt_sampler(saved, open.outputs, &mut config.training, data, world)?;
        Ok(<B as Compiles<EdgePrediction>>::evaluate(data, config, open.trained(), world, device)?)
    }

    fn predictor<B: TrainingBackend>(model: EdgeModel<B>, config: EdgeModelConfig) -> Box<dyn Predictor<B>> {
        Box::new((model, config))
    }
}

/// Warns on rank 0 if validation or test edges repeat training edges. Every rank must call this.
fn warn_of_repeated_edges(
    config: &EdgeTrainingConfig,
    graph: &DistGraph,
    world: &mut ProcessGroup,
) -> anyhow::Result<()> {
    let meta = graph.part().meta();
    // A graph without a type to train is an error of the training.
    let Ok(edge_type) = labeled_edge_type(meta, config.edge_type.as_deref()) else { return Ok(()) };
    let [valid, test] = count_repeated_edges(graph, edge_type, world)?;
    let edges = &meta.edge_types[edge_type.index()];
    if let Some(labels) = &edges.labels
        && valid + test > 0
        && world.rank() == 0
    {
        let directions = if edges.src_type == edges.dst_type { " in either direction" } else { "" };
        message!(
            "warning: training edges of type {} join the same nodes{directions} with the same label as {valid} of {} validation \
             edges and {test} of {} test edges, so that scores may be better than on new edges: put such edges into one split, \
             in tables by split_by_group",
            edges.full_name(),
            labels.split_sizes[1],
            labels.split_sizes[2]
        );
    }
    Ok(())
}

/// Checks that a saved model knows the pairs of reverse types of the flags. It may know others, which parts declared in its training.
fn check_reverse_types(
    given: &[(String, String)],
    model: &EdgeModelConfig,
    path: &Path,
    graph: &DistGraph,
) -> anyhow::Result<()> {
    if given.is_empty() {
        return Ok(());
    }
    let Some((one, other)) = unknown_reverse_pair(graph.part().meta(), model, given)? else { return Ok(()) };
    let mut known = Vec::with_capacity(model.reverse_types.len());
    for (one, other) in &model.reverse_types {
        known.push(format!("{one}={other}"));
    }
    let known = if known.is_empty() { "no such pairs".to_owned() } else { known.join(",") };
    bail!(UsageError(format!(
        "--reverse-types {one}={other}: the model {} was saved with {known}: leave the pair out, or load another model",
        path.display()
    )));
}
