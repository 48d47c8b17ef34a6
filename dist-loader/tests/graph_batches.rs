//! Tests of batches of whole graphs: each graph occurs once per epoch on any number of ranks, and batches combine
//! graphs correctly.

use edgecut_dist_loader::{GraphBatch, GraphDataLoader, GraphLoaderConfig, LoaderError, Packing};
use edgecut_graph::small_graphs::{FakeGraphsOptions, fake_graphs};
use edgecut_graph::{AttributeRows, Features, GraphData, GraphDataset, TargetKind, Targets};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn graphs(num_graphs: usize) -> Arc<GraphDataset> {
    let options = FakeGraphsOptions { num_graphs, avg_num_nodes: 9, ..FakeGraphsOptions::default() };
    Arc::new(fake_graphs(&options).unwrap().with_degrees_as_labels())
}

/// Returns the batches of an epoch by step and rank.
fn epoch(
    dataset: &Arc<GraphDataset>,
    config: &GraphLoaderConfig,
    epoch: u64,
    world_size: usize,
) -> Vec<Vec<GraphBatch>> {
    let all: Vec<u32> = (0..dataset.num_graphs() as u32).collect();
    let of_rank = |rank| {
        let loader = GraphDataLoader::new(dataset.clone(), all.clone(), config.clone(), rank, world_size).unwrap();
        let batches: Vec<GraphBatch> = loader.epoch(epoch).map(Result::unwrap).collect();
        assert_eq!(batches.len(), loader.num_steps(epoch));
        batches
    };
    let by_rank: Vec<Vec<GraphBatch>> = (0..world_size).map(of_rank).collect();
    let steps = by_rank[0].len();
    assert!(by_rank.iter().all(|batches| batches.len() == steps), "ranks disagree on the steps");
    (0..steps).map(|step| by_rank.iter().map(|batches| batches[step].clone()).collect()).collect()
}

fn seen(steps: &[Vec<GraphBatch>]) -> Vec<u32> {
    steps.iter().flatten().flat_map(|batch| batch.graphs.clone()).collect()
}

fn sorted(mut graphs: Vec<u32>) -> Vec<u32> {
    graphs.sort_unstable();
    graphs
}

#[test]
fn every_graph_is_seen_once_an_epoch() {
    for num_graphs in [2, 7, 30, 101] {
        let dataset = graphs(num_graphs);
        let all: Vec<u32> = (0..num_graphs as u32).collect();
        for packing in
            [Packing::Graphs(1), Packing::Graphs(4), Packing::Graphs(1000), Packing::Nodes(14), Packing::Nodes(60)]
        {
            for (shuffle, concurrency) in [(false, 0), (true, 1), (true, 3)] {
                let config =
                    GraphLoaderConfig { packing, shuffle, concurrency, drop_last: false, ..GraphLoaderConfig::new(1) };
                for world_size in 1..=4 {
                    let steps = epoch(&dataset, &config, 5, world_size);
                    assert_eq!(sorted(seen(&steps)), all, "{packing:?} over {world_size} ranks");
                    for batch in steps.iter().flatten() {
                        match packing {
                            Packing::Graphs(most) => assert!(batch.graphs.len() <= most),
                            Packing::Nodes(budget) => assert!(batch.num_nodes() <= budget),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_does_not_fill_a_step_is_dropped_on_all_ranks_alike() {
    let dataset = graphs(30);
    for (packing, world_size, expected) in
        [(Packing::Graphs(4), 1, 28), (Packing::Graphs(4), 2, 24), (Packing::Graphs(8), 4, 0)]
    {
        let config = GraphLoaderConfig { packing, drop_last: true, ..GraphLoaderConfig::new(1) };
        let graphs = seen(&epoch(&dataset, &config, 0, world_size));
        assert_eq!(graphs.len(), expected);
        let distinct = sorted(graphs).windows(2).all(|pair| pair[0] < pair[1]);
        assert!(distinct);
    }
    let config = GraphLoaderConfig { packing: Packing::Nodes(20), drop_last: true, ..GraphLoaderConfig::new(1) };
    let steps = epoch(&dataset, &config, 0, 3);
    assert!(!steps.is_empty() && steps.iter().flatten().all(|batch| !batch.graphs.is_empty()));
}

#[test]
fn epochs_and_seeds_have_orders_of_their_own_and_repeat() {
    let dataset = graphs(50);
    let config = GraphLoaderConfig::new(8);
    let order = |config: &GraphLoaderConfig, number| seen(&epoch(&dataset, config, number, 1));
    assert_eq!(order(&config, 3), order(&config, 3));
    assert_ne!(order(&config, 3), order(&config, 4));
    assert_ne!(order(&config, 3), order(&GraphLoaderConfig { seed: 1, ..config.clone() }, 3));
    let in_order = GraphLoaderConfig { shuffle: false, ..config };
    assert_eq!(order(&in_order, 3), (0..50).collect::<Vec<_>>());
}

#[test]
fn the_graphs_of_a_step_do_not_depend_on_the_number_of_ranks() {
    let dataset = graphs(101);
    let alone = epoch(&dataset, &GraphLoaderConfig::new(24), 2, 1);
    for world_size in [2, 3, 4] {
        let shared = epoch(&dataset, &GraphLoaderConfig::new(24 / world_size), 2, world_size);
        for (one, several) in alone.iter().zip(&shared) {
            let several: Vec<u32> = several.iter().flat_map(|batch| batch.graphs.clone()).collect();
            assert_eq!(one[0].graphs, several);
        }
        // The last step has 5 graphs, divided evenly.
        let sizes: Vec<usize> = shared[4].iter().map(|batch| batch.graphs.len()).collect();
        assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
    }
}

fn features(values: Vec<f32>) -> AttributeRows {
    AttributeRows { features: Some(Features::F32 { values: values.into(), dim: 1 }), labels: None }
}

#[test]
fn a_batch_is_its_graphs_side_by_side() {
    let data = GraphData {
        node_offsets: vec![0, 2, 2, 5, 6],
        src: vec![1, 4, 0, 2, 3],
        dst: vec![0, 2, 1, 4, 2],
        labels: vec![3, 5, 3, 4],
        nodes: features((0..6).map(|v| v as f32).collect()),
        edges: features(vec![0.0, 1.0, 2.0, 3.0, 4.0]),
        ..GraphData::default()
    };
    let dataset = GraphDataset::new("small", data.clone()).unwrap();
    let batch = GraphBatch::new(&dataset, vec![2, 1, 3, 0]);
    let expected = GraphBatch {
        graphs: vec![2, 1, 3, 0],
        node_offsets: vec![0, 3, 3, 4, 6],
        indptr: vec![0, 2, 2, 3, 3, 4, 5],
        indices: vec![2, 1, 0, 5, 4],
        features: vec![2.0, 3.0, 4.0, 5.0, 0.0, 1.0],
        feature_dim: 1,
        edge_features: vec![1.0, 4.0, 3.0, 0.0, 2.0],
        edge_dim: 1,
        labels: vec![0, 2, 1, 0],
        targets: Vec::new(),
        target_dim: 0,
    };
    assert_eq!(batch, expected);
    let values = (0..8).map(|value| value as f32 / 4.0).collect::<Vec<_>>();
    let targets = Targets { kind: TargetKind::of(&values), values: values.into(), dim: 2 };
    let with_numbers =
        GraphDataset::new("small", GraphData { labels: vec![], targets: Some(targets), ..data }).unwrap();
    let batch = GraphBatch::new(&with_numbers, vec![2, 1, 3, 0]);
    let targets = vec![1.0, 1.25, 0.5, 0.75, 1.5, 1.75, 0.0, 0.25];
    assert_eq!(batch, GraphBatch { labels: Vec::new(), targets, target_dim: 2, ..expected });
    let none = GraphBatch::new(&dataset, vec![]);
    assert_eq!((none.num_nodes(), none.node_offsets, none.indptr), (0, vec![0], vec![0]));
}

#[test]
fn an_iterator_that_is_dropped_ends_its_thread() {
    let dataset = graphs(100);
    let loader = GraphDataLoader::new(dataset, (0..100).collect(), GraphLoaderConfig::new(1), 0, 1).unwrap();
    let kept = Arc::new(());
    let held = kept.clone();
    let mut batches = loader.epoch_map(0, move |batch| (held.clone(), batch.graphs.len()));
    assert!(batches.next().is_some());
    drop(batches);
    // The thread drops `held` when it ends.
    let deadline = Instant::now() + Duration::from_secs(30);
    while Arc::strong_count(&kept) > 1 {
        assert!(Instant::now() < deadline, "the thread is stuck");
        std::thread::yield_now();
    }
}

#[test]
fn a_fault_is_no_end_of_the_epoch() {
    let loader = GraphDataLoader::new(graphs(10), (0..10).collect(), GraphLoaderConfig::new(2), 0, 1).unwrap();
    let mut batches = loader.epoch_map(0, |batch| assert!(!batch.graphs.contains(&3), "a test's fault"));
    let error = batches.find_map(Result::err).unwrap();
    assert!(matches!(error, LoaderError::Panicked { .. }), "{error}");
    assert!(error.to_string().contains("a test's fault"), "the text of the panic is in the error: {error}");
    assert!(batches.next().is_none());
}

#[test]
fn what_makes_no_batches_is_refused() {
    let dataset = graphs(10);
    let why = |graphs: Vec<u32>, packing| {
        let config = GraphLoaderConfig { packing, ..GraphLoaderConfig::new(1) };
        GraphDataLoader::new(dataset.clone(), graphs, config, 0, 1).err().unwrap().to_string()
    };
    assert!(
        why(vec![1, 10], Packing::Graphs(2))
            .contains("graphs of fake-graphs: graph 10 does not exist, the set has 10 graphs")
    );
    assert!(why(vec![1], Packing::Graphs(0)).contains("the batch size must be at least 1"));
    let nodes = dataset.num_nodes_of(4);
    let expected = format!(
        "graph 4 has {nodes} nodes, the most of all, but a batch may have 3: raise `max_nodes` to at least {nodes}"
    );
    assert!(why(vec![4], Packing::Nodes(3)).contains(&expected));
}
