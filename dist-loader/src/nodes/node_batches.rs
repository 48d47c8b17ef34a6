//! Batches of nodes, sampled around seed nodes.

use crate::batch::collate::Collation;
use crate::batch::mini_batch::MiniBatch;
use crate::error::LoaderError;
use crate::prefetch::seed_loader::{SeedBatches, seed_batches};
use crate::seeds::node_clusters::{NodeClusters, among_seeds};
use crate::seeds::rest_of_epoch::SeedPartition;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{
    BatchKey, CachedFetch, NodeAttributes, NodeFields, SampleError, SampleSeeds, SampledSubgraph,
};
use edgecut_graph::NodeTypeId;
use std::ops::Range;
use std::sync::Arc;

/// The global ids of the seeds at a plan's positions.
#[derive(Hash)]
pub(crate) enum SeedIds {
    Nodes(Vec<u32>),
    Owned(Range<u32>),
    /// Ids with times.
    Timed(Vec<(u32, i64)>),
    OwnedAt(Range<u32>, i64),
}

impl SeedIds {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Nodes(ids) => ids.len(),
            Self::Owned(range) | Self::OwnedAt(range, _) => range.len(),
            Self::Timed(timed) => timed.len(),
        }
    }

    fn nodes(&self, positions: &[u32]) -> Vec<u32> {
        match self {
            Self::Nodes(ids) => positions.iter().map(|&at| ids[at as usize]).collect(),
            Self::Owned(range) | Self::OwnedAt(range, _) => positions.iter().map(|&at| range.start + at).collect(),
            Self::Timed(timed) => positions.iter().map(|&at| timed[at as usize].0).collect(),
        }
    }

    /// Returns the times of seeds that are listed with times.
    fn times(&self, positions: &[u32]) -> Option<Vec<i64>> {
        match self {
            Self::Timed(timed) => Some(positions.iter().map(|&at| timed[at as usize].1).collect()),
            Self::OwnedAt(_, time) => Some(vec![*time; positions.len()]),
            Self::Nodes(_) | Self::Owned(_) => None,
        }
    }
}

/// The state that turns seeds, given by position, into batches.
#[derive(Clone)]
pub struct NodeBatches {
    pub(crate) collation: Collation,
    pub(crate) node_type: NodeTypeId,
    pub(crate) seeds: Arc<SeedIds>,
    /// The clusters of the seeds. The positions in a plan are then numbers of clusters.
    pub(crate) clusters: Option<Arc<NodeClusters>>,
    /// True to draw the neighborhood of each seed by its id instead of by its batch.
    pub(crate) draws_by_seed: bool,
}

/// The neighborhood of seeds, which are positions.
#[derive(Default)]
pub struct Sampled {
    subgraph: SampledSubgraph,
    seeds: Vec<u32>,
}

impl SeedBatches for NodeBatches {
    type Batch = MiniBatch;
    type Sampled = Sampled;

    seed_batches!();

    fn partition(&self, world: &mut ProcessGroup) -> Result<SeedPartition, LoaderError> {
        let SeedIds::Nodes(seeds) = &*self.seeds else {
            let what = "only the seeds of a split can be continued with another number of processes".into();
            return Err(LoaderError::Config { what });
        };
        SeedPartition::of_nodes(self.node(), self.node_type, seeds, world)
    }

    async fn sample(self: Arc<Self>, planned: Vec<u32>, mut key: BatchKey) -> Result<Sampled, SampleError> {
        if self.draws_by_seed {
            // The number 0 stands for all batches of the epoch.
            key.batch = 0;
        }
        let seeds = match &self.clusters {
            Some(clusters) => clusters.positions(&planned),
            None => planned,
        };
        if seeds.is_empty() {
            return Ok(Sampled::default());
        }
        let ids = self.seeds.nodes(&seeds);
        let num_types = self.node().part().meta().node_types.len();
        let mut sampled = SampleSeeds::of_type(self.node_type, ids.clone(), num_types);
        if self.sampler().is_disjoint() {
            let mut draws = Vec::new();
            if self.draws_by_seed {
                draws = self.node().original_ids(self.node_type, ids.clone()).await?;
            }
            let times = match (self.seeds.times(&seeds), self.sampler().temporal()) {
                (_, None) => Vec::new(),
                (Some(times), _) => times,
                (None, _) => {
                    let wanted = NodeFields { times: true, ..NodeFields::default() };
                    self.node().fetch(self.node_type, ids, wanted).await?.times
                }
            };
            sampled = SampleSeeds { draws, ..sampled.disjoint(times) };
        }
        let mut subgraph = self.sampler().sample(sampled, key).await?;
        if self.clusters.is_some() {
            let part = self.node().part().clone();
            subgraph = self.node().run_on_workers(move || among_seeds(subgraph, &part)).await?;
        }
        Ok(Sampled { subgraph, seeds })
    }

    async fn make(
        self: Arc<Self>,
        Sampled { subgraph, seeds }: Sampled,
        key: BatchKey,
        ahead: Option<Arc<CachedFetch>>,
    ) -> Result<MiniBatch, SampleError> {
        if seeds.is_empty() {
            let targets = self.node().part().meta().node_types[self.node_type.index()].targets;
            let target_dim = targets.filter(|_| self.collation.wanted.labels).map_or(0, |targets| targets.dim);
            return Ok(MiniBatch { target_dim, ..MiniBatch::empty(key) });
        }
        let num_seeds = seeds.len();
        let mut of_seeds = NodeAttributes::default();
        if self.collation.wanted.labels {
            let wanted = NodeFields { labels: true, ..NodeFields::default() };
            of_seeds = self.node().fetch(self.node_type, self.seeds.nodes(&seeds), wanted).await?;
        }
        let batch = self.collation.collate(subgraph, key, num_seeds, ahead.as_ref()).await?;
        let NodeAttributes { labels, targets, target_dim, .. } = of_seeds;
        Ok(MiniBatch { seed_positions: seeds, labels, targets, target_dim, ..batch })
    }
}
