//! All convolutions of the registry.

use std::sync::Arc;

use crate::support::*;
use burn::backend::NdArray;
use burn::tensor::Tensor;
use edgecut_gnn::nn::{
    Conv, ConvRole, ConvShape, EdgeData, EdgeFeatureUse, FlagValues, GcnNorm, LayerForm, Mode, ModelName, WeightInit,
};
use edgecut_gnn::ops::{BatchGraph, Block, DropoutKey, Segments};
use edgecut_graph::NodeTypeId;
use edgecut_trainer::gradients::num_parameters;
use edgecut_trainer::models::{
    ConvKind, GraphClassifier, GraphInput, GraphSchema, LayeredModel, ModelInput, NetworkConfig, NetworkOutput,
    NodeClassifier, NodeInput, Readout,
};

type Plain = NdArray<f64>;

const FORMS: [LayerForm; 2] = [LayerForm::Direct, LayerForm::Typed];

/// Returns all models of the registry with the defaults of their flags.
pub(crate) fn all_kinds() -> Vec<(&'static str, ConvKind)> {
    let mut kinds = Vec::new();
    for model in FORMS.into_iter().flat_map(ConvKind::model_names) {
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

/// Returns networks of all forms, with a convolution and all blocks that they can have.
pub(crate) fn networks(kind: ConvKind) -> Vec<NetworkConfig> {
    let output = NetworkOutput { node_type: NodeTypeId(0), channels: 3 };
    let mut graph = GraphSchema::homogeneous(5);
    graph.edge_types[0].edge_dim = if kind.edge_features() == EdgeFeatureUse::Ignored { 0 } else { 2 };
    let stack = NetworkConfig { graph: graph.clone(), ..NetworkConfig::stack(kind, 5, 8, 3, 3) };
    let whole = NetworkConfig { graph: graph.clone(), ..NetworkConfig::whole_graphs(kind, 5, 8, 3, 3) };
    let typed = NetworkConfig::typed(kind, graph, output, 8, 3);
    let pooled = NetworkConfig { encoders: true, ..whole.clone() };
    let mut networks = Vec::new();
    for network in [stack, whole, typed, pooled] {
        if kind.check(network.form(), 8).is_err() {
            continue;
        }
        for readout in [Readout::Last, Readout::JumpingKnowledge, Readout::JumpingKnowledgeMax] {
            for (layer_norm, batch_norm) in [(false, false), (true, false), (false, true)] {
                for residual in [false, true] {
                    networks.push(NetworkConfig { readout, layer_norm, batch_norm, residual, ..network.clone() });
                }
            }
            networks.push(NetworkConfig { readout, feed_forward: Some(2), ..network.clone() });
            if network.pooling.is_some() {
                networks.push(NetworkConfig { readout, graph_norm: true, batch_norm: false, ..network.clone() });
                networks.push(NetworkConfig { readout, virtual_node: true, ..network.clone() });
            }
        }
    }
    networks
}

/// Returns the features of a block's edges that a network reads.
fn edge_features(config: &NetworkConfig, block: &Block) -> Option<Tensor<Plain, 2>> {
    let dim = config.graph.edge_types[0].edge_dim;
    if dim > 0 { Some(Draws(10).matrix(block.num_edges(), dim)) } else { None }
}

/// Makes the edges of a graph, and their normalisation.
pub(crate) fn graph_of(num_nodes: usize) -> (Block, GcnNorm) {
    let graph = Arc::new(random_graph(&mut Draws(8), num_nodes, num_nodes, 3));
    let degrees: Vec<u32> = graph.indptr().windows(2).map(|ends| ends[1] - ends[0]).collect();
    let norm = GcnNorm::new(&graph, &degrees).expect("a normalisation");
    (Block::new(graph, num_nodes, num_nodes).expect("a block"), norm)
}

/// Makes the edges, the normalisation and the features of a graph with 12 nodes.
fn whole_graph() -> (Block, GcnNorm, Tensor<Plain, 2>) {
    let (block, norm) = graph_of(12);
    (block, norm, Draws(9).matrix(12, 5))
}

#[test]
fn every_network_has_all_blocks_and_counts_its_parameters() {
    let device = Default::default();
    let (block, norm, x) = whole_graph();
    let mode = Mode::Train(DropoutKey::new(3, 0, 0));
    for (name, kind) in all_kinds() {
        for config in networks(kind) {
            let config = NetworkConfig { dropout: 0.1, ..config };
            let model = config.init::<Plain>(0, &device).expect("a valid model");
            assert_eq!(config.num_parameters(), Some(num_parameters(&model)), "{name} {config:?}");
            let json = serde_json::to_string(&config).expect("JSON");
            assert_eq!(NetworkConfig::from_json(&json).expect("settings"), config);
            let output = if config.pooling.is_some() {
                let segments = Segments::new(vec![0, 5, 12]).expect("segments");
                let mut input = GraphInput::new(x.clone(), block.clone(), segments).expect("a batch");
                if let Some(rows) = edge_features(&config, &block) {
                    input = input.with_edge_features(rows).expect("a row per edge");
                }
                GraphClassifier::forward(&model, &input.with_gcn_norm(norm.clone()).expect("a batch"), mode)
            } else {
                let input = ModelInput::new(x.clone(), vec![block.clone(); 3]).expect("a batch");
                let input = input.with_edge_features(vec![edge_features(&config, &block)]).expect("a row per edge");
                NodeClassifier::forward(&model, input.with_gcn_norm(norm.clone()).expect("a batch"), mode)
            };
            let output = output.expect("a batch that fits");
            assert_eq!(output.dims(), [if config.pooling.is_some() { 2 } else { 12 }, 3], "{name} {config:?}");
            assert!(values(output).iter().all(|value| value.is_finite()), "{name} {config:?}");
        }
    }
}

#[test]
fn layers_one_after_the_other_compute_the_same_as_the_network() {
    let device = Default::default();
    let (block, norm, x) = whole_graph();
    for (name, kind) in all_kinds() {
        for config in networks(kind).into_iter().filter(|config| config.pooling.is_none()) {
            let model = config.init::<Plain>(0, &device).expect("a valid model");
            let input = ModelInput::new(x.clone(), vec![block.clone(); 3]).expect("a batch");
            let input = input.with_gcn_norm(norm.clone()).expect("a batch");
            let input = input.with_edge_features(vec![edge_features(&config, &block)]).expect("a row per edge");
            let expected = NodeClassifier::forward(&model, input, Mode::Eval).expect("a batch that fits");
            let mut rows = x.clone();
            for pass in 0..model.num_passes() {
                let reads_neighbors = model.reads_neighbors(pass);
                let mut schema = config.graph.clone();
                schema.node_types[0].feature_dim = rows.dims()[1];
                let within_hop = if reads_neighbors { vec![12, 12] } else { vec![12] };
                let nodes = NodeInput { features: Some(rows), within_hop };
                let blocks = if reads_neighbors { vec![block.clone()] } else { vec![] };
                let mut input = ModelInput::typed(Arc::new(schema), vec![nodes], vec![blocks]).expect("a batch");
                if reads_neighbors {
                    input = input.with_gcn_norm(norm.clone()).expect("a batch");
                    input = input.with_edge_features(vec![edge_features(&config, &block)]).expect("a row per edge");
                }
                rows = model.run_pass(pass, NodeTypeId(0), &input).expect("a batch that fits");
                assert_eq!(rows.dims()[1], model.width(pass, NodeTypeId(0)), "{name} {config:?}");
            }
            assert_close(&values(rows), &values(expected), 1e-12, &format!("{name} {config:?}"));
        }
    }
}

#[test]
fn destinations_without_edges_have_no_message() {
    let device = Default::default();
    // Destination 0 has two neighbors, destination 1 has none.
    let block = Block::new(Arc::new(BatchGraph::new(vec![0, 2, 2], vec![0, 2], 3).expect("a graph")), 2, 3);
    let block = block.expect("a block");
    for model in ConvKind::model_names(LayerForm::Typed) {
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
        let [x, x_dst] = [3, 2].map(|rows| draws.matrix(rows, 8));
        let output = values(layer.convolve(eval_input(x, Some(x_dst), &block, edges)));
        assert!(output[..8].iter().any(|value| *value != 0.0), "{}", model.name);
        assert!(output[8..].iter().all(|value| *value == 0.0), "{}: {output:?}", model.name);
    }
}

/// Returns the row of the guide's table for a model.
fn row_of_guide(name: &ModelName) -> String {
    let is_of = |form: LayerForm| ConvKind::model_names(form).contains(&name);
    let graphs = match FORMS.map(is_of) {
        [true, true] => "all",
        [true, false] => "homogeneous, whole graphs",
        [false, true] => "homogeneous, heterogeneous",
        other => unreachable!("{} has a combination of forms that the guide does not know: {other:?}", name.name),
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
        let names = FORMS.into_iter().flat_map(ConvKind::model_names);
        let row = row_of_guide(names.into_iter().find(|other| other.name == name).expect("a listed name"));
        assert!(guide.contains(&row), "docs/src/nodes.md lacks this row in its table of models:\n{row}");
    }
}
