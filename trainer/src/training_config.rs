//! Settings of a model and of its training.

use crate::cpu_cache::CpuCache;
use crate::device_memory::DeviceMemory;
use crate::fit::{FitConfig, LearningRate};
use crate::inference::LayerWiseConfig;
use crate::models::{ConvKind, GraphSchema, NetworkConfig, NetworkOutput, Readout};
use crate::nn::RelationAggregation;
use crate::step_options::StepOptions;
use edgecut_dist_loader::{DEFAULT_PREFETCH_BYTES, LoaderConfig};
use edgecut_dist_sampler::{NodeFields, NumNeighbors, SamplerConfig};

/// XORed with the run's seed for evaluation, so that it samples other neighborhoods than training does.
const EVALUATION_SEED: u64 = 0x6576_616c;

/// Settings of a model and of its training.
///
/// ```
/// use edgecut_dist_sampler::{Fanout, SamplerConfig};
/// use edgecut_trainer::TrainingConfig;
/// use edgecut_trainer::models::{ConvKind, GcnSettings, SageSettings};
/// use edgecut_trainer::nn::Aggregation;
/// let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
/// let sampler = SamplerConfig::new(vec![Fanout::Count(10), Fanout::Count(5)]);
/// let config = TrainingConfig { hidden_channels: 64, batch_size: 32, ..TrainingConfig::new(kind, sampler) };
/// assert_eq!(config.eval_num_neighbors, config.sampler.num_neighbors);
/// ```
#[derive(Clone, Debug)]
pub struct TrainingConfig {
    /// The kind of model.
    pub kind: ConvKind,
    /// The width of the hidden layers.
    pub hidden_channels: usize,
    /// The dropout probability between layers.
    pub dropout: f64,
    /// The dropout probability of the input features.
    pub input_dropout: f64,
    /// True to add a layer's input to its output if both have the hidden width.
    pub residual: bool,
    /// True to apply layer normalization to the input of each layer, except to the features.
    pub layer_norm: bool,
    /// True to add, for a homogeneous graph, a dense layer from the features to the hidden width before the first
    /// convolution, and one to the classes after the last convolution. Models of heterogeneous graphs always have them.
    pub encoder_decoder: bool,
    /// The aggregation of the messages that a node receives over different edge types.
    pub relation_aggregation: RelationAggregation,
    /// The sampler of training: a fan-out per layer and edge type, the hop at the seeds first.
    pub sampler: SamplerConfig,
    /// The fan-outs of validation and test.
    pub eval_num_neighbors: NumNeighbors,
    /// The limits of a layer-wise evaluation of nodes, which computes each layer over all nodes with all neighbors. `None`
    /// evaluates batches with [`eval_num_neighbors`](Self::eval_num_neighbors).
    pub eval_layer_wise: Option<LayerWiseConfig>,
    /// The maximum number of seeds per batch and rank. A rank's seeds are spread evenly over the steps of an epoch.
    pub batch_size: usize,
    /// The settings of the training loop: epochs, optimizer, seed, checkpoints and so on. The rate on a plateau follows the
    /// validation metric.
    pub fit: FitConfig,
    /// The learning rate of the embeddings of node types without features.
    pub embedding_lr: f64,
    /// The number of batches that are prefetched concurrently.
    pub concurrency: usize,
    /// The maximum number of bytes of prefetched batches. A single batch may exceed it.
    pub prefetch_bytes: usize,
    /// True to divide feature rows by their sums.
    pub normalize_features: bool,
    /// The features of other parts to keep in the memory of each machine.
    pub cpu_cache: Option<CpuCache>,
    /// The graph data to keep in GPU memory.
    pub device_memory: DeviceMemory,
    /// The options of each step: the precision of products, and the sum of gradients.
    pub step: StepOptions,
}

impl TrainingConfig {
    /// Returns the defaults of the program `train`, but ten epochs without dropout and without early stopping. Evaluation
    /// has the fan-outs of training.
    ///
    /// ```
    /// use edgecut_dist_sampler::{Fanout, SamplerConfig};
    /// use edgecut_trainer::TrainingConfig;
    /// use edgecut_trainer::models::{ConvKind, GcnSettings, SageSettings};
    /// let config = TrainingConfig::new(ConvKind::Gcn(GcnSettings), SamplerConfig::new(vec![Fanout::Count(10); 2]));
    /// assert_eq!((config.hidden_channels, config.batch_size, config.fit.num_epochs), (256, 1024, 10));
    /// ```
    pub fn new(kind: ConvKind, sampler: SamplerConfig) -> Self {
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
            eval_layer_wise: None,
            sampler,
            batch_size: 1024,
            fit: FitConfig { lr: LearningRate::constant(0.003), ..FitConfig::default() },
            embedding_lr: 0.003,
            concurrency: 4,
            prefetch_bytes: DEFAULT_PREFETCH_BYTES,
            normalize_features: false,
            cpu_cache: None,
            device_memory: DeviceMemory::default(),
            step: StepOptions::default(),
        }
    }

    /// Returns the settings of a network with a layer per hop.
    pub(crate) fn network(&self, graph: GraphSchema, outputs: Vec<NetworkOutput>, encoders: bool) -> NetworkConfig {
        NetworkConfig {
            kind: self.kind,
            graph,
            encoders,
            outputs,
            hidden_channels: self.hidden_channels,
            num_layers: self.sampler.num_neighbors.num_hops(),
            relation_aggregation: self.relation_aggregation,
            residual: self.residual,
            layer_norm: self.layer_norm,
            batch_norm: false,
            readout: Readout::Last,
            pooling: None,
            dropout: self.dropout,
            input_dropout: self.input_dropout,
            normalize_features: self.normalize_features,
        }
    }

    /// Returns the sampler configuration of validation and test.
    pub(crate) fn eval_sampler(&self) -> SamplerConfig {
        SamplerConfig { num_neighbors: self.eval_num_neighbors.clone(), ..self.sampler.clone() }
    }

    /// Returns the loader configuration of training: seeds are shuffled and spread evenly over the steps.
    pub(crate) fn train_loader(&self, wanted: NodeFields) -> LoaderConfig {
        LoaderConfig {
            batch_size: self.batch_size,
            even_batches: true,
            shuffle: true,
            seed: self.fit.seed,
            concurrency: self.concurrency,
            prefetch_bytes: self.prefetch_bytes,
            wanted,
            cache: None,
        }
    }

    /// Returns the loader configuration of validation and test: seeds are in order.
    pub(crate) fn eval_loader(&self, wanted: NodeFields) -> LoaderConfig {
        let seed = self.fit.seed ^ EVALUATION_SEED;
        LoaderConfig { even_batches: false, shuffle: false, seed, ..self.train_loader(wanted) }
    }
}
