//! The loss compared with its formula, and its edge cases.

use burn::backend::{Autodiff, NdArray};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use edgecut_gnn::nn::{Aggregation, GcnNorm};
use edgecut_gnn::ops::{BatchGraph, Block, DropoutKey};
use edgecut_trainer::gradients::{flatten_gradients, num_parameters};
use edgecut_trainer::loss::{ClassWeights, CrossEntropy, Focal, Loss, Target, TargetError, cross_entropy};
use edgecut_trainer::models::{ConvKind, GcnSettings, Mode, ModelInput, NetworkConfig, NodeClassifier, SageSettings};

use crate::support::*;

type Grad = Autodiff<NdArray<f64>>;

#[test]
fn cross_entropy_equals_its_formula_with_weights_and_smoothing_and_without() {
    let mut draws = Draws(5);
    let seeds = 9;
    let classes = 3;
    let logits = draws.matrix::<Grad>(seeds, classes).mul_scalar(4.0);
    let labels: Vec<i64> = (0..seeds).map(|_| draws.below(classes) as i64).collect();
    let rows = values(logits.clone());
    let mut num_correct = 0;
    for (row, &label) in rows.chunks(classes).zip(&labels) {
        num_correct += usize::from(row.iter().all(|&logit| logit <= row[label as usize]));
    }
    assert!(num_correct > 0 && num_correct < seeds, "some predictions are correct and some are wrong");
    for (weights, smoothing) in [([1.0; 3], 0.0), ([0.5, 2.0, 0.0], 0.2)] {
        let logits = logits.clone().require_grad();
        let result = if smoothing == 0.0 {
            cross_entropy(logits.clone(), &labels)
        } else {
            let class_weights = ClassWeights::Given(weights.to_vec());
            CrossEntropy { class_weights, label_smoothing: smoothing }
                .sum(logits.clone(), &Target::Classes(labels.clone()))
        };
        let result = result.expect("labels that fit");
        let total_weight: f64 = labels.iter().map(|&label| weights[label as usize]).sum();
        let mut expected = 0.0;
        let mut gradient = Vec::new();
        for (row, &label) in rows.chunks(classes).zip(&labels) {
            let total: f64 = row.iter().map(|logit| logit.exp()).sum();
            let target = |class: usize| {
                let of_label = if class == label as usize { 1.0 - smoothing } else { 0.0 };
                (of_label + smoothing / classes as f64) * weights[class]
            };
            let targets: Vec<f64> = (0..classes).map(target).collect();
            let sum: f64 = targets.iter().sum();
            for class in 0..classes {
                let share = row[class].exp() / total;
                expected -= targets[class] * share.ln() / total_weight;
                gradient.push((share * sum - targets[class]) / total_weight);
            }
        }
        assert!((result.weight - total_weight).abs() < 1e-12);
        assert_eq!((result.num_correct(), result.num_seeds), (num_correct, seeds));
        assert_close(&values(result.mean()), &[expected], 1e-12, "loss");
        assert_close(&values(result.totals.clone())[..1], &[expected * total_weight], 1e-12, "sum");
        let gradients = result.mean().backward();
        assert_close(&values(logits.grad(&gradients).expect("a gradient")), &gradient, 1e-12, "gradient");
    }
}

#[test]
fn focal_loss_equals_its_formula() {
    let mut draws = Draws(8);
    let seeds = 7;
    let classes = 3;
    let logits = draws.matrix::<Grad>(seeds, classes).mul_scalar(4.0).require_grad();
    let labels: Vec<i64> = (0..seeds).map(|_| draws.below(classes) as i64).collect();
    let weights = [0.5, 2.0, 0.0];
    for gamma in [0.0, 1.0, 2.0] {
        let loss = Focal { gamma, class_weights: ClassWeights::Given(weights.to_vec()) };
        let result = loss.sum(logits.clone(), &Target::Classes(labels.clone())).expect("labels that fit");
        let mut expected = 0.0;
        let mut gradient = Vec::new();
        for (row, &label) in values(logits.clone()).chunks(classes).zip(&labels) {
            let total: f64 = row.iter().map(|logit| logit.exp()).sum();
            let weight = weights[label as usize];
            let p = row[label as usize].exp() / total;
            expected -= weight * (1.0 - p).powf(gamma) * p.ln();
            // The derivative by p, times the derivative of p by each logit.
            let of_focus = if gamma == 0.0 { 0.0 } else { gamma * (1.0 - p).powf(gamma - 1.0) * p.ln() };
            let by_p = weight * (of_focus - (1.0 - p).powf(gamma) / p);
            for (class, logit) in row.iter().enumerate() {
                let is_label = f64::from(u8::from(class == label as usize));
                gradient.push(by_p * p * (is_label - logit.exp() / total));
            }
        }
        assert_close(&values(result.sum.clone()), &[expected], 1e-10, "sum");
        let gradients = result.sum.backward();
        assert_close(&values(logits.grad(&gradients).expect("a gradient")), &gradient, 1e-7, "gradient");
    }
    let certain = Tensor::<Grad, 2>::from_data([[200.0, -200.0]], &Default::default()).require_grad();
    let loss = Focal { gamma: 2.0, class_weights: ClassWeights::Equal };
    let result = loss.sum(certain.clone(), &Target::Classes(vec![0])).expect("a label that fits");
    let gradients = result.sum.backward();
    assert_eq!(values(certain.grad(&gradients).expect("a gradient")), [0.0, 0.0]);
}

/// The expected values come from torch 2.15.0: `CrossEntropyLoss(weight=tensor([1., 2., 4.]), label_smoothing=0.1)`.
#[test]
fn weights_and_smoothing_equal_torch() {
    let logits = Tensor::<NdArray<f64>, 2>::from_data([[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]], &Default::default());
    let loss = |class_weights: ClassWeights, label_smoothing: f64| {
        let loss = CrossEntropy { class_weights, label_smoothing };
        values(loss.sum(logits.clone(), &Target::Classes(vec![1, 2])).expect("labels that fit").mean())
    };
    assert_close(
        &loss(ClassWeights::Given(vec![1.0, 2.0, 4.0]), 0.1),
        &[1.174_105_463_582_392_4],
        1e-6,
        "weights and smoothing",
    );
    assert_close(&loss(ClassWeights::Given(vec![1.0, 2.0, 4.0]), 0.0), &[1.205_289_058_372_612_4], 1e-6, "weights");
    assert_close(&loss(ClassWeights::Equal, 0.1), &[1.264_201_618_223_887_8], 1e-6, "smoothing");
}

#[test]
fn weights_of_another_number_of_classes_are_refused() {
    let loss = CrossEntropy { class_weights: ClassWeights::Given(vec![1.0]), label_smoothing: 0.0 };
    let error = loss.sum(Tensor::<NdArray, 2>::zeros([1, 3], &Default::default()), &Target::Classes(vec![0])).err();
    let what = "`class_weights` has 1 weights, but the model has 3 classes: give a weight for each";
    assert_eq!(error, Some(TargetError(what.into())));
}

#[test]
fn huge_logits_do_not_overflow() {
    let logits = Tensor::<NdArray, 2>::from_data([[1e30f32, -1e30], [-1e4, 1e4]], &Default::default());
    let result = cross_entropy(logits, &[0, 1]).expect("labels that fit");
    assert_eq!(values(result.mean()), [0.0]);
}

#[test]
fn rejects_labels_that_are_no_classes() {
    let logits = || Tensor::<NdArray, 2>::zeros([2, 3], &Default::default());
    let error = |labels: &[i64]| cross_entropy(logits(), labels).expect_err("an error").to_string();
    assert_eq!(error(&[0]), "1 labels for 2 predictions, expected one label per prediction");
    let bounds = "but labels must be at least 0 and below 3 classes";
    assert_eq!(error(&[0, 3]), format!("seed 1 of the batch has label 3, {bounds}"));
    assert_eq!(error(&[-1, 0]), format!("seed 0 of the batch has label -1, {bounds}"));
}

#[test]
fn an_empty_batch_has_zero_gradients() {
    let graph = std::sync::Arc::new(BatchGraph::new(vec![0], vec![], 0).expect("a graph"));
    let device = Default::default();
    let kinds = [Aggregation::Mean, Aggregation::Sum, Aggregation::Max]
        .map(|aggregation| ConvKind::Sage(SageSettings { aggregation }));
    for kind in kinds.into_iter().chain([ConvKind::Gcn(GcnSettings)]) {
        let config = NetworkConfig { dropout: 0.5, input_dropout: 0.1, ..NetworkConfig::stack(kind, 4, 8, 3, 2) };
        let model = config.init::<Grad>(0, &device).expect("a valid model");
        let blocks = Block::layers(&graph, &[0, 0, 0]).expect("blocks");
        let input = ModelInput::new(Tensor::zeros([0, 4], &device), blocks)
            .and_then(|input| input.with_gcn_norm(GcnNorm::new(&graph, &[]).expect("no degrees")))
            .expect("an input");
        let logits = model.forward(input, Mode::Train(DropoutKey::new(0, 0, 0))).expect("a batch that fits");
        assert_eq!(logits.dims(), [0, 3]);
        let result = cross_entropy(logits, &[]).expect("no labels");
        assert_eq!((values(result.mean()), result.num_correct(), result.num_seeds), (vec![0.0], 0, 0));
        let gradients = GradientsParams::from_grads(result.mean().backward(), &model);
        assert_eq!(flatten_gradients(&model, gradients), vec![0.0; num_parameters(&model)]);
    }
}
