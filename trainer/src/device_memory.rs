//! What of the graph a device with memory of its own keeps there.

use crate::feature_cache::FeatureCache;
use crate::ops::{GnnBackend, Precision};
use crate::train_error::TrainError;
use edgecut_dist_loader::{Hotness, LoaderError};
use edgecut_dist_sampler::SamplingNode;
use std::sync::Arc;

/// Batches that are sampled to find out which nodes are wanted most often.
const BATCHES_TO_COUNT: usize = 64;

/// What of the graph is kept in the device's memory, beside batches and the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The most that it takes, in bytes.
    pub cache_bytes: u64,
    /// Whether the part's edges are there and hops are drawn there, if they fit.
    pub graph: bool,
    /// In what features are copied and kept.
    pub precision: Precision,
}

impl DeviceMemory {
    /// Puts the part's edges on the device, if they are wanted there: hops are then drawn where they are. Gives the bytes that are
    /// left for features, none where a device has no memory of its own.
    ///
    /// # Errors
    /// [`TrainError::Config`] if none fit, or what the device says.
    pub(crate) fn hold_edges<B: GnnBackend>(
        self,
        node: &Arc<SamplingNode>,
        device: &B::Device,
    ) -> Result<u64, TrainError> {
        if !B::HAS_OWN_MEMORY {
            return Ok(0);
        }
        if !self.graph {
            return Ok(self.cache_bytes);
        }
        let fail = |what: String| TrainError::Config { what };
        let kernel = B::gnn_hop_kernel(node.part(), self.cache_bytes, device);
        let kernel =
            kernel.map_err(|error| TrainError::Device { what: format!("put the graph on the device: {error}") })?;
        let Some((kernel, bytes)) = kernel else { return Ok(self.cache_bytes) };
        if bytes == 0 && node.part().meta().edge_types.iter().any(|edges| edges.num_edges > 0) {
            let given = self.cache_bytes;
            return Err(fail(format!(
                "none of the part's edges fit into the {given} bytes of --gpu-cache-bytes: give more"
            )));
        }
        node.draw_with(kernel)?;
        Ok(self.cache_bytes - bytes)
    }

    /// Keeps the features of the nodes that are wanted most often on the device, as far as `budget_bytes` go; nothing for a
    /// budget of 0. `count` samples some batches.
    ///
    /// # Errors
    /// A failure to sample or to fetch.
    pub(crate) fn hold_features<B: GnnBackend>(
        self,
        node: &Arc<SamplingNode>,
        count: impl FnOnce(usize) -> Result<Hotness, LoaderError>,
        (budget_bytes, normalize): (u64, bool),
        device: &B::Device,
    ) -> Result<Option<FeatureCache<B>>, TrainError> {
        if budget_bytes == 0 {
            return Ok(None);
        }
        let hotness = count(BATCHES_TO_COUNT)?;
        FeatureCache::fill(node, &hotness, budget_bytes, (self.precision, normalize), device).map(Some)
    }
}
