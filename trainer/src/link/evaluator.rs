//! Evaluation of link prediction: ranks held-out edges against negatives.

use super::batch::{LinkTensorBatch, NegativeChoice, NegativeRows};
use super::config::{LinkEvaluation, LinkMetric, LinkTrainingConfig, held_out_of, target_edge_types};
use super::edge_batches::{EdgeBatches, EdgeGroup, EdgeLoaders, Pairs};
use super::filtered::FilteredRanking;
use super::given::GivenRanking;
use super::judged::{Judged, depths_of};
use super::list_ranking::ListRanking;
use super::loss::LinkLoss;
use super::most_negatives::MostNegatives;
use super::node_rows::{NodeEncoder, RowScorer};
use super::reverse_overlap::check_reverse_types;
use super::scored_edges::ScoredEdges;
use super::scores::{LinkResult, LinkScores};
use super::step::scores;
use crate::batch_input::BatchOptions;
use crate::error::TrainError;
use crate::fit::{Evaluation, Evaluator, Selection};
use crate::inference_progress::InferenceStep;
use crate::metrics::{MetricList, RankingMetrics};
use crate::model_file::SavedLoss;
use crate::models::{GraphSchema, LinkModel, Mode, ModelInput};
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{LinkBatch, Negatives};
use edgecut_dist_sampler::{DistGraph, DistNeighborSampler, Fanout, NodeFields, SamplerConfig};
use edgecut_gnn::ops::{GnnBackend, consumed, host_values};
use edgecut_graph::{EdgeTypeId, Split};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The evaluation of link prediction models on the validation and test edges.
pub struct LinkEvaluator<B: Backend> {
    ranking: Ranking,
    /// The computation of the rows of all nodes, if edges are ranked by them or destinations are listed.
    encoder: Option<NodeEncoder>,
    /// The lists of the best destinations, if metrics judge them.
    lists: Option<ListRanking>,
    negatives: MostNegatives,
    /// True if there are validation edges, and if there are test edges.
    has_edges: [bool; 2],
    schema: Arc<GraphSchema>,
    options: BatchOptions,
    loss: LinkLoss,
    metrics: MetricList<LinkMetric>,
    device: B::Device,
}

/// The way in which edges are ranked.
enum Ranking {
    /// In batches with the neighborhoods of all ends.
    Batches(EdgeBatches),
    /// With the rows of all nodes, which are computed once per evaluation.
    Rows(Candidates),
}

/// The nodes against which edges are ranked.
enum Candidates {
    /// Sampled destinations. Batches have no neighborhoods.
    Sampled(EdgeBatches),
    /// The negatives that the dataset gives.
    Given(GivenRanking),
    /// All nodes.
    All(FilteredRanking),
}

impl<B: GnnBackend> LinkEvaluator<B> {
    /// Creates the loaders of the held-out edges. Every rank must call this.
    ///
    /// # Errors
    /// [`TrainError::Config`] for settings that contradict the graph or each other, and for a metric that would be the same
    /// for every model, and if held-out edges are training edges of a declared reverse type. An error of a peer.
    pub(super) fn new(
        graph: &Arc<DistGraph>,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        config: &LinkTrainingConfig,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let negatives = MostNegatives::new(graph.part().meta(), config)?;
        check_reverse_types(graph, config, world)?;
        let is_sampled = config.training.eval_layer_wise.is_none();
        // Nodes have one row for all edges only if their neighbors do not depend on the edge.
        let has_rows = !graph.is_client() && config.training.sampler.temporal.is_none();
        let in_batches = match config.eval_negatives {
            LinkEvaluation::Sampled(_) => is_sampled,
            LinkEvaluation::Given => is_sampled && !has_rows,
            LinkEvaluation::Filtered => false,
        };
        let lists = ListRanking::new(graph, config, world)?;
        let mut encoder = None;
        if !in_batches || lists.is_some() {
            let edge_types = target_edge_types(graph.part().meta(), config)?;
            encoder = Some(NodeEncoder::new(graph, schema, options, config, &edge_types, world)?);
        }
        let ranking = match config.eval_negatives {
            LinkEvaluation::Sampled(num) if in_batches => {
                let sampler = schema.sampler(graph, config.training.eval_sampler())?;
                let loaders = EdgeLoaders { sampler, wanted: options.wanted(), config };
                Ranking::Batches(loaders.sampled(num, world)?)
            }
            LinkEvaluation::Given if in_batches => {
                let sampler = schema.sampler(graph, config.training.eval_sampler())?;
                let loaders = EdgeLoaders { sampler, wanted: options.wanted(), config };
                Ranking::Batches(loaders.given(world)?)
            }
            LinkEvaluation::Sampled(num) => {
                let no_neighbors = SamplerConfig::new(Vec::<Fanout>::new());
                let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), no_neighbors)?);
                let loaders = EdgeLoaders { sampler, wanted: NodeFields::default(), config };
                Ranking::Rows(Candidates::Sampled(loaders.sampled(num, world)?))
            }
            LinkEvaluation::Given => Ranking::Rows(Candidates::Given(GivenRanking::new(graph, config)?)),
            LinkEvaluation::Filtered if !graph.is_even() => {
                let what = "all nodes are ranked only if the same number of processes holds each part: start a \
                            multiple of the number of parts, or fewer processes than parts, or rank sampled \
                            nodes (`eval_negatives=100`)";
                return Err(TrainError::config(what));
            }
            LinkEvaluation::Filtered => Ranking::Rows(Candidates::All(FilteredRanking::new(graph, config, world)?)),
        };
        let device = device.clone();
        let meta = graph.part().meta();
        let has_edges = held_out_of(meta, &target_edge_types(meta, config)?);
        Ok(Self {
            ranking,
            encoder,
            lists,
            negatives,
            has_edges,
            schema: Arc::clone(schema),
            options,
            loss: config.loss,
            metrics: config.metric.clone(),
            device,
        })
    }

    /// Ranks the edges of some splits. Computes the rows of all nodes once, if the ranking needs them. Every rank must call
    /// this.
    fn rank<const N: usize>(
        &self,
        splits: [Split; N],
        run: &mut Evaluation<'_, LinkModel<B>>,
    ) -> Result<[LinkScores; N], TrainError> {
        let mut scores: [LinkScores; N] = std::array::from_fn(|_| LinkScores::default());
        let rows = match &self.encoder {
            Some(encoder) => Some(encoder.encode(run.model, run.embeddings, run.progress, run.world, &self.device)?),
            None => None,
        };
        let model = run.model;
        let scorer = rows.as_ref().map(|rows| RowScorer { model, rows, device: &self.device });
        match &self.ranking {
            Ranking::Batches(edges) => {
                for (scores, split) in scores.iter_mut().zip(splits) {
                    let mut of_groups = Vec::new();
                    for group in edges.of(split) {
                        let judged = Judged::new(split, &self.metrics, group.is_shared);
                        of_groups.push(self.rank_batches(group, judged, run)?);
                    }
                    *scores = match <[LinkScores; 1]>::try_from(of_groups) {
                        Ok([only]) => only,
                        Err(several) => LinkScores::mean(&several),
                    };
                }
            }
            Ranking::Rows(candidates) => {
                let scorer = scorer.as_ref().ok_or_else(|| TrainError::batch("the rows of all nodes are missing"))?;
                for (scores, split) in scores.iter_mut().zip(splits) {
                    *scores = self.rank_rows(candidates, split, scorer, run)?;
                }
            }
        }
        for (scores, split) in scores.iter_mut().zip(splits) {
            *scores = std::mem::take(scores).without_certain_hits(self.negatives.of(split));
            if let (Some(lists), Some(scorer)) = (&self.lists, &scorer) {
                scores.lists = lists.run(split, scorer, run.world)?;
            }
        }
        Ok(scores)
    }

    /// Ranks the edges of a group.
    fn rank_batches(
        &self,
        group: &EdgeGroup,
        mut judged: Judged,
        run: &mut Evaluation<'_, LinkModel<B>>,
    ) -> Result<LinkScores, TrainError> {
        for (pairs, loader) in &group.loaders {
            let options = self.options;
            let device = self.device.clone();
            let schema = Arc::clone(&self.schema);
            // Each edge has its own negatives.
            let choice = NegativeChoice::default();
            let batches = loader
                .epoch_map(0, move |batch| LinkTensorBatch::<B>::new(batch, &schema, options, &choice, None, &device));
            let mut step = InferenceStep::before_first(&batches);
            for batch in batches {
                let mut batch = batch??;
                judged.leave_out(batch.num_left_out);
                batch.graph = run.embeddings.fill(batch.graph, &self.device)?;
                if let Some(input) = batch.graph.take_input() {
                    judge(run.model, &input, &batch, *pairs, &mut judged)?;
                }
                // Meeting at every step bounds the wait for a slow rank to the time of one batch.
                run.world.barrier()?;
                step.step += 1;
                run.progress.step(step);
            }
        }
        judged.scores(run.world)
    }

    /// Ranks the edges of a split with the rows of all nodes.
    fn rank_rows(
        &self,
        candidates: &Candidates,
        split: Split,
        scorer: &RowScorer<'_, B>,
        run: &mut Evaluation<'_, LinkModel<B>>,
    ) -> Result<LinkScores, TrainError> {
        let edges = match candidates {
            Candidates::All(ranking) => return ranking.run(split, scorer, run.progress, run.world),
            Candidates::Given(ranking) => return ranking.run(split, scorer, run.progress, run.world),
            Candidates::Sampled(edges) => edges,
        };
        let mut judged = Judged::new(split, &self.metrics, false);
        for (_, loader) in edges.of(split).iter().flat_map(|group| &group.loaders) {
            let batches = loader.epoch(0);
            let mut step = InferenceStep::before_first(&batches);
            for batch in batches {
                let batch = batch?;
                judged.leave_out(batch.num_left_out);
                for (edge_type, of_type) in edges_of_batch(&batch, &self.schema.edge_ends()) {
                    let OfType { sources, candidates, num } = of_type;
                    let scores = scorer.scores(edge_type, (&sources, &candidates, num))?;
                    scores.chunks_exact(num).for_each(|scores| judged.add(scores[0], &scores[1..]));
                }
                run.world.barrier()?;
                step.step += 1;
                run.progress.step(step);
            }
        }
        judged.scores(run.world)
    }
}

impl<B: GnnBackend> Evaluator<B, LinkModel<B>> for LinkEvaluator<B> {
    type Scores = LinkScores;
    type Result = LinkResult;

    fn selection(&self) -> Selection {
        Selection { metric: self.metrics.first().to_string(), higher_is_better: true }
    }

    fn metric_value(&self, scores: &LinkScores) -> Option<f64> {
        scores.get(self.metrics.first())
    }

    fn saved_loss(&self) -> Option<SavedLoss> {
        Some(SavedLoss { name: self.loss.to_string(), outputs: None })
    }

    fn evaluate(&self, split: Split, run: &mut Evaluation<'_, LinkModel<B>>) -> Result<LinkScores, TrainError> {
        if !self.has_edges[usize::from(split == Split::Test)] {
            return Ok(LinkScores::new(&RankingMetrics::with_depths(&depths_of(&self.metrics))));
        }
        let [scores] = self.rank([split], run)?;
        let has_value = scores.get(self.metrics.first()).is_some();
        if split == Split::Valid && scores.edges == 0 && scores.left_out > 0 && !has_value {
            return Err(TrainError::config(format!(
                "no epoch can be selected: the sources of all {} validation edges are connected to all nodes of the \
                 destination's type, so there are no negatives to rank against: hold out other edges, or give negatives",
                scores.left_out
            )));
        }
        Ok(scores)
    }

    // Computes the rows once for both splits.
    fn evaluate_trained(&self, run: &mut Evaluation<'_, LinkModel<B>>) -> Result<LinkResult, TrainError> {
        let [valid, test] = self.rank([Split::Valid, Split::Test], run)?;
        Ok(self.result(0, valid, test))
    }

    fn result(&self, best_epoch: u64, valid: LinkScores, test: LinkScores) -> LinkResult {
        LinkResult { best_epoch, metric: self.metrics.first(), metrics: self.metrics.clone(), valid, test }
    }
}

/// The edges of one type in a batch, in global ids.
#[derive(Default)]
struct OfType {
    sources: Vec<u32>,
    /// `[sources.len(), num]`: the destination of each edge, then its negatives.
    candidates: Vec<u32>,
    num: usize,
}

/// Returns the edges of a batch by type. `ends` are the node types at both ends of each edge type.
fn edges_of_batch(batch: &LinkBatch, ends: &[(usize, usize)]) -> BTreeMap<EdgeTypeId, OfType> {
    let Negatives::OfEach { num, dst: negatives } = &batch.negatives else { return BTreeMap::new() };
    let mut by_type: BTreeMap<EdgeTypeId, OfType> = BTreeMap::new();
    for (edge, edge_type) in batch.edge_types.iter().enumerate() {
        let (src_type, dst_type) = ends[edge_type.index()];
        let of_type = by_type.entry(*edge_type).or_default();
        let destinations = &batch.graph.nodes[dst_type].input_nodes;
        of_type.num = 1 + num;
        of_type.sources.push(batch.graph.nodes[src_type].input_nodes[batch.src[edge] as usize]);
        of_type.candidates.push(destinations[batch.dst[edge] as usize]);
        let own = &negatives[edge * num..(edge + 1) * num];
        of_type.candidates.extend(own.iter().map(|&number| destinations[number as usize]));
    }
    by_type
}

/// Scores a batch and adds the scores, and the rank of each edge among its own negatives, to `judged`.
fn judge<B: GnnBackend>(
    model: &LinkModel<B>,
    input: &ModelInput<B>,
    batch: &LinkTensorBatch<B>,
    pairs: Pairs,
    judged: &mut Judged,
) -> Result<(), TrainError> {
    debug_assert!(matches!(batch.negatives, NegativeRows::OfEach { .. }));
    for ScoredEdges { positive, negatives, .. } in scores(model, input, batch, Mode::Eval, false)?.groups {
        let [edges, num] = negatives.dims();
        let positive = host_values(positive);
        consumed();
        let negatives: Vec<f32> = if num > 0 { host_values(negatives) } else { Vec::new() };
        for edge in 0..edges {
            match pairs {
                Pairs::EdgesWithNegatives => judged.add(positive[edge], &negatives[edge * num..(edge + 1) * num]),
                Pairs::Edges => judged.add_score(positive[edge], true),
                Pairs::SharedNegatives => judged.add_score(positive[edge], false),
            }
        }
    }
    Ok(())
}
