//! Changed files of parts.

use super::golden;
use crate::sample::Sample;
use crate::target::{Input, MemoryBound, Outcome, Target};
use anyhow::anyhow;
use edgecut_dist_sampler::SampleError;
use edgecut_dist_sampler::fuzzing::{MAX_MESSAGE_BYTES, read_part};
use edgecut_graph::{DiskPartId, GraphError, META_FILE, Part, checksum};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Opening checks files in parallel, and the samples have few bytes. Each reply takes up to its largest size.
const BOUND: MemoryBound = MemoryBound { fixed: 4 * MAX_MESSAGE_BYTES + (4 << 20), per_byte: 256 };
/// The end of the names of files whose checksums are compared on request only.
const FEATURES: &str = "/features.npy";

fn parts(version: &str) -> anyhow::Result<Vec<Sample>> {
    ["homogeneous", "heterogeneous"].iter().map(|dataset| Sample::read(&golden(version).join(dataset))).collect()
}

/// The error of a part that cannot be read.
#[derive(Debug)]
enum ReadError {
    /// It was not opened.
    Opening(GraphError),
    /// It was opened, but a request for its arrays was refused.
    Request(SampleError),
}

/// Opens part 0 and reads all its arrays as sampling does. Returns a checksum of what was read.
fn open_and_read(dir: &Path, verify: bool) -> Result<u64, ReadError> {
    let part = Part::open(dir, DiskPartId(0), verify).map_err(ReadError::Opening)?;
    read_part(Arc::new(part)).map_err(ReadError::Request)
}

/// Parts of which any bytes were changed.
#[derive(Default)]
pub(super) struct ChangedParts {
    /// The checksums of what is read from the samples.
    intact: Vec<u64>,
}

impl Target for ChangedParts {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        let read = |dataset| {
            open_and_read(&golden("v2").join(dataset), true).map_err(|error| anyhow!("read the golden part: {error:?}"))
        };
        self.intact = vec![read("homogeneous")?, read("heterogeneous")?];
        parts("v2")
    }

    fn has_files(&self) -> bool {
        true
    }

    fn memory_bound(&self) -> MemoryBound {
        BOUND
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let sample = &input.samples[input.mutant.sample];
        let is_read = |name: &&String| *name == META_FILE || name.starts_with("part_0/");
        let differs = |name: &&String| input.mutant.changed[*name].as_ref() != sample.files.get(*name);
        let changed: Vec<&String> = input.mutant.changed.keys().filter(differs).filter(is_read).collect();
        let verified = open_and_read(input.dir, true);
        assert_eq!(verified.is_ok(), changed.is_empty(), "verified although {changed:?} changed: {verified:?}");
        let opened = open_and_read(input.dir, false);
        match &opened {
            Ok(sum) if changed.is_empty() => assert_eq!(*sum, self.intact[input.mutant.sample], "other values"),
            Ok(_) => {
                assert!(changed.iter().all(|name| name.ends_with(FEATURES)), "opened although {changed:?} changed")
            }
            Err(ReadError::Opening(error)) => assert!(!error.to_string().is_empty()),
            Err(ReadError::Request(error)) => panic!("a request was refused: {error}"),
        }
        Outcome::from(&verified)
    }
}

/// Parts whose changed files are listed with their sizes and checksums, so that only the other checks can find the
/// change. The description is of version 1, which has no digest.
pub(super) struct ListedParts;

impl ListedParts {
    /// Lists the changed arrays.
    fn relist(input: &Input<'_>) -> Option<()> {
        let path = input.dir.join(META_FILE);
        let mut meta: Value = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        for (name, bytes) in &input.mutant.changed {
            let (Some(bytes), Some(listed)) = (bytes, meta["files"].get_mut(name)) else { continue };
            *listed = serde_json::json!({ "bytes": bytes.len(), "xxh3": checksum(bytes) });
        }
        std::fs::write(&path, serde_json::to_vec(&meta).ok()?).ok()
    }
}

impl Target for ListedParts {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        parts("v1")
    }

    fn has_files(&self) -> bool {
        true
    }

    fn memory_bound(&self) -> MemoryBound {
        BOUND
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let path = input.dir.join(META_FILE);
        let meta = std::fs::read(&path);
        // A description that is no JSON is tried as it is.
        let _ = Self::relist(input);
        let read = open_and_read(input.dir, true);
        if let Ok(meta) = meta {
            std::fs::write(&path, meta).expect("restore the description");
        }
        Outcome::from(&read)
    }
}
