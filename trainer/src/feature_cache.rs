//! Features of often wanted nodes, in the memory of the device that reads them.

use crate::batch_input::normalize_rows;
use crate::ops::{GnnBackend, Precision};
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorPrimitive};
use edgecut_dist_loader::{CachedRows, Hotness};
use edgecut_dist_sampler::SamplingNode;
use edgecut_graph::NodeTypeId;
use std::sync::Arc;

/// Bytes of features that are on their way to the device at once.
const BYTES_AT_ONCE: usize = 64 << 20;

/// By node type the rows of features that a device keeps, and which nodes they are of. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct FeatureCache<B: Backend> {
    rows: Arc<CachedRows>,
    /// `[slots, feature_dim]` of the types that have some.
    tables: Vec<Option<Tensor<B, 2>>>,
}

impl<B: GnnBackend> FeatureCache<B> {
    /// Keeps the rows of the nodes that `hotness` has counted most often, as many as `budget_bytes` hold in the given type,
    /// on `device`. They are fetched from whichever parts own them.
    ///
    /// # Errors
    /// An error of a peer.
    pub fn fill(
        node: &Arc<SamplingNode>,
        hotness: &Hotness,
        budget_bytes: u64,
        (precision, normalize): (Precision, bool),
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        let types = &node.part().meta().node_types;
        let row_bytes: Vec<u64> = types.iter().map(|t| (t.feature_dim * precision.size()) as u64).collect();
        let rows = Arc::new(CachedRows::new(hotness.hottest(&row_bytes, budget_bytes))?);
        let mut tables = Vec::with_capacity(types.len());
        for (t, of_type) in types.iter().enumerate() {
            let (node_type, dim) = (NodeTypeId(t as u16), of_type.feature_dim);
            let slots = rows.nodes(node_type).len();
            if slots == 0 {
                tables.push(None);
                continue;
            }
            let at_once = (BYTES_AT_ONCE / (dim * size_of::<f32>())).max(1);
            let mut pieces = Vec::new();
            for start in (0..slots).step_by(at_once) {
                let end = (start + at_once).min(slots);
                let mut features = node.handle().block_on(rows.fetch(node, node_type, start..end))?;
                if normalize {
                    normalize_rows(&mut features, dim);
                }
                let piece = B::gnn_place(features, [end - start, dim], precision, device);
                let piece = Tensor::<B, 2>::from_primitive(TensorPrimitive::Float(piece));
                pieces.push(piece.reshape([(end - start) * dim]));
            }
            // As one vector, so that no device puts gaps between rows.
            tables.push(Some(Tensor::cat(pieces, 0).reshape([slots, dim])));
        }
        Ok(Self { rows, tables })
    }

    /// Which nodes' rows are kept: what a loader does not fetch.
    pub fn rows(&self) -> &Arc<CachedRows> {
        &self.rows
    }

    /// The rows of a type, if there are any.
    pub(crate) fn table(&self, node_type: usize) -> Option<&Tensor<B, 2>> {
        self.tables.get(node_type)?.as_ref()
    }

    /// Rows that are kept, of all types.
    pub fn num_rows(&self) -> usize {
        self.tables.iter().flatten().map(|table| table.dims()[0]).sum()
    }
}
