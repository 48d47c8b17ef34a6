//! Nodes of existing parts, which the tables of an update add to.

use crate::ids::IdMap;
use edgecut_graph::Split;
use std::collections::HashMap;

/// The nodes of a type in existing parts.
pub struct KnownNodes {
    /// The name of the type.
    pub name: String,
    /// The ids of the nodes, in the order of their original ids.
    pub ids: IdMap,
    /// The labels, in the order of the parts; a label without a name, if there is none or only one.
    pub labels: Vec<KnownLabel>,
    /// True if the nodes are rows of a table, or have attributes. Otherwise, edges may name new nodes.
    pub has_table: bool,
    /// True for features that are not those of tables, so that there are no transforms for new rows.
    pub lacks_transforms: bool,
}

/// A label of the nodes of a type in existing parts.
pub struct KnownLabel {
    /// The name. The only label of a type has none.
    pub name: String,
    /// The split of each node.
    pub splits: Vec<KnownSplit>,
}

/// The edges of a type in existing parts.
pub struct KnownEdges {
    /// The names of the source type, the relation and the destination type.
    pub names: [String; 3],
    /// The edge type that this type holds the reverse edges of, if `add_reverse_edges` has made it.
    pub reverse_of: Option<[String; 3]>,
    /// True for features that are not from tables.
    pub lacks_transforms: bool,
    /// True for held-out edges that were not chosen by `hold_out_edges`.
    pub has_held_out: bool,
}

/// The split of a node of existing parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownSplit {
    /// The node has no label and is in no split, so that a row can put it into one.
    Open,
    /// The node stays in this split, or in none.
    Decided(Option<Split>),
}

/// The numbers of the nodes of an update's rows: those of known nodes, and those after them for new nodes.
pub(super) struct RowNumbers {
    /// The split of each known node, by label.
    splits: Vec<Vec<KnownSplit>>,
    /// True for each known node that has a row.
    has_row: Vec<bool>,
    /// The number of the node of each used row.
    pub(super) numbers: Vec<u32>,
}

impl RowNumbers {
    pub(super) fn new(num_known: usize, splits: Vec<Vec<KnownSplit>>) -> Self {
        Self { has_row: vec![false; num_known], splits, numbers: Vec::new() }
    }

    /// Adds the row of a new node.
    pub(super) fn add_new(&mut self, number: u32) {
        self.numbers.push(number);
    }

    /// Adds the row of a node that has a number already. Returns false if an earlier row has the node.
    pub(super) fn add_known(&mut self, number: u32) -> bool {
        match self.has_row.get_mut(number as usize) {
            Some(has_row) if !*has_row => {
                *has_row = true;
                self.numbers.push(number);
                true
            }
            _ => false,
        }
    }

    /// Returns the split of a node for the label at a position; [`KnownSplit::Open`] for a new node.
    pub(super) fn split(&self, label: usize, number: u32) -> KnownSplit {
        let splits = self.splits.get(label);
        splits.and_then(|splits| splits.get(number as usize)).copied().unwrap_or(KnownSplit::Open)
    }

    /// Returns true if the split of a known node is decided for the label at a position.
    pub(super) fn has_splits(&self, label: usize) -> bool {
        self.splits.get(label).is_some_and(|splits| splits.iter().any(|split| *split != KnownSplit::Open))
    }

    /// Returns the row of each node that has one.
    pub(super) fn rows(&self) -> HashMap<u32, u32> {
        self.numbers.iter().copied().zip(0..).collect()
    }
}

/// The ids of a type, and the numbers of its rows if there are known nodes, for one of the labels.
#[derive(Clone, Copy)]
pub(super) struct NumberedIds<'a> {
    /// The position of the label.
    pub(super) label: usize,
    pub(super) ids: &'a IdMap,
    pub(super) known: Option<&'a RowNumbers>,
}
