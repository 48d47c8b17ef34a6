//! Rows of features that the trainer has already.

use crate::batch::NodeBatch;
use crate::error::LoaderError;
use edgecut_dist_sampler::{SampleError, SamplingNode, Wanted};
use edgecut_graph::NodeTypeId;
use rustc_hash::FxHashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// By node type the nodes whose features are kept where they are used, each in a slot: a loader does not fetch them.
///
/// ```
/// use edgecut_dist_loader::CachedRows;
/// use edgecut_graph::NodeTypeId;
/// let cached = CachedRows::new(vec![vec![7, 3]])?;
/// assert_eq!((cached.slot(NodeTypeId(0), 3), cached.slot(NodeTypeId(0), 4)), (Some(1), None));
/// # Ok::<(), edgecut_dist_loader::LoaderError>(())
/// ```
#[derive(Clone, Default)]
pub struct CachedRows {
    /// By node type, the global ids by slot.
    nodes: Vec<Vec<u32>>,
    slots: Vec<FxHashMap<u32, u32>>,
}

impl CachedRows {
    /// Keeps the `nodes` of each type, global ids in the order of their slots.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a node given twice, or for 2^31 nodes of a type or more.
    pub fn new(nodes: Vec<Vec<u32>>) -> Result<Self, LoaderError> {
        let mut slots = Vec::with_capacity(nodes.len());
        for (node_type, nodes) in nodes.iter().enumerate() {
            let of_type: FxHashMap<u32, u32> = nodes.iter().zip(0..).map(|(&node, slot)| (node, slot)).collect();
            if of_type.len() != nodes.len() || nodes.len() > i32::MAX as usize {
                let what = format!(
                    "{} rows of node type {node_type} are to be cached, {} of them different: give each once, fewer than 2^31",
                    nodes.len(),
                    of_type.len()
                );
                return Err(LoaderError::Config { what });
            }
            slots.push(of_type);
        }
        Ok(Self { nodes, slots })
    }

    /// The slot of a node by its global id.
    pub fn slot(&self, node_type: NodeTypeId, node: u32) -> Option<u32> {
        self.slots.get(node_type.index())?.get(&node).copied()
    }

    /// The global ids of a type's nodes, by slot.
    pub fn nodes(&self, node_type: NodeTypeId) -> &[u32] {
        self.nodes.get(node_type.index()).map_or(&[], |nodes| nodes)
    }

    /// Fetches the features of the nodes of one type in some slots, to be cached: `[slots.len(), feature_dim]`, row-major. Slots
    /// in stretches bound the memory that this takes.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for slots that there are not, [`LoaderError::Fetch`] if the type has no features or a peer fails.
    pub async fn fetch(
        &self,
        node: &Arc<SamplingNode>,
        node_type: NodeTypeId,
        slots: Range<usize>,
    ) -> Result<Vec<f32>, LoaderError> {
        let nodes = self.nodes(node_type);
        let Some(nodes) = nodes.get(slots.clone()) else {
            let what = format!("slots {slots:?} of node type {} were asked for, of {}", node_type.0, nodes.len());
            return Err(LoaderError::Config { what });
        };
        let wanted = Wanted { features: true, ..Wanted::default() };
        let fetched = node.fetch(node_type, nodes.to_vec(), wanted).await;
        fetched.map(|fetched| fetched.features).map_err(|source| LoaderError::Fetch { source: Box::new(source) })
    }

    /// The slot of each node, [`NodeBatch::NOT_CACHED`] where it has none, and the nodes that have none, in order. Looks them up
    /// on the threads that sample.
    pub(crate) async fn split(
        self: &Arc<Self>,
        node: &SamplingNode,
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
        node.run_on_workers(look).await
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
        assert!(error.contains("3 rows of node type 1 are to be cached, 2 of them different"), "{error}");
    }
}
