//! The form in which tasks open saved models for predictions.

use edgecut_trainer::TrainingBackend;
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::model_file::SavedEmbeddings;
use edgecut_trainer::models::{Network, NetworkConfig};
use std::any::Any;

/// The items that models of a task predict for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Items {
    /// The remedy for other flags of `train predict` than these items need.
    pub(crate) remedy: &'static str,
}

/// A network that predicts for items, and its settings. Each kind of items has a type of its own.
pub(crate) trait Predictor<B: TrainingBackend>: Any {
    /// Returns the network whose layers compute embeddings of nodes, and its settings; `None` for models without such embeddings.
    fn encoder(&self) -> Option<(&Network<B>, &NetworkConfig)> {
        None
    }
}

/// An open model of a task.
pub(crate) struct OpenModel<B: TrainingBackend> {
    pub(crate) predictor: Box<dyn Predictor<B>>,
    /// The embeddings of the nodes without features.
    pub(crate) embeddings: SavedEmbeddings,
    /// The meaning of the outputs; `None` if they are neither classes, labels nor numbers.
    pub(crate) outputs: Option<OutputKind>,
    /// True if each target needs a neighborhood of its own, which does not contain it, and has a time of its own.
    pub(crate) leaves_out_targets: bool,
}
