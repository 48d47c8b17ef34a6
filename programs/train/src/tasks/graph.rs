//! The command `train graph`.

use crate::args::checkpoints::{RunIdentity, say_resumed, unless_stopped};
use crate::args::conv::{ConvArgs, OnGraphs};
use crate::args::graph::{GraphArgs, GraphDataArgs};
use crate::job::process_role::Rank;
use crate::job::{self, Job};
use crate::progress::reporter::{EpochText, Reporter, TaskReporter, number};
use crate::tasks::model_bytes::read_on_rank_0;
use crate::tasks::node::{train, valid};
use crate::tasks::note_unread_edge_features;
use crate::tasks::saved_model::{Setting, check_flags, check_graphs, loss_of_model};
use anyhow::{Context, anyhow, ensure};
use edgecut_cli::result;
use edgecut_cluster::{ProcessGroup, Termination};
use edgecut_dist_sampler::share_graphs;
use edgecut_graph::small_graphs::{Fold, GraphSource, load_graphs, read_folds, split_dataset, stratified_folds};
use edgecut_graph::{GraphDataset, GraphError};
use edgecut_trainer::checkpoint::DataIdentity;
use edgecut_trainer::graph::{CrossValidationResult, GraphSplit, GraphTrainingConfig, Protocol};
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::model_file::{ModelTask, TrainedOn};
use edgecut_trainer::models::NetworkConfig;
use edgecut_trainer::ops::Precision;
use edgecut_trainer::{EpochCost, EpochReport, SeedResult, SeedScores, StepOptions, TrainingBackend};
use serde::Serialize;
use std::sync::Arc;

pub(crate) fn run<B: TrainingBackend>(
    args: &GraphArgs,
    rank: &Rank,
    termination: Option<&Termination>,
    device: &B::Device,
) -> anyhow::Result<()> {
    args.device.check_types::<B>(Precision::F32, device)?;
    let mut config = args.config()?;
    let loss = args.objective.loss()?;
    let source = args.data.source();
    let fingerprint = format!("graphs {}", source.name);
    let mut stopped = None;
    job::run(&args.job, rank, fingerprint, args, |Job { cluster, world, gradient_sum }| {
        config.step = StepOptions { loss: loss.clone(), ..args.device.step_options(gradient_sum) };
        let graphs = Arc::new(share_graphs(cluster, || load(&source))?);
        let by_test = args.data.protocol == Protocol::BestMeanEpoch;
        let judge = if by_test { "test" } else { "valid" };
        let mut settings = vec![("precision", config.step.precision.to_string())];
        if args.output.load_model.is_none() {
            settings.push(("metric", serde_json::to_string(&config.chosen_metric(&graphs)?)?));
        }
        let run = RunIdentity {
            command: "graph",
            given: &args.given,
            flags: args,
            num_epochs: config.fit.num_epochs,
            settings,
            data: DataIdentity::of_graphs(&graphs),
        };
        config.fit.checkpoints = args.checkpoints.open(&run, termination, world)?;
        let checkpoints = config.fit.checkpoints.as_ref();
        let kept = (false, args.checkpoints.kept_epochs(checkpoints));
        let mut reporter = Reporter::new((&args.job, &args.output), config.fit.num_epochs, rank, kept, world)?;
        reporter.describe_data(TrainedOn::of_graphs(&graphs));
        say_resumed(&reporter, checkpoints);
        note_unread_edge_features(&reporter, config.conv, graphs.edge_dim() > 0);
        let model = args.training.start.init_from.as_deref();
        reporter.write_config(args, (None, Some(&args.data.dataset_root_dir), model), &args.output)?;
        config.fit.warm_start = args.training.start.warm_start(world)?;
        describe(&reporter, &graphs);
        let mut reporter = TaskReporter { reporter, task: GraphText { judge } };
        if let Some(num_folds) = args.data.folds {
            let folds = folds_of_rank_0(world, || folds(&args.data, &source, &graphs, num_folds as usize))?;
            let protocol = args.data.protocol;
            let result = B::cross_validate(&graphs, &folds, protocol, &config, world, device, &mut reporter)?;
            report_folds(&mut reporter.reporter, &result)?;
            return reporter.reporter.write_report();
        }
        let shares = split_dataset(graphs.num_graphs(), args.data.split.0, args.data.split_seed);
        let [train, valid, test] = shares.map_err(|why| anyhow!("--split: {why}"))?;
        let split = GraphSplit { train, valid, test };
        let result = match &args.output.load_model {
            Some(_) => evaluate::<B>(args, &graphs, &split, &config, world, device)?,
            None => {
                let trained = B::train_graph(&graphs, &split, &config, world, device, &mut reporter);
                match unless_stopped(&reporter.reporter, trained, &mut stopped)? {
                    Some(fitted) => fitted.result,
                    None => return Ok(()),
                }
            }
        };
        reporter.reporter.seed_result(&result, None)?;
        reporter.reporter.write_report()
    })?;
    stopped.map_or(Ok(()), |stopped| Err(stopped.into()))
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
fn folds(
    args: &GraphDataArgs,
    source: &GraphSource,
    graphs: &GraphDataset,
    num_folds: usize,
) -> anyhow::Result<Vec<Fold>> {
    let beside = source.folder()?.map(|folder| folder.join(format!("{num_folds}fold"))).filter(|dir| dir.is_dir());
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

fn evaluate<B: TrainingBackend>(
    args: &GraphArgs,
    graphs: &Arc<GraphDataset>,
    split: &GraphSplit,
    config: &GraphTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> anyhow::Result<SeedResult> {
    let path = args.output.load_model.as_deref().context("--load-model is missing")?;
    let bytes = read_on_rank_0(path, world)?;
    let (mut model, model_config, _) = B::open_network(&bytes, path, ModelTask::Graph, device)?;
    check_flags(&args.given, path, &settings_of(&args.training.conv, config, &model_config))?;
    check_graphs(&bytes, path, graphs, model_config.num_outputs())?;
    model.set_precision(config.step.precision);
    let mut config = config.clone();
    config.step.loss = loss_of_model(&bytes, path, config.step.loss.take())?;
    let result = B::evaluate_graph(graphs, split, &config, (&model, &model_config), world, device);
    result.with_context(|| format!("evaluate {}", path.display()))
}

/// Returns the settings of a saved model that the flags name as well.
fn settings_of(conv: &ConvArgs<OnGraphs>, config: &GraphTrainingConfig, saved: &NetworkConfig) -> Vec<Setting> {
    let mut settings = conv.settings_of(saved.kind, saved.num_layers);
    settings.push(Setting::new("num_layers", config.num_layers, saved.num_layers));
    settings.push(Setting::new("hidden_channels", config.hidden_channels, saved.hidden_channels));
    if let Some(pooling) = saved.pooling {
        settings.push(Setting::new("pooling", config.pooling, pooling.aggregation));
    }
    settings.push(Setting::new("readout", format!("{:?}", config.readout), format!("{:?}", saved.readout)));
    settings.push(Setting::new("no_batch_norm", !config.batch_norm, !saved.batch_norm));
    settings
}

/// Prints the size of the set of graphs.
fn describe(reporter: &Reporter, graphs: &GraphDataset) {
    reporter.say(&format!(
        "{}: {} graphs {}, {} nodes, {} edges, {} features",
        graphs.name(),
        graphs.num_graphs(),
        match OutputKind::of_graphs(graphs) {
            OutputKind::Classes(classes) => format!("of {classes} classes"),
            OutputKind::Labels(labels) => format!("with {labels} labels"),
            OutputKind::Numbers(numbers) => format!("with {numbers} numbers to predict"),
        },
        graphs.num_nodes(),
        graphs.num_edges(),
        graphs.feature_dim()
    ));
}

/// Reports the result of a cross-validation.
fn report_folds(reporter: &mut Reporter, result: &CrossValidationResult) -> anyhow::Result<()> {
    if !reporter.finish(result)? {
        return Ok(());
    }
    let CrossValidationResult { protocol, metric, test, mean, deviation, epochs } = result;
    for (fold, (test, epoch)) in test.iter().zip(epochs).enumerate() {
        result!("fold {}: test {metric} {} (epoch {epoch})", fold + 1, metric.shown(Some(*test)))?;
    }
    result!(
        "test {metric} {} over {} folds; {protocol}: {}",
        metric.shown_with_deviation(*mean, *deviation),
        test.len(),
        protocol.explanation()
    )?;
    Ok(())
}

/// The report of an epoch of graph classification.
struct GraphText {
    /// The name of the graphs that select the epoch: "valid", or "test" in a cross-validation by the best mean epoch.
    judge: &'static str,
}

/// An epoch's line in the metrics file.
#[derive(Serialize)]
struct GraphLine<'a> {
    fold: Option<usize>,
    epoch: u64,
    loss: Option<f64>,
    train_acc: Option<f64>,
    valid_acc: Option<f64>,
    metric: &'a str,
    valid_metric: Option<f64>,
    graphs: u64,
    #[serde(flatten)]
    cost: &'a EpochCost,
}

impl EpochText<SeedScores> for GraphText {
    fn line(&self, report: &EpochReport<SeedScores>) -> impl Serialize {
        GraphLine {
            fold: report.fold,
            epoch: report.epoch,
            loss: report.loss,
            train_acc: report.train_acc,
            valid_acc: report.valid.as_ref().and_then(|valid| valid.accuracy),
            metric: &report.metric,
            valid_metric: report.valid_metric,
            graphs: report.num_seeds,
            cost: &report.cost,
        }
    }

    fn words(&self, report: &EpochReport<SeedScores>, num_epochs: u64) -> String {
        let cost = &report.cost;
        let fold = report.fold.map(|fold| format!("fold {fold}, ")).unwrap_or_default();
        format!(
            "{fold}epoch {}/{num_epochs}: loss {}, {}{} {}, {:.2} s ({:.0} graphs/s; wait {:.2}, compute {:.2}, all-reduce {:.2})",
            report.epoch,
            number(report.loss),
            train(report),
            self.judge,
            valid(report),
            cost.seconds,
            report.num_seeds as f64 / cost.seconds.max(1e-9),
            cost.sample_wait_seconds,
            cost.compute_seconds,
            cost.allreduce_seconds,
        )
    }
}
