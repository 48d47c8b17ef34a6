//! Scores of node pairs compared with plain loops, and saved models for links.

use std::collections::HashMap;
use std::path::Path;

use burn::backend::NdArray;
use edgecut_gnn::nn::{Aggregation, DecoderKind, Decomposition, LinkDecoder, RelationAggregation, WeightInit};
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

use crate::support::*;

type Plain = NdArray<f64>;

const CHANNELS: usize = 6;
const EDGE_TYPES: usize = 4;

#[test]
fn a_query_times_destinations_is_the_sum_over_channels() {
    let mut draws = Draws(21);
    for kind in [DecoderKind::Dot, DecoderKind::DistMult] {
        let mut init = WeightInit::new(3);
        let decoder = LinkDecoder::<Plain>::new(kind, EDGE_TYPES, CHANNELS, &mut init, &Default::default());
        let edge_types: Vec<u16> = (0..9).map(|_| draws.below(EDGE_TYPES) as u16).collect();
        assert!((0..EDGE_TYPES as u16).all(|t| edge_types.contains(&t)), "every edge type");
        let src = draws.matrix::<Plain>(9, CHANNELS);
        let dst = draws.matrix::<Plain>(5, CHANNELS);
        let scores = decoder.query(src.clone(), &edge_types).matmul(dst.clone().transpose());
        let relations = decoder.relations.as_ref().map(|relations| values(relations.val()));
        assert_eq!(relations.is_some(), kind == DecoderKind::DistMult);
        if let Some(relations) = &relations {
            assert_eq!(relations.len(), EDGE_TYPES * CHANNELS);
            assert!(relations.iter().any(|value| value != &relations[0]), "relations differ");
        }
        let src = values(src);
        let dst = values(dst);
        let mut expected = Vec::new();
        for (edge, &edge_type) in edge_types.iter().enumerate() {
            for other in 0..5 {
                let mut sum = 0.0;
                for channel in 0..CHANNELS {
                    let relation =
                        relations.as_ref().map_or(1.0, |all| all[usize::from(edge_type) * CHANNELS + channel]);
                    sum += src[edge * CHANNELS + channel] * relation * dst[other * CHANNELS + channel];
                }
                expected.push(sum);
            }
        }
        assert_close(&values(scores), &expected, 1e-6, &format!("{kind}"));
        let rows = decoder.relation_rows(&edge_types, &Default::default()).map(values);
        let of_edges = relations.map(|all| {
            let row = |&t: &u16| all[usize::from(t) * CHANNELS..][..CHANNELS].to_vec();
            edge_types.iter().flat_map(row).collect::<Vec<f64>>()
        });
        assert_eq!(rows, of_edges);
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
    for (kind, decoder, num_layers) in
        [(sage, DecoderKind::Dot, 0), (sage, DecoderKind::DistMult, 1), (rgcn, DecoderKind::DistMult, 2)]
    {
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
        let relations = (decoder == DecoderKind::DistMult).then(|| vec![CHANNELS, 4]);
        assert_eq!(shape("decoder.relations"), relations);
        assert!(shape("encoder.encoders.0.weight").is_some());
        // Loading it as a model for nodes is a single error.
        let error = load_model::<NdArray, NetworkConfig>(&path, &Default::default()).expect_err("no model for nodes");
        assert!(matches!(error, ModelFileError::Config { .. }), "{error:?}");
    }
}

#[test]
fn rejects_missing_embeddings_and_unknown_ones() {
    let config = config(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }), DecoderKind::DistMult, 1);
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
    assert!(
        matches!(&error, ModelFileError::MissingTensor { tensor, .. } if tensor == "embeddings.topic"),
        "{error:?}"
    );
    let error = changed(&|tensors| {
        let table = tensors["embeddings.topic"].clone();
        tensors.insert("embeddings.venue".into(), table);
    });
    assert!(
        matches!(&error, ModelFileError::UnexpectedTensor { tensor, .. } if tensor == "embeddings.venue"),
        "{error:?}"
    );
    let error = changed(&|tensors| assert!(tensors.remove("decoder.relations").is_some()));
    assert!(matches!(&error, ModelFileError::ParameterCount { .. }), "{error:?}");
}
