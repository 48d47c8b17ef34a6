//! The command `train link`.

use crate::args::checkpoints::{RunIdentity, say_resumed, unless_stopped};
use crate::args::link::LinkArgs;
use crate::job::graph_session::{self, GraphSession};
use crate::job::num_workers;
use crate::job::process_role::Rank;
use crate::progress::reporter::{EpochText, Reporter, TaskReporter, cost, number, percent};
use crate::progress::traffic_table;
use crate::tasks::model_bytes::read_on_rank_0;
use crate::tasks::saved_model::{Setting, check_data, check_flags, matched, sampler_of_model};
use crate::tasks::{has_edge_features, note_unread_edge_features};
use edgecut_cli::result;
use edgecut_cluster::Termination;
use edgecut_graph::META_FILE;
use edgecut_trainer::link::{LinkEvaluation, LinkResult, LinkScores, LinkTrainingConfig, target_edge_types};
use edgecut_trainer::model_file::TrainedOn;
use edgecut_trainer::{EpochCost, EpochReport, TrainingBackend};
use serde::Serialize;
use std::path::Path;

pub(crate) fn run<B: TrainingBackend>(
    args: &LinkArgs,
    rank: &Rank,
    termination: Option<&Termination>,
    device: &B::Device,
) -> anyhow::Result<()> {
    args.device.check_types::<B>(args.memory.feature_precision, device)?;
    let mut config = args.config(num_workers(&args.job, rank), args.memory.on(&args.device)?)?;
    let mut stopped = None;
    graph_session::run(&args.job, &args.part, rank, args, |job| {
        config.training.step = args.device.step_options(job.gradient_sum);
        if !args.links.is_given("eval_negatives") && gives_negatives(&config, job)? {
            config.eval_negatives = LinkEvaluation::Given;
        }
        let settings = vec![("precision", config.training.step.precision.to_string())];
        let num_epochs = config.training.fit.num_epochs;
        let checkpointed = args.checkpoints.data_of(&job.graph, job.world)?;
        let run =
            RunIdentity { command: "link", given: &args.given, flags: args, num_epochs, settings, data: checkpointed };
        config.training.fit.checkpoints = args.checkpoints.open(&run, termination, job.world)?;
        let checkpoints = config.training.fit.checkpoints.as_ref();
        let kept = (job.has_embeddings(&config.training.node_embeddings), args.checkpoints.kept_epochs(checkpoints));
        let mut reporter = Reporter::new((&args.job, &args.output), num_epochs, rank, kept, job.world)?;
        let trained_on = TrainedOn::new(job.graph.part().meta());
        reporter.describe_data(trained_on.with_sampler(config.training.eval_sampler()));
        say_resumed(&reporter, checkpoints);
        let has_features = has_edge_features(job.graph.part().meta());
        note_unread_edge_features(&reporter, config.training.kind, has_features);
        reporter.watch(&job.graph);
        let data = args.part.dataset_root_dir.as_deref();
        // Existing parts were made with flags of their own.
        let whole = data.filter(|dir| !dir.join(META_FILE).exists()).map(|_| &args.part.whole);
        reporter.write_config(args, (whole, data, args.training.start.init_from.as_deref()), &args.output)?;
        config.training.fit.warm_start = args.training.warm_start(args.output.load_model.as_deref(), job.world)?;
        let mut reporter = TaskReporter { reporter, task: LinkText };
        let result = match &args.output.load_model {
            Some(path) => evaluate::<B>(args, path, job, &config, device)?,
            None => {
                let trained = B::train_link(&job.graph, &config, job.world, device, &mut reporter);
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
        report(&mut reporter.reporter, &result)?;
        reporter.reporter.write_report()
    })?;
    stopped.map_or(Ok(()), |stopped| Err(stopped.into()))
}

/// Returns true if the dataset gives negatives for all edge types to evaluate, and the job can rank against them.
fn gives_negatives(config: &LinkTrainingConfig, job: &GraphSession<'_>) -> anyhow::Result<bool> {
    if job.graph.is_client() || config.training.sampler.temporal.is_some() {
        return Ok(false);
    }
    let meta = job.graph.part().meta();
    let edge_types = target_edge_types(meta, config)?;
    Ok(edge_types.iter().all(|e| meta.edge_types[e.index()].negatives.iter().any(Option::is_some)))
}

fn evaluate<B: TrainingBackend>(
    args: &LinkArgs,
    path: &Path,
    job: &mut GraphSession<'_>,
    config: &LinkTrainingConfig,
    device: &B::Device,
) -> anyhow::Result<LinkResult> {
    let bytes = read_on_rank_0(path, job.world)?;
    let (mut model, model_config, embeddings) = B::open_link_model(&bytes, path, device)?;
    let mut settings = args.training.settings_of(&model_config.encoder);
    settings.push(Setting::new("decoder", args.links.settings.decoder, model_config.decoder));
    check_flags(&args.given, path, &settings)?;
    let mut config = config.clone();
    let sampler = sampler_of_model(&args.given, &bytes, path, config.training.eval_sampler())?;
    check_data(&bytes, path, job.graph.part().meta(), Some(&sampler), job.world)?;
    let embeddings = matched(embeddings, args.training.model.settings.new_embeddings);
    config.training.eval_num_neighbors = sampler.num_neighbors.clone();
    config.training.sampler = sampler;
    model.set_precision(config.training.step.precision);
    Ok(B::evaluate_link(&job.graph, &config, &model, &model_config, (&embeddings).into(), job.world, device)?)
}

/// Reports the result of a run.
fn report(reporter: &mut Reporter, result: &LinkResult) -> anyhow::Result<()> {
    if let Some(histogram) = &result.test.histogram {
        reporter.line("histogram", histogram)?;
    }
    if !reporter.finish(result)? {
        return Ok(());
    }
    let best = if result.best_epoch > 0 { format!(" (epoch {})", result.best_epoch) } else { String::new() };
    result!("validation: {}{best}", words(&result.valid))?;
    result!("test: {}", words(&result.test))?;
    Ok(())
}

/// Formats ranking metrics as text.
fn words(scores: &LinkScores) -> String {
    let auc = scores.roc_auc.map(|auc| format!(", ROC AUC {auc:.4}")).unwrap_or_default();
    let precision = scores.average_precision.map(|share| format!(", average precision {share:.4}")).unwrap_or_default();
    let hits = scores.hits_at.map(|(depth, share)| format!(", @{depth} {share:.4}")).unwrap_or_default();
    format!(
        "MRR {}, hits@1 {}, @3 {}, @10 {}{hits}{auc}{precision} over {} edges{}",
        number(scores.mrr),
        number(scores.hits_at_1),
        number(scores.hits_at_3),
        number(scores.hits_at_10),
        scores.edges,
        left_out(scores.left_out)
    )
}

/// Returns a note about edges without negatives, if there are any.
fn left_out(edges: u64) -> String {
    match edges {
        0 => String::new(),
        _ => format!(" (left out {edges} without negatives, since their sources are connected to nearly all nodes)"),
    }
}

/// The report of an epoch of link prediction.
struct LinkText;

/// An epoch's line in the metrics file.
#[derive(Serialize)]
struct LinkLine<'a> {
    epoch: u64,
    seeds: u64,
    left_out: u64,
    loss: Option<f64>,
    train_acc: Option<f64>,
    valid: Option<LinkScores>,
    metric: &'a str,
    valid_metric: Option<f64>,
    #[serde(flatten)]
    cost: &'a EpochCost,
}

impl EpochText<LinkScores> for LinkText {
    fn line(&self, report: &EpochReport<LinkScores>) -> impl Serialize {
        LinkLine {
            epoch: report.epoch,
            seeds: report.num_seeds,
            left_out: report.left_out,
            loss: report.loss,
            train_acc: report.train_acc,
            valid: report.valid,
            metric: &report.metric,
            valid_metric: report.valid_metric,
            cost: &report.cost,
        }
    }

    fn words(&self, report: &EpochReport<LinkScores>, num_epochs: u64) -> String {
        format!(
            "epoch {}/{num_epochs}: loss {}, train {}{}, valid {}, {}",
            report.epoch,
            number(report.loss),
            percent(report.train_acc),
            left_out(report.left_out),
            report.valid.as_ref().map_or_else(|| "-".into(), words),
            cost(&report.cost),
        )
    }
}
