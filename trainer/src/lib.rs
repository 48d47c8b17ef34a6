//! Graph neural networks in burn with data-parallel training.
//!
//! - [`ops`]: fused neighbor aggregation and attention over the blocks of a batch, fused dense layers and keyed
//!   dropout, all with gradients;
//! - [`nn`]: layers and the loss;
//! - [`metrics`]: evaluation metrics over all ranks;
//! - [`models`]: complete networks for node classification, link prediction and graph classification;
//! - [`gradients`]: gradients and parameters as one flat vector, for collectives;
//! - [`model_file`]: saved models in safetensors format;
//! - [`train_node`]: node classification over all ranks, a sequence of [`step_gradients`];
//! - [`link`]: link prediction;
//! - [`graph`]: classification of whole graphs;
//! - [`allocator`]: the memory allocator for training programs.
//!
//! Everything numeric is generic over the burn backend.

pub mod allocator;
mod available_memory;
mod backends;
mod batch_input;
mod classification_result;
mod data_parallel;
mod device_memory;
mod embeddings;
mod epoch_clock;
mod feature_cache;
mod gather;
mod gpu_sum;
pub mod gradients;
pub mod graph;
mod improved;
pub mod link;
pub mod metrics;
pub mod model_file;
pub mod models;
pub mod nn;
mod node;
pub mod ops;
mod optimizer;
mod parameter_count;
mod train_error;
mod training_config;

#[cfg(feature = "cuda")]
pub use backends::Cuda;
pub use backends::{Cpu, TrainingBackend};
pub use batch_input::{BatchOptions, TensorBatch, cached_tensor_batches, tensor_batches};
pub use classification_result::ClassificationResult;
pub use data_parallel::{
    ClassifiedBatch, Logits, Made, SeedTotals, StepGradients, evaluate, evaluate_metric, step_gradients,
    step_with_embeddings,
};
pub use device_memory::DeviceMemory;
pub use embeddings::{EmbeddingShards, EmbeddingSource, EmbeddingTable, Embeddings};
pub use epoch_clock::{EpochCost, HopCost};
pub use feature_cache::FeatureCache;
pub use gpu_sum::sum_with_nccl;
pub use graph::average_statistics;
pub use improved::Improved;
pub use node::{
    EpochReport, NodeTrainingConfig, Observer, TrainedNodeModel, evaluate_node, model_config, seed_type, train_node,
};
pub use optimizer::{ADAM_EPSILON, AdamOf, adam};
pub use parameter_count::ParameterCount;
pub use train_error::TrainError;
pub use training_config::TrainingConfig;
