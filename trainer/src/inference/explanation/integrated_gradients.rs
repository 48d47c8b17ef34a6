//! Integrated gradients of the scores of a batch.

use super::ExplanationConfig;
use crate::error::TrainError;
use crate::fit::AutodiffTurn;
use crate::metrics::host_rows;
use crate::models::{InputRows, ModelInput};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::ops::consumed;

/// The inputs of a model for a batch.
#[derive(Clone, Debug)]
pub(crate) struct Inputs<B: Backend> {
    /// The neighborhoods of the targets.
    pub(crate) graph: ModelInput<B>,
    /// The features of target edges, if the model reads them.
    pub(crate) of_targets: Option<Tensor<B, 2>>,
}

/// The contributions of some rows, `[rows, width]`.
pub(super) struct RowContributions {
    /// The nodes or edges of the rows; `None` for the target edges.
    pub(super) of: Option<InputRows>,
    pub(super) width: usize,
    pub(super) values: Vec<f32>,
    pub(super) contributions: Vec<f32>,
}

/// The contributions of all inputs to the scores of a batch.
pub(crate) struct BatchContributions {
    /// By target, the output that is explained.
    pub(super) outputs: Vec<usize>,
    /// By target, its value.
    pub(super) scores: Vec<f32>,
    /// By target, its value for inputs of zero.
    pub(super) baselines: Vec<f32>,
    pub(super) rows: Vec<RowContributions>,
}

/// The rows of one kind of input.
struct Leaf<B: Backend> {
    of: Option<InputRows>,
    rows: Tensor<B, 2>,
}

impl<B: Backend> Inputs<B> {
    /// Multiplies all rows by a factor. Also returns the products, in a fixed order.
    fn scaled(&self, factor: f64, track: impl Fn(Tensor<B, 2>) -> Tensor<B, 2>) -> (Self, Vec<Leaf<B>>) {
        let mut leaves = Vec::new();
        let mut scale = |of: Option<InputRows>, rows: Tensor<B, 2>| {
            if rows.dims().contains(&0) {
                return rows;
            }
            let rows = track(rows.mul_scalar(factor));
            leaves.push(Leaf { of, rows: rows.clone() });
            rows
        };
        let graph = self.graph.clone().map_rows(&mut |of, rows| scale(Some(of), rows));
        let of_targets = self.of_targets.clone().map(|rows| scale(None, rows));
        (Self { graph, of_targets }, leaves)
    }
}

/// Computes the contributions of all inputs to the requested score of each target, by the midpoint rule. `score` computes all
/// outputs, `[targets, outputs]`, without dropout, and its parameters must not be tracked.
pub(crate) fn integrated_gradients<B: AutodiffBackend>(
    inputs: &Inputs<B>,
    config: &ExplanationConfig,
    score: &dyn Fn(Inputs<B>) -> Result<Tensor<B, 2>, TrainError>,
) -> Result<BatchContributions, TrainError> {
    let ExplanationConfig { steps, output, decision, .. } = config;
    let steps = *steps;
    let _turn = AutodiffTurn::take();
    let at_inputs = score(inputs.clone())?;
    let [num_targets, width] = at_inputs.dims();
    let device = at_inputs.device();
    let values = host_rows(&at_inputs);
    let mut outputs = Vec::with_capacity(num_targets);
    for of_target in values.chunks_exact(width) {
        // A score that is not a number has contributions that are none either.
        outputs.push(output.unwrap_or_else(|| decision.class_of(of_target).unwrap_or(0) as usize));
    }
    let (zeros, _) = inputs.scaled(0.0, |rows| rows);
    let at_zeros = host_rows(&score(zeros)?);
    let mut mask = vec![0.0_f32; num_targets * width];
    for (target, &output) in outputs.iter().enumerate() {
        mask[target * width + output] = 1.0;
    }
    let mask = Tensor::<B, 2>::from_data(TensorData::new(mask, [num_targets, width]), &device);
    let (_, of_inputs) = inputs.scaled(1.0, |rows| rows);
    let mut sums: Vec<Option<Tensor<B::InnerBackend, 2>>> = vec![None; of_inputs.len()];
    for step in 0..steps {
        let factor = (step as f64 + 0.5) / steps as f64;
        let (scaled, leaves) = inputs.scaled(factor, Tensor::require_grad);
        // Neighborhoods are disjoint, so that the gradient of the sum is the gradient of each target's score.
        let mut gradients = (score(scaled)? * mask.clone()).sum().backward();
        for (sum, leaf) in sums.iter_mut().zip(&leaves) {
            let Some(gradient) = leaf.rows.grad_remove(&mut gradients) else { continue };
            *sum = Some(match sum.take() {
                Some(sum) => sum + gradient,
                None => gradient,
            });
        }
        consumed();
    }
    let mut rows = Vec::with_capacity(of_inputs.len());
    for (Leaf { of, rows: of_slot }, sum) in of_inputs.into_iter().zip(sums) {
        let [_, width] = of_slot.dims();
        let of_slot = of_slot.inner();
        let values = host_rows(&of_slot);
        let contributions = match sum {
            Some(sum) => host_rows(&(of_slot * sum.div_scalar(steps as f64))),
            // The scores do not depend on these rows.
            None => vec![0.0; values.len()],
        };
        rows.push(RowContributions { of, width, values, contributions });
    }
    let mut scores = Vec::with_capacity(num_targets);
    let mut baselines = Vec::with_capacity(num_targets);
    for (target, &output) in outputs.iter().enumerate() {
        scores.push(values[target * width + output]);
        baselines.push(at_zeros[target * width + output]);
    }
    Ok(BatchContributions { outputs, scores, baselines, rows })
}
