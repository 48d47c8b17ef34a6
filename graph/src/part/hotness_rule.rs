//! The rule by which hot nodes of other parts are chosen when parts are written.

use serde::{Deserialize, Serialize};

/// The rule by which the nodes of other parts are ranked, so that a cache keeps the features that are read most often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ranking", rename_all = "kebab-case")]
pub enum HotnessRule {
    /// The expected number of batches that contain a node, in 1000 epochs over the training nodes of the part. It is
    /// computed from the fan-outs, so nothing is drawn.
    Presample {
        /// The number of neighbors per hop and edge type, from the seeds outwards; -1 for all.
        num_neighbors: Vec<i64>,
        /// The number of seeds of a batch.
        batch_size: usize,
    },
    /// The in-degree of a node in the whole graph.
    InDegree,
}

impl HotnessRule {
    /// The number of epochs in which batches are counted. Fractions of a batch per epoch thus remain in whole numbers.
    pub(crate) const EPOCHS: u32 = 1000;

    /// Checks the fan-outs and the batch size.
    ///
    /// # Errors
    /// Describes the first invalid value.
    pub fn check(&self) -> Result<(), String> {
        let Self::Presample { num_neighbors, batch_size } = self else { return Ok(()) };
        if num_neighbors.is_empty() || num_neighbors.iter().any(|&fan_out| fan_out < -1) {
            return Err(format!(
                "`num_neighbors` is {num_neighbors:?}, but it needs a number of neighbors per hop, or -1 for all"
            ));
        }
        if *batch_size == 0 {
            return Err("`batch_size` is 0, but a batch needs at least one seed".into());
        }
        Ok(())
    }
}
