//! Models whose layers can be computed one after the other.

use super::model_input::ModelInput;
use crate::error::ModelError;
use burn::tensor::Tensor;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::NodeTypeId;

/// A model that consists of passes over all nodes. Each pass computes the rows of a node from the rows that the pass
/// before has computed for it and for its in-neighbors. The first pass reads features.
pub trait LayeredModel<B: GnnBackend> {
    /// Returns the number of passes.
    fn num_passes(&self) -> usize;

    /// Returns true if a pass, counted from 0, reads neighbors. Otherwise it reads the rows of the nodes alone.
    fn reads_neighbors(&self, pass: usize) -> bool;

    /// Returns the number of columns that a pass computes for nodes of a type.
    fn width(&self, pass: usize, node_type: NodeTypeId) -> usize;

    /// Computes the rows of the seeds of an input, all of one type. The input has one layer if the pass reads neighbors,
    /// and otherwise none. Its features are the rows of the pass before.
    ///
    /// # Shapes
    /// - output: `[num_seeds, width]`
    ///
    /// # Errors
    /// [`ModelError`] if the input does not match the model.
    fn run_pass(&self, pass: usize, node_type: NodeTypeId, input: &ModelInput<B>) -> Result<Tensor<B, 2>, ModelError>;
}
