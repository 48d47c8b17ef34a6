//! Negatives by the ranks of the last epoch.

use super::config::{LinkTrainingConfig, target_edge_types};
use super::node_rows::NodeEncoder;
use super::rank_range::RankRange;
use crate::batch_input::BatchOptions;
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::inference::{ExcludedEdges, LayerWiseConfig, TopDestinations, TopDestinationsConfig, find_top_destinations};
use crate::models::{GraphSchema, LinkModel};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{ChangingNegatives, NegativePairs};
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::EdgeTypeId;
use edgecut_graph::rng::combine;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Combined with the seed and the epoch (the bytes spell "ranked"), so that ranked destinations and other draws use different
/// random numbers.
const STREAM: u64 = 0x7261_6e6b_6564;
/// The number of nodes whose ids are resolved at once.
const IDS_AT_ONCE: usize = 1 << 16;

/// The ranking of destinations before each epoch but the first, by the model of the epoch before. The destinations in a range
/// of ranks are negatives of their source (Ying et al., "Graph convolutional neural networks for web-scale recommender
/// systems", KDD 2018).
///
/// The ranks do not depend on the parts and processes, as far as the model and its rows do not.
pub(super) struct RankedNegatives {
    encoder: NodeEncoder,
    edge_types: Vec<EdgeTypeId>,
    range: RankRange,
    /// The number of destinations that are drawn to be ranked; `None` ranks all.
    among: Option<usize>,
    seed: u64,
    /// By edge type, the sources of this rank's training edges as ids of the dataset. Empty if all ranks share all edges.
    own_sources: BTreeMap<EdgeTypeId, BTreeSet<u32>>,
    negatives: ChangingNegatives,
}

impl RankedNegatives {
    /// Prepares the ranking, if the settings ask for it. Every rank must call this.
    ///
    /// # Errors
    /// [`TrainError::Config`] on clients of servers, in temporal sampling, and for ranks that no destination can have.
    pub(super) fn new(
        graph: &Arc<DistGraph>,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        config: &LinkTrainingConfig,
        world: &mut ProcessGroup,
    ) -> Result<Option<Self>, TrainError> {
        let Some(range) = config.ranked_negatives else { return Ok(None) };
        let meta = graph.part().meta();
        let edge_types = target_edge_types(meta, config)?;
        if let Some(what) = refusal(graph, config, range, &edge_types) {
            return Err(TrainError::Config { what });
        }
        let mut own_sources = BTreeMap::new();
        // Otherwise a rank trains on edges of all parts.
        if graph.is_even() {
            for &edge_type in &edge_types {
                own_sources.insert(edge_type, sources_of(graph, edge_type)?);
            }
        }
        Ok(Some(Self {
            encoder: NodeEncoder::new(graph, schema, options, config, &edge_types, world)?,
            edge_types,
            range,
            among: config.ranked_among,
            seed: config.training.fit.seed,
            own_sources,
            negatives: ChangingNegatives::default(),
        }))
    }

    /// Returns the negatives, which [`rank`](Self::rank) changes.
    pub(super) fn negatives(&self) -> ChangingNegatives {
        self.negatives.clone()
    }

    /// Ranks the destinations of all sources for an epoch, counted from 0. Every rank must call this.
    pub(super) fn rank<B: GnnBackend>(
        &self,
        epoch: u64,
        model: &LinkModel<B>,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
        device: &B::Device,
    ) -> Result<(), TrainError> {
        let rows = self.encoder.encode(model, embeddings, &(), world, device)?;
        for &edge_type in &self.edge_types {
            let ends = rows.ends(edge_type)?;
            let num_sources = ends.num_nodes()[0];
            let config = TopDestinationsConfig {
                k: self.range.last(),
                excluded: ExcludedEdges::Train,
                memory_bytes: LayerWiseConfig::default().memory_bytes,
            };
            let mut search = TopDestinations::new(ends, None, config, world)?;
            if let Some(num) = self.among {
                search = search.among(num, combine(combine(self.seed, epoch), STREAM));
            }
            let own = self.own_sources.get(&edge_type);
            let mut pairs = Vec::new();
            for first in (0..num_sources).step_by(search.sources_at_once()) {
                let end = (first + search.sources_at_once()).min(num_sources);
                let sources: Vec<u32> = (first as u32..end as u32).collect();
                let best = find_top_destinations(&search, model, &sources, world, device)?;
                for (source, best) in sources.into_iter().zip(best) {
                    if own.is_none_or(|own| own.contains(&source)) {
                        pairs.extend(
                            best[(self.range.first() - 1).min(best.len())..].iter().map(|node| (source, node.id)),
                        );
                    }
                }
            }
            self.negatives.set(edge_type, NegativePairs::new(pairs));
        }
        Ok(())
    }
}

/// Returns the sources of a part's training edges as ids of the dataset.
fn sources_of(graph: &Arc<DistGraph>, edge_type: EdgeTypeId) -> Result<BTreeSet<u32>, TrainError> {
    let edges = graph.part().edges(edge_type);
    let mut sources = edges.csc.indices().to_vec();
    sources.sort_unstable();
    sources.dedup();
    let mut originals = BTreeSet::new();
    for ids in sources.chunks(IDS_AT_ONCE) {
        originals.extend(graph.handle().block_on(graph.original_ids(edges.src_type, ids.to_vec()))?);
    }
    Ok(originals)
}

/// Returns the reason why destinations cannot be ranked, if there is one.
fn refusal(
    graph: &DistGraph,
    config: &LinkTrainingConfig,
    range: RankRange,
    edge_types: &[EdgeTypeId],
) -> Option<String> {
    if graph.is_client() {
        let why = "servers compute no embeddings of all nodes, by which `ranked_negatives` ranks: train with the parts on this \
                   node (`dataset_root_dir`), or leave it out";
        return Some(why.into());
    }
    if config.training.sampler.temporal.is_some() {
        let why = "the neighbors of a node depend on the time of the edge (`time_attr`), so that destinations are not ranked \
                   once per epoch: leave `ranked_negatives` out";
        return Some(why.into());
    }
    let meta = graph.part().meta();
    for edge_type in edge_types {
        let dst_type = graph.part().edges(*edge_type).dst_type;
        let of_type = &meta.node_types[dst_type.index()];
        let num_all = of_type.book.num_nodes();
        let num = config.ranked_among.unwrap_or(num_all).min(num_all);
        if range.last() > num {
            return Some(format!(
                "`ranked_negatives` {range}: only {num} of {num_all} nodes of type {} are ranked: choose lower ranks, or rank \
                 more nodes (`ranked_among`)",
                of_type.name
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::config::link_model_config;
    use super::*;
    use crate::inference::ScoredNode;
    use crate::models::{ConvKind, SageSettings};
    use crate::training_config::TrainingConfig;
    use edgecut_cluster::Cluster;
    use edgecut_dist_sampler::{DistGraphConfig, Fanout, SamplerConfig, share_dataset};
    use edgecut_graph::HoldOut;
    use edgecut_graph::readers::{FakeOptions, fake};

    const EDGES: EdgeTypeId = EdgeTypeId(0);

    /// The destinations in the range, and the destinations of all ranks, of a source.
    type Ranked = (Vec<u32>, Vec<u32>);

    /// Returns the negatives of all sources and, by the scores of all pairs, their destinations from the best to the worst
    /// without training edges. Sources without training edges have no negatives.
    fn ranked(range: &str, among: Option<usize>) -> Vec<Ranked> {
        let cluster = Cluster::join_local(1, |_| {}).expect("a job of one").remove(0);
        let part = share_dataset(&cluster, || {
            let mut graph = fake(&FakeOptions { avg_num_nodes: 90, num_channels: 0, ..FakeOptions::default() })?;
            graph.hold_out_edges(&[EDGES], &HoldOut::random(0.1, 0.1, 1))?;
            Ok::<_, edgecut_graph::GraphError>(graph)
        });
        let mut world = cluster.world().expect("a group of one");
        let part = Arc::new(part.expect("a graph"));
        let graph = DistGraph::start(part, cluster, DistGraphConfig::default()).expect("a graph of one part");
        let sampler = SamplerConfig::new(Vec::<Fanout>::new());
        let config = LinkTrainingConfig {
            training: TrainingConfig::new(ConvKind::Sage(SageSettings::default()), sampler),
            ranked_negatives: Some(range.parse().expect("a range")),
            ranked_among: among,
            ..LinkTrainingConfig::default()
        };
        let model_config = link_model_config(graph.part().meta(), &config).expect("a model");
        let device = Default::default();
        let model: LinkModel<crate::Cpu> = model_config.init(3, &device).expect("a model");
        let schema = Arc::new(model_config.encoder.graph.clone());
        let width = model_config.encoder.hidden_channels;
        let embeddings = Embeddings::new(&graph, &schema, width, 3).expect("embeddings");
        let options = BatchOptions::of_encoder(&model_config.encoder, false);
        let ranked = RankedNegatives::new(&graph, &schema, options, &config, &mut world);
        let ranked = ranked.expect("ranks").expect("a ranking");
        assert_eq!(ranked.negatives().get(EDGES), None, "the first epoch has none");
        ranked.rank(1, &model, &embeddings, &mut world, &device).expect("ranks");
        let found = ranked.negatives().get(EDGES).expect("negatives");
        let rows = ranked.encoder.encode(&model, &embeddings, &(), &mut world, &device).expect("rows");
        let ends = rows.ends(EDGES).expect("both ends");
        let csc = &graph.part().edges(EDGES).csc;
        let all: Vec<u32> = (0..csc.num_rows() as u32).collect();
        let mut of_sources = Vec::new();
        for source in all.clone() {
            let scores = ends.score(&model, &vec![source; all.len()], &all, &device).expect("scores");
            let mut nodes: Vec<ScoredNode> =
                all.iter().zip(scores).map(|(&id, score)| ScoredNode { id, score }).collect();
            let num_all = nodes.len();
            nodes.retain(|node| !csc.neighbors(node.id as usize).contains(&source));
            nodes.sort_unstable();
            let mut order: Vec<u32> = nodes.iter().map(|node| node.id).collect();
            if order.len() == num_all {
                order.clear();
            }
            of_sources.push((found.of_source(source).to_vec(), order));
        }
        of_sources
    }

    #[test]
    fn negatives_have_the_ranks_by_the_scores_of_all_pairs() {
        for (source, (found, order)) in ranked("3-7", None).into_iter().enumerate() {
            let mut expected = order.get(2..7).unwrap_or_default().to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected, "source {source}");
        }
    }

    #[test]
    fn drawn_destinations_alone_are_ranked() {
        let of_sources = ranked("1-4", Some(30));
        let drawn: BTreeSet<u32> = of_sources.iter().flat_map(|(found, _)| found.clone()).collect();
        assert!((10..60).contains(&drawn.len()), "{} of about 90 destinations", drawn.len());
        for (source, (found, order)) in of_sources.into_iter().enumerate() {
            // Destinations that are drawn, but are no negative of any source, may rank between these.
            let ranks: Vec<usize> =
                found.iter().map(|id| order.iter().position(|other| other == id).expect("a rank")).collect();
            let better = order.iter().filter(|id| drawn.contains(id)).take(4).count();
            assert_eq!(found.len(), better, "source {source}");
            let last = ranks.into_iter().max().unwrap_or(0);
            let num_better = order.iter().take(last + 1).filter(|id| drawn.contains(id)).count();
            assert!(found.is_empty() || num_better == 4, "source {source}: {num_better} drawn ones up to the last");
        }
    }
}
