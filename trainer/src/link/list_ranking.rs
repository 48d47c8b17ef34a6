//! The ranking of all destinations for sources with held-out edges.

use super::config::{LinkMetric, LinkTrainingConfig, target_edge_types};
use super::list_metric::{ListMetric, ListScores};
use super::node_rows::RowScorer;
use crate::error::TrainError;
use crate::gather::all_gather_large;
use crate::inference::{
    ExcludedEdges, LayerWiseConfig, RankingReport, ScoredNode, TopDestinations, TopDestinationsConfig,
    find_top_destinations,
};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeTypeId, Split};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of sources of each edge type whose lists are compared, unless the settings have another one.
const DEFAULT_SOURCES: usize = 2000;
/// Combined with the seed (the bytes spell "lists"), so that sources and other draws use different random numbers.
const STREAM: u64 = 0x006c_6973_7473;
/// The number of nodes whose ids are resolved at once.
const IDS_AT_ONCE: usize = 1 << 16;

/// The comparison of the best destinations of sources with their held-out edges, as
/// [`TopDestinations`] finds them: among all nodes of the destination's type, without training edges.
///
/// The sources are drawn by their ids in the dataset from all sources with held-out edges of the split, so they do not depend
/// on the partitioning.
pub(super) struct ListRanking {
    metrics: Vec<ListMetric>,
    /// By edge type, the sources of validation edges and the sources of test edges, as ids of the dataset, ascending.
    sources: BTreeMap<EdgeTypeId, [Vec<u32>; 2]>,
}

impl ListRanking {
    /// Draws the sources, if there are metrics of lists. Every rank must call this.
    ///
    /// # Errors
    /// [`TrainError::Config`] if nodes have no rows for all edges, and for lists that are longer than the number of
    /// destinations; an error of a peer.
    pub(super) fn new(
        graph: &Arc<DistGraph>,
        config: &LinkTrainingConfig,
        world: &mut ProcessGroup,
    ) -> Result<Option<Self>, TrainError> {
        let metrics = metrics_of_lists(config);
        let Some(&first) = metrics.first() else { return Ok(None) };
        let meta = graph.part().meta();
        let edge_types = target_edge_types(meta, config)?;
        if let Some(why) = refusal(graph, config) {
            return Err(TrainError::config(format!(
                "{first} lists the best of all destinations, {why} (`metric=mrr`)"
            )));
        }
        let num_sources = config.eval_sources.unwrap_or(DEFAULT_SOURCES);
        let mut sources = BTreeMap::new();
        for edge_type in edge_types {
            let of_type = &meta.node_types[graph.part().edges(edge_type).dst_type.index()];
            let num_all = of_type.book.num_nodes();
            if let Some(metric) = metrics.iter().find(|metric| metric.depth() as usize > num_all) {
                return Err(TrainError::config(format!(
                    "{metric} lists more destinations than there are: type {} has {num_all} nodes, choose a smaller \
                     number (`metric`)",
                    of_type.name
                )));
            }
            let key = combine(combine(config.training.fit.seed, STREAM), u64::from(edge_type.0));
            let mut of_splits = [Vec::new(), Vec::new()];
            for (of_split, split) in of_splits.iter_mut().zip([Split::Valid, Split::Test]) {
                *of_split = drawn(sources_of(graph, edge_type, split, world)?, num_sources, key);
            }
            sources.insert(edge_type, of_splits);
        }
        Ok(Some(Self { metrics, sources }))
    }

    /// Compares the lists of a split. Returns `None` without held-out edges. Every rank must call this.
    pub(super) fn run<B: GnnBackend>(
        &self,
        split: Split,
        scorer: &RowScorer<'_, B>,
        world: &mut ProcessGroup,
    ) -> Result<Option<ListScores>, TrainError> {
        let mut all = ListScores::default();
        for (&edge_type, of_splits) in &self.sources {
            let sources = &of_splits[usize::from(split == Split::Test)];
            let of_type = self.of_type(edge_type, split, sources, scorer, world)?;
            add_weighted(&mut all.metrics, &of_type.metrics, of_type.sources);
            add_weighted(&mut all.popularity, &of_type.popularity, of_type.sources);
            all.sources += of_type.sources;
        }
        if all.sources == 0 {
            return Ok(None);
        }
        for value in all.metrics.values_mut().chain(all.popularity.values_mut()) {
            *value /= all.sources as f64;
        }
        Ok(Some(all))
    }

    /// Compares the lists of the sources of an edge type.
    fn of_type<B: GnnBackend>(
        &self,
        edge_type: EdgeTypeId,
        split: Split,
        sources: &[u32],
        scorer: &RowScorer<'_, B>,
        world: &mut ProcessGroup,
    ) -> Result<ListScores, TrainError> {
        let mut scores = ListScores::default();
        if sources.is_empty() {
            return Ok(scores);
        }
        let &RowScorer { model, rows, device } = scorer;
        let ends = rows.ends(edge_type)?;
        let num_destinations = ends.num_nodes()[1];
        let longest = self.metrics.iter().map(|metric| metric.depth() as usize).max().unwrap_or(1);
        let config = TopDestinationsConfig {
            k: longest,
            excluded: ExcludedEdges::Train,
            memory_bytes: LayerWiseConfig::default().memory_bytes,
        };
        let search = TopDestinations::new(ends, Some(sources), config, world)?.compared_with(split, world)?;
        // Metrics of one depth share the reports of the model and of the popularity, which have a flag per destination.
        let mut reports = BTreeMap::new();
        for metric in &self.metrics {
            let report = RankingReport::new(metric.depth() as usize, num_destinations);
            reports.insert(metric.depth(), [report.clone(), report]);
        }
        for sources in sources.chunks(search.sources_at_once()) {
            let best = find_top_destinations(&search, model, sources, world, device)?;
            let popular = search.popular_destinations(sources, world)?;
            let held_out = search.held_out_destinations(sources, world)?;
            for (&depth, [of_model, of_popularity]) in &mut reports {
                of_model.add(&first_of(&best, depth), &held_out);
                of_popularity.add(&first_of(&popular, depth), &held_out);
            }
        }
        for metric in &self.metrics {
            let [of_model, of_popularity] = &reports[&metric.depth()];
            let (Some(of_model), Some(of_popularity)) = (of_model.metrics(), of_popularity.metrics()) else { continue };
            scores.sources = of_model.sources;
            scores.metrics.insert(metric.to_string(), metric.of(&of_model));
            scores.popularity.insert(metric.to_string(), metric.of(&of_popularity));
        }
        Ok(scores)
    }
}

/// Returns the metrics of lists that the settings name.
fn metrics_of_lists(config: &LinkTrainingConfig) -> Vec<ListMetric> {
    let mut metrics = Vec::new();
    for metric in config.metric.iter() {
        if let LinkMetric::OfLists(metric) = metric {
            metrics.push(metric);
        }
    }
    metrics
}

/// Returns the reason why destinations cannot be listed, if there is one.
fn refusal(graph: &DistGraph, config: &LinkTrainingConfig) -> Option<&'static str> {
    if graph.is_client() {
        let why = "and servers compute no embeddings of all nodes: train with the parts on this node (`dataset_root_dir`), or \
                   choose another metric";
        return Some(why);
    }
    if config.training.sampler.temporal.is_some() {
        let why = "but the neighbors of a node depend on the time of the edge (`temporal`), so that a source has no list for \
                   all edges: choose another metric";
        return Some(why);
    }
    None
}

/// Returns the sources of the held-out edges of a split over all parts, as ids of the dataset, ascending and distinct. Every
/// rank must call this.
fn sources_of(
    graph: &Arc<DistGraph>,
    edge_type: EdgeTypeId,
    split: Split,
    world: &mut ProcessGroup,
) -> Result<Vec<u32>, TrainError> {
    let edges = graph.part().edges(edge_type);
    let list = if split == Split::Test { &edges.held_out.test } else { &edges.held_out.valid };
    let mut own = Vec::new();
    // Only the first of the ranks that share a part sends its edges.
    if graph.holds_first_copy() {
        own.extend_from_slice(&list.src);
        if graph.part().meta().is_undirected(edge_type) {
            own.extend_from_slice(&list.dst);
        }
        own.sort_unstable();
        own.dedup();
    }
    let mut originals = Vec::with_capacity(own.len());
    for ids in own.chunks(IDS_AT_ONCE) {
        originals.extend(graph.handle().block_on(graph.original_ids(edges.src_type, ids.to_vec()))?);
    }
    let mut sources = Vec::new();
    for theirs in all_gather_large(world, bytemuck::cast_slice(&originals))? {
        sources.extend(bytemuck::pod_collect_to_vec::<u8, u32>(&theirs));
    }
    sources.sort_unstable();
    sources.dedup();
    Ok(sources)
}

/// Draws at most `most` of some sources by their ids.
fn drawn(mut sources: Vec<u32>, most: usize, key: u64) -> Vec<u32> {
    if sources.len() > most {
        sources
            .sort_by_cached_key(|&source| (CounterRng::new(combine(key, u64::from(source))).below(u64::MAX), source));
        sources.truncate(most);
        sources.sort_unstable();
    }
    sources
}

/// Returns the first `depth` nodes of each list.
fn first_of(lists: &[Vec<ScoredNode>], depth: u32) -> Vec<Vec<ScoredNode>> {
    lists.iter().map(|list| list[..list.len().min(depth as usize)].to_vec()).collect()
}

/// Adds values times a weight to sums by the same names.
fn add_weighted(sums: &mut BTreeMap<String, f64>, values: &BTreeMap<String, f64>, weight: u64) {
    for (name, value) in values {
        *sums.entry(name.clone()).or_default() += value * weight as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_drawn_by_their_ids() {
        let all: Vec<u32> = (0..100).collect();
        let few = drawn(all.clone(), 10, 7);
        assert_eq!(few.len(), 10);
        assert!(few.is_sorted() && few.iter().any(|&source| source >= 10), "{few:?}");
        // The draw of a source does not depend on the others.
        let others: Vec<u32> = all.iter().copied().filter(|source| few.contains(source) || source % 3 == 0).collect();
        assert_eq!(drawn(others, 10, 7), few);
        assert_ne!(drawn(all.clone(), 10, 8), few);
        assert_eq!(drawn(all.clone(), 100, 7), all);
    }
}
