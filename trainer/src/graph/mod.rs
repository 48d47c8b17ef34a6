//! Graph classification.

mod batch;
mod config;
mod cross_validation;
mod report;
mod training;

pub use batch::{GraphBatchOptions, GraphTensorBatch, graph_batches};
pub use config::GraphTrainingConfig;
pub use cross_validation::{CrossValidationResult, Protocol, cross_validate};
pub use report::{GraphEpochReport, GraphObserver};
pub use training::{GraphSplit, TrainedGraphModel, average_statistics, evaluate_graph, train_graph};
