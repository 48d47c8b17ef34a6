//! The precision of a model's products reaches all of its layers and stays there.

use crate::support::{Draws, assert_close, eval_input, prefix_block, random_graph, values};
use burn::backend::{Autodiff, NdArray};
use burn::module::{AutodiffModule, Param};
use burn::tensor::{FloatDType, Tensor};
use edgecut_gnn::nn::{
    Aggregation, Conv, DecoderKind, Decomposition, Dot, EdgeData, GatConv, GatConvConfig, WeightInit,
};
use edgecut_gnn::ops::{AttentionVersion, Precision};
use edgecut_graph::NodeTypeId;
use edgecut_trainer::gradients::{flatten_parameters, load_parameters};
use edgecut_trainer::models::{
    ConvKind, GatSettings, GcnSettings, GinSettings, GraphSchema, LinkModelConfig, NetworkConfig, NetworkOutput,
    RgcnSettings, SageSettings,
};
use std::fmt::Debug;
use std::sync::Arc;

type Grad = Autodiff<NdArray>;

const SAGE: ConvKind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
const RGCN: ConvKind = ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::None });

fn gat(version: AttentionVersion) -> ConvKind {
    ConvKind::Gat(GatSettings { heads: 2, version, attention_dropout: 0.0, projection_bias: true })
}

/// Checks that all layers multiply in `bf16`. Layers print their precision.
fn assert_bf16(model: &impl Debug) {
    let text = format!("{model:?}");
    assert!(text.contains("precision: Bf16") && !text.contains("precision: F32"), "{text}");
}

/// Checks a model, its copy for evaluation, and the model after its parameters have been replaced.
fn assert_stays_bf16<M: AutodiffModule<Grad>>(model: M) {
    assert_bf16(&model);
    assert_bf16(&model.valid());
    let parameters = flatten_parameters(&model);
    assert_bf16(&load_parameters(model, &parameters).expect("as many parameters"));
}

#[test]
fn all_layers_multiply_in_the_precision_of_the_model() {
    let device = Default::default();
    let output = NetworkOutput { node_type: NodeTypeId(0), channels: 2 };
    let gin = ConvKind::Gin(GinSettings { mlp_layers: 2, learn_epsilon: true });
    let gats = [AttentionVersion::V1, AttentionVersion::V2].map(gat);
    for kind in [SAGE, ConvKind::Gcn(GcnSettings), RGCN, gin].into_iter().chain(gats) {
        let stack = NetworkConfig::stack(kind, 3, 4, 2, 2);
        let whole_graphs = NetworkConfig::whole_graphs(kind, 3, 4, 2, 2);
        let typed = NetworkConfig::typed(kind, GraphSchema::homogeneous(3), output, 4, 2);
        for config in [stack, whole_graphs, typed.clone()] {
            if kind.check(config.form(), 4).is_ok() {
                let mut model = config.init::<Grad>(0, &device).expect("a valid model");
                model.set_precision(Precision::Bf16);
                assert_stays_bf16(model);
            }
        }
        if kind.check(typed.form(), 4).is_ok() {
            let encoder = NetworkConfig { outputs: Vec::new(), ..typed };
            let config = LinkModelConfig { encoder, decoder: DecoderKind::Dot(Dot {}) };
            let mut model = config.init::<Grad>(0, &device).expect("a valid model");
            model.set_precision(Precision::Bf16);
            assert_stays_bf16(model);
        }
    }
}

/// Draws a matrix of `f32` numbers, whatever the type of new tensors.
fn single(draws: &mut Draws, rows: usize, columns: usize) -> Tensor<Grad, 2> {
    draws.matrix::<Grad>(rows, columns).cast(FloatDType::F32)
}

/// Draws a matrix of whole numbers, which `bf16` does not round.
fn whole(draws: &mut Draws, rows: usize, columns: usize) -> Tensor<Grad, 2> {
    single(draws, rows, columns).mul_scalar(9.0).round().detach()
}

#[test]
fn scores_of_attention_are_not_rounded() {
    let mut draws = Draws(15);
    let block = prefix_block(&Arc::new(random_graph(&mut Draws(16), 40, 60, 9)), 30);
    let x = whole(&mut draws, block.num_src(), 8);
    let x_dst = x.clone().slice([0..30, 0..8]);
    let features = single(&mut draws, block.num_edges(), 5);
    for edge_channels in [0, 5] {
        let config = GatConvConfig::new(8, 6, 2).with_version(AttentionVersion::V1).with_bias(false);
        let config = config.with_edge_channels(edge_channels);
        let mut layer: GatConv<Grad> = config.init(&mut WeightInit::new(1), &Default::default());
        let mut vector = || Param::from_tensor(single(&mut draws, 2, 6).reshape([1, 2, 6]).detach());
        layer.attention_src = vector();
        layer.attention_dst = Some(vector());
        layer.attention_edge = layer.attention_edge.map(|_| vector());
        layer.weight_src = Param::from_tensor(whole(&mut draws, 8, 12));
        layer.weight_edge = layer.weight_edge.map(|_| Param::from_tensor(single(&mut draws, 5, 12).detach()));
        let edges = EdgeData { features: (edge_channels > 0).then(|| features.clone()), ..EdgeData::default() };
        for x_dst in [None, Some(x_dst.clone())] {
            let [exact, rounded] = [Precision::F32, Precision::Bf16].map(|precision| {
                layer.set_precision(precision);
                values(layer.convolve(eval_input(x.clone(), x_dst.clone(), &block, edges.clone())).inner())
            });
            // The messages are products of whole numbers, so only scores can differ.
            let case =
                format!("{edge_channels} features of edges, {} rows", if x_dst.is_some() { "other" } else { "own" });
            assert_close(&rounded, &exact, 1e-4, &case);
        }
    }
}
