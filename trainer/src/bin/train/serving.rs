//! A rank that holds a part of the graph, and serves it to the others.

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

/// A joined process with its part.
pub(crate) struct Serving<'a> {
    pub(crate) node: Arc<SamplingNode>,
    pub(crate) world: &'a mut ProcessGroup,
}

impl Serving<'_> {
    /// Returns whether models of the graph have embeddings: it has node types without features.
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
    // It answers the other ranks until all have left, so it is dropped only after that.
    let mut serving = None;
    job::run(job, rank, source.fingerprint(), &parameters, |Job { cluster, world }| {
        // That comes after the joining, so that a damaged part is an error on all ranks at once.
        let part = open(args, source, rank, cluster)?;
        let node = serving.insert(serve(job, args, rank, part, cluster)?).clone();
        node.handle().block_on(node.wait_until_connected())?;
        // No rank may ask another before that one serves.
        world.barrier()?;
        work(&mut Serving { node, world })
    })
}

/// Opens this rank's part, or all of a dataset that has none.
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

/// Whether another process of this node has the same part: then the mapped files are in memory once for all of them.
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
