//! The source of the graph: existing parts, a dataset that is not partitioned, or servers.

use crate::args::{JobArgs, PartArgs, WholeArgs};
use crate::exit::UsageError;
use crate::job::process_role::{ProcessRole, token};
use crate::settings::shared_flags::text_of_hold_out;
use anyhow::{Context, anyhow, bail};
use edgecut_cluster::{ServiceConfig, with_causes};
use edgecut_dist_sampler::ServerList;
use edgecut_graph::readers::{DatasetSource, is_dataset, why_no_dataset, why_unreadable};
use edgecut_graph::{FeatureDtypes, HoldOut, META_FILE, Meta, Provenance, remedy_without_parts};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The flags of a dataset that is not partitioned. All processes read it on the same machine, so they must be equal on
/// all ranks.
#[derive(Serialize)]
pub(crate) struct DatasetFlags<'a> {
    /// The canonical path of the folder.
    pub(crate) dataset_root_dir: Option<PathBuf>,
    #[serde(flatten)]
    pub(crate) whole: &'a WholeArgs,
}

/// The flags of a subcommand that reads a graph.
#[derive(Serialize)]
pub(crate) struct SharedFlags<'a, F> {
    /// The arguments of the subcommand.
    #[serde(flatten)]
    pub(crate) flags: &'a F,
    /// The flags of a dataset that is not partitioned.
    #[serde(flatten)]
    pub(crate) dataset: Option<&'a DatasetFlags<'a>>,
    /// The stored types of node features.
    pub(crate) feature_dtype: Option<&'a FeatureDtypes>,
}

/// The graph in the folder `--dataset-root-dir`, or at `--servers`.
pub(crate) enum Source {
    /// The parts that partition-graph wrote.
    Parts(Box<Meta>),
    /// A dataset that is not partitioned. The whole dataset is one part.
    Whole(Box<DatasetSource>),
    /// Servers that hold the parts.
    Servers(ServerList),
}

impl Source {
    /// Detects the kind of data in the folder, or reads the list of servers.
    ///
    /// # Errors
    /// A folder with neither parts nor a dataset, flags that contradict existing parts, or a list that is not one of
    /// addresses.
    pub(crate) fn find(args: &PartArgs, job: &JobArgs) -> anyhow::Result<Self> {
        if args.servers.is_some() && args.dataset_root_dir.is_some() {
            let what = "--servers and --dataset-root-dir exclude each other: give the one that has the graph";
            bail!(UsageError(what.into()));
        }
        let Some(dir) = &args.dataset_root_dir else {
            let Some(list) = args.server_list() else {
                let what = "--dataset-root-dir is missing: give the folder of the graph, or --servers";
                bail!(UsageError(what.into()));
            };
            refuse_at_servers(args)?;
            let mut service = ServiceConfig::new(token(job)?);
            service.protection = job.protection();
            service.silence_timeout = Duration::from_secs(job.heartbeat_timeout);
            let servers = ServerList::parse(&list, service);
            return Ok(Self::Servers(
                servers.map_err(|error| UsageError(format!("--servers: {}", with_causes(&error))))?,
            ));
        };
        if dir.join(META_FILE).exists() {
            let meta = Meta::read(dir)?;
            refuse(&args.whole, dir, &meta.provenance)?;
            if let Some(name) = args.dataset.as_ref().filter(|name| **name != meta.dataset) {
                let dir = dir.display();
                let what = format!("--dataset {name}: the parts in {dir} are of dataset {}", meta.dataset);
                bail!(UsageError(what));
            }
            return Ok(Self::Parts(Box::new(meta)));
        }
        if is_dataset(dir) {
            return Ok(Self::Whole(Box::new(whole(&args.whole, dir)?)));
        }
        let why = why_no_dataset(dir);
        if !dir.is_dir() || why_unreadable(dir).is_some() {
            bail!("--dataset-root-dir: {why}");
        }
        Err(anyhow!(
            "--dataset-root-dir: {why}. Nor is it a partitioned graph, because {META_FILE} is missing: {}",
            remedy_without_parts(dir)
        ))
    }

    /// Checks that the job of this process can use the graph: a dataset that is not partitioned needs all processes on
    /// one machine.
    pub(crate) fn check(&self, place: &ProcessRole) -> anyhow::Result<()> {
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
            Self::Servers(servers) => {
                let addresses = servers.addresses().iter().map(ToString::to_string).collect::<Vec<_>>();
                format!("servers {}", addresses.join(","))
            }
        }
    }

    /// Returns the flags that must be equal on all ranks, if the dataset is not partitioned. Existing parts have a
    /// fingerprint instead.
    pub(crate) fn flags<'a>(&self, args: &'a PartArgs) -> Option<DatasetFlags<'a>> {
        match self {
            Self::Parts(_) | Self::Servers(_) => None,
            Self::Whole(dataset) => Some(DatasetFlags { dataset_root_dir: dataset.folder.clone(), whole: &args.whole }),
        }
    }
}

/// Returns the dataset in `dir`, named after that folder.
fn whole(args: &WholeArgs, dir: &Path) -> anyhow::Result<DatasetSource> {
    let folder = dir.canonicalize().with_context(|| format!("find {}", dir.display()))?;
    let mut source = DatasetSource::of_folder(folder);
    source.split = args.split.clone();
    source.to_undirected = args.to_undirected;
    source.add_reverse_edges = args.add_reverse_edges;
    source.hold_out_edges = args.hold_out_edges.and_then(HoldOut::if_any);
    source.overlap = args.overlap.unwrap_or_default();
    Ok(source)
}

/// Rejects flags that control how a dataset is read: servers have parts that partition-graph made.
fn refuse_at_servers(args: &PartArgs) -> anyhow::Result<()> {
    const MADE: &str = "the servers hold parts that are made already: pass it to partition-graph";
    const OF_SERVERS: &str = "the servers read the parts: pass it to sampling-server";
    let whole = &args.whole;
    for (flag, is_given, why) in [
        ("--split", whole.split.is_some(), MADE),
        ("--to-undirected", whole.to_undirected, MADE),
        ("--add-reverse-edges", whole.add_reverse_edges, MADE),
        ("--hold-out-edges", whole.hold_out_edges.and_then(HoldOut::if_any).is_some(), MADE),
        ("--overlap", whole.overlap.is_some(), MADE),
        ("--feature-dtype", args.feature_dtype.is_some(), OF_SERVERS),
        ("--map-edges", args.map_edges, OF_SERVERS),
        ("--copy-edges", args.copy_edges, OF_SERVERS),
        ("--verify", args.verify, OF_SERVERS),
    ] {
        if is_given {
            bail!(UsageError(format!("{flag}: {why}")));
        }
    }
    Ok(())
}

/// Rejects flags that control how a dataset is read: for existing parts, partition-graph has already applied them.
fn refuse(args: &WholeArgs, dir: &Path, made: &Provenance) -> anyhow::Result<()> {
    let hold_out = made.hold_out_edges.map(|shares| text_of_hold_out(made.hold_out_choice, shares));
    let overlap = Some(made.overlap.to_string());
    // Parts that hold out no edges are trained on as they are.
    let holds_out = args.hold_out_edges.is_some_and(|given| given.if_any().is_some() || made.hold_out_edges.is_some());
    for (flag, is_given, value) in [
        ("--split", args.split.is_some(), made.split.clone()),
        ("--to-undirected", args.to_undirected, made.to_undirected.then(String::new)),
        ("--add-reverse-edges", args.add_reverse_edges, made.add_reverse_edges.then(String::new)),
        ("--hold-out-edges", holds_out, hold_out),
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
