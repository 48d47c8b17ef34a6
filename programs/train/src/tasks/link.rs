//! The command `train link`.

use crate::args::conv::OnNodes;
use crate::exit::UsageError;
use crate::job::labels::GraphFlags;
use crate::job::reported_once;
use crate::node_ids::{IdFileForm, NodeIdFile};
use crate::progress::named_values::NamedValues;
use crate::progress::reporter::{EpochText, Reporter, number};
use crate::saved_model::{Items, Predictor, SavedModel};
use crate::settings::flags::{Flags, Profile};
use crate::settings::model_settings::{Setting, check_flags};
use crate::settings::shared_flags::content;
use crate::tasks::outcome::no_score;
use crate::tasks::part_flags::PartFlags;
use crate::tasks::{CommonConfig, Open, Outcome, Scores, TaskArgs, TaskFlags, TaskProgram, TaskRun};
use anyhow::bail;
use clap::Args;
use edgecut_cli::{counted, message, result};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::NegativePairs;
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{HoldOut, NegativesMeta, NodeTypeId, OverlapPolicy};
use edgecut_trainer::link::{
    LinkEvaluation, LinkMetric, LinkPrediction, LinkResult, LinkScores, LinkTrainingConfig, RankedEnds,
    negative_pair_types, target_edge_types, undeclared_reverses,
};
use edgecut_trainer::metrics::{Metric, MetricList};
use edgecut_trainer::model_file::TrainedOn;
use edgecut_trainer::models::{LinkModel, LinkModelConfig, Network, NetworkConfig};
use edgecut_trainer::{Compiles, EpochReport, LrSchedule, TrainingBackend};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The share of all destinations from which on the result says that lists are long.
const LONG_LIST: f64 = 0.5;

/// Links between nodes.
pub(crate) const LINKS: Items =
    Items { remedy: "use --output embedding, score, top-k or relation, and leave out --explain, --edges and --graphs" };

/// A model for links, and its settings.
pub(crate) type ForLinks<B> = (LinkModel<B>, LinkModelConfig);

impl<B: TrainingBackend> Predictor<B> for ForLinks<B> {
    fn encoder(&self) -> Option<(&Network<B>, &NetworkConfig)> {
        Some((&self.0.encoder, &self.1.encoder))
    }
}

/// The task of predicting edges.
#[derive(Debug)]
pub(crate) struct LinkTask;

impl Profile<LinkTrainingConfig> for OnNodes {
    const HEADING: &'static str = "Links";

    fn defaults() -> LinkTrainingConfig {
        LinkTrainingConfig::default()
    }
}

/// The settings of link prediction, and a file of negatives.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Links")]
pub(crate) struct LinkFlags {
    #[command(flatten)]
    #[serde(flatten)]
    links: Flags<LinkTrainingConfig, OnNodes>,
    /// Known negatives: CSV or Parquet file with the columns src and dst, or .npy file, [2, n]: ids of the tables, or row numbers
    /// of other graphs. The negatives of an edge are first destinations that the file lists for its source, and others are
    /// drawn
    // Ranks may have different paths.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["load_model", "shared_negatives"])]
    #[serde(serialize_with = "content")]
    negative_pairs: Option<PathBuf>,
    /// The ids in the file of --negative-pairs are row numbers, also for graphs from tables with ids
    #[arg(long, requires = "negative_pairs")]
    row_numbers: bool,
}

impl GraphFlags for LinkFlags {
    fn reverse_types(&self) -> &[(String, String)] {
        &self.links.settings.reverse_types
    }
}

impl LinkFlags {
    /// Checks that the file of negatives can be opened.
    fn check_file(&self) -> Result<(), UsageError> {
        let Some(path) = &self.negative_pairs else { return Ok(()) };
        match File::open(path) {
            Ok(_) => Ok(()),
            Err(error) => Err(UsageError(format!("--negative-pairs {}: {error}", path.display()))),
        }
    }

    /// Reads the file of negatives for predicted edge types with these ends. `root` is the folder of the parts. Every rank must
    /// call this.
    fn read_pairs(
        &self,
        types: [NodeTypeId; 2],
        root: Option<&Path>,
        graph: &DistGraph,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<Arc<NegativePairs>>> {
        let Some(path) = &self.negative_pairs else { return Ok(None) };
        let file = NodeIdFile::read("--negative-pairs", path, IdFileForm::Pairs, self.row_numbers);
        let file = reported_once(file, graph.cluster(), world)?;
        let columns = file.find(&types, root, graph, world)?;
        let [sources, destinations] = &columns[..] else {
            bail!("--negative-pairs {}: it has no pairs", path.display());
        };
        let pairs = sources.iter().copied().zip(destinations.iter().copied()).collect();
        Ok(Some(Arc::new(NegativePairs::new(pairs))))
    }
}

impl TaskProgram for LinkTask {
    type Task = LinkPrediction;

    const ITEMS: Items = LINKS;
    const ABOUT: &'static str = "Trains or evaluates a link prediction model";
    const EXAMPLES: &'static str = "Examples on graphs with held-out edges:\n  \
        train link --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --num-neighbors 10,5 --metric roc-auc\n  \
        train link --dataset-root-dir data/partitions/wn18rr/2-parts --nproc-per-node 2 --model embedding --decoder distmult \\\n    \
        --loss softmax --num-negatives 1000 --shared-negatives --eval-negatives all";

    type Flags = PartFlags<LinkFlags, ()>;
    type Outcome = LinkResult;

    fn check(args: &TaskArgs<Self>) -> Result<(), UsageError> {
        args.own.task.check_file()?;
        let links = &args.own.task.links.settings;
        let is_filtered = links.eval_negatives == LinkEvaluation::Filtered;
        for metric in links.metric.iter().filter(|_| is_filtered) {
            if matches!(metric, LinkMetric::RocAuc | LinkMetric::AveragePrecision) {
                return Err(UsageError(format!(
                    "--metric {metric} needs sampled or given negatives, but --eval-negatives is all: give \
                     --eval-negatives a number or given"
                )));
            }
        }
        let has_lists = links.metric.iter().any(|metric| matches!(metric, LinkMetric::OfLists(_)));
        if links.eval_sources.is_some() && !has_lists {
            let what = "--eval-sources chooses the sources whose lists are compared, which no metric asks for: add one, such as \
                        --metric recall@20, or leave --eval-sources out";
            return Err(UsageError(what.into()));
        }
        if links.rank == RankedEnds::Both && !is_filtered {
            return Err(UsageError("--rank both ranks both ends among all nodes: add --eval-negatives all".into()));
        }
        if holds_out_nothing(args) { check_without_validation(args) } else { Ok(()) }
    }

    fn why_no_score(args: &TaskArgs<Self>) -> Option<&'static str> {
        let why = "--hold-out-edges 0 leaves no validation edges whose metric could be compared: hold out edges for the \
                   sweep, and train the best settings on all edges afterwards";
        holds_out_nothing(args).then_some(why)
    }

    fn config(args: &TaskArgs<Self>, num_workers: usize) -> anyhow::Result<LinkTrainingConfig> {
        let training = args.training_config(num_workers)?;
        let without_validation = holds_out_nothing(args);
        let allows_overlap = args.own.part.whole.overlap == Some(OverlapPolicy::Allow);
        Ok(LinkTrainingConfig { training, without_validation, allows_overlap, ..args.own.task.links.settings.clone() })
    }

    fn describe(
        _: &TaskArgs<Self>,
        config: &LinkTrainingConfig,
        graph: &DistGraph,
        trained_on: TrainedOn,
    ) -> anyhow::Result<TrainedOn> {
        let meta = graph.part().meta();
        Ok(trained_on.with_targets(meta, &target_edge_types(meta, config)?))
    }

    fn common(config: &mut LinkTrainingConfig) -> CommonConfig<'_> {
        (&mut config.training).into()
    }

    fn choose(
        args: &TaskArgs<Self>,
        config: &mut LinkTrainingConfig,
        graph: &Arc<DistGraph>,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<String>> {
        // A saved model has times and edge types of its own, which decide.
        if args.run.output.load_model.is_some() {
            return Ok(None);
        }
        let mut lines = Vec::from_iter(choose_negatives(args, config, graph)?);
        if config.without_validation {
            check_without_evaluation(args, config, graph)?;
            let num_epochs = config.training.fit.num_epochs;
            lines.push(format!(
                "note: training uses all edges: there is no validation, and the model of epoch {num_epochs}, the last one, is \
                 kept"
            ));
        }
        let meta = graph.part().meta();
        if meta.edge_types.len() > 1 {
            let targets = target_edge_types(meta, config)?;
            let names: Vec<String> = targets.iter().map(|e| meta.edge_types[e.index()].full_name()).collect();
            lines.push(format!("edge types to predict: {}", names.join(", ")));
            // Rank 0 prints the lines. A dataset that is not partitioned has a warning, since it was read now.
            if world.rank() == 0 && args.own.part.whole_if_read().is_none() {
                lines.extend(undeclared_reverses(graph, config)?);
            }
        }
        Ok(Some(lines.join("\n")).filter(|text| !text.is_empty()))
    }

    fn metric(_config: &LinkTrainingConfig, _graph: &DistGraph) -> anyhow::Result<Option<Metric>> {
        Ok(None)
    }

    fn epoch_text(args: &TaskArgs<Self>) -> impl EpochText<LinkScores> {
        LinkText { metrics: args.own.task.links.settings.metric.clone(), without_validation: holds_out_nothing(args) }
    }

    fn train<B: TrainingBackend>(run: TaskRun<'_, Self, B>) -> anyhow::Result<LinkResult> {
        let flags = &run.args.own.task;
        if flags.negative_pairs.is_some() {
            let types = negative_pair_types(run.data.part().meta(), run.config)?;
            run.config.negative_pairs =
                flags.read_pairs(types, run.args.own.dataset_root_dir(), run.data, run.world)?;
        }
        Ok(<B as Compiles<LinkPrediction>>::train(run.data, run.config, run.world, run.device, run.observer)?.result)
    }

    fn evaluate<B: TrainingBackend>(
        run: TaskRun<'_, Self, B>,
        saved: &SavedModel<'_>,
        open: &Open<Self, B>,
    ) -> anyhow::Result<LinkResult> {
        let TaskRun { args, config, data, world, device, .. } = run;
        let model_config = &open.config;
        let mut settings =
            args.own.training.settings_of(&model_config.encoder, model_config.encoder.graph.has_edge_features());
        let own = &args.own.task.links.settings;
        settings.push(Setting::new("decoder", own.decoder, model_config.decoder));
        if let Some(loss) = &saved.task.loss {
            settings.push(Setting::new("loss", own.loss, loss));
        }
        check_flags(&args.given, saved.path, &settings)?;
        args.adopt_sampler(saved, None, &mut config.training, data, world)?;
        adopt_targets(saved, config, data, world)?;
        *config = config.for_evaluation(data.part().meta())?;
        if let Some(note) = choose_negatives(args, config, data)?
            && world.rank() == 0
        {
            message!("{note}");
        }
        Ok(<B as Compiles<LinkPrediction>>::evaluate(data, config, open.trained(), world, device)?)
    }

    fn predictor<B: TrainingBackend>(model: LinkModel<B>, config: LinkModelConfig) -> Box<dyn Predictor<B>> {
        Box::new((model, config))
    }
}

impl Outcome for LinkResult {
    fn report(&self, reporter: &mut Reporter, _classes: Option<&[String]>) -> anyhow::Result<()> {
        if let Some(histogram) = &self.test.histogram {
            reporter.line("histogram", histogram)?;
        }
        if !self.test.curves.is_empty() {
            let line = json!({ "split": "test", "curves": self.test.curves, "classes": ["negatives", "edges"] });
            reporter.line("curves", line)?;
        }
        if !reporter.finish(self)? {
            return Ok(());
        }
        let best = if self.best_epoch > 0 { format!(" (epoch {})", self.best_epoch) } else { String::new() };
        result!("validation: {}{best}", words(&self.valid))?;
        result!("test: {}", words(&self.test))?;
        Ok(())
    }

    fn scores(&self) -> Result<Scores, String> {
        let metric = self.metric;
        let Some(valid) = self.valid.get(metric) else { return Err(no_score(&metric.to_string())) };
        Ok(Scores {
            metric: metric.to_string(),
            higher_is_better: true,
            valid,
            test: self.test.get(metric),
            valid_metrics: values_of(&self.valid, &self.metrics),
            test_metrics: values_of(&self.test, &self.metrics),
            best_epoch: Some(self.best_epoch),
            judged_by_test: false,
        })
    }
}

/// Returns true if the flags ask for a training on all edges.
fn holds_out_nothing(args: &TaskArgs<LinkTask>) -> bool {
    args.own.part.whole.hold_out_edges == Some(HoldOut::NOTHING)
}

/// Rejects flags that need validation edges, which a training on all edges does not have.
fn check_without_validation(args: &TaskArgs<LinkTask>) -> Result<(), UsageError> {
    if args.run.output.load_model.is_some() {
        let what = "--hold-out-edges 0 trains on all edges, but --load-model evaluates: leave out --hold-out-edges for parts \
                    with held-out edges, or hold out edges that the model was not trained on";
        return Err(UsageError(what.into()));
    }
    let is_plateau = args.own.training.fit.settings.lr_schedule == LrSchedule::Plateau;
    for (flag, is_given) in [
        ("--patience", args.given.is_given("patience")),
        ("--eval-every", args.given.is_given("eval_every")),
        ("--lr-schedule plateau", is_plateau),
    ] {
        if is_given {
            return Err(UsageError(format!(
                "{flag} has no effect with --hold-out-edges 0, which leaves no edges to validate on: leave one of them out"
            )));
        }
    }
    if !args.given.is_given("num_epochs") {
        let what = "--hold-out-edges 0 leaves no edges whose metric could end the training: give --num-epochs";
        return Err(UsageError(what.into()));
    }
    Ok(())
}

/// Rejects flags of the evaluation for a graph without validation and test edges.
fn check_without_evaluation(
    args: &TaskArgs<LinkTask>,
    config: &LinkTrainingConfig,
    graph: &DistGraph,
) -> anyhow::Result<()> {
    if config.for_evaluation(graph.part().meta()).is_ok() {
        return Ok(());
    }
    for flag in ["metric", "eval_negatives", "eval_sources", "rank", "eval", "eval_num_neighbors"] {
        if args.given.is_given(flag) {
            let flag = flag.replace('_', "-");
            bail!(UsageError(format!(
                "--{flag} has no effect with --hold-out-edges 0 on a graph without test edges, which leaves no edges to \
                 evaluate on: leave one of them out"
            )));
        }
    }
    Ok(())
}

/// Gives an evaluation the edge types that a saved model predicts, and compares the held-out edges with the training's.
/// Files of earlier versions do not tell them.
///
/// # Errors
/// Other edge types than in the training, or held-out edges that the model was trained on.
fn adopt_targets(
    saved: &SavedModel<'_>,
    config: &mut LinkTrainingConfig,
    graph: &DistGraph,
    world: &ProcessGroup,
) -> anyhow::Result<()> {
    let Some(trained_on) = &saved.trained_on else { return Ok(()) };
    let meta = graph.part().meta();
    let targets = trained_on.target_names(meta);
    if targets.is_empty() {
        return Ok(());
    }
    let path = saved.path.display();
    if config.edge_types.is_empty() {
        config.edge_types = targets;
    } else {
        let asked = config.for_evaluation(meta).and_then(|config| target_edge_types(meta, &config))?;
        let mut asked = asked.into_iter().map(|e| meta.edge_types[e.index()].full_name());
        if let Some(other) = asked.find(|asked| !targets.contains(asked)) {
            bail!(UsageError(format!(
                "--edge-types: the model {path} was trained to predict {}, but not {other}: leave the flag out, or load \
                 another model",
                targets.join(", ")
            )));
        }
    }
    if let Some(edge_type) = trained_on.trained_on_held_out(meta) {
        bail!(
            "the model {path} was trained on all edges of type {edge_type}, so that the held-out edges of this graph are among \
             its training edges: evaluate a model that was trained with held-out edges"
        );
    }
    if let Some(edge_type) = trained_on.other_held_out(meta)
        && world.rank() == 0
    {
        message!(
            "note: the edges of type {edge_type}, or the held-out edges among them, are not those of the training of {path}, so \
             that held-out edges may be among the training edges of the model"
        );
    }
    Ok(())
}

/// Chooses the negatives that the dataset gives, if it gives some and the flags do not name others. Returns a note if the job
/// cannot rank them.
fn choose_negatives(
    args: &TaskArgs<LinkTask>,
    config: &mut LinkTrainingConfig,
    graph: &DistGraph,
) -> anyhow::Result<Option<String>> {
    if args.own.task.links.is_given("eval_negatives") || !gives_negatives(config, graph)? {
        return Ok(None);
    }
    if config.training.sampler.temporal.is_some() && shares_negatives(config, graph)? {
        return Ok(Some(format!(
            "note: the dataset gives negatives that all edges share, which have no time, so that an evaluation with --time-attr \
             ranks edges among {} sampled destinations (--eval-negatives sets their number)",
            config.eval_negatives
        )));
    }
    config.eval_negatives = LinkEvaluation::Given;
    Ok(None)
}

/// Returns true if all held-out edges of a type to evaluate share their negatives.
fn shares_negatives(config: &LinkTrainingConfig, graph: &DistGraph) -> anyhow::Result<bool> {
    let meta = graph.part().meta();
    let edge_types = target_edge_types(meta, config)?;
    let mut given = edge_types.iter().flat_map(|e| meta.edge_types[e.index()].negatives.iter().flatten());
    Ok(given.any(|given| matches!(given, NegativesMeta::Shared(_))))
}

/// Returns true if the dataset gives negatives for all edge types to evaluate.
fn gives_negatives(config: &LinkTrainingConfig, graph: &DistGraph) -> anyhow::Result<bool> {
    let meta = graph.part().meta();
    let edge_types = target_edge_types(meta, config)?;
    Ok(edge_types.iter().all(|e| meta.edge_types[e.index()].negatives.iter().any(Option::is_some)))
}

/// Formats ranking metrics as text.
fn words(scores: &LinkScores) -> String {
    let auc = scores.roc_auc.map(|auc| format!(", ROC AUC {auc:.4}")).unwrap_or_default();
    let precision = scores.average_precision.map(|share| format!(", average precision {share:.4}")).unwrap_or_default();
    let hits: Vec<String> = scores.hits.iter().map(|(depth, share)| format!("@{depth} {}", number(*share))).collect();
    format!(
        "MRR {}, hits{}{auc}{precision} over {}{}{}",
        number(scores.mrr),
        hits.join(", "),
        counted(scores.edges, "edge", "edges"),
        left_out(scores.left_out),
        lists(scores)
    )
}

/// Returns the metrics of lists of destinations, beside the same metrics of the most popular destinations.
fn lists(scores: &LinkScores) -> String {
    let Some(lists) = &scores.lists else { return String::new() };
    let mut words = Vec::new();
    for (name, value) in &lists.metrics {
        let popularity = number(lists.popularity.get(name).copied());
        words.push(format!("{name} {value:.4} (most popular destinations {popularity})"));
    }
    let mut text = format!("; {} over {}", words.join(", "), counted(lists.sources, "source", "sources"));
    for (depth, share) in lists.listed_share.iter().filter(|entry| *entry.1 >= LONG_LIST) {
        text += &format!("; lists of {depth} hold {share:.2} of the destinations, which is the recall at random");
    }
    text
}

/// Returns a note about edges without negatives, if there are any.
fn left_out(edges: u64) -> String {
    match edges {
        0 => String::new(),
        _ => format!(" (left out {edges} without negatives, since their sources are connected to nearly all nodes)"),
    }
}

/// Returns the values of metrics.
fn values_of(scores: &LinkScores, metrics: &MetricList<LinkMetric>) -> NamedValues {
    let mut values = Vec::new();
    for metric in metrics.iter() {
        values.push((metric.into(), scores.get(metric)));
    }
    values.into()
}

/// The report of an epoch of link prediction.
struct LinkText {
    metrics: MetricList<LinkMetric>,
    /// True for a training on all edges, which has a note of its own.
    without_validation: bool,
}

impl EpochText<LinkScores> for LinkText {
    fn fields(&self, report: &EpochReport<LinkScores>) -> Value {
        json!({ "seeds": report.num_seeds, "left_out": report.left_out, "valid": report.valid })
    }

    fn metrics(&self, report: &EpochReport<LinkScores>) -> NamedValues {
        values_of(report.valid.as_ref().unwrap_or(&LinkScores::default()), &self.metrics)
    }

    fn selects(&self) -> bool {
        !self.without_validation
    }

    fn note(&self, report: &EpochReport<LinkScores>) -> Option<String> {
        let validated = report.valid.as_ref().map_or(0, |scores| scores.left_out);
        let counts = [("training", report.left_out), ("validation", validated)];
        let notes = counts.iter().filter(|(_, edges)| *edges > 0);
        let notes: Vec<String> = notes.map(|(of, edges)| format!("{of} edges{}", left_out(*edges))).collect();
        if notes.is_empty() { None } else { Some(notes.join("; ")) }
    }
}
