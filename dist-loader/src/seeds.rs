//! Which seeds a rank's batches are made for.

use crate::error::LoaderError;
use crate::loader::LoaderConfig;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{BatchKey, SamplingNode};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{NodeTypeId, Part, Split};

/// Where seeds come from.
#[derive(Clone, Debug)]
pub enum Seeds {
    /// The nodes of a split that this rank's part owns. Ranks that share a part take them in turn.
    Split(Split),
    /// All nodes that this rank's part owns. Ranks that share a part take them in turn.
    Owned,
    /// The same list on every rank, global ids: batch `k` is the `k`-th stretch of it, made by rank `k` modulo the world
    /// size.
    Listed(Vec<u32>),
    /// The same with a time each, for temporal sampling. A node may be listed at several times.
    Timed(Vec<(u32, i64)>),
}

/// The seeds of one rank, and how they are cut.
#[derive(Debug)]
pub(crate) struct SeedPlan {
    pub(crate) ids: Vec<u32>,
    pub(crate) listed: bool,
    pub(crate) batch_size: usize,
    /// Cut this rank's seeds evenly into so many batches, instead of into batches of `batch_size`.
    pub(crate) even_steps: Option<usize>,
    pub(crate) shuffle: bool,
    pub(crate) seed: u64,
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
    /// How many ranks share the part, and which of them this is.
    pub(crate) sharers: (usize, usize),
    /// The part, so that parts shuffle differently and the sharers of one part alike.
    pub(crate) part: u32,
}

/// The global ids of the seeds of a split that a part owns.
pub(crate) fn split_seeds(part: &Part, node_type: NodeTypeId, split: Split) -> Vec<u32> {
    let start = part.owned(node_type).start;
    part.nodes(node_type).splits.get(split).iter().map(|row| start + row).collect()
}

impl SeedPlan {
    pub(crate) fn new(
        ids: Vec<u32>,
        listed: bool,
        config: &LoaderConfig,
        node: &SamplingNode,
        world: &ProcessGroup,
    ) -> Self {
        Self {
            ids,
            listed,
            batch_size: config.batch_size,
            even_steps: None,
            shuffle: config.shuffle,
            seed: config.seed,
            rank: world.rank(),
            world_size: world.size(),
            sharers: node.sharers(),
            part: node.part().id().0,
        }
    }

    /// Agrees with all ranks on the number of steps, and counts the seeds of all.
    pub(crate) fn agree(
        &mut self,
        even_batches: bool,
        world: &mut ProcessGroup,
    ) -> Result<(usize, usize), LoaderError> {
        let mut steps = [self.num_batches() as u64];
        world.all_reduce(&mut steps, ReduceOp::Max)?;
        let num_steps = steps[0] as usize;
        self.even_steps = (even_batches && !self.listed).then_some(num_steps);
        let own_seeds = if self.listed && self.rank > 0 { 0 } else { self.num_seeds() as u64 };
        let mut total = [own_seeds];
        world.all_reduce(&mut total, ReduceOp::Sum)?;
        Ok((num_steps, total[0] as usize))
    }

    /// The batches of an epoch in which this rank has seeds.
    pub(crate) fn num_batches(&self) -> usize {
        if let Some(steps) = self.even_steps {
            return self.num_seeds().min(steps);
        }
        if self.listed {
            let batches = self.ids.len().div_ceil(self.batch_size);
            return batches.saturating_sub(self.rank).div_ceil(self.world_size);
        }
        self.num_seeds().div_ceil(self.batch_size)
    }

    /// The seeds that [`SeedPlan::order`] gives.
    pub(crate) fn num_seeds(&self) -> usize {
        let (sharers, mine) = if self.listed { (1, 0) } else { self.sharers };
        self.ids.len().saturating_sub(mine).div_ceil(sharers)
    }

    /// This rank's seeds in the order of `epoch`.
    pub(crate) fn order(&self, epoch: u64) -> Vec<u32> {
        let mut ids = self.ids.clone();
        if self.shuffle {
            // A list is cut over all ranks, so all of them have to shuffle it alike.
            let part = if self.listed { 0 } else { u64::from(self.part) };
            let key = combine(combine(combine(0x5eed, self.seed), epoch), part);
            CounterRng::new(key).shuffle(&mut ids);
        }
        if self.listed {
            return ids;
        }
        let (sharers, mine) = self.sharers;
        ids.into_iter().skip(mine).step_by(sharers).collect()
    }

    /// The seeds of this rank's `step`-th batch, of the seeds in [`SeedPlan::order`]; none after the last.
    pub(crate) fn batch(&self, order: &[u32], epoch: u64, step: usize) -> (Vec<u32>, BatchKey) {
        let batch = step * self.world_size + self.rank;
        let at = if self.listed { batch } else { step };
        let start = |at: usize| match self.even_steps {
            Some(steps) => (order.len() * at.min(steps)).div_ceil(steps.max(1)),
            None => (at * self.batch_size).min(order.len()),
        };
        (order[start(at)..start(at + 1)].to_vec(), BatchKey { seed: self.seed, epoch, batch: batch as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rank: usize, world_size: usize, sharers: (usize, usize), listed: bool, seeds: u32) -> SeedPlan {
        let part = (rank / sharers.0) as u32;
        let ids = (0..seeds).collect();
        SeedPlan {
            ids,
            listed,
            batch_size: 4,
            even_steps: None,
            shuffle: true,
            seed: 9,
            rank,
            world_size,
            sharers,
            part,
        }
    }

    fn all_batches(plan: &SeedPlan, epoch: u64) -> Vec<(Vec<u32>, BatchKey)> {
        let order = plan.order(epoch);
        (0..plan.num_batches()).map(|step| plan.batch(&order, epoch, step)).collect()
    }

    #[test]
    fn ranks_that_share_a_part_see_each_seed_once() {
        for (sharers, seeds) in [(1, 0), (1, 9), (2, 9), (3, 10), (3, 1)] {
            let mut seen: Vec<u32> = (0..sharers)
                .flat_map(|mine| all_batches(&plan(mine, sharers, (sharers, mine), false, seeds), 2))
                .flat_map(|(seeds, _)| seeds)
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..seeds).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_listed_batch_is_the_same_whatever_the_world_size() {
        let batches = |world_size, shuffle| {
            let mut all: Vec<_> = (0..world_size)
                .flat_map(|rank| {
                    let plan = SeedPlan { shuffle, ..plan(rank, world_size, (1, 0), true, 22) };
                    all_batches(&plan, 0)
                })
                .collect();
            all.sort_by_key(|(_, key)| key.batch);
            all
        };
        for shuffle in [false, true] {
            assert_eq!(batches(1, shuffle).len(), 6);
            for world_size in 2..5 {
                assert_eq!(batches(1, shuffle), batches(world_size, shuffle));
            }
        }
    }

    #[test]
    fn epochs_and_parts_are_shuffled_differently() {
        let one = plan(0, 2, (1, 0), false, 50);
        assert_eq!(one.order(0), one.order(0));
        assert_ne!(one.order(0), one.order(1));
        assert_ne!(one.order(0), SeedPlan { part: 1, ..plan(1, 2, (1, 0), false, 50) }.order(0));
    }

    #[test]
    fn even_batches_differ_by_one_seed_and_hold_all() {
        for (seeds, steps) in [(10, 4), (4, 4), (3, 4), (0, 4), (4001, 7)] {
            let plan = SeedPlan { even_steps: Some(steps), ..plan(0, 1, (1, 0), false, seeds) };
            let order = plan.order(0);
            let batches: Vec<Vec<u32>> = (0..steps).map(|step| plan.batch(&order, 0, step).0).collect();
            let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
            assert_eq!(batches.concat(), order);
            assert_eq!(plan.num_batches(), sizes.iter().filter(|&&size| size > 0).count());
            assert!(plan.batch(&order, 0, steps).0.is_empty());
        }
    }

    #[test]
    fn after_the_last_batch_there_are_no_seeds() {
        let plan = plan(0, 1, (1, 0), false, 5);
        assert_eq!(plan.num_batches(), 2);
        assert!(plan.batch(&plan.order(0), 0, 2).0.is_empty());
    }
}
