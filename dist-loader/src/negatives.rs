//! Draws the negatives of edges.

use crate::edge_seeds::SeedEdge;
use crate::error::LoaderError;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{BatchKey, SampleError, SamplingNode};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Mixed into a batch's stream, so that negatives are not drawn with the numbers of its neighborhoods.
const STREAM: u64 = 0x6e65_6761_7469_7665;
/// How often a destination that may not be a negative is drawn again before all nodes are gone through.
const ATTEMPTS: u64 = 12;
/// Nodes that are asked for at once when all are gone through.
const SCAN_PIECE: usize = 1 << 12;

/// How the destinations that take the place of an edge's own are drawn: over all nodes of the type, whichever parts own
/// them, and alike whatever the number of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegativeSampling {
    /// How many per edge, or where they are shared, per batch and destination type.
    pub num: usize,
    /// How likely each node is.
    pub distribution: NegativeDistribution,
    /// Which pairs are no negatives.
    pub exclude: Exclude,
    /// Whether all edges of a batch have the same ones, which costs a fraction of the memory and time.
    pub shared: bool,
}

/// How likely each node is as a negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegativeDistribution {
    /// All alike.
    Uniform,
    /// In proportion to its in-degree, over all edge types: the destination of a uniformly drawn in-edge of the type's
    /// nodes. Nodes of a type without in-edges are all alike.
    Degree,
}

/// Which pairs are no negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclude {
    /// None: an edge may be drawn, which in large graphs is rare.
    Nothing,
    /// Edges of the same type that messages flow over, as what is held out is not known while training; the negatives of an
    /// edge differ.
    Edges,
    /// These and the held-out ones, to judge by; the negatives of an edge may be drawn twice, so that few candidates do.
    EdgesAndHeldOut,
}

/// Draws negatives.
#[derive(Debug)]
pub(crate) struct NegativeSampler {
    config: NegativeSampling,
    /// By node type the in-edges to draw from; `None` where all nodes are alike.
    num_in_edges: Vec<Option<u64>>,
}

/// The kind of number that stands for a node, the same for any partitioning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    /// The kind of number that [`NegativeSampler::number`] draws: an in-edge, or an original id where all nodes are alike.
    Drawn,
    OriginalId,
}

/// One negative to be drawn: for which edge, and which of its own.
#[derive(Clone, Copy)]
struct Slot {
    edge: usize,
    k: usize,
}

impl NegativeSampler {
    /// Every rank has to call this.
    pub(crate) fn new(
        config: NegativeSampling,
        node: &SamplingNode,
        edge_types: &[EdgeTypeId],
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let part = node.part();
        let mut num_in_edges = vec![None; part.meta().node_types.len()];
        let by_degree = config.distribution == NegativeDistribution::Degree;
        let dst_types: BTreeSet<NodeTypeId> = edge_types.iter().map(|&e| part.edges(e).dst_type).collect();
        for dst_type in dst_types.into_iter().filter(|_| config.num > 0) {
            node.make_directory(dst_type, by_degree, world)
                .map_err(|source| LoaderError::Directory { source: Box::new(source) })?;
            if by_degree {
                num_in_edges[dst_type.index()] = node.num_in_edges(dst_type).filter(|&num| num > 0);
            }
        }
        Ok(Self { config, num_in_edges })
    }

    /// Global ids of the negatives of `edges`, `[edges.len(), num]`, or where they are shared, by destination type.
    pub(crate) async fn draw(
        self: &Arc<Self>,
        node: &Arc<SamplingNode>,
        key: BatchKey,
        edges: &[SeedEdge],
    ) -> Result<Vec<Vec<u32>>, SampleError> {
        let stream = combine(key.stream(), STREAM);
        if self.config.shared {
            return self.draw_shared(node, stream, edges).await;
        }
        let num = self.config.num;
        let mut found = vec![vec![u32::MAX; num]; edges.len()];
        let mut open: Vec<Slot> = (0..edges.len()).flat_map(|edge| (0..num).map(move |k| Slot { edge, k })).collect();
        let mut taken: Vec<HashSet<u32>> = vec![HashSet::new(); edges.len()];
        for attempt in 0..ATTEMPTS {
            if open.is_empty() {
                return Ok(found);
            }
            let (this, at, slots, of) = (self.clone(), node.clone(), open.clone(), edges.to_vec());
            let draw = move || -> Vec<u64> {
                let number = |slot: &Slot| {
                    let key = [slot.edge as u64, slot.k as u64, attempt].into_iter().fold(stream, combine);
                    this.number(&at, dst_type(&at, &of[slot.edge]), key)
                };
                slots.iter().map(number).collect()
            };
            let numbers = node.run_on_workers(draw).await?;
            let ids = self.find(node, edges, &open, &numbers, Number::Drawn).await?;
            let legal = self.are_legal(node, edges, &open, &ids).await?;
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
        // What is left are edges whose source is joined to nearly all nodes.
        for slot in open {
            let id = self.first_legal(node, stream, edges, slot, &taken[slot.edge]).await?;
            taken[slot.edge].insert(id);
            found[slot.edge][slot.k] = id;
        }
        Ok(found)
    }

    /// Whether the negatives of an edge have to differ.
    fn distinct(&self) -> bool {
        self.config.exclude == Exclude::Edges
    }

    async fn draw_shared(
        &self,
        node: &Arc<SamplingNode>,
        stream: u64,
        edges: &[SeedEdge],
    ) -> Result<Vec<Vec<u32>>, SampleError> {
        let mut found = vec![Vec::new(); self.num_in_edges.len()];
        for edge in edges {
            let t = dst_type(node, edge);
            if found[t.index()].is_empty() {
                let key = |k: usize| combine(combine(stream, u64::from(t.0)), k as u64);
                let numbers: Vec<u64> = (0..self.config.num).map(|k| self.number(node, t, key(k))).collect();
                found[t.index()] = self.find_of_type(node, t, &numbers, Number::Drawn).await?;
            }
        }
        Ok(found)
    }

    /// The number of a node of a type, drawn with the random numbers that `key` names.
    fn number(&self, node: &SamplingNode, node_type: NodeTypeId, key: u64) -> u64 {
        let num_nodes = node.part().meta().node_types[node_type.index()].book.num_nodes() as u64;
        CounterRng::new(key).below(self.num_in_edges[node_type.index()].unwrap_or(num_nodes))
    }

    /// Global ids of nodes of one type, given by number.
    async fn find_of_type(
        &self,
        node: &SamplingNode,
        node_type: NodeTypeId,
        numbers: &[u64],
        kind: Number,
    ) -> Result<Vec<u32>, SampleError> {
        if kind == Number::Drawn && self.num_in_edges[node_type.index()].is_some() {
            return node.find_by_in_edge(node_type, numbers).await;
        }
        let originals: Vec<u32> = numbers.iter().map(|&id| id as u32).collect();
        node.find_originals(node_type, &originals).await
    }

    /// Global ids of nodes given by number, each of the destination type of its slot's edge.
    async fn find(
        &self,
        node: &Arc<SamplingNode>,
        edges: &[SeedEdge],
        slots: &[Slot],
        numbers: &[u64],
        kind: Number,
    ) -> Result<Vec<u32>, SampleError> {
        let mut by_type: BTreeMap<NodeTypeId, Vec<usize>> = BTreeMap::new();
        for (position, slot) in slots.iter().enumerate() {
            by_type.entry(dst_type(node, &edges[slot.edge])).or_default().push(position);
        }
        let mut ids = vec![0; slots.len()];
        for (node_type, positions) in by_type {
            let asked: Vec<u64> = positions.iter().map(|&position| numbers[position]).collect();
            let found = self.find_of_type(node, node_type, &asked, kind).await?;
            positions.iter().zip(found).for_each(|(&position, id)| ids[position] = id);
        }
        Ok(ids)
    }

    /// Whether each slot's destination may be its negative.
    async fn are_legal(
        &self,
        node: &Arc<SamplingNode>,
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
            let found = node.has_edges(edge_type, &pairs, held_out).await?;
            positions.iter().zip(found).for_each(|(&position, is_edge)| legal[position] = !is_edge);
        }
        Ok(legal)
    }

    /// Goes through all nodes from a random one on.
    async fn first_legal(
        &self,
        node: &Arc<SamplingNode>,
        stream: u64,
        edges: &[SeedEdge],
        slot: Slot,
        taken: &HashSet<u32>,
    ) -> Result<u32, SampleError> {
        let edge = &edges[slot.edge];
        let node_type = dst_type(node, edge);
        let meta = node.part().meta();
        let num_nodes = meta.node_types[node_type.index()].book.num_nodes();
        let key = [slot.edge as u64, slot.k as u64, ATTEMPTS].into_iter().fold(stream, combine);
        let start = CounterRng::new(key).below(num_nodes as u64) as usize;
        for first in (0..num_nodes).step_by(SCAN_PIECE) {
            let piece = first..num_nodes.min(first + SCAN_PIECE);
            let originals: Vec<u64> = piece.map(|i| ((start + i) % num_nodes) as u64).collect();
            let slots = vec![slot; originals.len()];
            let ids = self.find(node, edges, &slots, &originals, Number::OriginalId).await?;
            let legal = self.are_legal(node, edges, &slots, &ids).await?;
            let mut candidates = ids.iter().zip(legal).filter(|(id, legal)| *legal && !taken.contains(id));
            if let Some((&id, _)) = candidates.next() {
                return Ok(id);
            }
        }
        let e = &meta.edge_types[edge.edge_type.index()];
        let what = format!(
            "{} negatives were asked for an edge of type {}__{}__{}, but only {} of the {num_nodes} nodes of type {} are no \
             neighbors of its source: ask for fewer, or do not exclude edges",
            self.config.num,
            e.src_type,
            e.relation,
            e.dst_type,
            taken.len(),
            e.dst_type
        );
        Err(SampleError::Layout { what })
    }
}

fn dst_type(node: &SamplingNode, edge: &SeedEdge) -> NodeTypeId {
    node.part().edges(edge.edge_type).dst_type
}
