//! Running a rank that holds a part of the graph and serves it to the other ranks, or that is a client of servers.

use crate::args::{JobArgs, PartArgs};
use crate::exit::UsageError;
use crate::job::labels::Wanted;
use crate::job::late_notice::LateNotice;
use crate::job::process_role::Rank;
use crate::job::source::{SharedFlags, Source};
use crate::job::table_ids::IdMapFiles;
use crate::job::{self, Job, num_network_threads, num_workers};
use crate::settings::flag_names::with_flags;
use anyhow::Context;
use edgecut_cli::{counted, message};
use edgecut_cluster::{Cluster, PartLayout, ProcessGroup};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, convert_features, share_dataset, temporary_folder_in_memory};
use edgecut_graph::readers::{DatasetSource, Loaded, load_with_warnings};
use edgecut_graph::{GraphError, Meta, Part, shown_bytes};
use edgecut_trainer::GradientSum;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A process that has joined the job and serves its part.
pub(crate) struct GraphSession<'a> {
    pub(crate) graph: Arc<DistGraph>,
    pub(crate) world: &'a mut ProcessGroup,
    /// The sum of gradients over all ranks.
    pub(crate) gradient_sum: &'a GradientSum,
}

/// Joins the job with this rank's part and the `wanted` labels, runs `work`, and leaves when all ranks are done. The
/// serialised `flags` must be equal on all ranks.
pub(crate) fn run<'a>(
    job: &JobArgs,
    args: &PartArgs,
    rank: &Rank,
    wanted: impl Into<Wanted<'a>>,
    flags: &impl Serialize,
    work: impl FnOnce(&mut GraphSession<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Wanted { labels, reverse_types } = wanted.into();
    let mut source = Source::find(args, job)?;
    if let Source::Whole(dataset) = &mut source {
        dataset.reverse_types = reverse_types.to_vec();
    }
    let dataset = source.flags(args);
    // Declared outside of the closure: the distributed graph answers other ranks until all have left, so it must outlive
    // `job::run`.
    let mut serving = None;
    let flags = SharedFlags { flags, dataset: dataset.as_ref(), feature_dtype: args.feature_dtype.as_ref() };
    job::run(job, rank, source.fingerprint(), &flags, |Job { cluster, world, gradient_sum }| {
        let start = Instant::now();
        let graph = match source {
            Source::Parts(_) => {
                // The part is opened after joining, so that all ranks hear of a damaged part at once.
                let dir = args.dataset_root_dir.as_deref().context("--dataset-root-dir is missing")?;
                let part = DistGraph::open_part(dir, rank.rank, rank.world_size, args.verify)?;
                let part = labels.find(part.meta(), world)?.of_part(part);
                let graph = serve(job, args, rank, part, cluster)?;
                graph.set_table_ids(Arc::new(IdMapFiles { root: dir.to_owned() }));
                graph
            }
            Source::Whole(dataset) => {
                note_other_name(args, &dataset.name, rank);
                let part = share(&dataset, cluster)?;
                let part = labels.find(part.meta(), world)?.of_part(part);
                serve(job, args, rank, part, cluster)?
            }
            Source::Servers(servers) => {
                let patience = Duration::from_secs(job.rendezvous_timeout);
                let list = args.server_list().unwrap_or_default();
                let limit = job.rendezvous_timeout;
                let line = format!("waiting for the servers {list}, up to {limit} s (--rendezvous-timeout)");
                let notice = (rank.rank == 0).then(|| LateNotice::new(line));
                let graph = DistGraph::connect(servers, cluster.clone(), config(job, args, rank), patience)?;
                drop(notice);
                job::reported_once(check_name(args, &graph.part().meta().dataset), cluster, world)?;
                labels.find(graph.part().meta(), world)?.check_servers(graph.part().meta())?;
                graph
            }
        };
        let graph = serving.insert(graph).clone();
        graph.handle().block_on(graph.wait_until_connected())?;
        // This is also a barrier: no rank may send a request before all ranks serve.
        graph.built_features(world)?;
        if rank.rank == 0 && !job.quiet {
            message!("{}", description(&graph, start.elapsed()));
        }
        if !graph.is_client() && !graph.is_even() && rank.rank == 0 {
            message!(
                "note: {} parts are spread unevenly over {} processes, so these share the seeds of all parts and fetch \
                 more features from each other; a multiple of the number of parts is faster",
                graph.part().meta().num_parts,
                rank.world_size
            );
        }
        work(&mut GraphSession { graph, world, gradient_sum })
    })
}

/// Compares `--dataset` with the name of the dataset whose parts servers hold.
fn check_name(args: &PartArgs, found: &str) -> anyhow::Result<()> {
    match &args.dataset {
        Some(name) if name != found => {
            Err(UsageError(format!("--dataset {name}: the servers hold parts of dataset {found}")).into())
        }
        _ => Ok(()),
    }
}

/// Tells that `--dataset` does not choose a dataset that is not partitioned, which has the name of its folder.
fn note_other_name(args: &PartArgs, found: &str, rank: &Rank) {
    if let Some(name) = args.dataset.as_ref().filter(|name| !name.eq_ignore_ascii_case(found) && rank.rank == 0) {
        message!(
            "note: --dataset {name} has no effect: the dataset in --dataset-root-dir is read, whose folder is named {found}"
        );
    }
}

/// Describes the graph and the job in one line. Reading took `elapsed`.
fn description(graph: &DistGraph, elapsed: Duration) -> String {
    let cluster = graph.cluster();
    let meta = graph.part().meta();
    let num_nodes: usize = meta.node_types.iter().map(|nodes| nodes.book.num_nodes()).sum();
    let num_edges: u64 = meta.edge_types.iter().map(|edges| edges.num_edges).sum();
    let place = if graph.is_client() {
        format!("on {}", counted(graph.num_holders(), "server", "servers"))
    } else {
        format!("in {}", counted(meta.num_parts, "part", "parts"))
    };
    let world_size = cluster.world_size();
    let num_machines = world_size.div_ceil(cluster.local_world_size().max(1));
    format!(
        "{}: {num_nodes} nodes and {num_edges} edges {place}, opened in {:.2} s; {} on {}",
        meta.dataset,
        elapsed.as_secs_f64(),
        counted(world_size, "process", "processes"),
        counted(num_machines, "machine", "machines"),
    )
}

/// Returns a dataset that is not partitioned as a single part, which the ranks share.
fn share(dataset: &DatasetSource, cluster: &Cluster) -> anyhow::Result<Part> {
    let part = share_dataset(cluster, || {
        let Loaded { dataset, warnings } = load_with_warnings(dataset)?;
        warnings.iter().for_each(|warning| message!("warning: {}", with_flags(warning)));
        warn_of_memory(dataset.stored_bytes());
        Ok::<_, GraphError>(dataset)
    })?;
    Ok(part.with_to_undirected(dataset.to_undirected))
}

/// Warns if a large dataset is about to be written to a file system in memory.
fn warn_of_memory(bytes: u64) {
    const LARGE: u64 = 1_000_000_000;
    if let Some(folder) = temporary_folder_in_memory().filter(|_| bytes >= LARGE) {
        message!(
            "warning: the processes share the dataset through {}, which is in memory, so it takes {} of memory \
             until the end: set TMPDIR to a folder on a disk, or partition the dataset",
            folder.display(),
            shown_bytes(bytes)
        );
    }
}

/// Serves the part of this rank to the other ranks.
fn serve(job: &JobArgs, args: &PartArgs, rank: &Rank, part: Part, cluster: &Cluster) -> anyhow::Result<Arc<DistGraph>> {
    let copies = args.copy_edges || !(args.map_edges || shares_part(part.meta(), rank));
    let part = if copies { part.with_edges_in_memory() } else { part };
    let part = match &args.feature_dtype {
        Some(dtypes) => convert_features(cluster, part, dtypes)?,
        None => part,
    };
    Ok(DistGraph::start(Arc::new(part), cluster.clone(), config(job, args, rank))?)
}

fn config(job: &JobArgs, args: &PartArgs, rank: &Rank) -> DistGraphConfig {
    DistGraphConfig {
        num_workers: num_workers(job, rank),
        num_network_threads: num_network_threads(job, rank),
        rpc_timeout_ms: args.rpc_timeout * 1000,
        ..DistGraphConfig::default()
    }
}

/// Returns whether another process of this node has the same part. These processes share one copy of the mapped files
/// in memory.
fn shares_part(meta: &Meta, rank: &Rank) -> bool {
    let layout = PartLayout::new(meta.num_parts as usize, rank.world_size);
    let first = rank.rank - rank.local_rank;
    let local = first..first + rank.local_world_size;
    layout.processes_of(layout.group_of(rank.rank)).any(|other| other != rank.rank && local.contains(&other))
}
