//! Tests that a step of several targets has the gradient of the weighted sum of their mean losses, on one rank and on
//! several.

use crate::support;

use burn::backend::Autodiff;
use burn::optim::GradientsParams;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Tensor, TensorData};
use burn_ndarray::NdArray;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, Fanout, SamplerConfig};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{Dataset, Features, LabelId, NodeLabel, NodeTypeId, Part, Splits, TargetKind, Targets};
use edgecut_trainer::gradients::flatten_gradients;
use edgecut_trainer::models::{ConvKind, Mode, Network, SageSettings};
use edgecut_trainer::multi::{MultiTask, MultiTrainingConfig, TargetConfig, multi_model_config};
use edgecut_trainer::{BatchOptions, StepGradients, Task, TrainingConfig};
use std::sync::Arc;
use support::{on_parts, parts_of};

type Cpu = Autodiff<NdArray<f32>>;
const NUM_CLASSES: usize = 4;
/// The number of nodes of each type.
const NUM_NODES: usize = 150;

/// Returns every `step`-th node.
fn every(step: usize, from: usize) -> Vec<u32> {
    (from..NUM_NODES).step_by(step).map(|node| node as u32).collect()
}

/// Returns the nodes whose number is known.
fn known(nodes: Vec<u32>) -> Vec<u32> {
    nodes.into_iter().filter(|node| node % 5 != 4).collect()
}

/// Puts all labels together.
fn together(part: Part) -> Part {
    part.with_labels_together(&LABELS)
}

/// Returns a graph whose nodes of type v0 have classes and numbers, in different splits, and whose nodes of type v1 have
/// classes.
fn graph() -> Dataset {
    let options = FakeOptions {
        avg_num_nodes: NUM_NODES,
        avg_degree: 3.0,
        num_channels: 5,
        num_classes: NUM_CLASSES,
        ..FakeOptions::default()
    };
    let mut graph = fake_hetero(&options).expect("a fake graph");
    graph.node_types[2].features = Some(Features::F32 { values: vec![0.5; NUM_NODES].into(), dim: 1 });
    let users = &mut graph.node_types[0];
    users.splits = Splits { train: every(3, 0).into(), valid: every(3, 1).into(), test: every(3, 2).into() };
    users.label_name = Some("kind".into());
    let values: Vec<f32> =
        (0..NUM_NODES).map(|node| if node % 5 == 4 { f32::NAN } else { (node as f32 * 0.7).sin() }).collect();
    users.more_labels = vec![NodeLabel {
        name: "size".into(),
        targets: Some(Targets { values: values.into(), dim: 1, kind: TargetKind::Regression }),
        splits: Splits { train: known(every(2, 0)).into(), test: known(every(2, 1)).into(), ..Splits::default() },
        ..NodeLabel::default()
    }];
    let items = &mut graph.node_types[1];
    items.labels = Some((0..NUM_NODES as i64).map(|node| node % 3).collect::<Vec<i64>>().into());
    items.num_classes = 3;
    items.splits = Splits { train: every(4, 0).into(), valid: every(4, 1).into(), ..Splits::default() };
    graph
}

const USERS: NodeTypeId = NodeTypeId(0);
const ITEMS: NodeTypeId = NodeTypeId(1);
const LABELS: [LabelId; 3] = [
    LabelId { node_type: USERS, label: 0 },
    LabelId { node_type: ITEMS, label: 0 },
    LabelId { node_type: USERS, label: 1 },
];
const WEIGHTS: [f64; 3] = [1.0, 2.0, 0.25];

fn config(batch_size: usize) -> MultiTrainingConfig {
    let kind = ConvKind::Sage(SageSettings::default());
    let sampler = SamplerConfig::new(vec![Fanout::All; 2]);
    let training = TrainingConfig { hidden_channels: 6, batch_size, ..TrainingConfig::new(kind, sampler) };
    let names = ["v0:kind", "v1", "v0:size"];
    let targets =
        names.into_iter().zip(WEIGHTS).map(|(name, weight)| TargetConfig { weight, ..TargetConfig::new(name) });
    MultiTrainingConfig { training, targets: targets.collect() }
}

/// A target: its node type, the first column of its outputs and of its values, and the number of classes, 0 for a number.
const TARGETS: [(NodeTypeId, usize, usize, usize); 3] =
    [(USERS, 0, 0, NUM_CLASSES), (ITEMS, 0, 0, 3), (USERS, NUM_CLASSES, 2, 0)];

/// Returns the weighted sum of the mean losses of the targets that a batch of a node type has, computed seed by seed. Counts
/// the targets that the batch has.
fn plain_loss(outputs: &Tensor<Cpu, 2>, values: &[f32], node_type: NodeTypeId) -> Option<Tensor<Cpu, 1>> {
    let [num_seeds, _] = outputs.dims();
    let dim = values.len() / num_seeds;
    let mut sum: Option<Tensor<Cpu, 1>> = None;
    for ((of_type, first, value, num_classes), weight) in TARGETS.into_iter().zip(WEIGHTS) {
        let mut losses = Vec::new();
        for seed in 0..num_seeds {
            let row = &values[seed * dim..][..dim];
            if of_type != node_type || row[value + 1] != 0.0 {
                continue;
            }
            let columns = num_classes.max(1);
            let of_seed = outputs.clone().slice([seed..seed + 1, first..first + columns]);
            losses.push(if num_classes > 0 {
                let class = row[value] as usize;
                log_softmax(of_seed, 1).slice([0..1, class..class + 1]).neg().reshape([1])
            } else {
                let number = Tensor::from_data(TensorData::new(vec![row[value]], [1, 1]), &of_seed.device());
                (of_seed - number).powf_scalar(2.0).reshape([1])
            });
        }
        if !losses.is_empty() {
            let mean = Tensor::cat(losses, 0).mean().mul_scalar(weight);
            sum = Some(match sum {
                Some(sum) => sum + mean,
                None => mean,
            });
        }
    }
    sum
}

/// Returns the steps of an epoch on a rank, and the gradients of plain losses if `is_alone`.
fn steps(
    graph: &Arc<DistGraph>,
    config: &MultiTrainingConfig,
    is_alone: bool,
    world: &mut ProcessGroup,
) -> Vec<(StepGradients, Option<Vec<f32>>)> {
    let device = Default::default();
    let settings = multi_model_config(graph, config).expect("a model");
    let model: Network<Cpu> = settings.network.init(3, &device).expect("a valid model");
    let options = BatchOptions::of_model(&settings.network, true);
    let mut task = MultiTask::<Cpu>::new(graph, config, options, &device, world).expect("a task");
    let epoch = Task::<Cpu, Network<Cpu>>::epoch(&task, 0, 0, world).expect("an epoch");
    let mut steps = Vec::new();
    for batches in epoch.batches {
        let batches = batches.expect("batches").expect("tensors");
        let mut plain: Option<Tensor<Cpu, 1>> = None;
        for (batch, node_type) in batches.iter().zip([USERS, ITEMS]).filter(|_| is_alone) {
            let Some(input) = batch.input() else { continue };
            let mut rows = model.forward_by_type(input, Mode::Eval).expect("outputs");
            let outputs = rows.swap_remove(node_type.index()).expect("outputs of the seeds");
            let loss = plain_loss(&outputs, batch.target().numbers(), node_type);
            plain = match (plain, loss) {
                (Some(plain), Some(loss)) => Some(plain + loss),
                (plain, loss) => plain.or(loss),
            };
        }
        let expected =
            plain.map(|loss| flatten_gradients(&model, GradientsParams::from_grads(loss.backward(), &model)));
        steps.push((task.step(&model, batches, Mode::Eval, world).expect("a step"), expected));
    }
    assert_eq!(steps.len(), epoch.num_steps);
    steps
}

fn assert_near(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().map(|value| value.abs()).fold(0.0, f32::max);
    assert!(size > 1e-3, "{what}: a gradient to compare");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-4 * size, "{what}, value {at}: {found} for {expected}");
    }
}

#[test]
fn a_step_has_the_gradient_of_the_weighted_mean_losses() {
    let parts = parts_of(&graph(), 2);
    // 38 training nodes of type v1 are spread over the steps of the 100 of type v0.
    let config = config(32);
    let of_ranks = on_parts(parts.path(), [1, 1], &DistGraphConfig::default(), together, |graph, world| {
        steps(&graph, &config, true, world)
    });
    let found = &of_ranks[0];
    let mut num_seeds = 0.0;
    for (at, (step, expected)) in found.iter().enumerate() {
        assert_near(&step.flat, expected.as_ref().expect("seeds"), &format!("step {at}"));
        num_seeds += step.totals.seeds;
    }
    let in_a_split = (0..NUM_NODES).filter(|node| node % 3 == 0 || (node % 2 == 0 && node % 5 != 4)).count();
    assert_eq!(num_seeds, (in_a_split + every(4, 0).len()) as f64);
}

#[test]
fn ranks_together_step_like_one() {
    let whole = config(1000);
    let mut expected: Option<Vec<f32>> = None;
    for (num_parts, world_size) in [(1, 1), (3, 1), (2, 2), (3, 2), (2, 3)] {
        let parts = parts_of(&graph(), num_parts);
        let ranks = [world_size, world_size];
        let found = on_parts(parts.path(), ranks, &DistGraphConfig::default(), together, |graph, world| {
            steps(&graph, &whole, false, world)
        });
        for rank in &found {
            let [(step, _)] = &rank[..] else { panic!("one step with all seeds") };
            assert_near(&step.flat, expected.get_or_insert_with(|| step.flat.clone()), &format!("{num_parts} parts"));
            assert_eq!(step.flat, found[0][0].0.flat, "the same bits on every rank");
        }
    }
}
