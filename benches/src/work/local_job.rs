//! A job with a single rank in this process.

use crate::args::DrawArgs;
use anyhow::{Context, ensure};
use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, DistNeighborSampler};
use edgecut_graph::{DiskPartId, Meta, NodeTypeId, Part};
use std::path::Path;
use std::sync::Arc;

/// The only node type of a homogeneous graph.
pub(crate) const NODES: NodeTypeId = NodeTypeId(0);

/// A job with one rank and one part.
pub(crate) struct LocalJob {
    pub(crate) graph: Arc<DistGraph>,
    pub(crate) world: ProcessGroup,
    cluster: Cluster,
}

impl LocalJob {
    /// Opens the part in `dir`, without verifying its checksums, and serves it.
    pub(crate) fn start(dir: &Path, threads: usize) -> anyhow::Result<Self> {
        let meta = Meta::read(dir)?;
        let parts = meta.num_parts;
        ensure!(
            parts == 1,
            "{}: the graph has {parts} parts, but this benchmark needs one part: partition with --num-partitions 1",
            dir.display()
        );
        let part = Arc::new(Part::open(dir, DiskPartId(0), false)?.with_edges_in_memory());
        let cluster = Cluster::join_local(1, |config| config.fingerprint = meta.fingerprint())?;
        let cluster = cluster.into_iter().next().context("a job of one rank has a rank")?;
        let world = cluster.world()?;
        let config = DistGraphConfig { num_workers: threads, ..DistGraphConfig::default() };
        let graph = DistGraph::start(part, cluster.clone(), config)?;
        Ok(Self { graph, world, cluster })
    }

    /// Returns the sampler that the flags describe.
    pub(crate) fn sampler(&self, draw: &DrawArgs) -> anyhow::Result<Arc<DistNeighborSampler>> {
        Ok(Arc::new(DistNeighborSampler::new(self.graph.clone(), draw.sampler()?)?))
    }

    /// Leaves the job.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        let Self { graph, world, cluster } = self;
        drop((graph, world));
        Ok(cluster.shutdown()?)
    }
}
