//! Descriptions of partitioned graphs: `META.json`, and what servers tell their clients.

use super::golden;
use crate::sample::Sample;
use crate::target::{Input, MemoryBound, Outcome, Target};
use edgecut_graph::{META_FILE, Meta, Part};
use std::path::Path;

/// `META.json`.
pub(super) struct Descriptions {
    /// True for files of the newest version, in which every change is found. Otherwise for files without a digest, whose
    /// fields are checked, and for the descriptions of servers.
    pub(super) has_digest: bool,
}

impl Target for Descriptions {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        let version = if self.has_digest { "v2" } else { "v1" };
        let read = |dataset: &str| std::fs::read(golden(version).join(dataset).join(META_FILE));
        Ok(vec![Sample::of_bytes(read("homogeneous")?), Sample::of_bytes(read("heterogeneous")?)])
    }

    fn memory_bound(&self) -> MemoryBound {
        // The names of all files that the types would have are compared with the list.
        MemoryBound { fixed: 4 << 20, per_byte: 256 }
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let path = Path::new(META_FILE);
        let bytes = input.bytes();
        let meta = Meta::parse(path, bytes);
        match &meta {
            Ok(meta) => {
                let is_changed = input.samples.iter().all(|sample| sample.files.values().all(|whole| whole != bytes));
                assert!(!self.has_digest || !is_changed, "a changed file was accepted");
                meta.fingerprint();
            }
            Err(error) => assert!(error.to_string().contains(META_FILE), "{error} names no file"),
        }
        if let Ok(described) = Meta::parse_description(path, bytes) {
            let _ = Part::without_nodes(described);
        }
        Outcome::from(&meta)
    }
}
