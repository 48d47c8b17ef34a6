//! The destinations of an edge type that a rank ranks, and the edges to them. No model changes these.

use super::known_edges::{ExcludedEdges, KnownEdges, candidates};
use super::scored_node::ScoredNode;
use crate::error::TrainError;
use crate::gather::all_gather_large;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{EdgeTypeId, Split};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::sync::Arc;

/// The number of nodes whose ids are resolved at once.
const IDS_AT_ONCE: usize = 1 << 16;

/// The destinations that this rank ranks.
pub(crate) struct Destinations {
    graph: Arc<DistGraph>,
    edge_type: EdgeTypeId,
    /// Their global ids.
    pub(super) nodes: Vec<u32>,
    /// Their ids in the dataset.
    pub(super) ids: Vec<u32>,
    /// Their positions, from the most to the fewest in-edges of the type.
    popular: Vec<u32>,
}

impl Destinations {
    /// Finds the ids and the in-degrees of the destinations.
    ///
    /// # Errors
    /// An error of a peer.
    pub(crate) fn of(graph: &Arc<DistGraph>, edge_type: EdgeTypeId) -> Result<Self, TrainError> {
        let dst_type = graph.part().edges(edge_type).dst_type;
        let nodes = candidates(graph, dst_type);
        let mut ids = Vec::with_capacity(nodes.len());
        for nodes in nodes.chunks(IDS_AT_ONCE) {
            ids.extend(graph.handle().block_on(graph.original_ids(dst_type, nodes.to_vec()))?);
        }
        let mut all = Self { graph: Arc::clone(graph), edge_type, nodes, ids, popular: Vec::new() };
        // Nodes with equal numbers of in-edges are in the order of their ids.
        let mut popular: Vec<u32> = (0..all.nodes.len() as u32).collect();
        popular.par_sort_unstable_by_key(|&at| (Reverse(all.degree(at)), all.ids[at as usize]));
        all.popular = popular;
        Ok(all)
    }

    /// Returns the number of destinations over all ranks.
    pub(crate) fn num_all(&self) -> usize {
        let part = self.graph.part();
        let dst_type = part.edges(self.edge_type).dst_type;
        part.meta().node_types[dst_type.index()].book.num_nodes()
    }

    /// Returns the number of in-edges of the destination at a position.
    fn degree(&self, at: u32) -> usize {
        let of_type = self.graph.part().edges(self.edge_type);
        let first = self.graph.part().owned(of_type.dst_type).start;
        of_type.csc.degree((self.nodes[at as usize] - first) as usize)
    }

    /// Returns the global ids of sources, which are ids of the dataset.
    pub(super) fn global_sources(&self, sources: &[u32]) -> Result<Vec<u32>, TrainError> {
        let src_type = self.graph.part().edges(self.edge_type).src_type;
        let mut found = Vec::with_capacity(sources.len());
        for ids in sources.chunks(IDS_AT_ONCE) {
            found.extend(self.graph.handle().block_on(self.graph.find_originals(src_type, ids))?);
        }
        Ok(found)
    }
}

/// The destinations of the known edges of sources.
pub(crate) struct KnownDestinations {
    all: Arc<Destinations>,
    /// The edges whose destinations are not listed.
    known: KnownEdges,
    /// The edges that lists are compared with.
    held_out: KnownEdges,
    has_held_out: bool,
}

impl KnownDestinations {
    /// Finds the edges of sources, which are ids of the dataset; `None` for all sources. Lists leave out the excluded edges, and are
    /// compared with the held-out edges of a split. Every rank must call this.
    ///
    /// # Errors
    /// Sources that do not exist, or a failure of the job.
    pub(crate) fn find(
        all: &Arc<Destinations>,
        sources: Option<&[u32]>,
        excluded: ExcludedEdges,
        split: Split,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let graph = &all.graph;
        let mut global = None;
        if let Some(listed) = sources {
            let mut found = all.global_sources(listed)?;
            found.sort_unstable();
            global = Some(found);
        }
        let known = KnownEdges::find(graph, all.edge_type, excluded, global.as_deref(), world)?;
        let held_out = KnownEdges::held_out(graph, all.edge_type, split, world)?;
        let mut has_held_out = [u64::from(!held_out.is_empty())];
        world.all_reduce(&mut has_held_out, ReduceOp::Max)?;
        Ok(Self { all: Arc::clone(all), known, held_out, has_held_out: has_held_out[0] > 0 })
    }

    /// Returns the destinations that this rank ranks.
    pub(super) fn all(&self) -> &Destinations {
        &self.all
    }

    /// Returns true if the split has held-out edges, on any rank.
    pub(super) fn has_held_out(&self) -> bool {
        self.has_held_out
    }

    /// Returns the positions of the destinations that are not listed for a source, from position `start`, ascending.
    pub(super) fn of_source(&self, source: u32, start: u32) -> impl Iterator<Item = u32> + '_ {
        self.known.of_source(source, start)
    }

    /// Returns the number of destinations over all ranks that are not listed for each source. Every rank must call this with the
    /// same sources.
    ///
    /// # Errors
    /// A failure of the job, or sources that do not exist.
    pub(crate) fn count(&self, sources: &[u32], world: &mut ProcessGroup) -> Result<Vec<u64>, TrainError> {
        let mut counts = Vec::with_capacity(sources.len());
        for source in self.all.global_sources(sources)? {
            counts.push(self.of_source(source, 0).count() as u64);
        }
        world.all_reduce(&mut counts, ReduceOp::Sum)?;
        Ok(counts)
    }

    /// Returns the destinations of the held-out edges of each source that may be listed, as ids of the dataset, ascending and
    /// distinct. Every rank must call this with the same sources.
    ///
    /// # Errors
    /// A failure of the job, or sources that do not exist.
    pub(crate) fn held_out(&self, sources: &[u32], world: &mut ProcessGroup) -> Result<Vec<Vec<u32>>, TrainError> {
        let mut own = Vec::with_capacity(sources.len());
        for source in self.all.global_sources(sources)? {
            let known: Vec<u32> = self.of_source(source, 0).collect();
            let positions = self.held_out.of_source(source, 0).filter(|at| known.binary_search(at).is_err());
            own.push(positions.map(|at| ScoredNode { id: self.all.ids[at as usize], score: 0.0 }).collect());
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

    /// Returns for each source the `k` destinations with the most in-edges of the type, the first one with the most. Every rank must
    /// call this with the same sources.
    ///
    /// # Errors
    /// A failure of the job, or sources that do not exist.
    pub(crate) fn popular(
        &self,
        k: usize,
        sources: &[u32],
        world: &mut ProcessGroup,
    ) -> Result<Vec<Vec<ScoredNode>>, TrainError> {
        let mut own = Vec::with_capacity(sources.len());
        for source in self.all.global_sources(sources)? {
            let known: Vec<u32> = self.of_source(source, 0).collect();
            let unknown = self.all.popular.iter().filter(|at| known.binary_search(at).is_err());
            let scored = unknown.take(k).map(|&at| {
                let degree = self.all.degree(at);
                ScoredNode { id: self.all.ids[at as usize], score: degree as f32 }
            });
            own.push(scored.collect());
        }
        best_of_ranks(&own, k, world)
    }
}

/// Returns the best of the nodes that all ranks have listed for each source, the best first.
pub(super) fn best_of_ranks(
    own: &[Vec<ScoredNode>],
    k: usize,
    world: &mut ProcessGroup,
) -> Result<Vec<Vec<ScoredNode>>, TrainError> {
    let mut lists = merge(own, world)?;
    lists.par_iter_mut().for_each(|nodes| {
        nodes.sort_unstable();
        nodes.truncate(k);
    });
    Ok(lists)
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
