//! Embeddings that are added to features: values and gradients beside separate operations, and settings that make no sum.

use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use edgecut_gnn::nn::Dense;
use edgecut_graph::NodeTypeId;
use edgecut_testing::assert_has;
use edgecut_trainer::gradients::num_parameters;
use edgecut_trainer::models::{
    ConvKind, EmbeddingMode, GraphSchema, Mode, ModelInput, Network, NetworkConfig, NetworkOutput, NodeClassifier,
    NodeEmbedding, NodeInput, SageSettings,
};
use std::sync::Arc;

type B = Autodiff<NdArray<f64>>;

const NODES: usize = 5;
const FEATURES: usize = 3;
const HIDDEN: usize = 6;

/// Returns the settings of a network without convolutions whose nodes have features and an embedding of `dim` values.
fn config(dim: usize, mode: EmbeddingMode) -> NetworkConfig {
    let mut graph = GraphSchema::homogeneous(FEATURES);
    graph.node_types[0].embedding_dim = dim;
    graph.node_types[0].embedding_mode = mode;
    let output = NetworkOutput { node_type: NodeTypeId(0), channels: 2 };
    NetworkConfig::typed(ConvKind::Sage(SageSettings::default()), graph, output, HIDDEN, 0)
}

/// Returns rows that are different everywhere.
fn rows(width: usize, salt: f64) -> Tensor<B, 2> {
    let values: Vec<f64> = (0..NODES * width).map(|i| (i as f64 * 1.3 + salt).sin()).collect();
    Tensor::from_data(burn::tensor::TensorData::new(values, [NODES, width]), &Default::default())
}

fn dense(layer: &Dense<B>, rows: Tensor<B, 2>) -> Tensor<B, 2> {
    rows.matmul(layer.weight.val()) + layer.bias.val().unsqueeze()
}

/// The outputs of a network, and the gradients of the features, of the embeddings and of the projection.
struct Found {
    outputs: Vec<f64>,
    gradients: Vec<Vec<f64>>,
}

/// Runs a network, or its operations one by one.
fn run(config: &NetworkConfig, is_slow: bool) -> Found {
    let model: Network<B> = config.init(3, &Default::default()).expect("a valid model");
    let features = rows(FEATURES, 0.0).require_grad();
    let embeddings = rows(config.graph.node_types[0].embedding_dim, 7.0).require_grad();
    let projection = model.projections[0].as_ref().expect("a projection");
    let outputs = if is_slow {
        let sum = dense(projection, features.clone()) + embeddings.clone();
        let encoded = match &model.encoders[0] {
            Some(encoder) => relu(dense(encoder, sum)),
            None => sum,
        };
        dense(model.outputs[0].as_ref().expect("an output"), encoded)
    } else {
        let nodes = vec![NodeInput { features: Some(features.clone()), within_hop: vec![NODES] }];
        let input = ModelInput::typed(Arc::new(config.graph.clone()), nodes, vec![vec![]]).expect("a batch");
        let input = input.with_embeddings(NodeTypeId(0), embeddings.clone()).expect("rows that fit");
        model.forward(input, Mode::Eval).expect("a batch that fits")
    };
    let all = outputs.clone().powi_scalar(2).sum().backward();
    let leaves = [features, embeddings, projection.weight.val()];
    let gradients = leaves.map(|of| values(of.grad(&all).expect("a gradient"))).to_vec();
    Found { outputs: values(outputs), gradients }
}

#[test]
fn features_are_mapped_to_the_width_of_the_embeddings_and_added() {
    for dim in [HIDDEN, 4] {
        let config = config(dim, EmbeddingMode::Add);
        let model: Network<B> = config.init(3, &Default::default()).expect("a valid model");
        assert_eq!(config.num_parameters(), Some(num_parameters(&model)));
        // A sum of the hidden width needs no further layer.
        assert_eq!(model.encoders[0].is_some(), dim != HIDDEN);
        let [found, expected] = [false, true].map(|is_slow| run(&config, is_slow));
        assert_close(&found.outputs, &expected.outputs, 1e-12, "outputs");
        for (found, expected) in found.gradients.iter().zip(&expected.gradients) {
            assert_close(found, expected, 1e-12, "gradients");
        }
    }
}

#[test]
fn files_store_the_mode_only_if_embeddings_are_added() {
    let concatenated = config(4, EmbeddingMode::Concatenate);
    let text = serde_json::to_string(&concatenated).expect("JSON");
    assert!(!text.contains("embedding_mode"), "{text}");
    assert_eq!(NetworkConfig::from_json(&text).expect("settings"), concatenated);
    let added = config(4, EmbeddingMode::Add);
    let text = serde_json::to_string(&added).expect("JSON");
    assert_has(&text, &["\"embedding_mode\":\"add\""]);
    assert_eq!(NetworkConfig::from_json(&text).expect("settings"), added);
    let difference = concatenated.graph.difference(&added.graph).expect("another graph");
    assert_has(&difference, &["added embeddings of 4 values instead of", "embeddings of 4 values"]);
}

#[test]
fn nothing_is_added_without_features_embeddings_or_encoders() {
    let mut featureless = config(4, EmbeddingMode::Add);
    featureless.graph.node_types[0].feature_dim = 0;
    let bare = NetworkConfig { encoders: false, num_layers: 2, ..config(4, EmbeddingMode::Add) };
    for (config, what) in [
        (featureless, "has no features or no embedding"),
        (config(0, EmbeddingMode::Add), "has no features or no embedding"),
        (bare, "need encoders"),
    ] {
        assert_has(config.validate().expect_err("no sum").to_string(), &[what]);
    }
    let added: [NodeEmbedding; 1] = ["node=4:add".parse().expect("an embedding")];
    assert!(GraphSchema::homogeneous(3).with_embeddings(&added, HIDDEN).is_ok());
    let refused = GraphSchema::homogeneous(0).with_embeddings(&added, HIDDEN).expect_err("nodes without features");
    assert_has(refused.to_string(), &["node type node, which has none", ":add"]);
}
