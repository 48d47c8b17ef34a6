//! Pairs of nodes whose edges are in a list already.

use super::Split;
use crate::NodeTypeId;
use std::collections::HashMap;

/// A node of a type.
type End = (NodeTypeId, u32);

/// The list of each pair of nodes that known edges join. Directions and edge types do not distinguish pairs.
#[derive(Clone, Debug, Default)]
pub struct KnownPairs {
    /// `None` for a pair whose edges have not been found.
    lists: HashMap<[u64; 2], Option<Split>>,
}

impl KnownPairs {
    /// Adds a pair to look for.
    pub(crate) fn want(&mut self, ends: [End; 2]) {
        self.lists.entry(key(ends)).or_insert(None);
    }

    /// Records the list of an edge if its pair is wanted. A pair with edges in several lists is in the last of them: in
    /// training, its edges would reveal those that are held out.
    pub(crate) fn found(&mut self, ends: [End; 2], split: Split) {
        if let Some(list) = self.lists.get_mut(&key(ends)) {
            let is_later = list.is_none_or(|earlier| earlier.index() < split.index());
            if is_later {
                *list = Some(split);
            }
        }
    }

    /// Returns the list of a pair; `None` if no known edge joins it.
    pub(crate) fn get(&self, ends: [End; 2]) -> Option<Split> {
        if self.lists.is_empty() {
            return None;
        }
        self.lists.get(&key(ends)).copied().flatten()
    }
}

/// Returns the key of a pair, the same for both directions.
fn key(ends: [End; 2]) -> [u64; 2] {
    let mut key = ends.map(|(node_type, node)| u64::from(node_type.0) << 32 | u64::from(node));
    key.sort_unstable();
    key
}
