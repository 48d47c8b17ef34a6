//! Nodes of existing parts, which the tables of an update add to.

use crate::ids::IdMap;
use std::collections::HashMap;

/// The nodes of a type in existing parts.
pub struct KnownNodes {
    /// The name of the type.
    pub name: String,
    /// The ids of the nodes, in the order of their original ids.
    pub ids: IdMap,
    /// True for each node whose split is decided: it is in one, or has a label.
    pub has_split: Vec<bool>,
    /// True if the nodes have features, labels, targets or times. Without them, edges may name new nodes.
    pub has_attributes: bool,
}

/// The numbers of the nodes of an update's rows: those of known nodes, and those after them for new nodes.
pub(super) struct RowNumbers {
    /// True for each known node whose split is decided.
    has_split: Vec<bool>,
    /// True for each known node that has a row.
    has_row: Vec<bool>,
    /// The number of the node of each used row.
    pub(super) numbers: Vec<u32>,
}

impl RowNumbers {
    pub(super) fn new(has_split: Vec<bool>) -> Self {
        Self { has_row: vec![false; has_split.len()], has_split, numbers: Vec::new() }
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

    /// Returns true for a node that stays in its split, or in none.
    pub(super) fn keeps_split(&self, number: u32) -> bool {
        self.has_split.get(number as usize).copied().unwrap_or(false)
    }

    /// Returns the row of each node that has one.
    pub(super) fn rows(&self) -> HashMap<u32, u32> {
        self.numbers.iter().copied().zip(0..).collect()
    }
}

/// The ids of a type, and the numbers of its rows if there are known nodes.
#[derive(Clone, Copy)]
pub(super) struct NumberedIds<'a> {
    pub(super) ids: &'a IdMap,
    pub(super) known: Option<&'a RowNumbers>,
}
