//! The scores and the loss of a batch of edges.

use super::batch::{LinkTensorBatch, NegativeRows, SharedRows};
use super::config::{LinkLoss, LinkTrainingConfig};
use crate::embeddings::Embeddings;
use crate::fit::{AutodiffTurn, Forward, StepGradients, backward_and_all_reduce};
use crate::loss::LossSum;
use crate::models::{LinkModel, Mode, ModelInput};
use crate::train_error::TrainError;
use burn::tensor::activation::{log_sigmoid, log_softmax};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Int, Tensor, TensorData};
use edgecut_cluster::ProcessGroup;
use edgecut_gnn::ops::{GnnBackend, matmul};
use std::time::Instant;

/// The score of a masked pair: so low that its loss and gradient are 0, but finite, because infinity could cause NaN.
const NO_SCORE: f32 = -1e30;

/// The scores of a batch's edges and of their negatives.
pub(super) struct Scores<B: Backend> {
    /// Groups of edges with the same number of columns of negatives.
    pub(super) groups: Vec<ScoredEdges<B>>,
    /// The sum of the third powers of the absolute values of all source, destination and relation vectors, `[1]`;
    /// `None` if not requested.
    cubes: Option<Tensor<B, 1>>,
}

/// The scores of a group of edges and of their negatives.
pub(super) struct ScoredEdges<B: Backend> {
    /// The score of each edge, `[edges, 1]`.
    pub(super) positive: Tensor<B, 2>,
    /// The scores of its negatives, `[edges, columns]`; [`NO_SCORE`] for masked pairs.
    pub(super) negatives: Tensor<B, 2>,
    /// The number of unmasked negatives of each edge; `None` if no pair is masked.
    pub(super) num_negatives: Option<Vec<u32>>,
}

/// Runs the forward pass, the backward pass and the exchange between ranks for one batch of edges, like
/// [`step_gradients`](crate::step_gradients) for nodes.
pub(super) fn step<B: AutodiffBackend + GnnBackend>(
    model: &LinkModel<B>,
    embeddings: &mut Embeddings,
    mut batch: LinkTensorBatch<B>,
    config: &LinkTrainingConfig,
    mode: Mode,
    device: &B::Device,
    world: &mut ProcessGroup,
) -> Result<StepGradients, TrainError> {
    let (graph, pulled) = embeddings.pull_tracked(batch.graph, device)?;
    batch.graph = graph;
    let turn = AutodiffTurn::take();
    let start = Instant::now();
    let forward = match batch.graph.take_input() {
        None => Forward { loss: None, start, turn },
        Some(input) => {
            let num_seeds = batch.src.len();
            let scores = scores(model, &input, &batch, mode, config.n3_weight > 0.0)?;
            let (mut sum, correct) = scores.loss(config.loss);
            if let Some(cubes) = scores.cubes {
                sum = sum + cubes.mul_scalar(config.n3_weight);
            }
            let totals = Tensor::cat(vec![sum.clone().detach(), correct], 0);
            let loss = LossSum { sum, totals, num_seeds, weight: num_seeds as f64 };
            Forward { loss: Some(loss), start, turn }
        }
    };
    let embedded = Some((embeddings, pulled, config.training.embedding_lr()));
    backward_and_all_reduce(model, forward, embedded, &config.training.step, world)
}

/// Scores all pairs of a batch.
pub(super) fn scores<B: GnnBackend>(
    model: &LinkModel<B>,
    input: &ModelInput<B>,
    batch: &LinkTensorBatch<B>,
    mode: Mode,
    with_cubes: bool,
) -> Result<Scores<B>, TrainError> {
    let rows = model.encode(input, mode).map_err(TrainError::batch)?;
    let device = rows.device();
    let [_, channels] = rows.dims();
    let select = |wanted: &[u32]| rows.clone().select(0, indices::<B>(wanted, &device));
    let src = select(&batch.src);
    let dst = select(&batch.dst);
    let cube = |x: &Tensor<B, 2>| x.clone().abs().powi_scalar(3).sum();
    let cubes = with_cubes.then(|| {
        let ends = cube(&src) + cube(&dst);
        match model.decoder.relation_rows(&batch.edge_types, &device) {
            Some(relations) => ends + cube(&relations),
            None => ends,
        }
    });
    // Both decoders are dot products of a query, made of source and relation, with the destination. A query is computed
    // once per edge and serves the edge and all of its negatives.
    let query = model.decoder.query(src, &batch.edge_types);
    let positive = (query.clone() * dst).sum_dim(1);
    let groups = match &batch.negatives {
        NegativeRows::OfEach { num: 0, .. } => {
            let edges = batch.src.len();
            vec![ScoredEdges { positive, negatives: Tensor::zeros([edges, 0], &device), num_negatives: None }]
        }
        NegativeRows::OfEach { num, rows: negatives } => {
            let edges = batch.src.len();
            let negatives = select(negatives).reshape([edges, *num, channels]);
            let query = query.reshape([edges, 1, channels]);
            let negatives = (negatives * query).sum_dim(2).reshape([edges, *num]);
            vec![ScoredEdges { positive, negatives, num_negatives: None }]
        }
        NegativeRows::Shared(groups) => {
            let of_group = |shared: &SharedRows| {
                let SharedRows { edges, rows: negatives, masked } = shared;
                let all = edges.len() == batch.src.len();
                let part = |x: &Tensor<B, 2>| {
                    if all { x.clone() } else { x.clone().select(0, indices::<B>(edges, &device)) }
                };
                let scores = matmul(part(&query), select(negatives).transpose());
                let scores = if masked.is_empty() {
                    scores
                } else {
                    scores.mask_fill(mask::<B>(masked, [edges.len(), negatives.len()], &device), NO_SCORE)
                };
                let num_negatives = shared.num_negatives();
                ScoredEdges { positive: part(&positive), negatives: scores, num_negatives }
            };
            groups.iter().map(of_group).collect()
        }
    };
    Ok(Scores { groups, cubes })
}

impl<B: Backend> Scores<B> {
    /// Returns the sum of the edges' losses, `[1]`, and the number of edges that score above all of their negatives,
    /// `[1]`.
    fn loss(&self, kind: LinkLoss) -> (Tensor<B, 1>, Tensor<B, 1>) {
        let device = self.groups.first().map(|group| group.positive.device()).unwrap_or_default();
        let mut correct = Tensor::zeros([1], &device);
        let mut total: Option<Tensor<B, 1>> = None;
        for group in &self.groups {
            let loss = match kind {
                LinkLoss::Bce => group.binary_cross_entropy(),
                LinkLoss::Softmax => group.cross_entropy(),
            };
            if let Some(of_group) = group.correct() {
                correct = correct + of_group;
            }
            total = Some(match total {
                Some(total) => total + loss,
                None => loss,
            });
        }
        // Only a batch without edges has no group; its loss is 0.
        (total.unwrap_or_else(|| Tensor::zeros([1], &device)), correct)
    }
}

impl<B: Backend> ScoredEdges<B> {
    /// Returns the sum over the edges of the mean binary cross-entropy of an edge and its negatives, `[1]`.
    fn binary_cross_entropy(&self) -> Tensor<B, 1> {
        let [_, columns] = self.negatives.dims();
        let positive = log_sigmoid(self.positive.clone());
        if columns == 0 {
            return positive.sum().neg();
        }
        let negatives = log_sigmoid(self.negatives.clone().neg());
        let Some(num_negatives) = &self.num_negatives else {
            return (positive.sum() + negatives.sum()).neg().div_scalar(1.0 + columns as f64);
        };
        // A masked pair contributes 0 to the sum, so only the divisor has to exclude it.
        let pairs: Vec<f32> = num_negatives.iter().map(|&num| 1.0 + num as f32).collect();
        let pairs = Tensor::from_data(TensorData::new(pairs, [num_negatives.len(), 1]), &self.positive.device());
        ((positive + negatives.sum_dim(1)) / pairs).sum().neg()
    }

    /// Returns the sum over the edges of the cross-entropy of classifying an edge among itself and its negatives,
    /// `[1]`.
    fn cross_entropy(&self) -> Tensor<B, 1> {
        let all = Tensor::cat(vec![self.positive.clone(), self.negatives.clone()], 1);
        log_softmax(all, 1).narrow(1, 0, 1).sum().neg()
    }

    /// Returns the number of edges that score above all of their negatives, `[1]`. Edges without negatives do not
    /// count.
    fn correct(&self) -> Option<Tensor<B, 1>> {
        let [_, columns] = self.negatives.dims();
        if columns == 0 {
            return None;
        }
        let best = self.negatives.clone().max_dim(1);
        let above = self.positive.clone().greater(best.clone()).float();
        // If all pairs of an edge are masked, its best negative is `NO_SCORE`.
        let judged = best.greater_elem(NO_SCORE / 2.0).float();
        Some((above * judged).sum())
    }
}

/// Returns a matrix that is true at the given (row, column) positions.
fn mask<B: Backend>(places: &[(u32, u32)], [rows, columns]: [usize; 2], device: &B::Device) -> Tensor<B, 2, Bool> {
    let mut mask = vec![false; rows * columns];
    places.iter().for_each(|&(row, column)| mask[row as usize * columns + column as usize] = true);
    Tensor::from_data(TensorData::new(mask, [rows, columns]), device)
}

fn indices<B: Backend>(rows: &[u32], device: &B::Device) -> Tensor<B, 1, Int> {
    let rows: Vec<i64> = rows.iter().map(|&row| i64::from(row)).collect();
    Tensor::from_data(&rows[..], device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_gnn::Cpu;

    const MASKED: [(u32, u32); 6] = [(0, 1), (1, 0), (1, 3), (2, 0), (2, 1), (2, 2)];

    /// Three edges and four columns of negatives; the masked pairs have scores that would win.
    fn scored() -> (ScoredEdges<Cpu>, Vec<f64>, Vec<Vec<f64>>) {
        let device = Default::default();
        let positive = vec![0.5_f32, -0.75, 2.0];
        let mut negatives = [0.1_f32, 9.0, -0.7, 0.3, 8.0, -1.5, -0.5, 7.0, 6.0, 5.0, 4.0, 0.9];
        let is_masked = |edge: usize, column: usize| MASKED.contains(&(edge as u32, column as u32));
        let unmasked: Vec<Vec<f64>> = (0..3)
            .map(|edge| (0..4).filter(|&at| !is_masked(edge, at)).map(|at| negatives[edge * 4 + at].into()).collect())
            .collect();
        for (edge, column) in MASKED {
            negatives[edge as usize * 4 + column as usize] = 50.0;
        }
        let scores = Tensor::<Cpu, 1>::from_data(&negatives[..], &device).reshape([3, 4]);
        let scores = scores.mask_fill(mask::<Cpu>(&MASKED, [3, 4], &device), NO_SCORE);
        let group = ScoredEdges {
            positive: Tensor::<Cpu, 1>::from_data(&positive[..], &device).reshape([3, 1]),
            negatives: scores,
            num_negatives: Some(unmasked.iter().map(|of_edge| of_edge.len() as u32).collect()),
        };
        (group, positive.into_iter().map(f64::from).collect(), unmasked)
    }

    fn value(tensor: Tensor<Cpu, 1>) -> f64 {
        f64::from(tensor.into_scalar())
    }

    #[test]
    fn masked_pairs_are_in_no_loss_and_no_accuracy() {
        let (group, positive, unmasked) = scored();
        let log_sigmoid = |x: f64| -(1.0 + (-x).exp()).ln();
        let mut bce = 0.0;
        let mut softmax = 0.0;
        let mut correct = 0.0;
        for (&score, others) in positive.iter().zip(&unmasked) {
            let of_others: f64 = others.iter().map(|&other| log_sigmoid(-other)).sum();
            bce -= (log_sigmoid(score) + of_others) / (1.0 + others.len() as f64);
            let all: f64 = others.iter().map(|other| other.exp()).sum();
            softmax -= (score.exp() / (score.exp() + all)).ln();
            correct += if others.iter().all(|&other| score > other) { 1.0 } else { 0.0 };
        }
        assert!((value(group.binary_cross_entropy()) - bce).abs() < 1e-5);
        assert!((value(group.cross_entropy()) - softmax).abs() < 1e-5);
        assert_eq!(value(group.correct().expect("negatives")), correct);
    }

    #[test]
    fn an_edge_without_negatives_is_not_judged() {
        let (group, ..) = scored();
        let device = Default::default();
        let all: Vec<(u32, u32)> = (0..3).flat_map(|edge| (0..4).map(move |column| (edge, column))).collect();
        let group = ScoredEdges {
            negatives: group.negatives.mask_fill(mask::<Cpu>(&all, [3, 4], &device), NO_SCORE),
            num_negatives: Some(vec![0; 3]),
            positive: group.positive,
        };
        assert_eq!(value(group.correct().expect("columns")), 0.0);
        assert!(value(group.cross_entropy()).abs() < 1e-6);
        assert!(value(group.binary_cross_entropy()) > 0.0);
    }
}
