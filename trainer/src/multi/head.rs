//! The output of a model for one of several targets.

use super::target_label::{KnownNodes, TargetLabel};
use crate::fit::Outputs;
use crate::objective::Objective;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_gnn::ops::select_rows;
use edgecut_graph::NodeTypeId;
use std::ops::Range;

/// The output of a model for one of several targets.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) label: TargetLabel,
    /// The factor of its mean loss.
    pub(super) weight: f64,
    /// Its columns in the outputs for its node type.
    pub(super) outputs: Range<usize>,
    pub(super) objective: Objective,
}

impl Head {
    /// Returns the full name of the target.
    pub(super) fn name(&self) -> &str {
        &self.label.name
    }

    pub(super) fn node_type(&self) -> NodeTypeId {
        self.label.node_type
    }

    /// Returns the outputs for known seeds out of the outputs for all seeds of the node type.
    pub(super) fn outputs<B: Backend>(&self, all: Tensor<B, 2>, known: KnownNodes) -> Outputs<B> {
        let [num_seeds, channels] = all.dims();
        let is_all = self.outputs.len() == channels;
        let columns = if is_all { all } else { all.slice([0..num_seeds, self.outputs.clone()]) };
        let values = match known.rows {
            None => columns,
            Some(rows) => select_rows(&columns, &rows),
        };
        Outputs { values, target: known.target }
    }
}
