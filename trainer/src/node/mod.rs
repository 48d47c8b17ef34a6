//! Node classification.

mod config;
mod report;
mod training;

pub use config::{NodeTrainingConfig, model_config, seed_type};
pub(crate) use report::Judged;
pub use report::{EpochReport, NodeResult, Observer};
pub use training::{TrainedNodeModel, evaluate_node, train_node};
