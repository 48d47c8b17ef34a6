//! Tests of the filtered ranking against plain loops over all pairs.

use super::{Cpu, config, no_layers};
use crate::decoder_tensors::tensors_of;
use crate::plain_scores::plain_score;
use crate::support::{on_ranks, write_parts};
use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistGraphConfig, DistNeighborSampler, NodeFields, NumNeighbors};
use edgecut_gnn::nn::{Aggregation, AnyLinkDecoder, ComplEx, DecoderKind, Decomposition, DistMult, Dot};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{Dataset, EdgeData, EdgeList, EdgeTypeId, HoldOut, NodeTypeId};
use edgecut_partition::Method;
use edgecut_trainer::link::{
    LinkEvaluation, LinkPrediction, LinkScores, LinkTrainingConfig, RankedEnds, link_model_config,
};
use edgecut_trainer::models::{ConvKind, GraphSchema, LinkModel, LinkModelConfig, Mode, RgcnSettings, SageSettings};
use edgecut_trainer::{BatchOptions, EmbeddingTable, Embeddings, TensorBatch, TrainedModel, evaluate_model};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NODES: usize = 60;

/// Generates a graph in which each node type is a destination of held-out edges. v2 has no features; without `features`
/// no type has features.
fn graph(features: bool) -> Dataset {
    let num_channels = if features { 6 } else { 0 };
    let options = FakeOptions { avg_num_nodes: NODES, avg_degree: 5.0, num_channels, ..FakeOptions::default() };
    let mut graph = fake_hetero(&options).expect("a fake graph");
    let hold_out = HoldOut::random(0.15, 0.15, 4);
    graph.hold_out_edges(&[0, 2, 4, 5].map(EdgeTypeId), &hold_out).expect("held-out edges");
    graph
}

/// The jobs of the tests: numbers of parts and of ranks.
const JOBS: [(u32, usize); 4] = [(1, 1), (2, 2), (3, 3), (2, 4)];

fn written(graph: &Dataset, dir: &Path) -> Vec<(PathBuf, usize)> {
    let part = |&(parts, ranks): &(u32, usize)| {
        let path = dir.join(format!("{parts}-{ranks}"));
        write_parts(graph, parts, Method::Random, &path);
        (path, ranks)
    };
    JOBS.iter().map(part).collect()
}

/// The ranks of the held-out edges of one type by plain loops.
struct PlainRanks<'a> {
    edge_type: usize,
    edges: &'a EdgeData,
    decoder: DecoderKind,
    tensors: &'a [Vec<f64>],
    /// The rows of all nodes by type.
    rows: &'a [Vec<Vec<f64>>],
}

impl PlainRanks<'_> {
    fn score(&self, src: u32, dst: u32) -> f64 {
        let src = &self.rows[self.edges.src_type.index()][src as usize];
        let dst = &self.rows[self.edges.dst_type.index()][dst as usize];
        plain_score(self.decoder, self.tensors, self.edge_type, src, dst)
    }

    /// Returns the ranks of the edges `list` among all destinations without a known edge from the same source, and with
    /// `both` among all sources without a known edge to the same destination.
    fn ranks(&self, list: &EdgeList, both: bool) -> Vec<f64> {
        let held_out = &self.edges.held_out;
        let lists = [
            (&self.edges.src, &self.edges.dst),
            (&held_out.valid.src, &held_out.valid.dst),
            (&held_out.test.src, &held_out.test.dst),
        ];
        let known: HashSet<(u32, u32)> =
            lists.iter().flat_map(|(src, dst)| src.iter().copied().zip(dst.iter().copied())).collect();
        let rank = |own: f64, pair: &dyn Fn(u32) -> (u32, u32)| {
            let others = (0..NODES as u32).map(pair).filter(|pair| !known.contains(pair));
            let others: Vec<f64> = others.map(|(src, dst)| self.score(src, dst)).collect();
            let above = others.iter().filter(|&&other| other > own).count();
            let tied = others.iter().filter(|&&other| other == own).count();
            1.0 + above as f64 + tied as f64 / 2.0
        };
        let mut ranks = Vec::new();
        for (&src, &dst) in list.src.iter().zip(&list.dst[..]) {
            let own = self.score(src, dst);
            ranks.push(rank(own, &|other| (src, other)));
            if both {
                ranks.push(rank(own, &|other| (other, dst)));
            }
        }
        ranks
    }
}

/// Returns the expected evaluation of a model.
fn expected(
    graph: &Dataset,
    valid: bool,
    config: &LinkTrainingConfig,
    model: &LinkModel<Cpu>,
    rows: &[Vec<Vec<f64>>],
) -> LinkScores {
    let tensors = tensors_of(&model.decoder);
    let both = config.rank == RankedEnds::Both;
    let mut all = Vec::new();
    for (edge_type, edges) in graph.edge_types.iter().enumerate() {
        let list = if valid { &edges.held_out.valid } else { &edges.held_out.test };
        let plain = PlainRanks { edge_type, edges, decoder: config.decoder, tensors: &tensors, rows };
        all.extend(plain.ranks(list, both));
    }
    let share =
        |depth: u32| Some(all.iter().filter(|&&rank| rank <= f64::from(depth)).count() as f64 / all.len() as f64);
    LinkScores {
        edges: (all.len() / if both { 2 } else { 1 }) as u64,
        mrr: Some(all.iter().map(|rank| 1.0 / rank).sum::<f64>() / all.len() as f64),
        hits: [1, 3, 10].map(|depth| (depth, share(depth))).into(),
        ..LinkScores::default()
    }
}

/// Fails unless all measures are equal, up to what `swaps` of two neighbors in a ranking change.
fn assert_close(found: &LinkScores, expected: &LinkScores, swaps: f64, what: &str) {
    assert_eq!((found.edges, found.roc_auc), (expected.edges, expected.roc_auc), "{what}");
    let measures = |scores: &LinkScores| [scores.mrr, scores.hits[&1], scores.hits[&3], scores.hits[&10]];
    for (one, other) in measures(found).into_iter().zip(measures(expected)) {
        let (Some(one), Some(other)) = (one, other) else { panic!("{what}: {found:?}") };
        let tolerance = swaps / expected.edges as f64 + 1e-9;
        assert!((one - other).abs() <= tolerance, "{what}: {found:?} instead of {expected:?}");
    }
}

fn filtered(kind: ConvKind, num_neighbors: NumNeighbors, decoder: DecoderKind) -> LinkTrainingConfig {
    let mut config = config(kind, num_neighbors);
    // This batch size gives batches of several sizes, and different numbers of batches on the ranks.
    config.training.batch_size = 7;
    LinkTrainingConfig { decoder, eval_negatives: LinkEvaluation::Filtered, ..config }
}

/// Checks that every rank of every job evaluates a model as expected.
fn assert_ranked(
    graph: &Dataset,
    jobs: &[(PathBuf, usize)],
    config: &LinkTrainingConfig,
    (model, model_config): (&LinkModel<Cpu>, &LinkModelConfig),
    tables: &[EmbeddingTable],
    rows: &[Vec<Vec<f64>>],
    swaps: f64,
) {
    let [valid, test] = [true, false].map(|valid| expected(graph, valid, config, model, rows));
    assert!(valid.edges > 50 && test.mrr > Some(0.01) && valid != test, "{valid:?}");
    for (path, ranks) in jobs {
        let results = on_ranks(path, *ranks, &DistGraphConfig::default(), |graph, world| {
            let device = Default::default();
            let saved = TrainedModel::new(model, model_config, tables);
            evaluate_model::<LinkPrediction, Cpu>(&graph, config, saved, world, &device).expect("an evaluation")
        });
        for result in &results {
            let what = format!("{} of {:?} and {}", path.display(), config.training.kind, config.decoder);
            assert_close(&result.valid, &valid, swaps, &what);
            assert_close(&result.test, &test, swaps, &what);
            assert_eq!(result, &results[0], "the same on every rank");
        }
    }
}

/// Uses small integers: sums of their products are exact, so that many scores are exactly equal.
#[test]
fn ranks_of_embeddings_are_those_of_plain_loops_ties_included() {
    let graph = graph(false);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let jobs = written(&graph, dir.path());
    let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    let (dim, device) = (4, Default::default());
    let mut numbers = crate::support::Numbers(8);
    let mut whole = |count: usize| -> Vec<f32> { (0..count).map(|_| numbers.below(5) as f32 - 2.0).collect() };
    let tables: Vec<EmbeddingTable> = graph
        .node_types
        .iter()
        .map(|nodes| EmbeddingTable { node_type: nodes.name.clone(), dim, values: whole(NODES * dim) })
        .collect();
    let relations = whole(graph.edge_types.len() * dim);
    let row = |row: &[f32]| row.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
    let rows: Vec<Vec<Vec<f64>>> =
        tables.iter().map(|table| table.values.chunks_exact(dim).map(row).collect()).collect();
    for decoder in [DecoderKind::Dot(Dot {}), DecoderKind::DistMult(DistMult {}), DecoderKind::ComplEx(ComplEx {})] {
        let mut config = filtered(kind, no_layers(), decoder);
        config.training.hidden_channels = dim;
        config.rank = RankedEnds::Both;
        let meta = edgecut_graph::Meta::read(&jobs[0].0).expect("read META.json");
        let model_config = link_model_config(&meta, &config).expect("a model");
        let mut model: LinkModel<Cpu> = model_config.init(0, &device).expect("a model");
        let values = TensorData::new(relations.clone(), [graph.edge_types.len(), dim]);
        let values = Param::from_tensor(Tensor::from_data(values, &device));
        match &mut model.decoder {
            AnyLinkDecoder::DistMult(decoder) => decoder.relations = values,
            AnyLinkDecoder::ComplEx(decoder) => decoder.relations = values,
            _ => {}
        }
        assert_ranked(&graph, &jobs, &config, (&model, &model_config), &tables, &rows, 0.0);
    }
}

/// Both ends of each edge are ranked with every decoder, which needs queries of destinations.
#[test]
fn every_decoder_ranks_both_ends_like_plain_loops() {
    let graph = graph(true);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let jobs = written(&graph, dir.path());
    let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    for decoder in DecoderKind::all() {
        let mut config = filtered(kind, "-1".parse().expect("fan-outs"), decoder);
        config.training.residual = true;
        config.rank = RankedEnds::Both;
        let (model, model_config, tables, rows) = encoded(&jobs[0].0, &config);
        assert_ranked(&graph, &jobs[1..3], &config, (&model, &model_config), &tables, &rows, 1.0);
    }
}

#[test]
fn ranks_of_encoded_nodes_are_those_of_plain_loops() {
    let graph = graph(true);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let jobs = written(&graph, dir.path());
    let all = || -> NumNeighbors { "-1,-1".parse().expect("fan-outs") };
    for (kind, decoder) in [
        (ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }), DecoderKind::Dot(Dot {})),
        (ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::None }), DecoderKind::DistMult(DistMult {})),
    ] {
        let mut config = filtered(kind, all(), decoder);
        // Without residuals, the rows of layers that end in a ReLU would often be all zeros.
        config.training.residual = true;
        let (model, model_config, tables, rows) = encoded(&jobs[0].0, &config);
        // Processors round products of batches of different sizes differently, which may swap two almost equal scores.
        assert_ranked(&graph, &jobs, &config, (&model, &model_config), &tables, &rows, 1.0);
    }
}

/// Returns an untrained model, its embeddings, and the rows of all nodes by type and original id.
#[expect(clippy::type_complexity, reason = "all values describe one model on one graph")]
fn encoded(
    one_part: &Path,
    config: &LinkTrainingConfig,
) -> (LinkModel<Cpu>, LinkModelConfig, Vec<EmbeddingTable>, Vec<Vec<Vec<f64>>>) {
    let of_rank = on_ranks(one_part, 1, &DistGraphConfig::default(), |graph, world| {
        let device = Default::default();
        let meta = graph.part().meta().clone();
        let model_config = link_model_config(&meta, config).expect("a model");
        let model: LinkModel<Cpu> = model_config.init(7, &device).expect("a model");
        let schema = Arc::new(GraphSchema::new(&meta).expect("types"));
        let embeddings = Embeddings::new(&graph, &schema, config.training.hidden_channels, 7).expect("embeddings");
        let options = BatchOptions::of_model(&model_config.encoder, false);
        let options = BatchOptions { labels: false, ..options };
        let sampler = DistNeighborSampler::new(graph.clone(), config.training.sampler.clone()).expect("a sampler");
        let sampler = Arc::new(sampler);
        let rows = (0..meta.node_types.len()).map(|t| {
            let loader_config = LoaderConfig {
                concurrency: 1,
                ..LoaderConfig::new(16, NodeFields { original_ids: true, ..options.wanted() })
            };
            let loader =
                DistNeighborLoader::new(sampler.clone(), NodeTypeId(t as u16), Seeds::Owned, loader_config, world);
            let mut rows = vec![Vec::new(); NODES];
            for batch in loader.expect("a loader").epoch(0) {
                let batch = batch.expect("a batch");
                let ids = batch.nodes[t].original_ids[..batch.num_seeds].to_vec();
                let batch = TensorBatch::new(batch, &schema, options, &device).expect("a right batch");
                let batch = embeddings.fill(batch, &device).expect("rows of embeddings");
                let encoded = model.encode(batch.input().expect("seeds"), Mode::Eval).expect("rows");
                let values: Vec<f64> = encoded.into_data().iter::<f64>().collect();
                let channels = config.training.hidden_channels;
                ids.iter().zip(values.chunks_exact(channels)).for_each(|(&id, row)| rows[id as usize] = row.to_vec());
            }
            assert!(rows.iter().all(|row| !row.is_empty()), "a row of every node");
            rows
        });
        let rows: Vec<_> = rows.collect();
        let tables = embeddings.tables().expect("the embeddings");
        (model, model_config, tables, rows)
    });
    of_rank.into_iter().next().expect("a rank")
}
