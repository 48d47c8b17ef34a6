//! Progress output of rank 0, metrics and saved models. The other ranks print nothing.

use crate::args::checkpoints::KeptLines;
use crate::args::plan::Plan;
use crate::args::run::RunArgs;
use crate::args::{OutputArgs, WholeArgs};
use crate::exit::UsageError;
use crate::job::process_role::Rank;
use crate::progress::Progress;
use crate::progress::epoch_table::{EpochRow, details, epoch_line, epoch_table, scores_of};
use crate::progress::metrics_file::{MetricsFile, line_of};
use crate::progress::monitor::Monitor;
use crate::progress::named_values::NamedValues;
use crate::progress::plan_table::ClusterPlan;
use crate::progress::tensorboard::EventFile;
use crate::report;
use crate::run_page::{MetricName, decision_words, note_of_limit, percent, positive_class_name};
use crate::settings::effective_config::{config_text, write_config};
use crate::settings::given_flags::GivenFlags;
use anyhow::Context;
use edgecut_cli::{message, result};
use edgecut_cluster::{Attempt, ProcessGroup};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{META_FILE, Meta, Report, Split};
use edgecut_status::{StatusServer, serve_status};
use edgecut_trainer::cluster_plan::BatchProfile;
use edgecut_trainer::inference::InferenceStep;
use edgecut_trainer::metrics::OfClass;
use edgecut_trainer::model_file::{ModelSaver, TrainedOn};
use edgecut_trainer::{
    BestModel, EpochCost, EpochReport, Observer, ParameterCount, SeedResult, StepReport, TestDetails, WarmStartReport,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reporter of a run: progress on the terminal, the metrics file and the saved model.
pub(crate) struct Reporter {
    /// True on rank 0, the only one that prints results.
    is_first: bool,
    pub(crate) json: bool,
    attempt: Attempt,
    metrics: Option<MetricsFile>,
    events: Option<EventFile>,
    saver: Option<ModelSaver>,
    monitor: Arc<Monitor>,
    /// Answers requests for the state of the run until the end.
    _status: Option<StatusServer>,
    verbose: bool,
    /// The metrics file, and the report to make of it at the end.
    report: Option<(PathBuf, PathBuf)>,
    /// True once a line has told the user that the model of an earlier attempt is kept.
    said_kept: bool,
    /// True once a line has told the user that the metric has no value on the validation data.
    said_undefined: bool,
    progress: Progress,
    pub(crate) num_epochs: u64,
    /// The last finished epoch, and the best one.
    last_epoch: u64,
    best_epoch: u64,
    /// The epochs of this process, and of the metrics file before a checkpoint, for a table at the end.
    rows: Vec<EpochRow>,
    /// The measured costs of a plan.
    profile: Option<BatchProfile>,
}

/// A run to report.
pub(crate) struct ReportedRun<'a> {
    pub(crate) args: &'a RunArgs,
    pub(crate) num_epochs: u64,
    /// True if a saved model has embeddings.
    pub(crate) has_embeddings: bool,
    /// The lines of the metrics file that a run that resumes keeps.
    pub(crate) kept: Option<KeptLines>,
    /// A digest of the settings, by which a restarted attempt knows the files of an earlier one.
    pub(crate) settings: &'a str,
}

impl Reporter {
    /// Opens and checks the files that the run writes to. Every rank calls it.
    pub(crate) fn new(reported: ReportedRun<'_>, rank: &Rank, world: &mut ProcessGroup) -> anyhow::Result<Self> {
        let ReportedRun { args: run, num_epochs, has_embeddings, kept, settings } = reported;
        let args = &run.output;
        let is_first = rank.rank == 0;
        if is_first {
            args.check()?;
        }
        let attempt = Attempt::read()?;
        let saver = match &args.save_model {
            // Checked now: after the training an unwritable path would lose the model.
            Some(path) => {
                let mut saver =
                    ModelSaver::new(path, attempt.clone(), has_embeddings, world).context("--save-model")?;
                saver.describe_settings(settings.to_owned());
                if let Some(why) = saver.why_not_kept().filter(|_| is_first) {
                    message!("note: --save-model: {why}");
                }
                Some(saver)
            }
            None => None,
        };
        // Opened last, because opening truncates the file: if the model cannot be saved, the old metrics survive.
        let mut metrics = None;
        let mut events = None;
        if is_first {
            if let Some(path) = &args.metrics {
                metrics = Some(MetricsFile::open(path, &attempt, settings, kept.as_ref())?);
            }
            events = args.tensorboard.as_deref().map(EventFile::create).transpose()?;
        }
        let kept_epochs = kept.map_or(0, |kept| kept.epochs);
        let kept = metrics.as_ref().map_or("", |metrics| metrics.kept.as_str());
        let rows = kept.lines().filter_map(EpochRow::of_line).collect();
        let monitor = Arc::new(Monitor::new(num_epochs, is_first && args.metrics_port.is_some()));
        if let Some(page) = monitor.page() {
            for line in kept.lines() {
                page.add(serde_json::from_str(line).context("read the metrics before the checkpoint")?);
            }
        }
        let status = args.metrics_port.map(|port| serve_metrics(port, rank, monitor.clone())).transpose()?;
        let progress = Progress::new(&run.job, rank.rank, num_epochs, monitor.clone());
        if let Some(note) = metrics.as_ref().and_then(|metrics| metrics.lack_of(kept_epochs)) {
            progress.say(&note);
        }
        let json = args.json;
        Ok(Self {
            is_first,
            json,
            attempt,
            metrics,
            events,
            saver,
            monitor,
            _status: status,
            verbose: run.job.verbose,
            report: args.metrics.clone().zip(args.report.clone()).filter(|_| is_first),
            said_kept: false,
            said_undefined: false,
            progress,
            num_epochs,
            last_epoch: kept_epochs,
            best_epoch: 0,
            rows,
            profile: None,
        })
    }

    /// Returns the name of the run, which all its attempts share, if it has a name.
    pub(crate) fn run_name(&self) -> Option<String> {
        self.attempt.run.clone()
    }

    /// Stores a description of the data of the training with each saved model.
    pub(crate) fn describe_data(&mut self, trained_on: TrainedOn) {
        if let Some(saver) = &mut self.saver {
            saver.describe_data(trained_on);
        }
    }

    /// Writes the report that `--report` names. Call this once the result is printed.
    pub(crate) fn write_report(&self) -> anyhow::Result<()> {
        match &self.report {
            Some((metrics, report)) => report::write_for(metrics, report, "--report"),
            None => Ok(()),
        }
    }

    /// Shows the traffic of a graph.
    pub(crate) fn watch(&self, graph: &Arc<DistGraph>) {
        self.monitor.watch(graph.clone());
    }

    /// Writes the flags of the run beside the metrics and the model, and shows them on the page of the run.
    pub(crate) fn write_config(
        &self,
        flags: &impl Serialize,
        whole: Option<&WholeArgs>,
        given: &GivenFlags,
        args: &OutputArgs,
    ) -> anyhow::Result<()> {
        if !self.is_first {
            return Ok(());
        }
        let text = config_text(flags, whole, given)?;
        if let Some(page) = self.monitor.page() {
            page.set_flags(&text);
        }
        for file in [&args.metrics, &args.save_model].into_iter().flatten() {
            // Not beside devices, such as /dev/stdout.
            if !file.exists() || file.is_file() {
                write_config(&text, file)?;
            }
        }
        Ok(())
    }

    /// Tells whether training stopped early, or whether more epochs may give a better model.
    fn say_how_it_ended(&self) {
        let last = self.last_epoch;
        let best = self.best_epoch;
        if best > 0 && !self.rows.is_empty() && self.rows.iter().all(|row| row.epoch != best) {
            self.say(&format!("the best epoch is {best}, before this run was resumed"));
        }
        if last > 0 && last < self.num_epochs {
            self.say(&format!(
                "stopped after epoch {last}: the metric has not improved since epoch {best} (--patience)"
            ));
        } else if last > 1 && best == last {
            self.say("note: the last epoch was the best, so training longer may help (--num-epochs)");
        }
    }

    /// Returns true if lines of metrics are written to a file, or shown on a page.
    fn has_lines(&self) -> bool {
        self.metrics.is_some() || self.monitor.page().is_some()
    }

    /// Adds a line to the metrics file and to the page of the run, if there are such.
    pub(crate) fn line(&mut self, event: &str, fields: impl Serialize) -> anyhow::Result<()> {
        if !self.has_lines() {
            return Ok(());
        }
        let line = line_of(self.attempt.number, event, fields)?;
        if let Some(metrics) = &mut self.metrics {
            metrics.write(&line)?;
        }
        if let Some(page) = self.monitor.page() {
            page.add(line);
        }
        Ok(())
    }

    /// Saves the best model so far if `--save-model` is given. Every rank calls it.
    fn save(&mut self, best: &BestModel<'_>, world: &mut ProcessGroup) -> std::io::Result<()> {
        let Some(saver) = &mut self.saver else { return Ok(()) };
        let kept = saver.save(best, world).map_err(std::io::Error::other)?;
        if let Some(kept) = kept.filter(|_| !self.said_kept) {
            let text = format!(
                "--save-model: keeping the model of attempt {}, epoch {} until a better one is found: its {} is {}",
                kept.attempt,
                kept.epoch,
                kept.metric,
                MetricName::of(&kept.metric).shown(kept.valid_metric)
            );
            self.said_kept = true;
            self.say(&text);
        }
        Ok(())
    }

    /// Tells once that the metric has no value on the validation data, such as an ROC AUC of one class.
    fn say_undefined(&mut self, metric: &str) {
        if self.said_undefined {
            return;
        }
        self.said_undefined = true;
        self.say(&format!(
            "  note: the metric {metric} has no value on the validation data, so this epoch cannot be the best one. If no epoch has \
             a value, the model of the last one is kept, and --patience and --lr-schedule plateau have no effect"
        ));
    }

    /// Prints a line above the progress bar, unless `--quiet` is given.
    pub(crate) fn say(&self, text: &str) {
        self.progress.say(text);
    }

    /// Clears the progress bar and prints a line, also with `--quiet`, on rank 0.
    pub(crate) fn say_last(&self, text: &str) {
        self.progress.finish();
        if self.is_first {
            message!("{text}");
        }
    }

    /// Clears the progress bar, writes the result to the metrics file and prints it with `--json`. Returns true if the
    /// caller should print the result as text.
    pub(crate) fn finish(&mut self, result: &impl Serialize) -> anyhow::Result<bool> {
        self.progress.finish();
        if let Some(table) = epoch_table(&self.rows, self.best_epoch) {
            self.say(&table);
        }
        self.say_how_it_ended();
        self.line("result", result)?;
        if self.is_first && self.json {
            result!("{}", serde_json::to_string(result).context("write the result as JSON")?)?;
        }
        Ok(self.is_first && !self.json)
    }
}

impl Reporter {
    /// Adds a line with the quality of the partition in a folder. Nothing is written for a graph at servers, in
    /// one part, or not partitioned.
    pub(crate) fn partition(&mut self, dir: Option<&Path>) -> anyhow::Result<()> {
        let Some(dir) = dir.filter(|dir| self.has_lines() && dir.join(META_FILE).exists()) else { return Ok(()) };
        // A process may hold several parts as one. The folder describes all of them.
        let meta = Meta::read(dir)?;
        if meta.num_parts == 1 {
            return Ok(());
        }
        self.line("partition", &PartitionLine { method: &meta.provenance.method, report: &meta.report })
    }

    /// Reports the result of a model for nodes or graphs. `classes` are the names of the classes.
    pub(crate) fn seed_result(&mut self, result: &SeedResult, classes: Option<&[String]>) -> anyhow::Result<()> {
        let TestDetails { confusion, classes: counts, curves } = &result.test_details;
        if let Some(confusion) = confusion {
            self.line_of_classes("confusion", json!({ "counts": confusion.rows() }), classes)?;
        }
        if let Some(counts) = counts {
            let scores: Vec<Value> = counts.classes().map(json_of_class).collect();
            self.line_of_classes("classes", json!({ "scores": scores }), classes)?;
        }
        if !curves.is_empty() {
            self.line_of_classes("curves", json!({ "curves": curves }), classes)?;
        }
        if let Some(note) = result.decision.as_ref().and_then(note_of_limit) {
            self.say(&note);
        }
        if !self.finish(result)? {
            return Ok(());
        }
        let mut best = if result.best_epoch > 0 { format!(" (epoch {})", result.best_epoch) } else { String::new() };
        let metric = result.metric;
        let is_accuracy = metric.name() == "accuracy";
        // Numbers have no accuracy.
        if is_accuracy || result.valid_acc.or(result.test_acc).is_some() {
            let [valid, test] = [result.valid_acc, result.test_acc].map(percent);
            result!("validation accuracy {valid}, test accuracy {test}{best}")?;
            best.clear();
        }
        let positive = positive_class_name(result.decision.as_ref(), classes);
        for (metric, valid) in result.valid_metrics.iter().filter(|(metric, _)| metric.name() != "accuracy") {
            let [valid, test] = [valid, result.test_metrics.get(metric)].map(|value| metric.shown(value));
            let metric = format!("{metric}{}", MetricName::from(metric).of_class(positive.as_deref()));
            result!("validation {metric} {valid}, test {metric} {test}{best}")?;
            best.clear();
        }
        if let Some(decision) = &result.decision {
            result!("{}", decision_words(decision, positive.as_deref()))?;
        }
        Ok(())
    }

    /// Reports the costs on the clusters of a plan.
    pub(crate) fn cluster_plan(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let profile = self.profile.context("the training told no costs of its steps")?;
        let predicted = ClusterPlan::new(profile, plan);
        if self.finish(&predicted)? {
            result!("{}", predicted.text())?;
        }
        Ok(())
    }

    /// Appends a line about the classes of the test data to the metrics file.
    fn line_of_classes(&mut self, event: &str, mut line: Value, classes: Option<&[String]>) -> anyhow::Result<()> {
        line["split"] = json!("test");
        if let Some(classes) = classes {
            line["classes"] = json!(classes);
        }
        self.line(event, line)
    }
}

/// The line of the metrics file about the parts.
#[derive(Serialize)]
struct PartitionLine<'a> {
    method: &'a str,
    #[serde(flatten)]
    report: &'a Report,
}

/// The report of an epoch of a task whose scores are `S`.
pub(crate) trait EpochText<S> {
    /// Returns the fields of the epoch's line in the metrics file that other tasks do not have.
    fn fields(&self, report: &EpochReport<S>) -> Value;

    /// Returns the metrics on the validation data.
    fn metrics(&self, report: &EpochReport<S>) -> NamedValues;

    /// Returns the name of the data that selects the epoch.
    fn judge(&self) -> &'static str {
        "valid"
    }

    /// Returns true if the metric on this data selects the best epoch. The default returns true.
    fn selects(&self) -> bool {
        true
    }

    /// Formats the scores on this data, the most important one first.
    fn scores(&self, report: &EpochReport<S>) -> Vec<String> {
        scores_of(&self.metrics(report))
    }

    /// Returns a note for the user, if there is one.
    fn note(&self, _report: &EpochReport<S>) -> Option<String> {
        None
    }
}

/// The fields of an epoch's line in the metrics file.
#[derive(Serialize)]
struct EpochLine<'a> {
    epoch: u64,
    loss: Option<f64>,
    train_acc: Option<f64>,
    metric: &'a str,
    valid_metric: Option<f64>,
    valid_metrics: &'a NamedValues,
    #[serde(flatten)]
    cost: &'a EpochCost,
    #[serde(flatten)]
    of_task: Value,
}

/// The observer of a run, which reports the epochs of a task.
pub(crate) struct TaskReporter<T> {
    pub(crate) reporter: Reporter,
    pub(crate) task: T,
}

impl<S, T: EpochText<S>> Observer<S> for TaskReporter<T> {
    fn warm_started(&mut self, report: &WarmStartReport) {
        // Also with `--quiet`: a model that starts with other weights than the user expects is worth a warning.
        if self.reporter.is_first {
            report.lines().iter().for_each(|line| message!("--init-from {}: {line}", report.path.display()));
        }
    }

    fn started(&mut self, parameters: ParameterCount) {
        self.reporter.say(&format!("training {parameters}"));
        self.reporter.monitor.epoch_begins();
        self.reporter.progress.epoch_begins();
    }

    fn profiled(&mut self, profile: &BatchProfile) {
        self.reporter.profile = Some(*profile);
    }

    fn step(&mut self, report: &StepReport) {
        self.reporter.monitor.step(report);
        self.reporter.progress.step(report);
    }

    fn evaluation_step(&mut self, split: Split, step: InferenceStep) {
        let left = self.reporter.monitor.evaluation_step(split, step);
        self.reporter.progress.evaluation_step(split, step, left);
    }

    fn epoch(&mut self, report: &EpochReport<S>) -> std::io::Result<()> {
        // A cross-validation starts anew with each fold.
        if report.fold.is_none() {
            self.reporter.last_epoch = report.epoch;
        }
        let metrics = self.task.metrics(report);
        let line = EpochLine {
            epoch: report.epoch,
            loss: report.loss,
            train_acc: report.train_acc,
            metric: &report.metric,
            valid_metric: report.valid_metric,
            valid_metrics: &metrics,
            cost: &report.cost,
            of_task: self.task.fields(report),
        };
        self.reporter.line("epoch", line).map_err(std::io::Error::other)?;
        if let Some(events) = &mut self.reporter.events {
            events.epoch(report, &metrics)?;
        }
        self.reporter.monitor.validated(&metrics);
        self.reporter.say(&epoch_line(&self.task, report, self.reporter.num_epochs));
        if let Some(note) = self.task.note(report) {
            self.reporter.say(&format!("  {note}"));
        }
        let is_undefined = report.valid.is_some() && report.valid_metric.is_none();
        if is_undefined && report.fold.is_none() && self.task.selects() {
            self.reporter.say_undefined(&report.metric);
        }
        if report.fold.is_none() {
            self.reporter.rows.push(EpochRow {
                epoch: report.epoch,
                loss: report.loss,
                train_acc: report.train_acc,
                metrics,
                seconds: report.cost.seconds,
                eval_seconds: report.cost.eval_seconds,
            });
        }
        if self.reporter.verbose {
            self.reporter.say(&details(&report.cost));
        }
        self.reporter.monitor.epoch_begins();
        self.reporter.progress.epoch_begins();
        Ok(())
    }

    fn improved(&mut self, best: &BestModel<'_>, world: &mut ProcessGroup) -> std::io::Result<()> {
        // Without validation data, the last epoch is taken for want of a better one.
        if best.valid_metric.is_some() {
            self.reporter.best_epoch = best.epoch;
            if let Some(page) = self.reporter.monitor.page() {
                page.set_best(best.epoch);
            }
        }
        self.reporter.save(best, world)
    }
}

/// Returns the counts and the scores of a class.
fn json_of_class(class: OfClass) -> Value {
    json!({
        "labelled": class.labelled,
        "predicted": class.predicted,
        "correct": class.correct,
        "precision": class.precision(),
        "recall": class.recall(),
        "f1": class.f1(),
    })
}

/// Formats a number with four digits, or `-` if there is none.
pub(crate) fn number(number: Option<f64>) -> String {
    match number {
        Some(number) => format!("{number:.4}"),
        None => "-".to_owned(),
    }
}

/// Starts to serve the state of a rank.
fn serve_metrics(port: u16, rank: &Rank, monitor: Arc<Monitor>) -> anyhow::Result<StatusServer> {
    let Some(port) = port.checked_add(u16::try_from(rank.local_rank).unwrap_or(u16::MAX)) else {
        return Err(UsageError(format!(
            "--metrics-port {port}: process {} of the node would use a port above 65535",
            rank.local_rank
        ))
        .into());
    };
    let addr = SocketAddr::new(rank.listen_addr.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), port);
    serve_status(addr, monitor).with_context(|| format!("--metrics-port: listen on {addr}"))
}
