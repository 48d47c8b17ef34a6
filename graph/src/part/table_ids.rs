//! The ids of nodes in the table that they were read from.

use super::Part;
use crate::NodeTypeId;
use std::io;

/// The ids of some nodes in their table, in the order of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableIds {
    /// Whole numbers.
    Numbers(Vec<i64>),
    /// Texts.
    Texts(TextIds),
}

/// Texts, end to end.
///
/// Invariant: `ends` does not decrease, and its last entry is the number of bytes.
///
/// ```
/// use edgecut_graph::TextIds;
/// let mut texts = TextIds::default();
/// texts.push(b"ada");
/// texts.push(b"");
/// assert_eq!((texts.get(0), texts.get(1)), (&b"ada"[..], &b""[..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextIds {
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

/// A reader of the ids of nodes in their tables.
pub trait TableIdSource: Send + Sync {
    /// Returns the ids of a part's nodes of a type in the order of the part's rows. The parts have an id map of the type.
    ///
    /// # Errors
    /// Fails if a file is missing or damaged.
    fn read(&self, part: &Part, node_type: NodeTypeId) -> io::Result<TableIds>;
}

impl TableIds {
    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.num_texts(),
        }
    }

    /// Returns true if there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl TextIds {
    /// Adds a text.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u64);
    }

    /// Returns the number of texts.
    pub fn num_texts(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of bytes of all texts.
    pub fn num_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes of a text.
    ///
    /// # Panics
    /// If there is no such text.
    pub fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[at] as usize]
    }
}
