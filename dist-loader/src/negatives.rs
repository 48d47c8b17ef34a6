//! Draws the pairs that edges are told from.

use crate::edge_seeds::SeedEdge;
use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{BatchKey, SampleError, SamplingNode};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use std::collections::{BTreeMap, HashSet};
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
    /// In proportion to its in-degree, over all edge types. Each process keeps 8 bytes per node of the type for it.
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
    /// By node type, where nodes are not alike: the in-degrees of all nodes up to each, by original id.
    sums: Vec<Option<Vec<u64>>>,
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
    ) -> Result<Self, ClusterError> {
        let part = node.part();
        let mut sums = vec![None; part.meta().node_types.len()];
        if config.distribution == NegativeDistribution::Degree {
            for &edge_type in edge_types {
                let dst_type = part.edges(edge_type).dst_type;
                if sums[dst_type.index()].is_none() {
                    sums[dst_type.index()] = Some(sums_of_degrees(node, dst_type, world)?);
                }
            }
        }
        Ok(Self { config, sums })
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
            let draw = move || -> Vec<u32> {
                let original = |slot: &Slot| {
                    let key = [slot.edge as u64, slot.k as u64, attempt].into_iter().fold(stream, combine);
                    this.original(&at, dst_type(&at, &of[slot.edge]), key)
                };
                slots.iter().map(original).collect()
            };
            let originals = node.run_on_workers(draw).await?;
            let ids = self.find(node, edges, &open, &originals).await?;
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
        let mut found = vec![Vec::new(); self.sums.len()];
        for edge in edges {
            let t = dst_type(node, edge);
            if found[t.index()].is_empty() {
                let key = |k: usize| combine(combine(stream, u64::from(t.0)), k as u64);
                let originals: Vec<u32> = (0..self.config.num).map(|k| self.original(node, t, key(k))).collect();
                found[t.index()] = node.find_originals(t, &originals).await?;
            }
        }
        Ok(found)
    }

    /// The original id of a node of a type, drawn with the numbers that `key` names.
    fn original(&self, node: &SamplingNode, node_type: NodeTypeId, key: u64) -> u32 {
        let mut rng = CounterRng::new(key);
        let num_nodes = node.part().meta().node_types[node_type.index()].book.num_nodes() as u64;
        match &self.sums[node_type.index()] {
            // Without an edge all are alike.
            Some(sums) if sums.last().is_some_and(|&total| total > 0) => {
                let goal = rng.below(sums[sums.len() - 1]);
                sums.partition_point(|&sum| sum <= goal) as u32
            }
            _ => rng.below(num_nodes) as u32,
        }
    }

    /// Global ids of nodes given by original id, each of the destination type of its slot's edge.
    async fn find(
        &self,
        node: &Arc<SamplingNode>,
        edges: &[SeedEdge],
        slots: &[Slot],
        originals: &[u32],
    ) -> Result<Vec<u32>, SampleError> {
        let mut by_type: BTreeMap<NodeTypeId, Vec<usize>> = BTreeMap::new();
        for (position, slot) in slots.iter().enumerate() {
            by_type.entry(dst_type(node, &edges[slot.edge])).or_default().push(position);
        }
        let mut ids = vec![0; slots.len()];
        for (node_type, positions) in by_type {
            let asked: Vec<u32> = positions.iter().map(|&position| originals[position]).collect();
            let found = node.find_originals(node_type, &asked).await?;
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
            let originals: Vec<u32> = piece.map(|i| ((start + i) % num_nodes) as u32).collect();
            let slots = vec![slot; originals.len()];
            let ids = self.find(node, edges, &slots, &originals).await?;
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

/// The in-degrees of all nodes up to each, by original id; over all parts.
fn sums_of_degrees(
    node: &SamplingNode,
    node_type: NodeTypeId,
    world: &mut ProcessGroup,
) -> Result<Vec<u64>, ClusterError> {
    let part = node.part();
    let mut sums = vec![0_u64; part.meta().node_types[node_type.index()].book.num_nodes()];
    let (_, mine) = node.sharers();
    if mine == 0 {
        for edges in part.edge_type_ids().map(|e| part.edges(e)).filter(|edges| edges.dst_type == node_type) {
            for (row, &id) in part.nodes(node_type).original_ids.iter().enumerate() {
                sums[id as usize] += edges.csc.degree(row) as u64;
            }
        }
    }
    world.all_reduce(&mut sums, ReduceOp::Sum)?;
    let mut sum = 0;
    for degree in &mut sums {
        sum += *degree;
        *degree = sum;
    }
    Ok(sums)
}
