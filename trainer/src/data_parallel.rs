//! One training step over all ranks.

use crate::batch_input::TensorBatch;
use crate::embeddings::{Embeddings, PulledRows};
use crate::gradients::{FlatLengthError, flatten_gradients, num_parameters, unflatten_gradients};
use crate::metrics::{Metric, MetricState};
use crate::models::{Mode, ModelInput, NodeClassifier};
use crate::nn::{Classification, cross_entropy};
use crate::ops::GnnBackend;
use crate::train_error::TrainError;
use burn::module::AutodiffModule;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_loader::BatchIter;
use std::time::{Duration, Instant};

/// Sums over the seeds of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeedTotals {
    /// The sum of the seeds' losses.
    pub loss: f64,
    /// Seeds that were classified correctly.
    pub correct: f64,
    /// Seeds.
    pub seeds: f64,
}

impl SeedTotals {
    /// Adds the totals of other seeds.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.correct += other.correct;
        self.seeds += other.seeds;
    }

    /// The mean loss, if there was a seed.
    pub fn mean_loss(&self) -> Option<f64> {
        (self.seeds > 0.0).then(|| self.loss / self.seeds)
    }

    /// The share of correct seeds, if there was a seed.
    pub fn accuracy(&self) -> Option<f64> {
        (self.seeds > 0.0).then(|| self.correct / self.seeds)
    }
}

/// The gradients of one step, averaged over the seeds of all ranks.
#[derive(Clone, Debug)]
pub struct StepGradients {
    /// Every parameter's gradient, end to end.
    pub flat: Vec<f32>,
    /// Loss and accuracy of the step over all ranks.
    pub totals: SeedTotals,
    /// Time spent in forward and backward.
    pub compute: Duration,
    /// Time spent in the all-reduce, waiting for slower ranks included.
    pub allreduce: Duration,
}

impl StepGradients {
    /// The gradients as `model`'s optimizer takes them.
    ///
    /// # Errors
    /// [`FlatLengthError`] if they are another model's.
    pub fn of_model<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
        model: &M,
    ) -> Result<GradientsParams, FlatLengthError> {
        unflatten_gradients(model, &self.flat)
    }
}

/// Forward and loss of a batch with at least one seed.
fn classify<B: GnnBackend>(
    model: &impl NodeClassifier<B>,
    input: ModelInput<B>,
    labels: &[i64],
    mode: Mode,
    metric: Option<&mut MetricState>,
) -> Result<(Classification<B>, SeedTotals), TrainError> {
    let wrong = |what: String| TrainError::Batch { what };
    let logits = model.forward(input, mode).map_err(|e| wrong(e.to_string()))?;
    if let Some(metric) = metric {
        metric.add(&logits, labels);
    }
    let result = cross_entropy(logits, labels).map_err(|e| wrong(e.to_string()))?;
    let seeds = result.num_seeds as f64;
    let loss = f64::from(result.loss.clone().into_data().iter::<f32>().next().unwrap_or(f32::NAN)) * seeds;
    let totals = SeedTotals { loss, correct: result.num_correct as f64, seeds };
    Ok((result, totals))
}

/// Sums the totals of all ranks.
fn all_reduce_totals(mine: &SeedTotals, world: &mut ProcessGroup) -> Result<SeedTotals, TrainError> {
    let mut sums = [mine.loss, mine.correct, mine.seeds];
    world.all_reduce(&mut sums, ReduceOp::Sum)?;
    let [loss, correct, seeds] = sums;
    Ok(SeedTotals { loss, correct, seeds })
}

/// Forward, backward and all-reduce of one batch. A rank without seeds takes part with weight zero, so that unequal
/// ranks neither wait for each other for ever nor skew the mean: the result is the gradient of the mean loss over the
/// seeds of all ranks, and the same bits on every rank.
///
/// # Errors
/// A batch that does not fit the model, or a failure of the job.
pub fn step_gradients<B: AutodiffBackend + GnnBackend, M: AutodiffModule<B> + NodeClassifier<B>>(
    model: &M,
    batch: TensorBatch<B>,
    mode: Mode,
    world: &mut ProcessGroup,
) -> Result<StepGradients, TrainError> {
    let forward = forward_classified(model, batch, mode)?;
    exchange(model, forward, None, world)
}

/// As [`step_gradients`] of a model that reads embeddings, which make their step as well, with the learning rate `lr`.
///
/// # Errors
/// As [`step_gradients`].
pub fn step_with_embeddings<B: AutodiffBackend + GnnBackend, M: AutodiffModule<B> + NodeClassifier<B>>(
    model: &M,
    (embeddings, lr): (&mut Embeddings, f64),
    batch: TensorBatch<B>,
    mode: Mode,
    device: &B::Device,
    world: &mut ProcessGroup,
) -> Result<StepGradients, TrainError> {
    let (batch, pulled) = embeddings.pull_tracked(batch, device)?;
    let forward = forward_classified(model, batch, mode)?;
    exchange(model, forward, Some((embeddings, pulled, lr)), world)
}

/// The sum of this rank's losses, if it has seeds.
pub(crate) struct Forward<B: Backend> {
    pub(crate) loss: Option<Tensor<B, 1>>,
    pub(crate) totals: SeedTotals,
    pub(crate) start: Instant,
}

fn forward_classified<B: AutodiffBackend + GnnBackend>(
    model: &impl NodeClassifier<B>,
    batch: TensorBatch<B>,
    mode: Mode,
) -> Result<Forward<B>, TrainError> {
    let start = Instant::now();
    let Some(input) = batch.input else { return Ok(Forward { loss: None, totals: SeedTotals::default(), start }) };
    let (result, totals) = classify(model, input, &batch.labels, mode, None)?;
    // The sum over this rank's seeds, so that ranks weigh as much as they have seeds.
    Ok(Forward { loss: Some(result.loss.mul_scalar(totals.seeds)), totals, start })
}

/// The backward pass, and what ranks exchange after it.
pub(crate) fn exchange<B: AutodiffBackend, M: AutodiffModule<B>>(
    model: &M,
    forward: Forward<B>,
    embedded: Option<(&mut Embeddings, PulledRows<B>, f64)>,
    world: &mut ProcessGroup,
) -> Result<StepGradients, TrainError> {
    let mut gradients = forward.loss.map(|loss| loss.backward());
    let mut of_rows = None;
    if let (Some((_, pulled, _)), Some(gradients)) = (&embedded, &mut gradients) {
        of_rows = Some(pulled.take_gradients(gradients)?);
    }
    let mut flat = match gradients {
        None => vec![0.0; num_parameters(model)],
        Some(gradients) => flatten_gradients(model, GradientsParams::from_grads(gradients, model)),
    };
    let compute = forward.start.elapsed();
    let start = Instant::now();
    let mut pulling = Duration::ZERO;
    if let (Some((embeddings, pulled, _)), Some(of_rows)) = (&embedded, &of_rows) {
        embeddings.push(pulled, of_rows)?;
        pulling = pulled.elapsed;
    }
    // No rank comes out of this before all have pushed.
    let totals = all_reduce_totals(&forward.totals, world)?;
    world.all_reduce(&mut flat, ReduceOp::Sum)?;
    let scale = (1.0 / totals.seeds.max(1.0)) as f32;
    flat.iter_mut().for_each(|gradient| *gradient *= scale);
    if let Some((embeddings, _, lr)) = embedded {
        embeddings.step(lr, scale);
    }
    Ok(StepGradients { flat, totals, compute, allreduce: pulling + start.elapsed() })
}

/// Totals of a model over the seeds of all ranks, each counted once. Ranks meet at every batch, so that none is waited for
/// longer than a batch takes.
///
/// # Errors
/// A batch that cannot be made or does not fit the model, or a failure of the job.
pub fn evaluate<B: GnnBackend>(
    model: &impl NodeClassifier<B>,
    batches: BatchIter<Result<TensorBatch<B>, TrainError>>,
    world: &mut ProcessGroup,
) -> Result<SeedTotals, TrainError> {
    run_evaluation(model, batches, Ok, None, world)
}

/// As [`evaluate`] of a model that reads embeddings, and a metric over the seeds of all ranks, the same on each; nothing
/// where it is not defined, as without seeds.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_metric<B: GnnBackend>(
    model: &impl NodeClassifier<B>,
    embeddings: &Embeddings,
    batches: BatchIter<Result<TensorBatch<B>, TrainError>>,
    (metric, num_classes): (Metric, usize),
    device: &B::Device,
    world: &mut ProcessGroup,
) -> Result<(SeedTotals, Option<f64>), TrainError> {
    let fill = |batch| embeddings.fill(batch, device);
    if metric == Metric::Accuracy {
        // The totals have it already.
        let totals = run_evaluation(model, batches, fill, None, world)?;
        return Ok((totals, totals.accuracy()));
    }
    let mut state = MetricState::new(metric, num_classes);
    let totals = run_evaluation(model, batches, fill, Some(&mut state), world)?;
    Ok((totals, state.over_all_ranks(world)?))
}

fn run_evaluation<B: GnnBackend>(
    model: &impl NodeClassifier<B>,
    batches: BatchIter<Result<TensorBatch<B>, TrainError>>,
    fill: impl Fn(TensorBatch<B>) -> Result<TensorBatch<B>, TrainError>,
    mut metric: Option<&mut MetricState>,
    world: &mut ProcessGroup,
) -> Result<SeedTotals, TrainError> {
    let mut totals = SeedTotals::default();
    for batch in batches {
        let TensorBatch { input, labels, .. } = fill(batch??)?;
        let mine = match input {
            None => SeedTotals::default(),
            Some(input) => classify(model, input, &labels, Mode::Eval, metric.as_deref_mut())?.1,
        };
        totals.add(&all_reduce_totals(&mine, world)?);
    }
    Ok(totals)
}
