//! The command `train link`.

use crate::args::conv::OnNodes;
use crate::exit::UsageError;
use crate::progress::named_values::NamedValues;
use crate::progress::reporter::{EpochText, Reporter, cost, number, percent};
use crate::saved_model::SavedModel;
use crate::settings::flags::{Flags, Profile};
use crate::settings::given_flags::GivenFlags;
use crate::settings::model_settings::{Setting, check_flags};
use crate::tasks::outcome::no_score;
use crate::tasks::part_flags::PartFlags;
use crate::tasks::{CommonConfig, Open, Outcome, Scores, TaskArgs, TaskProgram, TaskRun};
use anyhow::bail;
use edgecut_cli::result;
use edgecut_dist_sampler::{DistGraph, DistRows};
use edgecut_graph::HoldOut;
use edgecut_trainer::inference::{PredictionConfig, PredictionJob, WantedRows};
use edgecut_trainer::link::{
    LinkEvaluation, LinkMetric, LinkResult, LinkScores, LinkTrainingConfig, RankedEnds, target_edge_types,
};
use edgecut_trainer::metrics::{Metric, MetricList};
use edgecut_trainer::model_file::ModelTask;
use edgecut_trainer::models::{LinkModel, LinkModelConfig};
use edgecut_trainer::{EpochReport, TrainingBackend};
use serde_json::{Value, json};
use std::sync::Arc;

/// The task of predicting edges.
#[derive(Debug)]
pub(crate) struct LinkTask;

impl Profile<LinkTrainingConfig> for OnNodes {
    const HEADING: &'static str = "Links";

    fn defaults() -> LinkTrainingConfig {
        LinkTrainingConfig::default()
    }
}

impl TaskProgram for LinkTask {
    const NAME: &'static str = "link";
    const ABOUT: &'static str = "Trains or evaluates a link prediction model";
    const EXAMPLES: &'static str = "Examples on graphs with held-out edges:\n  \
        train link --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --num-neighbors 10,5 --metric roc-auc\n  \
        train link --dataset-root-dir data/partitions/wn18rr/2-parts --nproc-per-node 2 --model embedding --decoder distmult \\\n    \
        --loss softmax --num-negatives 1000 --shared-negatives --eval-negatives all";
    const MODEL: ModelTask = ModelTask::Link;

    type Flags = PartFlags<Flags<LinkTrainingConfig, OnNodes>, ()>;
    type Config = LinkTrainingConfig;
    type Scores = LinkScores;
    type Outcome = LinkResult;
    type Model<B: TrainingBackend> = LinkModel<B>;
    type ModelConfig = LinkModelConfig;

    fn config(args: &TaskArgs<Self>, num_workers: usize) -> anyhow::Result<LinkTrainingConfig> {
        let links = &args.own.task.settings;
        let is_filtered = links.eval_negatives == LinkEvaluation::Filtered;
        for metric in links.metric.iter().filter(|_| is_filtered) {
            if matches!(metric, LinkMetric::RocAuc | LinkMetric::AveragePrecision) {
                bail!(UsageError(format!(
                    "--metric {metric} needs sampled or given negatives, but --eval-negatives is all: give \
                     --eval-negatives a number or given"
                )));
            }
        }
        if links.rank == RankedEnds::Both && !is_filtered {
            bail!(UsageError("--rank both ranks both ends among all nodes: add --eval-negatives all".into()));
        }
        let training = args.training_config(num_workers)?;
        let without_validation = args.own.part.whole.hold_out_edges == Some(HoldOut::NOTHING);
        if without_validation {
            check_without_validation(&args.given)?;
        }
        Ok(LinkTrainingConfig { training, without_validation, ..links.clone() })
    }

    fn common(config: &mut LinkTrainingConfig) -> CommonConfig<'_> {
        (&mut config.training).into()
    }

    fn choose(
        args: &TaskArgs<Self>,
        config: &mut LinkTrainingConfig,
        graph: &Arc<DistGraph>,
    ) -> anyhow::Result<Option<String>> {
        // A saved model has times of its own, which decide.
        if args.run.output.load_model.is_none() {
            choose_negatives(args, config, graph)?;
        }
        let num_epochs = config.training.fit.num_epochs;
        Ok(config.without_validation.then(|| {
            format!(
                "note: training uses all edges: there is no validation, and the model of epoch {num_epochs}, the last one, is \
                 kept"
            )
        }))
    }

    fn metric(_config: &LinkTrainingConfig, _graph: &DistGraph) -> anyhow::Result<Option<Metric>> {
        Ok(None)
    }

    fn epoch_text(args: &TaskArgs<Self>) -> impl EpochText<LinkScores> {
        LinkText { metrics: args.own.task.settings.metric.clone() }
    }

    fn train<B: TrainingBackend>(run: TaskRun<'_, Self, B>) -> anyhow::Result<LinkResult> {
        Ok(B::train_link(run.data, run.config, run.world, run.device, run.observer)?.result)
    }

    fn open<B: TrainingBackend>(saved: &SavedModel<'_>, device: &B::Device) -> anyhow::Result<Open<Self, B>> {
        let (mut model, config, embeddings) = B::open_link_model(&saved.bytes, saved.path, device)?;
        model.set_precision(saved.precision);
        Ok(Open { model, config, embeddings: saved.matched(embeddings), outputs: None })
    }

    fn evaluate<B: TrainingBackend>(
        run: TaskRun<'_, Self, B>,
        saved: &SavedModel<'_>,
        open: &Open<Self, B>,
    ) -> anyhow::Result<LinkResult> {
        let TaskRun { args, config, data, world, device, .. } = run;
        let Open { model, config: model_config, embeddings, .. } = open;
        let mut settings =
            args.own.training.settings_of(&model_config.encoder, model_config.encoder.graph.has_edge_features());
        settings.push(Setting::new("decoder", args.own.task.settings.decoder, model_config.decoder));
        check_flags(&args.given, saved.path, &settings)?;
        args.adopt_sampler(saved, None, &mut config.training, data, world)?;
        choose_negatives(args, config, data)?;
        Ok(B::evaluate_link(data, config, model, model_config, embeddings.into(), world, device)?)
    }

    fn refuses_nodes(wanted: &WantedRows) -> Option<&'static str> {
        match wanted {
            WantedRows::Logits => {
                Some("the model is for links and has no classes: use --output embedding, score or top-k")
            }
            WantedRows::Layer(_) => None,
        }
    }

    fn node_rows<B: TrainingBackend>(
        open: &Open<Self, B>,
        job: PredictionJob<'_, '_, B>,
        config: &PredictionConfig,
    ) -> anyhow::Result<DistRows> {
        Ok(B::predict_link_rows(job, &open.model, &open.config, (&open.embeddings).into(), config)?)
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
        })
    }
}

/// Rejects flags of an evaluation, which training on all edges does not have.
fn check_without_validation(given: &GivenFlags) -> anyhow::Result<()> {
    for flag in ["patience", "metric", "eval_negatives", "rank"] {
        if given.is_given(flag) {
            let flag = flag.replace('_', "-");
            bail!(UsageError(format!(
                "--{flag} has no effect with --hold-out-edges 0, which leaves no edges to evaluate on: leave one of them \
                 out"
            )));
        }
    }
    if !given.is_given("num_epochs") {
        let what = "--hold-out-edges 0 leaves no edges whose metric could end the training: give --num-epochs";
        bail!(UsageError(what.into()));
    }
    Ok(())
}

/// Chooses the negatives that the dataset gives, if it gives some and the flags do not name others.
fn choose_negatives(
    args: &TaskArgs<LinkTask>,
    config: &mut LinkTrainingConfig,
    graph: &DistGraph,
) -> anyhow::Result<()> {
    if !args.own.task.is_given("eval_negatives") && gives_negatives(config, graph)? {
        config.eval_negatives = LinkEvaluation::Given;
    }
    Ok(())
}

/// Returns true if the dataset gives negatives for all edge types to evaluate, and the job can rank against them.
fn gives_negatives(config: &LinkTrainingConfig, graph: &DistGraph) -> anyhow::Result<bool> {
    if graph.is_client() || config.training.sampler.temporal.is_some() {
        return Ok(false);
    }
    let meta = graph.part().meta();
    let edge_types = target_edge_types(meta, config)?;
    Ok(edge_types.iter().all(|e| meta.edge_types[e.index()].negatives.iter().any(Option::is_some)))
}

/// Formats ranking metrics as text.
fn words(scores: &LinkScores) -> String {
    let auc = scores.roc_auc.map(|auc| format!(", ROC AUC {auc:.4}")).unwrap_or_default();
    let precision = scores.average_precision.map(|share| format!(", average precision {share:.4}")).unwrap_or_default();
    let hits: String = scores.hits_at.iter().map(|(depth, share)| format!(", @{depth} {share:.4}")).collect();
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

/// Returns the values of metrics.
fn values_of(scores: &LinkScores, metrics: &MetricList<LinkMetric>) -> NamedValues {
    let mut values = Vec::new();
    for metric in metrics.iter() {
        values.push((metric.to_string(), scores.get(metric)));
    }
    values.into()
}

/// The report of an epoch of link prediction.
struct LinkText {
    metrics: MetricList<LinkMetric>,
}

impl EpochText<LinkScores> for LinkText {
    fn fields(&self, report: &EpochReport<LinkScores>) -> Value {
        json!({ "seeds": report.num_seeds, "left_out": report.left_out, "valid": report.valid })
    }

    fn metrics(&self, report: &EpochReport<LinkScores>) -> NamedValues {
        values_of(report.valid.as_ref().unwrap_or(&LinkScores::default()), &self.metrics)
    }

    fn words(&self, report: &EpochReport<LinkScores>, num_epochs: u64) -> String {
        let valid = match &report.valid {
            Some(scores) => words(scores),
            None => "-".to_owned(),
        };
        format!(
            "epoch {}/{num_epochs}: loss {}, train {}{}, valid {}, {}",
            report.epoch,
            number(report.loss),
            percent(report.train_acc),
            left_out(report.left_out),
            valid,
            cost(&report.cost),
        )
    }
}
