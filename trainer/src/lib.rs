//! Graph neural networks in burn with data-parallel training.
//!
//! - [`loss`]: the losses of nodes and of whole graphs, and their targets;
//! - [`metrics`]: evaluation metrics over all ranks;
//! - [`models`]: complete networks for predictions of nodes, links, edges and graphs;
//! - [`gradients`]: gradients and parameters as one flat vector, for collectives;
//! - [`checkpoint`]: the state of a training, for runs that continue after an interruption;
//! - [`model_file`]: saved models in safetensors format;
//! - [`cluster_plan`]: a prediction of the cost of a training on a cluster;
//! - [`train_model`]: training of a model of a task over all ranks, a sequence of [`step_gradients`];
//! - [`NodePrediction`]: prediction of classes, labels or numbers of nodes;
//! - [`link`]: link prediction;
//! - [`edge`]: prediction of classes, labels or numbers of edges;
//! - [`multi`]: predictions of several targets of nodes by one model;
//! - [`graph`]: prediction for whole graphs;
//! - [`inference`]: predictions and embeddings of all nodes.
//!
//! Everything numeric is generic over the burn backend.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod backends;
mod batch_input;
mod batch_norm_sums;
pub mod checkpoint;
pub mod cluster_plan;
mod drop_edges;
pub mod edge;
mod edge_type_name;
mod embeddings;
mod error;
mod fit;
mod floats;
mod gather;
mod gradient_sum;
pub mod gradients;
pub mod graph;
pub mod inference;
mod inference_progress;
pub mod link;
pub mod loss;
mod memory;
pub mod metrics;
pub mod model_file;
pub mod models;
pub mod multi;
mod node;
mod objective;
mod optimizer;
mod seed_task;
mod step_options;
mod training_config;
mod training_loader;

pub use backends::{Compiles, Tasks, TrainingBackend};
pub use batch_input::{BatchOptions, TensorBatch, tensor_batches};
pub use drop_edges::DropEdges;
pub use edgecut_gnn::Cpu;
#[cfg(feature = "cuda")]
pub use edgecut_gnn::{Cuda, CudaDevice};
pub use embeddings::{EmbeddingShards, EmbeddingSource, Embeddings};
pub use error::TrainError;
pub use fit::{
    BatchResult, EpochCost, EpochReport, Evaluation, Evaluator, FitConfig, Fitted, HopCost, LrSchedule, Observer,
    Outputs, PlateauOn, RankCost, SeedBatch, SeedTotals, Selection, SlowStep, StepGradients, StepReport, Task,
    TrainingEpoch, average_statistics, evaluate, fit, step_gradients,
};
pub use gradient_sum::GradientSum;
pub use memory::cpu_cache::{CpuCache, NodeRanking};
pub use memory::device_memory::DeviceMemory;
pub use memory::feature_cache::FeatureCache;
pub use memory::parameter_count::ParameterCount;
pub use memory::resident_memory::resident_bytes;
pub use model_file::{BestModel, EmbeddingTable, WarmStart, WarmStartReport};
pub use node::{NodeEvaluator, NodePrediction, NodeTask, NodeTrainingConfig, model_config, seed_type};
pub use objective::scoring_config::ScoringConfig;
pub use objective::seed_result::SeedResult;
pub use objective::seed_scores::{SeedScores, TestDetails};
pub use optimizer::{AdamOf, OptimizerKind, adam};
pub use seed_task::{
    FittedOf, ModelOf, SeedTask, Setup, TaskData, TrainedModel, evaluate_model, open_task_model, train_model,
};
pub use step_options::StepOptions;
pub use training_config::TrainingConfig;
