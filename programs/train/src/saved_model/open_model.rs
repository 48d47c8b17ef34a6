//! The form in which tasks open saved models for predictions.

use edgecut_dist_sampler::DistRows;
use edgecut_graph::NodeTypeId;
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::inference::{Neighborhoods, PredictionConfig, PredictionJob, WantedRows};
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::model_file::SavedEmbeddings;
use edgecut_trainer::multi::SavedTarget;
use std::any::Any;
use std::ops::Range;

/// The outputs of a model for one of several targets.
pub(crate) struct TargetOutputs {
    pub(crate) saved: SavedTarget,
    /// The columns among the outputs for the nodes of its type.
    pub(crate) columns: Range<usize>,
}

/// An open model of a task. Requests that need the model of one task find it by its type.
pub(crate) trait OpenModel<B: TrainingBackend>: Any {
    /// Returns the embeddings of the nodes without features.
    fn embeddings(&self) -> &SavedEmbeddings;

    /// Returns the meaning of the outputs; `None` if they are neither classes, labels nor numbers.
    fn outputs(&self) -> Option<OutputKind>;

    /// Returns the node type that the model predicts for; `None` if it is not for nodes of one type.
    fn classified(&self) -> Option<NodeTypeId>;

    /// Returns true if each target needs a neighborhood of its own, which does not contain it, and has a time of its own.
    fn leaves_out_targets(&self) -> bool;

    /// Returns the reason if the model computes no such rows of nodes, with the flags to use.
    fn refuses_nodes(&self, wanted: &WantedRows) -> Option<&'static str>;

    /// Returns the targets of a model with several; none for other models.
    fn targets(&self) -> Vec<TargetOutputs>;

    /// Computes the outputs for all nodes of each of some types that have targets. Every rank must call this.
    fn rows_of_types(
        &self,
        job: PredictionJob<'_, '_, B>,
        node_types: &[NodeTypeId],
        neighborhoods: &Neighborhoods,
    ) -> anyhow::Result<Vec<DistRows>>;

    /// Computes rows of all nodes of a type. Every rank must call this.
    fn node_rows(&self, job: PredictionJob<'_, '_, B>, config: &PredictionConfig) -> anyhow::Result<DistRows>;
}
