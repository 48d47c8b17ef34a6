//! The ranking of all destinations for sources with held-out edges.

use super::config::{LinkMetric, LinkTrainingConfig, target_edge_types};
use super::list_metric::{ListMetric, ListScores};
use super::node_rows::RowScorer;
use crate::error::TrainError;
use crate::gather::all_gather_large;
use crate::inference::{
    Destinations, ExcludedEdges, KnownDestinations, LayerWiseConfig, RankingMetrics, RankingReport, ScoredNode,
    TopDestinations, TopDestinationsConfig, find_top_destinations,
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
/// The key of the draws of sources (the bytes spell "lists"). All seeds compare the same sources, so that their scores differ by the
/// models only.
const STREAM: u64 = 0x006c_6973_7473;
/// The number of nodes whose ids are resolved at once.
const IDS_AT_ONCE: usize = 1 << 16;
/// The number of sources whose most popular destinations are found at once.
const SOURCES_AT_ONCE: usize = 1 << 12;

/// The comparison of the best destinations of sources with their held-out edges, as
/// [`TopDestinations`] finds them: among all nodes of the destination's type, without training edges.
///
/// The sources are drawn by their ids in the dataset from all sources with held-out edges of the split, so they do not depend
/// on the partitioning.
pub(super) struct ListRanking {
    metrics: Vec<ListMetric>,
    /// By edge type, the sources of validation edges and the sources of test edges.
    sources: BTreeMap<EdgeTypeId, [Option<ListedSources>; 2]>,
}

/// Sources with held-out edges of a split, and all that no model changes.
struct ListedSources {
    /// Ids of the dataset, ascending.
    sources: Vec<u32>,
    /// The destinations of the held-out edges of each source.
    held_out: Vec<Vec<u32>>,
    known: Arc<KnownDestinations>,
    /// By K, the metrics of the most popular destinations.
    popularity: BTreeMap<u32, RankingMetrics>,
    /// By K, the mean share of the destinations of a source that its list holds.
    listed_share: BTreeMap<u32, f64>,
}

impl ListRanking {
    /// Draws the sources, if there are metrics of lists. Every rank must call this.
    ///
    /// # Errors
    /// [`TrainError::Config`] if nodes have no rows for all edges, for lists that are longer than the number of destinations, and
    /// for a metric that is the same for every model; an error of a peer.
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
            let key = combine(STREAM, u64::from(edge_type.0));
            let all = Arc::new(Destinations::of(graph, edge_type)?);
            let mut of_splits = [None, None];
            for (of_split, split) in of_splits.iter_mut().zip([Split::Valid, Split::Test]) {
                let of_type = drawn(sources_of(graph, edge_type, split, world)?, num_sources, key);
                if !of_type.is_empty() {
                    let listed = ListedSources::new(&all, of_type, split, &metrics, world)?;
                    listed.check(&metrics, split)?;
                    *of_split = Some(listed);
                }
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
            let Some(listed) = &of_splits[usize::from(split == Split::Test)] else { continue };
            let of_type = self.of_type(edge_type, listed, scorer, world)?;
            add_weighted(&mut all.metrics, &of_type.metrics, of_type.sources);
            add_weighted(&mut all.popularity, &of_type.popularity, of_type.sources);
            add_weighted(&mut all.listed_share, &of_type.listed_share, of_type.sources);
            all.sources += of_type.sources;
        }
        if all.sources == 0 {
            return Ok(None);
        }
        for value in all.metrics.values_mut().chain(all.popularity.values_mut()).chain(all.listed_share.values_mut()) {
            *value /= all.sources as f64;
        }
        Ok(Some(all))
    }

    /// Compares the lists of the sources of an edge type.
    fn of_type<B: GnnBackend>(
        &self,
        edge_type: EdgeTypeId,
        listed: &ListedSources,
        scorer: &RowScorer<'_, B>,
        world: &mut ProcessGroup,
    ) -> Result<ListScores, TrainError> {
        let &RowScorer { model, rows, device } = scorer;
        let ends = rows.ends(edge_type)?;
        let num_destinations = ends.num_nodes()[1];
        let config = TopDestinationsConfig {
            k: longest(&self.metrics),
            excluded: ExcludedEdges::Train,
            memory_bytes: LayerWiseConfig::default().memory_bytes,
        };
        let search = TopDestinations::of_known(ends, &listed.known, config, world)?;
        let mut reports = reports_of(&self.metrics, num_destinations);
        let block = search.sources_at_once();
        for (sources, held_out) in listed.sources.chunks(block).zip(listed.held_out.chunks(block)) {
            let best = find_top_destinations(&search, model, sources, world, device)?;
            for (&depth, report) in &mut reports {
                report.add(&first_of(&best, depth), held_out);
            }
        }
        let shares = listed.listed_share.iter().map(|(depth, share)| (depth.to_string(), *share));
        let mut scores = ListScores { listed_share: shares.collect(), ..ListScores::default() };
        for metric in &self.metrics {
            let depth = metric.depth();
            let (Some(of_model), Some(of_popularity)) = (reports[&depth].metrics(), listed.popularity.get(&depth))
            else {
                continue;
            };
            scores.sources = of_model.sources;
            scores.metrics.insert(metric.to_string(), metric.of(&of_model));
            scores.popularity.insert(metric.to_string(), metric.of(of_popularity));
        }
        Ok(scores)
    }
}

impl ListedSources {
    /// Finds the known and the most popular destinations of some sources. Every rank must call this.
    fn new(
        all: &Arc<Destinations>,
        sources: Vec<u32>,
        split: Split,
        metrics: &[ListMetric],
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let num_all = all.num_all();
        let known = KnownDestinations::find(all, Some(&sources), ExcludedEdges::Train, split, world)?;
        let mut reports = reports_of(metrics, num_all);
        let mut listed_share: BTreeMap<u32, f64> = reports.keys().map(|&depth| (depth, 0.0)).collect();
        let mut held_out = Vec::with_capacity(sources.len());
        for sources in sources.chunks(SOURCES_AT_ONCE) {
            let popular = known.popular(longest(metrics), sources, world)?;
            let of_block = known.held_out(sources, world)?;
            for (&depth, report) in &mut reports {
                report.add(&first_of(&popular, depth), &of_block);
            }
            for num_known in known.count(sources, world)? {
                let num_listable = (num_all as u64).saturating_sub(num_known).max(1);
                for (&depth, share) in &mut listed_share {
                    *share += (f64::from(depth) / num_listable as f64).min(1.0);
                }
            }
            held_out.extend(of_block);
        }
        listed_share.values_mut().for_each(|share| *share /= sources.len() as f64);
        let mut popularity = BTreeMap::new();
        for (depth, report) in reports {
            popularity.extend(report.metrics().map(|metrics| (depth, metrics)));
        }
        Ok(Self { sources, held_out, known: Arc::new(known), popularity, listed_share })
    }

    /// Checks that no metric is the same for every model, since the lists of all sources hold all of their destinations.
    fn check(&self, metrics: &[ListMetric], split: Split) -> Result<(), TrainError> {
        let mut unordered = metrics.iter().filter(|metric| !metric.reads_order());
        let Some(metric) = unordered.find(|metric| self.listed_share[&metric.depth()] >= 1.0) else { return Ok(()) };
        Err(TrainError::config(format!(
            "{metric} is the same for every model: the lists of all {} sources with {} edges hold all destinations that are no \
             training edges: choose a smaller number, or ndcg@{depth} or map@{depth}, which read the order (`metric`)",
            self.sources.len(),
            split.name(),
            depth = metric.depth()
        )))
    }
}

/// Makes a report for each length of lists. Metrics of one length share it.
fn reports_of(metrics: &[ListMetric], num_destinations: usize) -> BTreeMap<u32, RankingReport> {
    let mut reports = BTreeMap::new();
    for metric in metrics {
        reports.insert(metric.depth(), RankingReport::new(metric.depth() as usize, num_destinations));
    }
    reports
}

/// Returns the length of the longest lists.
fn longest(metrics: &[ListMetric]) -> usize {
    metrics.iter().map(|metric| metric.depth() as usize).max().unwrap_or(1)
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
