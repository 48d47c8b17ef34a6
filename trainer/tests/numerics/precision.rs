//! The precision of a model's products reaches all of its layers and stays there.

use burn::backend::{Autodiff, NdArray};
use burn::module::AutodiffModule;
use edgecut_gnn::nn::{Aggregation, DecoderKind, Decomposition, Dot};
use edgecut_gnn::ops::{AttentionVersion, Precision};
use edgecut_graph::NodeTypeId;
use edgecut_trainer::gradients::{flatten_parameters, load_parameters};
use edgecut_trainer::models::{
    ConvKind, GatSettings, GcnSettings, GinSettings, GraphSchema, LinkModelConfig, NetworkConfig, NetworkOutput,
    RgcnSettings, SageSettings,
};
use std::fmt::Debug;

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
