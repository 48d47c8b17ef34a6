//! All convolutions of the registry, and the graph convolution compared with a slow computation.

use std::sync::Arc;

use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::module::Param;
use burn::tensor::Tensor;
use edgecut_trainer::gradients::num_parameters;
use edgecut_trainer::models::{
    ConvKind, GraphNetConfig, GraphSchema, NodeModelConfig, RelationalConfig, RelationalOutput,
};
use edgecut_trainer::nn::{
    Aggregation, Conv, ConvInput, ConvRole, ConvShape, EdgeData, EdgeFeatureUse, FlagValues, GraphConv,
    GraphConvSettings, LayerPass, Mode, ModelName, Network, WeightInit,
};
use edgecut_trainer::ops::{Activation, BatchGraph, Block};

type Plain = NdArray<f64>;
type Grad = Autodiff<Plain>;

const NETWORKS: [Network; 3] = [Network::Stack, Network::Typed, Network::WholeGraphs];

/// Returns all models of the registry with the defaults of their flags.
fn all_kinds() -> Vec<(&'static str, ConvKind)> {
    let mut kinds = Vec::new();
    for model in NETWORKS.into_iter().flat_map(ConvKind::model_names) {
        let kind = ConvKind::from_flags(model.name, FlagValues::new()).expect("defaults are valid");
        if !kinds.contains(&(model.name, kind)) {
            kinds.push((model.name, kind));
        }
    }
    kinds
}

#[test]
fn settings_survive_flags_and_model_files() {
    let kinds = all_kinds();
    assert!(kinds.len() >= 7);
    for (name, kind) in kinds {
        assert_eq!(kind.model_name(), name);
        assert_eq!(ConvKind::from_flags(name, kind.to_flags()), Ok(kind));
        let json = serde_json::to_string(&kind).expect("JSON");
        assert_eq!(serde_json::from_str::<ConvKind>(&json).expect("the settings"), kind, "{json}");
    }
    let error = serde_json::from_str::<ConvKind>(r#""sagee""#).expect_err("an unknown convolution");
    assert!(error.to_string().contains("unknown convolution \"sagee\", expected one of sage, gcn"), "{error}");
    assert!(serde_json::from_str::<ConvKind>(r#"{"sage":{"aggregation":"mean","heads":1}}"#).is_err());
}

#[test]
fn every_network_has_the_parameters_that_it_counts() {
    let device = Default::default();
    for network in NETWORKS {
        for model in ConvKind::model_names(network) {
            let kind = ConvKind::from_flags(model.name, FlagValues::new()).expect("defaults are valid");
            let (counted, made) = match network {
                Network::Stack => {
                    let config = NodeModelConfig::new(kind, 5, 8, 3, 3).with_layer_norm(true);
                    let model = config.init::<NdArray>(0, &device).expect("a valid model");
                    (config.num_parameters(), num_parameters(&model))
                }
                Network::Typed => {
                    let output = RelationalOutput { node_type: edgecut_graph::NodeTypeId(0), channels: 3 };
                    let config = RelationalConfig::new(kind, GraphSchema::homogeneous(5), output, 8, 2);
                    let model = config.init::<NdArray>(0, &device).expect("a valid model");
                    (config.num_parameters(), num_parameters(&model))
                }
                Network::WholeGraphs => {
                    let config = GraphNetConfig::new(kind, 5, 8, 3, 2);
                    let model = config.init::<NdArray>(0, &device).expect("a valid model");
                    (config.num_parameters(), num_parameters(&model))
                }
            };
            assert_eq!(counted, Some(made), "{network:?} {}", model.name);
        }
    }
}

/// Computes the layer with burn's own operations.
fn slow(layer: &GraphConv<Grad>, x: Tensor<Grad, 2>, block: &Block, aggregation: Aggregation) -> Tensor<Grad, 2> {
    let [_, width] = x.dims();
    let own = x.clone().slice([0..block.num_dst(), 0..width]);
    let neighbors = gather_scatter(x, block, &aggregation.reduce()).matmul(layer.weight_neighbors.val());
    let root = layer.weight_root.as_ref().map(Param::val).expect("a layer of its own");
    let bias = layer.bias.as_ref().map(Param::val).expect("a bias");
    neighbors + bias.unsqueeze() + own.matmul(root)
}

#[test]
fn graph_convolution_equals_its_formula_forward_and_backward() {
    let device = Default::default();
    let mut draws = Draws(21);
    let block = prefix_block(&Arc::new(random_graph(&mut draws, 15, 25, 6)), 11);
    let x = draws.matrix::<Grad>(block.num_src(), 4);
    for aggregation in [Aggregation::Mean, Aggregation::Sum, Aggregation::Max] {
        let shape =
            ConvShape { in_channels: 4, out_channels: 3, edge_channels: 0, role: ConvRole::Hidden, batch_norm: false };
        let kind = ConvKind::GraphConv(GraphConvSettings { aggregation });
        let any = kind.init::<Grad>(shape, &mut WeightInit::new(9), &device);
        let edgecut_trainer::nn::AnyConv::GraphConv(layer) = &any else { unreachable!("a GraphConv was made") };
        let run = |is_slow: bool| {
            let x = x.clone().detach().require_grad();
            let output = if is_slow {
                slow(layer, x.clone(), &block, aggregation)
            } else {
                any.convolve(ConvInput {
                    x: x.clone(),
                    x_dst: None,
                    block: &block,
                    edges: EdgeData::default(),
                    pass: LayerPass::new(Mode::Eval, 0),
                    activation: Activation::Identity,
                })
            };
            let gradients = output.clone().powi_scalar(2).sum().backward();
            let mut all = values(output);
            all.extend(values(x.grad(&gradients).expect("x")));
            all.extend(values(layer.weight_neighbors.grad(&gradients).expect("weight_neighbors")));
            all
        };
        assert_close(&run(false), &run(true), 1e-10, &aggregation.to_string());
    }
}

#[test]
fn destinations_without_edges_have_no_message() {
    let device = Default::default();
    // Destination 0 has two neighbors, destination 1 has none.
    let block = Block::new(Arc::new(BatchGraph::new(vec![0, 2, 2], vec![0, 2], 3).expect("a graph")), 2, 3);
    let block = block.expect("a block");
    for model in ConvKind::model_names(Network::Typed) {
        let kind = ConvKind::from_flags(model.name, FlagValues::new()).expect("defaults are valid");
        if kind.is_typed() {
            continue;
        }
        let role = ConvRole::EdgeType { between_types: true };
        let mut draws = Draws(5);
        let mut edges = EdgeData::default();
        let mut edge_channels = 0;
        if kind.edge_features() != EdgeFeatureUse::Ignored {
            edge_channels = 3;
            edges.features = Some(draws.matrix(block.num_edges(), edge_channels));
        }
        let shape = ConvShape { in_channels: 8, out_channels: 8, edge_channels, role, batch_norm: false };
        let layer = kind.init::<Plain>(shape, &mut WeightInit::new(3), &device);
        let output = layer.convolve(ConvInput {
            x: draws.matrix(3, 8),
            x_dst: Some(draws.matrix(2, 8)),
            block: &block,
            edges,
            pass: LayerPass::new(Mode::Eval, 0),
            activation: Activation::Identity,
        });
        let output = values(output);
        assert!(output[..8].iter().any(|value| *value != 0.0), "{}", model.name);
        assert!(output[8..].iter().all(|value| *value == 0.0), "{}: {output:?}", model.name);
    }
}

/// Returns the row of the guide's table for a model.
fn row_of_guide(name: &ModelName) -> String {
    let is_of = |network: Network| ConvKind::model_names(network).contains(&name);
    let graphs = match NETWORKS.map(is_of) {
        [true, true, true] => "all",
        [true, false, true] => "homogeneous, whole graphs",
        [false, true, false] => "homogeneous, heterogeneous",
        other => unreachable!("{} has a combination of networks that the guide does not know: {other:?}", name.name),
    };
    let flags = ConvKind::flags_of(name.name).iter().map(|flag| format!("`--{}`", flag.name.replace('_', "-")));
    let flags: Vec<String> = flags.collect();
    let kind = ConvKind::from_flags(name.name, FlagValues::new()).expect("defaults are valid");
    let edges = match kind.edge_features() {
        EdgeFeatureUse::Ignored => "ignored",
        EdgeFeatureUse::Read => "read",
        EdgeFeatureUse::Required => "required",
    };
    format!("| `{}` | {} | {} | {graphs} | {edges} |", name.name, name.help, flags.join(", "))
}

#[test]
fn the_guide_lists_all_convolutions() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/nodes.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    for (name, _) in all_kinds() {
        let names = NETWORKS.into_iter().flat_map(ConvKind::model_names);
        let row = row_of_guide(names.into_iter().find(|other| other.name == name).expect("a listed name"));
        assert!(guide.contains(&row), "docs/src/nodes.md lacks this row in its table of models:\n{row}");
    }
}
