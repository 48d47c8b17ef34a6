//! The source of the graph: existing parts, or a dataset that is not partitioned.

use crate::args::{PartArgs, WholeArgs};
use crate::exit::UsageError;
use crate::place::Place;
use anyhow::{Context, anyhow, bail};
use edgecut_graph::datasets::{DatasetSource, is_dataset};
use edgecut_graph::{HoldOutChoice, META_FILE, Meta, Provenance};
use serde_json::{Value, json};
use std::path::Path;

/// The graph in the folder `--dataset-root-dir`.
pub(crate) enum Source {
    /// The parts that partition-graph wrote.
    Parts(Box<Meta>),
    /// A dataset that is not partitioned. The whole dataset is one part.
    Whole(Box<DatasetSource>),
}

impl Source {
    /// Detects the kind of data in the folder.
    ///
    /// # Errors
    /// A folder with neither parts nor a dataset, or flags that contradict existing parts.
    pub(crate) fn find(args: &PartArgs) -> anyhow::Result<Self> {
        let dir = &args.dataset_root_dir;
        if dir.join(META_FILE).exists() {
            let meta = Meta::read(dir)?;
            refuse(&args.whole, dir, &meta.provenance)?;
            return Ok(Self::Parts(Box::new(meta)));
        }
        if is_dataset(dir) {
            return Ok(Self::Whole(Box::new(whole(&args.whole, dir)?)));
        }
        let error = Meta::read(dir).err().map(|error| error.to_string()).unwrap_or_default();
        Err(anyhow!(
            "{error}, and the folder is not a dataset either: it holds no .npy arrays, no raw/ with OGB's CSV files \
             and no triples"
        ))
    }

    /// Checks that the job of this process can use the graph: a dataset that is not partitioned needs all processes on
    /// one machine.
    pub(crate) fn check(&self, place: &Place) -> anyhow::Result<()> {
        match self {
            Self::Whole(dataset) if place.has_other_nodes() => bail!(UsageError(format!(
                "--dataset-root-dir: dataset {} is not partitioned, and this job has processes on several nodes: \
                 partition it first with partition-graph",
                dataset.name
            ))),
            _ => Ok(()),
        }
    }

    /// Returns a text that must be equal on all ranks, and differs between partitionings.
    pub(crate) fn fingerprint(&self) -> String {
        match self {
            Self::Parts(meta) => meta.fingerprint(),
            Self::Whole(_) => "a dataset that is not partitioned".to_owned(),
        }
    }

    /// Returns the values that must be equal on all ranks, by flag.
    pub(crate) fn parameters(&self) -> anyhow::Result<Value> {
        let Self::Whole(dataset) = self else { return Ok(json!({})) };
        Ok(json!({
            "dataset_root_dir": dataset.folder,
            "split": dataset.split,
            "to_undirected": dataset.to_undirected,
            "add_reverse_edges": dataset.add_reverse_edges,
            "hold_out_edges": dataset.hold_out_edges.map(|hold_out| [hold_out.valid_fraction, hold_out.test_fraction]),
            "hold_out_choice": dataset.hold_out_edges.map(|hold_out| hold_out.choice),
            "overlap": dataset.overlap,
        }))
    }
}

/// Returns the dataset in `dir`, named after that folder.
fn whole(args: &WholeArgs, dir: &Path) -> anyhow::Result<DatasetSource> {
    let folder = dir.canonicalize().with_context(|| format!("find {}", dir.display()))?;
    let mut source = DatasetSource::of_folder(folder);
    source.split = args.split.clone();
    source.to_undirected = args.to_undirected;
    source.add_reverse_edges = args.add_reverse_edges;
    source.hold_out_edges = args.hold_out_edges;
    source.overlap = args.overlap.unwrap_or_default();
    Ok(source)
}

/// Rejects flags that control how a dataset is read: for existing parts, partition-graph has already applied them.
fn refuse(args: &WholeArgs, dir: &Path, made: &Provenance) -> anyhow::Result<()> {
    let latest = if made.hold_out_choice == HoldOutChoice::Latest { "latest:" } else { "" };
    let shares = |[valid, test]: [f64; 2]| format!("{latest}{valid},{test}");
    let overlap = Some(made.overlap.to_string());
    for (flag, is_given, value) in [
        ("--split", args.split.is_some(), made.split.clone()),
        ("--to-undirected", args.to_undirected, made.to_undirected.then(String::new)),
        ("--add-reverse-edges", args.add_reverse_edges, made.add_reverse_edges.then(String::new)),
        ("--hold-out-edges", args.hold_out_edges.is_some(), made.hold_out_edges.map(shares)),
        ("--overlap", args.overlap.is_some(), overlap),
    ] {
        if is_given {
            let dir = dir.display();
            bail!(UsageError(match value {
                None => format!(
                    "{flag}: the parts in {dir} were made without it: pass it to partition-graph and partition again"
                ),
                Some(value) => {
                    let made = format!("{flag} {value}");
                    format!(
                        "{flag}: the parts in {dir} were made with {}: leave the flag out, or partition again",
                        made.trim_end()
                    )
                }
            }));
        }
    }
    Ok(())
}
