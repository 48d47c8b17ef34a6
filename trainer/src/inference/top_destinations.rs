//! The destinations with the highest scores of each source.

use super::destinations::{Destinations, KnownDestinations, best_of_ranks};
use super::known_edges::ExcludedEdges;
use super::link_ends::LinkEnds;
use super::scored_node::{Best, ScoredNode};
use crate::error::TrainError;
use crate::models::LinkModel;
use burn::tensor::Tensor;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_gnn::ops::{GnnBackend, consumed, host_values};
use edgecut_graph::Split;
use edgecut_graph::rng::{CounterRng, combine};
use rayon::prelude::*;
use std::sync::Arc;

/// The bytes of a node and its score, on the network.
const SCORED_BYTES: usize = 8;
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
/// `programs/train/tests/predict_links.rs` compares scores and ranks with brute force.
pub struct TopDestinations {
    ends: LinkEnds,
    k: usize,
    known: Arc<KnownDestinations>,
    /// The positions of the destinations to rank, ascending.
    ranked: Vec<u32>,
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
        let all = Arc::new(Destinations::of(ends.node(), ends.edge_type())?);
        let known = KnownDestinations::find(&all, sources, config.excluded, Split::Test, world)?;
        Self::of_known(ends, &Arc::new(known), config, world)
    }

    /// Prepares a search among destinations whose known edges have been found: `config.excluded` is theirs. Every rank must call
    /// this with the same arguments, except that the memory may differ.
    ///
    /// # Errors
    /// A failure of the job.
    pub(crate) fn of_known(
        ends: LinkEnds,
        known: &Arc<KnownDestinations>,
        config: TopDestinationsConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
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
        let ranked = (0..known.all().nodes.len() as u32).collect();
        Ok(Self { ends, k, known: Arc::clone(known), ranked, sources_at_once, candidates_at_once })
    }

    /// Ranks about `num` destinations only. They are drawn by their ids in the dataset, so that they do not depend on the
    /// partitioning.
    pub(crate) fn among(mut self, num: usize, key: u64) -> Self {
        let num_all = self.ends.num_nodes()[1] as u64;
        let ids = &self.known.all().ids;
        self.ranked.retain(|&at| {
            let mut rng = CounterRng::new(combine(key, u64::from(ids[at as usize])));
            rng.below(num_all) < num as u64
        });
        self
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
        self.known.has_held_out()
    }

    /// Returns the destinations of the test edges of each source, as ids of the dataset, ascending and distinct. Every rank must
    /// call this with the same sources.
    ///
    /// # Errors
    /// A failure of the job, or sources that do not exist.
    pub fn held_out_destinations(
        &self,
        sources: &[u32],
        world: &mut ProcessGroup,
    ) -> Result<Vec<Vec<u32>>, TrainError> {
        self.known.held_out(sources, world)
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
        self.known.popular(self.k, sources, world)
    }

    /// Returns the best candidates of this rank for each source.
    fn best_of_rank<B: GnnBackend>(
        &self,
        model: &LinkModel<B>,
        sources: &[u32],
        device: &B::Device,
    ) -> Result<Vec<Best>, TrainError> {
        let queries = self.ends.queries(model, sources, device)?;
        let all = self.known.all();
        let sources = all.global_sources(sources)?;
        let mut best: Vec<Best> = sources.iter().map(|_| Best::new(self.k)).collect();
        for block in self.ranked.chunks(self.candidates_at_once) {
            let nodes: Vec<u32> = block.iter().map(|&at| all.nodes[at as usize]).collect();
            let rows = Tensor::<B, 2>::from_data(self.ends.destination_rows(&nodes)?, device);
            let scores = host_values(model.decoder.score_all(&queries, rows));
            consumed();
            let select = |((best, &source), scores): ((&mut Best, &u32), &[f32])| {
                // The known positions and the columns ascend, so one pass over both skips the known destinations.
                let mut known = self.known.of_source(source, block[0]).peekable();
                for (&at, &score) in block.iter().zip(scores) {
                    while known.next_if(|&known| known < at).is_some() {}
                    if known.next_if_eq(&at).is_none() {
                        best.offer(ScoredNode { id: all.ids[at as usize], score });
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
    best_of_ranks(&best, search.k, world)
}
