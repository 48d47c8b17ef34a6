//! Which graphs each rank gets in each step.

use crate::error::LoaderError;
use crate::prefetch::DEFAULT_PREFETCH_BYTES;
use edgecut_graph::GraphDataset;
use edgecut_graph::rng::{CounterRng, combine};
use std::ops::Range;

/// How many graphs make a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// So many graphs per rank, at most.
    Graphs(usize),
    /// As many graphs per rank as have so many nodes together.
    Nodes(usize),
}

/// How a set of graphs becomes batches.
#[derive(Clone, Debug)]
pub struct GraphLoaderConfig {
    /// How many graphs make a batch.
    pub packing: Packing,
    /// Whether the graphs are shuffled each epoch, by a permutation that (seed, epoch) decides.
    pub shuffle: bool,
    /// Whether an epoch leaves out what does not make a whole step: with [`Packing::Graphs`] the graphs that do not fill the last
    /// step of all ranks, with [`Packing::Nodes`] the batches that not every rank would have one of.
    pub drop_last: bool,
    /// The seed of the shuffles.
    pub seed: u64,
    /// Batches that are made ahead of the trainer; 0 makes each when it is asked for.
    pub concurrency: usize,
    /// The most bytes of the batches that are made ahead and wait for the trainer; a batch larger than that passes alone.
    pub prefetch_bytes: usize,
}

impl GraphLoaderConfig {
    /// Batches of `batch_size` graphs per rank, shuffled, two of them made ahead.
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
/// Graphs are put in an order that does not depend on the ranks, and cut, so that an epoch has every graph once and all ranks take
/// the same number of steps. By count they are cut into steps, and each of these over the ranks: two ranks with half the batch
/// size train on the same graphs step by step as one. By nodes they are cut into batches, which are dealt to the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EpochPlan {
    order: Vec<u32>,
    /// Batches as ranges of the order, `world_size` of them a step.
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
    ) -> Self {
        let mut order = graphs.to_vec();
        if config.shuffle {
            CounterRng::new(combine(combine(0x96a9, config.seed), epoch)).shuffle(&mut order);
        }
        let batches = match config.packing {
            Packing::Graphs(size) => by_count(order.len(), size, world_size, config.drop_last),
            Packing::Nodes(budget) => {
                let nodes = |graph: &u32| dataset.num_nodes_of(*graph as usize);
                by_nodes(order.iter().map(nodes), budget, world_size, config.drop_last)
            }
        };
        Self { order, batches, world_size }
    }

    pub(crate) fn num_steps(&self) -> usize {
        self.batches.len() / self.world_size
    }

    /// The graphs of a rank in a step.
    pub(crate) fn batch(&self, step: usize, rank: usize) -> &[u32] {
        &self.order[self.batches[step * self.world_size + rank].clone()]
    }
}

/// Steps of `size` graphs for each rank; what is left for the last step is shared out evenly.
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

/// Batches that are filled one after the other, and dealt to the ranks in turn; with empty ones after the last.
fn by_nodes(
    sizes: impl Iterator<Item = usize>,
    budget: usize,
    world_size: usize,
    drop_last: bool,
) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut end, mut nodes) = (0, 0, 0);
    for size in sizes {
        if end > start && nodes + size > budget {
            batches.push(start..end);
            (start, nodes) = (end, 0);
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

/// Fails unless every graph is in the set and fits a batch.
pub(crate) fn check(
    dataset: &GraphDataset,
    graphs: &[u32],
    config: &GraphLoaderConfig,
    world_size: usize,
) -> Result<(), LoaderError> {
    let fail = |what: String| Err(LoaderError::Config { what: format!("graphs of {}: {what}", dataset.name()) });
    if let Some(graph) = graphs.iter().find(|&&graph| graph as usize >= dataset.num_graphs()) {
        return fail(format!("graph {graph} is unknown, the set has {}", dataset.num_graphs()));
    }
    if world_size == 0 {
        return fail("there has to be a rank".into());
    }
    match config.packing {
        Packing::Graphs(0) => fail("the batch size has to be at least 1".into()),
        Packing::Nodes(budget) => {
            let nodes = |graph: u32| dataset.num_nodes_of(graph as usize);
            match graphs.iter().max_by_key(|&&graph| nodes(graph)) {
                Some(&graph) if nodes(graph) > budget => {
                    let most = nodes(graph);
                    fail(format!(
                        "graph {graph} has {most} nodes, the most of all, and a batch may have {budget}: raise the limit of \
                         nodes (--max-nodes) to at least {most}"
                    ))
                }
                _ => Ok(()),
            }
        }
        Packing::Graphs(_) => Ok(()),
    }
}
