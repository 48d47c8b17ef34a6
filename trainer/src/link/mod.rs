//! Link prediction: a model learns to distinguish edges from negative pairs.
//!
//! - [`LinkTrainingConfig`]: the settings;
//! - `batch`: a batch of edges as tensors;
//! - `step`: the scores and the loss of a batch;
//! - `evaluation`: the ranking of held-out edges against sampled negatives; `filtered`: against all nodes;
//! - [`train_link`]: the training loop.

mod batch;
mod config;
mod evaluation;
mod filtered;
mod report;
mod step;
mod training;

pub use config::{LinkEvaluation, LinkLoss, LinkMetric, LinkTrainingConfig, link_model_config, target_edge_types};
pub use report::{LinkEpochReport, LinkObserver, LinkResult, LinkScores};
pub use training::{TrainedLinkModel, evaluate_link, train_link};
