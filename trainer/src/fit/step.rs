//! One training step over all ranks.

use super::autodiff_turn::AutodiffTurn;
use crate::batch_input::TensorBatch;
use crate::embeddings::{Embeddings, PulledRows};
use crate::error::FlatLengthError;
use crate::error::TrainError;
use crate::gradient_sum::Summed;
use crate::gradients::{gradient_pieces, read_together, unflatten_gradients};
use crate::loss::{AnyLoss, LossSum, SeedTotals, Target};
use crate::models::{Mode, NodeClassifier};
use crate::step_options::StepOptions;
use burn::module::AutodiffModule;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_loader::LoaderError;
use edgecut_gnn::ops::{GnnBackend, Precision};
use std::time::{Duration, Instant};

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

/// A batch of seeds for which a model of type `M` computes outputs: nodes ([`NodeClassifier`]) or whole graphs
/// ([`GraphClassifier`](crate::models::GraphClassifier)).
pub trait SeedBatch<B: GnnBackend, M> {
    /// Returns the outputs for the batch's seeds and their targets, or `None` for a batch without seeds.
    ///
    /// # Errors
    /// [`TrainError::Batch`] if the batch does not match the model.
    fn compute(self, model: &M, mode: Mode) -> Result<Option<Outputs<B>>, TrainError>;
}

/// The outputs of a model for the seeds of a batch.
#[derive(Clone, Debug)]
pub struct Outputs<B: Backend> {
    /// `[num_seeds, num_outputs]`.
    pub values: Tensor<B, 2>,
    /// The target of each row.
    pub target: Target,
}

impl<B: GnnBackend, M: NodeClassifier<B>> SeedBatch<B, M> for TensorBatch<B> {
    fn compute(self, model: &M, mode: Mode) -> Result<Option<Outputs<B>>, TrainError> {
        let Some(input) = self.input else {
            model.forward_without_seeds(mode);
            return Ok(None);
        };
        let values = model.forward(input, mode).map_err(TrainError::batch)?;
        Ok(Some(Outputs { values, target: self.target }))
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
    batch: impl SeedBatch<B, M>,
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
        batch: impl SeedBatch<B, M>,
        mode: Mode,
        world: &mut ProcessGroup,
    ) -> Result<StepGradients, TrainError> {
        let forward = forward_seeds(model, batch, mode, self.loss.as_ref())?;
        backward_and_all_reduce(model, forward, None, self, world)
    }

    /// Like [`StepOptions::step_gradients`], for a model that reads embeddings. Also updates the embeddings with their
    /// learning rate.
    ///
    /// # Errors
    /// The errors of [`StepOptions::step_gradients`].
    pub fn step_with_embeddings<B: AutodiffBackend + GnnBackend, M: AutodiffModule<B> + NodeClassifier<B>>(
        &self,
        model: &M,
        embeddings: &mut Embeddings,
        batch: TensorBatch<B>,
        mode: Mode,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<StepGradients, TrainError> {
        let (batch, pulled) = embeddings.pull_tracked(batch, device)?;
        let forward = forward_seeds(model, batch, mode, self.loss.as_ref())?;
        backward_and_all_reduce(model, forward, Some((embeddings, pulled)), self, world)
    }
}

/// The result of the forward pass over this rank's seeds.
pub(crate) struct Forward<B: Backend> {
    /// Their loss, still on the device; `None` without seeds. It is the sum instead of the mean, so that each rank's weight
    /// is that of its seeds.
    pub(crate) loss: Option<LossSum<B>>,
    pub(crate) start: Instant,
    /// Taken before the pass, and dropped after the backward pass.
    pub(crate) turn: AutodiffTurn,
}

pub(crate) fn forward_seeds<B: AutodiffBackend + GnnBackend, M>(
    model: &M,
    batch: impl SeedBatch<B, M>,
    mode: Mode,
    loss: Option<&AnyLoss>,
) -> Result<Forward<B>, TrainError> {
    let turn = AutodiffTurn::take();
    let start = Instant::now();
    let Some(Outputs { values, target }) = batch.compute(model, mode)? else {
        return Ok(Forward { loss: None, start, turn });
    };
    let sum = match loss {
        Some(loss) => loss.sum(values, &target),
        None => AnyLoss::default().sum(values, &target),
    };
    Ok(Forward { loss: Some(sum.map_err(TrainError::batch)?), start, turn })
}

/// Runs the backward pass, and exchanges gradients, totals and embedding gradients between the ranks.
pub(crate) fn backward_and_all_reduce<B: AutodiffBackend, M: AutodiffModule<B>>(
    model: &M,
    forward: Forward<B>,
    embedded: Option<(&mut Embeddings, PulledRows<B>)>,
    options: &StepOptions,
    world: &mut ProcessGroup,
) -> Result<StepGradients, TrainError> {
    let Forward { loss, start: start_of_pass, turn } = forward;
    options.end_forward()?;
    let mut of_rows = None;
    let mut pieces = None;
    let mut own_totals = None;
    if let Some(LossSum { sum, totals, num_seeds, weight }) = loss {
        let mut gradients = sum.backward();
        if let Some((_, pulled)) = &embedded {
            of_rows = Some(pulled.take_gradients(&mut gradients));
        }
        pieces = Some(gradient_pieces(model, GradientsParams::from_grads(gradients, model)));
        own_totals = Some((totals.inner(), num_seeds, weight));
    }
    drop(turn);
    // Before the sum of gradients: other ranks may wait for this rank in their backward passes.
    options.end_backward()?;
    // A rank without seeds contributes zeros.
    let pieces = pieces.unwrap_or_else(|| gradient_pieces(model, GradientsParams::new()));
    let Summed { mut pieces, over_all_ranks } = options.gradient_sum.sum_on_gpus(pieces)?;
    let own = own_totals.as_ref().map(|&(_, num_seeds, weight)| (num_seeds, weight));
    pieces.extend(own_totals.map(|(totals, ..)| totals));
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
    if let (Some((embeddings, pulled)), Some(of_rows)) = (&embedded, &of_rows) {
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
    if let Some((embeddings, _)) = embedded {
        embeddings.step(scale);
    }
    let own_seeds = own.map_or(0, |(num_seeds, _)| num_seeds);
    Ok(StepGradients { flat, totals, own_seeds, compute, allreduce: pulling + start.elapsed() })
}

/// Evaluates a classifier on the seeds of all ranks, each counted once, and returns the totals of the plain cross entropy.
/// Ranks synchronize at every batch, which bounds the wait for a slow rank to the time of one batch.
///
/// # Errors
/// A batch that cannot be made or does not match the model, or a failure of the job.
pub fn evaluate<B: GnnBackend, M, T: SeedBatch<B, M>>(
    model: &M,
    batches: impl IntoIterator<Item = BatchResult<T>>,
    world: &mut ProcessGroup,
) -> Result<SeedTotals, TrainError> {
    let mut totals = SeedTotals::default();
    run_evaluation(model, batches, Ok, |outputs: Option<Outputs<B>>| {
        let mut mine = SeedTotals::default();
        if let Some(Outputs { values, target }) = outputs {
            let sum = AnyLoss::default().sum(values, &target).map_err(TrainError::batch)?;
            let [loss, correct] = read_together(vec![sum.totals])[..] else { unreachable!("there are two totals") };
            mine.loss = f64::from(loss);
            mine.correct = f64::from(correct);
            mine.seeds = sum.num_seeds as f64;
            mine.weight = sum.weight;
        }
        totals.add(&all_reduce_totals(&mine, world)?);
        Ok(())
    })?;
    Ok(totals)
}

/// An item of a loader: a batch, or the error from sampling it or from converting it into tensors.
pub type BatchResult<T> = Result<Result<T, TrainError>, LoaderError>;

/// Computes the outputs for batches, for an evaluation. Calls `fill` for each batch, and `judge` with the outputs for its
/// seeds, or with `None` for a batch without seeds. All ranks have as many batches, so `judge` may use collectives.
pub(crate) fn run_evaluation<B: GnnBackend, M, T: SeedBatch<B, M>>(
    model: &M,
    batches: impl IntoIterator<Item = BatchResult<T>>,
    fill: impl Fn(T) -> Result<T, TrainError>,
    mut judge: impl FnMut(Option<Outputs<B>>) -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    for batch in batches {
        judge(fill(batch??)?.compute(model, Mode::Eval)?)?;
    }
    Ok(())
}
