//! The ids that requests name, of graphs or sources.

use crate::node_ids::npy_numbers::read_numbers;
use anyhow::{Context, bail, ensure};
use std::path::Path;

/// Ids in the order of a file, or all.
pub(super) enum Ids {
    All,
    Listed(Vec<u32>),
}

impl Ids {
    /// Reads the value of a flag, which is `all` or a file. `what` names an id in errors.
    pub(super) fn read(flag: &str, text: &str, what: &str) -> anyhow::Result<Self> {
        if text == "all" {
            return Ok(Self::All);
        }
        let ids: Vec<u32> =
            read_numbers(Path::new(text), what).with_context(|| format!("{flag}: expected all or a .npy file"))?;
        ensure!(!ids.is_empty(), "{flag} {text}: it has no entries");
        Ok(Self::Listed(ids))
    }

    /// Returns the checksum of the listed ids, which must be equal on all ranks.
    pub(super) fn checksum(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Listed(ids) => Some(edgecut_graph::checksum(bytemuck::cast_slice(ids))),
        }
    }

    /// Returns the listed ids.
    pub(super) fn listed(&self) -> Option<&[u32]> {
        match self {
            Self::All => None,
            Self::Listed(ids) => Some(ids),
        }
    }

    /// Returns the number of ids, out of `num_all`.
    pub(super) fn len(&self, num_all: usize) -> usize {
        self.listed().map_or(num_all, <[u32]>::len)
    }

    /// Returns some of the ids, by position.
    pub(super) fn range(&self, range: std::ops::Range<usize>) -> Vec<u32> {
        match self {
            Self::All => (range.start as u32..range.end as u32).collect(),
            Self::Listed(ids) => ids[range].to_vec(),
        }
    }
}

/// Checks that ids exist. `what` names the file and `of` an id in the error.
pub(super) fn check_ids(what: &str, ids: &[u32], of: &str, num_all: usize) -> anyhow::Result<()> {
    match ids.iter().position(|&id| id as usize >= num_all) {
        Some(at) => bail!("{what}: entry {at} is {} {}, but there are {num_all}, counted from 0", of, ids[at]),
        None => Ok(()),
    }
}
