//! The data: a dataset that one process reads and all processes share.

use edgecut_cluster::{Cluster, ProcessGroup, share_of_cores};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, SamplerConfig, share_dataset};
use edgecut_graph::readers::{DatasetSource, load};
use edgecut_graph::{NodeTypeId, Split};
use edgecut_trainer::BatchOptions;
use std::sync::Arc;

/// Maps the dataset into this process and starts a distributed graph on it.
pub(crate) fn open(source: &DatasetSource, cluster: &Cluster) -> anyhow::Result<Arc<DistGraph>> {
    let part = share_dataset(cluster, || load(source))?;
    // A single process shares the edges with nobody, and samples faster from a copy in memory.
    let part = if cluster.world_size() == 1 { part.with_edges_in_memory() } else { part };
    let num_workers = share_of_cores(cluster.local_world_size());
    let config = DistGraphConfig { num_workers, ..DistGraphConfig::default() };
    Ok(DistGraph::start(Arc::new(part), cluster.clone(), config)?)
}

/// Returns a loader of this rank's share of a split with fan-outs 25 and 10.
pub(crate) fn loader(
    graph: &Arc<DistGraph>,
    split: Split,
    options: BatchOptions,
    world: &mut ProcessGroup,
) -> anyhow::Result<DistNeighborLoader> {
    let sampler = SamplerConfig::new(vec![Fanout::Count(25), Fanout::Count(10)]);
    let config = LoaderConfig {
        even_batches: split == Split::Train,
        shuffle: split == Split::Train,
        seed: 12345,
        ..LoaderConfig::new(1024, options.wanted())
    };
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), sampler)?);
    Ok(DistNeighborLoader::new(sampler, NodeTypeId(0), Seeds::Split(split), config, world)?)
}
