//! Held-out edges whose reverses are training edges of a declared reverse type.

use super::config::{LinkTrainingConfig, target_edge_types};
use crate::edge_type_name::reverse_edge_types;
use crate::error::TrainError;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{
    BatchKey, DistGraph, DistNeighborSampler, EdgeFields, Fanout, NumNeighbors, SampleSeeds, SamplerConfig,
};
use edgecut_graph::{EdgeTypeId, OverlapPolicy, SeedEdgeEnds, SeedEdgeSet, Split};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// The number of held-out edges that a process looks up at once.
const EDGES_AT_ONCE: usize = 1 << 17;
/// The number of nodes whose in-edges a process reads at once.
const NODES_AT_ONCE: usize = 1 << 8;

/// Checks that no held-out edge to predict is a training edge of a type that the settings declare as its reverse. Readers only
/// know reverses by the prefix `rev_`. Each process looks up its share of the held-out edges. If all of them have times, two edges
/// are the same only if their times are equal, as for readers. Every rank must call this.
///
/// # Errors
/// [`TrainError::Config`] on all ranks if there are such edges, unless overlaps are allowed. An error of a peer.
pub(super) fn check_reverse_types(
    graph: &Arc<DistGraph>,
    config: &LinkTrainingConfig,
    world: &mut ProcessGroup,
) -> Result<(), TrainError> {
    let meta = graph.part().meta();
    if config.allows_overlap || meta.provenance.overlap == OverlapPolicy::Allow {
        return Ok(());
    }
    let declared = reverse_edge_types(meta, &config.reverse_types)?;
    let mut leaks = Vec::new();
    let mut pairs = BTreeSet::new();
    for edge_type in target_edge_types(meta, config)? {
        let both_ways = declared.iter().flat_map(|&(one, other)| [(one, other), (other, one)]);
        let reverses: BTreeSet<EdgeTypeId> =
            both_ways.filter(|(one, _)| *one == edge_type).map(|(_, other)| other).collect();
        let predicted = &meta.edge_types[edge_type.index()];
        for reverse in reverses {
            let other = &meta.edge_types[reverse.index()];
            if !predicted.names().is_opposite_of(&other.names()) {
                continue;
            }
            let lookup = ReverseLookup::new(graph, edge_type, reverse)?;
            let mut found = [0; 2];
            for (at, split) in [Split::Valid, Split::Test].into_iter().enumerate() {
                found[at] = lookup.count(split)?;
            }
            world.all_reduce(&mut found, ReduceOp::Sum)?;
            for (at, name) in ["validation", "test"].into_iter().enumerate() {
                if found[at] > 0 {
                    pairs.insert(format!("{}={}", predicted.full_name(), other.full_name()));
                    leaks.push(format!(
                        "{} of {} {name} edges of {} are training edges of the reverse type {}",
                        found[at],
                        predicted.held_out[at],
                        predicted.full_name(),
                        other.full_name()
                    ));
                }
            }
        }
    }
    if leaks.is_empty() {
        return Ok(());
    }
    Err(TrainError::config(format!(
        "{}. The model would be evaluated on its training data. Partition again with `overlap=remove` and \
         `reverse_types={}`, flags of partition-graph that remove these edges from the reverse type, or with `overlap=allow`",
        leaks.join("; "),
        Vec::from_iter(pairs).join(",")
    )))
}

/// The comparison of the held-out edges of a type with the training edges of its reverse.
struct ReverseLookup<'a> {
    graph: &'a Arc<DistGraph>,
    edge_type: EdgeTypeId,
    reverse: EdgeTypeId,
    /// The sampler of all edges of the reverse type into a node, if times distinguish edges.
    in_edges: Option<Arc<DistNeighborSampler>>,
}

impl<'a> ReverseLookup<'a> {
    fn new(graph: &'a Arc<DistGraph>, edge_type: EdgeTypeId, reverse: EdgeTypeId) -> Result<Self, TrainError> {
        let types = &graph.part().meta().edge_types;
        let predicted = &types[edge_type.index()];
        let other = &types[reverse.index()];
        let mut in_edges = None;
        if predicted.has_times && predicted.held_out_has_times && other.has_times {
            let of_reverse = vec![(other.full_name(), vec![Fanout::All])];
            let num_neighbors =
                NumNeighbors::new(Some(vec![Fanout::Count(0)]), of_reverse).map_err(TrainError::config)?;
            let config = SamplerConfig::new(num_neighbors).with_positions(true);
            in_edges = Some(Arc::new(DistNeighborSampler::new(graph.clone(), config)?));
        }
        Ok(Self { graph, edge_type, reverse, in_edges })
    }

    /// Counts the held-out edges in the share of this process whose reverse is a training edge.
    fn count(&self, split: Split) -> Result<u64, TrainError> {
        let graph = self.graph;
        let set = SeedEdgeSet::Links(split);
        let share = graph.seed_share();
        let mut count = 0;
        for part in share.parts {
            let num_edges = graph.num_seed_edges(part, self.edge_type, set)? as u32;
            let mine: Vec<u32> = (share.mine as u32..num_edges).step_by(share.sharers).collect();
            for positions in mine.chunks(EDGES_AT_ONCE) {
                let edges = graph.seed_edges(part, self.edge_type, set, positions.to_vec());
                let mut edges = graph.handle().block_on(edges)?;
                let pairs: Vec<(u32, u32)> = edges.iter().map(|edge| (edge.dst, edge.src)).collect();
                let found = graph.handle().block_on(graph.has_edges(self.reverse, &pairs, false))?;
                let mut found = found.into_iter();
                edges.retain(|_| found.next() == Some(true));
                count += match &self.in_edges {
                    Some(sampler) => self.count_at_same_times(sampler, &edges)?,
                    None => edges.len() as u64,
                };
            }
        }
        Ok(count)
    }

    /// Counts the edges whose reverse is an edge of the reverse type at the same time.
    fn count_at_same_times(
        &self,
        sampler: &Arc<DistNeighborSampler>,
        edges: &[SeedEdgeEnds],
    ) -> Result<u64, TrainError> {
        let sources: BTreeSet<u32> = edges.iter().map(|edge| edge.src).collect();
        let sources: Vec<u32> = sources.into_iter().collect();
        let ends: HashSet<(u32, u32)> = edges.iter().map(|edge| (edge.src, edge.dst)).collect();
        let mut known = HashSet::new();
        for sources in sources.chunks(NODES_AT_ONCE) {
            self.add_timed_reverses(sampler, sources, &ends, &mut known)?;
        }
        let mut count = 0;
        for edge in edges {
            count += u64::from(edge.time.is_some_and(|time| known.contains(&(edge.src, edge.dst, time))));
        }
        Ok(count)
    }

    /// Reads the edges of the reverse type into `sources`, and adds the sources, the destinations and the times of their
    /// reverses between given ends.
    fn add_timed_reverses(
        &self,
        sampler: &Arc<DistNeighborSampler>,
        sources: &[u32],
        ends: &HashSet<(u32, u32)>,
        known: &mut HashSet<(u32, u32, i64)>,
    ) -> Result<(), TrainError> {
        let graph = self.graph;
        let predicted = graph.part().edges(self.edge_type);
        let num_types = graph.part().meta().node_types.len();
        let seeds = SampleSeeds::of_type(predicted.src_type, sources.to_vec(), num_types);
        let key = BatchKey { seed: 0, epoch: 0, batch: 0 };
        let sampled = graph.handle().block_on(sampler.sample(seeds, key))?;
        let ids = &sampled.nodes[predicted.dst_type.index()].ids;
        let in_edges = &sampled.edges[self.reverse.index()];
        let mut found = Vec::new();
        let mut positions = Vec::new();
        for (row, &src) in sources.iter().enumerate() {
            for at in in_edges.indptr[row] as usize..in_edges.indptr[row + 1] as usize {
                let dst = ids[in_edges.indices[at] as usize];
                if ends.contains(&(src, dst)) {
                    found.push((src, dst));
                    positions.push(in_edges.positions[at]);
                }
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        let destinations: Vec<u32> = found.iter().map(|(src, _)| *src).collect();
        let wanted = EdgeFields { times: true, ..EdgeFields::default() };
        let fetched = graph.handle().block_on(graph.fetch_edges(self.reverse, &destinations, &positions, wanted))?;
        known.extend(found.iter().zip(fetched.times).map(|(&(src, dst), time)| (src, dst, time)));
        Ok(())
    }
}
