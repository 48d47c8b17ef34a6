//! The code under test.

use crate::sample::{Mutant, Sample};
use std::path::Path;

/// The outcome of an input that broke no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The code accepted it.
    Accepted,
    /// The code refused it with an error.
    Rejected,
}

impl<T, E> From<&Result<T, E>> for Outcome {
    fn from(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Accepted } else { Self::Rejected }
    }
}

/// An input as a target sees it.
pub(crate) struct Input<'a> {
    /// The folder with the files, for targets that read files. Without the files otherwise.
    pub(crate) dir: &'a Path,
    pub(crate) samples: &'a [Sample],
    pub(crate) mutant: &'a Mutant,
}

impl Input<'_> {
    /// Returns the bytes of an input with a single file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.mutant.bytes(self.samples)
    }
}

/// The bounds of the memory for an input: `fixed + per_byte * bytes`.
#[derive(Clone, Copy)]
pub(crate) struct MemoryBound {
    pub(crate) fixed: usize,
    pub(crate) per_byte: usize,
}

/// Code under test, with valid inputs.
pub(crate) trait Target {
    /// Returns valid inputs.
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>>;

    /// Returns whether the inputs are folders of files. Otherwise each is a single text or message.
    fn has_files(&self) -> bool {
        false
    }

    /// Returns the memory that an input may take.
    fn memory_bound(&self) -> MemoryBound {
        MemoryBound { fixed: 64 << 10, per_byte: 64 }
    }

    /// Reads an input. Panics if the code breaks a rule.
    fn read(&mut self, input: &Input<'_>) -> Outcome;
}
