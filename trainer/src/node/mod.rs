//! Node classification.

mod config;
mod report;
mod training;

pub use config::{NodeTrainingConfig, model_config, seed_type};
pub use report::{EpochReport, Observer};
pub use training::{TrainedNodeModel, evaluate_node, train_node};
