//! The scores of edges and of their negatives.

use super::loss::LinkLoss;
use crate::metrics::host_rows;
use burn::tensor::activation::log_sigmoid;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};

/// The score of a masked pair: so low that its loss and gradient are 0, but finite, because infinity could cause NaN.
pub(super) const NO_SCORE: f32 = -1e30;

/// The scores of a group of edges and of their negatives.
pub(super) struct ScoredEdges<B: Backend> {
    /// The score of each edge, `[edges, 1]`.
    pub(super) positive: Tensor<B, 2>,
    /// The scores of its negatives, `[edges, columns]`; [`NO_SCORE`] for masked pairs.
    pub(super) negatives: Tensor<B, 2>,
    /// The logarithms of the candidates' probabilities to be in the batch, `[1, columns]`; `None` if they are not
    /// corrected.
    pub(super) log_probabilities: Option<Tensor<B, 2>>,
    /// The number of unmasked negatives of each edge; `None` if no pair is masked.
    pub(super) unmasked: Option<Vec<u32>>,
    /// The weight of each edge in the loss; `None` if all weigh 1.
    pub(super) weights: Option<Vec<f32>>,
}

impl<B: Backend> ScoredEdges<B> {
    /// Keeps the `count` negatives of each edge with the highest scores. Negatives with equal scores keep their order. The
    /// scores are read back from the device.
    pub(super) fn hardest(self, count: usize) -> Self {
        let [edges, columns] = self.negatives.dims();
        if count >= columns {
            return self;
        }
        let mut hardest = Vec::with_capacity(edges * count);
        for scores in host_rows(&self.negatives).chunks_exact(columns) {
            let mut order: Vec<usize> = (0..columns).collect();
            order.select_nth_unstable_by(count - 1, |&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
            order.truncate(count);
            order.sort_unstable();
            hardest.extend(order.into_iter().map(|column| column as i64));
        }
        let device = self.negatives.device();
        let hardest = Tensor::<B, 2, Int>::from_data(TensorData::new(hardest, [edges, count]), &device);
        let log_probabilities = self.log_probabilities.map(|of_columns| of_columns.expand([edges, columns]));
        Self {
            log_probabilities: log_probabilities.map(|of_pairs| of_pairs.gather(1, hardest.clone())),
            negatives: self.negatives.gather(1, hardest),
            // Masked negatives have the lowest scores, so that unmasked ones are kept first.
            unmasked: self.unmasked.map(|unmasked| unmasked.into_iter().map(|num| num.min(count as u32)).collect()),
            ..self
        }
    }

    /// Returns the sum of the losses of the edges times their weights, `[1]`.
    pub(super) fn loss(&self, kind: LinkLoss) -> Tensor<B, 1> {
        let [_, columns] = self.negatives.dims();
        // Without negatives, edges cannot be ranked. Their scores can only grow.
        let losses = if columns == 0 { log_sigmoid(self.positive.clone()).neg() } else { kind.of_edges(self) };
        let losses = match &self.weights {
            Some(weights) => losses * self.column(weights.clone()),
            None => losses,
        };
        losses.sum()
    }

    /// Returns the scores of negatives as estimates over all nodes: a candidate that is in the batch with probability `p`
    /// stands for `1 / p` nodes, so that the logarithm of `p` is subtracted.
    pub(super) fn corrected_negatives(&self) -> Tensor<B, 2> {
        match &self.log_probabilities {
            Some(log_probabilities) => self.negatives.clone() - log_probabilities.clone(),
            None => self.negatives.clone(),
        }
    }

    /// Returns the number of unmasked negatives of each edge, `[edges, 1]`.
    pub(super) fn num_negatives(&self) -> Tensor<B, 2> {
        let [edges, columns] = self.negatives.dims();
        self.column(match &self.unmasked {
            Some(unmasked) => unmasked.iter().map(|&num| num as f32).collect(),
            None => vec![columns as f32; edges],
        })
    }

    /// Returns the mean of terms, `[edges, columns]`, over the unmasked negatives of each edge, `[edges, 1]`. The terms of
    /// masked pairs must be 0. The mean of an edge without negatives is 0.
    pub(super) fn mean_of_negatives(&self, terms: Tensor<B, 2>) -> Tensor<B, 2> {
        terms.sum_dim(1) / self.num_negatives().clamp_min(1.0)
    }

    fn column(&self, values: Vec<f32>) -> Tensor<B, 2> {
        let shape = [values.len(), 1];
        Tensor::from_data(TensorData::new(values, shape), &self.positive.device())
    }

    /// Returns the number of edges that score above all of their negatives, `[1]`. Edges without negatives do not
    /// count.
    pub(super) fn correct(&self) -> Option<Tensor<B, 1>> {
        let [_, columns] = self.negatives.dims();
        if columns == 0 {
            return None;
        }
        // Counts instead of the greatest negative: burn compiles a maximum for all pairs of number types.
        let lower = self.positive.clone().greater(self.negatives.clone()).float().sum_dim(1);
        let above = lower.greater_equal_elem(columns as f32).float();
        let judged = self.num_negatives().greater_elem(0.0).float();
        Some((above * judged).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::mask;
    use super::*;
    use burn::backend::Autodiff;
    use edgecut_gnn::Cpu;

    type Grad = Autodiff<Cpu>;

    const MASKED: [(u32, u32); 6] = [(0, 1), (1, 0), (1, 3), (2, 0), (2, 1), (2, 2)];
    const WEIGHTS: [f32; 3] = [1.0, 0.5, 2.0];
    const LOG_PROBABILITIES: [f64; 4] = [-0.5, -1.0, -0.25, -2.0];

    fn is_masked(edge: usize, column: usize) -> bool {
        MASKED.contains(&(edge as u32, column as u32))
    }

    /// Returns the scores of three edges, and of four columns of negatives.
    fn numbers() -> (Vec<f64>, Vec<f64>) {
        let negatives = vec![0.1, 9.0, -0.7, 0.3, 8.0, -1.5, -0.5, 7.0, 6.0, 5.0, 4.0, 0.9];
        (vec![0.5, -0.75, 2.0], negatives)
    }

    /// Makes tensors of scores, whose masked pairs have no score.
    fn scored<B: Backend>(positive: Tensor<B, 2>, negatives: Tensor<B, 2>) -> ScoredEdges<B> {
        let device = positive.device();
        let unmasked = (0..3).map(|edge| (0..4).filter(|&at| !is_masked(edge, at)).count() as u32);
        let log_probabilities = TensorData::new(LOG_PROBABILITIES.to_vec(), [1, 4]);
        ScoredEdges {
            positive,
            negatives: negatives.mask_fill(mask::<B>(&MASKED, [3, 4], &device), NO_SCORE),
            log_probabilities: Some(Tensor::from_data(log_probabilities, &device)),
            unmasked: Some(unmasked.collect()),
            weights: Some(WEIGHTS.to_vec()),
        }
    }

    fn matrix<B: Backend>(values: &[f64], columns: usize) -> Tensor<B, 2> {
        Tensor::from_data(TensorData::new(values.to_vec(), [values.len() / columns, columns]), &Default::default())
    }

    fn log_sigmoid_of(x: f64) -> f64 {
        -(1.0 + (-x).exp()).ln()
    }

    /// Computes the loss of an edge by the formulas of the documentation. `held` are the scores that weights are computed
    /// of, without gradients.
    fn loss_of(kind: LinkLoss, score: f64, others: &[(usize, f64)], held: &[f64]) -> f64 {
        let count = others.len() as f64;
        let scores = others.iter().map(|&(_, other)| other);
        match kind {
            LinkLoss::Bce(_) => {
                -(log_sigmoid_of(score) + scores.map(|other| log_sigmoid_of(-other)).sum::<f64>()) / (1.0 + count)
            }
            LinkLoss::Softmax(_) => {
                let all: f64 = others.iter().map(|&(at, other)| (other - LOG_PROBABILITIES[at]).exp()).sum();
                -(score.exp() / (score.exp() + all)).ln()
            }
            LinkLoss::Bpr(_) => -scores.map(|other| log_sigmoid_of(score - other)).sum::<f64>() / count,
            LinkLoss::Margin(loss) => scores.map(|other| (loss.margin - score + other).max(0.0)).sum::<f64>() / count,
            LinkLoss::SelfAdversarial(loss) => {
                let weights: Vec<f64> = held.iter().map(|other| (loss.temperature * other).exp()).collect();
                let all: f64 = weights.iter().sum();
                let terms = others.iter().zip(&weights).map(|(&(_, other), w)| w / all * log_sigmoid_of(-other));
                -0.5 * (log_sigmoid_of(score) + terms.sum::<f64>())
            }
        }
    }

    /// Computes the sum of the losses with plain loops.
    fn expected(kind: LinkLoss, positive: &[f64], negatives: &[f64]) -> f64 {
        let (_, held) = numbers();
        let mut sum = 0.0;
        for (edge, &score) in positive.iter().enumerate() {
            let columns: Vec<usize> = (0..4).filter(|&at| !is_masked(edge, at)).collect();
            let others: Vec<(usize, f64)> = columns.iter().map(|&at| (at, negatives[edge * 4 + at])).collect();
            let held: Vec<f64> = columns.iter().map(|&at| held[edge * 4 + at]).collect();
            sum += f64::from(WEIGHTS[edge]) * loss_of(kind, score, &others, &held);
        }
        sum
    }

    /// Returns the derivatives of a function by each value, as differences.
    fn slopes(values: &[f64], function: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let step = 1e-6;
        let mut values = values.to_vec();
        let mut slopes = Vec::new();
        for at in 0..values.len() {
            let value = values[at];
            values[at] = value + step;
            let above = function(&values);
            values[at] = value - step;
            slopes.push((above - function(&values)) / (2.0 * step));
            values[at] = value;
        }
        slopes
    }

    fn kinds() -> Vec<LinkLoss> {
        let mut kinds = LinkLoss::all();
        kinds.extend(
            ["margin:margin=0.25", "self-adversarial:temperature=0.5"]
                .map(|kind| kind.parse::<LinkLoss>().expect("a loss")),
        );
        kinds
    }

    #[test]
    fn losses_and_their_gradients_are_those_of_plain_loops() {
        let (positive, negatives) = numbers();
        for kind in kinds() {
            let edges = matrix::<Grad>(&positive, 1).require_grad();
            let others = matrix::<Grad>(&negatives, 4).require_grad();
            let loss = scored(edges.clone(), others.clone()).loss(kind);
            let found = f64::from(loss.clone().into_scalar());
            assert!((found - expected(kind, &positive, &negatives)).abs() < 1e-5, "{kind}: {found}");
            let gradients = loss.backward();
            let of_edges = slopes(&positive, |positive| expected(kind, positive, &negatives));
            let of_negatives = slopes(&negatives, |negatives| expected(kind, &positive, negatives));
            for (tensor, slopes) in [(edges, of_edges), (others, of_negatives)] {
                let found = tensor.grad(&gradients).expect("a gradient").into_data();
                for (at, (found, slope)) in found.iter::<f64>().zip(slopes).enumerate() {
                    assert!((found - slope).abs() < 1e-5, "{kind}, {at}: {found}, expected {slope}");
                }
            }
        }
    }

    /// Kept negatives are the highest unmasked ones, for each edge: the others have no share in the loss and get no gradient.
    #[test]
    fn hard_negatives_have_the_loss_of_the_highest_scores_alone() {
        let (positive, negatives) = numbers();
        for kind in kinds() {
            for count in 1..=4 {
                let others = matrix::<Grad>(&negatives, 4).require_grad();
                let edges = ScoredEdges { weights: None, ..scored(matrix::<Grad>(&positive, 1), others.clone()) };
                let group = edges.hardest(count);
                assert_eq!(group.negatives.dims(), [3, count]);
                let mut expected = 0.0;
                let mut is_kept = [false; 12];
                for (edge, &score) in positive.iter().enumerate() {
                    let columns = (0..4).filter(|&at| !is_masked(edge, at));
                    let mut of_edge: Vec<(usize, f64)> = columns.map(|at| (at, negatives[edge * 4 + at])).collect();
                    of_edge.sort_by(|(_, a), (_, b)| b.total_cmp(a));
                    of_edge.truncate(count);
                    of_edge.iter().for_each(|(at, _)| is_kept[edge * 4 + at] = true);
                    let held: Vec<f64> = of_edge.iter().map(|(_, score)| *score).collect();
                    expected += loss_of(kind, score, &of_edge, &held);
                }
                let loss = group.loss(kind);
                let found = f64::from(loss.clone().into_scalar());
                assert!((found - expected).abs() < 1e-5, "{kind}, {count}: {found}, expected {expected}");
                let gradient = others.grad(&loss.backward()).expect("a gradient").into_data();
                let has_gradient: Vec<bool> = gradient.iter::<f64>().map(|value| value != 0.0).collect();
                for (at, (has_gradient, is_kept)) in has_gradient.into_iter().zip(is_kept).enumerate() {
                    assert!(is_kept || !has_gradient, "{kind}, {count}: negative {at} is left out");
                }
            }
        }
    }

    #[test]
    fn masked_pairs_are_in_no_accuracy() {
        let (positive, negatives) = numbers();
        let group = scored::<Cpu>(matrix(&positive, 1), matrix(&negatives, 4));
        let wins =
            |edge: usize| (0..4).filter(|&at| !is_masked(edge, at)).all(|at| positive[edge] > negatives[edge * 4 + at]);
        let expected = (0..3).filter(|&edge| wins(edge)).count();
        assert_eq!(group.correct().expect("negatives").into_scalar(), expected as f32);
    }

    #[test]
    fn an_edge_without_negatives_is_not_judged() {
        let (positive, negatives) = numbers();
        let group = scored::<Cpu>(matrix(&positive, 1), matrix(&negatives, 4));
        let device = Default::default();
        let all: Vec<(u32, u32)> = (0..3).flat_map(|edge| (0..4).map(move |column| (edge, column))).collect();
        let group = ScoredEdges {
            negatives: group.negatives.mask_fill(mask::<Cpu>(&all, [3, 4], &device), NO_SCORE),
            unmasked: Some(vec![0; 3]),
            log_probabilities: None,
            positive: group.positive,
            weights: None,
        };
        assert_eq!(group.correct().expect("columns").into_scalar(), 0.0);
        for kind in LinkLoss::all() {
            let loss = group.loss(kind).into_scalar();
            match kind {
                LinkLoss::Bce(_) | LinkLoss::SelfAdversarial(_) => assert!(loss > 0.0, "{kind}: {loss}"),
                _ => assert!(loss.abs() < 1e-6, "{kind}: {loss}"),
            }
        }
    }
}
