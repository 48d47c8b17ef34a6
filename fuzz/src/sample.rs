//! Valid inputs, and changed ones.

use crate::choices::Choices;
use crate::mutate::mutate;
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name of the only file of an input that is a single text or message.
const ONLY_FILE: &str = "input";

/// A valid input: files by their paths in a folder.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

/// A changed sample.
pub(crate) struct Mutant {
    /// The number of the sample.
    pub(crate) sample: usize,
    /// The changed files, `None` for removed ones.
    pub(crate) changed: BTreeMap<String, Option<Vec<u8>>>,
}

impl Sample {
    /// An input that is a single text or message.
    pub(crate) fn of_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self { files: BTreeMap::from([(ONLY_FILE.to_owned(), bytes.into())]) }
    }

    /// Reads a folder.
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        let mut folders = vec![dir.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(dir)?.to_str().context("a file name that is not UTF-8")?;
                    files.insert(name.to_owned(), std::fs::read(&path)?);
                }
            }
        }
        Ok(Self { files })
    }

    /// Writes the files to a folder.
    pub(crate) fn write(&self, dir: &Path) -> anyhow::Result<()> {
        self.files.iter().try_for_each(|(name, bytes)| put(dir, name, Some(bytes)))
    }
}

impl Mutant {
    /// Changes a random sample. The first inputs are the samples themselves.
    pub(crate) fn new(samples: &[Sample], number: u64, choices: &mut Choices) -> Self {
        if number < samples.len() as u64 {
            return Self { sample: number as usize, changed: BTreeMap::new() };
        }
        let sample = choices.below(samples.len());
        let files = &samples[sample].files;
        let names: Vec<&String> = files.keys().collect();
        let mut changed = BTreeMap::new();
        let num_files = if choices.once_in(5) { 2 } else { 1 };
        for _ in 0..num_files {
            let name = *choices.of(&names);
            if files.len() > 1 && choices.once_in(40) {
                changed.insert(name.clone(), None);
                continue;
            }
            let mut bytes = files[name].clone();
            if files.len() > 1 && choices.once_in(40) {
                bytes.clone_from(&files[*choices.of(&names)]);
            }
            let other = &samples[choices.below(samples.len())].files;
            let others: Vec<&[u8]> = other.values().map(Vec::as_slice).collect();
            mutate(&mut bytes, &others, choices);
            changed.insert(name.clone(), Some(bytes));
        }
        Self { sample, changed }
    }

    /// Returns the bytes of an input with a single file.
    pub(crate) fn bytes<'a>(&'a self, samples: &'a [Sample]) -> &'a [u8] {
        let changed = self.changed.values().next().and_then(Option::as_deref);
        changed.or_else(|| samples[self.sample].files.values().next().map(Vec::as_slice)).unwrap_or_default()
    }

    /// Returns the number of bytes of all files.
    pub(crate) fn num_bytes(&self, samples: &[Sample]) -> usize {
        let of_file = |(name, bytes): (&String, &Vec<u8>)| match self.changed.get(name) {
            Some(changed) => changed.as_ref().map_or(0, Vec::len),
            None => bytes.len(),
        };
        samples[self.sample].files.iter().map(of_file).sum()
    }

    /// Applies the changes to the folder of the sample.
    pub(crate) fn apply(&self, dir: &Path) -> anyhow::Result<()> {
        self.changed.iter().try_for_each(|(name, bytes)| put(dir, name, bytes.as_deref()))
    }

    /// Reverts the changes in the folder of the sample.
    pub(crate) fn revert(&self, samples: &[Sample], dir: &Path) -> anyhow::Result<()> {
        let files = &samples[self.sample].files;
        self.changed.keys().try_for_each(|name| put(dir, name, files.get(name).map(Vec::as_slice)))
    }

    /// Writes all files to a folder, so that a failure can be studied.
    pub(crate) fn save(&self, samples: &[Sample], dir: &Path) -> anyhow::Result<()> {
        samples[self.sample].write(dir)?;
        self.apply(dir)
    }
}

/// Replaces a file of a folder, or removes it. A changed file is a new one: the old one may still be mapped.
fn put(dir: &Path, name: &str, bytes: Option<&[u8]>) -> anyhow::Result<()> {
    let path: PathBuf = dir.join(name);
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let Some(bytes) = bytes else { return Ok(()) };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))
}
