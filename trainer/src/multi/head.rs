//! The output of a model for one of several targets.

use crate::fit::Outputs;
use crate::loss::Target;
use crate::objective::Objective;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use edgecut_graph::{NodeTypeId, Split};
use std::ops::Range;

/// The output of a model for one of several targets.
#[derive(Clone, Debug)]
pub(super) struct Head {
    /// The full name of the target.
    pub(super) name: String,
    pub(super) node_type: NodeTypeId,
    /// The factor of its mean loss.
    pub(super) weight: f64,
    /// The columns of its values among the targets of its node type. The column after them has the split.
    pub(super) values: Range<usize>,
    /// True if its value is a class.
    pub(super) is_class: bool,
    /// Its columns in the outputs for its node type.
    pub(super) outputs: Range<usize>,
    pub(super) objective: Objective,
}

/// The seeds of a batch that a target is known for.
pub(super) struct KnownSeeds {
    /// The positions of the seeds; `None` for all seeds of the batch.
    rows: Option<Vec<i32>>,
    pub(super) target: Target,
}

impl Head {
    /// Returns the seeds of a batch that are in a split of this target, with their values. `together` has a row for
    /// each seed of the batch, with the columns of all targets of the node type. Returns `None` without such seeds.
    pub(super) fn known(&self, together: &Target, split: Split) -> Option<KnownSeeds> {
        let Target::Numbers { values, dim } = together else { return None };
        let code = f32::from(split.code());
        let mut rows = Vec::new();
        let mut numbers = Vec::new();
        let mut num_seeds = 0;
        for (row, of_seed) in (0..).zip(values.chunks_exact(*dim)) {
            num_seeds += 1;
            // A split without a known value is not possible, because parts and readers check it.
            if of_seed[self.values.end] == code {
                rows.push(row);
                numbers.extend_from_slice(&of_seed[self.values.clone()]);
            }
        }
        if rows.is_empty() {
            return None;
        }
        let target = if self.is_class {
            Target::Classes(numbers.into_iter().map(|class| class as i64).collect())
        } else {
            Target::Numbers { values: numbers, dim: self.values.len() }
        };
        Some(KnownSeeds { rows: Some(rows).filter(|rows| rows.len() < num_seeds), target })
    }

    /// Returns the outputs for known seeds out of the outputs for all seeds of the node type.
    pub(super) fn outputs<B: Backend>(&self, all: Tensor<B, 2>, known: KnownSeeds) -> Outputs<B> {
        let [num_seeds, channels] = all.dims();
        let device = all.device();
        let is_all = self.outputs.len() == channels;
        let columns = if is_all { all } else { all.slice([0..num_seeds, self.outputs.clone()]) };
        let values = match known.rows {
            None => columns,
            Some(rows) => {
                let len = rows.len();
                columns.select(0, Tensor::<B, 1, Int>::from_data(TensorData::new(rows, [len]), &device))
            }
        };
        Outputs { values, target: known.target }
    }
}
