//! The command `train node`.

use crate::args::NodeArgs;
use crate::args::checkpoints::{RunIdentity, say_resumed, unless_stopped};
use crate::class_names;
use crate::job::graph_session::{self, GraphSession};
use crate::job::process_role::Rank;
use crate::job::{num_workers, reported_once};
use crate::progress::reporter::{EpochText, Reporter, TaskReporter, cost, number, percent, shown};
use crate::progress::traffic_table;
use crate::tasks::model_bytes::read_on_rank_0;
use crate::tasks::saved_model::{check_data, check_flags, loss_of_model, sampler_of_model};
use crate::tasks::{has_edge_features, note_unread_edge_features};
use edgecut_cluster::Termination;
use edgecut_graph::META_FILE;
use edgecut_trainer::model_file::{ModelTask, TrainedOn};
use edgecut_trainer::{
    EpochCost, EpochReport, NodeTrainingConfig, SeedResult, SeedScores, StepOptions, TrainingBackend, seed_type,
};
use serde::Serialize;
use std::path::Path;

pub(crate) fn run<B: TrainingBackend>(
    args: &NodeArgs,
    rank: &Rank,
    termination: Option<&Termination>,
    device: &B::Device,
) -> anyhow::Result<()> {
    args.device.check_types::<B>(args.memory.feature_precision, device)?;
    let training = args.training.config(&args.sampling, num_workers(&args.job, rank), args.memory.on(&args.device)?)?;
    let mut config = NodeTrainingConfig { training, metric: args.objective.metric };
    // Wrong settings are refused before the job starts.
    args.objective.loss()?;
    let mut stopped = None;
    graph_session::run(&args.job, &args.part, rank, args, |job| {
        let meta = job.graph.part().meta().clone();
        // A graph without a type to train is an error of the training.
        let seed_type = seed_type(&meta).ok();
        let root = args.part.dataset_root_dir.as_deref();
        let classes = seed_type.map_or(Ok(None), |seed_type| class_names::of_nodes(root, &meta, seed_type))?;
        let loss = args.objective.loss_of_classes(classes.as_deref());
        let loss = reported_once(loss, job.graph.cluster(), job.world)?;
        config.training.step = StepOptions { loss, ..args.device.step_options(job.gradient_sum) };
        let num_epochs = config.training.fit.num_epochs;
        let mut settings = vec![("precision", config.training.step.precision.to_string())];
        if args.output.load_model.is_none() {
            let metric = config.chosen_metric(job.graph.part().meta())?;
            settings.push(("metric", serde_json::to_string(&metric)?));
        }
        let checkpointed = args.checkpoints.data_of(&job.graph, job.world)?;
        let run =
            RunIdentity { command: "node", given: &args.given, flags: args, num_epochs, settings, data: checkpointed };
        config.training.fit.checkpoints = args.checkpoints.open(&run, termination, job.world)?;
        let checkpoints = config.training.fit.checkpoints.as_ref();
        let kept = (job.has_embeddings(), args.checkpoints.kept_epochs(checkpoints));
        let mut reporter = Reporter::new((&args.job, &args.output), num_epochs, rank, kept, job.world)?;
        say_resumed(&reporter, checkpoints);
        let has_features = has_edge_features(job.graph.part().meta());
        note_unread_edge_features(&reporter, config.training.kind, has_features);
        reporter.watch(&job.graph);
        if let Some(all) = args.training.all_neighbors(&args.sampling, job.graph.part().meta()) {
            config.training.eval_num_neighbors = all;
            reporter
                .say("evaluating with all neighbors, since the graph is small (--eval-num-neighbors sets fan-outs)");
        }
        let trained_on = TrainedOn::new(job.graph.part().meta());
        reporter.describe_data(trained_on.with_sampler(config.training.eval_sampler()));
        let data = args.part.dataset_root_dir.as_deref();
        // Existing parts were made with flags of their own.
        let whole = data.filter(|dir| !dir.join(META_FILE).exists()).map(|_| &args.part.whole);
        reporter.write_config(args, (whole, data, args.training.start.init_from.as_deref()), &args.output)?;
        config.training.fit.warm_start = args.training.start.warm_start(job.world)?;
        let mut reporter = TaskReporter { reporter, task: NodeText };
        let result = match &args.output.load_model {
            Some(path) => evaluate::<B>(args, path, job, &config, device)?,
            None => {
                let trained = B::train_node(&job.graph, &config, job.world, device, &mut reporter);
                match unless_stopped(&reporter.reporter, trained, &mut stopped)? {
                    Some(fitted) => fitted.result,
                    None => return Ok(()),
                }
            }
        };
        if args.training.stats {
            traffic_table::report(&mut reporter.reporter, &job.graph, job.world)?;
        }
        reporter.reporter.partition(data)?;
        reporter.reporter.seed_result(&result, classes.as_deref())?;
        reporter.reporter.write_report()
    })?;
    stopped.map_or(Ok(()), |stopped| Err(stopped.into()))
}

fn evaluate<B: TrainingBackend>(
    args: &NodeArgs,
    path: &Path,
    job: &mut GraphSession<'_>,
    config: &NodeTrainingConfig,
    device: &B::Device,
) -> anyhow::Result<SeedResult> {
    let bytes = read_on_rank_0(path, job.world)?;
    let (mut model, model_config, embeddings) = B::open_network(&bytes, path, ModelTask::Node, device)?;
    let mut config = config.clone();
    config.training.step.loss = loss_of_model(&bytes, path, config.training.step.loss.take())?;
    check_flags(&args.given, path, &args.training.settings_of(&model_config))?;
    let sampler = sampler_of_model(&args.given, &bytes, path, config.training.eval_sampler())?;
    check_data(&bytes, path, job.graph.part().meta(), Some(&sampler), job.world)?;
    config.training.eval_num_neighbors = sampler.num_neighbors.clone();
    config.training.sampler = sampler;
    model.set_precision(config.training.step.precision);
    Ok(B::evaluate_node(&job.graph, &config, &model, &model_config, (&embeddings).into(), job.world, device)?)
}

/// Formats the accuracy of the training batches, with a comma behind it; empty if the loss counts no correct predictions.
pub(crate) fn train(report: &EpochReport<SeedScores>) -> String {
    report.train_acc.map_or_else(String::new, |accuracy| format!("train {}, ", percent(Some(accuracy))))
}

/// Formats the scores on the validation data: the accuracy if it is defined, and the metric that selects the best epoch.
pub(crate) fn valid(report: &EpochReport<SeedScores>) -> String {
    let accuracy = report.valid.as_ref().and_then(|valid| valid.accuracy);
    if report.metric == "accuracy" {
        return percent(accuracy);
    }
    let metric = format!("{} {}", report.metric, shown(&report.metric, report.valid_metric));
    match accuracy {
        Some(accuracy) => format!("{}, {metric}", percent(Some(accuracy))),
        None => metric,
    }
}

/// The report of an epoch of a model for nodes or edges.
pub(crate) struct NodeText;

/// An epoch's line in the metrics file.
#[derive(Serialize)]
struct NodeLine<'a> {
    epoch: u64,
    seeds: u64,
    loss: Option<f64>,
    train_acc: Option<f64>,
    valid_acc: Option<f64>,
    metric: &'a str,
    valid_metric: Option<f64>,
    #[serde(flatten)]
    cost: &'a EpochCost,
}

impl EpochText<SeedScores> for NodeText {
    fn line(&self, report: &EpochReport<SeedScores>) -> impl Serialize {
        NodeLine {
            epoch: report.epoch,
            seeds: report.num_seeds,
            loss: report.loss,
            train_acc: report.train_acc,
            valid_acc: report.valid.as_ref().and_then(|valid| valid.accuracy),
            metric: &report.metric,
            valid_metric: report.valid_metric,
            cost: &report.cost,
        }
    }

    fn words(&self, report: &EpochReport<SeedScores>, num_epochs: u64) -> String {
        format!(
            "epoch {}/{num_epochs}: loss {}, {}valid {}, {}",
            report.epoch,
            number(report.loss),
            train(report),
            valid(report),
            cost(&report.cost),
        )
    }
}
