//! Filtered ranking: ranks held-out edges against all nodes of the destination's type, and of the source's.

use super::config::{LinkTrainingConfig, RankedEnds, target_edge_types};
use super::judged::depths_of;
use super::node_rows::RowScorer;
use super::scores::LinkScores;
use crate::error::TrainError;
use crate::gather::{all_gather_large, all_gather_records};
use crate::inference::{candidates, for_each_reverse};
use crate::inference_progress::{InferenceProgress, InferenceStep};
use crate::metrics::RankingMetrics;
use burn::tensor::{Tensor, TensorData};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::nn::EdgeEnd;
use edgecut_gnn::ops::{GnnBackend, host_values};
use edgecut_graph::{EdgeTypeId, NodeTypeId, Split};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The maximum number of scores in memory at once, 32 MiB in `f32`.
const SCORES_AT_ONCE: usize = 1 << 23;
/// The bytes of a pair of ids.
const PAIR_BYTES: usize = 2 * size_of::<u32>();
/// The maximum number of edges that are ranked at once.
const EDGES_AT_ONCE: usize = 1024;

/// The filtered ranking of held-out edges: each edge is ranked against the pairs of its source with all nodes of its
/// destination's type, except the destinations of known edges (Bordes et al., "Translating embeddings for modeling
/// multi-relational data", NIPS 2013), and for both ends also against the pairs of its destination with all nodes of its
/// source's type. Every rank scores the nodes whose rows it holds for the edges of all ranks; only rows of
/// given ends, known sources of ranked destinations and counts cross the network. An end without a rival is not ranked.
pub(super) struct FilteredRanking {
    graph: Arc<DistGraph>,
    depths: Vec<u32>,
    valid: Ranked,
    test: Ranked,
}

/// The ends of held-out edges of a split, and the known edges of the other ends.
struct Ranked {
    ends: Vec<RankedEnd>,
    known: Known,
}

/// For each edge type, ranked end and other end: the known nodes at the ranked end, as ascending positions among the
/// nodes whose rows this rank holds.
type Known = HashMap<(EdgeTypeId, EdgeEnd, u32), Vec<u32>>;

/// A held-out edge and the end to rank, in global ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RankedEnd {
    /// The type of the ranked node and its rivals.
    candidate_type: NodeTypeId,
    end: EdgeEnd,
    edge_type: EdgeTypeId,
    /// The type of the other end.
    given_type: NodeTypeId,
    /// The other end.
    given: u32,
    /// The node that is ranked.
    target: u32,
}

/// The rows of the candidates of one type that this rank holds.
struct Candidates<B: GnnBackend> {
    /// Global ids, ascending.
    ids: Vec<u32>,
    /// `[ids.len(), channels]`
    rows: Tensor<B, 2>,
}

impl FilteredRanking {
    pub(super) fn new(
        graph: &Arc<DistGraph>,
        config: &LinkTrainingConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let edge_types = target_edge_types(graph.part().meta(), config)?;
        let mut ranked = |split: Split| -> Result<Ranked, TrainError> {
            let mut ends = Vec::new();
            for edge in gather_held_out(graph, &edge_types, split, world)? {
                ends.push(edge.ranked(graph, EdgeEnd::Destination));
                if config.rank == RankedEnds::Both {
                    ends.push(edge.ranked(graph, EdgeEnd::Source));
                }
            }
            ends.sort_unstable();
            let known = known(graph, &ends, world)?;
            Ok(Ranked { ends, known })
        };
        let valid = ranked(Split::Valid)?;
        let test = ranked(Split::Test)?;
        Ok(Self { graph: graph.clone(), depths: depths_of(&config.metric), valid, test })
    }

    /// Ranks the edges of a split. Every rank must call this.
    pub(super) fn run<B: GnnBackend>(
        &self,
        split: Split,
        scorer: &RowScorer<'_, B>,
        progress: &dyn InferenceProgress,
        world: &mut ProcessGroup,
    ) -> Result<LinkScores, TrainError> {
        let Ranked { ends, known } = if split == Split::Test { &self.test } else { &self.valid };
        let mut ranks = RankingMetrics::with_depths(&self.depths);
        let mut left_out = 0;
        // The number of candidates is not known before, so edges are counted in place of chunks.
        let mut step = InferenceStep { pass: 1, num_passes: 1, step: 0, num_steps: ends.len() };
        for of_type in ends.chunk_by(|a, b| a.candidate_type == b.candidate_type) {
            let candidates = self.candidates(of_type[0].candidate_type, scorer)?;
            // Ranks have different numbers of candidates, but must cut the edges into the same chunks. The largest
            // number of candidates therefore sets the chunk size on all ranks.
            let mut most = [candidates.ids.len() as u64];
            world.all_reduce(&mut most, ReduceOp::Max)?;
            let at_once = (SCORES_AT_ONCE / (most[0] as usize).max(1)).clamp(1, EDGES_AT_ONCE);
            let of_ends = of_type.chunk_by(|a, b| a.end == b.end);
            for chunk in of_ends.flat_map(|of_end| of_end.chunks(at_once)) {
                for rivals in rank_chunk((chunk, known), scorer, &candidates, world)? {
                    match rivals.rank() {
                        Some(rank) => ranks.add(rank),
                        None => left_out += 1,
                    }
                }
                step.step += chunk.len();
                progress.step(step);
            }
        }
        let ends_per_edge = ends.iter().map(|ranked| ranked.end).collect::<BTreeSet<_>>().len().max(1) as u64;
        let scores = LinkScores::new(&ranks);
        Ok(LinkScores { edges: scores.edges.div_ceil(ends_per_edge), left_out, ..scores })
    }

    /// Reads the rows of a type that this rank holds.
    fn candidates<B: GnnBackend>(
        &self,
        node_type: NodeTypeId,
        scorer: &RowScorer<'_, B>,
    ) -> Result<Candidates<B>, TrainError> {
        let rows = scorer.rows.of_type(node_type)?;
        let ids = candidates(&self.graph, node_type);
        let values = self.graph.handle().block_on(rows.pull(&ids))?;
        let rows = Tensor::<B, 2>::from_data(TensorData::new(values, [ids.len(), rows.dim()]), scorer.device);
        Ok(Candidates { ids, rows })
    }
}

/// The nodes over all ranks that an end is ranked against.
struct Rivals {
    /// The number of rivals with a greater score.
    above: u64,
    /// The number of rivals with the same score.
    tied: u64,
    /// The number of rivals.
    all: u64,
}

impl Rivals {
    /// Returns the rank of the end, or `None` without rivals. Ties count half, so that a model that gives all pairs the same
    /// score gets the expected rank.
    fn rank(&self) -> Option<f64> {
        (self.all > 0).then(|| 1.0 + self.above as f64 + self.tied as f64 / 2.0)
    }
}

/// Returns the rivals of each edge's ranked end, which is the same end of all edges.
fn rank_chunk<B: GnnBackend>(
    (edges, known): (&[RankedEnd], &Known),
    scorer: &RowScorer<'_, B>,
    candidates: &Candidates<B>,
    world: &mut ProcessGroup,
) -> Result<Vec<Rivals>, TrainError> {
    let &RowScorer { model, rows, device } = scorer;
    let given: Vec<(NodeTypeId, u32)> = edges.iter().map(|edge| (edge.given_type, edge.given)).collect();
    let given = rows.pull(&given)?;
    let channels = given.len() / edges.len();
    let given = Tensor::<B, 2>::from_data(TensorData::new(given, [edges.len(), channels]), device);
    let own = &candidates.ids;
    let edge_types: Vec<u16> = edges.iter().map(|edge| edge.edge_type.0).collect();
    let queries = model.decoder.query(given, &edge_types, edges[0].end);
    let scores: Vec<f32> = if own.is_empty() {
        Vec::new()
    } else {
        host_values(model.decoder.score_all(&queries, candidates.rows.clone()))
    };
    let row = |edge: usize| &scores[edge * own.len()..(edge + 1) * own.len()];
    let positions: Vec<Option<usize>> = edges.iter().map(|edge| own.binary_search(&edge.target).ok()).collect();
    // The score of the ranked end is computed together with the others: a separately computed score could
    // differ by rounding and break ties.
    let mut targets: Vec<f32> =
        positions.iter().enumerate().map(|(edge, at)| at.map_or(0.0, |at| row(edge)[at])).collect();
    world.all_reduce(&mut targets, ReduceOp::Sum)?;
    let count = |(edge, target): (usize, &f32)| {
        let RankedEnd { edge_type, end, given, .. } = edges[edge];
        let filtered = known.get(&(edge_type, end, given)).map_or(&[][..], Vec::as_slice);
        // Both the known positions and the columns ascend, so one pass over both skips the known nodes.
        let mut filtered = filtered.iter().copied().peekable();
        let mut above = 0_u64;
        let mut tied = 0_u64;
        let mut all = 0_u64;
        for (at, score) in row(edge).iter().enumerate() {
            if filtered.next_if_eq(&(at as u32)).is_some() || positions[edge] == Some(at) {
                continue;
            }
            all += 1;
            match target.partial_cmp(score) {
                Some(std::cmp::Ordering::Greater) => {}
                Some(std::cmp::Ordering::Equal) => tied += 1,
                // A NaN score counts against the model.
                Some(std::cmp::Ordering::Less) | None => above += 1,
            }
        }
        [above, tied, all]
    };
    let counts: Vec<[u64; 3]> = targets.par_iter().enumerate().map(count).collect();
    let mut flat: Vec<u64> = counts.into_iter().flatten().collect();
    world.all_reduce(&mut flat, ReduceOp::Sum)?;
    Ok(flat.chunks_exact(3).map(|counts| Rivals { above: counts[0], tied: counts[1], all: counts[2] }).collect())
}

/// Returns the known edges of the given ends, training and held-out. Every rank must call this.
fn known(graph: &DistGraph, ends: &[RankedEnd], world: &mut ProcessGroup) -> Result<Known, TrainError> {
    let mut known: Known = ends.iter().map(|edge| ((edge.edge_type, edge.end, edge.given), Vec::new())).collect();
    let kinds: BTreeSet<(EdgeTypeId, EdgeEnd)> = ends.iter().map(|edge| (edge.edge_type, edge.end)).collect();
    let mut ids: BTreeMap<NodeTypeId, Vec<u32>> = BTreeMap::new();
    for (edge_type, end) in kinds {
        let of_type = graph.part().edges(edge_type);
        let candidate_type = if end == EdgeEnd::Destination { of_type.dst_type } else { of_type.src_type };
        let ids = ids.entry(candidate_type).or_insert_with(|| candidates(graph, candidate_type));
        let mut add = |given: u32, candidate: u32| {
            if let (Some(found), Ok(at)) = (known.get_mut(&(edge_type, end, given)), ids.binary_search(&candidate)) {
                found.push(at as u32);
            }
        };
        match end {
            EdgeEnd::Destination => for_each_edge(graph, edge_type, &mut add),
            EdgeEnd::Source => {
                // The known sources of a destination may have their rows on other ranks, so they are gathered. Only the
                // first of the ranks that share a part sends its edges.
                let given: BTreeSet<u32> = of_kind(ends, edge_type, end).map(|edge| edge.given).collect();
                let mut pairs = Vec::new();
                if graph.replicas().1 == 0 {
                    for_each_edge(graph, edge_type, |src, dst| {
                        if given.contains(&dst) {
                            pairs.extend([dst, src]);
                        }
                    });
                }
                all_gather_records(world, bytemuck::cast_slice(&pairs), PAIR_BYTES, |theirs| {
                    let theirs = bytemuck::pod_collect_to_vec::<u8, u32>(theirs);
                    theirs.chunks_exact(2).for_each(|pair| add(pair[0], pair[1]));
                })?;
            }
        }
        for_each_reverse(graph, edge_type, &[Split::Valid, Split::Test], world, |src, dst| match end {
            EdgeEnd::Destination => add(src, dst),
            EdgeEnd::Source => add(dst, src),
        })?;
    }
    known.values_mut().for_each(|positions| {
        positions.sort_unstable();
        positions.dedup();
    });
    Ok(known)
}

fn of_kind(ends: &[RankedEnd], edge_type: EdgeTypeId, end: EdgeEnd) -> impl Iterator<Item = &RankedEnd> {
    ends.iter().filter(move |edge| (edge.edge_type, edge.end) == (edge_type, end))
}

/// Calls `visit` with the ends of all edges of a type in this rank's part, training and held-out, in global ids.
fn for_each_edge(graph: &DistGraph, edge_type: EdgeTypeId, mut visit: impl FnMut(u32, u32)) {
    let of_type = graph.part().edges(edge_type);
    let start = graph.part().owned(of_type.dst_type).start;
    for row in 0..of_type.csc.num_rows() {
        of_type.csc.neighbors(row).iter().for_each(|&src| visit(src, start + row as u32));
    }
    for list in [&of_type.held_out.valid, &of_type.held_out.test] {
        list.src.iter().zip(&list.dst[..]).for_each(|(&src, &dst)| visit(src, dst));
    }
}

/// A held-out edge, in global ids.
struct HeldOutEdge {
    edge_type: EdgeTypeId,
    src: u32,
    dst: u32,
}

impl HeldOutEdge {
    /// Returns the edge with one end to rank.
    fn ranked(&self, graph: &DistGraph, end: EdgeEnd) -> RankedEnd {
        let edges = graph.part().edges(self.edge_type);
        let (candidate_type, given_type, given, target) = match end {
            EdgeEnd::Destination => (edges.dst_type, edges.src_type, self.src, self.dst),
            EdgeEnd::Source => (edges.src_type, edges.dst_type, self.dst, self.src),
        };
        RankedEnd { candidate_type, edge_type: self.edge_type, end, given_type, given, target }
    }
}

/// Returns the held-out edges of all parts.
fn gather_held_out(
    graph: &DistGraph,
    edge_types: &[EdgeTypeId],
    split: Split,
    world: &mut ProcessGroup,
) -> Result<Vec<HeldOutEdge>, TrainError> {
    // Only the first of the ranks that share a part sends its edges. An edge is encoded as three `u32`: edge type, source,
    // destination.
    let (_, mine) = graph.replicas();
    let mut words = Vec::new();
    for &edge_type in edge_types.iter().filter(|_| mine == 0) {
        let held_out = &graph.part().edges(edge_type).held_out;
        let list = if split == Split::Test { &held_out.test } else { &held_out.valid };
        for (&src, &dst) in list.src.iter().zip(&list.dst[..]) {
            words.extend([u32::from(edge_type.0), src, dst]);
        }
    }
    let mut edges = Vec::new();
    for theirs in all_gather_large(world, bytemuck::cast_slice(&words))? {
        let theirs = bytemuck::pod_collect_to_vec::<u8, u32>(&theirs);
        edges.extend(theirs.chunks_exact(3).map(|words| HeldOutEdge {
            edge_type: EdgeTypeId(words[0] as u16),
            src: words[1],
            dst: words[2],
        }));
    }
    Ok(edges)
}
