//! Models learn a small graph, and training is reproducible.

use std::sync::Arc;

use burn::backend::{Autodiff, NdArray};
use burn::module::AutodiffModule;
use burn::optim::{GradientsParams, Optimizer};
use burn::tensor::backend::Backend;
use edgecut_gnn::nn::{Aggregation, GcnNorm};
use edgecut_gnn::ops::{AttentionVersion, BatchGraph, Block, DropoutKey};
use edgecut_trainer::adam;
use edgecut_trainer::gradients::flatten_parameters;
use edgecut_trainer::loss::cross_entropy;
use edgecut_trainer::models::{
    ConvKind, GatSettings, GcnSettings, Mode, ModelError, ModelInput, Network, NetworkConfig, NodeClassifier,
    SageSettings,
};

use crate::support::*;

type Plain = NdArray;
type Grad = Autodiff<Plain>;

const NODES: usize = 200;
const CHANNELS: usize = 8;

/// A graph of two communities, whose numbers are the classes. The features of a single node are mostly noise. The mean
/// over its neighborhood, most of which is in the same community, reveals its class.
struct Communities {
    graph: Arc<BatchGraph>,
    degrees: Vec<u32>,
    features: Vec<f64>,
    labels: Vec<i64>,
}

impl Communities {
    fn new() -> Self {
        let mut draws = Draws(77);
        let labels: Vec<i64> = (0..NODES).map(|node| (node % 2) as i64).collect();
        let mut indptr = vec![0u32];
        let mut indices = Vec::new();
        for node in 0..NODES {
            for _ in 0..15 {
                let other = 2 * draws.below(NODES / 2);
                let same_class = draws.below(10) > 0;
                indices.push((other + usize::from((node % 2 == 1) == same_class)) as u32);
            }
            indptr.push(indices.len() as u32);
        }
        let shift = |node: usize| if node.is_multiple_of(2) { 0.4 } else { -0.4 };
        let features = (0..NODES * CHANNELS).map(|i| 1.5 * draws.float() + shift(i / CHANNELS)).collect();
        let graph = Arc::new(BatchGraph::new(indptr, indices, NODES).expect("a graph"));
        Self { graph, degrees: vec![15; NODES], features, labels }
    }

    fn input<B: Backend>(&self) -> ModelInput<B> {
        let data = burn::tensor::TensorData::new(self.features.clone(), [NODES, CHANNELS]);
        let features = burn::tensor::Tensor::from_data(data, &Default::default());
        let blocks = Block::layers(&self.graph, &[NODES, NODES, NODES]).expect("blocks");
        let norm = GcnNorm::new(&self.graph, &self.degrees).expect("degrees that fit");
        ModelInput::new(features, blocks).and_then(|input| input.with_gcn_norm(norm)).expect("an input")
    }

    fn accuracy(&self, model: &Network<Plain>) -> f64 {
        let logits = model.forward(self.input(), Mode::Eval).expect("a batch that fits");
        cross_entropy(logits, &self.labels).expect("labels that fit").num_correct() as f64 / NODES as f64
    }

    fn train(&self, kind: ConvKind, steps: u64) -> Network<Grad> {
        let config =
            NetworkConfig { dropout: 0.3, input_dropout: 0.1, ..NetworkConfig::stack(kind, CHANNELS, 16, 2, 2) };
        let mut model = config.init::<Grad>(3, &Default::default()).expect("a valid model");
        let mut optimizer = adam(0.0);
        for step in 0..steps {
            let mode = Mode::Train(DropoutKey::new(1, 0, step));
            let logits = model.forward(self.input(), mode).expect("a batch that fits");
            let loss = cross_entropy(logits, &self.labels).expect("labels that fit").mean();
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(0.01, model, gradients);
        }
        model
    }
}

#[test]
fn every_model_learns_two_communities() {
    let communities = Communities::new();
    let kinds = [Aggregation::Mean, Aggregation::Sum, Aggregation::Max]
        .map(|aggregation| ConvKind::Sage(SageSettings { aggregation }));
    let gat = |version| ConvKind::Gat(GatSettings { heads: 4, version, attention_dropout: 0.1, projection_bias: true });
    let gats = [AttentionVersion::V1, AttentionVersion::V2].map(gat);
    for kind in kinds.into_iter().chain([ConvKind::Gcn(GcnSettings)]).chain(gats) {
        let before = communities.accuracy(&communities.train(kind, 0).valid());
        let after = communities.accuracy(&communities.train(kind, 120).valid());
        // Untrained attention averages neighbors too, so a lucky initial projection can already separate the classes.
        let lucky = matches!(kind, ConvKind::Gat(_));
        assert!(lucky || before < 0.9, "{kind:?} has accuracy {before} untrained: the task is too easy for this test");
        assert!(after > 0.95, "{kind:?} learned {after}");
    }
}

#[test]
fn training_is_reproducible_to_the_bit() {
    let communities = Communities::new();
    let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    let run = || {
        let parameters = flatten_parameters(&communities.train(kind, 10));
        parameters.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn evaluation_ignores_dropout_and_training_follows_its_key() {
    let communities = Communities::new();
    let config = NetworkConfig::stack(ConvKind::Gcn(GcnSettings), CHANNELS, 16, 2, 2);
    let without = config.clone();
    let config = NetworkConfig { dropout: 0.5, ..config };
    let device = Default::default();
    let [model, plain] = [config, without].map(|config| config.init::<Plain>(1, &device).expect("a valid model"));
    let run =
        |model: &Network<Plain>, mode| values(model.forward(communities.input(), mode).expect("a batch that fits"));
    let train = |step| Mode::Train(DropoutKey::new(1, 0, step));
    assert_eq!(run(&model, Mode::Eval), run(&plain, Mode::Eval));
    assert_eq!(run(&plain, train(0)), run(&plain, Mode::Eval));
    assert_eq!(run(&model, train(0)), run(&model, train(0)));
    assert_ne!(run(&model, train(0)), run(&model, train(1)));
    assert_ne!(run(&model, train(0)), run(&model, Mode::Eval));
}

#[test]
fn a_sampled_batch_equals_the_whole_graph_where_all_neighbors_were_drawn() {
    // The batch of the seeds 0 and 1 with all neighbors of each hop. Their logits must equal the logits of the whole graph.
    let communities = Communities::new();
    let mut known: Vec<u32> = vec![0, 1];
    let mut indptr = vec![0u32];
    let mut indices = Vec::new();
    let mut within_hop = vec![known.len()];
    for _ in 0..2 {
        // Expand the nodes that have no row yet.
        for row in indptr.len() - 1..known.len() {
            let node = known[row] as usize;
            let range = communities.graph.indptr()[node] as usize..communities.graph.indptr()[node + 1] as usize;
            for &source in &communities.graph.indices()[range] {
                let local = known.iter().position(|&node| node == source).unwrap_or_else(|| {
                    known.push(source);
                    known.len() - 1
                });
                indices.push(local as u32);
            }
            indptr.push(indices.len() as u32);
        }
        within_hop.push(known.len());
    }
    assert!(within_hop[1] < within_hop[2] && within_hop[2] <= NODES);
    let graph = Arc::new(BatchGraph::new(indptr, indices, known.len()).expect("a graph"));
    let features: Vec<f64> = known
        .iter()
        .flat_map(|&node| &communities.features[node as usize * CHANNELS..(node as usize + 1) * CHANNELS])
        .copied()
        .collect();
    let data = burn::tensor::TensorData::new(features, [known.len(), CHANNELS]);
    let features = burn::tensor::Tensor::<Plain, 2>::from_data(data, &Default::default());
    let norm = GcnNorm::new(&graph, &vec![15; known.len()]).expect("degrees that fit");
    let blocks = Block::layers(&graph, &within_hop).expect("blocks");
    let input = ModelInput::new(features, blocks).and_then(|input| input.with_gcn_norm(norm)).expect("an input");
    assert_eq!(input.num_seeds(), 2);
    for kind in [ConvKind::Gcn(GcnSettings), ConvKind::Sage(SageSettings { aggregation: Aggregation::Max })] {
        let config = NetworkConfig::stack(kind, CHANNELS, 16, 2, 2);
        let model = config.init::<Plain>(5, &Default::default()).expect("a valid model");
        let batch = values(model.forward(input.clone(), Mode::Eval).expect("a batch that fits"));
        let whole = values(model.forward(communities.input(), Mode::Eval).expect("a batch that fits"));
        assert_close(&batch, &whole[..4], 1e-5, "seeds");
    }
}

#[test]
fn rejects_batches_that_do_not_fit() {
    let communities = Communities::new();
    let device = Default::default();
    let graph = &communities.graph;
    let blocks = |hops: &[usize]| Block::layers(graph, hops).expect("blocks");
    let features = |columns| burn::tensor::Tensor::<Plain, 2>::zeros([NODES, columns], &device);
    let all = &[NODES; 3][..];
    let refusal = |what: &str| Some(ModelError::Batch { what: what.into() });
    let error = ModelInput::new(features(CHANNELS), vec![]).err();
    assert_eq!(error, refusal("a batch of 0 blocks for a model of 1 layers, expected one block per layer"));
    let few = burn::tensor::Tensor::<Plain, 2>::zeros([3, CHANNELS], &device);
    let error = ModelInput::new(few, blocks(all)).err();
    let what = format!("block 0 reads {NODES} nodes, but the features or the block before it have 3");
    assert_eq!(error, refusal(&what));
    let other = BatchGraph::new(vec![0], vec![], NODES).expect("a graph");
    let foreign = GcnNorm::new(&other, &[0; NODES]).expect("degrees that fit");
    let input = ModelInput::new(features(CHANNELS), blocks(all)).expect("an input");
    let what = "the GCN normalisation was made for a batch of another size";
    assert_eq!(input.with_gcn_norm(foreign).err(), refusal(what));

    let gcn =
        NetworkConfig::stack(ConvKind::Gcn(GcnSettings), CHANNELS, 4, 2, 2).init::<Plain>(0, &device).expect("a model");
    let run = |columns, hops: &[usize]| {
        gcn.forward(ModelInput::new(features(columns), blocks(hops)).expect("an input"), Mode::Eval).err()
    };
    let what = "a GCN needs the normalisation of the batch, but this batch was made without it";
    assert_eq!(run(CHANNELS, all), refusal(what));
    let what = "a batch of 1 blocks for a model of 2 layers, expected one block per layer";
    assert_eq!(run(CHANNELS, &[NODES; 2]), refusal(what));
    let what = "the batch is of another graph than the model: nodes with 3 features instead of nodes with";
    assert_eq!(run(3, all), refusal(&format!("{what} {CHANNELS} features")));
}
