//! Feature rows that the consumer of the batches has cached.

use crate::batch::mini_batch::NodeBatch;
use crate::error::LoaderError;
use edgecut_dist_sampler::{DistGraph, NodeFields, SampleError};
use edgecut_graph::NodeTypeId;
use futures::future::BoxFuture;
use rustc_hash::FxHashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The nodes of each type whose features the consumer has cached, each in a slot. A loader does not fetch these
/// features.
///
/// Invariant: the features of a batch are the same with and without a cache (`dist-loader/tests/cached_features.rs`).
#[derive(Clone, Default)]
pub struct CachedRows {
    /// By node type, the global ids in the order of the slots.
    nodes: Vec<Vec<u32>>,
    slots: Vec<FxHashMap<u32, u32>>,
}

impl CachedRows {
    /// Makes the cache of the `nodes` of each type, which are global ids in the order of their slots.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a node that is listed twice, or for 2^31 or more nodes of a type.
    pub fn new(nodes: Vec<Vec<u32>>) -> Result<Self, LoaderError> {
        let mut slots = Vec::with_capacity(nodes.len());
        for (node_type, nodes) in nodes.iter().enumerate() {
            let of_type: FxHashMap<u32, u32> = nodes.iter().zip(0..).map(|(&node, slot)| (node, slot)).collect();
            if of_type.len() != nodes.len() || nodes.len() > i32::MAX as usize {
                let what = format!(
                    "the cache lists {} rows of node type {node_type}, {} of them distinct: list each node once, and \
                     fewer than 2^31",
                    nodes.len(),
                    of_type.len()
                );
                return Err(LoaderError::Config { what });
            }
            slots.push(of_type);
        }
        Ok(Self { nodes, slots })
    }

    /// Returns the slot of a node, given by global id.
    pub fn slot(&self, node_type: NodeTypeId, node: u32) -> Option<u32> {
        self.slots.get(node_type.index())?.get(&node).copied()
    }

    /// Returns the global ids of the nodes of a type, by slot.
    pub fn nodes(&self, node_type: NodeTypeId) -> &[u32] {
        self.nodes.get(node_type.index()).map_or(&[], |nodes| nodes)
    }

    /// Fetches the features of the nodes in some slots of one type, to fill the cache: `[slots.len(), feature_dim]`,
    /// row-major. Fetching ranges of slots one after the other bounds the memory that this takes.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for slots that do not exist, [`LoaderError::Graph`] if the type has no features or a
    /// peer fails.
    pub fn fetch<'a>(
        &'a self,
        graph: &'a Arc<DistGraph>,
        node_type: NodeTypeId,
        slots: Range<usize>,
    ) -> BoxFuture<'a, Result<Vec<f32>, LoaderError>> {
        Box::pin(async move {
            let nodes = self.nodes(node_type);
            let Some(nodes) = nodes.get(slots.clone()) else {
                let what = format!(
                    "slots {slots:?} of node type {} were requested, but the cache has {}",
                    node_type.0,
                    nodes.len()
                );
                return Err(LoaderError::Config { what });
            };
            let wanted = NodeFields::FEATURES;
            let fetched = graph.fetch(node_type, nodes.to_vec(), wanted).await;
            fetched.map(|fetched| fetched.features).map_err(|source| LoaderError::Graph {
                operation: "fetch rows for the feature cache",
                source: Box::new(source),
            })
        })
    }

    /// Returns the slot of each node, or [`NodeBatch::NOT_CACHED`], and the nodes without a slot in order. The lookups
    /// run on the sampling threads.
    pub(crate) async fn split(
        self: &Arc<Self>,
        graph: &DistGraph,
        node_type: NodeTypeId,
        nodes: Vec<u32>,
    ) -> Result<(Vec<u32>, Vec<u32>), SampleError> {
        let cached = self.clone();
        let look = move || {
            let slot = |&node: &u32| cached.slot(node_type, node).unwrap_or(NodeBatch::NOT_CACHED);
            let slots: Vec<u32> = nodes.iter().map(slot).collect();
            let is_missing = |&(_, &slot): &(&u32, &u32)| slot == NodeBatch::NOT_CACHED;
            let missing = nodes.iter().zip(&slots).filter(is_missing).map(|(&node, _)| node).collect();
            (slots, missing)
        };
        graph.run_on_workers(look).await
    }
}

impl fmt::Debug for CachedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<usize> = self.nodes.iter().map(Vec::len).collect();
        f.debug_struct("CachedRows").field("nodes_by_type", &counts).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_slot() {
        let cached = CachedRows::new(vec![vec![5, 2], vec![], vec![2]]).unwrap();
        let slots = [(0, 5), (0, 2), (0, 7), (1, 5), (2, 2), (3, 5)].map(|(t, node)| cached.slot(NodeTypeId(t), node));
        assert_eq!(slots, [Some(0), Some(1), None, None, Some(0), None]);
        assert_eq!((cached.nodes(NodeTypeId(0)), cached.nodes(NodeTypeId(9))), (&[5, 2][..], &[][..]));
        let error = CachedRows::new(vec![vec![], vec![4, 5, 4]]).unwrap_err().to_string();
        assert!(error.contains("the cache lists 3 rows of node type 1, 2 of them distinct"), "{error}");
    }
}
