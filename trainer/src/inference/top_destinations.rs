//! The destinations with the highest scores of each source.

use super::known_edges::{ExcludedEdges, KnownEdges, candidates};
use super::link_ends::LinkEnds;
use super::scored_node::{Best, ScoredNode};
use crate::error::TrainError;
use crate::gather::all_gather_large;
use crate::models::LinkModel;
use burn::tensor::Tensor;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{GnnBackend, consumed, host_values};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeTypeId, Split};
use rayon::prelude::*;
use std::cmp::Reverse;

/// The bytes of a node and its score, on the network.
const SCORED_BYTES: usize = 8;
/// The number of nodes whose ids are resolved at once.
const IDS_AT_ONCE: usize = 1 << 16;
/// The largest number of scores at once, 8 MiB. They are then still in the cache of the CPU when the best are selected.
const MAX_SCORES: usize = 1 << 21;
/// The largest number of sources that are ranked at once.
const MAX_SOURCES: usize = 4096;

/// A request for the destinations with the highest scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopDestinationsConfig {
    /// The number of destinations per source.
    pub k: usize,
    /// The edges of the type whose destinations are left out of the list of their source.
    pub excluded: ExcludedEdges,
    /// The memory for scores and rows in progress, in bytes. More memory means larger blocks.
    pub memory_bytes: usize,
}

/// A search for the destinations with the highest scores of sources.
///
/// Each rank ranks the nodes of its own part for all sources, and the ranks exchange their best. A source then costs a
/// row and the `k` best of each rank on the network. The alternative, in which each rank ranks all destinations for its
/// share of the sources, sends every row of the other parts to every rank, once for each block of sources in memory. It
/// would also have to ask other parts for the known edges of a source, which are stored with their destinations.
/// `trainer/tests/predict_links.rs` compares scores and ranks with brute force.
pub struct TopDestinations {
    ends: LinkEnds,
    k: usize,
    /// The global ids of the destinations that this rank ranks.
    candidates: Vec<u32>,
    /// Their ids in the dataset.
    ids: Vec<u32>,
    /// The positions of the candidates to rank, ascending.
    ranked: Vec<u32>,
    known: KnownEdges,
    /// The edges that lists are compared with.
    held_out: KnownEdges,
    has_test_edges: bool,
    /// The candidates from the most to the fewest in-edges of the type, as positions.
    popular: Vec<u32>,
    sources_at_once: usize,
    candidates_at_once: usize,
}

impl TopDestinations {
    /// Prepares a search for sources, which are ids of the dataset; `None` are all nodes of their type. Every rank must
    /// call this with the same arguments, except that the memory may differ.
    ///
    /// # Errors
    /// Sources that do not exist, or a failure of the job.
    pub fn new(
        ends: LinkEnds,
        sources: Option<&[u32]>,
        config: TopDestinationsConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let graph = ends.node();
        let [src_type, dst_type] = ends.node_types();
        let candidates = candidates(graph, dst_type);
        let mut ids = Vec::with_capacity(candidates.len());
        for nodes in candidates.chunks(IDS_AT_ONCE) {
            ids.extend(graph.handle().block_on(graph.original_ids(dst_type, nodes.to_vec()))?);
        }
        let known = match sources {
            None => KnownEdges::find(graph, ends.edge_type(), config.excluded, None, world)?,
            Some(listed) => {
                let mut sources = Vec::with_capacity(listed.len());
                for ids in listed.chunks(IDS_AT_ONCE) {
                    sources.extend(graph.handle().block_on(graph.find_originals(src_type, ids))?);
                }
                sources.sort_unstable();
                KnownEdges::find(graph, ends.edge_type(), config.excluded, Some(&sources), world)?
            }
        };
        let held_out = KnownEdges::held_out(graph, ends.edge_type(), Split::Test, world)?;
        let mut has_test_edges = [u64::from(!held_out.is_empty())];
        world.all_reduce(&mut has_test_edges, ReduceOp::Max)?;
        let popular = by_popularity(graph, ends.edge_type(), &candidates, &ids);
        let k = config.k.min(ends.num_nodes()[1]);
        // A quarter of the memory each for rows of sources and their best, rows of candidates, scores, and their copies
        // between the tensors and the selection.
        let of_each = config.memory_bytes / 4;
        let row_bytes = 2 * ends.dim() * size_of::<f32>();
        let of_source = row_bytes + k * SCORED_BYTES * (1 + world.size());
        // All ranks rank the same sources at once.
        let mut sources_at_once = [(of_each / of_source).clamp(1, MAX_SOURCES) as u64];
        world.all_reduce(&mut sources_at_once, ReduceOp::Min)?;
        let sources_at_once = sources_at_once[0] as usize;
        let of_candidate = row_bytes.max(2 * sources_at_once * size_of::<f32>());
        let candidates_at_once = (of_each / of_candidate).clamp(1, MAX_SCORES / sources_at_once);
        Ok(Self {
            ends,
            k,
            ranked: (0..candidates.len() as u32).collect(),
            candidates,
            ids,
            known,
            held_out,
            has_test_edges: has_test_edges[0] > 0,
            popular,
            sources_at_once,
            candidates_at_once,
        })
    }

    /// Ranks about `num` destinations only. They are drawn by their ids in the dataset, so that they do not depend on the
    /// partitioning.
    pub(crate) fn among(mut self, num: usize, key: u64) -> Self {
        let num_all = self.ends.num_nodes()[1] as u64;
        let ids = &self.ids;
        self.ranked.retain(|&at| {
            let mut rng = CounterRng::new(combine(key, u64::from(ids[at as usize])));
            rng.below(num_all) < num as u64
        });
        self
    }

    /// Compares lists with the held-out edges of a split in place of the test edges. Every rank must call this.
    pub(crate) fn compared_with(mut self, split: Split, world: &mut ProcessGroup) -> Result<Self, TrainError> {
        if split != Split::Test {
            let held_out = KnownEdges::held_out(self.ends.node(), self.ends.edge_type(), split, world)?;
            self.held_out = held_out;
        }
        Ok(self)
    }

    /// Returns the number of sources to rank at once, the same on all ranks.
    pub fn sources_at_once(&self) -> usize {
        self.sources_at_once
    }

    /// Returns the nodes at both ends.
    pub fn ends(&self) -> &LinkEnds {
        &self.ends
    }

    /// Returns whether the edge type has held-out test edges, on any rank.
    pub fn has_test_edges(&self) -> bool {
        self.has_test_edges
    }

    /// Returns the destinations of the held-out edges of each source, as ids of the dataset, ascending and distinct: of the test
    /// edges, unless lists are compared with another split. Every rank must call this with the same sources.
    ///
    /// # Errors
    /// A failure of the job, or sources that do not exist.
    pub fn held_out_destinations(
        &self,
        sources: &[u32],
        world: &mut ProcessGroup,
    ) -> Result<Vec<Vec<u32>>, TrainError> {
        let mut own = Vec::with_capacity(sources.len());
        for source in self.global_sources(sources)? {
            let known: Vec<u32> = self.known.of_source(source, 0).collect();
            let positions = self.held_out.of_source(source, 0).filter(|at| known.binary_search(at).is_err());
            own.push(positions.map(|at| ScoredNode { id: self.ids[at as usize], score: 0.0 }).collect());
        }
        let mut merged = Vec::with_capacity(sources.len());
        for nodes in merge(&own, world)? {
            let mut ids: Vec<u32> = nodes.iter().map(|node| node.id).collect();
            ids.sort_unstable();
            ids.dedup();
            merged.push(ids);
        }
        Ok(merged)
    }

    /// Returns for each source the destinations with the most in-edges of the type, as
    /// [`find_top_destinations`] does for those with the highest scores: a baseline that knows nothing of the source.
    ///
    /// # Errors
    /// A failure of the job, or sources that do not exist.
    pub fn popular_destinations(
        &self,
        sources: &[u32],
        world: &mut ProcessGroup,
    ) -> Result<Vec<Vec<ScoredNode>>, TrainError> {
        let csc = &self.ends.node().part().edges(self.ends.edge_type()).csc;
        let first = self.ends.node().part().owned(self.ends.node_types()[1]).start;
        let mut own = Vec::with_capacity(sources.len());
        for source in self.global_sources(sources)? {
            let known: Vec<u32> = self.known.of_source(source, 0).collect();
            let unknown = self.popular.iter().filter(|at| known.binary_search(at).is_err());
            let scored = unknown.take(self.k).map(|&at| {
                let degree = csc.degree((self.candidates[at as usize] - first) as usize);
                ScoredNode { id: self.ids[at as usize], score: degree as f32 }
            });
            own.push(scored.collect());
        }
        Ok(self.best_of_all(merge(&own, world)?))
    }

    /// Returns the global ids of sources, which are ids of the dataset.
    fn global_sources(&self, sources: &[u32]) -> Result<Vec<u32>, TrainError> {
        let graph = self.ends.node();
        Ok(graph.handle().block_on(graph.find_originals(self.ends.node_types()[0], sources))?)
    }

    /// Sorts the nodes of each source and keeps the best.
    fn best_of_all(&self, mut lists: Vec<Vec<ScoredNode>>) -> Vec<Vec<ScoredNode>> {
        lists.par_iter_mut().for_each(|nodes| {
            nodes.sort_unstable();
            nodes.truncate(self.k);
        });
        lists
    }

    /// Returns the best candidates of this rank for each source.
    fn best_of_rank<B: GnnBackend>(
        &self,
        model: &LinkModel<B>,
        sources: &[u32],
        device: &B::Device,
    ) -> Result<Vec<Best>, TrainError> {
        let queries = self.ends.queries(model, sources, device)?;
        let sources = self.global_sources(sources)?;
        let mut best: Vec<Best> = sources.iter().map(|_| Best::new(self.k)).collect();
        for block in self.ranked.chunks(self.candidates_at_once) {
            let nodes: Vec<u32> = block.iter().map(|&at| self.candidates[at as usize]).collect();
            let rows = Tensor::<B, 2>::from_data(self.ends.destination_rows(&nodes)?, device);
            let scores = host_values(model.decoder.score_all(&queries, rows));
            consumed();
            let select = |((best, &source), scores): ((&mut Best, &u32), &[f32])| {
                // The known positions and the columns ascend, so one pass over both skips the known destinations.
                let mut known = self.known.of_source(source, block[0]).peekable();
                for (&at, &score) in block.iter().zip(scores) {
                    while known.next_if(|&known| known < at).is_some() {}
                    if known.next_if_eq(&at).is_none() {
                        best.offer(ScoredNode { id: self.ids[at as usize], score });
                    }
                }
            };
            best.par_iter_mut().zip(&sources).zip(scores.par_chunks_exact(nodes.len())).for_each(select);
        }
        Ok(best)
    }
}

/// Returns for each source, an id of the dataset, its destinations with the highest scores over all ranks, the best
/// first. There are fewer than `k` if the graph has fewer that may be listed. Every rank must call this with the same
/// sources.
///
/// # Errors
/// A failure of the job, or sources that do not exist.
pub fn find_top_destinations<B: GnnBackend>(
    search: &TopDestinations,
    model: &LinkModel<B>,
    sources: &[u32],
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<Vec<Vec<ScoredNode>>, TrainError> {
    let best = search.best_of_rank(model, sources, device)?;
    let best: Vec<Vec<ScoredNode>> = best.into_par_iter().map(Best::into_sorted).collect();
    Ok(search.best_of_all(merge(&best, world)?))
}

/// Returns the nodes that all ranks have listed for each source.
fn merge(own: &[Vec<ScoredNode>], world: &mut ProcessGroup) -> Result<Vec<Vec<ScoredNode>>, TrainError> {
    // A rank sends for each source the number of its nodes, then all nodes. An id and a score are little-endian.
    let mut bytes = Vec::new();
    own.iter().for_each(|nodes| bytes.extend((nodes.len() as u32).to_le_bytes()));
    for node in own.iter().flatten() {
        bytes.extend(node.id.to_le_bytes().iter().chain(&node.score.to_le_bytes()));
    }
    let mut merged = vec![Vec::new(); own.len()];
    for theirs in all_gather_large(world, &bytes)? {
        let (words, _) = theirs.as_chunks::<4>();
        let Some((counts, nodes)) = words.split_at_checked(own.len()) else {
            return Err(TrainError::batch("a rank sent fewer counts than sources"));
        };
        let mut nodes = nodes.chunks_exact(2);
        for (merged, &count) in merged.iter_mut().zip(counts) {
            let scored = nodes.by_ref().take(u32::from_le_bytes(count) as usize);
            merged.extend(
                scored.map(|pair| ScoredNode { id: u32::from_le_bytes(pair[0]), score: f32::from_le_bytes(pair[1]) }),
            );
        }
    }
    Ok(merged)
}

/// Returns the positions of candidates, those with the most in-edges first, and among equal numbers those with the
/// smallest ids.
fn by_popularity(graph: &DistGraph, edge_type: EdgeTypeId, candidates: &[u32], ids: &[u32]) -> Vec<u32> {
    let of_type = graph.part().edges(edge_type);
    let first = graph.part().owned(of_type.dst_type).start;
    let mut positions: Vec<u32> = (0..candidates.len() as u32).collect();
    positions.par_sort_unstable_by_key(|&at| {
        let degree = of_type.csc.degree((candidates[at as usize] - first) as usize);
        (Reverse(degree), ids[at as usize])
    });
    positions
}
