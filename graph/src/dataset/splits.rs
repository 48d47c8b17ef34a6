//! The training, validation and test nodes.

use crate::memory::Buffer;
use serde::{Deserialize, Serialize};

/// One of the three standard sets of nodes, or of labeled edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Split {
    /// Nodes whose labels train the model.
    Train,
    /// Nodes that select the best epoch.
    Valid,
    /// Nodes for the final evaluation.
    Test,
}

impl Split {
    /// All splits, in the usual order.
    pub const ALL: [Split; 3] = [Split::Train, Split::Valid, Split::Test];

    /// Returns `train`, `valid` or `test`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Valid => "valid",
            Self::Test => "test",
        }
    }

    /// Returns the position in [`Split::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the number that stands for the split in arrays with an entry per edge.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the split of a [`Split::code`].
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// The node ids of the three splits, each ascending and without duplicates. The owner of a `Splits` names the id space.
#[derive(Clone, Debug, Default)]
pub struct Splits {
    /// The training nodes.
    pub train: Buffer<u32>,
    /// The validation nodes.
    pub valid: Buffer<u32>,
    /// The test nodes.
    pub test: Buffer<u32>,
}

impl Splits {
    /// Returns the ids of one split.
    pub fn get(&self, split: Split) -> &Buffer<u32> {
        match split {
            Split::Train => &self.train,
            Split::Valid => &self.valid,
            Split::Test => &self.test,
        }
    }

    /// Replaces the ids of one split.
    pub fn set(&mut self, split: Split, ids: Buffer<u32>) {
        match split {
            Split::Train => self.train = ids,
            Split::Valid => self.valid = ids,
            Split::Test => self.test = ids,
        }
    }
}
