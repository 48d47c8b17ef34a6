//! The seeds that are left of an epoch which other numbers of processes have begun.

use crate::error::LoaderError;
use crate::seeds::epoch_segment::EpochSegment;
use crate::seeds::seed_plan::SeedPlan;
use edgecut_cluster::{PartLayout, ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{DiskPartId, EdgeTypeId, NodeTypeId, SeedEdgeSet};
use std::ops::Range;

/// The numbers of training seeds in each part, and the rules by which processes divide them.
///
/// Parts are those on disk here, also where processes hold groups of them. A *cell* is the seeds of one type in one part:
/// a number of processes determines the order in which cells follow each other in the list of a process, but neither the
/// cells nor the order within them.
///
/// The division of the seeds by each earlier number of processes is repeated, so no list of used seeds is stored.
#[derive(Debug)]
pub struct SeedPartition {
    /// By part, then by type of seed, the number of seeds.
    pub(crate) counts: Vec<Vec<usize>>,
}

/// The seeds of a cell that are left, as ascending positions in the cell.
type Left = Vec<u32>;

/// The parts whose seeds some processes divide among themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Share {
    /// The first group of parts. It selects the shuffle.
    first_group: usize,
    /// The parts of each group.
    groups: Vec<Range<usize>>,
    /// The number of processes that divide these seeds.
    sharers: usize,
}

impl Share {
    /// Returns all shares of a number of processes.
    fn all(num_parts: usize, num_groups: usize, world_size: usize) -> Vec<Self> {
        let layout = PartLayout::new(num_parts, num_groups);
        let groups = (0..layout.num_groups()).map(|group| layout.parts_of(group));
        if world_size.is_multiple_of(layout.num_groups()) {
            let sharers = world_size / layout.num_groups();
            return groups
                .enumerate()
                .map(|(group, parts)| Self { first_group: group, groups: vec![parts], sharers })
                .collect();
        }
        vec![Self { first_group: 0, groups: groups.collect(), sharers: world_size }]
    }

    fn parts(&self) -> Range<usize> {
        self.groups[0].start..self.groups[self.groups.len() - 1].end
    }

    /// Returns the cells in the order of the list of these processes, as pairs of part and type.
    fn cells(&self, num_types: usize) -> Vec<(usize, usize)> {
        let of_group = |parts: &Range<usize>| {
            let parts = parts.clone();
            (0..num_types).flat_map(move |seed_type| parts.clone().map(move |part| (part, seed_type)))
        };
        self.groups.iter().flat_map(of_group).collect()
    }
}

/// The seeds of a share that are left before a segment, in the order of its list.
struct ShareList {
    cells: Vec<(usize, usize)>,
    /// The end of each cell in the list.
    ends: Vec<usize>,
    /// The seeds that are left in each cell; `None` if all are.
    left: Option<Vec<Left>>,
}

impl ShareList {
    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the index of the cell of a seed in the list, and the seed's position in the cell.
    fn at(&self, position: usize) -> (usize, u32) {
        let cell = self.ends.partition_point(|&end| end <= position);
        let start = if cell == 0 { 0 } else { self.ends[cell - 1] };
        let within = position - start;
        (cell, self.left.as_ref().map_or(within as u32, |left| left[cell][within]))
    }
}

impl SeedPartition {
    /// Counts seed nodes, of which this process has a list in ascending order. Every rank must call this.
    pub(crate) fn of_nodes(
        graph: &DistGraph,
        node_type: NodeTypeId,
        seeds: &[u32],
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let meta = graph.part().meta();
        let book = meta.book_on_disk(node_type);
        let num_before = |id: u32| seeds.partition_point(|&seed| seed < id);
        let count = |part: usize| {
            let owned = book.range(DiskPartId(part as u32));
            vec![num_before(owned.end) - num_before(owned.start)]
        };
        Self::agree((0..graph.num_parts()).map(count).collect(), world)
    }

    /// Counts the edges of some types in a set of training edges. Every rank must call this.
    pub(crate) fn of_edges(
        graph: &DistGraph,
        set: SeedEdgeSet,
        edge_types: &[EdgeTypeId],
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let mut counts = vec![vec![0; edge_types.len()]; graph.num_parts()];
        for (at, &edge_type) in edge_types.iter().enumerate() {
            if graph.is_client() {
                for part in graph.seed_share().parts {
                    let count = graph.num_seed_edges(part, edge_type, set).map_err(LoaderError::seeds)?;
                    counts[part as usize][at] = count;
                }
                continue;
            }
            let edges = graph.part().edges(edge_type);
            let held = graph.part().owned(edges.dst_type);
            let book = graph.part().meta().book_on_disk(edges.dst_type);
            for (part, counts) in counts.iter_mut().enumerate() {
                let owned = book.range(DiskPartId(part as u32));
                if owned.start >= held.start && owned.end <= held.end {
                    let before = |id: u32| {
                        let in_edges = edges.csc.indptr()[(id - held.start) as usize] as usize;
                        match (set, &edges.attributes.labels) {
                            (SeedEdgeSet::Links(_), _) => in_edges,
                            (SeedEdgeSet::Labeled(split), Some(labels)) => {
                                edges.split_index.len_below(labels, split, in_edges)
                            }
                            (SeedEdgeSet::Labeled(_), None) | (SeedEdgeSet::Negatives(_), _) => 0,
                        }
                    };
                    counts[at] = before(owned.end) - before(owned.start);
                }
            }
        }
        Self::agree(counts, world)
    }

    /// Collects the counts of all processes, each of which knows the counts of some parts.
    fn agree(mut counts: Vec<Vec<usize>>, world: &mut ProcessGroup) -> Result<Self, LoaderError> {
        let mut all: Vec<u64> = counts.iter().flatten().map(|&count| count as u64).collect();
        world.all_reduce(&mut all, ReduceOp::Max)?;
        counts.iter_mut().flatten().zip(all).for_each(|(count, known)| *count = known as usize);
        Ok(Self { counts })
    }

    /// Returns the positions in the list of this process's share of the seeds that are left after `before`, ascending.
    /// `plan` is the division of the seeds of a whole epoch, and `num_groups` the number of groups of parts now.
    pub(crate) fn rest(&self, plan: &SeedPlan, epoch: u64, num_groups: usize, before: &[EpochSegment]) -> Vec<u32> {
        let shares = Share::all(self.counts.len(), num_groups, plan.world_size);
        let Some(share) = shares.iter().find(|share| share.first_group == plan.part as usize) else {
            return Vec::new();
        };
        let left = self.left(plan, epoch, &share.parts(), before);
        let mut start = 0;
        let mut positions = Vec::new();
        for (part, seed_type) in share.cells(self.num_types()) {
            let left = &left[part - share.parts().start][seed_type];
            positions.extend(left.iter().map(|position| start + position));
            start += self.counts[part][seed_type] as u32;
        }
        positions
    }

    fn num_types(&self) -> usize {
        self.counts.first().map_or(0, Vec::len)
    }

    /// Returns the seeds that are left in some parts, by part and type. Repeats the division of each segment.
    fn left(&self, plan: &SeedPlan, epoch: u64, parts: &Range<usize>, before: &[EpochSegment]) -> Vec<Vec<Left>> {
        let Some((segment, earlier)) = before.split_last() else {
            let all = |count: &usize| (0..*count as u32).collect();
            return self.counts[parts.clone()].iter().map(|counts| counts.iter().map(all).collect()).collect();
        };
        let mut result = vec![vec![Left::new(); self.num_types()]; parts.len()];
        for share in Share::all(self.counts.len(), segment.num_groups, segment.world_size) {
            let of_share = share.parts();
            if of_share.start >= parts.end || of_share.end <= parts.start {
                continue;
            }
            let list = self.list(&share, plan, epoch, earlier);
            let plan = SeedPlan {
                len: list.len(),
                even_steps: plan.even_steps.map(|_| segment.num_steps),
                part: share.first_group as u32,
                segment: earlier.len(),
                rest: None,
                ..plan.clone()
            };
            let order = plan.order(epoch);
            for mine in 0..share.sharers {
                let plan = SeedPlan { sharers: (share.sharers, mine), ..plan.clone() };
                for seed in plan.first_seed(segment.steps)..plan.num_seeds() {
                    let (cell, position) = list.at(order.at(mine + seed * share.sharers) as usize);
                    let (part, seed_type) = list.cells[cell];
                    if parts.contains(&part) {
                        result[part - parts.start][seed_type].push(position);
                    }
                }
            }
        }
        result.iter_mut().flatten().for_each(|left| left.sort_unstable());
        result
    }

    /// Returns the list of a share after some segments.
    fn list(&self, share: &Share, plan: &SeedPlan, epoch: u64, before: &[EpochSegment]) -> ShareList {
        let cells = share.cells(self.num_types());
        let first = share.parts().start;
        let left = (!before.is_empty()).then(|| {
            let mut by_part = self.left(plan, epoch, &share.parts(), before);
            cells
                .iter()
                .map(|&(part, seed_type)| std::mem::take(&mut by_part[part - first][seed_type]))
                .collect::<Vec<Left>>()
        });
        let len = |(index, &(part, seed_type)): (usize, &(usize, usize))| {
            left.as_ref().map_or(self.counts[part][seed_type], |left| left[index].len())
        };
        let mut end = 0;
        let ends = cells.iter().enumerate().map(len).map(|len| {
            end += len;
            end
        });
        ShareList { ends: ends.collect(), cells, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::seed_plan::Shuffle;
    use std::collections::BTreeMap;

    /// A seed: its part, its type and its position.
    type Seed = (usize, usize, u32);

    /// A number of processes that trains for some steps.
    #[derive(Clone, Copy, Debug)]
    struct Job {
        world_size: usize,
        num_groups: usize,
        steps: usize,
    }

    fn plans(cells: &SeedPartition, job: Job, even: bool, before: &[EpochSegment]) -> (Vec<SeedPlan>, usize) {
        let shares = Share::all(cells.counts.len(), job.num_groups, job.world_size);
        let whole = |rank: usize| {
            let share = &shares[rank * shares.len() / job.world_size];
            SeedPlan {
                len: share
                    .cells(cells.num_types())
                    .iter()
                    .map(|&(part, seed_type)| cells.counts[part][seed_type])
                    .sum(),
                listed: false,
                batch_size: 3,
                even_steps: even.then_some(0),
                shuffle: Some(Shuffle::Permutation),
                seed: 4,
                rank,
                world_size: job.world_size,
                sharers: (share.sharers, rank % share.sharers),
                part: share.first_group as u32,
                segment: 0,
                first_batch: 0,
                rest: None,
            }
        };
        let rest = |rank| {
            let whole = whole(rank);
            let left = cells.rest(&whole, 1, job.num_groups, before);
            if before.is_empty() {
                assert_eq!(left.len(), whole.len, "all seeds are left");
            }
            SeedPlan { even_steps: None, ..if before.is_empty() { whole } else { whole.rest(left, before) } }
        };
        let mut plans: Vec<SeedPlan> = (0..job.world_size).map(rest).collect();
        let num_steps = plans.iter().map(SeedPlan::num_batches).max().unwrap();
        plans.iter_mut().for_each(|plan| plan.even_steps = even.then_some(num_steps));
        (plans, num_steps)
    }

    /// Returns how often each seed is in a batch if several jobs train one after the other, the last one to the end.
    fn trained(cells: &SeedPartition, jobs: &[Job], even: bool) -> BTreeMap<Seed, usize> {
        let mut seen = BTreeMap::new();
        let mut before = Vec::new();
        for (number, &job) in jobs.iter().enumerate() {
            let (plans, num_steps) = plans(cells, job, even, &before);
            let steps = if number + 1 == jobs.len() { num_steps } else { job.steps.min(num_steps) };
            let shares = Share::all(cells.counts.len(), job.num_groups, job.world_size);
            for plan in &plans {
                let share = shares.iter().find(|share| share.first_group == plan.part as usize).unwrap();
                let in_cells = share.cells(cells.num_types()).into_iter().flat_map(|(part, seed_type)| {
                    (0..cells.counts[part][seed_type] as u32).map(move |position| (part, seed_type, position))
                });
                let list: Vec<Seed> = in_cells.collect();
                let order = plan.order(1);
                for seed in (0..steps).flat_map(|step| plan.seeds(&order, step)) {
                    *seen.entry(list[seed as usize]).or_default() += 1;
                }
            }
            let Job { world_size, num_groups, .. } = job;
            before.push(EpochSegment { world_size, num_groups, num_steps, steps });
        }
        seen
    }

    #[test]
    fn every_seed_is_used_once_by_jobs_of_different_sizes() {
        let cells = SeedPartition { counts: vec![vec![7, 20], vec![0, 31], vec![15, 3], vec![40, 0]] };
        let job = |world_size: usize, steps| Job { world_size, num_groups: world_size.min(4), steps };
        let sequences = [
            vec![job(4, 3), job(3, 0)],
            vec![job(4, 2), job(1, 0)],
            vec![job(1, 5), job(4, 0)],
            vec![job(8, 1), job(2, 0)],
            vec![job(4, 2), job(3, 2), job(2, 0)],
            vec![job(3, 1), job(5, 2), job(2, 3), job(4, 0)],
            vec![job(2, 0), job(4, 0)],
            vec![job(2, 100), job(3, 0)],
            // Clients of four servers.
            vec![Job { world_size: 3, num_groups: 4, steps: 2 }, Job { world_size: 2, num_groups: 4, steps: 0 }],
        ];
        for jobs in &sequences {
            for even in [false, true] {
                let seen = trained(&cells, jobs, even);
                assert_eq!(seen.len(), 7 + 20 + 31 + 15 + 3 + 40, "{jobs:?}");
                assert!(seen.values().all(|&times| times == 1), "{jobs:?}: {seen:?}");
            }
        }
    }

    #[test]
    fn batches_of_one_epoch_have_different_numbers() {
        let segments = [
            EpochSegment { world_size: 4, num_groups: 4, num_steps: 9, steps: 2 },
            EpochSegment { world_size: 3, num_groups: 3, num_steps: 7, steps: 1 },
        ];
        let cells = SeedPartition { counts: vec![vec![50]; 4] };
        let (plans, _) = plans(&cells, Job { world_size: 2, num_groups: 2, steps: 0 }, true, &segments);
        assert_eq!(plans[0].key(1, 0).batch, 11);
        assert_eq!(plans[1].key(1, 1).batch, 14);
    }
}
