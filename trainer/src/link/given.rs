//! Ranking of held-out edges against the negatives that the dataset gives.

use super::config::{LinkMetric, LinkTrainingConfig, target_edge_types};
use super::edge_batches::Pairs;
use super::judged::Judged;
use super::node_rows::RowScorer;
use super::scores::LinkScores;
use crate::error::TrainError;
use crate::inference_progress::{InferenceProgress, InferenceStep};
use crate::metrics::MetricList;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::{EdgeList, EdgeTypeId, GivenNegatives, Meta, NegativesMeta, Split};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The number of pairs that are scored between two meetings of the ranks.
const PAIRS_AT_ONCE: usize = 1 << 20;

/// The ranking of held-out edges against given negatives. Each rank scores the edges and the negatives of its own part.
pub(super) struct GivenRanking {
    graph: Arc<DistGraph>,
    edge_types: Vec<EdgeTypeId>,
    metrics: MetricList<LinkMetric>,
    /// True if all edges share their negatives.
    is_shared: bool,
}

/// Pairs that are scored together.
struct Piece {
    edge_type: EdgeTypeId,
    pairs: Pairs,
    /// Positions among the pairs that this rank scores.
    range: Range<usize>,
}

impl GivenRanking {
    pub(super) fn new(graph: &Arc<DistGraph>, config: &LinkTrainingConfig) -> Result<Self, TrainError> {
        let meta = graph.part().meta();
        let edge_types = given_edge_types(meta, config)?;
        let is_shared = are_shared(meta, &edge_types)?;
        Ok(Self { graph: graph.clone(), edge_types, metrics: config.metric.clone(), is_shared })
    }

    /// Ranks the edges of a split. Every rank must call this.
    pub(super) fn run<B: GnnBackend>(
        &self,
        split: Split,
        scorer: &RowScorer<'_, B>,
        progress: &dyn InferenceProgress,
        world: &mut ProcessGroup,
    ) -> Result<LinkScores, TrainError> {
        if !self.is_shared {
            return self.run_types(&self.edge_types, split, scorer, progress, world);
        }
        // The edges of a type share the negatives of their own type only.
        let mut of_types = Vec::new();
        for edge_type in self.edge_types.chunks(1) {
            of_types.push(self.run_types(edge_type, split, scorer, progress, world)?);
        }
        Ok(LinkScores::mean(&of_types))
    }

    /// Ranks the edges of some types among their negatives.
    fn run_types<B: GnnBackend>(
        &self,
        edge_types: &[EdgeTypeId],
        split: Split,
        scorer: &RowScorer<'_, B>,
        progress: &dyn InferenceProgress,
        world: &mut ProcessGroup,
    ) -> Result<LinkScores, TrainError> {
        let mut judged = Judged::new(split, &self.metrics, self.is_shared);
        let pieces = self.pieces(edge_types, split);
        let mut most = [pieces.len() as u64];
        world.all_reduce(&mut most, ReduceOp::Max)?;
        let num_steps = most[0] as usize;
        for step in 0..num_steps {
            if let Some(piece) = pieces.get(step) {
                self.judge(split, piece, scorer, &mut judged)?;
            }
            // Meeting at every step bounds the wait for a slow rank to the time of one piece.
            world.barrier()?;
            progress.step(InferenceStep { pass: 1, num_passes: 1, step: step + 1, num_steps });
        }
        judged.scores(world)
    }

    fn list(&self, edge_type: EdgeTypeId, split: Split) -> &EdgeList {
        let held_out = &self.graph.part().edges(edge_type).held_out;
        if split == Split::Test { &held_out.test } else { &held_out.valid }
    }

    /// Returns the pieces of this rank's pairs. Ranks that share a part take its pairs in turn.
    fn pieces(&self, edge_types: &[EdgeTypeId], split: Split) -> Vec<Piece> {
        let (sharers, mine) = self.graph.replicas();
        let mut pieces = Vec::new();
        for &edge_type in edge_types {
            let list = self.list(edge_type, split);
            let mut add = |pairs: Pairs, len: usize, num_negatives: usize| {
                let own = len.saturating_sub(mine).div_ceil(sharers);
                let per_piece = (PAIRS_AT_ONCE / (num_negatives + 1)).max(1);
                for start in (0..own).step_by(per_piece) {
                    let range = start..own.min(start + per_piece);
                    pieces.push(Piece { edge_type, pairs, range });
                }
            };
            match &list.negatives {
                None => {}
                Some(GivenNegatives::OfEach { num, .. }) => add(Pairs::EdgesWithNegatives, list.len(), *num),
                Some(GivenNegatives::Shared { src, .. }) => {
                    add(Pairs::Edges, list.len(), 0);
                    add(Pairs::SharedNegatives, src.len(), 0);
                }
            }
        }
        pieces
    }

    /// Scores the pairs of a piece.
    fn judge<B: GnnBackend>(
        &self,
        split: Split,
        piece: &Piece,
        scorer: &RowScorer<'_, B>,
        judged: &mut Judged,
    ) -> Result<(), TrainError> {
        let (sharers, mine) = self.graph.replicas();
        let list = self.list(piece.edge_type, split);
        let own = piece.range.clone().map(|at| mine + at * sharers);
        let mut sources = Vec::new();
        let mut candidates = Vec::new();
        let mut num = 1;
        match (&list.negatives, piece.pairs) {
            (Some(GivenNegatives::OfEach { dst: negatives, num: of_each }), Pairs::EdgesWithNegatives) => {
                num = 1 + of_each;
                for edge in own {
                    sources.push(list.src[edge]);
                    candidates.push(list.dst[edge]);
                    candidates.extend_from_slice(&negatives[edge * of_each..(edge + 1) * of_each]);
                }
            }
            (Some(GivenNegatives::Shared { src, dst }), Pairs::SharedNegatives) => {
                for pair in own {
                    sources.push(src[pair]);
                    candidates.push(dst[pair]);
                }
            }
            _ => {
                for edge in own {
                    sources.push(list.src[edge]);
                    candidates.push(list.dst[edge]);
                }
            }
        }
        let scores = scorer.scores(piece.edge_type, (&sources, &candidates, num))?;
        match piece.pairs {
            Pairs::EdgesWithNegatives => {
                scores.chunks_exact(num).for_each(|scores| judged.add(scores[0], &scores[1..]));
            }
            Pairs::Edges => scores.into_iter().for_each(|score| judged.add_score(score, true)),
            Pairs::SharedNegatives => scores.into_iter().for_each(|score| judged.add_score(score, false)),
        }
        Ok(())
    }
}

/// Returns true if the edges of all these types share their negatives, and false if each edge has its own.
///
/// # Errors
/// [`TrainError::Config`] for types of both kinds.
pub(super) fn are_shared(meta: &Meta, edge_types: &[EdgeTypeId]) -> Result<bool, TrainError> {
    let given = edge_types.iter().flat_map(|e| meta.edge_types[e.index()].negatives.iter().flatten());
    let kinds: BTreeSet<bool> = given.map(|given| matches!(given, NegativesMeta::Shared(_))).collect();
    if kinds.len() > 1 {
        return Err(TrainError::Config {
            what: "some held-out edges have negatives of their own and others share them, which gives no common \
                   ranking: choose edge types with the same kind (`edge_types`)"
                .into(),
        });
    }
    Ok(kinds.contains(&true))
}

/// Returns the edge types to evaluate: the types of the configuration that have given negatives.
pub(super) fn given_edge_types(meta: &Meta, config: &LinkTrainingConfig) -> Result<Vec<EdgeTypeId>, TrainError> {
    let fail = |what: String| Err(TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) });
    let has_given = |e: &EdgeTypeId| meta.edge_types[e.index()].negatives.iter().any(Option::is_some);
    let edge_types: Vec<EdgeTypeId> = target_edge_types(meta, config)?.into_iter().filter(has_given).collect();
    if edge_types.is_empty() {
        return fail(
            "it gives no negatives: save val_neg.npy and test_neg.npy beside the held-out edges and partition again, or \
             rank sampled destinations (`eval_negatives=100`)"
                .into(),
        );
    }
    for e in &edge_types {
        let edges = &meta.edge_types[e.index()];
        for (at, split) in ["validation", "test"].into_iter().enumerate() {
            if edges.held_out[at] > 0 && edges.negatives[at].is_none() {
                return fail(format!(
                    "the {split} edges of type {} have no given negatives, but the other held-out edges have: give \
                     them for both",
                    edges.relation
                ));
            }
        }
    }
    Ok(edge_types)
}
