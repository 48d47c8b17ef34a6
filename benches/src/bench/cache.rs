//! Hit rates of caches for the features of other parts: rows chosen in advance, and rows replaced while training.

use crate::args::{CacheArgs, Common};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::Timing;
use crate::work::local_job::NODES;
use anyhow::{Context, ensure};
use edgecut_cluster::Cluster;
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, DistNeighborSampler, NodeFields};
use edgecut_graph::{DiskPartId, Meta, Part, Split};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The remote nodes of each batch of an epoch.
type Trace = Vec<Vec<u32>>;

pub(crate) fn run(args: &CacheArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let meta = Meta::read(&args.data)?;
    ensure!(
        meta.num_parts > 1,
        "{}: the graph has one part, so no features are fetched: partition with --num-partitions 2",
        args.data.display()
    );
    let traces = traces(args, common, &meta)?;
    let num_remote = traces.num_remote;
    let accesses: usize = traces.second.iter().map(Vec::len).sum();
    for &ratio in &args.ratios {
        let capacity = (num_remote as f64 * ratio) as usize;
        let counted = |trace: &Trace| top(count(trace), capacity);
        let by_degree: HashSet<u32> = {
            let mut nodes: Vec<(u32, u32)> = traces.degrees.iter().map(|(&node, &degree)| (degree, node)).collect();
            nodes.sort_unstable_by(|one, other| other.cmp(one));
            nodes.into_iter().take(capacity).map(|(_, node)| node).collect()
        };
        let warm = |mut cache: Box<dyn Cache>| {
            for &node in traces.first.iter().flatten() {
                cache.access(node);
            }
            cache
        };
        let caches: Vec<(&str, Box<dyn Cache>)> = vec![
            ("presample", Box::new(Fixed(counted(&traces.first)))),
            ("in-degree", Box::new(Fixed(by_degree))),
            ("SIEVE", warm(Box::new(Replacing::new(capacity, Policy::Sieve)))),
            ("CLOCK", warm(Box::new(Replacing::new(capacity, Policy::Clock)))),
            ("best fixed rows", Box::new(Fixed(counted(&traces.second)))),
        ];
        for (name, mut cache) in caches {
            let mut hits = 0;
            // A cache that replaces rows changes, so it is measured once.
            let timing = Timing::measure_cold(1, |stopwatch| {
                hits = stopwatch.time(|| traces.second.iter().flatten().filter(|&&node| cache.access(node)).count());
                Ok(())
            })?;
            let record = Record::new("cache", name, "access", timing.per(accesses), 1.0, "accesses/s")
                .param("ratio", ratio)
                .param("num_neighbors", args.draw.num_neighbors.text())
                .param("batch_size", args.draw.batch_size)
                .detail("bytes_saved", hits as f64 / accesses.max(1) as f64)
                .detail("accesses", accesses);
            report.add(&record)?;
        }
    }
    Ok(())
}

/// The remote nodes of one rank's batches in two epochs, and their in-degrees.
struct Traces {
    first: Trace,
    second: Trace,
    degrees: HashMap<u32, u32>,
    num_remote: usize,
}

/// Samples two epochs on the first rank of a job in this process.
fn traces(args: &CacheArgs, common: &Common, meta: &Meta) -> anyhow::Result<Traces> {
    let world_size = meta.num_parts as usize;
    let ranks = Cluster::join_local(world_size, |config| config.fingerprint = meta.fingerprint())?;
    std::thread::scope(|scope| {
        let run = |cluster: Cluster| {
            trace(args, common, meta, &cluster).and_then(|found| {
                cluster.shutdown()?;
                Ok(found)
            })
        };
        let threads: Vec<_> = ranks.into_iter().map(|cluster| scope.spawn(move || run(cluster))).collect();
        let mut found = None;
        for thread in threads {
            let of_rank = thread.join().map_err(|_| anyhow::anyhow!("a rank panicked"))??;
            found = found.or(of_rank);
        }
        found.context("rank 0 samples")
    })
}

/// Serves the part of a rank. Rank 0 samples.
fn trace(args: &CacheArgs, common: &Common, meta: &Meta, cluster: &Cluster) -> anyhow::Result<Option<Traces>> {
    let rank = cluster.rank();
    let part = Arc::new(Part::open(&args.data, DiskPartId(rank as u32), false)?);
    let config = DistGraphConfig { num_workers: common.threads(), ..DistGraphConfig::default() };
    let graph = DistGraph::start(part, cluster.clone(), config)?;
    let mut world = cluster.world()?;
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), args.draw.sampler()?)?);
    let config = LoaderConfig {
        even_batches: true,
        shuffle: true,
        concurrency: common.threads(),
        ..LoaderConfig::new(args.draw.batch_size as usize, NodeFields::default())
    };
    let loader = DistNeighborLoader::new(sampler, NODES, Seeds::Split(Split::Train), config, &mut world)?;
    let found = if rank == 0 {
        let owned = graph.part().owned(NODES);
        let epoch = |epoch: u64| -> anyhow::Result<Trace> {
            let batches = loader.epoch(epoch).take(args.draw.batches as usize);
            batches
                .map(|batch| {
                    let nodes = std::mem::take(&mut batch?.nodes[0].input_nodes);
                    Ok(nodes.into_iter().filter(|node| !owned.contains(node)).collect())
                })
                .collect()
        };
        let first = epoch(0)?;
        let second = epoch(1)?;
        let counts = graph.in_degrees_elsewhere()?;
        let num_nodes = meta.node_types[0].book.num_nodes();
        let remote = (0..num_nodes as u32).filter(|node| !owned.contains(node));
        let degrees: HashMap<u32, u32> = remote.map(|remote| (remote, counts.of(0, remote))).collect();
        Some(Traces { first, second, num_remote: degrees.len(), degrees })
    } else {
        None
    };
    world.barrier()?;
    Ok(found)
}

fn count(trace: &Trace) -> HashMap<u32, u32> {
    let mut counts = HashMap::new();
    trace.iter().flatten().for_each(|&node| *counts.entry(node).or_default() += 1);
    counts
}

/// Returns the nodes with the highest counts.
fn top(counts: HashMap<u32, u32>, capacity: usize) -> HashSet<u32> {
    let mut nodes: Vec<(u32, u32)> = counts.into_iter().map(|(node, count)| (count, node)).collect();
    nodes.sort_unstable_by(|one, other| other.cmp(one));
    nodes.into_iter().take(capacity).map(|(_, node)| node).collect()
}

/// A cache of rows, given by node.
trait Cache {
    /// Returns whether the row of a node is cached, and may cache it.
    fn access(&mut self, node: u32) -> bool;
}

/// Rows that were chosen in advance.
struct Fixed(HashSet<u32>);

impl Cache for Fixed {
    fn access(&mut self, node: u32) -> bool {
        self.0.contains(&node)
    }
}

/// The policy by which a row is replaced.
#[derive(Clone, Copy, PartialEq)]
enum Policy {
    /// The hand moves from the oldest to the newest row and keeps visited ones where they are (Zhang et al., NSDI 2024).
    Sieve,
    /// The hand moves visited rows to the end of the queue.
    Clock,
}

/// Rows that are replaced when others are read.
struct Replacing {
    policy: Policy,
    capacity: usize,
    /// By cached row, true if it was read again since the hand has last passed it.
    visited: HashMap<u32, bool>,
    /// The rows before the hand, from the oldest to the newest. SIEVE keeps visited rows in `passed` until the hand
    /// starts again.
    queue: VecDeque<u32>,
    passed: VecDeque<u32>,
}

impl Replacing {
    fn new(capacity: usize, policy: Policy) -> Self {
        Self { policy, capacity, visited: HashMap::new(), queue: VecDeque::new(), passed: VecDeque::new() }
    }

    /// Removes a row that was not read again since the hand has last passed it.
    fn evict(&mut self) {
        loop {
            let Some(node) = self.queue.pop_front() else {
                // The hand has reached the newest row and starts again at the oldest.
                std::mem::swap(&mut self.queue, &mut self.passed);
                continue;
            };
            let visited = self.visited.get_mut(&node).expect("a queued row is cached");
            if !std::mem::take(visited) {
                self.visited.remove(&node);
                return;
            }
            match self.policy {
                Policy::Sieve => self.passed.push_back(node),
                Policy::Clock => self.queue.push_back(node),
            }
        }
    }
}

impl Cache for Replacing {
    fn access(&mut self, node: u32) -> bool {
        if let Some(visited) = self.visited.get_mut(&node) {
            *visited = true;
            return true;
        }
        if self.capacity == 0 {
            return false;
        }
        if self.visited.len() == self.capacity {
            self.evict();
        }
        self.visited.insert(node, false);
        self.queue.push_back(node);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(policy: Policy, accesses: &[u32]) -> Vec<bool> {
        let mut cache = Replacing::new(3, policy);
        accesses.iter().map(|&node| cache.access(node)).collect()
    }

    #[test]
    fn a_row_that_was_read_again_outlives_others() {
        for policy in [Policy::Sieve, Policy::Clock] {
            // 1 is read again, so 2 is replaced by 4, and 3 by 5.
            let found = hits(policy, &[1, 2, 3, 1, 4, 1, 5, 1, 2]);
            assert_eq!(found, [false, false, false, true, false, true, false, true, false]);
        }
    }

    #[test]
    fn caches_never_exceed_their_capacity() {
        for policy in [Policy::Sieve, Policy::Clock] {
            let mut cache = Replacing::new(7, policy);
            for access in 0..10_000_u32 {
                cache.access(access.wrapping_mul(2_654_435_761) % 40);
                assert!(cache.visited.len() <= 7);
                assert_eq!(cache.queue.len() + cache.passed.len(), cache.visited.len());
            }
        }
        assert!(!Replacing::new(0, Policy::Sieve).access(1));
    }
}
