//! The command `train edge`.

use crate::args::checkpoints::{RunIdentity, say_resumed, unless_stopped};
use crate::args::edge::EdgeArgs;
use crate::class_names;
use crate::job::graph_session::{self, GraphSession};
use crate::job::process_role::Rank;
use crate::job::{num_workers, reported_once};
use crate::progress::reporter::{Reporter, TaskReporter};
use crate::progress::traffic_table;
use crate::tasks::model_bytes::read_on_rank_0;
use crate::tasks::node::NodeText;
use crate::tasks::saved_model::{Setting, check_data, check_flags, loss_of_model, sampler_of_model};
use crate::tasks::{has_edge_features, note_unread_edge_features};
use edgecut_cluster::Termination;
use edgecut_graph::META_FILE;
use edgecut_trainer::edge::{EdgeTrainingConfig, labeled_edge_type};
use edgecut_trainer::model_file::TrainedOn;
use edgecut_trainer::{SeedResult, StepOptions, TrainingBackend};
use std::path::Path;

pub(crate) fn run<B: TrainingBackend>(
    args: &EdgeArgs,
    rank: &Rank,
    termination: Option<&Termination>,
    device: &B::Device,
) -> anyhow::Result<()> {
    args.device.check_types::<B>(args.memory.feature_precision, device)?;
    let mut config = args.config(num_workers(&args.job, rank), args.memory.on(&args.device)?)?;
    // Wrong settings are refused before the job starts.
    args.objective.loss()?;
    let mut stopped = None;
    graph_session::run(&args.job, &args.part, rank, args, |job| {
        let meta = job.graph.part().meta().clone();
        // A graph without a type to train is an error of the training.
        let edge_type = labeled_edge_type(&meta, config.edge_type.as_deref()).ok();
        let root = args.part.dataset_root_dir.as_deref();
        let classes = edge_type.map_or(Ok(None), |edge_type| class_names::of_edges(root, &meta, edge_type))?;
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
            RunIdentity { command: "edge", given: &args.given, flags: args, num_epochs, settings, data: checkpointed };
        config.training.fit.checkpoints = args.checkpoints.open(&run, termination, job.world)?;
        let checkpoints = config.training.fit.checkpoints.as_ref();
        let kept = (job.has_embeddings(), args.checkpoints.kept_epochs(checkpoints));
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
        config.training.fit.warm_start = args.training.start.warm_start(job.world)?;
        let mut reporter = TaskReporter { reporter, task: NodeText };
        let result = match &args.output.load_model {
            Some(path) => evaluate::<B>(args, path, job, &config, device)?,
            None => {
                let trained = B::train_edge(&job.graph, &config, job.world, device, &mut reporter);
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
    args: &EdgeArgs,
    path: &Path,
    job: &mut GraphSession<'_>,
    config: &EdgeTrainingConfig,
    device: &B::Device,
) -> anyhow::Result<SeedResult> {
    let bytes = read_on_rank_0(path, job.world)?;
    let (mut model, model_config, embeddings) = B::open_edge_model(&bytes, path, device)?;
    let mut config = config.clone();
    config.training.step.loss = loss_of_model(&bytes, path, config.training.step.loss.take())?;
    // The model has an edge type of its own.
    config.edge_type.get_or_insert_with(|| model_config.edge_type_name());
    let mut settings = args.training.settings_of(&model_config.encoder);
    settings.push(Setting::new("decoder", args.edges.settings.decoder, model_config.edge_decoder));
    settings.push(Setting::new("target_edges", args.edges.settings.target_edges, model_config.target_edges));
    check_flags(&args.given, path, &settings)?;
    let sampler = sampler_of_model(&args.given, &bytes, path, config.training.eval_sampler())?;
    check_data(&bytes, path, job.graph.part().meta(), Some(&sampler), job.world)?;
    config.training.eval_num_neighbors = sampler.num_neighbors.clone();
    config.training.sampler = sampler;
    model.set_precision(config.training.step.precision);
    Ok(B::evaluate_edge(&job.graph, &config, (&model, &model_config), (&embeddings).into(), job.world, device)?)
}
