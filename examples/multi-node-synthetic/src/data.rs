//! The data: a synthetic graph with one part per node. Every node generates the graph itself.

use anyhow::Context;
use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, SamplerConfig};
use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::{NodeTypeId, Split};
use edgecut_partition::{PartitionOptions, partition};
use edgecut_trainer::BatchOptions;
use std::path::Path;
use std::sync::Arc;

/// Opens this node's part and serves it to the others. The first process of each node generates and partitions the
/// graph, unless the parts exist. All nodes generate the same graph, so nothing has to be copied.
pub(crate) fn open(root: &Path, avg_num_nodes: usize, cluster: &Cluster) -> anyhow::Result<Arc<DistGraph>> {
    let config = cluster.config();
    let num_parts = config.world_size / config.local_world_size;
    let even = num_parts * config.local_world_size == config.world_size;
    anyhow::ensure!(
        even,
        "{} processes do not divide into nodes with {} processes each: start the same number on every node",
        config.world_size,
        config.local_world_size
    );
    let dir = root.join(format!("fake-{avg_num_nodes}/{num_parts}-parts"));
    let mut local = cluster.local_group()?;
    if config.local_rank == 0 && !dir.exists() {
        let graph = fake(&FakeOptions { avg_num_nodes, ..FakeOptions::default() })?;
        let parent = dir.parent().context("a folder for the parts")?;
        std::fs::create_dir_all(parent).with_context(|| format!("create the folder {}", parent.display()))?;
        // On a file system that nodes share, another node may have written the parts first.
        match partition(&graph, &PartitionOptions::new(u32::try_from(num_parts)?), &dir, &()) {
            Err(error) if !dir.exists() => return Err(error.into()),
            _ => {}
        }
    }
    local.barrier()?;
    let part = DistGraph::open_part(&dir, config.rank, config.world_size, false)?;
    Ok(DistGraph::start(Arc::new(part), cluster.clone(), DistGraphConfig::default())?)
}

/// The size of batches.
#[derive(Clone, Copy)]
pub(crate) struct BatchShape {
    /// Seeds per batch and process.
    pub(crate) batch_size: usize,
    /// Neighbors to sample per node and hop.
    pub(crate) fan_out: u32,
}

/// Returns a loader of one split, which samples over two hops.
pub(crate) fn loader(
    graph: &Arc<DistGraph>,
    split: Split,
    BatchShape { batch_size, fan_out }: BatchShape,
    options: BatchOptions,
    world: &mut ProcessGroup,
) -> anyhow::Result<DistNeighborLoader> {
    let sampler = SamplerConfig::new(vec![Fanout::Count(fan_out); 2]);
    let config = LoaderConfig {
        even_batches: split == Split::Train,
        shuffle: split == Split::Train,
        ..LoaderConfig::new(batch_size, options.wanted())
    };
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), sampler)?);
    Ok(DistNeighborLoader::new(sampler, NodeTypeId(0), Seeds::Split(split), config, world)?)
}
