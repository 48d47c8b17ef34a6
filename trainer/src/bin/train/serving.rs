//! Running a rank that holds a part of the graph and serves it to the other ranks.

use crate::args::{JobArgs, PartArgs};
use crate::job::{self, Job, num_network_threads, num_workers};
use crate::place::Rank;
use crate::source::Source;
use crate::training_args::merged;
use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_dist_sampler::{SamplingNode, SamplingNodeConfig, share_dataset};
use edgecut_graph::datasets::{Loaded, load_with_warnings};
use edgecut_graph::{GraphError, Meta, Part};
use serde_json::Value;
use std::sync::Arc;

/// A process that has joined the job and serves its part.
pub(crate) struct Serving<'a> {
    pub(crate) node: Arc<SamplingNode>,
    pub(crate) world: &'a mut ProcessGroup,
}

impl Serving<'_> {
    /// Returns whether models of this graph have embeddings, which is the case if a node type has no features.
    pub(crate) fn has_embeddings(&self) -> bool {
        self.node.part().meta().node_types.iter().any(|nodes| nodes.feature_dim == 0)
    }
}

/// Joins the job with this rank's part, runs `work`, and leaves when all ranks are done. `parameters` must be equal on
/// all ranks.
pub(crate) fn run(
    job: &JobArgs,
    args: &PartArgs,
    rank: &Rank,
    parameters: &Value,
    work: impl FnOnce(&mut Serving<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let source = Source::find(args)?;
    if let Source::Parts(meta) = &source {
        SamplingNode::part_of_rank(meta, rank.rank, rank.world_size)?;
    }
    let parameters = merged([parameters.clone(), source.parameters()?]);
    // Declared outside of the closure: the sampling node answers other ranks until all have left, so it must outlive
    // `job::run`.
    let mut serving = None;
    job::run(job, rank, source.fingerprint(), &parameters, |Job { cluster, world }| {
        // The part is opened after joining, so that all ranks hear of a damaged part at once.
        let part = open(args, source, rank, cluster)?;
        let node = serving.insert(serve(job, args, rank, part, cluster)?).clone();
        node.handle().block_on(node.wait_until_connected())?;
        // No rank may send a request before all ranks serve.
        world.barrier()?;
        work(&mut Serving { node, world })
    })
}

/// Opens this rank's part. A dataset that is not partitioned is a single part, which the ranks share.
fn open(args: &PartArgs, source: Source, rank: &Rank, cluster: &Cluster) -> anyhow::Result<Part> {
    let part = match source {
        Source::Parts(meta) => {
            let part = SamplingNode::part_of_rank(&meta, rank.rank, rank.world_size)?;
            Part::open(&args.dataset_root_dir, part, args.verify)?
        }
        Source::Whole(dataset) => share_dataset(cluster, || {
            let Loaded { dataset, warnings } = load_with_warnings(&dataset)?;
            warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            Ok::<_, GraphError>(dataset)
        })?,
    };
    let copies = args.copy_edges || !(args.map_edges || shares_part(part.meta(), rank)?);
    Ok(if copies { part.with_edges_in_memory() } else { part })
}

fn serve(
    job: &JobArgs,
    args: &PartArgs,
    rank: &Rank,
    part: Part,
    cluster: &Cluster,
) -> anyhow::Result<Arc<SamplingNode>> {
    let config = SamplingNodeConfig {
        num_workers: num_workers(job, rank),
        num_network_threads: num_network_threads(job, rank),
        rpc_timeout_ms: args.rpc_timeout * 1000,
        ..SamplingNodeConfig::default()
    };
    Ok(SamplingNode::start(Arc::new(part), cluster.clone(), config)?)
}

/// Returns whether another process of this node has the same part. These processes share one copy of the mapped files
/// in memory.
fn shares_part(meta: &Meta, rank: &Rank) -> anyhow::Result<bool> {
    let part_of = |other| SamplingNode::part_of_rank(meta, other, rank.world_size);
    let own = part_of(rank.rank)?;
    let first = rank.rank - rank.local_rank;
    for other in (first..first + rank.local_world_size).filter(|&other| other != rank.rank) {
        if part_of(other)? == own {
            return Ok(true);
        }
    }
    Ok(false)
}
