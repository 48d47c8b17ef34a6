//! Tests of graph classification over several ranks that are connected by real sockets: each graph counts once, the
//! steps equal the steps of one rank, and batch normalization.

use crate::evaluation_steps::Calls;
use crate::scoring::scoring;
use burn::backend::Autodiff;
use burn::module::AutodiffModule;
use burn::optim::Optimizer;
use burn_ndarray::NdArray;
use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_dist_loader::{GraphBatch, GraphDataLoader, GraphLoaderConfig, Packing};
use edgecut_gnn::ops::DropoutKey;
use edgecut_graph::GraphDataset;
use edgecut_graph::small_graphs::{FakeGraphsOptions, Fold, fake_graphs, split_dataset, stratified_folds};
use edgecut_trainer::gradients::{flatten_parameters, flatten_statistics};
use edgecut_trainer::graph::{
    GraphBatchOptions, GraphPrediction, GraphSplit, GraphTensorBatch, GraphTrainingConfig, Protocol, SplitGraphs,
    cross_validate, graph_batches,
};
use edgecut_trainer::models::{ConvKind, GcnSettings, GinSettings, Mode, Network, NetworkConfig};
use edgecut_trainer::{LrSchedule, StepGradients, adam, average_statistics, evaluate, step_gradients, train_model};
use std::sync::Arc;

type Cpu = NdArray<f32>;
const GIN: ConvKind = ConvKind::Gin(GinSettings { mlp_layers: 2, learn_epsilon: true });

fn graphs(num_graphs: usize) -> Arc<GraphDataset> {
    let options = FakeGraphsOptions { num_graphs, ..FakeGraphsOptions::default() };
    Arc::new(fake_graphs(&options).unwrap().with_degrees_as_labels())
}

/// Runs `run` on several ranks and returns their results in the order of the ranks.
fn on_ranks<T: Send>(world_size: usize, run: impl Fn(&mut ProcessGroup) -> T + Sync) -> Vec<T> {
    let ranks = Cluster::join_local(world_size, |_| {}).unwrap();
    let of_rank = |cluster: Cluster| {
        let value = run(&mut cluster.world().unwrap());
        cluster.shutdown().unwrap();
        value
    };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = ranks.into_iter().map(|cluster| scope.spawn(|| of_rank(cluster))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn loader(graphs: &Arc<GraphDataset>, packing: Packing, world: &ProcessGroup) -> GraphDataLoader {
    let config = GraphLoaderConfig { packing, ..GraphLoaderConfig::new(1) };
    let all = (0..graphs.num_graphs() as u32).collect();
    GraphDataLoader::new(graphs.clone(), all, config, world.rank(), world.size()).unwrap()
}

/// Returns the gradients of every step of an epoch with Adam on every rank.
fn steps(graphs: &Arc<GraphDataset>, world_size: usize, batch_size: usize) -> Vec<Vec<StepGradients>> {
    let options = GraphBatchOptions { for_training: true, ..Default::default() };
    let config = NetworkConfig { batch_norm: false, ..NetworkConfig::whole_graphs(GIN, graphs.feature_dim(), 8, 2, 2) };
    on_ranks(world_size, |world| {
        let mut model: Network<Autodiff<Cpu>> = config.init(3, &Default::default()).unwrap();
        let mut optimizer = adam(0.0);
        let loader = loader(graphs, Packing::Graphs(batch_size), world);
        let batches = graph_batches(&loader, 1, options, &Default::default());
        let mut all = Vec::new();
        for batch in batches {
            let step = step_gradients(&model, batch.unwrap().unwrap(), Mode::Eval, world).unwrap();
            model = optimizer.step(0.01, model.clone(), step.of_model(&model).unwrap());
            all.push(step);
        }
        all
    })
}

#[test]
fn several_ranks_take_the_steps_of_one() {
    // The last step has 13 graphs, so the ranks have unequal shares: 3, 3, 3 and 4 on four ranks.
    let graphs = graphs(61);
    let expected = &steps(&graphs, 1, 24)[0];
    assert_eq!(expected.len(), 3);
    for world_size in [2, 3, 4] {
        for found in steps(&graphs, world_size, 24 / world_size) {
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert_eq!(
                    (found.totals.seeds, found.totals.correct),
                    (expected.totals.seeds, expected.totals.correct)
                );
                // Products of batches of different sizes may be rounded differently, and a unit near zero may then be
                // on the other side of its activation.
                let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>().sqrt();
                let size = norm(&mut expected.flat.iter().copied());
                let off = norm(&mut found.flat.iter().zip(&expected.flat).map(|(a, b)| a - b));
                assert!(size > 1e-3 && off <= 1e-3 * size, "off by {off} of {size}");
            }
        }
    }
}

#[test]
fn metrics_count_every_graph_once() {
    for num_graphs in [5, 61, 64] {
        let graphs = graphs(num_graphs);
        let config = NetworkConfig::whole_graphs(GIN, graphs.feature_dim(), 8, 2, 2);
        let totals = |world_size: usize, packing: Packing| {
            let mut all = on_ranks(world_size, |world| {
                let model: Network<Cpu> = config.init(3, &Default::default()).unwrap();
                let loader = loader(&graphs, packing, world);
                let batches = graph_batches(&loader, 0, GraphBatchOptions::default(), &Default::default());
                evaluate(&model, batches, world).unwrap()
            });
            assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "ranks disagree");
            all.remove(0)
        };
        let alone = totals(1, Packing::Graphs(7));
        assert_eq!(alone.seeds, num_graphs as f64);
        for world_size in 1..=4 {
            for packing in [Packing::Graphs(7), Packing::Graphs(100), Packing::Nodes(100)] {
                let found = totals(world_size, packing);
                assert_eq!((found.seeds, found.correct), (alone.seeds, alone.correct));
                assert!((found.loss / alone.loss - 1.0).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn batch_normalisation_is_per_rank_in_training_and_averaged_before_evaluation() {
    let graphs = graphs(40);
    let config = NetworkConfig::whole_graphs(GIN, graphs.feature_dim(), 8, 2, 2);
    let options = GraphBatchOptions { for_training: true, ..Default::default() };
    let mode = Mode::Train(DropoutKey::new(0, 0, 0));
    // Each share of 24 and 16 graphs first runs as a job of one rank, for the expected gradient and statistics.
    let shares: [Vec<u32>; 2] = [(0..24).collect(), (24..40).collect()];
    let of_share = |share: &[u32], world: &mut ProcessGroup| {
        let model: Network<Autodiff<Cpu>> = config.init(3, &Default::default()).unwrap();
        let batch = GraphTensorBatch::new(GraphBatch::new(&graphs, share.to_vec()), options, &Default::default());
        (step_gradients(&model, batch.unwrap(), mode, world).unwrap(), model)
    };
    let alone = shares.each_ref().map(|share| {
        on_ranks(1, |world| {
            let (step, model) = of_share(share, world);
            (step.flat, flatten_statistics(&model))
        })
        .remove(0)
    });
    let together = on_ranks(2, |world| {
        let (step, model) = of_share(&shares[world.rank()], world);
        let before = flatten_statistics(&model);
        let model = average_statistics(model, 1, world).unwrap();
        (step.flat, before, flatten_statistics(&model), flatten_parameters(&model.valid()))
    });
    for (rank, (gradient, before, after, parameters)) in together.iter().enumerate() {
        for (at, found) in gradient.iter().enumerate() {
            let expected = (24.0 * alone[0].0[at] + 16.0 * alone[1].0[at]) / 40.0;
            assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{found} instead of {expected}");
        }
        assert_eq!(before, &alone[rank].1, "the statistics of the own share");
        for (at, found) in after.iter().enumerate() {
            assert!((found - (alone[0].1[at] + alone[1].1[at]) / 2.0).abs() < 1e-6);
        }
        assert_eq!(parameters, &together[0].3, "all ranks evaluate the same model");
    }
    assert_ne!(alone[0].1, alone[1].1);
}

#[test]
fn two_ranks_learn_what_is_in_the_structure() {
    let graphs = graphs(600);
    let [train, valid, test] = split_dataset(600, [0.8, 0.1, 0.1], 0).unwrap();
    let data = SplitGraphs { graphs: Arc::clone(&graphs), split: GraphSplit { train, valid, test } };
    for conv in [GIN, ConvKind::Gcn(GcnSettings)] {
        let packing = Packing::Graphs(16);
        let mut config = GraphTrainingConfig { packing, ..GraphTrainingConfig::new(conv) };
        config.fit.num_epochs = 5;
        let results = on_ranks(2, |world| {
            let mut counts = Calls::default();
            let device = Default::default();
            let trained = train_model::<GraphPrediction, Autodiff<Cpu>>(&data, &config, world, &device, &mut counts);
            let trained = trained.unwrap();
            assert_eq!((counts.epochs.len(), trained.history.len()), (5, 5));
            assert!(counts.improved > 0 && counts.epochs.iter().all(|epoch| epoch.num_seeds == 480));
            (trained.result, flatten_parameters(&trained.model))
        });
        // A tenth of the graphs has a random structure, which belongs to the other class in half of the cases.
        let (result, parameters) = &results[0];
        assert!(result.test_acc > Some(0.85), "{conv:?}: {result:?}");
        assert!(results.iter().all(|other| (&other.0, &other.1) == (result, parameters)));
    }
}

#[test]
fn a_cross_validation_is_what_its_protocol_says() {
    let graphs = graphs(90);
    let folds = stratified_folds(graphs.labels(), 3, 0).unwrap();
    let mut config = GraphTrainingConfig { hidden_channels: 8, ..GraphTrainingConfig::new(GIN) };
    config.fit.num_epochs = 4;
    for (protocol, trained_on) in [(Protocol::Validation, 54), (Protocol::BestMeanEpoch, 60)] {
        let mut both = on_ranks(1, |world| {
            let mut counts = Calls::default();
            let device = Default::default();
            let result =
                cross_validate::<Autodiff<Cpu>>(&graphs, &folds, protocol, &config, world, &device, &mut counts);
            assert!(counts.evaluations.len() >= counts.epochs.len());
            counts.folds.dedup();
            assert_eq!(counts.folds, [1, 2, 3].map(Some), "all folds, one after the other");
            (result.unwrap(), counts.epochs)
        });
        let (result, epochs) = both.remove(0);
        assert_eq!((result.test.len(), result.epochs.len(), epochs.len()), (3, 3, 12));
        assert!(epochs.iter().all(|epoch| epoch.num_seeds == trained_on));
        assert!((result.test.iter().sum::<f64>() / 3.0 - result.mean).abs() < 1e-9);
        if protocol == Protocol::BestMeanEpoch {
            let mean = |number: u64| {
                let of_epoch = epochs
                    .iter()
                    .filter(|epoch| epoch.epoch == number)
                    .filter_map(|epoch| epoch.valid.as_ref()?.accuracy);
                of_epoch.sum::<f64>() / 3.0
            };
            let best = (1..=4).map(mean).fold(0.0, f64::max);
            assert!((result.mean - best).abs() < 1e-9 && result.epochs.iter().all(|&epoch| epoch == result.epochs[0]));
        }
    }
}

#[test]
fn test_graphs_of_a_fold_do_not_change_its_training() {
    let graphs = graphs(60);
    // The rate falls at each epoch that is not better than all before.
    let mut config = GraphTrainingConfig { hidden_channels: 8, ..GraphTrainingConfig::new(GIN) };
    config.fit.num_epochs = 6;
    config.fit.lr_schedule = LrSchedule::Plateau;
    config.fit.lr_patience = Some(0);
    let curve = |protocol: Protocol, test: std::ops::Range<u32>| {
        let folds = [Fold { train: (0..30).collect(), test: test.collect() }];
        let mut curves = on_ranks(1, |world| {
            let mut counts = Calls::default();
            let device = Default::default();
            cross_validate::<Autodiff<Cpu>>(&graphs, &folds, protocol, &config, world, &device, &mut counts).unwrap();
            counts.epochs
        });
        let epochs = curves.remove(0);
        let losses: Vec<Option<f64>> = epochs.iter().map(|epoch| epoch.loss).collect();
        let metrics: Vec<Option<f64>> = epochs.iter().map(|epoch| epoch.valid_metric).collect();
        (losses, metrics)
    };
    for protocol in [Protocol::Validation, Protocol::BestMeanEpoch] {
        let (losses, metrics) = curve(protocol, 30..45);
        let (other_losses, other_metrics) = curve(protocol, 45..60);
        assert_eq!(losses, other_losses, "{protocol}");
        assert_eq!(metrics != other_metrics, protocol == Protocol::BestMeanEpoch, "{metrics:?}");
    }
}

#[test]
fn a_rank_without_a_batch_does_not_pull_the_running_statistics_back() {
    let graphs = graphs(30);
    let config = NetworkConfig::whole_graphs(GIN, graphs.feature_dim(), 8, 2, 2);
    let options = GraphBatchOptions { for_training: true, ..Default::default() };
    let statistics = on_ranks(3, |world| {
        let model: Network<Autodiff<Cpu>> = config.init(3, &Default::default()).unwrap();
        let mut own = 0;
        // All graphs form a single batch, on rank 0.
        for batch in graph_batches(&loader(&graphs, Packing::Nodes(100_000), world), 0, options, &Default::default()) {
            let batch = batch.unwrap().unwrap();
            own += u64::from(batch.input().is_some());
            step_gradients(&model, batch, Mode::Train(DropoutKey::new(0, 0, 0)), world).unwrap();
        }
        let before = flatten_statistics(&model);
        (own, before, flatten_statistics(&average_statistics(model, own, world).unwrap()))
    });
    assert_eq!([0, 1, 2].map(|rank: usize| statistics[rank].0), [1, 0, 0]);
    assert_ne!(statistics[0].1, statistics[1].1);
    for (_, _, after) in &statistics {
        assert!(after.iter().zip(&statistics[0].1).all(|(after, own)| (after - own).abs() < 1e-6));
    }
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let graphs = graphs(10);
    let config = GraphTrainingConfig::new(GIN);
    let why = |train: Vec<u32>, world_size: usize| {
        let split = GraphSplit { train, valid: vec![8], test: vec![9] };
        let data = SplitGraphs { graphs: Arc::clone(&graphs), split };
        let errors = on_ranks(world_size, |world| {
            let mut counts = Calls::default();
            let device = Default::default();
            let trained = train_model::<GraphPrediction, Autodiff<Cpu>>(&data, &config, world, &device, &mut counts);
            trained.err().unwrap().to_string()
        });
        errors[0].clone()
    };
    let expected =
        "dataset fake-graphs: 2 training graphs for 3 processes: start at most as many processes as there are graphs";
    assert_eq!(why(vec![0, 1], 3), expected);
    let expected = "dataset fake-graphs: there are no training graphs: give them a share of the `split`";
    assert_eq!(why(vec![], 1), expected);
    assert!(why(vec![11, 12], 1).contains("graph 11 does not exist, the set has 10 graphs"));
    let config = GraphTrainingConfig { drop_last: true, ..config };
    let split = GraphSplit { train: (0..8).collect(), valid: vec![8], test: vec![9] };
    let data = SplitGraphs { graphs: Arc::clone(&graphs), split };
    let refused = |config: &GraphTrainingConfig| {
        let errors = on_ranks(2, |world| {
            let mut counts = Calls::default();
            let device = Default::default();
            let trained = train_model::<GraphPrediction, Autodiff<Cpu>>(&data, config, world, &device, &mut counts);
            trained.err().unwrap().to_string()
        });
        errors[1].clone()
    };
    let expected =
        "8 training graphs do not fill one step of 2 processes with 32 graphs each, and `drop_last` leaves out";
    assert!(refused(&config).starts_with(expected), "{}", refused(&config));
    let vast = GraphTrainingConfig { drop_last: false, hidden_channels: 1_000_003, ..config.clone() };
    assert!(refused(&vast).contains("lower `hidden_channels`"), "{}", refused(&vast));
    // A single validation graph has a single class, for which the ROC AUC is undefined.
    let config = GraphTrainingConfig { drop_last: false, scoring: scoring("roc-auc"), ..config };
    assert_eq!(refused(&config), "metric roc-auc is not defined on the validation graphs: use `metric=accuracy`");
}
