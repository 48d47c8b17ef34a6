//! Sampling of batches through the sampler directly, without a loader.

use crate::work::local_job::NODES;
use anyhow::Context;
use edgecut_dist_sampler::{BatchKey, DistNeighborSampler, SampleSeeds, SampledSubgraph};
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

/// Samples the neighborhoods of all batches of seeds, `concurrency` at the same time, and returns the result of `keep`
/// for each of them. The same seeds give the same neighborhoods in every call.
pub(crate) fn sample_all<T: Send + 'static>(
    sampler: &Arc<DistNeighborSampler>,
    batches: &[Vec<u32>],
    concurrency: usize,
    keep: fn(SampledSubgraph) -> T,
) -> anyhow::Result<Vec<T>> {
    let handle = sampler.node().handle();
    let sample = |(batch, seeds): (usize, &Vec<u32>)| {
        let sampler = sampler.clone();
        let seeds = seeds.clone();
        let key = BatchKey { seed: 0, epoch: 0, batch: batch as u64 };
        let task =
            handle.spawn(async move { sampler.sample(SampleSeeds::of_type(NODES, seeds, 1), key).await.map(keep) });
        async move { Ok::<T, anyhow::Error>(task.await.context("a sampling task ended early")??) }
    };
    let sampled = futures::stream::iter(batches.iter().enumerate().map(sample)).buffered(concurrency.max(1));
    handle.block_on(sampled.try_collect())
}

/// The size of a sampled batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSize {
    pub(crate) edges: usize,
    pub(crate) input_nodes: usize,
}

impl BatchSize {
    pub(crate) fn of(sampled: SampledSubgraph) -> Self {
        Self {
            edges: sampled.edges.iter().map(|edges| edges.indices.len()).sum(),
            input_nodes: sampled.nodes.iter().map(|nodes| nodes.ids.len()).sum(),
        }
    }

    pub(crate) fn total(sizes: &[Self]) -> Self {
        Self {
            edges: sizes.iter().map(|size| size.edges).sum(),
            input_nodes: sizes.iter().map(|size| size.input_nodes).sum(),
        }
    }
}
