//! The settings of a training run that do not depend on the task.

use super::learning_rate::{LearningRate, PlateauOn};
use crate::checkpoint::Checkpoints;
use crate::model_file::WarmStart;
use crate::optimizer::OptimizerKind;

/// The settings of a training run that do not depend on the task.
///
/// ```
/// use edgecut_trainer::{FitConfig, LearningRate};
///
/// let config = FitConfig { num_epochs: 30, lr: LearningRate::constant(0.003), ..FitConfig::default() };
/// assert_eq!(config.eval_every, 1);
/// ```
#[derive(Clone, Debug)]
pub struct FitConfig {
    /// The number of epochs.
    pub num_epochs: u64,
    /// The number of epochs between validations. The last epoch is always validated.
    pub eval_every: u64,
    /// The number of consecutive validations without a new best metric after which training stops; `None` never stops
    /// early.
    pub patience: Option<u64>,
    /// The optimizer of all parameters except embeddings.
    pub optimizer: OptimizerKind,
    /// The learning rate.
    pub lr: LearningRate,
    /// The measure that lowers a rate with [`LrSchedule::Plateau`](crate::LrSchedule::Plateau).
    pub plateau_on: PlateauOn,
    /// The L2 penalty on all parameters except embeddings; for AdamW, the decoupled weight decay.
    pub weight_decay: f64,
    /// The largest norm of the gradients of all parameters together, except embeddings. Longer gradients are scaled down
    /// to it.
    pub grad_clip: Option<f64>,
    /// The number of steps whose gradients are averaged, weighted by their seeds, before the optimizer takes one step. The
    /// last steps of an epoch may be fewer. Embeddings take every step, so models with embeddings need 1.
    pub accumulate_steps: u64,
    /// The random seed of dropout.
    pub seed: u64,
    /// The saved model to start from; `None` starts from the given model.
    pub warm_start: Option<WarmStart>,
    /// The parameters that keep their values: names of tensors as in a model file, or the first parts of such names, for
    /// example `layers.0`. `embeddings` are all embeddings, and `embeddings.NODE_TYPE` those of a node type. Batch
    /// normalization whose parameters are frozen also keeps its running statistics, and normalizes with them.
    pub freeze: Vec<String>,
    /// The checkpoints of the run, and the one to continue from; `None` writes none.
    pub checkpoints: Option<Checkpoints>,
}

impl Default for FitConfig {
    /// Returns ten epochs with Adam's usual learning rate of 0.001, validated after each epoch.
    fn default() -> Self {
        Self {
            num_epochs: 10,
            eval_every: 1,
            patience: None,
            optimizer: OptimizerKind::Adam,
            lr: LearningRate::constant(0.001),
            plateau_on: PlateauOn::default(),
            weight_decay: 0.0,
            grad_clip: None,
            accumulate_steps: 1,
            seed: 0,
            warm_start: None,
            freeze: Vec::new(),
            checkpoints: None,
        }
    }
}
