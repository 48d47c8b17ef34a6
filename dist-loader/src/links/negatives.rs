//! Negative sampling for edges.

use crate::error::LoaderError;
use crate::links::given_negatives::GivenNegatives;
use crate::seeds::edge_seeds::SeedEdge;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{BatchKey, DistGraph, DistNeighborSampler, NodeFields, SampleError, TimeAttr};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use edgecut_settings::words;
use futures::future::try_join_all;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Combined with the keys of draws (the bytes spell "negative"), so that negatives and neighborhoods use different random
/// numbers.
const STREAM: u64 = 0x6e65_6761_7469_7665;
/// The number of random draws for a negative before all nodes are searched in order.
const ATTEMPTS: u64 = 12;
/// The number of nodes per lookup when all nodes are searched.
const SCAN_PIECE: usize = 1 << 12;

/// The id of a negative that is not drawn yet.
const NOT_DRAWN: u32 = u32::MAX;

/// The rule by which negative destinations are drawn. They are drawn over all nodes of the type, whichever parts own
/// them.
///
/// The negatives of an edge are a function of the seed, the epoch, the edge type, the original ids of the edge's source
/// and destination, its time, and the position among the negatives. They depend neither on the parts and processes nor on
/// the batch that the edge is in. Edges of one type and time between the same two nodes have the same negatives in an
/// epoch. Negatives that a batch shares are a function of the seed, the epoch and the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NegativeSampling {
    /// The number of negatives per edge, or per batch and destination type if they are shared.
    pub num: usize,
    /// The probability of each node.
    pub distribution: NegativeDistribution,
    /// The pairs that must not be drawn as negatives. In sampling by the times of nodes, no node that is later than the edge
    /// is drawn either.
    pub exclude: Exclude,
    /// True to draw the same negatives for all edges of a batch, which takes a fraction of the memory and time.
    pub shared: bool,
}

/// The probability of each node as a negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum NegativeDistribution {
    /// The same for all nodes.
    Uniform,
    /// In proportion to the in-degree over all edge types. The destination of a uniformly drawn in-edge of the type's
    /// nodes is the negative. Uniform for a type without in-edges.
    Degree,
}

words!(
    NegativeDistribution,
    "distribution",
    Uniform = "uniform": "All nodes with equal probability",
    Degree = "degree": "Proportional to in-degrees",
);

/// The pairs that must not be drawn as negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Exclude {
    /// None. An edge may be drawn, which is rare in large graphs.
    Nothing,
    /// The edge itself, and edges of the same type that carry messages. Held-out edges may be drawn, since they are not
    /// known during training. The negatives of an edge are distinct. An edge whose source has too few other destinations
    /// is left out of its batch.
    Edges,
    /// The edge itself, edges that carry messages, and held-out edges, for evaluation, and their reverses in undirected
    /// graphs. The negatives of an edge may repeat, so that one candidate suffices. An edge without any is left out of its
    /// batch.
    EdgesAndHeldOut,
}

/// The sampler of negatives.
pub(crate) struct NegativeSampler {
    config: NegativeSampling,
    /// The negatives that come before drawn ones.
    pub(crate) given: GivenNegatives,
    /// By node type, the number of in-edges to draw from. `None` draws nodes uniformly.
    num_in_edges: Vec<Option<u64>>,
    /// True if neighbors are drawn by the times of nodes. Negatives then obey the times as well.
    by_node_time: bool,
}

/// The meaning of a number that identifies a node under any partitioning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    /// The number of an in-edge, or an original id if nodes are drawn uniformly. [`NegativeSampler::number`] draws
    /// these.
    Drawn,
    OriginalId,
}

/// A negative to draw: the position of its edge, and its position among the negatives of that edge.
#[derive(Clone, Copy)]
struct Slot {
    edge: usize,
    k: usize,
}

/// The key of an edge's draws, and the original ids of its ends. None of them depends on the partitioning or the batch.
#[derive(Clone, Copy)]
pub(crate) struct EdgeKey {
    pub(crate) key: u64,
    pub(crate) src: u32,
    pub(crate) dst: u32,
}

/// The negatives of a batch.
pub(crate) struct Drawn {
    /// The positions of the edges that have negatives, ascending. The others are left out of the batch.
    pub(crate) kept: Vec<usize>,
    /// Global ids as `[kept.len(), num]`, or by destination type if they are shared.
    pub(crate) ids: Vec<Vec<u32>>,
}

impl NegativeSampler {
    /// Makes a sampler, and the directories that it needs. Every rank must call this.
    pub(crate) fn new(
        config: NegativeSampling,
        given: GivenNegatives,
        sampler: &DistNeighborSampler,
        edge_types: &[EdgeTypeId],
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let graph = sampler.node();
        let by_node_time = sampler.temporal().is_some_and(|temporal| temporal.attr == TimeAttr::NodeTime);
        let part = graph.part();
        let mut num_in_edges = vec![None; part.meta().node_types.len()];
        let by_degree = config.distribution == NegativeDistribution::Degree;
        if graph.is_client() {
            if by_degree && config.num > 0 {
                let what = "servers draw no negatives by degree: draw them uniformly (`negatives=uniform`)";
                return Err(LoaderError::Config { what: what.into() });
            }
            // Lookups ask all servers, without a directory.
            return Ok(Self { config, given, num_in_edges, by_node_time });
        }
        let dst_types: BTreeSet<NodeTypeId> = edge_types.iter().map(|&e| part.edges(e).dst_type).collect();
        for dst_type in dst_types.into_iter().filter(|_| config.num > 0) {
            graph.make_directory(dst_type, by_degree, world).map_err(|source| LoaderError::Graph {
                operation: "build the directory of original ids",
                source: Box::new(source),
            })?;
            if by_degree {
                num_in_edges[dst_type.index()] = graph.num_in_edges(dst_type).filter(|&num| num > 0);
            }
        }
        Ok(Self { config, given, num_in_edges, by_node_time })
    }

    /// Draws the negatives of `edges`.
    pub(crate) async fn draw(
        self: &Arc<Self>,
        graph: &Arc<DistGraph>,
        key: BatchKey,
        edges: &[SeedEdge],
    ) -> Result<Drawn, SampleError> {
        let kept: Vec<usize> = (0..edges.len()).collect();
        if self.config.shared {
            let ids = self.draw_shared(graph, combine(key.stream(), STREAM), edges).await?;
            return Ok(Drawn { kept, ids });
        }
        let num = self.config.num;
        let mut found = vec![vec![NOT_DRAWN; num]; edges.len()];
        if num == 0 {
            return Ok(Drawn { kept, ids: found });
        }
        let keys: Arc<[EdgeKey]> = edge_keys(graph, key, edges).await?.into();
        let mut taken: Vec<HashSet<u32>> = vec![HashSet::new(); edges.len()];
        let given = self.given.of_edges(graph, key, edges, &keys, num).await?;
        for (slot, id) in self.legal_of(graph, edges, given).await? {
            found[slot.edge][slot.k] = id;
            taken[slot.edge].insert(id);
        }
        let mut open = Vec::new();
        for (edge, of_edge) in found.iter().enumerate() {
            open.extend((0..num).filter(|&k| of_edge[k] == NOT_DRAWN).map(|k| Slot { edge, k }));
        }
        // Rejection sampling: each attempt draws all open slots with new random numbers, and keeps the legal results.
        for attempt in 0..ATTEMPTS {
            if open.is_empty() {
                break;
            }
            let this = self.clone();
            let at = graph.clone();
            let keys = keys.clone();
            let slots = open.clone();
            let of = edges.to_vec();
            let draw = move || -> Vec<u64> {
                slots
                    .iter()
                    .map(|slot| this.number(&at, dst_type(&at, &of[slot.edge]), slot.key(&keys, attempt)))
                    .collect()
            };
            let numbers = graph.run_on_workers(draw).await?;
            let ids = self.find(graph, edges, &open, &numbers, Number::Drawn).await?;
            let legal = self.are_legal(graph, edges, &open, &ids).await?;
            let mut again = Vec::new();
            for ((slot, id), legal) in open.into_iter().zip(ids).zip(legal) {
                if legal && (!self.distinct() || taken[slot.edge].insert(id)) {
                    found[slot.edge][slot.k] = id;
                } else {
                    again.push(slot);
                }
            }
            open = again;
        }
        // The remaining slots are of edges whose source is connected to nearly all nodes.
        let mut lacking: BTreeSet<usize> = BTreeSet::new();
        for slot in open {
            if lacking.contains(&slot.edge) {
                continue;
            }
            let key = slot.key(&keys, ATTEMPTS);
            let Some(id) = self.first_legal(graph, key, edges, slot, &taken[slot.edge]).await? else {
                lacking.insert(slot.edge);
                continue;
            };
            found[slot.edge][slot.k] = id;
            if self.distinct() {
                taken[slot.edge].insert(id);
            }
        }
        let kept: Vec<usize> = kept.into_iter().filter(|edge| !lacking.contains(edge)).collect();
        let ids = kept.iter().map(|&edge| std::mem::take(&mut found[edge])).collect();
        Ok(Drawn { kept, ids })
    }

    /// Returns the given negatives that are allowed, each with its slot.
    async fn legal_of(
        &self,
        graph: &Arc<DistGraph>,
        edges: &[SeedEdge],
        given: Vec<Vec<u32>>,
    ) -> Result<Vec<(Slot, u32)>, SampleError> {
        let mut slots = Vec::new();
        let mut ids = Vec::new();
        for (edge, negatives) in given.into_iter().enumerate() {
            slots.extend((0..negatives.len()).map(|k| Slot { edge, k }));
            ids.extend(negatives);
        }
        if slots.is_empty() {
            return Ok(Vec::new());
        }
        let legal = self.are_legal(graph, edges, &slots, &ids).await?;
        let all = slots.into_iter().zip(ids).zip(legal);
        Ok(all.filter(|(_, legal)| *legal).map(|(negative, _)| negative).collect())
    }

    /// Returns whether the negatives of an edge must be distinct.
    fn distinct(&self) -> bool {
        self.config.exclude == Exclude::Edges
    }

    async fn draw_shared(
        &self,
        graph: &Arc<DistGraph>,
        stream: u64,
        edges: &[SeedEdge],
    ) -> Result<Vec<Vec<u32>>, SampleError> {
        let mut found = vec![Vec::new(); self.num_in_edges.len()];
        for edge in edges {
            let t = dst_type(graph, edge);
            if found[t.index()].is_empty() {
                let key = |k: usize| combine(combine(stream, u64::from(t.0)), k as u64);
                let numbers: Vec<u64> = (0..self.config.num).map(|k| self.number(graph, t, key(k))).collect();
                found[t.index()] = self.find_of_type(graph, t, &numbers, Number::Drawn).await?;
            }
        }
        Ok(found)
    }

    /// Draws the number of a node of a type with the random numbers of `key`.
    fn number(&self, graph: &DistGraph, node_type: NodeTypeId, key: u64) -> u64 {
        let num_nodes = graph.part().meta().node_types[node_type.index()].book.num_nodes() as u64;
        CounterRng::new(key).below(self.num_in_edges[node_type.index()].unwrap_or(num_nodes))
    }

    /// Returns the global ids of nodes of one type, given by number.
    async fn find_of_type(
        &self,
        graph: &DistGraph,
        node_type: NodeTypeId,
        numbers: &[u64],
        meaning: Number,
    ) -> Result<Vec<u32>, SampleError> {
        if meaning == Number::Drawn && self.num_in_edges[node_type.index()].is_some() {
            return graph.find_by_in_edge(node_type, numbers).await;
        }
        let originals: Vec<u32> = numbers.iter().map(|&id| id as u32).collect();
        graph.find_originals(node_type, &originals).await
    }

    /// Returns the global ids of nodes given by number, each of the destination type of its slot's edge.
    async fn find(
        &self,
        graph: &Arc<DistGraph>,
        edges: &[SeedEdge],
        slots: &[Slot],
        numbers: &[u64],
        meaning: Number,
    ) -> Result<Vec<u32>, SampleError> {
        let mut ids = vec![0; slots.len()];
        for (node_type, positions) in by_dst_type(graph, edges, slots) {
            let asked: Vec<u64> = positions.iter().map(|&position| numbers[position]).collect();
            let found = self.find_of_type(graph, node_type, &asked, meaning).await?;
            positions.iter().zip(found).for_each(|(&position, id)| ids[position] = id);
        }
        Ok(ids)
    }

    /// Returns whether each slot's destination is allowed as a negative.
    async fn are_legal(
        &self,
        graph: &Arc<DistGraph>,
        edges: &[SeedEdge],
        slots: &[Slot],
        ids: &[u32],
    ) -> Result<Vec<bool>, SampleError> {
        let mut legal = self.are_no_edges(graph, edges, slots, ids).await?;
        if self.by_node_time {
            let in_time = self.are_in_time(graph, edges, slots, ids).await?;
            legal.iter_mut().zip(in_time).for_each(|(legal, in_time)| *legal &= in_time);
        }
        Ok(legal)
    }

    /// Returns whether each slot's destination is not later than its edge.
    async fn are_in_time(
        &self,
        graph: &Arc<DistGraph>,
        edges: &[SeedEdge],
        slots: &[Slot],
        ids: &[u32],
    ) -> Result<Vec<bool>, SampleError> {
        let mut in_time = vec![true; slots.len()];
        for (node_type, positions) in by_dst_type(graph, edges, slots) {
            if !graph.part().meta().node_types[node_type.index()].has_times {
                continue;
            }
            let asked: BTreeSet<u32> = positions.iter().map(|&position| ids[position]).collect();
            let asked: Vec<u32> = asked.into_iter().collect();
            let wanted = NodeFields { times: true, ..NodeFields::default() };
            let times = graph.fetch(node_type, asked.clone(), wanted).await?.times;
            let time_of: FxHashMap<u32, i64> = asked.into_iter().zip(times).collect();
            for position in positions {
                let time_of_edge = edges[slots[position].edge].time;
                in_time[position] = time_of_edge.is_none_or(|time| time_of[&ids[position]] <= time);
            }
        }
        Ok(in_time)
    }

    /// Returns whether no pair of a slot's source and destination is excluded.
    async fn are_no_edges(
        &self,
        graph: &Arc<DistGraph>,
        edges: &[SeedEdge],
        slots: &[Slot],
        ids: &[u32],
    ) -> Result<Vec<bool>, SampleError> {
        let mut legal = vec![true; slots.len()];
        if self.config.exclude == Exclude::Nothing {
            return Ok(legal);
        }
        let mut by_type: BTreeMap<EdgeTypeId, Vec<usize>> = BTreeMap::new();
        for (position, slot) in slots.iter().enumerate() {
            by_type.entry(edges[slot.edge].edge_type).or_default().push(position);
        }
        let held_out = self.config.exclude == Exclude::EdgesAndHeldOut;
        for (edge_type, positions) in by_type {
            let pairs: Vec<(u32, u32)> =
                positions.iter().map(|&position| (edges[slots[position].edge].src, ids[position])).collect();
            let found = graph.has_edges(edge_type, &pairs, held_out).await?;
            for (&position, is_edge) in positions.iter().zip(found) {
                // A listed edge need not be an edge of the graph.
                let is_own = ids[position] == edges[slots[position].edge].dst;
                legal[position] = !is_edge && !is_own;
            }
            if held_out && graph.part().meta().is_undirected(edge_type) {
                let reverses: Vec<(u32, u32)> = pairs.iter().map(|&(src, dst)| (dst, src)).collect();
                let found = graph.has_edges(edge_type, &reverses, held_out).await?;
                for (&position, is_edge) in positions.iter().zip(found) {
                    legal[position] &= !is_edge;
                }
            }
        }
        Ok(legal)
    }

    /// Searches all nodes in order, starting with the one that the random numbers of `key` give. Returns the first allowed
    /// negative, or `None` if all nodes are taken or not allowed.
    async fn first_legal(
        &self,
        graph: &Arc<DistGraph>,
        key: u64,
        edges: &[SeedEdge],
        slot: Slot,
        taken: &HashSet<u32>,
    ) -> Result<Option<u32>, SampleError> {
        let node_type = dst_type(graph, &edges[slot.edge]);
        let num_nodes = graph.part().meta().node_types[node_type.index()].book.num_nodes();
        let start = CounterRng::new(key).below(num_nodes as u64) as usize;
        for first in (0..num_nodes).step_by(SCAN_PIECE) {
            let piece = first..num_nodes.min(first + SCAN_PIECE);
            let originals: Vec<u64> = piece.map(|i| ((start + i) % num_nodes) as u64).collect();
            let slots = vec![slot; originals.len()];
            let ids = self.find(graph, edges, &slots, &originals, Number::OriginalId).await?;
            let legal = self.are_legal(graph, edges, &slots, &ids).await?;
            let mut candidates = ids.iter().zip(legal).filter(|(id, legal)| *legal && !taken.contains(id));
            if let Some((&id, _)) = candidates.next() {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}

impl Slot {
    /// Returns the key of a draw. `keys` are the keys of the edges.
    fn key(&self, keys: &[EdgeKey], attempt: u64) -> u64 {
        combine(combine(keys[self.edge].key, self.k as u64), attempt)
    }
}

/// Returns the key of each edge.
async fn edge_keys(graph: &Arc<DistGraph>, key: BatchKey, edges: &[SeedEdge]) -> Result<Vec<EdgeKey>, SampleError> {
    let this = graph.clone();
    let of = edges.to_vec();
    let ends = graph.run_on_workers(move || ends_by_type(&this, &of)).await?;
    let fetches = ends.into_iter().map(|(node_type, ids)| async move {
        let originals = graph.original_ids(node_type, ids.clone()).await?;
        Ok::<_, SampleError>((node_type, ids, originals))
    });
    let fetched = try_join_all(fetches).await?;
    let this = graph.clone();
    let of = edges.to_vec();
    // The number 0 stands for all batches of the epoch.
    let stream = combine(BatchKey { batch: 0, ..key }.stream(), STREAM);
    let fold = move || -> Vec<EdgeKey> {
        let mut originals: BTreeMap<NodeTypeId, FxHashMap<u32, u32>> = BTreeMap::new();
        for (node_type, ids, of_ids) in fetched {
            originals.insert(node_type, ids.into_iter().zip(of_ids).collect());
        }
        let key_of = |edge: &SeedEdge| {
            let types = this.part().edges(edge.edge_type);
            let src = originals[&types.src_type][&edge.src];
            let dst = originals[&types.dst_type][&edge.dst];
            let words = [u64::from(edge.edge_type.0), u64::from(src), u64::from(dst), edge.time.unwrap_or(0) as u64];
            EdgeKey { key: words.into_iter().fold(stream, combine), src, dst }
        };
        of.iter().map(key_of).collect()
    };
    graph.run_on_workers(fold).await
}

/// Returns the global ids of the ends of edges by node type, each once.
fn ends_by_type(graph: &DistGraph, edges: &[SeedEdge]) -> BTreeMap<NodeTypeId, Vec<u32>> {
    let mut by_type: BTreeMap<NodeTypeId, Vec<u32>> = BTreeMap::new();
    for edge in edges {
        let types = graph.part().edges(edge.edge_type);
        by_type.entry(types.src_type).or_default().push(edge.src);
        by_type.entry(types.dst_type).or_default().push(edge.dst);
    }
    for ids in by_type.values_mut() {
        ids.sort_unstable();
        ids.dedup();
    }
    by_type
}

/// Returns the positions of the slots of each destination type.
fn by_dst_type(graph: &DistGraph, edges: &[SeedEdge], slots: &[Slot]) -> BTreeMap<NodeTypeId, Vec<usize>> {
    let mut by_type: BTreeMap<NodeTypeId, Vec<usize>> = BTreeMap::new();
    for (position, slot) in slots.iter().enumerate() {
        by_type.entry(dst_type(graph, &edges[slot.edge])).or_default().push(position);
    }
    by_type
}

fn dst_type(graph: &DistGraph, edge: &SeedEdge) -> NodeTypeId {
    graph.part().edges(edge.edge_type).dst_type
}
