//! Settings of a model and of its training.

use crate::device_memory::DeviceMemory;
use crate::models::ModelKind;
use crate::nn::RelationAggregation;
use edgecut_dist_loader::{DEFAULT_PREFETCH_BYTES, LoaderConfig};
use edgecut_dist_sampler::{NumNeighbors, SamplerConfig, Wanted};

/// Mixed into the run's seed for evaluation, so that it draws other neighborhoods than training does.
const EVALUATION_SEED: u64 = 0x6576_616c;

/// Settings of a model and of its training.
#[derive(Clone, Debug)]
pub struct TrainingConfig {
    /// The model's kind.
    pub kind: ModelKind,
    /// Width of the hidden layers.
    pub hidden_channels: usize,
    /// Dropout between layers.
    pub dropout: f64,
    /// Dropout on the input features.
    pub input_dropout: f64,
    /// True if a layer's input is added to its output, where both are of the hidden width.
    pub residual: bool,
    /// True if a layer's input is normalised, unless it is the features.
    pub layer_norm: bool,
    /// True if a model of a homogeneous graph maps features to the hidden width before the first convolution, and from there to
    /// the classes after the last. Models of other graphs always do.
    pub encoder_decoder: bool,
    /// How a node combines what it hears over several edge types.
    pub relation_aggregation: RelationAggregation,
    /// Which neighbors are drawn: a fan-out per layer and edge type, the hop nearest to the seeds first.
    pub sampler: SamplerConfig,
    /// The fan-outs of validation and test.
    pub eval_num_neighbors: NumNeighbors,
    /// Seeds per batch and rank, at most: a rank's seeds are spread evenly over the steps of an epoch.
    pub batch_size: usize,
    /// Epochs.
    pub num_epochs: u64,
    /// Adam's learning rate.
    pub lr: f64,
    /// That of the embeddings of node types without features.
    pub embedding_lr: f64,
    /// L2 penalty on all parameters.
    pub weight_decay: f64,
    /// The seed of everything random.
    pub seed: u64,
    /// Batches that are made ahead of the trainer.
    pub concurrency: usize,
    /// The most bytes of batches that are made ahead of the trainer; a larger batch passes alone.
    pub prefetch_bytes: usize,
    /// Epochs between validations.
    pub eval_every: u64,
    /// Whether feature rows are divided by their sums.
    pub normalize_features: bool,
    /// What of the graph a GPU keeps in its memory.
    pub device_memory: DeviceMemory,
}

impl TrainingConfig {
    /// The defaults of the program `train`, without dropout; the fan-outs of evaluation are those of training.
    pub fn new(kind: ModelKind, sampler: SamplerConfig) -> Self {
        Self {
            kind,
            hidden_channels: 256,
            dropout: 0.0,
            input_dropout: 0.0,
            residual: false,
            layer_norm: false,
            encoder_decoder: false,
            relation_aggregation: RelationAggregation::Sum,
            eval_num_neighbors: sampler.num_neighbors.clone(),
            sampler,
            batch_size: 1024,
            num_epochs: 10,
            lr: 0.0004,
            embedding_lr: 0.0004,
            weight_decay: 0.0,
            seed: 0,
            concurrency: 4,
            prefetch_bytes: DEFAULT_PREFETCH_BYTES,
            eval_every: 1,
            normalize_features: false,
            device_memory: DeviceMemory::default(),
        }
    }

    /// The sampler of validation and test.
    pub(crate) fn eval_sampler(&self) -> SamplerConfig {
        SamplerConfig { num_neighbors: self.eval_num_neighbors.clone(), ..self.sampler.clone() }
    }

    /// How training seeds become batches: shuffled, and spread evenly over the steps.
    pub(crate) fn train_loader(&self, wanted: Wanted) -> LoaderConfig {
        LoaderConfig {
            batch_size: self.batch_size,
            even_batches: true,
            shuffle: true,
            seed: self.seed,
            concurrency: self.concurrency,
            prefetch_bytes: self.prefetch_bytes,
            wanted,
            cache: None,
        }
    }

    /// How the seeds of validation and test become batches: in order.
    pub(crate) fn eval_loader(&self, wanted: Wanted) -> LoaderConfig {
        let seed = self.seed ^ EVALUATION_SEED;
        LoaderConfig { even_batches: false, shuffle: false, seed, ..self.train_loader(wanted) }
    }
}
