//! The graph data that a device with its own memory keeps there.

use crate::error::TrainError;
use crate::memory::feature_cache::FeatureCache;
use edgecut_dist_loader::LoaderError;
use edgecut_dist_sampler::{DistGraph, Hotness};
use edgecut_gnn::ops::{GnnBackend, GnnKernels, Precision};
use std::sync::Arc;

/// The number of batches that are sampled to find the most frequently sampled nodes.
const BATCHES_TO_COUNT: usize = 64;

/// The graph data to keep in the device's memory, besides batches and the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The maximum size of this data in bytes.
    pub cache_bytes: u64,
    /// True to keep the part's edges on the device, if they fit, and to sample hops there.
    pub graph: bool,
    /// The type in which features are copied and kept.
    pub precision: Precision,
}

impl DeviceMemory {
    /// Copies the part's edges to the device if `graph` is set; hops are then sampled on the device. Returns the bytes
    /// that are left for features: 0 on a device without its own memory.
    ///
    /// # Errors
    /// [`TrainError::Config`] if no edge type fits; [`TrainError::GraphOnDevice`] with the device's error.
    pub(crate) fn hold_edges<B: GnnBackend>(
        self,
        graph: &Arc<DistGraph>,
        device: &B::Device,
    ) -> Result<u64, TrainError> {
        if !B::Kernels::HAS_OWN_MEMORY {
            return Ok(0);
        }
        if !self.graph {
            return Ok(self.cache_bytes);
        }
        if graph.is_client() {
            return Err(TrainError::Config {
                what: "`graph`: servers hold the edges and sample, so this process has none to hold: leave it out"
                    .into(),
            });
        }
        let kernel =
            B::Kernels::hop_kernel(graph.part(), self.cache_bytes, device).map_err(TrainError::GraphOnDevice)?;
        let Some((kernel, bytes)) = kernel else { return Ok(self.cache_bytes) };
        if bytes == 0 && graph.part().meta().edge_types.iter().any(|edges| edges.num_edges > 0) {
            let given = self.cache_bytes;
            return Err(TrainError::Config {
                what: format!("none of the part's edges fit into the {given} bytes of `cache_bytes`: increase it"),
            });
        }
        graph.draw_with(kernel)?;
        Ok(self.cache_bytes - bytes)
    }

    /// Copies the features of the most frequently sampled nodes to the device, up to `budget_bytes`. Returns `None` for
    /// a budget of 0. `count` samples the given number of batches and counts their nodes.
    ///
    /// # Errors
    /// An error while sampling or fetching.
    pub(crate) fn hold_features<B: GnnBackend>(
        self,
        graph: &Arc<DistGraph>,
        count: impl FnOnce(usize) -> Result<Hotness, LoaderError>,
        (budget_bytes, normalize): (u64, bool),
        device: &B::Device,
    ) -> Result<Option<FeatureCache<B>>, TrainError> {
        if budget_bytes == 0 {
            return Ok(None);
        }
        let hotness = count(BATCHES_TO_COUNT)?;
        FeatureCache::fill(graph, &hotness, budget_bytes, (self.precision, normalize), device).map(Some)
    }
}
