//! The files of a partitioned graph that a node needs.

use anyhow::{Context, ensure};
use edgecut_cluster::PartLayout;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

pub(crate) const META_FILE: &str = "META.json";
/// The value of `format` in the metadata of a partitioned graph.
const FORMAT: &str = "edgecut-partition";

/// The metadata of a partitioned graph, as far as the launcher needs it.
#[derive(Debug, Deserialize)]
pub(crate) struct PartsMeta {
    format: String,
    /// The name of the dataset.
    #[serde(default)]
    pub(crate) dataset: String,
    num_parts: usize,
    files: BTreeMap<String, FileMeta>,
    /// The checksum of `META.json` itself, which identifies the partitioning.
    #[serde(skip)]
    pub(crate) checksum: String,
}

/// The size and checksum of a file.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FileMeta {
    pub(crate) bytes: u64,
    pub(crate) xxh3: String,
}

impl PartsMeta {
    /// Reads the metadata in `dir`. Returns `None` if its `META.json` belongs to another program.
    pub(crate) fn read_if_ours(dir: &Path) -> anyhow::Result<Option<Self>> {
        match Self::read(dir) {
            Err(_) if dir.join(META_FILE).is_file() && !is_ours(dir) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Reads the metadata in `dir`.
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(META_FILE);
        let shown = path.display();
        let bytes = std::fs::read(&path).with_context(|| {
            format!("read {shown} (partition the graph with partition-graph, or give --copy-parts)")
        })?;
        let mut meta: Self = serde_json::from_slice(&bytes)
            .with_context(|| format!("{shown} is not the metadata of a partitioned graph"))?;
        ensure!(meta.format == FORMAT, "{shown} has the format {:?} instead of {FORMAT:?}", meta.format);
        ensure!(meta.num_parts > 0, "{shown} describes no parts");
        meta.checksum = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes));
        Ok(meta)
    }

    /// Returns the parts that these ranks hold.
    pub(crate) fn parts_of(&self, ranks: &Range<usize>, world_size: usize) -> Vec<usize> {
        let layout = PartLayout::new(self.num_parts, world_size);
        let mut groups: Vec<usize> = ranks.clone().map(|rank| layout.group_of(rank)).collect();
        groups.dedup();
        groups.into_iter().flat_map(|group| layout.parts_of(group)).collect()
    }

    /// Returns the names and metadata of the files of these parts.
    pub(crate) fn files_of<'a>(&'a self, parts: &'a [usize]) -> impl Iterator<Item = (&'a str, &'a FileMeta)> {
        let files = self.files.iter().map(|(name, file)| (name.as_str(), file));
        files.filter(move |(name, _)| part_of(name).is_some_and(|part| parts.contains(&part)))
    }

    /// Returns the names and metadata of the files that belong to no part. Training does not need them.
    pub(crate) fn shared_files(&self) -> impl Iterator<Item = (&str, &FileMeta)> {
        self.files.iter().map(|(name, file)| (name.as_str(), file)).filter(|(name, _)| part_of(name).is_none())
    }

    /// Checks that the files of these parts exist and have the right sizes.
    pub(crate) fn check_files(&self, dir: &Path, parts: &[usize]) -> anyhow::Result<()> {
        for (name, file) in self.files_of(parts) {
            let path = dir.join(name);
            let shown = path.display();
            let found = path.metadata().with_context(|| {
                let part = name.split('/').next().unwrap_or_default();
                format!("{part} is not complete here (copy it to this node, or give --copy-parts): {shown}")
            })?;
            let bytes = found.len();
            let wanted = file.bytes;
            ensure!(
                bytes == wanted,
                "{shown} has {bytes} bytes instead of {wanted}: copy the part again, or give --copy-parts"
            );
        }
        Ok(())
    }
}

/// Returns the part that a file belongs to.
pub(crate) fn part_of(name: &str) -> Option<usize> {
    name.strip_prefix("part_")?.split('/').next()?.parse().ok()
}

/// Returns true if the metadata in `dir` is of a partitioned graph of this project, or may be a damaged one.
fn is_ours(dir: &Path) -> bool {
    // A file that is not valid JSON may be ours and damaged, which must not be ignored.
    json_of(dir).is_none() || is_partition(dir)
}

/// Returns true if the metadata in `dir` is of a partitioned graph of this project, of any version.
pub(crate) fn is_partition(dir: &Path) -> bool {
    json_of(dir).is_some_and(|meta| meta["format"] == FORMAT)
}

/// Returns the name of the dataset whose parts are in `dir`, if its metadata names it.
pub(crate) fn dataset_in(dir: &Path) -> Option<String> {
    json_of(dir)?["dataset"].as_str().map(str::to_owned)
}

fn json_of(dir: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(dir.join(META_FILE)).ok()?).ok()
}

/// Returns the value of `--dataset-root-dir` in a command, which names the partitioned graph.
pub(crate) fn dataset_root_dir(command: &[String]) -> Option<String> {
    let is_flag = |text: &str| text.replace('_', "-") == "--dataset-root-dir";
    // Of a repeated flag the last counts.
    command.iter().enumerate().rev().find_map(|(i, argument)| match argument.split_once('=') {
        Some((flag, value)) if is_flag(flag) => Some(value.to_owned()),
        _ if is_flag(argument) => command.get(i + 1).cloned(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    fn meta(num_parts: usize) -> PartsMeta {
        PartsMeta {
            format: FORMAT.into(),
            dataset: "graph".into(),
            num_parts,
            files: (0..num_parts)
                .map(|part| (format!("part_{part}/x.npy"), FileMeta { bytes: 3, xxh3: "0".into() }))
                .collect(),
            checksum: String::new(),
        }
    }

    #[test]
    fn each_rank_has_its_part_and_each_node_no_other() {
        assert_eq!(meta(3).parts_of(&(2..4), 6), [1]);
        assert_eq!(meta(6).parts_of(&(2..4), 6), [2, 3]);
        assert_eq!(meta(2).parts_of(&(1..3), 4), [0, 1]);
        // Fewer ranks than parts, and numbers that do not divide each other.
        assert_eq!(meta(5).parts_of(&(1..2), 2), [2, 3, 4]);
        assert_eq!(meta(2).parts_of(&(0..2), 3), [0]);
        let names: Vec<String> = meta(12).files_of(&[1, 11]).map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["part_1/x.npy", "part_11/x.npy"]);
        assert_eq!(meta(12).shared_files().count(), 0);
    }

    #[test]
    fn a_missing_or_short_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_has(meta(1).check_files(dir.path(), &[0]).unwrap_err().to_string(), &["part_0 is not complete here"]);
        std::fs::create_dir(dir.path().join("part_0")).unwrap();
        std::fs::write(dir.path().join("part_0/x.npy"), "ab").unwrap();
        assert_has(meta(1).check_files(dir.path(), &[0]).unwrap_err().to_string(), &["2 bytes instead of 3"]);
        std::fs::write(dir.path().join("part_0/x.npy"), "abc").unwrap();
        meta(1).check_files(dir.path(), &[0]).unwrap();
    }

    #[test]
    fn descriptions_of_other_programs_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(dir.path().join(META_FILE), text).unwrap();
            PartsMeta::read_if_ours(dir.path()).map(|meta| meta.is_some()).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(read("{\"num_parts\": 2, \"is_hetero\": false}"), Ok(false));
        assert_eq!(read("{\"format\": \"edgecut-partition\", \"num_parts\": 2, \"files\": {}}"), Ok(true));
        assert!(read("{\"format\": \"edgecut-partition\"}").unwrap_err().contains("num_parts"));
        assert!(read("{\"num").unwrap_err().contains("META.json"));
    }

    #[test]
    fn the_graph_is_found_in_the_command_however_it_is_spelled() {
        let find = |command: &str| dataset_root_dir(&shell_words::split(command).unwrap());
        assert_eq!(find("train node --dataset-root-dir data/x --lr 1").as_deref(), Some("data/x"));
        assert_eq!(find("train node --dataset_root_dir=a_b").as_deref(), Some("a_b"));
        assert_eq!(find("train node --lr 1"), None);
        assert_eq!(find("train --dataset-root-dir"), None);
    }
}
