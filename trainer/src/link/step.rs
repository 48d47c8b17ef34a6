//! Scores and the loss of a batch of edges.

use super::batch::{LinkTensorBatch, NegativeRows, SharedRows};
use super::config::{LinkLoss, LinkTrainingConfig};
use crate::data_parallel::{Forward, JudgedSeeds, StepGradients, exchange};
use crate::embeddings::Embeddings;
use crate::models::{LinkModel, Mode, ModelInput};
use crate::ops::{GnnBackend, matmul};
use crate::train_error::TrainError;
use burn::tensor::activation::{log_sigmoid, log_softmax};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Int, Tensor, TensorData};
use edgecut_cluster::ProcessGroup;
use std::time::Instant;

/// The score of what is no negative: so low that no loss sees it.
const NO_SCORE: f32 = -1e30;

/// The scores of a batch's edges and of their negatives.
pub(super) struct Scores<B: Backend> {
    /// Groups of edges with as many negatives: of each edge its own score, `[edges, 1]`, and those of its negatives,
    /// `[edges, negatives]`.
    pub(super) groups: Vec<(Tensor<B, 2>, Tensor<B, 2>)>,
    /// The third powers of the rows of all ends and relations, summed, `[1]`; where they are wanted.
    cubes: Option<Tensor<B, 1>>,
}

/// Forward, backward and exchange of one batch, as [`step_gradients`](crate::step_gradients) for nodes.
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
    let start = Instant::now();
    let forward = match batch.graph.take_input() {
        None => Forward { judged: None, start },
        Some(input) => {
            let num_seeds = batch.src.len();
            let scores = scores(model, &input, &batch, mode, config.n3_weight > 0.0)?;
            let (loss, correct) = scores.loss(config.loss);
            let loss = match scores.cubes {
                Some(cubes) => loss + cubes.mul_scalar(config.n3_weight),
                None => loss,
            };
            let judged = Tensor::cat(vec![loss.clone().detach(), correct], 0);
            Forward { judged: Some(JudgedSeeds { loss, judged, num_seeds }), start }
        }
    };
    exchange(model, forward, Some((embeddings, pulled, config.training.embedding_lr)), world)
}

/// Scores of all pairs of a batch.
pub(super) fn scores<B: GnnBackend>(
    model: &LinkModel<B>,
    input: &ModelInput<B>,
    batch: &LinkTensorBatch<B>,
    mode: Mode,
    with_cubes: bool,
) -> Result<Scores<B>, TrainError> {
    let rows = model.encode(input, mode).map_err(|e| TrainError::Batch { what: e.to_string() })?;
    let (device, [_, channels]) = (rows.device(), rows.dims());
    let select = |wanted: &[u32]| rows.clone().select(0, indices::<B>(wanted, &device));
    let (src, dst) = (select(&batch.src), select(&batch.dst));
    let cube = |x: &Tensor<B, 2>| x.clone().abs().powi_scalar(3).sum();
    let cubes = with_cubes.then(|| {
        let ends = cube(&src) + cube(&dst);
        match model.decoder.relation_rows(&batch.edge_types, &device) {
            Some(relations) => ends + cube(&relations),
            None => ends,
        }
    });
    let query = model.decoder.query(src, &batch.edge_types);
    let positive = (query.clone() * dst).sum_dim(1);
    let groups = match &batch.negatives {
        NegativeRows::OfEach { num: 0, .. } => {
            let edges = batch.src.len();
            vec![(positive, Tensor::zeros([edges, 0], &device))]
        }
        NegativeRows::OfEach { num, rows: negatives } => {
            let edges = batch.src.len();
            let negatives = select(negatives).reshape([edges, *num, channels]);
            let query = query.reshape([edges, 1, channels]);
            vec![(positive, (negatives * query).sum_dim(2).reshape([edges, *num]))]
        }
        NegativeRows::Shared(groups) => {
            let of_group = |SharedRows { edges, rows: negatives, own }: &SharedRows| {
                let all = edges.len() == batch.src.len();
                let part = |x: &Tensor<B, 2>| match all {
                    true => x.clone(),
                    false => x.clone().select(0, indices::<B>(edges, &device)),
                };
                let scores = matmul(part(&query), select(negatives).transpose());
                let scores = match own.is_empty() {
                    true => scores,
                    false => scores.mask_fill(mask::<B>(own, [edges.len(), negatives.len()], &device), NO_SCORE),
                };
                (part(&positive), scores)
            };
            groups.iter().map(of_group).collect()
        }
    };
    Ok(Scores { groups, cubes })
}

impl<B: Backend> Scores<B> {
    /// The sum of the edges' losses, `[1]`, and how many edges score above all their negatives, `[1]`.
    fn loss(&self, kind: LinkLoss) -> (Tensor<B, 1>, Tensor<B, 1>) {
        let device = self.groups.first().map(|(positive, _)| positive.device()).unwrap_or_default();
        let mut correct = Tensor::zeros([1], &device);
        let mut total: Option<Tensor<B, 1>> = None;
        for (positive, negatives) in &self.groups {
            let [_, num] = negatives.dims();
            let loss = match kind {
                LinkLoss::Bce => {
                    let mut sum = log_sigmoid(positive.clone()).sum().neg();
                    if num > 0 {
                        sum = sum - log_sigmoid(negatives.clone().neg()).sum();
                    }
                    sum.div_scalar(1.0 + num as f64)
                }
                LinkLoss::Softmax => {
                    let all = Tensor::cat(vec![positive.clone(), negatives.clone()], 1);
                    log_softmax(all, 1).narrow(1, 0, 1).sum().neg()
                }
            };
            if num > 0 {
                correct = correct + positive.clone().greater(negatives.clone().max_dim(1)).float().sum();
            }
            total = Some(match total {
                Some(total) => total + loss,
                None => loss,
            });
        }
        // A batch with edges has a group, and with it a loss.
        (total.unwrap_or_else(|| Tensor::zeros([1], &device)), correct)
    }
}

/// True at some places.
fn mask<B: Backend>(places: &[(usize, usize)], [rows, columns]: [usize; 2], device: &B::Device) -> Tensor<B, 2, Bool> {
    let mut mask = vec![false; rows * columns];
    places.iter().for_each(|&(row, column)| mask[row * columns + column] = true);
    Tensor::from_data(TensorData::new(mask, [rows, columns]), device)
}

fn indices<B: Backend>(rows: &[u32], device: &B::Device) -> Tensor<B, 1, Int> {
    let rows: Vec<i64> = rows.iter().map(|&row| i64::from(row)).collect();
    Tensor::from_data(&rows[..], device)
}
