//! All targets.

mod arrays;
mod datasets;
mod descriptions;
mod messages;
mod models;
mod parts;
mod requests;
mod tables;
mod texts;

use crate::sample::Sample;
use crate::target::Target;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

macro_rules! targets {
    ($($name:literal => $target:expr),* $(,)?) => {
        /// The names of the targets.
        pub(crate) const NAMES: &[&str] = &[$($name),*];

        /// Makes the target with a name.
        pub(crate) fn by_name(name: &str) -> anyhow::Result<Box<dyn Target>> {
            Ok(match name {
                $($name => Box::new($target),)*
                planted if planted.starts_with("planted-") => texts::planted(planted)?,
                _ => bail!("--target {name}: there is no such target; the targets are {}", NAMES.join(", ")),
            })
        }
    };
}

targets! {
    "handshake" => messages::Handshakes::new()?,
    "control" => messages::ControlMessages,
    "frames" => messages::Frames,
    "requests" => requests::Requests::new()?,
    "ip-config" => texts::IpConfigs,
    "node-list" => texts::NodeLists,
    "meta" => descriptions::Descriptions { has_digest: true },
    "description" => descriptions::Descriptions { has_digest: false },
    "graphs" => datasets::StoredGraphs,
    "npy" => arrays::Arrays,
    "npy-folder" => datasets::Datasets { layout: "npy-folder" },
    "ogb" => datasets::Datasets { layout: "ogb" },
    "ogb-hetero" => datasets::Datasets { layout: "ogb-hetero" },
    "triples" => datasets::Datasets { layout: "triples" },
    "tu" => datasets::TuFiles,
    "part" => parts::ChangedParts::default(),
    "part-listed" => parts::ListedParts,
    "model" => models::Models::default(),
    "table-ids" => tables::IdFiles::new()?,
}

/// Returns the samples in a folder of `corpus`, in the order of their names.
fn corpus(name: &str) -> anyhow::Result<Vec<Sample>> {
    samples_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name))
}

/// Returns the golden parts, or the datasets that they were made of.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../partition/tests/golden").join(name)
}

/// Reads each folder in `dir` as a sample.
fn samples_in(dir: &Path) -> anyhow::Result<Vec<Sample>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("read the samples in {}", dir.display()))?;
    let mut folders = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    folders.sort();
    folders.iter().map(|folder| Sample::read(folder)).collect()
}
