//! Residuals and normalisation of stacks, compared with the same layers run one by one.

use std::sync::Arc;

use burn::backend::NdArray;
use burn::tensor::Tensor;
use burn::tensor::activation::{gelu, relu};
use edgecut_gnn::nn::Aggregation;
use edgecut_gnn::ops::{Activation, BatchGraph, Block};
use edgecut_trainer::gradients::{flatten_parameters, load_parameters};
use edgecut_trainer::models::{
    ConvKind, GcnSettings, Mode, ModelError, ModelInput, NetworkConfig, NodeClassifier, SageSettings,
};

use crate::support::*;

type Plain = NdArray<f64>;

const SAGE: ConvKind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });

/// Makes the blocks of three layers over a random graph in which nodes read nodes of the next hop.
fn blocks(draws: &mut Draws) -> Vec<Block> {
    let within_hop = [3, 8, 20, 40];
    let mut indptr = vec![0];
    let mut indices = Vec::new();
    for row in 0..within_hop[2] {
        let hop = within_hop.iter().position(|&nodes| row < nodes).expect("a row of some hop");
        indices.extend((0..draws.below(4)).map(|_| draws.below(within_hop[hop + 1]) as u32));
        indptr.push(indices.len() as u32);
    }
    let graph = Arc::new(BatchGraph::new(indptr, indices, within_hop[3]).expect("a graph"));
    Block::layers(&graph, &within_hop).expect("prefixes")
}

/// Normalises rows, as PyTorch's `LayerNorm` does before its weight and bias.
fn normalised(x: Tensor<Plain, 2>) -> Tensor<Plain, 2> {
    let centred = x.clone() - x.mean_dim(1);
    let variance = centred.clone().powi_scalar(2).mean_dim(1);
    centred / (variance + 1e-5).sqrt()
}

#[test]
fn residuals_and_normalisation_are_between_hidden_rows() {
    let mut draws = Draws(51);
    // Features do not count as hidden rows, even if they have the hidden width.
    for in_channels in [5, 8] {
        let blocks = blocks(&mut draws);
        let x = draws.matrix::<Plain>(blocks[0].num_src(), in_channels);
        for (residual, layer_norm) in [(false, false), (true, false), (false, true), (true, true)] {
            let config = NetworkConfig { residual, layer_norm, ..NetworkConfig::stack(SAGE, in_channels, 8, 8, 3) };
            let model = config.init::<Plain>(6, &Default::default()).expect("a valid model");
            assert_eq!(model.norms.len(), if layer_norm { 2 } else { 0 });
            let mut expected = x.clone();
            for (number, (layer, block)) in model.layers.iter().zip(&blocks).enumerate() {
                let read = if layer_norm && number > 0 { normalised(expected.clone()) } else { expected.clone() };
                let output = sage(direct(&layer.conv)).forward(read, block, Activation::Identity);
                expected = match number {
                    0 => relu(output),
                    1 if residual => relu(output) + expected.slice([0..block.num_dst(), 0..8]),
                    1 => relu(output),
                    _ => output,
                };
            }
            let input = ModelInput::new(x.clone(), blocks.clone()).expect("blocks that chain");
            let found = model.forward(input, Mode::Eval).expect("a batch that fits");
            assert_close(&values(found), &values(expected), 1e-9, &format!("{residual} {layer_norm}"));
        }
    }
}

#[test]
fn feed_forward_parts_follow_layers_of_the_hidden_width() {
    let mut draws = Draws(52);
    let blocks = blocks(&mut draws);
    let x = draws.matrix::<Plain>(blocks[0].num_src(), 5);
    let config = NetworkConfig { feed_forward: Some(3), ..NetworkConfig::stack(SAGE, 5, 8, 4, 3) };
    let model = config.init::<Plain>(6, &Default::default()).expect("a valid model");
    let mut expected = x.clone();
    for (number, (layer, block)) in model.layers.iter().zip(&blocks).enumerate() {
        expected = sage(direct(&layer.conv)).forward(expected, block, Activation::Identity);
        if number == 2 {
            assert!(layer.feed_forward.is_empty(), "the last layer computes logits");
            continue;
        }
        expected = relu(expected);
        let part = layer.feed_forward[0].as_ref().expect("a part of a destination");
        assert_eq!(part.hidden.weight.dims(), [8, 24]);
        let inner = normalised(expected.clone()).matmul(part.hidden.weight.val()) + part.hidden.bias.val().unsqueeze();
        expected = expected + gelu(inner).matmul(part.output.weight.val()) + part.output.bias.val().unsqueeze();
    }
    let input = ModelInput::new(x, blocks).expect("blocks that chain");
    let found = model.forward(input, Mode::Eval).expect("a batch that fits");
    assert_close(&values(found), &values(expected), 1e-9, "feed-forward parts");
}

#[test]
fn a_flag_changes_only_what_it_names() {
    let plain = NetworkConfig::stack(SAGE, 5, 8, 3, 3);
    let of = |config: &NetworkConfig| config.init::<NdArray>(6, &Default::default()).expect("a valid model");
    let parameters = flatten_parameters(&of(&plain));
    // A residual adds no parameters, and normalisation adds its own. All other parameters have the same bits.
    assert_eq!(flatten_parameters(&of(&NetworkConfig { residual: true, ..plain.clone() })), parameters);
    let normalised = flatten_parameters(&of(&NetworkConfig { layer_norm: true, ..plain.clone() }));
    assert_eq!(normalised[..parameters.len()], parameters);
    assert_eq!(normalised[parameters.len()..].iter().sum::<f32>(), 16.0, "weights of one, biases of zero");
    // The values of one model can be loaded into the other.
    let other =
        load_parameters(of(&NetworkConfig { residual: true, ..plain }), &parameters).expect("as many parameters");
    assert_eq!(flatten_parameters(&other), parameters);
}

#[test]
fn settings_without_effect_are_refused() {
    for kind in [SAGE, ConvKind::Gcn(GcnSettings)] {
        let error = |config: NetworkConfig| match config.validate() {
            Err(ModelError::Settings { what }) => what,
            other => panic!("{other:?}"),
        };
        let config = |num_layers| NetworkConfig::stack(kind, 8, 8, 8, num_layers);
        let message = error(NetworkConfig { residual: true, ..config(2) });
        assert!(message.contains("but the model has 2 and no such layer"), "{message}");
        // A GCN has no variant with an encoder and a decoder.
        assert_eq!(message.contains("`encoder_decoder`"), kind == SAGE, "{message}");
        let graph_norm = NetworkConfig { graph_norm: true, ..config(2) };
        assert!(error(graph_norm.clone()).contains("graph norm is for models of whole graphs"));
        assert!(error(NetworkConfig { layer_norm: true, ..graph_norm }).contains("choose one of them"));
        assert!(error(NetworkConfig { feed_forward: Some(2), ..config(1) }).contains("feed-forward parts follow"));
        let none = NetworkConfig { feed_forward: Some(0), ..config(2) };
        assert_eq!(none.validate(), Err(ModelError::Zero { setting: "feed_forward" }));
        for layer_norm in [false, true] {
            let norm = |layers| NetworkConfig { layer_norm, batch_norm: !layer_norm, ..config(layers) };
            assert!(error(norm(1)).contains("norm applies to the "), "{layer_norm}");
            assert!(norm(2).validate().is_ok());
            assert!(NetworkConfig { residual: true, ..norm(3) }.validate().is_ok());
        }
    }
}
