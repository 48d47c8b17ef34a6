//! Models whose layers can be computed one after the other.

use super::model_error::ModelError;
use super::model_input::ModelInput;
use super::node_model::NodeModel;
use super::relational_net::RelationalNet;
use crate::nn::Mode;
use crate::ops::GnnBackend;
use burn::tensor::Tensor;
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

impl<B: GnnBackend> LayeredModel<B> for NodeModel<B> {
    fn num_passes(&self) -> usize {
        match self {
            Self::Stack(model) => model.layers.len(),
            Self::Relational(model) => model.num_passes(),
        }
    }

    fn reads_neighbors(&self, pass: usize) -> bool {
        match self {
            Self::Stack(_) => true,
            Self::Relational(model) => model.reads_neighbors(pass),
        }
    }

    fn width(&self, pass: usize, node_type: NodeTypeId) -> usize {
        match self {
            Self::Stack(model) => model.width(pass),
            Self::Relational(model) => model.width(pass, node_type),
        }
    }

    fn run_pass(&self, pass: usize, node_type: NodeTypeId, input: &ModelInput<B>) -> Result<Tensor<B, 2>, ModelError> {
        match self {
            Self::Stack(model) => model.forward_layer(pass, input),
            Self::Relational(model) => model.run_pass(pass, node_type, input),
        }
    }
}

/// The passes are the encoders, the layers, and the output layers if there are any.
impl<B: GnnBackend> LayeredModel<B> for RelationalNet<B> {
    fn num_passes(&self) -> usize {
        1 + self.layers.len() + usize::from(!self.config().outputs.is_empty())
    }

    fn reads_neighbors(&self, pass: usize) -> bool {
        (1..=self.layers.len()).contains(&pass)
    }

    fn width(&self, pass: usize, node_type: NodeTypeId) -> usize {
        let config = self.config();
        let output = config.outputs.iter().find(|output| output.node_type == node_type);
        match output.filter(|_| pass > self.layers.len()) {
            Some(output) => output.channels,
            None => config.hidden_channels,
        }
    }

    fn run_pass(&self, pass: usize, node_type: NodeTypeId, input: &ModelInput<B>) -> Result<Tensor<B, 2>, ModelError> {
        let t = node_type.index();
        let rows = match pass {
            0 => self.encode(input, Mode::Eval)?.swap_remove(t),
            _ if self.reads_neighbors(pass) => self.forward_layer(pass - 1, input).swap_remove(t),
            _ => input.nodes()[t].features.clone().map(|rows| self.output(t, rows)),
        };
        Ok(rows.unwrap_or_else(|| Tensor::zeros([0, self.width(pass, node_type)], &input.device())))
    }
}
