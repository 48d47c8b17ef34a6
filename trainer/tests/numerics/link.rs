//! Scores of node pairs compared with plain loops, and saved models for links.

use edgecut_testing::assert_has;
use std::collections::HashMap;
use std::path::Path;

use burn::backend::{Autodiff, NdArray};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::nn::{
    Aggregation, AnyLinkDecoder, DecoderKind, Decomposition, DistMult, EdgeEnd, LinkDecoderShape, RelationAggregation,
    WeightInit,
};
use edgecut_graph::NodeTypeId;
use edgecut_trainer::EmbeddingTable;
use edgecut_trainer::gradients::{flatten_parameters, num_parameters};
use edgecut_trainer::model_file::{ModelFileError, load_model, parse_model, save_model};
use edgecut_trainer::models::{
    ConvKind, EdgeTypeSchema, GraphSchema, LinkModel, LinkModelConfig, NetworkConfig, NetworkOutput, NodeTypeSchema,
    RgcnSettings, SageSettings,
};
use safetensors::tensor::{TensorView, serialize};
use safetensors::{Dtype, SafeTensors};

use crate::decoder_tensors::tensors_of;
use crate::plain_scores::plain_score;
use crate::support::*;

type Plain = NdArray<f64>;
type Grad = Autodiff<Plain>;
type Gradients = <Grad as AutodiffBackend>::Gradients;

const CHANNELS: usize = 6;
const EDGE_TYPES: usize = 4;
const EDGES: usize = 5;
/// The rows of each edge alone.
const OWN: usize = 3;
/// The rows of all edges.
const ALL: usize = 4;

/// All decoders, with settings other than the defaults.
fn kinds() -> Vec<DecoderKind> {
    let mut kinds = DecoderKind::all();
    kinds.extend(
        ["transe:norm=2,margin=0.5", "rotate:margin=3"].map(|kind| kind.parse::<DecoderKind>().expect("a decoder")),
    );
    kinds
}

/// Scores of pairs, each with a factor in a sum.
struct Pairs {
    kind: DecoderKind,
    compared: EdgeEnd,
    edge_types: Vec<u16>,
    /// The factors of pairs of each given row with its own rows, and with all rows.
    own: Vec<f64>,
    all: Vec<f64>,
}

/// The inputs of the scores: the tensors of the decoder, the given rows, own rows of each, and rows for all.
#[derive(Clone)]
struct Inputs {
    tensors: Vec<Vec<f64>>,
    given: Vec<f64>,
    own: Vec<f64>,
    all: Vec<f64>,
}

impl Pairs {
    fn score(&self, inputs: &Inputs, edge: usize, row: &[f64]) -> f64 {
        let given = &inputs.given[edge * CHANNELS..][..CHANNELS];
        let edge_type = usize::from(self.edge_types[edge]);
        let (src, dst) = if self.compared == EdgeEnd::Destination { (given, row) } else { (row, given) };
        plain_score(self.kind, &inputs.tensors, edge_type, src, dst)
    }

    /// Returns the scores of own rows and of all rows.
    fn scores(&self, inputs: &Inputs) -> [Vec<f64>; 2] {
        let mut scores = [Vec::new(), Vec::new()];
        for edge in 0..EDGES {
            let own = &inputs.own[edge * OWN * CHANNELS..][..OWN * CHANNELS];
            scores[0].extend(own.chunks(CHANNELS).map(|row| self.score(inputs, edge, row)));
            scores[1].extend(inputs.all.chunks(CHANNELS).map(|row| self.score(inputs, edge, row)));
        }
        scores
    }

    fn sum(&self, inputs: &Inputs) -> f64 {
        let scores = self.scores(inputs).concat();
        let factors = self.own.iter().chain(&self.all);
        scores.iter().zip(factors).map(|(score, factor)| score * factor).sum()
    }

    /// Returns the derivatives of the sum by the values that `values` selects, as differences.
    fn slopes(&self, inputs: &Inputs, values: impl Fn(&mut Inputs) -> &mut Vec<f64>) -> Vec<f64> {
        let step = 1e-6;
        let mut inputs = inputs.clone();
        let mut slopes = Vec::new();
        for at in 0..values(&mut inputs).len() {
            let value = values(&mut inputs)[at];
            values(&mut inputs)[at] = value + step;
            let above = self.sum(&inputs);
            values(&mut inputs)[at] = value - step;
            slopes.push((above - self.sum(&inputs)) / (2.0 * step));
            values(&mut inputs)[at] = value;
        }
        slopes
    }
}

/// The gradients of a decoder's tensors.
struct TensorGradients<'a>(&'a Gradients, Vec<Vec<f64>>);

impl ModuleVisitor<Grad> for TensorGradients<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<Grad, D>>) {
        self.1.push(param.val().grad(self.0).map_or(Vec::new(), values));
    }
}

#[test]
fn scores_and_gradients_of_decoders_are_those_of_plain_loops() {
    let mut draws = Draws(21);
    let device = Default::default();
    let shape = LinkDecoderShape { edge_types: EDGE_TYPES, channels: CHANNELS };
    for kind in kinds() {
        for compared in [EdgeEnd::Destination, EdgeEnd::Source] {
            let what = format!("{kind}, {compared:?}");
            let decoder = AnyLinkDecoder::<Grad>::new(kind, shape, &mut WeightInit::new(3), &device);
            let edge_types: Vec<u16> = (0..EDGES).map(|_| draws.below(EDGE_TYPES) as u16).collect();
            assert!(edge_types.iter().any(|t| *t != edge_types[0]), "several edge types");
            let pairs =
                Pairs { kind, compared, edge_types, own: draws.floats(EDGES * OWN), all: draws.floats(EDGES * ALL) };
            let inputs = Inputs {
                tensors: tensors_of(&decoder),
                given: draws.floats(EDGES * CHANNELS),
                own: draws.floats(EDGES * OWN * CHANNELS),
                all: draws.floats(ALL * CHANNELS),
            };
            let matrix = |values: &[f64], columns: usize| {
                let shape = [values.len() / columns, columns];
                Tensor::<Grad, 2>::from_data(TensorData::new(values.to_vec(), shape), &device)
            };
            let given = matrix(&inputs.given, CHANNELS).require_grad();
            let own = matrix(&inputs.own, CHANNELS).require_grad();
            let all = matrix(&inputs.all, CHANNELS).require_grad();
            let queries = decoder.query(given.clone(), &pairs.edge_types, compared);
            let own_scores = decoder.score_own(&queries, own.clone());
            let all_scores = decoder.score_all(&queries, all.clone());
            let [expected_own, expected_all] = pairs.scores(&inputs);
            assert_close(&values(own_scores.clone()), &expected_own, 1e-6, &what);
            assert_close(&values(all_scores.clone()), &expected_all, 1e-6, &what);
            let sum = (own_scores * matrix(&pairs.own, OWN)).sum() + (all_scores * matrix(&pairs.all, ALL)).sum();
            let gradients = sum.backward();
            for (tensor, slopes) in [
                (given, pairs.slopes(&inputs, |inputs| &mut inputs.given)),
                (own, pairs.slopes(&inputs, |inputs| &mut inputs.own)),
                (all, pairs.slopes(&inputs, |inputs| &mut inputs.all)),
            ] {
                let found = values(tensor.grad(&gradients).expect("a gradient"));
                assert_close(&found, &slopes, 1e-6, &what);
            }
            let mut found = TensorGradients(&gradients, Vec::new());
            decoder.visit(&mut found);
            for (at, found) in found.1.iter().enumerate() {
                assert_close(found, &pairs.slopes(&inputs, |inputs| &mut inputs.tensors[at]), 1e-6, &what);
            }
        }
    }
}

#[test]
fn cubes_are_those_of_absolute_values_or_moduli() {
    let device = Default::default();
    let shape = LinkDecoderShape { edge_types: 1, channels: 4 };
    let rows = Tensor::<Plain, 2>::from_data([[1.0, -2.0, 0.5, 3.0], [0.0, 1.0, 0.0, -1.0]], &device);
    for (kind, expected) in [
        ("distmult", [1.0 + 8.0 + 0.125 + 27.0, 2.0]),
        ("complex", [1.0_f64.hypot(0.5).powi(3) + 2.0_f64.hypot(3.0).powi(3), 2.0_f64.sqrt().powi(3)]),
    ] {
        let kind: DecoderKind = kind.parse().expect("a decoder");
        let decoder = AnyLinkDecoder::<Plain>::new(kind, shape, &mut WeightInit::new(3), &device);
        assert_close(&values(decoder.cubes(rows.clone())), &expected, 1e-6, &kind.to_string());
    }
}

/// Makes settings for a graph whose papers have features, and whose authors and topics have none.
fn config(kind: ConvKind, decoder: DecoderKind, num_layers: usize) -> LinkModelConfig {
    let node = |(name, feature_dim): (&str, usize)| NodeTypeSchema::new(name, feature_dim);
    let edge = |(src, relation, dst): (u16, &str, u16)| EdgeTypeSchema::new(NodeTypeId(src), relation, NodeTypeId(dst));
    let graph = GraphSchema {
        node_types: [("paper", 5), ("author", 0), ("topic", 0)].map(node).to_vec(),
        edge_types: [(1, "writes", 0), (0, "rev_writes", 1), (0, "about", 2), (0, "cites", 0)].map(edge).to_vec(),
    };
    let output = NetworkOutput { node_type: NodeTypeId(0), channels: 1 };
    let encoder = NetworkConfig {
        outputs: Vec::new(),
        relation_aggregation: RelationAggregation::Mean,
        residual: true,
        layer_norm: num_layers > 1,
        dropout: 0.1,
        ..NetworkConfig::typed(kind, graph, output, CHANNELS, num_layers)
    };
    LinkModelConfig { encoder, decoder }
}

fn tables() -> Vec<EmbeddingTable> {
    let mut draws = Draws(5);
    let mut table = |name: &str, rows: usize| EmbeddingTable {
        node_type: name.into(),
        dim: CHANNELS,
        values: draws.floats(rows * CHANNELS).into_iter().map(|value| value as f32).collect(),
    };
    vec![table("author", 7), table("topic", 3)]
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn saved(path: &Path, config: &LinkModelConfig) -> LinkModel<NdArray> {
    let model = config.init(4, &Default::default()).expect("a valid model");
    save_model(path, &model, config, &tables()).expect("a written file");
    model
}

#[test]
fn a_model_for_links_comes_back_to_the_bit_with_its_embeddings() {
    let sage = ConvKind::Sage(SageSettings { aggregation: Aggregation::Max });
    let rgcn = ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::Basis { num_bases: 2 } });
    let layers = [(sage, 0), (sage, 1), (rgcn, 2)];
    for (decoder, (kind, num_layers)) in kinds().into_iter().zip(layers.into_iter().cycle()) {
        let config = config(kind, decoder, num_layers);
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("model.safetensors");
        let model = saved(&path, &config);
        assert_eq!(config.num_parameters(), Some(num_parameters(&model)));
        let bytes = std::fs::read(&path).expect("the file");
        let (loaded, loaded_config, embeddings) =
            parse_model::<NdArray, LinkModelConfig>(&bytes, &path, &Default::default()).expect("a model");
        assert_eq!(loaded_config, config);
        assert_eq!(bits(&flatten_parameters(&loaded)), bits(&flatten_parameters(&model)));
        assert_eq!(embeddings, tables());
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let shape = |name: &str| file.tensor(name).map(|view| view.shape().to_vec()).ok();
        assert_eq!(shape("embeddings.author"), Some(vec![7, CHANNELS]));
        // Files have matrices transposed.
        let columns = match decoder {
            DecoderKind::Dot(_) => None,
            DecoderKind::Bilinear(_) => Some(CHANNELS * CHANNELS),
            DecoderKind::RotatE(_) => Some(CHANNELS / 2),
            _ => Some(CHANNELS),
        };
        assert_eq!(shape("decoder.relations"), columns.map(|columns| vec![columns, 4]));
        assert!(shape("encoder.encoders.0.weight").is_some());
        // Loading it as a model for nodes is a single error.
        let error = load_model::<NdArray, NetworkConfig>(&path, &Default::default()).expect_err("no model for nodes");
        assert!(matches!(error, ModelFileError::Config { .. }), "{error:?}");
    }
}

#[test]
fn complex_numbers_need_an_even_number_of_channels() {
    let sage = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    for decoder in ["complex", "rotate"] {
        let mut config = config(sage, decoder.parse().expect("a decoder"), 1);
        config.encoder.hidden_channels = 5;
        assert_has(config.validate().expect_err("an odd number").to_string(), &[decoder, "use an even number"]);
    }
}

#[test]
fn rejects_missing_embeddings_and_unknown_ones() {
    let config =
        config(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }), DecoderKind::DistMult(DistMult {}), 1);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("model.safetensors");
    saved(&path, &config);
    let bytes = std::fs::read(&path).expect("the file");
    let (_, header) = SafeTensors::read_metadata(&bytes).expect("a header");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    type Tensors = HashMap<String, (Vec<usize>, Vec<u8>)>;
    let changed = |change: &dyn Fn(&mut Tensors)| -> ModelFileError {
        let tensors = file.iter().map(|(name, view)| (name.to_owned(), (view.shape().to_vec(), view.data().to_vec())));
        let mut tensors: Tensors = tensors.collect();
        change(&mut tensors);
        let views = tensors.iter().map(|(name, (shape, data))| {
            (name, TensorView::new(Dtype::F32, shape.clone(), data).expect("a consistent tensor"))
        });
        let bytes = serialize(views, header.metadata().clone()).expect("a file");
        parse_model::<NdArray, LinkModelConfig>(&bytes, &path, &Default::default()).expect_err("a damaged file")
    };
    let error = changed(&|tensors| assert!(tensors.remove("embeddings.topic").is_some()));
    assert!(error.to_string().contains("tensor embeddings.topic is missing"), "{error}");
    let error = changed(&|tensors| {
        let table = tensors["embeddings.topic"].clone();
        tensors.insert("embeddings.venue".into(), table);
    });
    assert!(error.to_string().contains("tensor embeddings.venue does not belong to this model"), "{error}");
    let error = changed(&|tensors| assert!(tensors.remove("decoder.relations").is_some()));
    assert!(error.to_string().contains("parameters, its configuration describes"), "{error}");
}
