//! Several metrics, thresholds and temperatures of models, which validation data alone chooses.

use crate::support::{Numbers, on_ranks, parts_of};
use burn::backend::Autodiff;
use burn_ndarray::NdArray;
use edgecut_dist_sampler::{DistGraphConfig, Fanout, SamplerConfig};
use edgecut_graph::{Dataset, EdgeData, Features, NodeData, NodeTypeId, Split, Splits};
use edgecut_trainer::metrics::{Decision, Metric, Threshold};
use edgecut_trainer::models::{ConvKind, SageSettings};
use edgecut_trainer::{
    BestModel, FitConfig, NodePrediction, NodeTrainingConfig, Observer, ScoringConfig, SeedResult, SeedScores,
    TrainError, TrainingConfig, train_model,
};
use std::path::Path;

pub(crate) type Cpu = NdArray<f32>;

const NUM_NODES: usize = 900;

/// Makes the settings of scores with these metrics.
pub(crate) fn scoring(metrics: &str) -> ScoringConfig {
    ScoringConfig { metrics: Some(metrics.parse().expect("metrics")), ..ScoringConfig::default() }
}

/// Generates nodes with two noisy numbers, which tell a rare class. The labels of test nodes are wrong if `wrong_tests`.
pub(crate) fn rare_class(wrong_tests: bool) -> Dataset {
    let mut numbers = Numbers(5);
    let mut values = Vec::new();
    let mut labels = Vec::new();
    for node in 0..NUM_NODES {
        let is_rare = numbers.below(6) == 0;
        let noise = numbers.below(1000) as f32 / 500.0 - 1.0;
        values.extend([f32::from(u8::from(is_rare)) * 0.7 + noise, numbers.below(1000) as f32 / 1000.0]);
        // Every third node is a test node.
        let is_wrong = wrong_tests && node % 3 == 2;
        labels.push(i64::from(is_rare != is_wrong));
    }
    let mut splits = Splits::default();
    for (first, split) in [Split::Train, Split::Valid, Split::Test].into_iter().enumerate() {
        splits.set(split, (first as u32..NUM_NODES as u32).step_by(3).collect::<Vec<_>>().into());
    }
    let nodes = NodeData {
        name: "node".into(),
        num_nodes: NUM_NODES,
        features: Some(Features::F32 { values: values.into(), dim: 2 }),
        labels: Some(labels.into()),
        num_classes: 2,
        splits,
        ..NodeData::default()
    };
    let ends: Vec<u32> = (0..NUM_NODES as u32).collect();
    let edges = EdgeData::new(NodeTypeId(0), "is", NodeTypeId(0), ends.clone().into(), ends.into());
    let dataset = Dataset { name: "rare".into(), node_types: vec![nodes], edge_types: vec![edges] };
    dataset.validate().expect("a valid graph");
    dataset
}

/// An observer that records the decisions of saved models.
#[derive(Default)]
struct Saved(Vec<Option<Decision>>);

impl Observer<SeedScores> for Saved {
    fn improved(&mut self, best: &BestModel<'_>, _: &mut edgecut_cluster::ProcessGroup) -> std::io::Result<()> {
        self.0.push(best.decision.clone());
        Ok(())
    }
}

/// Trains on as many ranks as there are parts. Returns the result and the decision of the saved model.
fn train(dir: &Path, num_ranks: usize, scoring: &ScoringConfig) -> Result<(SeedResult, Option<Decision>), TrainError> {
    let kind = ConvKind::Sage(SageSettings::default());
    let training = TrainingConfig {
        hidden_channels: 8,
        batch_size: 300,
        fit: FitConfig { num_epochs: 6, lr: 0.02, seed: 1, ..FitConfig::default() },
        ..TrainingConfig::new(kind, SamplerConfig::new(vec![Fanout::All]))
    };
    let config = NodeTrainingConfig { training, scoring: scoring.clone() };
    let mut results = on_ranks(dir, num_ranks, &DistGraphConfig::default(), |graph, world| {
        let mut saved = Saved::default();
        let trained =
            train_model::<NodePrediction, Autodiff<Cpu>>(&graph, &config, world, &Default::default(), &mut saved)?;
        world.barrier()?;
        Ok((trained.result, saved.0.pop().expect("a model")))
    });
    let first = results.remove(0);
    if let Ok(first) = &first {
        assert!(results.iter().all(|other| other.as_ref().is_ok_and(|other| other == first)), "the same on every rank");
    }
    first
}

fn value(values: &edgecut_trainer::metrics::MetricValues, name: &str) -> f64 {
    let metric: Metric = name.parse().expect("a metric");
    values.get(metric).unwrap_or_else(|| panic!("no {name}: {values:?}"))
}

#[test]
fn all_metrics_are_reported_and_the_first_selects() {
    let dir = parts_of(&rare_class(false), 2);
    let names = ["average-precision", "roc-auc", "macro-f1", "log-loss", "calibration-error"];
    let (result, decision) = train(dir.path(), 2, &scoring(&names.join(","))).expect("a run");
    for values in [&result.valid_metrics, &result.test_metrics] {
        let found: Vec<&str> = values.iter().map(|(metric, _)| metric.name()).collect();
        assert_eq!(found, names);
        assert!(values.iter().all(|(_, value)| value.is_some_and(f64::is_finite)), "{values:?}");
    }
    assert_eq!(result.valid_metric, Some(value(&result.valid_metrics, "average-precision")));
    assert_eq!((result.decision, decision), (None, None));
    // One metric alone has the same value, and selects the same epoch.
    let (alone, _) = train(dir.path(), 2, &scoring("average-precision")).expect("a run");
    assert_eq!((alone.valid_metric, alone.best_epoch), (result.valid_metric, result.best_epoch));
    let details = result.test_details;
    let classes: Vec<_> = details.classes.expect("two classes").classes().collect();
    assert_eq!(classes.iter().map(|class| class.labelled).sum::<u64>(), NUM_NODES as u64 / 3);
    let [curve] = &details.curves[..] else { panic!("one curve: {:?}", details.curves) };
    assert_eq!((curve.class, curve.positives), (1, classes[1].labelled));
}

#[test]
fn a_threshold_of_the_best_f1_beats_one_half() {
    let dir = parts_of(&rare_class(false), 2);
    let half = train(dir.path(), 2, &scoring("roc-auc,macro-f1")).expect("a run").0;
    let chooses = ScoringConfig { threshold: Some(Threshold::BestF1), ..scoring("roc-auc,macro-f1") };
    let (best, decision) = train(dir.path(), 2, &chooses).expect("a run");
    let [of_half, of_best] = [&half, &best].map(|result| value(&result.valid_metrics, "macro-f1"));
    assert!(of_best > of_half + 0.02, "{best:?} {half:?}");
    // Curves and areas depend on the order of the scores alone.
    assert_eq!(value(&best.test_metrics, "roc-auc"), value(&half.test_metrics, "roc-auc"));
    assert_eq!((best.decision.as_ref(), best.best_epoch), (decision.as_ref(), half.best_epoch));
    let threshold = best.decision.expect("a decision").thresholds();
    assert!(threshold.len() == 1 && threshold[0] < 0.5, "{threshold:?}");
    // The same decision by its number.
    let given = ScoringConfig { threshold: Some(Threshold::Given(threshold[0])), ..scoring("roc-auc,macro-f1") };
    let (given, _) = train(dir.path(), 2, &given).expect("a run");
    assert_eq!(given.test_metrics, best.test_metrics);
}

#[test]
fn a_temperature_lowers_the_log_loss_and_keeps_classes() {
    let dir = parts_of(&rare_class(false), 2);
    let metrics = "accuracy,log-loss";
    let (plain, _) = train(dir.path(), 2, &scoring(metrics)).expect("a run");
    let calibrates = ScoringConfig { calibrate: true, ..scoring(metrics) };
    let (calibrated, decision) = train(dir.path(), 2, &calibrates).expect("a run");
    let decision = decision.expect("a temperature");
    assert!(decision.temperature() != 1.0 && decision.logit_thresholds().is_empty(), "{decision:?}");
    assert_eq!((calibrated.test_acc, calibrated.best_epoch), (plain.test_acc, plain.best_epoch));
    let [before, after] = [&plain, &calibrated].map(|result| value(&result.valid_metrics, "log-loss"));
    assert!(after < before, "{calibrated:?} {plain:?}");
}

#[test]
fn test_data_has_no_influence_on_a_decision() {
    let right = parts_of(&rare_class(false), 1);
    let wrong = parts_of(&rare_class(true), 1);
    let chooses =
        ScoringConfig { threshold: Some(Threshold::BestF1), calibrate: true, ..scoring("average-precision,macro-f1") };
    let (of_right, saved_right) = train(right.path(), 1, &chooses).expect("a run");
    let (of_wrong, saved_wrong) = train(wrong.path(), 1, &chooses).expect("a run");
    assert!(saved_right.is_some() && saved_right == saved_wrong);
    assert_eq!((&of_right.decision, &of_right.valid_metrics), (&of_wrong.decision, &of_wrong.valid_metrics));
    assert!(value(&of_right.test_metrics, "macro-f1") > value(&of_wrong.test_metrics, "macro-f1") + 0.1);
}

#[test]
fn decisions_are_the_same_on_other_numbers_of_parts_and_ranks() {
    let chooses = ScoringConfig { threshold: Some(Threshold::BestF1), calibrate: true, ..scoring("roc-auc") };
    let mut found = Vec::new();
    for num_parts in [1, 3] {
        let dir = parts_of(&rare_class(false), num_parts);
        found.push(train(dir.path(), num_parts as usize, &chooses).expect("a run").1.expect("a decision"));
    }
    // Sums of gradients in another order differ in their last digits, and so do weights.
    assert!((found[0].temperature() / found[1].temperature() - 1.0).abs() < 1e-3, "{found:?}");
    assert!((found[0].thresholds()[0] - found[1].thresholds()[0]).abs() < 1e-3, "{found:?}");
}

#[test]
fn settings_that_do_not_fit_the_data_are_refused() {
    let mut dataset = rare_class(false);
    let calibrates = ScoringConfig { calibrate: true, ..ScoringConfig::default() };
    dataset.node_types[0].splits.set(Split::Valid, Vec::new().into());
    let without = parts_of(&dataset, 1);
    let error = train(without.path(), 1, &calibrates).expect_err("no validation data").to_string();
    assert!(error.contains("`calibrate` and `threshold=best-f1` choose on the validation data"), "{error}");
    dataset.node_types[0].num_classes = 3;
    let three = parts_of(&dataset, 1);
    let threshold = ScoringConfig { threshold: Some(Threshold::Given(0.2)), ..ScoringConfig::default() };
    let error = train(three.path(), 1, &threshold).expect_err("three classes").to_string();
    assert!(error.contains("a threshold is for two classes or labels, but there are 3 classes"), "{error}");
}
