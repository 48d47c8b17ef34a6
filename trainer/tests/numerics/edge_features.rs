//! Convolutions with and without features and weights of edges, compared with slow computations by burn's own operations.

use std::sync::Arc;

use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::module::Param;
use burn::tensor::activation::{leaky_relu, relu, softmax};
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::nn::{
    AnyConv, Conv, ConvInput, ConvKind, ConvRole, ConvShape, EdgeData, EdgeFeatureUse, EdgeWeighting, FlagValues,
    GatConv, GcnNorm, GineConv, LayerForm, PnaConv, TransformerConv, WeightInit,
};
use edgecut_gnn::ops::{AttentionVersion, Block};

type Plain = NdArray<f64>;
type Grad = Autodiff<Plain>;
type Matrix = Tensor<Grad, 2>;

const EDGE_CHANNELS: usize = 3;

/// A block with the rows that a layer reads.
struct Rows {
    block: Block,
    x: Matrix,
    /// Rows of destinations of another node type.
    x_dst: Option<Matrix>,
    edges: Matrix,
}

impl Rows {
    fn new(seed: u64, in_channels: usize, between_types: bool) -> Self {
        let mut draws = Draws(seed);
        let block = prefix_block(&Arc::new(random_graph(&mut draws, 14, 20, 5)), 9);
        let x = draws.matrix(block.num_src(), in_channels);
        let x_dst = between_types.then(|| draws.matrix(block.num_dst(), in_channels));
        let edges = draws.matrix(block.num_edges(), EDGE_CHANNELS);
        Self { block, x, x_dst, edges }
    }

    fn input(&self, x: Matrix, edges: EdgeData<Grad>) -> ConvInput<'_, Grad> {
        eval_input(x, self.x_dst.clone(), &self.block, edges)
    }

    fn of_destinations(&self, x: &Matrix) -> Matrix {
        let [_, width] = x.dims();
        self.x_dst.clone().unwrap_or_else(|| x.clone().slice([0..self.block.num_dst(), 0..width]))
    }

    fn by_source(&self, x: Matrix) -> Matrix {
        x.select(0, ints(sources_of(&self.block)))
    }

    fn by_destination(&self, x: Matrix) -> Matrix {
        let mut rows = Vec::new();
        for (row, ends) in self.block.indptr().windows(2).enumerate() {
            rows.resize(ends[1] as usize, row as i64);
        }
        x.select(0, ints(rows))
    }

    /// Applies `reduce` to the rows of each destination's edges.
    fn by_row(&self, edges: &Matrix, reduce: impl Fn(usize, Matrix) -> Matrix) -> Matrix {
        let [_, width] = edges.dims();
        let mut rows = Vec::new();
        for (row, ends) in self.block.indptr().windows(2).enumerate() {
            let range = ends[0] as usize..ends[1] as usize;
            let of_row = if range.is_empty() {
                Tensor::zeros([0, width], &edges.device())
            } else {
                edges.clone().slice([range, 0..width])
            };
            rows.push(reduce(row, of_row));
        }
        Tensor::cat(rows, 0)
    }

    /// Returns the messages weighted by the softmax of the scores. The last entry of a row is for its self edge.
    fn attend(&self, scores: Matrix, messages: Matrix, own: Option<(Matrix, Matrix)>, heads: usize) -> Matrix {
        let [_, width] = messages.dims();
        let both = Tensor::cat(vec![scores, messages], 1);
        self.by_row(&both, |row, mut entries| {
            if let Some((scores, messages)) = &own {
                let own = vec![scores.clone().narrow(0, row, 1), messages.clone().narrow(0, row, 1)];
                let own = Tensor::cat(own, 1);
                entries = if entries.dims()[0] == 0 { own } else { Tensor::cat(vec![entries, own], 0) };
            }
            let [count, columns] = entries.dims();
            if count == 0 {
                return Tensor::zeros([1, width], &entries.device());
            }
            let weights = softmax(entries.clone().slice([0..count, 0..heads]), 0).reshape([count, heads, 1]);
            let messages = entries.slice([0..count, heads..columns]).reshape([count, heads, width / heads]);
            (weights * messages).sum_dim(0).reshape([1, width])
        })
    }
}

fn row(vector: &Param<Tensor<Grad, 1>>) -> Matrix {
    vector.val().unsqueeze()
}

fn dot(a: Matrix, vector: &Param<Tensor<Grad, 3>>) -> Matrix {
    let [rows, _] = a.dims();
    let [_, heads, channels] = vector.dims();
    (a.reshape([rows, heads, channels]) * vector.val()).sum_dim(2).reshape([rows, heads])
}

fn slow_gat(layer: &GatConv<Grad>, x: Matrix, rows: &Rows, version: AttentionVersion, self_edges: bool) -> Matrix {
    let x_dst = rows.of_destinations(&x);
    let mut z = x.matmul(layer.weight_src.val());
    let mut z_dst = x_dst.matmul(layer.weight_dst.as_ref().unwrap_or(&layer.weight_src).val());
    if let (Some(src), Some(dst)) = (&layer.bias_src, &layer.bias_dst) {
        z = z + row(src);
        z_dst = z_dst + row(dst);
    }
    let [_, heads, _] = layer.attention_src.dims();
    let [num_dst, width] = z_dst.dims();
    let of_edges = rows.edges.clone().matmul(layer.weight_edge.as_ref().expect("edge features").val());
    let mean = rows.by_row(&of_edges, |_, edges| match edges.dims()[0] {
        0 => Tensor::zeros([1, width], &edges.device()),
        _ => edges.mean_dim(0),
    });
    let score = |src: Matrix, dst: Matrix, edges: Matrix| match version {
        AttentionVersion::V1 => {
            let of_dst = layer.attention_dst.as_ref().expect("version 1");
            let of_edges = layer.attention_edge.as_ref().expect("version 1");
            leaky_relu(dot(src, &layer.attention_src) + dot(dst, of_dst) + dot(edges, of_edges), 0.2)
        }
        AttentionVersion::V2 => dot(leaky_relu(src + dst + edges, 0.2), &layer.attention_src),
    };
    let scores = score(rows.by_source(z.clone()), rows.by_destination(z_dst.clone()), of_edges);
    let own = self_edges.then(|| {
        let src = z.clone().slice([0..num_dst, 0..width]);
        (score(src.clone(), z_dst, mean), src)
    });
    let output = rows.attend(scores, rows.by_source(z), own, heads);
    match &layer.bias {
        Some(bias) => output + row(bias),
        None => output,
    }
}

fn slow_transformer(layer: &TransformerConv<Grad>, x: Matrix, rows: &Rows, heads: usize) -> Matrix {
    let x_dst = rows.of_destinations(&x);
    let dense = |x: Matrix, dense: &edgecut_gnn::nn::Dense<Grad>| x.matmul(dense.weight.val()) + row(&dense.bias);
    let of_edges = rows.edges.clone().matmul(layer.weight_edge.as_ref().expect("edge features").val());
    let query = rows.by_destination(dense(x_dst.clone(), &layer.query));
    let key = rows.by_source(dense(x.clone(), &layer.key)) + of_edges.clone();
    let messages = rows.by_source(dense(x, &layer.value)) + of_edges;
    let [count, width] = key.dims();
    let scores = (query * key).reshape([count, heads, width / heads]).sum_dim(2).reshape([count, heads]);
    let output = rows.attend(scores / ((width / heads) as f64).sqrt(), messages, None, heads);
    match &layer.own {
        Some(own) => output + dense(x_dst, own),
        None => output,
    }
}

fn slow_gine(layer: &GineConv<Grad>, x: Matrix, rows: &Rows) -> Matrix {
    let own = rows.of_destinations(&x);
    let of_edges = rows.edges.clone().matmul(layer.edge.weight.val()) + row(&layer.edge.bias);
    let messages = relu(rows.by_source(x) + of_edges);
    let [_, width] = own.dims();
    let sums = rows.by_row(&messages, |_, edges| match edges.dims()[0] {
        0 => Tensor::zeros([1, width], &edges.device()),
        _ => edges.sum_dim(0),
    });
    let epsilon = layer.gin.epsilon.as_ref().expect("a learned epsilon").val();
    let mut output = sums + own * epsilon.add_scalar(1.0).unsqueeze();
    let last = layer.gin.mlp.layers.len() - 1;
    for (number, dense) in layer.gin.mlp.layers.iter().enumerate() {
        output = output.matmul(dense.weight.val()) + row(&dense.bias);
        output = if number < last { relu(output) } else { output };
    }
    if rows.x_dst.is_none() {
        return output;
    }
    let has_edges = rows.block.indptr().windows(2).map(|ends| if ends[0] < ends[1] { 1.0 } else { 0.0 }).collect();
    output * Tensor::from_data(TensorData::new(has_edges, [rows.block.num_dst(), 1]), &Default::default())
}

/// Computes the layer with a row per edge, as PyG's `PNAConv` does.
fn slow_pna(layer: &PnaConv<Grad>, x: Matrix, rows: &Rows, mean_degree: f64) -> Matrix {
    let own = rows.of_destinations(&x);
    let edge = layer.edge.as_ref().expect("edge features");
    let of_edges = rows.edges.clone().matmul(edge.weight.val()) + row(&edge.bias);
    let messages = Tensor::cat(vec![rows.by_destination(own.clone()), rows.by_source(x), of_edges], 1);
    let messages = messages.matmul(layer.pre.weight.val()) + row(&layer.pre.bias);
    let [_, width] = messages.dims();
    let scaled = rows.by_row(&messages, |_, edges| {
        let [count, _] = edges.dims();
        if count == 0 {
            return Tensor::zeros([1, 12 * width], &edges.device());
        }
        let mean = edges.clone().mean_dim(0);
        let variance = edges.clone().powi_scalar(2).mean_dim(0) - mean.clone().powi_scalar(2);
        let is_small = variance.clone().lower_equal_elem(1e-5);
        let deviation = variance.clamp_min(1e-5).sqrt().mask_fill(is_small, 0.0);
        let all = Tensor::cat(vec![mean, edges.clone().min_dim(0), edges.max_dim(0), deviation], 1);
        let scale = (count as f64 + 1.0).ln() / (mean_degree + 1.0).ln();
        Tensor::cat(vec![all.clone(), all.clone() * scale, all / scale], 1)
    });
    match (&layer.post_bias, &layer.lin) {
        (Some(bias), Some(lin)) => {
            let output = Tensor::cat(vec![own, scaled], 1).matmul(layer.post.val()) + row(bias);
            output.matmul(lin.weight.val()) + row(&lin.bias)
        }
        _ => scaled.matmul(layer.post.val()),
    }
}

/// The weights of a layer that aggregates the rows of neighbors and edges, and the settings of the aggregation.
struct Aggregating<'a> {
    neighbors: &'a Param<Tensor<Grad, 2>>,
    own: Option<&'a Param<Tensor<Grad, 2>>>,
    bias: Option<&'a Param<Tensor<Grad, 1>>>,
    edge: Option<&'a Param<Tensor<Grad, 2>>>,
    aggregation: String,
}

impl<'a> Aggregating<'a> {
    fn of(layer: &'a AnyConv<Grad>, kind: ConvKind) -> Self {
        let aggregation = kind.to_flags()["aggregation"].as_str().expect("a word").to_owned();
        match layer {
            AnyConv::Sage(layer) => Self {
                neighbors: &layer.weight_neighbors,
                own: layer.weight_self.as_ref(),
                bias: layer.bias.as_ref(),
                edge: layer.weight_edge.as_ref(),
                aggregation,
            },
            AnyConv::GraphConv(layer) => Self {
                neighbors: &layer.weight_neighbors,
                own: layer.weight_root.as_ref(),
                bias: layer.bias.as_ref(),
                edge: layer.weight_edge.as_ref(),
                aggregation,
            },
            other => panic!("no aggregation: {other:?}"),
        }
    }

    /// Computes the aggregation of concatenated rows. `divisor` divides a weighted mean: by the sum of the weights or the
    /// number of edges.
    fn slow(&self, x: Matrix, rows: &Rows, weights: Option<&[f32]>, divides_by_weights: bool) -> Matrix {
        let own = rows.of_destinations(&x);
        let mut messages = rows.by_source(x);
        let mut weight = self.neighbors.val();
        if let Some(of_edges) = self.edge {
            messages = Tensor::cat(vec![messages, rows.edges.clone()], 1);
            weight = Tensor::cat(vec![weight, of_edges.val()], 0);
        }
        let [count, width] = messages.dims();
        let factors: Vec<f64> = weights.map_or(vec![1.0; count], |all| all.iter().map(|&w| f64::from(w)).collect());
        let column = Tensor::<Grad, 2>::from_data(TensorData::new(factors, [count, 1]), &Default::default());
        let both = Tensor::cat(vec![column, messages], 1);
        let aggregated = rows.by_row(&both, |_, entries| {
            let [count, _] = entries.dims();
            if count == 0 {
                return Tensor::zeros([1, width], &entries.device());
            }
            let factors = entries.clone().slice([0..count, 0..1]);
            let messages = entries.slice([0..count, 1..width + 1]);
            match self.aggregation.as_str() {
                "max" => messages.max_dim(0),
                "sum" => (messages * factors).sum_dim(0),
                _ if divides_by_weights => (messages * factors.clone()).sum_dim(0) / factors.sum_dim(0),
                _ => (messages * factors).sum_dim(0) / count as f64,
            }
        });
        let mut output = aggregated.matmul(weight);
        if let Some(weight) = self.own {
            output = output + own.matmul(weight.val());
        }
        match self.bias {
            Some(bias) => output + row(bias),
            None => output,
        }
    }
}

/// Returns the output, and the gradients of the input and of all parameters.
fn all_values(layer: &AnyConv<Grad>, x: &Matrix, compute: impl Fn(Matrix) -> Matrix) -> Vec<f64> {
    let x = x.clone().detach().require_grad();
    let output = compute(x.clone());
    let gradients = output.clone().powi_scalar(2).sum().backward();
    let mut all = values(output);
    all.extend(values(x.grad(&gradients).expect("the input has a gradient")));
    let of_parameters = parameter_gradients(layer, &gradients);
    assert_eq!(of_parameters.num_missing, 0, "every parameter has a gradient");
    all.extend(of_parameters.values);
    all
}

#[test]
fn layers_over_edge_features_equal_their_formulas_forward_and_backward() {
    let device = Default::default();
    let mut compared = 0;
    for model in ConvKind::model_names(LayerForm::Direct) {
        let mut flags = FlagValues::new();
        if model.name == "gine" {
            flags.insert("learn_epsilon".into(), true.into());
        }
        let kind = ConvKind::from_flags(model.name, flags).expect("valid flags");
        if kind.edge_features() == EdgeFeatureUse::Ignored {
            continue;
        }
        for role in [ConvRole::Hidden, ConvRole::Output, ConvRole::EdgeType { between_types: true }] {
            let is_message = matches!(role, ConvRole::EdgeType { .. });
            let heads = if role == ConvRole::Output { 1 } else { 4 };
            let rows = Rows::new(31, 8, is_message);
            let shape =
                ConvShape { in_channels: 8, out_channels: 8, edge_channels: EDGE_CHANNELS, role, batch_norm: false };
            let layer = kind.init::<Grad>(shape, &mut WeightInit::new(5), &device);
            let edges = EdgeData { features: Some(rows.edges.clone()), ..EdgeData::default() };
            let fast = all_values(&layer, &rows.x, |x| layer.convolve(rows.input(x, edges.clone())));
            let slow = all_values(&layer, &rows.x, |x| match (&layer, kind) {
                (AnyConv::Gat(layer), ConvKind::Gat(settings)) => {
                    slow_gat(layer, x, &rows, settings.version, !is_message)
                }
                (AnyConv::Transformer(layer), _) => slow_transformer(layer, x, &rows, heads),
                (AnyConv::Gine(layer), _) => slow_gine(layer, x, &rows),
                (AnyConv::Pna(layer), ConvKind::Pna(settings)) => {
                    slow_pna(layer, x, &rows, settings.mean_degree as f64)
                }
                (AnyConv::Sage(_) | AnyConv::GraphConv(_), _) => {
                    Aggregating::of(&layer, kind).slow(x, &rows, None, false)
                }
                (other, _) => panic!("{} reads edge features: add its formula ({other:?})", model.name),
            });
            assert_close(&fast, &slow, 1e-6, &format!("{} as {role:?}", model.name));
            compared += 1;
        }
    }
    assert_eq!(compared, 7 * 3);
}

/// Returns the output of a layer over rows, and the gradient of the input.
fn output_and_gradient(layer: &PnaConv<Grad>, rows: &Rows, features: Option<Matrix>) -> Vec<f64> {
    let x = rows.x.clone().detach().require_grad();
    let output = layer.convolve(rows.input(x.clone(), EdgeData { features, ..EdgeData::default() }));
    let gradients = output.clone().powi_scalar(2).sum().backward();
    [values(output), values(x.grad(&gradients).expect("a gradient"))].concat()
}

/// Features of edges that are 0 change nothing but by the bias of their encoder: without features, the layer computes no
/// rows of edges.
#[test]
fn principal_aggregation_without_features_equals_that_with_zeros() {
    let device = Default::default();
    let kind = ConvKind::from_flags("pna", FlagValues::new()).expect("defaults are valid");
    for role in [ConvRole::Hidden, ConvRole::EdgeType { between_types: true }] {
        let is_message = matches!(role, ConvRole::EdgeType { .. });
        let rows = Rows::new(37, 8, is_message);
        let mut shape = ConvShape { in_channels: 8, out_channels: 6, edge_channels: 3, role, batch_norm: false };
        let with_zeros = kind.init::<Grad>(shape, &mut WeightInit::new(5), &device);
        shape.edge_channels = 0;
        let without = kind.init::<Grad>(shape, &mut WeightInit::new(5), &device);
        let (AnyConv::Pna(with_zeros), AnyConv::Pna(mut without)) = (with_zeros, without) else {
            unreachable!("layers of principal aggregation were made")
        };
        let pre = with_zeros.pre.weight.val().slice([0..16, 0..8]).detach();
        let bias = with_zeros.edge.as_ref().expect("edge features").bias.val();
        let of_bias = bias.unsqueeze::<2>().matmul(with_zeros.pre.weight.val().slice([16..24, 0..8]));
        let of_bias: Tensor<Grad, 1> = with_zeros.pre.bias.val() + of_bias.squeeze::<1>();
        without.pre.weight = Param::from_tensor(pre);
        without.pre.bias = Param::from_tensor(of_bias.detach());
        without.post = with_zeros.post.clone();
        without.post_bias = with_zeros.post_bias.clone();
        without.lin = with_zeros.lin.clone();
        let zeros = Tensor::zeros([rows.block.num_edges(), 3], &device);
        // The deviation is computed from rows that differ by a constant.
        let found = output_and_gradient(&without, &rows, None);
        assert_close(&found, &output_and_gradient(&with_zeros, &rows, Some(zeros)), 1e-5, &format!("{role:?}"));
    }
}

#[test]
fn edge_features_change_the_output() {
    let device = Default::default();
    for model in ConvKind::model_names(LayerForm::Direct) {
        let kind = ConvKind::from_flags(model.name, FlagValues::new()).expect("defaults are valid");
        let reads = kind.edge_features() != EdgeFeatureUse::Ignored;
        let rows = Rows::new(33, 8, false);
        let edge_channels = if reads { EDGE_CHANNELS } else { 0 };
        let shape =
            ConvShape { in_channels: 8, out_channels: 8, edge_channels, role: ConvRole::Hidden, batch_norm: false };
        if kind.needs_gcn_norm() {
            continue;
        }
        let layer = kind.init::<Grad>(shape, &mut WeightInit::new(5), &device);
        let run = |edges: Matrix| {
            let edges = EdgeData { features: Some(edges), ..EdgeData::default() };
            values(layer.convolve(rows.input(rows.x.clone(), edges)))
        };
        assert_eq!(run(rows.edges.clone()) != run(rows.edges.clone() * 2.0), reads, "{}", model.name);
    }
}

#[test]
fn aggregations_equal_their_formulas_with_and_without_features_and_weights() {
    let device = Default::default();
    let mut compared = 0;
    for (model, aggregation) in [
        ("sage", "mean"),
        ("sage", "sum"),
        ("sage", "max"),
        ("graphconv", "mean"),
        ("graphconv", "sum"),
        ("graphconv", "max"),
    ] {
        let mut flags = FlagValues::new();
        flags.insert("aggregation".into(), aggregation.into());
        let kind = ConvKind::from_flags(model, flags).expect("valid flags");
        let weighting = kind.edge_weighting();
        assert_eq!(weighting == EdgeWeighting::None, aggregation == "max", "{model}");
        for (edge_channels, is_weighted) in [(0, false), (0, true), (EDGE_CHANNELS, true), (EDGE_CHANNELS, false)] {
            if is_weighted && aggregation == "max" {
                continue;
            }
            for role in [ConvRole::Hidden, ConvRole::EdgeType { between_types: true }] {
                // Wide inputs of a whole graph multiply before they aggregate, others after it.
                for (in_channels, out_channels) in [(40, 3), (3, 40)] {
                    let rows = Rows::new(37, in_channels, matches!(role, ConvRole::EdgeType { .. }));
                    let mut draws = Draws(38);
                    let num_edges = rows.block.graph().num_edges();
                    let weights: Vec<f32> = (0..num_edges).map(|_| draws.float() as f32 + 1.5).collect();
                    let shape = ConvShape { in_channels, out_channels, edge_channels, role, batch_norm: false };
                    let layer = kind.init::<Grad>(shape, &mut WeightInit::new(5), &device);
                    let factors = is_weighted.then(|| {
                        Arc::new(weighting.factors(rows.block.graph(), weights.clone()).expect("a weight per edge"))
                    });
                    let features = (edge_channels > 0).then(|| rows.edges.clone());
                    let edges = EdgeData { features, factors, ..EdgeData::default() };
                    let fast = all_values(&layer, &rows.x, |x| layer.convolve(rows.input(x, edges.clone())));
                    let of_block = &weights[..rows.block.num_edges()];
                    let of_block = is_weighted.then_some(of_block);
                    let slow = all_values(&layer, &rows.x, |x| {
                        Aggregating::of(&layer, kind).slow(x, &rows, of_block, is_weighted && model == "sage")
                    });
                    let what = format!("{model} {aggregation} as {role:?}, {edge_channels} {is_weighted}");
                    assert_close(&fast, &slow, 1e-6, &what);
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, (4 * 4 + 2 * 2) * 4);
}

#[test]
fn a_gcn_normalises_by_the_sums_of_weights() {
    let mut draws = Draws(41);
    let graph = Arc::new(random_graph(&mut draws, 12, 12, 4));
    let block = Block::new(Arc::clone(&graph), 12, 12).expect("a block");
    let weights: Vec<f32> = (0..graph.num_edges()).map(|_| draws.float() as f32 + 1.5).collect();
    let mut in_weights = vec![0.0_f32; 12];
    let mut degrees = vec![0; 12];
    for (row, ends) in graph.indptr().windows(2).enumerate() {
        in_weights[row] = weights[ends[0] as usize..ends[1] as usize].iter().sum();
        degrees[row] = ends[1] - ends[0];
    }
    let norm = GcnNorm::weighted(&graph, &degrees, &in_weights, &weights).expect("a normalisation");
    let kind = ConvKind::from_flags("gcn", FlagValues::new()).expect("defaults are valid");
    let shape =
        ConvShape { in_channels: 5, out_channels: 3, edge_channels: 0, role: ConvRole::Hidden, batch_norm: false };
    let layer = kind.init::<Grad>(shape, &mut WeightInit::new(5), &Default::default());
    let AnyConv::Gcn(gcn) = &layer else { unreachable!("a GCN was made") };
    let x = draws.matrix::<Grad>(12, 5);
    let edges = EdgeData { gcn_norm: Some(norm), ..EdgeData::default() };
    let fast = all_values(&layer, &x, |x| layer.convolve(eval_input(x, None, &block, edges.clone())));
    // The dense matrix D^-1/2 (A + I) D^-1/2.
    let mut adjacency = vec![0.0; 12 * 12];
    let roots: Vec<f64> = in_weights.iter().map(|&sum| (f64::from(sum) + 1.0).sqrt()).collect();
    for (row, ends) in graph.indptr().windows(2).enumerate() {
        adjacency[row * 12 + row] += 1.0 / (roots[row] * roots[row]);
        let edges = ends[0] as usize..ends[1] as usize;
        for (&source, &weight) in graph.indices()[edges.clone()].iter().zip(&weights[edges]) {
            let source = source as usize;
            adjacency[row * 12 + source] += f64::from(weight) / (roots[row] * roots[source]);
        }
    }
    let adjacency = Tensor::<Grad, 2>::from_data(TensorData::new(adjacency, [12, 12]), &Default::default());
    let slow = all_values(&layer, &x, |x| {
        adjacency.clone().matmul(x).matmul(gcn.weight.val()) + row(gcn.bias.as_ref().expect("a bias"))
    });
    assert_close(&fast, &slow, 1e-6, "a GCN over weights");
}
