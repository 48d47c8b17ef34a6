//! The scores and the loss of a batch of edges.

use super::batch::{LinkTensorBatch, NegativeRows, SharedRows};
use super::config::LinkTrainingConfig;
use super::loss::LinkLoss;
use super::scored_edges::{NO_SCORE, ScoredEdges};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{AutodiffTurn, Forward, StepGradients, backward_and_all_reduce};
use crate::loss::LossSum;
use crate::models::{LinkModel, Mode, ModelInput};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Tensor, TensorData};
use edgecut_cluster::ProcessGroup;
use edgecut_gnn::nn::EdgeEnd;
use edgecut_gnn::ops::{GnnBackend, select_rows};
use std::time::Instant;

/// The scores of a batch's edges and of their negatives.
pub(super) struct Scores<B: Backend> {
    /// Groups of edges with the same number of columns of negatives.
    pub(super) groups: Vec<ScoredEdges<B>>,
    /// The sum of the third powers of the absolute values of the vectors of each edge's ends and relation, times the
    /// weight of the edge, over all edges, `[1]`; `None` if not requested.
    cubes: Option<Tensor<B, 1>>,
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
        None => {
            model.encoder.forward_without_rows(mode);
            Forward { loss: None, start, turn }
        }
        Some(input) => {
            let num_seeds = batch.src.len();
            let scores = scores(model, &input, &batch, mode, config.n3_weight > 0.0)?;
            let scores = match config.hard_negatives {
                Some(count) => scores.hardest(count),
                None => scores,
            };
            let (mut sum, correct) = scores.loss(config.loss);
            if let Some(cubes) = scores.cubes {
                sum = sum + cubes.mul_scalar(config.n3_weight);
            }
            let totals = Tensor::cat(vec![sum.clone().detach(), correct], 0);
            let weight = batch.weights.as_ref().map_or(num_seeds as f64, |weights| total(weights));
            let loss = LossSum { sum, totals, num_seeds, weight };
            Forward { loss: Some(loss), start, turn }
        }
    };
    let embedded = Some((embeddings, pulled));
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
    let decoder = &model.decoder;
    let src = select_rows(&rows, &batch.src);
    let dst = select_rows(&rows, &batch.dst);
    let cubes = with_cubes.then(|| {
        let ends = decoder.cubes(src.clone()) + decoder.cubes(dst.clone());
        let cubes = match decoder.relation_rows(&batch.edge_types) {
            Some(relations) => ends + decoder.cubes(relations),
            None => ends,
        };
        match &batch.weights {
            Some(weights) => {
                (cubes * Tensor::from_data(TensorData::new(weights.clone(), [weights.len()]), &device)).sum()
            }
            None => cubes.sum(),
        }
    });
    // A query is computed once per edge and serves the edge and all of its negatives.
    let queries = decoder.query(src, &batch.edge_types, EdgeEnd::Destination);
    let positive = decoder.score_own(&queries, dst);
    let groups = match &batch.negatives {
        NegativeRows::OfEach { num, rows: negatives } => {
            let negatives = match num {
                0 => Tensor::zeros([batch.src.len(), 0], &device),
                _ => decoder.score_own(&queries, select_rows(&rows, negatives)),
            };
            let weights = batch.weights.clone();
            vec![ScoredEdges { positive, negatives, log_probabilities: None, unmasked: None, weights }]
        }
        NegativeRows::Shared(groups) => {
            let of_group = |shared: &SharedRows| {
                let SharedRows { edges, rows: negatives, masked, log_probabilities } = shared;
                let all = edges.len() == batch.src.len();
                let (positive, queries) = if all {
                    (positive.clone(), queries.clone())
                } else {
                    (select_rows(&positive, edges), queries.select(edges))
                };
                let scores = decoder.score_all(&queries, select_rows(&rows, negatives));
                let scores = if masked.is_empty() {
                    scores
                } else {
                    scores.mask_fill(mask::<B>(masked, [edges.len(), negatives.len()], &device), NO_SCORE)
                };
                let log_probabilities = log_probabilities
                    .as_ref()
                    .map(|values| Tensor::from_data(TensorData::new(values.clone(), [1, values.len()]), &device));
                ScoredEdges {
                    positive,
                    negatives: scores,
                    log_probabilities,
                    unmasked: shared.num_negatives(),
                    weights: batch.weights_of(edges),
                }
            };
            groups.iter().map(of_group).collect()
        }
    };
    Ok(Scores { groups, cubes })
}

impl<B: Backend> Scores<B> {
    /// Keeps the given number of negatives of each edge, those with the highest scores.
    fn hardest(self, count: usize) -> Self {
        let groups = self.groups.into_iter().map(|group| group.hardest(count)).collect();
        Self { groups, ..self }
    }

    /// Returns the sum of the edges' losses, times their weights, `[1]`, and the number of edges that score above all of
    /// their negatives, `[1]`.
    fn loss(&self, kind: LinkLoss) -> (Tensor<B, 1>, Tensor<B, 1>) {
        let device = self.groups.first().map(|group| group.positive.device()).unwrap_or_default();
        let mut correct = Tensor::zeros([1], &device);
        let mut total: Option<Tensor<B, 1>> = None;
        for group in &self.groups {
            let loss = group.loss(kind);
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

/// Returns the sum of weights.
fn total(weights: &[f32]) -> f64 {
    weights.iter().map(|&weight| f64::from(weight)).sum()
}

/// Returns a matrix that is true at the given (row, column) positions.
pub(super) fn mask<B: Backend>(
    places: &[(u32, u32)],
    [rows, columns]: [usize; 2],
    device: &B::Device,
) -> Tensor<B, 2, Bool> {
    let mut mask = vec![false; rows * columns];
    places.iter().for_each(|&(row, column)| mask[row as usize * columns + column as usize] = true);
    Tensor::from_data(TensorData::new(mask, [rows, columns]), device)
}
