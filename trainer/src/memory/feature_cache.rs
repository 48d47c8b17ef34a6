//! A cache of the features of frequently sampled nodes in device memory.

use crate::error::TrainError;
use crate::memory::feature_rows::normalize_rows;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_dist_loader::CachedRows;
use edgecut_dist_sampler::{DistGraph, Hotness};
use edgecut_gnn::ops::{GnnBackend, GnnKernels, Precision, constant};
use edgecut_graph::NodeTypeId;
use std::sync::Arc;

/// The bytes of features that are copied to the device at once. Bounds the host memory while the cache is filled.
const BYTES_AT_ONCE: usize = 64 << 20;

/// The feature rows that a device caches by node type, and the nodes that they belong to. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct FeatureCache<B: Backend> {
    rows: Arc<CachedRows>,
    /// By node type: the cached rows `[slots, feature_dim]`, or `None` if no row is cached.
    tables: Vec<Option<Tensor<B, 2>>>,
}

impl<B: GnnBackend> FeatureCache<B> {
    /// Fetches the rows of the nodes with the highest counts in `hotness` from the parts that own them, and copies them
    /// to `device`: as many as fit into `budget_bytes` in the given precision.
    ///
    /// # Errors
    /// An error from a peer.
    pub fn fill(
        graph: &Arc<DistGraph>,
        hotness: &Hotness,
        budget_bytes: u64,
        (precision, normalize): (Precision, bool),
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        let types = &graph.part().meta().node_types;
        let row_bytes: Vec<u64> = types.iter().map(|t| (t.feature_dim * precision.size()) as u64).collect();
        let rows = Arc::new(CachedRows::new(hotness.hottest(&row_bytes, budget_bytes))?);
        let mut tables = Vec::with_capacity(types.len());
        for (t, of_type) in types.iter().enumerate() {
            let node_type = NodeTypeId(t as u16);
            let dim = of_type.feature_dim;
            let slots = rows.nodes(node_type).len();
            if slots == 0 {
                tables.push(None);
                continue;
            }
            let at_once = (BYTES_AT_ONCE / (dim * size_of::<f32>())).max(1);
            let mut pieces = Vec::new();
            for start in (0..slots).step_by(at_once) {
                let end = (start + at_once).min(slots);
                let mut features = graph.handle().block_on(rows.fetch(graph, node_type, start..end))?;
                if normalize {
                    normalize_rows(&mut features, dim);
                }
                let piece = B::Kernels::place(features, [end - start, dim], precision, device);
                pieces.push(constant::<B, 2>(piece).reshape([(end - start) * dim]));
            }
            // Concatenated as one vector: a device may pad the rows of a matrix.
            tables.push(Some(Tensor::cat(pieces, 0).reshape([slots, dim])));
        }
        Ok(Self { rows, tables })
    }

    /// Returns the nodes whose rows are cached. A loader does not fetch these rows.
    pub fn rows(&self) -> &Arc<CachedRows> {
        &self.rows
    }

    /// Returns the cached rows of a node type, if there are any.
    pub(crate) fn table(&self, node_type: usize) -> Option<&Tensor<B, 2>> {
        self.tables.get(node_type)?.as_ref()
    }

    /// Returns the number of cached rows over all types.
    pub fn num_rows(&self) -> usize {
        self.tables.iter().flatten().map(|table| table.dims()[0]).sum()
    }
}
