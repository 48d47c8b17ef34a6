//! The run of a task: what all tasks do before and after they train.

use crate::args::PartArgs;
use crate::args::run::RunArgs;
use crate::checkpoint_mirror::checkpoint_mirror;
use crate::class_names;
use crate::exit::{Stopped, UsageError};
use crate::job::command::{JobCommand, JobFlags};
use crate::job::device::of_rank;
use crate::job::process_role::Rank;
use crate::job::{num_workers, reported_once};
use crate::progress::reporter::{ReportedRun, Reporter, TaskReporter};
use crate::progress::run_facts::{RunFacts, RunNames};
use crate::saved_model::SavedModel;
use crate::settings::given_flags::GivenFlags;
use crate::tasks::identity::settings_of;
use crate::tasks::{
    CommonConfig, ConfigOf, DataDescription, DataOf, OnDevices, Outcome, TaskFlags, TaskJob, TaskProgram, TaskRun,
};
use anyhow::bail;
use clap::Args;
use edgecut_cli::StoreArgs;
use edgecut_cluster::Termination;
use edgecut_gnn::nn::{EdgeFeatureUse, FlagValues, LayerForm};
use edgecut_graph::checksum;
use edgecut_trainer::checkpoint::{CheckpointConfig, Checkpoints};
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::models::ConvKind;
use edgecut_trainer::{Compiles, TrainError, TrainingBackend};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The flags of a task.
#[derive(Debug, Args, Serialize)]
#[serde(bound = "")]
pub(crate) struct TaskArgs<T: TaskProgram> {
    // The first field, so that it sees all flags.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) given: GivenFlags,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) own: T::Flags,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) memory: <T::Flags as TaskFlags>::Memory,
}

impl<T: OnDevices> JobCommand for TaskArgs<T> {
    fn flags(&self) -> JobFlags<'_> {
        let run = &self.run;
        JobFlags { job: &run.job, part: self.own.part(), device: Some(&run.device), training: Some(run) }
    }

    fn check(&self) -> anyhow::Result<()> {
        Ok(T::check(self)?)
    }

    fn why_no_score(&self) -> Option<&'static str> {
        if self.own.cluster_plan().is_some() {
            return Some("--plan-cluster trains nothing, so there is no score to compare: leave it out");
        }
        T::why_no_score(self)
    }

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = self.own.data_folders();
        inputs.extend(self.own.start().init_from.clone());
        inputs.extend(self.run.output.load_model.clone());
        inputs
    }

    fn reads_servers(&self) -> bool {
        self.own.part().is_some_and(|part| part.server_list().is_some())
    }

    fn run(&self, mut rank: Rank, termination: Option<&Termination>) -> anyhow::Result<()> {
        let device = of_rank(&self.run.device, self.run.job.stores.cache_dir.as_deref(), &mut rank)?;
        T::run_on(device, self, &rank, termination)
    }
}

/// Runs a rank of a task.
pub(super) fn run<T: TaskProgram, B: TrainingBackend + Compiles<T::Task>>(
    args: &TaskArgs<T>,
    rank: &Rank,
    termination: Option<&Termination>,
    device: &B::Device,
) -> anyhow::Result<()> {
    args.run.device.check_types::<B>(T::Flags::feature_precision(&args.memory), device)?;
    // Declared outside of the closure, because its connections to other ranks must outlive the job.
    let mut config = T::config(args, num_workers(&args.run.job, rank))?;
    if let Some(objective) = T::objective(args) {
        // Wrong settings are refused before the job starts.
        objective.loss()?;
    }
    let mut stopped = None;
    args.own.with_data(&args.run, rank, args, |job| {
        stopped = run_in_job::<T, B>(args, &mut config, rank, termination, job, device)?;
        Ok(())
    })?;
    match stopped {
        Some(stopped) => Err(stopped.into()),
        None => Ok(()),
    }
}

/// Trains or evaluates, and reports. Returns whether SIGTERM has ended the training with a checkpoint.
fn run_in_job<T: TaskProgram, B: TrainingBackend + Compiles<T::Task>>(
    args: &TaskArgs<T>,
    config: &mut ConfigOf<T>,
    rank: &Rank,
    termination: Option<&Termination>,
    job: &mut TaskJob<'_, DataOf<T>>,
    device: &B::Device,
) -> anyhow::Result<Option<Stopped>> {
    let TaskArgs { own, run, .. } = args;
    let plan = own.cluster_plan();
    let load_model = run.output.load_model.as_deref();
    let about_data = T::choose(args, config, &job.data, job.world)?;
    let classes = class_names::of_first_rank(job.world, || T::class_names(args, config, &job.data))?;
    let mut step = run.device.step_options(job.gradient_sum);
    if let Some(objective) = T::objective(args) {
        step.loss = reported_once(objective.loss_of_classes(classes.as_deref()), job.cluster, job.world)?;
        let positive = objective.positive_class_of(classes.as_deref()).map_err(anyhow::Error::from);
        let positive = reported_once(positive, job.cluster, job.world)?;
        if let Some(scoring) = T::common(config).scoring {
            scoring.positive_class = positive;
        }
    }
    if T::common(config).sync_batch_norm {
        step.join_batch_norm(job.world)?;
    }
    let precision = step.precision;
    *T::common(config).step = step;
    let metric = if load_model.is_none() { T::metric(config, &job.data)? } else { None };
    let DataDescription { mut trained_on, has_embeddings, has_edge_features, traffic, facts } =
        T::Flags::describe(&job.data);
    if load_model.is_none() {
        trained_on = T::describe(args, config, &job.data, trained_on)?;
    }
    let CommonConfig { fit, conv, eval_sampler, adds_embeddings, new_embeddings, .. } = T::common(config);
    let mut chosen = vec![("precision", precision.to_string())];
    if let Some(metric) = metric {
        chosen.push(("metric", serde_json::to_string(&metric)?));
    }
    fit.checkpoints = checkpoints(args, fit.num_epochs, &chosen, termination, job)?;
    fit.profiled_steps = plan.as_ref().map(|plan| plan.num_steps);
    let checkpoints = fit.checkpoints.as_ref();
    let continues = checkpoints.is_some_and(|checkpoints| checkpoints.resumed().is_some());
    if new_embeddings.is_some() && !continues && load_model.is_none() && own.start().init_from.is_none() {
        let what =
            "--new-embeddings has no effect without a saved model: give --init-from or --load-model, or leave it out";
        bail!(UsageError(what.into()));
    }
    if let Some(sampler) = eval_sampler {
        trained_on = trained_on.with_sampler(sampler);
    }
    // A run reads its files before it writes: one that cannot start keeps the metrics of an earlier run.
    let mut warm_start = None;
    // The initial values of a run that continues are in the past.
    if !continues && let Some(start) = own.start().warm_start(job.world)? {
        let reads = T::reads(Some(OutputKind::Classes(0)));
        warm_start = Some(start.for_data(&trained_on, reads)?.with_new_embeddings(new_embeddings));
    }
    let mut saved = None;
    if let Some(path) = load_model {
        saved = Some(SavedModel::read(path, precision, new_embeddings, job.world)?);
    }
    let open = saved.as_ref().map(|saved| T::open::<B>(saved, device)).transpose()?;
    // Another start may follow in the same batch script, and save to the same files. The path of a copy may change.
    let init_from = own.start().init_from.as_deref().map(|path| run.job.stores.given("init_from", path));
    let settings = checksum(format!("{:?} {init_from:?}", settings_of(args, &chosen)?).as_bytes());
    let reported = ReportedRun {
        args: run,
        num_epochs: fit.num_epochs,
        has_embeddings: has_embeddings || adds_embeddings,
        kept: run.checkpoints.kept_lines(checkpoints),
        settings: &settings,
    };
    let mut reporter = Reporter::new(reported, rank, job.world)?;
    let group = checkpoints.map(Checkpoints::group);
    let names = RunNames { run: reporter.run_name(), settings: &settings, checkpoints: group };
    let about_run = RunFacts::new(job.cluster, names, &facts, classes.as_deref());
    reporter.line("run", about_run)?;
    reporter.partition(own.part().and_then(|part| part.dataset_root_dir.as_deref()))?;
    say_resumed(&reporter, checkpoints, &args.run.job.stores);
    if has_edge_features {
        note_unread_edge_features(&reporter, conv);
    }
    if args.given.is_given("embedding_lr") && !has_embeddings && !adds_embeddings {
        reporter.say("note: --embedding-lr has no effect, since all nodes have features and no --node-embeddings");
    }
    if let Some(graph) = &traffic {
        reporter.watch(graph);
    }
    if let Some(line) = about_data {
        reporter.say(&line);
    }
    fit.warm_start = warm_start;
    reporter.describe_data(trained_on);
    reporter.write_config(args, own.part().and_then(PartArgs::whole_if_read), &args.given, &run.output)?;
    let mut reporter = TaskReporter { reporter, task: T::epoch_text(args) };
    let task = TaskRun { args, config, data: &job.data, world: &mut *job.world, device, observer: &mut reporter };
    let outcome = match (&saved, &open) {
        (Some(saved), Some(open)) => T::evaluate(task, saved, open)?,
        _ => {
            let trained = T::train(task);
            match unless_stopped(&reporter.reporter, trained, &args.run.job.stores)? {
                Ok(outcome) => outcome,
                Err(stopped) => return Ok(Some(stopped)),
            }
        }
    };
    let mut reporter = reporter.reporter;
    if let Some(mut plan) = plan {
        if let Some(dir) = own.dataset_root_dir() {
            plan.find_cuts(dir)?;
        }
        return reporter.cluster_plan(&plan).map(|()| None);
    }
    own.report(&mut reporter, job)?;
    outcome.report(&mut reporter, classes.as_deref())?;
    reporter.write_report()?;
    Ok(None)
}

/// Finds the checkpoint to continue from; `None` without `--checkpoint-dir`. `chosen` are settings that are not among the
/// flags. Every rank must call this.
///
/// # Errors
/// A checkpoint of another run, a damaged file, or a failure of the job.
fn checkpoints<T: TaskProgram>(
    args: &TaskArgs<T>,
    num_epochs: u64,
    chosen: &[(&str, String)],
    termination: Option<&Termination>,
    job: &mut TaskJob<'_, DataOf<T>>,
) -> anyhow::Result<Option<Checkpoints>> {
    let flags = &args.run.checkpoints;
    let Some(dir) = &flags.checkpoint_dir else { return Ok(None) };
    let config = CheckpointConfig {
        dir: dir.clone(),
        every: flags.checkpoint_every,
        keep: flags.keep as usize,
        resume: flags.resume,
        num_epochs,
        settings: settings_of(args, chosen)?,
        data: T::Flags::identity(&job.data, job.world)?,
        termination: termination.cloned(),
        mirror: checkpoint_mirror(&args.run.job.stores, dir)?,
    };
    Ok(Some(Checkpoints::open(config, job.world)?))
}

/// Tells the user where the run continues.
fn say_resumed(reporter: &Reporter, checkpoints: Option<&Checkpoints>, stores: &StoreArgs) {
    let Some(checkpoints) = checkpoints else { return };
    let (Some(position), Some(folder)) = (checkpoints.resumed(), checkpoints.resumed_folder()) else { return };
    let mut line =
        format!("resuming after {} epochs and {} steps from {}", position.epoch, position.step, given(stores, &folder));
    if let Some(num_old) = checkpoints.resumed_from_others() {
        line += &format!(", which {num_old} processes wrote");
    }
    reporter.say(&line);
}

/// Tells that edges have features if a convolution does not read them.
fn note_unread_edge_features(reporter: &Reporter, kind: Option<ConvKind>) {
    if kind.is_some_and(|kind| kind.edge_features() != EdgeFeatureUse::Ignored) {
        return;
    }
    let mut others: Vec<&str> = Vec::new();
    for model in ConvKind::model_names(LayerForm::Typed) {
        let reads = ConvKind::from_flags(model.name, FlagValues::new())
            .is_ok_and(|other| other.edge_features() != EdgeFeatureUse::Ignored);
        if reads {
            others.push(model.name);
        }
    }
    let model = kind.map_or("embedding", ConvKind::model_name);
    let others = others.join(", ");
    reporter.say(&format!("note: edges have features, which messages of --model {model} do not read: {others} do"));
}

/// Returns the result of a training, or tells the user if SIGTERM has ended it with a checkpoint.
fn unless_stopped<T>(
    reporter: &Reporter,
    trained: anyhow::Result<T>,
    stores: &StoreArgs,
) -> anyhow::Result<Result<T, Stopped>> {
    let error = match trained {
        Ok(outcome) => return Ok(Ok(outcome)),
        Err(error) => error,
    };
    let Some(TrainError::Stopped { checkpoint, epoch, step }) = error.downcast_ref() else { return Err(error) };
    reporter.say_last(&format!(
        "SIGTERM: stopped after {epoch} epochs and {step} steps; continue from {} with --resume",
        given(stores, checkpoint)
    ));
    Ok(Err(Stopped))
}

/// Returns the folder of a checkpoint as the user knows it: below the URL, if the user gave one.
fn given(stores: &StoreArgs, checkpoint: &Path) -> String {
    match (stores.url_of("checkpoint_dir"), checkpoint.file_name()) {
        (Some(url), Some(name)) => format!("{url}/{}", name.display()),
        _ => checkpoint.display().to_string(),
    }
}
