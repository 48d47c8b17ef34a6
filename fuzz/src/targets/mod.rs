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

/// The names of the targets.
pub(crate) const NAMES: [&str; 19] = [
    "handshake",
    "control",
    "frames",
    "requests",
    "ip-config",
    "node-list",
    "meta",
    "description",
    "graphs",
    "npy",
    "npy-folder",
    "ogb",
    "ogb-hetero",
    "triples",
    "tu",
    "part",
    "part-listed",
    "model",
    "table-ids",
];

/// Makes the target with a name.
pub(crate) fn by_name(name: &str) -> anyhow::Result<Box<dyn Target>> {
    Ok(match name {
        "handshake" => Box::new(messages::Handshakes::new()?),
        "control" => Box::new(messages::ControlMessages),
        "frames" => Box::new(messages::Frames),
        "requests" => Box::new(requests::Requests::new()?),
        "ip-config" => Box::new(texts::IpConfigs),
        "node-list" => Box::new(texts::NodeLists),
        "meta" => Box::new(descriptions::Descriptions { has_digest: true }),
        "description" => Box::new(descriptions::Descriptions { has_digest: false }),
        "graphs" => Box::new(datasets::StoredGraphs),
        "npy" => Box::new(arrays::Arrays),
        "npy-folder" => Box::new(datasets::Datasets { layout: "npy-folder" }),
        "ogb" => Box::new(datasets::Datasets { layout: "ogb" }),
        "ogb-hetero" => Box::new(datasets::Datasets { layout: "ogb-hetero" }),
        "triples" => Box::new(datasets::Datasets { layout: "triples" }),
        "tu" => Box::new(datasets::TuFiles),
        "part" => Box::new(parts::ChangedParts::default()),
        "part-listed" => Box::new(parts::ListedParts),
        "model" => Box::new(models::Models::default()),
        "table-ids" => Box::new(tables::IdFiles::new()?),
        planted if planted.starts_with("planted-") => texts::planted(planted)?,
        _ => bail!("--target {name}: there is no such target; the targets are {}", NAMES.join(", ")),
    })
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
