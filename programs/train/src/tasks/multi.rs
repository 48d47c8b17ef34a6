//! The command `train multi`.

use crate::args::objective::positive_class;
use crate::class_names;
use crate::exit::UsageError;
use crate::job::labels::GraphFlags;
use crate::progress::named_values::NamedValues;
use crate::progress::reporter::{EpochText, Reporter};
use crate::run_page::{MetricName, decision_words, note_of_limit, positive_class_name};
use crate::saved_model::{Items, OpenModel, Predictor, SavedModel, positions};
use crate::settings::model_settings::check_flags;
use crate::tasks::node::{ForNodes, NODES, NodeTask, TargetOutputs};
use crate::tasks::part_flags::PartFlags;
use crate::tasks::{CommonConfig, Open, Outcome, Scores, TaskArgs, TaskFlags, TaskProgram, TaskRun};
use anyhow::bail;
use clap::Args;
use edgecut_cli::result;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::Meta;
use edgecut_settings::suggestion;
use edgecut_trainer::loss::{AnyLoss, LossSettings, OutputKind};
use edgecut_trainer::metrics::{Metric, MetricList, Threshold};
use edgecut_trainer::model_file::{ReadData, TrainedOn};
use edgecut_trainer::models::Network;
use edgecut_trainer::multi::{
    MultiModelConfig, MultiPrediction, MultiResult, MultiScores, MultiTrainingConfig, TargetConfig, TargetLabel,
    TargetResult,
};
use edgecut_trainer::{Compiles, EpochReport, ScoringConfig, TrainingBackend};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// The task of predicting several labels of nodes.
#[derive(Debug)]
pub(crate) struct MultiTask;

/// The targets of a model.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Targets")]
pub(crate) struct TargetsArgs {
    /// Labels to predict, of one or several node types, each with the factor of its loss: LABEL, TYPE:LABEL if node types have
    /// labels of the same name, or the node TYPE of its only label. The first one selects the best epoch [default of WEIGHT: 1.
    /// With --load-model the targets of the model]
    #[arg(long, value_name = "[TYPE:]LABEL[*WEIGHT],…", value_delimiter = ',', value_parser = target)]
    target: Vec<String>,
    /// Losses of targets, which are written as in --target, separated by semicolons [default: as in train node]
    #[arg(long, value_name = "TARGET=LOSS[:SETTINGS];…", value_parser = target_loss, conflicts_with = "load_model")]
    target_loss: Option<String>,
    /// Metrics of targets, separated by semicolons [default: chosen by the loss]
    #[arg(long, value_name = "TARGET=METRIC,…;…", value_parser = target_metric)]
    target_metric: Option<String>,
    /// Probabilities above which targets have the positive of two classes or a label applies, separated by semicolons: numbers,
    /// or the ones with the highest F1 on the validation data [default: 0.5]
    #[arg(long, value_name = "TARGET=best-f1|P;…", value_parser = target_threshold)]
    target_threshold: Option<String>,
    /// The ones of two classes that scores and thresholds of targets are about, separated by semicolons: their names in the
    /// tables, or 0 or 1 [default: the second ones in the order of bytes, in which capital letters come before small ones]
    #[arg(long, value_name = "TARGET=CLASS;…", value_parser = target_positive_class)]
    target_positive_class: Option<String>,
    /// Targets whose logits are divided by the temperature with the highest likelihood on the validation data
    #[arg(long, value_name = "TARGET,…", value_delimiter = ',')]
    target_calibrate: Vec<String>,
}

/// Checks the text of a target.
fn target(text: &str) -> Result<String, String> {
    weighted(text).map(|_| text.to_owned())
}

/// Splits the text of a target into its name and its weight.
fn weighted(text: &str) -> Result<(&str, Option<f64>), String> {
    let (name, weight) = match text.rsplit_once('*') {
        None => (text, None),
        Some((name, weight)) => match weight.parse::<f64>() {
            Ok(value) if value.is_finite() && value > 0.0 => (name, Some(value)),
            _ => return Err(format!("the weight {weight} is not a number above 0")),
        },
    };
    if name.is_empty() { Err("the name of the target is empty".into()) } else { Ok((name, weight)) }
}

/// Splits a text into targets and their settings.
fn by_target(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut settings: Vec<(&str, &str)> = Vec::new();
    for entry in text.split(';') {
        let (name, value) = entry.split_once('=').ok_or_else(|| format!("{entry} is not a target, = and its value"))?;
        if settings.iter().any(|(other, _)| *other == name) {
            return Err(format!("the target {name} has two values: give one"));
        }
        settings.push((name, value));
    }
    Ok(settings)
}

/// Checks that each target of a text has a value that `parse` accepts.
fn checked<T>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<String, String> {
    for (_, value) in by_target(text)? {
        parse(value)?;
    }
    Ok(text.to_owned())
}

fn loss(text: &str) -> Result<AnyLoss, String> {
    AnyLoss::new(text.parse::<LossSettings>()?)
}

fn target_loss(text: &str) -> Result<String, String> {
    checked(text, loss)
}

fn target_metric(text: &str) -> Result<String, String> {
    checked(text, str::parse::<MetricList<Metric>>)
}

fn target_threshold(text: &str) -> Result<String, String> {
    checked(text, str::parse::<Threshold>)
}

fn target_positive_class(text: &str) -> Result<String, String> {
    checked(text, |class| if class.is_empty() { Err("the name of the class is empty".to_owned()) } else { Ok(()) })
}

impl GraphFlags for TargetsArgs {
    const TOGETHER: bool = true;

    fn labels(&self) -> Option<Vec<String>> {
        Some(self.target.iter().filter_map(|text| weighted(text).ok()).map(|(name, _)| name.to_owned()).collect())
    }
}

impl TargetsArgs {
    /// Returns the settings of the targets.
    ///
    /// # Errors
    /// A setting of a target that is not given.
    fn targets(&self) -> Result<Vec<TargetConfig>, String> {
        let mut targets = Vec::with_capacity(self.target.len());
        for text in &self.target {
            let (name, weight) = weighted(text)?;
            targets.push(TargetConfig { weight: weight.unwrap_or(1.0), ..TargetConfig::new(name) });
        }
        for (name, value) in self.target_loss.as_deref().map_or(Ok(Vec::new()), by_target)? {
            find(&mut targets, "--target-loss", name)?.loss = Some(loss(value)?);
        }
        self.set_scoring(&mut targets)?;
        Ok(targets)
    }

    /// Sets the metrics, thresholds and calibrations of targets.
    fn set_scoring(&self, targets: &mut [TargetConfig]) -> Result<(), String> {
        for (name, value) in self.target_metric.as_deref().map_or(Ok(Vec::new()), by_target)? {
            find(targets, "--target-metric", name)?.scoring.metrics = Some(value.parse()?);
        }
        for (name, value) in self.target_threshold.as_deref().map_or(Ok(Vec::new()), by_target)? {
            find(targets, "--target-threshold", name)?.scoring.threshold = Some(value.parse()?);
        }
        for name in &self.target_calibrate {
            find(targets, "--target-calibrate", name)?.scoring.calibrate = true;
        }
        for (name, _) in self.positive_classes()? {
            find(targets, "--target-positive-class", name)?;
        }
        Ok(())
    }

    fn positive_classes(&self) -> Result<Vec<(&str, &str)>, String> {
        self.target_positive_class.as_deref().map_or(Ok(Vec::new()), by_target)
    }

    /// Sets the positive classes of targets by the names of their classes. Every rank must call this.
    fn set_positive_classes(
        &self,
        root: Option<&Path>,
        meta: &Meta,
        targets: &mut [TargetConfig],
        world: &mut ProcessGroup,
    ) -> anyhow::Result<()> {
        let labels = TargetLabel::all(meta);
        for (name, class) in self.positive_classes().map_err(UsageError)? {
            let target = find(targets, "--target-positive-class", name).map_err(UsageError)?;
            let Some(label) = labels.iter().find(|label| label.is_named(&target.name)) else { continue };
            let names = names_of_classes(root, meta, label, world)?;
            let positive = positive_class(class, names.as_deref());
            let positive =
                positive.map_err(|why| UsageError(format!("--target-positive-class {name}={class}: {why}")))?;
            target.scoring.positive_class = Some(positive);
        }
        Ok(())
    }
}

/// Returns the names of the classes of a label, if the tables of the graph have names. Every rank must call this.
fn names_of_classes(
    root: Option<&Path>,
    meta: &Meta,
    label: &TargetLabel,
    world: &mut ProcessGroup,
) -> anyhow::Result<Option<Vec<String>>> {
    class_names::of_first_rank(world, || read_names(root, meta, label))
}

/// Reads the names of the classes of a label.
fn read_names(root: Option<&Path>, meta: &Meta, label: &TargetLabel) -> anyhow::Result<Option<Vec<String>>> {
    let name = Some(label.meta.name.as_str()).filter(|name| !name.is_empty());
    class_names::of_label(root, meta, label.node_type, name)
}

/// Returns the target with a name, which may leave out its node type.
fn find<'a>(targets: &'a mut [TargetConfig], flag: &str, name: &str) -> Result<&'a mut TargetConfig, String> {
    let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
    let mut found = Vec::new();
    for (at, other) in names.iter().enumerate() {
        if other == name || label_of(other) == Some(name) || label_of(name) == Some(other) {
            found.push(at);
        }
    }
    match found[..] {
        [only] => Ok(&mut targets[only]),
        _ => {
            let hint = suggestion(name, names.iter().map(String::as_str));
            Err(format!("{flag} {name}: there is no such target{hint}: choose one of {}", names.join(", ")))
        }
    }
}

/// Returns the name of a label without its node type; `None` for a name without a node type.
fn label_of(name: &str) -> Option<&str> {
    name.split_once(':').map(|(_, label)| label)
}

impl TaskProgram for MultiTask {
    type Task = MultiPrediction;

    const ITEMS: Items = NODES;
    const ABOUT: &'static str = "Trains or evaluates one model for several labels of nodes";
    const EXAMPLES: &'static str = "Examples on graphs with several labels:\n  \
        train multi --dataset-root-dir data/partitions/shop/2-parts --target user:churn,user:spend*0.5 --nproc-per-node 2\n  \
        train multi --dataset-root-dir data/shop --target user:churn --target item --target-loss item=focal";

    type Flags = PartFlags<TargetsArgs, ()>;
    type Outcome = MultiResult;

    fn check(args: &TaskArgs<Self>) -> Result<(), UsageError> {
        if args.own.task.target.is_empty() && args.run.output.load_model.is_none() {
            let what = "--target is missing: give the labels to predict, such as --target churn,spend*0.5";
            return Err(UsageError(what.into()));
        }
        // With a saved model, its targets have the settings.
        if args.run.output.load_model.is_none() {
            args.own.task.targets().map_err(UsageError)?;
        } else if let Some(text) =
            args.own.task.target.iter().find(|text| weighted(text).is_ok_and(|(_, weight)| weight.is_some()))
        {
            let what = format!(
                "--target {text}: the weights of losses have no effect on the evaluation of a model: leave them out"
            );
            return Err(UsageError(what));
        }
        Ok(())
    }

    fn config(args: &TaskArgs<Self>, num_workers: usize) -> anyhow::Result<MultiTrainingConfig> {
        let training = args.training_config(num_workers)?;
        if training.eval_layer_wise.is_some() {
            bail!(UsageError(
                "--eval layer-wise computes the nodes of one type: leave it out, or give fan-outs by --eval-num-neighbors"
                    .into()
            ));
        }
        let mut targets = Vec::new();
        if args.run.output.load_model.is_none() {
            targets = args.own.task.targets().map_err(UsageError)?;
        }
        Ok(MultiTrainingConfig { training, targets })
    }

    fn common(config: &mut MultiTrainingConfig) -> CommonConfig<'_> {
        (&mut config.training).into()
    }

    fn describe(
        _: &TaskArgs<Self>,
        config: &MultiTrainingConfig,
        graph: &DistGraph,
        trained_on: TrainedOn,
    ) -> anyhow::Result<TrainedOn> {
        let meta = graph.part().meta();
        let names = config.names(meta)?;
        let mut trained_on = trained_on.with_labels(meta, names.clone());
        for name in &names {
            if let Ok(label) = meta.find_label(name) {
                trained_on = trained_on.with_scored_nodes(meta, label.node_type);
            }
        }
        Ok(trained_on)
    }

    fn choose(
        args: &TaskArgs<Self>,
        config: &mut MultiTrainingConfig,
        graph: &Arc<DistGraph>,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<String>> {
        let meta = graph.part().meta();
        let root = args.own.dataset_root_dir();
        for (target, label) in config.targets.iter_mut().zip(target_labels(meta, &args.own.task)) {
            let Some(loss) = target.loss.take() else { continue };
            let names = names_of_classes(root, meta, &label, world)?;
            let named = loss.with_class_names(names.as_deref());
            target.loss = Some(named.map_err(|why| UsageError(format!("--target-loss {}: {why}", target.name)))?);
        }
        // The targets of a saved model are known once it is open.
        if args.run.output.load_model.is_none() {
            args.own.task.set_positive_classes(root, meta, &mut config.targets, world)?;
        }
        Ok(args.choose_neighbors(&mut config.training, graph))
    }

    fn metric(config: &MultiTrainingConfig, graph: &DistGraph) -> anyhow::Result<Option<Metric>> {
        Ok(config.chosen_metric(graph.part().meta())?)
    }

    fn epoch_text(_args: &TaskArgs<Self>) -> impl EpochText<MultiScores> {
        MultiText
    }

    fn train<B: TrainingBackend>(run: TaskRun<'_, Self, B>) -> anyhow::Result<MultiResult> {
        let TaskRun { args, data, .. } = run;
        let trained = <B as Compiles<MultiPrediction>>::train(data, run.config, run.world, run.device, run.observer)?;
        Ok(with_class_names(trained.result, args.own.dataset_root_dir(), data.part().meta()))
    }

    fn reads(_outputs: Option<OutputKind>) -> ReadData {
        ReadData { classes: true, ..ReadData::default() }
    }

    // The prediction of one target is one of a model for nodes that has its outputs alone.
    fn open_for_predictions<B: TrainingBackend>(
        saved: &SavedModel<'_>,
        device: &B::Device,
    ) -> anyhow::Result<OpenModel<B>> {
        let open = Self::open::<B>(saved, device)?;
        let names: Vec<String> = open.config.targets.iter().map(|target| target.name.clone()).collect();
        let [at] = positions(saved.targets, &names, saved.path)?[..] else { return Ok(open.into()) };
        let Open { model, config, embeddings, .. } = open;
        let target = &config.targets[at];
        let model = B::with_output(model, target.node_type, config.columns(at));
        let config = model.config().clone();
        Ok(Open::<NodeTask, B> { model, config, embeddings, outputs: Some(target.outputs) }.into())
    }

    fn predictor<B: TrainingBackend>(network: Network<B>, config: MultiModelConfig) -> Box<dyn Predictor<B>> {
        let mut targets = Vec::with_capacity(config.targets.len());
        for (at, target) in config.targets.iter().enumerate() {
            targets.push(TargetOutputs { saved: target.clone(), columns: config.columns(at) });
        }
        Box::new(ForNodes { network, config: config.network, targets })
    }

    fn evaluate<B: TrainingBackend>(
        run: TaskRun<'_, Self, B>,
        saved: &SavedModel<'_>,
        open: &Open<Self, B>,
    ) -> anyhow::Result<MultiResult> {
        let TaskRun { args, config, data, world, device, .. } = run;
        let model_config = &open.config;
        config.targets = Vec::with_capacity(model_config.targets.len());
        for target in &model_config.targets {
            let loss = AnyLoss::new(LossSettings::named(&target.loss)).map_err(anyhow::Error::msg)?;
            let decision = saved.decision_of(&target.name, target.outputs)?;
            let scoring = ScoringConfig { decision, ..ScoringConfig::default() };
            config.targets.push(TargetConfig { loss: Some(loss), scoring, ..TargetConfig::new(&target.name) });
        }
        args.own.task.set_scoring(&mut config.targets).map_err(UsageError)?;
        let root = args.own.dataset_root_dir();
        args.own.task.set_positive_classes(root, data.part().meta(), &mut config.targets, world)?;
        let network = &model_config.network;
        let settings = args.own.training.settings_of(network, network.graph.has_edge_features());
        check_flags(&args.given, saved.path, &settings)?;
        args.choose_neighbors_of(saved, &mut config.training, data, world);
        args.adopt_sampler(saved, open.outputs, &mut config.training, data, world)?;
        let evaluated = <B as Compiles<MultiPrediction>>::evaluate(data, config, open.trained(), world, device)?;
        Ok(with_class_names(evaluated, root, data.part().meta()))
    }
}

/// Returns the result with the names of the positive classes, if the tables of the graph have names. Names that can no longer
/// be read cost no result.
fn with_class_names(mut result: MultiResult, root: Option<&Path>, meta: &Meta) -> MultiResult {
    let labels = TargetLabel::all(meta);
    for of_target in &mut result.targets {
        let Some(label) = labels.iter().find(|label| label.is_named(&of_target.target)) else { continue };
        if let Ok(Some(names)) = read_names(root, meta, label) {
            of_target.positive_class = positive_class_name(of_target.result.decision.as_ref(), Some(&names));
        }
    }
    result
}

/// Returns the labels of the targets of a training, in the order of the flags, out of the labels of a graph that are together.
fn target_labels(meta: &Meta, flags: &TargetsArgs) -> Vec<TargetLabel> {
    let mut labels: Vec<Option<TargetLabel>> = TargetLabel::all(meta).into_iter().map(Some).collect();
    let mut found = Vec::with_capacity(labels.len());
    for name in flags.labels().unwrap_or_default() {
        // The labels were found by these names.
        let of_name = labels.iter_mut().find(|label| label.as_ref().is_some_and(|label| label.is_named(&name)));
        found.extend(of_name.and_then(Option::take));
    }
    found
}

/// The report of an epoch of a model for several targets.
struct MultiText;

impl EpochText<MultiScores> for MultiText {
    fn fields(&self, report: &EpochReport<MultiScores>) -> Value {
        json!({ "seeds": report.num_seeds })
    }

    fn metrics(&self, report: &EpochReport<MultiScores>) -> NamedValues {
        let Some(valid) = &report.valid else { return vec![(MetricName::of(&report.metric), None)].into() };
        let mut values = Vec::new();
        for (target, scores) in &valid.targets {
            values.extend(scores.metrics.iter().map(|(metric, value)| (MetricName::of_target(target, metric), value)));
        }
        values.into()
    }
}

impl Outcome for MultiResult {
    fn report(&self, reporter: &mut Reporter, _classes: Option<&[String]>) -> anyhow::Result<()> {
        for TargetResult { target, result, .. } in &self.targets {
            if let Some(note) = result.decision.as_ref().and_then(note_of_limit) {
                reporter.say(&format!("{target}: {note}"));
            }
        }
        if !reporter.finish(self)? {
            return Ok(());
        }
        let best = if self.best_epoch > 0 { format!(" (epoch {})", self.best_epoch) } else { String::new() };
        for TargetResult { target, positive_class, result } in &self.targets {
            let positive = positive_class.clone().or_else(|| positive_class_name(result.decision.as_ref(), None));
            for (metric, valid) in result.valid_metrics.iter() {
                let [valid, test] = [valid, result.test_metrics.get(metric)].map(|value| metric.shown(value));
                let metric = format!("{metric}{}", MetricName::from(metric).of_class(positive.as_deref()));
                result!("{target}: validation {metric} {valid}, test {metric} {test}{best}")?;
            }
            if let Some(decision) = &result.decision {
                result!("{target}: {}", decision_words(decision, positive.as_deref()))?;
            }
        }
        Ok(())
    }

    fn scores(&self) -> Result<Scores, String> {
        match self.targets.first() {
            Some(first) => first.result.scores(),
            None => Err("error: its result has no target".into()),
        }
    }
}
