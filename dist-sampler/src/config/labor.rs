//! The choice between neighbor sampling and layer-neighbor sampling.

use edgecut_settings::words;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// Layer-neighbor sampling, LABOR-0 with a fixed number of neighbors (Balın and Çatalyürek, "Layer-Neighbor Sampling -
/// Defusing Neighborhood Explosion in GNNs", NeurIPS 2023).
///
/// Every node has a random number for the whole batch, and a node draws its in-neighbors with the smallest numbers.
/// Further edges from a node to the same destination have numbers of their own. The neighbors of one node are distributed
/// as in neighbor sampling: uniform, or by weight, and as many. Nodes that share in-neighbors draw the same ones more often,
/// so a batch has fewer nodes. All hops of a batch use the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Labor {
    /// The number of batches over which the random numbers of nodes turn into new ones. Batches with close numbers in an
    /// epoch then share many nodes. With 1, batches are independent.
    pub batch_dependency: NonZeroU32,
}

impl Default for Labor {
    fn default() -> Self {
        Self { batch_dependency: NonZeroU32::MIN }
    }
}

/// A method of sampling, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SamplingMethod {
    /// Every node draws its neighbors independently of all others.
    #[default]
    Neighbor,
    /// [`Labor`].
    Labor,
}

words!(SamplingMethod, "sampler", Neighbor = "neighbor", Labor = "labor");

impl SamplingMethod {
    /// Returns the settings of layer-neighbor sampling, or `None` for neighbor sampling.
    ///
    /// # Errors
    /// A message if neighbor sampling is given a dependency.
    pub fn labor(self, batch_dependency: Option<NonZeroU32>) -> Result<Option<Labor>, String> {
        match (self, batch_dependency) {
            (Self::Neighbor, None) => Ok(None),
            (Self::Neighbor, Some(_)) => {
                Err("neighbor sampling draws each batch independently: use the sampler labor for a batch dependency"
                    .into())
            }
            (Self::Labor, None) => Ok(Some(Labor::default())),
            (Self::Labor, Some(batch_dependency)) => Ok(Some(Labor { batch_dependency })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbor_sampling_has_no_batch_dependency() {
        let four = NonZeroU32::new(4);
        assert_eq!(SamplingMethod::Neighbor.labor(None), Ok(None));
        assert!(SamplingMethod::Neighbor.labor(four).is_err());
        assert_eq!(SamplingMethod::Labor.labor(None), Ok(Some(Labor::default())));
        assert_eq!(SamplingMethod::Labor.labor(four).map(|labor| labor.map(|l| l.batch_dependency)), Ok(four));
    }
}
