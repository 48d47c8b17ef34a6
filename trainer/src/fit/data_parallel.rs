//! One training step over all ranks.

use super::autodiff_turn::AutodiffTurn;
use crate::batch_input::TensorBatch;
use crate::embeddings::{Embeddings, PulledRows};
use crate::gradient_sum::Summed;
use crate::gradients::{FlatLengthError, gradient_pieces, read_together, unflatten_gradients};
use crate::models::{Mode, NodeClassifier};
use crate::nn::{Classification, ClassificationLoss};
use crate::ops::{GnnBackend, Precision};
use crate::step_options::StepOptions;
use crate::train_error::TrainError;
use burn::module::AutodiffModule;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_loader::LoaderError;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The base in which a count is encoded as two `f32` digits, remainder and quotient. The sums of the digits over up to
/// 16,384 ranks stay below 2^24 if each rank has fewer than a million seeds in a step, so `f32` holds them exactly.
const COUNT_BASE: f64 = 1024.0;
/// The number of `f32` values that encode [`SeedTotals`]: the loss, two digits for each of the two counts and for the
/// whole part of the weight, and the rest of the weight.
const NUM_TOTALS: usize = 8;

/// Sums over the seeds of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeedTotals {
    /// The sum of the seeds' losses, times their weights.
    pub loss: f64,
    /// The number of correctly classified seeds.
    pub correct: f64,
    /// The number of seeds.
    pub seeds: f64,
    /// The sum of the seeds' weights, which is their number unless classes have weights.
    pub weight: f64,
}

impl SeedTotals {
    /// Adds the totals of other seeds.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.correct += other.correct;
        self.seeds += other.seeds;
        self.weight += other.weight;
    }

    /// Appends the totals to a vector of gradients, so that one all-reduce sums both.
    fn append_to(&self, flat: &mut Vec<f32>) {
        flat.push(self.loss as f32);
        for count in [self.correct, self.seeds, self.weight.floor()] {
            let high = (count / COUNT_BASE).floor();
            flat.extend([(count - high * COUNT_BASE) as f32, high as f32]);
        }
        flat.push(self.weight.fract() as f32);
    }

    /// Removes the totals that [`SeedTotals::append_to`] appended from a vector, or from a sum of such vectors.
    fn split_off(flat: &mut Vec<f32>) -> Self {
        let numbers: Vec<f64> =
            flat.split_off(flat.len().saturating_sub(NUM_TOTALS)).into_iter().map(f64::from).collect();
        let number = |index: usize| numbers.get(index).copied().unwrap_or(0.0);
        let count = |low: usize| number(low) + number(low + 1) * COUNT_BASE;
        Self { loss: number(0), correct: count(1), seeds: count(3), weight: count(5) + number(7) }
    }

    /// Returns the mean loss, weighted by the seeds' weights, or `None` without seeds.
    pub fn mean_loss(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.loss / self.weight)
    }

    /// Returns the fraction of correctly classified seeds, or `None` without seeds.
    pub fn accuracy(&self) -> Option<f64> {
        (self.seeds > 0.0).then(|| self.correct / self.seeds)
    }
}

/// The gradients of one step, averaged over the seeds of all ranks.
#[derive(Clone, Debug)]
pub struct StepGradients {
    /// The gradients of all parameters, concatenated.
    pub flat: Vec<f32>,
    /// Loss and accuracy of the step over all ranks.
    pub totals: SeedTotals,
    /// The number of this rank's seeds in the step.
    pub own_seeds: usize,
    /// The time of the forward and backward passes.
    pub compute: Duration,
    /// The time of the all-reduce, including the wait for slower ranks.
    pub allreduce: Duration,
}

impl StepGradients {
    /// Returns the gradients in the form that the optimizer of `model` expects.
    ///
    /// # Errors
    /// [`FlatLengthError`] if the gradients belong to a model of another size.
    pub fn of_model<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
        model: &M,
    ) -> Result<GradientsParams, FlatLengthError> {
        unflatten_gradients(model, &self.flat)
    }
}

/// A batch that a model of type `M` classifies. It consists of nodes ([`NodeClassifier`]) or of whole graphs
/// ([`GraphClassifier`](crate::models::GraphClassifier)).
pub trait ClassifiedBatch<B: GnnBackend, M> {
    /// Returns the logits and the labels of the batch's seeds, or `None` for a batch without seeds.
    ///
    /// # Shapes
    /// - logits: `[num_seeds, num_classes]`
    ///
    /// # Errors
    /// [`TrainError::Batch`] if the batch does not match the model.
    fn classify(self, model: &M, mode: Mode) -> Result<Option<Logits<B>>, TrainError>;
}

/// Logits `[num_seeds, num_classes]`, and the label of each row.
pub type Logits<B> = (Tensor<B, 2>, Vec<i64>);

impl<B: GnnBackend, M: NodeClassifier<B>> ClassifiedBatch<B, M> for TensorBatch<B> {
    fn classify(self, model: &M, mode: Mode) -> Result<Option<Logits<B>>, TrainError> {
        let Some(input) = self.input else { return Ok(None) };
        let logits = model.forward(input, mode).map_err(TrainError::batch)?;
        Ok(Some((logits, self.labels)))
    }
}

/// Sums the totals of all ranks.
fn all_reduce_totals(mine: &SeedTotals, world: &mut ProcessGroup) -> Result<SeedTotals, TrainError> {
    let mut sums = [mine.loss, mine.correct, mine.seeds, mine.weight];
    world.all_reduce(&mut sums, ReduceOp::Sum)?;
    let [loss, correct, seeds, weight] = sums;
    Ok(SeedTotals { loss, correct, seeds, weight })
}

/// Runs the forward pass, the backward pass and the all-reduce of one batch with the default [`StepOptions`]. Returns
/// the gradient of the mean loss over the seeds of all ranks, bit-identical on all ranks. A rank without seeds takes
/// part with weight zero, so that unequal numbers of seeds neither block the collective nor bias the mean.
///
/// # Errors
/// A batch that does not match the model, or a failure of the job.
pub fn step_gradients<B: AutodiffBackend + GnnBackend, M: AutodiffModule<B>>(
    model: &M,
    batch: impl ClassifiedBatch<B, M>,
    mode: Mode,
    world: &mut ProcessGroup,
) -> Result<StepGradients, TrainError> {
    StepOptions::default().step_gradients(model, batch, mode, world)
}

impl StepOptions {
    /// Like [`step_gradients`], with these options.
    ///
    /// # Errors
    /// The errors of [`step_gradients`]; for [`Precision::F16`] also gradients that overflow.
    pub fn step_gradients<B: AutodiffBackend + GnnBackend, M: AutodiffModule<B>>(
        &self,
        model: &M,
        batch: impl ClassifiedBatch<B, M>,
        mode: Mode,
        world: &mut ProcessGroup,
    ) -> Result<StepGradients, TrainError> {
        let forward = forward_classified(model, batch, mode, &self.loss)?;
        backward_and_all_reduce(model, forward, None, self, world)
    }

    /// Like [`StepOptions::step_gradients`], for a model that reads embeddings. Also updates the embeddings with the
    /// learning rate `lr`.
    ///
    /// # Errors
    /// The errors of [`StepOptions::step_gradients`].
    pub fn step_with_embeddings<B: AutodiffBackend + GnnBackend, M: AutodiffModule<B> + NodeClassifier<B>>(
        &self,
        model: &M,
        (embeddings, lr): (&mut Embeddings, f64),
        batch: TensorBatch<B>,
        mode: Mode,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<StepGradients, TrainError> {
        let (batch, pulled) = embeddings.pull_tracked(batch, device)?;
        let forward = forward_classified(model, batch, mode, &self.loss)?;
        backward_and_all_reduce(model, forward, Some((embeddings, pulled, lr)), self, world)
    }
}

/// The result of the forward pass over this rank's seeds.
pub(crate) struct Forward<B: Backend> {
    /// `None` without seeds.
    pub(crate) judged: Option<SeedLoss<B>>,
    pub(crate) start: Instant,
    /// Taken before the pass, and dropped after the backward pass.
    pub(crate) turn: AutodiffTurn,
}

/// The losses of this rank's seeds, still on the device.
pub(crate) struct SeedLoss<B: Backend> {
    /// Their sum, `[1]`.
    pub(crate) loss: Tensor<B, 1>,
    /// The values to report, `[2]`: the sum of the losses and the number of correct seeds.
    pub(crate) judged: Tensor<B, 1>,
    pub(crate) num_seeds: usize,
    /// The sum of the seeds' weights.
    pub(crate) weight: f64,
}

fn forward_classified<B: AutodiffBackend + GnnBackend, M>(
    model: &M,
    batch: impl ClassifiedBatch<B, M>,
    mode: Mode,
    loss: &ClassificationLoss,
) -> Result<Forward<B>, TrainError> {
    let turn = AutodiffTurn::take();
    let start = Instant::now();
    let Some((logits, labels)) = batch.classify(model, mode)? else {
        return Ok(Forward { judged: None, start, turn });
    };
    // The sum over this rank's seeds instead of the mean: each rank's weight is then that of its seeds.
    let Classification { sum, judged, num_seeds, weight, .. } = loss.of(logits, &labels).map_err(TrainError::batch)?;
    Ok(Forward { judged: Some(SeedLoss { loss: sum, judged, num_seeds, weight }), start, turn })
}

/// Runs the backward pass, and exchanges gradients, totals and embedding gradients between the ranks.
pub(crate) fn backward_and_all_reduce<B: AutodiffBackend, M: AutodiffModule<B>>(
    model: &M,
    forward: Forward<B>,
    embedded: Option<(&mut Embeddings, PulledRows<B>, f64)>,
    options: &StepOptions,
    world: &mut ProcessGroup,
) -> Result<StepGradients, TrainError> {
    let Forward { judged, start: start_of_pass, turn } = forward;
    let mut of_rows = None;
    let mut pieces = None;
    let mut judged_seeds = None;
    if let Some(SeedLoss { loss, judged, num_seeds, weight }) = judged {
        let mut gradients = loss.backward();
        if let Some((_, pulled, _)) = &embedded {
            of_rows = Some(pulled.take_gradients(&mut gradients)?);
        }
        pieces = Some(gradient_pieces(model, GradientsParams::from_grads(gradients, model)));
        judged_seeds = Some((judged.inner(), num_seeds, weight));
    }
    drop(turn);
    // A rank without seeds contributes zeros.
    let pieces = pieces.unwrap_or_else(|| gradient_pieces(model, GradientsParams::new()));
    let Summed { mut pieces, over_all_ranks } = options.gradient_sum.sum_on_gpus(pieces)?;
    let own = judged_seeds.as_ref().map(|&(_, num_seeds, weight)| (num_seeds, weight));
    pieces.extend(judged_seeds.map(|(judged, ..)| judged));
    // Gradients, loss and count are copied from the device together: each copy waits for the device.
    let mut flat = read_together(pieces);
    let mut mine = SeedTotals::default();
    if let Some((num_seeds, weight)) = own {
        let [loss, correct] = flat.split_off(flat.len() - 2)[..] else { unreachable!("two values were split off") };
        mine = SeedTotals { loss: f64::from(loss), correct: f64::from(correct), seeds: num_seeds as f64, weight };
    }
    let compute = start_of_pass.elapsed();
    let start = Instant::now();
    let mut pulling = Duration::ZERO;
    if let (Some((embeddings, pulled, _)), Some(of_rows)) = (&embedded, &of_rows) {
        embeddings.push(pulled, of_rows)?;
        pulling = pulled.elapsed;
    }
    // One collective carries everything that ranks exchange. It is also the barrier between the pushes of embedding
    // gradients above and the step below: no rank leaves it before all ranks have pushed.
    let totals = if over_all_ranks {
        all_reduce_totals(&mine, world)?
    } else {
        mine.append_to(&mut flat);
        world.all_reduce(&mut flat, ReduceOp::Sum)?;
        SeedTotals::split_off(&mut flat)
    };
    // Products in f16 may overflow to infinity. The check follows the all-reduce, so all ranks see the same values and
    // stop.
    if options.precision == Precision::F16 && flat.iter().any(|gradient| !gradient.is_finite()) {
        let what = "gradients exceed the range of f16: train with `precision=bf16`".into();
        return Err(TrainError::Device { what });
    }
    // Without seeds, the gradients are zero.
    let scale = if totals.weight > 0.0 { (1.0 / totals.weight) as f32 } else { 0.0 };
    flat.iter_mut().for_each(|gradient| *gradient *= scale);
    if let Some((embeddings, _, lr)) = embedded {
        embeddings.step(lr, scale);
    }
    let own_seeds = own.map_or(0, |(num_seeds, _)| num_seeds);
    Ok(StepGradients { flat, totals, own_seeds, compute, allreduce: pulling + start.elapsed() })
}

/// Evaluates a model on the seeds of all ranks, each counted once, and returns the totals. Ranks synchronize at every
/// batch, which bounds the wait for a slow rank to the time of one batch.
///
/// # Errors
/// A batch that cannot be made or does not match the model, or a failure of the job.
pub fn evaluate<B: GnnBackend, M, T: ClassifiedBatch<B, M>>(
    model: &M,
    batches: impl IntoIterator<Item = BatchResult<T>>,
    world: &mut ProcessGroup,
) -> Result<SeedTotals, TrainError> {
    run_evaluation(model, batches, Ok, |_, _| (), world)
}

/// An item of a loader: a batch, or the error from sampling it or from converting it into tensors.
pub type BatchResult<T> = Result<Result<T, TrainError>, LoaderError>;

/// Like [`evaluate`], for any batches. Calls `fill` for each of them, and `add` with the logits and labels of its seeds.
pub(crate) fn run_evaluation<B: GnnBackend, M, T: ClassifiedBatch<B, M>>(
    model: &M,
    batches: impl IntoIterator<Item = BatchResult<T>>,
    fill: impl Fn(T) -> Result<T, TrainError>,
    mut add: impl FnMut(&Tensor<B, 2>, &[i64]),
    world: &mut ProcessGroup,
) -> Result<SeedTotals, TrainError> {
    let mut totals = SeedTotals::default();
    for batch in batches {
        let mine = match fill(batch??)?.classify(model, Mode::Eval)? {
            None => SeedTotals::default(),
            Some((logits, labels)) => {
                add(&logits, &labels);
                // Evaluation weighs all seeds alike.
                let plain = ClassificationLoss::default();
                let Classification { judged, num_seeds, weight, .. } =
                    plain.of(logits, &labels).map_err(TrainError::batch)?;
                let [loss, correct] = read_together(vec![judged])[..] else { unreachable!("two values are judged") };
                SeedTotals { loss: f64::from(loss), correct: f64::from(correct), seeds: num_seeds as f64, weight }
            }
        };
        totals.add(&all_reduce_totals(&mine, world)?);
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_many_ranks_are_exact_in_a_vector_of_gradients() {
        const RANKS: usize = 16_384;
        let mine = SeedTotals { loss: 0.5, correct: 999_423.0, seeds: 999_999.0, weight: 123_456.5 };
        let mut flat = vec![0.25_f32, -1.0];
        mine.append_to(&mut flat);
        assert_eq!(flat.len(), 2 + NUM_TOTALS);
        let mut sums = vec![0.0_f32; flat.len()];
        for _ in 0..RANKS {
            sums.iter_mut().zip(&flat).for_each(|(sum, number)| *sum += number);
        }
        let ranks = RANKS as f64;
        let expected = SeedTotals {
            loss: 0.5 * ranks,
            correct: 999_423.0 * ranks,
            seeds: 999_999.0 * ranks,
            weight: 123_456.5 * ranks,
        };
        assert_eq!(SeedTotals::split_off(&mut sums), expected);
        assert_eq!(sums, [0.25 * RANKS as f32, -(RANKS as f32)], "the gradients stay");
    }

    #[test]
    fn totals_of_a_rank_without_seeds_are_zero() {
        let mut flat = Vec::new();
        SeedTotals::default().append_to(&mut flat);
        assert_eq!(SeedTotals::split_off(&mut flat), SeedTotals::default());
        assert!(flat.is_empty());
    }
}
