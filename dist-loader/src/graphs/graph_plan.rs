//! The assignment of graphs to ranks and steps.

use crate::error::LoaderError;
use crate::loader_config::DEFAULT_PREFETCH_BYTES;
use crate::seeds::epoch_segment::EpochSegment;
use edgecut_graph::GraphDataset;
use edgecut_graph::rng::{CounterRng, combine};
use serde::Serialize;
use std::ops::Range;

/// The rule by which graphs are packed into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Packing {
    /// At most this many graphs per rank.
    Graphs(usize),
    /// As many graphs per rank as have at most this many nodes together.
    Nodes(usize),
}

/// The configuration of a [`GraphDataLoader`](crate::GraphDataLoader). Its serialisation has the settings that must be equal
/// on all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct GraphLoaderConfig {
    /// The size of a batch.
    pub packing: Packing,
    /// True to shuffle the graphs in each epoch, by a permutation that depends on (seed, epoch).
    pub shuffle: bool,
    /// True to omit the incomplete last step of an epoch. With [`Packing::Graphs`] this drops the graphs that do
    /// not fill a step of all ranks, with [`Packing::Nodes`] the batches that not every rank would get.
    pub drop_last: bool,
    /// The seed of the shuffles.
    pub seed: u64,
    /// The number of batches to make ahead of the trainer. 0 makes each batch on request.
    #[serde(skip)]
    pub concurrency: usize,
    /// The most bytes of batches that are made ahead and wait for the trainer. A larger batch is made only when no
    /// other is held.
    #[serde(skip)]
    pub prefetch_bytes: usize,
}

impl GraphLoaderConfig {
    /// Returns a configuration with batches of `batch_size` graphs per rank, shuffled, two of them made ahead.
    pub fn new(batch_size: usize) -> Self {
        Self {
            packing: Packing::Graphs(batch_size),
            shuffle: true,
            drop_last: false,
            seed: 0,
            concurrency: 2,
            prefetch_bytes: DEFAULT_PREFETCH_BYTES,
        }
    }
}

/// The batches of all ranks in one epoch.
///
/// Graphs are put in an order that does not depend on the ranks, and this order is cut. So an epoch contains every
/// graph once, and all ranks take the same number of steps. [`Packing::Graphs`] cuts the order into steps and each step
/// into one batch per rank: two ranks with half the batch size train on the same graphs per step as one rank.
/// [`Packing::Nodes`] cuts the order into batches, which the ranks take in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EpochPlan {
    epoch: u64,
    order: Vec<u32>,
    /// Batches as ranges of the order, `world_size` per step.
    batches: Vec<Range<usize>>,
    world_size: usize,
}

impl EpochPlan {
    pub(crate) fn new(
        dataset: &GraphDataset,
        graphs: &[u32],
        config: &GraphLoaderConfig,
        epoch: u64,
        world_size: usize,
        before: &[EpochSegment],
    ) -> Self {
        let mut order = graphs.to_vec();
        if config.shuffle {
            // 0x96a9 separates these random numbers from other users of the same seed.
            CounterRng::new(combine(combine(0x96a9, config.seed), epoch)).shuffle(&mut order);
        }
        let cut = |order: &[u32], world_size: usize| match config.packing {
            Packing::Graphs(size) => by_count(order.len(), size, world_size, config.drop_last),
            Packing::Nodes(budget) => by_nodes(
                order.iter().map(|graph| dataset.num_nodes_of(*graph as usize)),
                budget,
                world_size,
                config.drop_last,
            ),
        };
        for segment in before {
            let taken = cut(&order, segment.world_size);
            let num_taken = (segment.steps * segment.world_size).min(taken.len());
            // Batches follow each other without gaps.
            order.drain(..taken[..num_taken].last().map_or(0, |last| last.end));
        }
        let batches = cut(&order, world_size);
        Self { epoch, order, batches, world_size }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn num_steps(&self) -> usize {
        self.batches.len() / self.world_size
    }

    /// Returns the graphs of a rank in a step.
    pub(crate) fn batch(&self, step: usize, rank: usize) -> &[u32] {
        &self.order[self.batches[step * self.world_size + rank].clone()]
    }
}

/// Cuts steps of `size` graphs per rank. The graphs of the last step are divided evenly over the ranks.
fn by_count(num_graphs: usize, size: usize, world_size: usize, drop_last: bool) -> Vec<Range<usize>> {
    let of_step = size.saturating_mul(world_size);
    let mut batches = Vec::new();
    let mut start = 0;
    while start < num_graphs {
        let graphs = of_step.min(num_graphs - start);
        if graphs < of_step && drop_last {
            break;
        }
        let cut = |rank: usize| start + graphs * rank / world_size;
        batches.extend((0..world_size).map(|rank| cut(rank)..cut(rank + 1)));
        start += graphs;
    }
    batches
}

/// Fills batches one after the other and adds empty ones until each rank has the same number.
fn by_nodes(
    sizes: impl Iterator<Item = usize>,
    budget: usize,
    world_size: usize,
    drop_last: bool,
) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let mut start = 0;
    let mut end = 0;
    let mut nodes = 0;
    for size in sizes {
        if end > start && nodes + size > budget {
            batches.push(start..end);
            start = end;
            nodes = 0;
        }
        nodes += size;
        end += 1;
    }
    if end > start {
        batches.push(start..end);
    }
    if drop_last {
        batches.truncate(batches.len() / world_size * world_size);
    }
    batches.resize(batches.len().next_multiple_of(world_size), end..end);
    batches
}

/// Checks that every graph is in the set and fits a batch.
pub(crate) fn check(
    dataset: &GraphDataset,
    graphs: &[u32],
    config: &GraphLoaderConfig,
    world_size: usize,
) -> Result<(), LoaderError> {
    let fail = |what: String| Err(LoaderError::Config { what: format!("graphs of {}: {what}", dataset.name()) });
    if let Some(graph) = graphs.iter().find(|&&graph| graph as usize >= dataset.num_graphs()) {
        return fail(format!("graph {graph} does not exist, the set has {} graphs", dataset.num_graphs()));
    }
    if world_size == 0 {
        return fail("the world size must be at least 1".into());
    }
    match config.packing {
        Packing::Graphs(0) => fail("the batch size must be at least 1".into()),
        Packing::Nodes(budget) => {
            let nodes = |graph: u32| dataset.num_nodes_of(graph as usize);
            match graphs.iter().max_by_key(|&&graph| nodes(graph)) {
                Some(&graph) if nodes(graph) > budget => {
                    let most = nodes(graph);
                    fail(format!(
                        "graph {graph} has {most} nodes, the most of all, but a batch may have {budget}: raise \
                         `max_nodes` to at least {most}"
                    ))
                }
                _ => Ok(()),
            }
        }
        Packing::Graphs(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::small_graphs::{FakeGraphsOptions, fake_graphs};

    #[test]
    fn every_graph_is_used_once_by_jobs_of_different_sizes() {
        let dataset = fake_graphs(&FakeGraphsOptions { num_graphs: 61, ..FakeGraphsOptions::default() }).unwrap();
        let graphs: Vec<u32> = (0..61).collect();
        for packing in [Packing::Graphs(3), Packing::Nodes(120)] {
            let config = GraphLoaderConfig { packing, ..GraphLoaderConfig::new(1) };
            let mut before = Vec::new();
            let mut seen: Vec<u32> = Vec::new();
            for (world_size, steps) in [(4, 2), (3, 1), (1, 2), (2, usize::MAX)] {
                let plan = EpochPlan::new(&dataset, &graphs, &config, 5, world_size, &before);
                let steps = steps.min(plan.num_steps());
                for step in 0..steps {
                    seen.extend((0..world_size).flat_map(|rank| plan.batch(step, rank)));
                }
                before.push(EpochSegment { world_size, num_groups: 0, num_steps: plan.num_steps(), steps });
            }
            seen.sort_unstable();
            assert_eq!(seen, graphs, "{packing:?}");
        }
    }
}
