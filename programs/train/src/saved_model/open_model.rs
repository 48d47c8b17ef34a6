//! The form in which tasks open saved models for predictions.

use edgecut_trainer::TrainingBackend;
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::model_file::SavedEmbeddings;
use edgecut_trainer::models::{EdgeModel, EdgeModelConfig, LinkModel, LinkModelConfig, Network, NetworkConfig};
use edgecut_trainer::multi::SavedTarget;
use std::ops::Range;

/// The items that models of a task predict for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Items {
    Nodes,
    Edges,
    Graphs,
    Links,
}

impl Items {
    /// Returns the remedy for other flags of `train predict` than these items need.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Self::Nodes => "leave out --edges, --graphs, and --output score, top-k or relation",
            Self::Edges => "add --edges all, and leave out --output embedding, score, top-k or relation",
            Self::Graphs => {
                "add --graphs all and --dataset with the name of the set of graphs, and leave out --edges, and --output score, \
                 top-k or relation"
            }
            Self::Links => {
                "use --output embedding, score, top-k or relation, and leave out --explain, --edges and --graphs"
            }
        }
    }
}

/// An open model of a task.
pub(crate) trait OpenModel<B: TrainingBackend> {
    /// Returns the embeddings of the nodes without features.
    fn embeddings(&self) -> &SavedEmbeddings;

    /// Returns the meaning of the outputs; `None` if they are neither classes, labels nor numbers.
    fn outputs(&self) -> Option<OutputKind>;

    /// Returns true if each target needs a neighborhood of its own, which does not contain it, and has a time of its own.
    fn leaves_out_targets(&self) -> bool;

    /// Returns the network that makes the predictions, and its settings.
    fn predictions(&self) -> Predictions<'_, B>;
}

/// The network that makes the predictions of a model, and its settings, by the items that it predicts for.
pub(crate) enum Predictions<'a, B: TrainingBackend> {
    /// A network with the outputs of one target, or of the listed targets.
    Nodes(&'a Network<B>, &'a NetworkConfig, Vec<TargetOutputs>),
    Edges(&'a EdgeModel<B>, &'a EdgeModelConfig),
    Graphs(&'a Network<B>, &'a NetworkConfig),
    /// Its network also computes embeddings of nodes.
    Links(&'a LinkModel<B>, &'a LinkModelConfig),
}

/// The outputs of a model for one of several targets.
pub(crate) struct TargetOutputs {
    pub(crate) saved: SavedTarget,
    /// The columns among the outputs for the nodes of its type.
    pub(crate) columns: Range<usize>,
}
