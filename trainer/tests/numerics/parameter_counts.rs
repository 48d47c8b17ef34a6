//! The number of trained parameters of each model, compared with the shapes in the documentation of PyG's layers.

use burn::backend::{Autodiff, NdArray};
use edgecut_gnn::nn::{Aggregation, Decomposition};
use edgecut_gnn::ops::AttentionVersion;
use edgecut_trainer::gradients::num_trained_parameters;
use edgecut_trainer::models::{
    ConvKind, GatSettings, GcnSettings, GinSettings, GraphSchema, NetworkConfig, NetworkOutput, Readout, RgcnSettings,
    SageSettings,
};

use edgecut_graph::NodeTypeId;

type Grad = Autodiff<NdArray>;

const FEATURES: usize = 100;
const HIDDEN: usize = 64;
const CLASSES: usize = 47;
const HEADS: usize = 8;
const SAGE: ConvKind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });

/// Returns the number of parameters of tensors with these shapes.
fn sizes(shapes: &[&[usize]]) -> usize {
    shapes.iter().map(|shape| shape.iter().product::<usize>()).sum()
}

/// Counts `SAGEConv`: `lin_l` with a bias, `lin_r` without.
fn sage_conv(fan_in: usize, fan_out: usize) -> usize {
    sizes(&[&[fan_out, fan_in], &[fan_out], &[fan_out, fan_in]])
}

/// Counts `GCNConv`: `lin.weight` and `bias`.
fn gcn_conv(fan_in: usize, fan_out: usize) -> usize {
    sizes(&[&[fan_out, fan_in], &[fan_out]])
}

/// Counts `GATConv`: `lin.weight`, `att_src`, `att_dst` and `bias`.
fn gat_conv(fan_in: usize, heads: usize, channels: usize) -> usize {
    sizes(&[&[heads * channels, fan_in], &[1, heads, channels], &[1, heads, channels], &[heads * channels]])
}

/// Counts `GATv2Conv`: `lin_l` and `lin_r` with biases, `att` and `bias`.
fn gatv2_conv(fan_in: usize, heads: usize, channels: usize) -> usize {
    let width = heads * channels;
    sizes(&[&[width, fan_in], &[width], &[width, fan_in], &[width], &[1, heads, channels], &[width]])
}

/// Counts `Linear`: `weight` and `bias`.
fn linear(fan_in: usize, fan_out: usize) -> usize {
    sizes(&[&[fan_out, fan_in], &[fan_out]])
}

fn gat(version: AttentionVersion) -> ConvKind {
    ConvKind::Gat(GatSettings { heads: HEADS, version, attention_dropout: 0.0, projection_bias: true })
}

fn count_of_stack(config: &NetworkConfig) -> usize {
    let model = config.init::<Grad>(0, &Default::default()).expect("a valid model");
    num_trained_parameters(&model)
}

#[test]
fn stacks_have_the_parameters_of_pyg() {
    let per_head = HIDDEN / HEADS;
    let of = |conv: fn(usize, usize) -> usize| [conv(FEATURES, HIDDEN), conv(HIDDEN, HIDDEN), conv(HIDDEN, CLASSES)];
    let of_heads = |conv: fn(usize, usize, usize) -> usize| {
        [conv(FEATURES, HEADS, per_head), conv(HIDDEN, HEADS, per_head), conv(HIDDEN, 1, CLASSES)]
    };
    // The layers by PyG, and the total number of their parameters.
    let cases = [
        (SAGE, of(sage_conv), 27_183),
        (ConvKind::Gcn(GcnSettings), of(gcn_conv), 13_679),
        (gat(AttentionVersion::V1), of_heads(gat_conv), 14_029),
        (gat(AttentionVersion::V2), of_heads(gatv2_conv), 27_708),
    ];
    for (kind, layers, total) in cases {
        let config = NetworkConfig::stack(kind, FEATURES, HIDDEN, CLASSES, 3);
        let expected: usize = layers.iter().sum();
        assert_eq!(expected, total, "{kind:?}");
        assert_eq!(count_of_stack(&config), expected, "{kind:?}");
        assert_eq!(config.num_parameters(), Some(expected), "{kind:?}");
        // A residual has no parameters.
        assert_eq!(count_of_stack(&NetworkConfig { residual: true, ..config.clone() }), expected, "{kind:?}");
        // PyTorch's LayerNorm has a weight and a bias. There is one before each layer but the first.
        let norms = sizes(&[&[2, HIDDEN], &[2, HIDDEN]]);
        let config = NetworkConfig { residual: true, layer_norm: true, ..config };
        assert_eq!(count_of_stack(&config), expected + norms, "{kind:?}");
        assert_eq!(config.num_parameters(), Some(expected + norms), "{kind:?}");
    }
}

#[test]
fn an_encoder_and_a_decoder_are_two_linear_layers() {
    let output = NetworkOutput { node_type: NodeTypeId(0), channels: CLASSES };
    let ends = linear(FEATURES, HIDDEN) + linear(HIDDEN, CLASSES);
    let matrix = HIDDEN * HIDDEN;
    // `RGCNConv` of one relation has `weight`, `root` and `bias`, and with bases also `comp`.
    let rgcn = |decomposition, weights: &[&[usize]]| {
        (ConvKind::Rgcn(RgcnSettings { decomposition }), sizes(weights) + sizes(&[&[HIDDEN, HIDDEN], &[HIDDEN]]))
    };
    let cases = [
        (SAGE, sage_conv(HIDDEN, HIDDEN)),
        rgcn(Decomposition::None, &[&[1, HIDDEN, HIDDEN]]),
        rgcn(Decomposition::Basis { num_bases: 3 }, &[&[3, HIDDEN, HIDDEN], &[1, 3]]),
        rgcn(Decomposition::BlockDiagonal { num_blocks: 4 }, &[&[1, 4, HIDDEN / 4, HIDDEN / 4]]),
    ];
    assert_eq!(cases[1].1, 2 * matrix + HIDDEN);
    for (kind, of_layer) in cases {
        let schema = GraphSchema::homogeneous(FEATURES);
        let config = NetworkConfig::typed(kind, schema, output, HIDDEN, 2);
        let model = config.init::<Grad>(0, &Default::default()).expect("a valid model");
        assert_eq!(num_trained_parameters(&model), ends + 2 * of_layer, "{kind:?}");
        assert_eq!(config.num_parameters(), Some(ends + 2 * of_layer), "{kind:?}");
    }
}

#[test]
fn networks_of_whole_graphs_have_the_parameters_of_pyg() {
    // PyTorch's BatchNorm1d has a weight and a bias. Its running statistics are not trained.
    let batch_norm = sizes(&[&[HIDDEN], &[HIDDEN]]);
    // `GINConv` of `MLP([in, HIDDEN, HIDDEN])`, plus `eps` if it is trained.
    let gin_conv = |fan_in: usize, eps: usize| linear(fan_in, HIDDEN) + batch_norm + linear(HIDDEN, HIDDEN) + eps;
    let gin = |learn_epsilon| ConvKind::Gin(GinSettings { mlp_layers: 2, learn_epsilon });
    let cases = [
        (gin(false), [gin_conv(FEATURES, 0), gin_conv(HIDDEN, 0)]),
        (gin(true), [gin_conv(FEATURES, 1), gin_conv(HIDDEN, 1)]),
        (ConvKind::Gcn(GcnSettings), [gcn_conv(FEATURES, HIDDEN), gcn_conv(HIDDEN, HIDDEN)]),
        (
            ConvKind::Sage(SageSettings { aggregation: Aggregation::Sum }),
            [sage_conv(FEATURES, HIDDEN), sage_conv(HIDDEN, HIDDEN)],
        ),
    ];
    for (conv, layers) in cases {
        let config =
            NetworkConfig { readout: Readout::Last, ..NetworkConfig::whole_graphs(conv, FEATURES, HIDDEN, CLASSES, 2) };
        let model = config.init::<Grad>(0, &Default::default()).expect("a valid model");
        let expected = layers.iter().sum::<usize>() + 2 * batch_norm + linear(HIDDEN, CLASSES);
        assert_eq!(num_trained_parameters(&model), expected, "{conv:?}");
    }
}
