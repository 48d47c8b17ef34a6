//! Seeds of a rank's batches.

use crate::agreement::SharedSettings;
use crate::error::LoaderError;
use crate::loader_config::LoaderConfig;
use crate::seeds::epoch_segment::EpochSegment;
use crate::seeds::node_clusters::NodeClusters;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{BatchKey, DistGraph};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{NodeTypeId, PartitionId, Permutation, Split};
use std::ops::Range;
use std::sync::Arc;

/// The source of seeds.
#[derive(Clone, Debug)]
pub enum Seeds {
    /// The nodes of a split that this rank's part owns. Ranks that share a part take them in turn. A client of servers
    /// takes the nodes of the parts in its [`SeedShare`](edgecut_dist_sampler::SeedShare).
    Split(Split),
    /// All nodes that this rank's part owns, or for a client those of the same parts.
    Owned,
    /// A list of global ids, the same on every rank. Batch `k` is the `k`-th stretch of the list, and rank `k` modulo
    /// the world size makes it.
    Listed(Vec<u32>),
    /// A list as in [`Seeds::Listed`] with a time for each seed, for temporal sampling. A node may be listed at several
    /// times.
    Timed(Vec<(u32, i64)>),
    /// The nodes of [`Seeds::Owned`], all at this time, for temporal sampling.
    OwnedAt(i64),
    /// Clusters, the same on every rank. A batch has all nodes of some clusters and the edges between them, as in
    /// Cluster-GCN (Chiang et al., 2019), and the batch size counts clusters. Batch `k` has the `k`-th stretch of the
    /// clusters, and rank `k` modulo the world size makes it. The sampler must have one hop with all neighbors.
    Clusters(NodeClusters),
}

impl Seeds {
    pub(crate) fn are_listed(&self) -> bool {
        matches!(self, Self::Listed(_) | Self::Timed(_) | Self::Clusters(_))
    }

    /// Adds the source of the seeds to the settings of a loader.
    pub(crate) fn describe(&self, settings: SharedSettings) -> SharedSettings {
        match self {
            Self::Split(split) => settings.with("seeds", format!("the split {}", split.name())),
            Self::Owned => settings.with("seeds", "all nodes"),
            Self::OwnedAt(time) => settings.with("seeds", format!("all nodes at the time {time}")),
            Self::Listed(ids) => settings.with_list("seeds", ids),
            Self::Timed(timed) => settings.with_list("seeds", timed),
            Self::Clusters(clusters) => clusters.describe(settings),
        }
    }
}

/// The division of seeds, or of clusters in their place, into the batches of one rank. A seed is a position in a list of
/// `len` seeds.
#[derive(Clone, Debug)]
pub(crate) struct SeedPlan {
    /// The number of seeds that the part owns, or of listed seeds or clusters.
    pub(crate) len: usize,
    pub(crate) listed: bool,
    pub(crate) batch_size: usize,
    /// Divides this rank's seeds evenly into this many batches, instead of into batches of `batch_size`.
    pub(crate) even_steps: Option<usize>,
    pub(crate) shuffle: Option<Shuffle>,
    pub(crate) seed: u64,
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
    /// The number of ranks that share the part, and the index of this rank among them.
    pub(crate) sharers: (usize, usize),
    /// The part. It selects the shuffle, so that parts shuffle differently and the sharers of one part alike.
    pub(crate) part: u32,
    /// The number of segments of the epoch before the batches of this plan. It selects the shuffle.
    pub(crate) segment: usize,
    /// The number of batches of all ranks in these segments.
    pub(crate) first_batch: usize,
    /// The seeds that these segments have left, as positions in the list of all of them; `None` without segments. `len` is
    /// their number.
    pub(crate) rest: Option<Arc<[u32]>>,
}

/// The number of steps per epoch, and the number of seeds over all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) num_steps: usize,
    pub(crate) total_seeds: usize,
}

/// The representation of a shuffled order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    /// A list of all positions, 4 bytes per seed.
    List,
    /// A permutation that is evaluated by position, in constant memory.
    Permutation,
}

/// The order of the seeds of a rank's part, or of the listed seeds, in one epoch.
#[derive(Debug)]
pub(crate) enum EpochOrder {
    Sequential,
    List(Vec<u32>),
    Permutation(Permutation),
}

impl EpochOrder {
    pub(crate) fn at(&self, position: usize) -> u32 {
        match self {
            Self::Sequential => position as u32,
            Self::List(list) => list[position],
            Self::Permutation(permutation) => permutation.at(position as u64) as u32,
        }
    }
}

/// Returns the global ids of the nodes of the parts whose seeds a process takes.
pub(crate) fn owned_seeds(graph: &DistGraph, node_type: NodeTypeId) -> Range<u32> {
    let book = &graph.part().meta().node_types[node_type.index()].book;
    let parts = graph.seed_share().parts;
    book.range(PartitionId(parts.start)).start..book.range(PartitionId(parts.end - 1)).end
}

impl SeedPlan {
    /// Makes the plan for `len` seeds, fewer than 2^32. `shuffle` is used if the configuration asks for shuffling.
    pub(crate) fn new(
        len: usize,
        listed: bool,
        shuffle: Shuffle,
        config: &LoaderConfig,
        graph: &DistGraph,
        world: &ProcessGroup,
    ) -> Self {
        let share = graph.seed_share();
        Self {
            len,
            listed,
            batch_size: config.batch_size,
            even_steps: None,
            shuffle: config.shuffle.then_some(shuffle),
            seed: config.seed,
            rank: world.rank(),
            world_size: world.size(),
            sharers: (share.sharers, share.mine),
            part: share.parts.start,
            segment: 0,
            first_batch: 0,
            rest: None,
        }
    }

    /// Returns the plan of the seeds that are left after some segments of an epoch, given as positions in the list of this
    /// plan. The ranks have yet to agree on it.
    pub(crate) fn rest(&self, left: Vec<u32>, before: &[EpochSegment]) -> Self {
        Self {
            len: left.len(),
            even_steps: None,
            segment: before.len(),
            first_batch: EpochSegment::num_batches(before),
            rest: Some(left.into()),
            ..self.clone()
        }
    }

    /// Agrees with all ranks on the number of steps, and sums up the seeds. The ranks have agreed on their settings.
    pub(crate) fn agree(&mut self, even_batches: bool, world: &mut ProcessGroup) -> Result<Agreed, LoaderError> {
        let mut steps = [self.num_batches() as u64];
        world.all_reduce(&mut steps, ReduceOp::Max)?;
        let num_steps = steps[0] as usize;
        self.even_steps = (even_batches && !self.listed).then_some(num_steps);
        // Every rank has the whole list, so only rank 0 counts listed seeds.
        let own_seeds = if self.listed && self.rank > 0 { 0 } else { self.num_seeds() as u64 };
        let mut total = [own_seeds];
        world.all_reduce(&mut total, ReduceOp::Sum)?;
        Ok(Agreed { num_steps, total_seeds: total[0] as usize })
    }

    /// Returns the number of batches of an epoch in which this rank has seeds.
    pub(crate) fn num_batches(&self) -> usize {
        if let Some(steps) = self.even_steps {
            return self.num_seeds().min(steps);
        }
        if self.listed {
            let batches = self.len.div_ceil(self.batch_size);
            return batches.saturating_sub(self.rank).div_ceil(self.world_size);
        }
        self.num_seeds().div_ceil(self.batch_size)
    }

    /// Returns the number of batches of this rank in an epoch that have `batch_size` seeds. They come before the others.
    /// Even batches all count.
    pub(crate) fn num_full_batches(&self) -> usize {
        if let Some(steps) = self.even_steps {
            return steps;
        }
        if self.listed {
            let batches = self.len / self.batch_size;
            return batches.saturating_sub(self.rank).div_ceil(self.world_size);
        }
        self.num_seeds() / self.batch_size
    }

    /// Returns the number of this rank's seeds in an epoch. For a list, this is the number of all seeds.
    pub(crate) fn num_seeds(&self) -> usize {
        let (sharers, mine) = self.stride();
        self.len.saturating_sub(mine).div_ceil(sharers)
    }

    /// Returns the distance between this rank's seeds in an epoch's order, and the position of the first.
    fn stride(&self) -> (usize, usize) {
        if self.listed { (1, 0) } else { self.sharers }
    }

    /// Returns the order of the part's seeds, or of the listed seeds, in `epoch`.
    pub(crate) fn order(&self, epoch: u64) -> EpochOrder {
        // All ranks take stretches of one list, so all must shuffle it alike. 0x5eed separates these random numbers
        // from those of other users of the seed.
        let part = if self.listed { 0 } else { u64::from(self.part) };
        let mut key = combine(combine(combine(0x5eed, self.seed), epoch), part);
        if self.segment > 0 {
            key = combine(key, self.segment as u64);
        }
        match self.shuffle {
            None => EpochOrder::Sequential,
            Some(Shuffle::Permutation) => EpochOrder::Permutation(Permutation::new(self.len as u64, key)),
            Some(Shuffle::List) => {
                let mut list: Vec<u32> = (0..self.len as u32).collect();
                CounterRng::new(key).shuffle(&mut list);
                EpochOrder::List(list)
            }
        }
    }

    /// Returns the key of this rank's batch in `step`.
    pub(crate) fn key(&self, epoch: u64, step: usize) -> BatchKey {
        BatchKey { seed: self.seed, epoch, batch: self.batch_of(step) as u64 }
    }

    /// Returns the seeds of this rank's batch in `step`, in the order of an epoch. There are no seeds after the last
    /// batch.
    pub(crate) fn seeds(&self, order: &EpochOrder, step: usize) -> Vec<u32> {
        let at = if self.listed { self.batch_of(step) } else { step };
        let (sharers, mine) = self.stride();
        let in_list = |seed: usize| {
            let position = order.at(mine + seed * sharers);
            self.rest.as_ref().map_or(position, |rest| rest[position as usize])
        };
        (self.first_seed(at)..self.first_seed(at + 1)).map(in_list).collect()
    }

    /// Returns the number of this rank's seeds before batch `at` of the list or of this rank.
    pub(crate) fn first_seed(&self, at: usize) -> usize {
        let num_seeds = self.num_seeds();
        match self.even_steps {
            // Evenly spaced boundaries, so that the sizes of batches differ by at most one seed.
            Some(steps) => (num_seeds * at.min(steps)).div_ceil(steps.max(1)),
            None => (at * self.batch_size).min(num_seeds),
        }
    }

    /// Returns the number of this rank's batch in `step`, counted over all ranks.
    fn batch_of(&self, step: usize) -> usize {
        self.first_batch + step * self.world_size + self.rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHUFFLES: [Shuffle; 2] = [Shuffle::List, Shuffle::Permutation];

    fn plan(rank: usize, world_size: usize, sharers: (usize, usize), listed: bool, seeds: u32) -> SeedPlan {
        let part = (rank / sharers.0) as u32;
        SeedPlan {
            len: seeds as usize,
            listed,
            batch_size: 4,
            even_steps: None,
            shuffle: Some(Shuffle::List),
            seed: 9,
            rank,
            world_size,
            sharers,
            part,
            segment: 0,
            first_batch: 0,
            rest: None,
        }
    }

    fn all_batches(plan: &SeedPlan, epoch: u64) -> Vec<(Vec<u32>, BatchKey)> {
        let order = plan.order(epoch);
        (0..plan.num_batches()).map(|step| (plan.seeds(&order, step), plan.key(epoch, step))).collect()
    }

    fn seeds_of(batches: &[(Vec<u32>, BatchKey)]) -> Vec<u32> {
        batches.iter().flat_map(|(seeds, _)| seeds.iter().copied()).collect()
    }

    #[test]
    fn ranks_that_share_a_part_see_each_seed_once() {
        for (sharers, seeds) in [(1, 0), (1, 9), (2, 9), (3, 10), (3, 1), (4, 1003)] {
            for shuffle in SHUFFLES {
                let of_rank =
                    |mine| SeedPlan { shuffle: Some(shuffle), ..plan(mine, sharers, (sharers, mine), false, seeds) };
                let batches = (0..sharers).flat_map(|mine| all_batches(&of_rank(mine), 2));
                let mut seen: Vec<u32> = batches.flat_map(|(seeds, _)| seeds).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..seeds).collect::<Vec<_>>());
            }
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
        for shuffle in [None, Some(Shuffle::List), Some(Shuffle::Permutation)] {
            assert_eq!(batches(1, shuffle).len(), 6);
            for world_size in 2..5 {
                assert_eq!(batches(1, shuffle), batches(world_size, shuffle));
            }
        }
    }

    #[test]
    fn epochs_and_parts_are_shuffled_differently() {
        for shuffle in SHUFFLES {
            let one = SeedPlan { shuffle: Some(shuffle), ..plan(0, 2, (1, 0), false, 50) };
            let other = SeedPlan { shuffle: Some(shuffle), part: 1, ..plan(1, 2, (1, 0), false, 50) };
            let order = |plan: &SeedPlan, epoch| seeds_of(&all_batches(plan, epoch));
            assert_eq!(order(&one, 0), order(&one, 0));
            assert_ne!(order(&one, 0), order(&one, 1));
            assert_ne!(order(&one, 0), order(&other, 0));
        }
    }

    #[test]
    fn the_order_of_a_permutation_takes_no_memory() {
        let many = SeedPlan { shuffle: Some(Shuffle::Permutation), ..plan(0, 1, (1, 0), false, u32::MAX) };
        let order = many.order(1);
        assert!(matches!(order, EpochOrder::Permutation(_)) && size_of_val(&order) < 256);
        assert_eq!(many.seeds(&order, 1 << 29).len(), 4);
        assert!(matches!(SeedPlan { shuffle: None, ..many }.order(1), EpochOrder::Sequential));
    }

    #[test]
    fn even_batches_differ_by_one_seed_and_hold_all() {
        for (seeds, steps) in [(10, 4), (4, 4), (3, 4), (0, 4), (4001, 7)] {
            let plan = SeedPlan { even_steps: Some(steps), ..plan(0, 1, (1, 0), false, seeds) };
            let order = plan.order(0);
            let batches: Vec<Vec<u32>> = (0..steps).map(|step| plan.seeds(&order, step)).collect();
            let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
            let EpochOrder::List(order) = order else { panic!("expected a list") };
            assert_eq!(batches.concat(), order);
            assert_eq!(plan.num_batches(), sizes.iter().filter(|&&size| size > 0).count());
            assert!(plan.seeds(&plan.order(0), steps).is_empty());
        }
    }

    #[test]
    fn full_batches_come_first() {
        for (seeds, listed) in [(0, false), (9, false), (12, false), (0, true), (22, true), (35, true), (40, true)] {
            for rank in 0..3 {
                let plan = plan(rank, 3, if listed { (1, 0) } else { (3, rank) }, listed, seeds);
                let sizes: Vec<usize> = all_batches(&plan, 0).iter().map(|(seeds, _)| seeds.len()).collect();
                let full = sizes.iter().take_while(|&&size| size == 4).count();
                assert_eq!(plan.num_full_batches(), full, "{seeds} seeds, {sizes:?}");
                assert!(sizes[full..].iter().all(|&size| size < 4));
            }
        }
        let even = SeedPlan { even_steps: Some(3), ..plan(0, 1, (1, 0), false, 10) };
        assert_eq!(even.num_full_batches(), 3);
    }

    #[test]
    fn after_the_last_batch_there_are_no_seeds() {
        let plan = plan(0, 1, (1, 0), false, 5);
        assert_eq!(plan.num_batches(), 2);
        assert!(plan.seeds(&plan.order(0), 2).is_empty());
    }
}
