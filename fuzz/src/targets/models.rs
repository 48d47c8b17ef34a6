//! Saved models: the model file, its shards of embeddings, and the ids in them.

use super::corpus;
use crate::sample::Sample;
use crate::target::{Input, MemoryBound, Outcome, Target};
use anyhow::anyhow;
use edgecut_graph::checksum;
use edgecut_trainer::model_file::fuzzing::read_all;
use std::path::Path;

/// The name of the model file in each sample.
const MODEL: &str = "model";
/// The word before a checksum in the list of shards.
const CHECKSUM: &[u8] = b"xxh3";

/// Models with embeddings, with and without checksums of their shards.
#[derive(Default)]
pub(super) struct Models {
    /// The number of rows that are found by their ids in each sample.
    num_found: Vec<usize>,
}

impl Target for Models {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        let samples = corpus("models")?;
        for sample in &samples {
            let dir = tempfile::tempdir()?;
            sample.write(dir.path())?;
            self.num_found.push(read(dir.path()).map_err(|error| anyhow!("read a sample: {error}"))?);
        }
        Ok(samples)
    }

    fn has_files(&self) -> bool {
        true
    }

    fn memory_bound(&self) -> MemoryBound {
        // Shards are hashed and read in pieces of 1 MiB.
        MemoryBound { fixed: 16 << 20, per_byte: 256 }
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let sample = &input.samples[input.mutant.sample];
        let plain = read(input.dir);
        let differs = |name: &&String| input.mutant.changed[*name].as_ref() != sample.files.get(*name);
        let changed: Vec<&String> = input.mutant.changed.keys().filter(differs).collect();
        let model = &sample.files[MODEL];
        let lists_checksums = model.windows(CHECKSUM.len()).any(|word| word == CHECKSUM);
        match &plain {
            Ok(found) if changed.is_empty() => assert_eq!(*found, self.num_found[input.mutant.sample], "other rows"),
            Ok(_) if lists_checksums => {
                assert!(changed.iter().any(|name| *name == MODEL), "read although {changed:?} changed");
            }
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        if changed.iter().any(|name| *name == MODEL) {
            return Outcome::from(&plain);
        }
        // With the checksums of the changed shards, only the other checks can find the change.
        let path = input.dir.join(MODEL);
        std::fs::write(&path, relisted(model, input, sample)).expect("change the model file");
        let listed = read(input.dir);
        std::fs::write(&path, model).expect("restore the model file");
        Outcome::from(&listed)
    }
}

/// Reads everything in a folder with a model.
fn read(dir: &Path) -> Result<usize, edgecut_trainer::model_file::ModelFileError> {
    let ids: Vec<String> =
        (0..80).map(|number| number.to_string()).chain((0..8).map(|user| format!("u{user}"))).collect();
    read_all(&dir.join(MODEL), &ids)
}

/// Returns the model file with the checksums of the changed shards.
fn relisted(model: &[u8], input: &Input<'_>, sample: &Sample) -> Vec<u8> {
    let mut relisted = model.to_vec();
    for (name, changed) in &input.mutant.changed {
        let (Some(changed), Some(intact)) = (changed, sample.files.get(name)) else { continue };
        let [old, new] = [intact, changed].map(|bytes| checksum(bytes));
        let found = relisted.windows(old.len()).position(|word| word == old.as_bytes());
        if let Some(at) = found {
            relisted[at..at + old.len()].copy_from_slice(new.as_bytes());
        }
    }
    relisted
}
