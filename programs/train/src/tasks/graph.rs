//! The command `train graph`.

use crate::args::PartArgs;
use crate::args::conv::{ConvArgs, OnGraphs};
use crate::args::graph::{GraphDataArgs, GraphTrainingArgs};
use crate::args::objective::ObjectiveArgs;
use crate::args::run::RunArgs;
use crate::args::start::StartArgs;
use crate::class_names;
use crate::exit::UsageError;
use crate::job::process_role::Rank;
use crate::job::{self, Job};
use crate::progress::named_values::NamedValues;
use crate::progress::reporter::{EpochText, Reporter};
use crate::saved_model::{Items, Predictor, SavedModel};
use crate::settings::model_settings::{Setting, check_flags};
use crate::tasks::epoch_lines::SeedText;
use crate::tasks::outcome::no_score;
use crate::tasks::{
    CommonConfig, DataDescription, Open, Outcome, Scores, TaskArgs, TaskFlags, TaskJob, TaskProgram, TaskRun,
};
use anyhow::{Context, anyhow, ensure};
use clap::Args;
use edgecut_cli::result;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::Packing;
use edgecut_dist_sampler::share_graphs;
use edgecut_graph::small_graphs::{
    FAKE_GRAPHS_NAME, Fold, GraphSource, load_graphs, read_folds, split_dataset, stratified_folds,
};
use edgecut_graph::{GraphDataset, GraphError};
use edgecut_trainer::checkpoint::DataIdentity;
use edgecut_trainer::graph::{
    CrossValidationResult, FoldScores, GraphPrediction, GraphSplit, GraphTrainingConfig, Protocol, SplitGraphs,
};
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::metrics::Metric;
use edgecut_trainer::model_file::{ReadData, SavedTask, TrainedOn};
use edgecut_trainer::models::{Network, NetworkConfig};
use edgecut_trainer::{Compiles, SeedResult, SeedScores, TrainingBackend};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whole graphs.
pub(crate) const GRAPHS: Items = Items {
    remedy: "add --graphs all and --dataset with the name of the set of graphs, and leave out --edges, and --output score, \
             top-k or relation",
};

/// A network for whole graphs, and its settings.
pub(crate) type ForGraphs<B> = (Network<B>, NetworkConfig);

impl<B: TrainingBackend> Predictor<B> for ForGraphs<B> {}

/// The task of predicting classes, labels or numbers of whole graphs.
#[derive(Debug)]
pub(crate) struct GraphTask;

/// Flags of `train graph`.
#[derive(Debug, Args, Serialize)]
pub(crate) struct GraphFlags {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) data: GraphDataArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) training: GraphTrainingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) objective: ObjectiveArgs,
}

/// The result of a training, an evaluation or a cross-validation.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum GraphOutcome {
    // Only a cross-validation has a protocol.
    Folds(CrossValidationResult),
    Split(SeedResult),
}

impl TaskFlags for GraphFlags {
    const READS_PARTS: bool = false;

    type Data = GraphDataset;
    type Memory = ();

    fn part(&self) -> Option<&PartArgs> {
        None
    }

    fn dataset_root_dir(&self) -> Option<&Path> {
        Some(&self.data.dataset_root_dir)
    }

    fn data_folders(&self) -> Vec<PathBuf> {
        // The run reports a set that is not found.
        let of_set = self.data.source().folder().ok().flatten();
        of_set.into_iter().chain(self.data.folds_dir.clone()).collect()
    }

    fn start(&self) -> &StartArgs {
        &self.training.start
    }

    fn with_data(
        &self,
        args: &RunArgs,
        rank: &Rank,
        flags: &impl Serialize,
        work: impl FnOnce(&mut TaskJob<'_, GraphDataset>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let source = self.data.source();
        let fingerprint = format!("graphs {}", source.name);
        job::run(&args.job, rank, fingerprint, flags, |Job { cluster, world, gradient_sum }| {
            let data = Arc::new(share_graphs(cluster, || load(&source))?);
            work(&mut TaskJob { data, cluster, world, gradient_sum })
        })
    }

    fn describe(graphs: &Arc<GraphDataset>) -> DataDescription {
        DataDescription {
            trained_on: TrainedOn::of_graphs(graphs),
            has_embeddings: false,
            has_edge_features: graphs.edge_dim() > 0,
            traffic: None,
            facts: json!({ "dataset": graphs.name(), "graphs": graphs.num_graphs() }),
        }
    }

    fn identity(graphs: &GraphDataset, _world: &mut ProcessGroup) -> anyhow::Result<DataIdentity> {
        Ok(DataIdentity::of_graphs(graphs))
    }

    fn report(&self, _reporter: &mut Reporter, _job: &mut TaskJob<'_, GraphDataset>) -> anyhow::Result<()> {
        Ok(())
    }
}

impl TaskProgram for GraphTask {
    type Task = GraphPrediction;

    const ITEMS: Items = GRAPHS;
    const ABOUT: &'static str = "Trains, evaluates or cross-validates a classifier of whole graphs";
    const EXAMPLES: &'static str = "Examples:\n  \
        train graph --dataset fake-graphs --nproc-per-node 2 --num-epochs 10\n  \
        train graph --dataset IMDB-BINARY --dataset-root-dir data/tu --folds 10 --protocol best-mean-epoch";

    type Flags = GraphFlags;
    type Outcome = GraphOutcome;

    /// Checks that flags of generated graphs are given only with `--dataset fake-graphs`.
    fn check(args: &TaskArgs<Self>) -> Result<(), UsageError> {
        let data = &args.own.data;
        for (flag, is_given) in [
            ("--num-graphs", data.num_graphs.is_some()),
            ("--avg-num-nodes", data.avg_num_nodes.is_some()),
            ("--fake-seed", data.fake_seed.is_some()),
        ] {
            if is_given && data.dataset != FAKE_GRAPHS_NAME {
                let dataset = &data.dataset;
                return Err(UsageError(format!(
                    "{flag} applies only to --dataset {FAKE_GRAPHS_NAME}, but the dataset is {dataset}: leave it out"
                )));
            }
        }
        Ok(())
    }

    fn objective(args: &TaskArgs<Self>) -> Option<&ObjectiveArgs> {
        Some(&args.own.objective)
    }

    fn config(args: &TaskArgs<Self>, _num_workers: usize) -> anyhow::Result<GraphTrainingConfig> {
        let GraphFlags { training, objective, .. } = &args.own;
        training.fit.settings.check().map_err(UsageError)?;
        Ok(GraphTrainingConfig {
            conv: training.conv.kind(),
            batch_norm: !training.no_batch_norm,
            packing: match training.max_nodes {
                Some(nodes) => Packing::Nodes(nodes as usize),
                None => Packing::Graphs(training.batch_size as usize),
            },
            fit: training.fit.settings.clone(),
            scoring: objective.scoring(),
            concurrency: training.concurrency as usize,
            prefetch_bytes: usize::try_from(training.prefetch_bytes).unwrap_or(usize::MAX),
            ..training.model.settings.clone()
        })
    }

    fn common(config: &mut GraphTrainingConfig) -> CommonConfig<'_> {
        CommonConfig {
            fit: &mut config.fit,
            step: &mut config.step,
            sync_batch_norm: config.sync_batch_norm,
            scoring: Some(&mut config.scoring),
            conv: Some(config.conv),
            eval_sampler: None,
            adds_embeddings: false,
            new_embeddings: None,
        }
    }

    fn reads(outputs: Option<OutputKind>) -> ReadData {
        ReadData { classes: matches!(outputs, Some(OutputKind::Classes(_))), ..ReadData::default() }
    }

    fn describe(
        args: &TaskArgs<Self>,
        _: &GraphTrainingConfig,
        graphs: &GraphDataset,
        trained_on: TrainedOn,
    ) -> anyhow::Result<TrainedOn> {
        let data = &args.own.data;
        // The models of folds are not saved.
        if data.folds.is_some() {
            return Ok(trained_on);
        }
        let [train, ..] = shares(data, graphs)?;
        Ok(trained_on.with_training_graphs(&train))
    }

    fn class_names(
        _args: &TaskArgs<Self>,
        _config: &GraphTrainingConfig,
        graphs: &GraphDataset,
    ) -> anyhow::Result<Option<Vec<String>>> {
        Ok(class_names::of_graphs(graphs))
    }

    fn choose(
        _args: &TaskArgs<Self>,
        _config: &mut GraphTrainingConfig,
        graphs: &Arc<GraphDataset>,
        _world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<String>> {
        Ok(Some(description(graphs)))
    }

    fn metric(config: &GraphTrainingConfig, graphs: &GraphDataset) -> anyhow::Result<Option<Metric>> {
        Ok(Some(config.chosen_metric(graphs)?))
    }

    fn epoch_text(args: &TaskArgs<Self>) -> impl EpochText<SeedScores> {
        SeedText { of_graphs: true, by_test: args.own.data.protocol == Protocol::BestMeanEpoch }
    }

    fn train<B: TrainingBackend>(run: TaskRun<'_, Self, B>) -> anyhow::Result<GraphOutcome> {
        let TaskRun { args, config, data: graphs, world, device, observer } = run;
        let data = &args.own.data;
        if let Some(num_folds) = data.folds {
            let folds = folds_of_rank_0(world, || folds(data, graphs, num_folds as usize))?;
            let result = B::cross_validate(graphs, &folds, data.protocol, config, world, device, observer)?;
            return Ok(GraphOutcome::Folds(result));
        }
        let trained = <B as Compiles<GraphPrediction>>::train(&split(data, graphs)?, config, world, device, observer)?;
        Ok(GraphOutcome::Split(trained.result))
    }

    fn outputs(saved: &SavedTask, config: &NetworkConfig) -> Option<OutputKind> {
        Some(saved.outputs_or_classes(config.num_outputs()))
    }

    fn evaluate<B: TrainingBackend>(
        run: TaskRun<'_, Self, B>,
        saved: &SavedModel<'_>,
        open: &Open<Self, B>,
    ) -> anyhow::Result<GraphOutcome> {
        let TaskRun { args, config, data: graphs, world, device, .. } = run;
        let split = split(&args.own.data, graphs)?;
        check_flags(&args.given, saved.path, &settings_of(&args.own.training.conv, config, &open.config))?;
        saved.check_graphs(graphs, Some(&split.split.train), &open.config, world)?;
        config.step.loss = saved.loss(config.step.loss.take())?;
        config.scoring.decision = saved.decision();
        let result = <B as Compiles<GraphPrediction>>::evaluate(&split, config, open.trained(), world, device);
        Ok(GraphOutcome::Split(result.with_context(|| format!("evaluate {}", saved.path.display()))?))
    }

    fn predictor<B: TrainingBackend>(network: Network<B>, config: NetworkConfig) -> Box<dyn Predictor<B>> {
        Box::new((network, config))
    }
}

impl Outcome for GraphOutcome {
    fn report(&self, reporter: &mut Reporter, classes: Option<&[String]>) -> anyhow::Result<()> {
        match self {
            Self::Folds(result) => report_folds(reporter, result),
            Self::Split(result) => result.report(reporter, classes),
        }
    }

    fn scores(&self) -> Result<Scores, String> {
        match self {
            Self::Folds(result) => scores_of_folds(result),
            Self::Split(result) => result.scores(),
        }
    }
}

/// Loads the graphs. Node degrees serve as features if the dataset has neither node attributes nor node labels.
pub(crate) fn load(source: &GraphSource) -> Result<GraphDataset, GraphError> {
    let graphs = load_graphs(source)?;
    Ok(if graphs.feature_dim() == 0 { graphs.with_degrees_as_labels() } else { graphs })
}

/// Returns the folds that rank 0 finds. Broadcasting them gives all ranks the same folds, whatever their disks hold.
fn folds_of_rank_0(
    world: &mut ProcessGroup,
    find: impl FnOnce() -> anyhow::Result<Vec<Fold>>,
) -> anyhow::Result<Vec<Fold>> {
    let mut text = match world.rank() {
        0 => serde_json::to_vec(&find()?).context("write the folds as JSON")?,
        _ => Vec::new(),
    };
    world.broadcast_bytes(&mut text, 0)?;
    serde_json::from_slice(&text).context("read the folds of rank 0")
}

/// Reads the folds from a folder if there is one, else samples them stratified by class.
fn folds(args: &GraphDataArgs, graphs: &GraphDataset, num_folds: usize) -> anyhow::Result<Vec<Fold>> {
    let beside =
        args.source().folder()?.map(|folder| folder.join(format!("{num_folds}fold"))).filter(|dir| dir.is_dir());
    let Some(dir) = args.folds_dir.clone().or(beside) else {
        let drawn = stratified_folds(graphs.labels(), num_folds, args.split_seed);
        return drawn.map_err(|why| anyhow!("--folds: {why}"));
    };
    let folds = read_folds(&dir, graphs.num_graphs())?;
    ensure!(
        folds.len() == num_folds,
        "--folds is {num_folds}, but the folder {} has {} folds: make the numbers equal",
        dir.display(),
        folds.len()
    );
    Ok(folds)
}

/// Returns the graphs, split into training, validation and test graphs.
fn split(args: &GraphDataArgs, graphs: &Arc<GraphDataset>) -> anyhow::Result<SplitGraphs> {
    let [train, valid, test] = shares(args, graphs)?;
    Ok(SplitGraphs { graphs: Arc::clone(graphs), split: GraphSplit { train, valid, test } })
}

/// Returns the numbers of the training, validation and test graphs.
fn shares(args: &GraphDataArgs, graphs: &GraphDataset) -> anyhow::Result<[Vec<u32>; 3]> {
    split_dataset(graphs.num_graphs(), args.split.0, args.split_seed).map_err(|why| anyhow!("--split: {why}"))
}

/// Returns the settings of a saved model that the flags name as well.
fn settings_of(conv: &ConvArgs<OnGraphs>, config: &GraphTrainingConfig, saved: &NetworkConfig) -> Vec<Setting> {
    let mut settings = conv.settings_of(saved.kind, saved.num_layers);
    settings.push(Setting::new("num_layers", config.num_layers, saved.num_layers));
    settings.push(Setting::new("hidden_channels", config.hidden_channels, saved.hidden_channels));
    if let Some(pooling) = saved.pooling {
        settings.push(Setting::new("pooling", config.pooling, pooling.aggregation));
    }
    settings.push(Setting::new("readout", config.readout, saved.readout));
    settings.push(Setting::new("no_edge_features", config.no_edge_features, !saved.graph.has_edge_features()));
    settings.push(Setting::new("no_batch_norm", !config.batch_norm, !saved.batch_norm));
    settings.push(Setting::new("residual", config.residual, saved.residual));
    settings.push(Setting::new("layer_norm", config.layer_norm, saved.layer_norm));
    settings.push(Setting::new("graph_norm", config.graph_norm, saved.graph_norm));
    settings.push(Setting::new("virtual_node", config.virtual_node, saved.virtual_node));
    settings.push(Setting::new("feed_forward", config.feed_forward.unwrap_or(0), saved.feed_forward.unwrap_or(0)));
    settings
}

/// Describes the size of the set of graphs.
fn description(graphs: &GraphDataset) -> String {
    let targets = match OutputKind::of_graphs(graphs) {
        OutputKind::Classes(classes) => format!("of {classes} classes"),
        OutputKind::Labels(labels) => format!("with {labels} labels"),
        OutputKind::Numbers(numbers) => format!("with {numbers} numbers to predict"),
    };
    format!(
        "{}: {} graphs {targets}, {} nodes, {} edges, {} features",
        graphs.name(),
        graphs.num_graphs(),
        graphs.num_nodes(),
        graphs.num_edges(),
        graphs.feature_dim()
    )
}

/// Returns the scores of a cross-validation. Without validation graphs, the scores of the test graphs take their place.
fn scores_of_folds(result: &CrossValidationResult) -> Result<Scores, String> {
    let judged_by_test = result.protocol == Protocol::BestMeanEpoch;
    let test_metrics = means(result);
    let mut valid = Some(result.mean);
    let mut valid_metrics = test_metrics.clone();
    if !judged_by_test {
        valid = result.valid_metrics.get(result.metric);
        valid_metrics = (&result.valid_metrics).into();
    }
    Ok(Scores {
        metric: result.metric.to_string(),
        higher_is_better: result.metric.higher_is_better(),
        valid: valid.ok_or_else(|| no_score(result.metric.name()))?,
        test: Some(result.mean),
        valid_metrics,
        test_metrics,
        best_epoch: None,
        judged_by_test,
    })
}

/// Returns the means of all metrics over the test graphs of the folds.
fn means(result: &CrossValidationResult) -> NamedValues {
    let mut values = vec![(result.metric.into(), Some(result.mean))];
    values.extend(result.others.iter().map(|other| (other.metric.into(), other.mean)));
    values.into()
}

/// Reports the result of a cross-validation.
fn report_folds(reporter: &mut Reporter, result: &CrossValidationResult) -> anyhow::Result<()> {
    if !reporter.finish(result)? {
        return Ok(());
    }
    let CrossValidationResult { protocol, metric, test, mean, deviation, epochs, others, .. } = result;
    for (fold, (test, epoch)) in test.iter().zip(epochs).enumerate() {
        result!("fold {}: test {metric} {} (epoch {epoch})", fold + 1, metric.shown(Some(*test)))?;
    }
    result!(
        "test {metric} {} over {} folds; {protocol}: {}",
        metric.shown_with_deviation(*mean, *deviation),
        test.len(),
        protocol.explanation()
    )?;
    for FoldScores { metric, mean, deviation, .. } in others {
        let shown = match mean.zip(*deviation) {
            Some((mean, deviation)) => metric.shown_with_deviation(mean, deviation),
            None => "-".to_owned(),
        };
        result!("test {metric} {shown}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::tasks::TaskCommand;
    use clap::Parser;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let cli = Cli::try_parse_from(["train", "graph", "--dataset", "a"]).expect("a command line");
        let Command::Task(TaskCommand::Graph(args)) = cli.command else { panic!("another command") };
        let config = GraphTask::config(&args, 8).expect("a configuration");
        assert_eq!(format!("{config:?}"), format!("{:?}", GraphTrainingConfig::default()));
    }
}
