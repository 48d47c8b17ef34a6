use super::*;
use crate::dataset::Split;
use crate::memory::Features;
use crate::{EdgeTypeId, NodeTypeId};

fn small() -> FakeOptions {
    FakeOptions { avg_num_nodes: 20_000, avg_degree: 20.0, ..FakeOptions::default() }
}

fn in_degrees(dataset: &Dataset) -> Vec<usize> {
    let mut degrees = vec![0; dataset.nodes(NodeTypeId(0)).num_nodes];
    for &node in &dataset.edges(EdgeTypeId(0)).dst[..] {
        degrees[node as usize] += 1;
    }
    degrees
}

fn homophily(dataset: &Dataset) -> f64 {
    let labels = dataset.nodes(NodeTypeId(0)).labels.as_ref().unwrap();
    let edges = dataset.edges(EdgeTypeId(0));
    let same = edges.src.iter().zip(&edges.dst[..]).filter(|&(&a, &b)| labels[a as usize] == labels[b as usize]);
    same.count() as f64 / edges.src.len() as f64
}

fn rows(dataset: &Dataset) -> Vec<Vec<f32>> {
    let features = dataset.nodes(NodeTypeId(0)).features.as_ref().unwrap();
    let row = |node| {
        let mut row = vec![0.0; features.dim()];
        features.copy_row(node, &mut row);
        row
    };
    (0..features.num_rows()).map(row).collect()
}

/// Averages the features of each node with those of its in-neighbors.
fn averaged(dataset: &Dataset) -> Vec<Vec<f32>> {
    let own = rows(dataset);
    let mut sums = own.clone();
    let edges = dataset.edges(EdgeTypeId(0));
    for (&src, &dst) in edges.src.iter().zip(&edges.dst[..]) {
        for (sum, value) in sums[dst as usize].iter_mut().zip(&own[src as usize]) {
            *sum += value;
        }
    }
    for (row, degree) in sums.iter_mut().zip(in_degrees(dataset)) {
        row.iter_mut().for_each(|v| *v /= (degree + 1) as f32);
    }
    sums
}

/// Returns the accuracy on test nodes of the nearest class mean, with means computed from training nodes.
fn nearest_mean_accuracy(dataset: &Dataset, rows: &[Vec<f32>]) -> f64 {
    let nodes = dataset.nodes(NodeTypeId(0));
    let labels = nodes.labels.as_ref().unwrap();
    let mut means = vec![vec![0.0_f32; rows[0].len()]; nodes.num_classes];
    let mut counts = vec![0.0_f32; nodes.num_classes];
    for &node in &nodes.splits.train[..] {
        let class = labels[node as usize] as usize;
        counts[class] += 1.0;
        means[class].iter_mut().zip(&rows[node as usize]).for_each(|(mean, value)| *mean += value);
    }
    for (mean, count) in means.iter_mut().zip(counts) {
        mean.iter_mut().for_each(|v| *v /= count);
    }
    let distance = |mean: &[f32], row: &[f32]| mean.iter().zip(row).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
    let nearest = |row: &[f32]| {
        (0..means.len()).min_by(|&a, &b| distance(&means[a], row).total_cmp(&distance(&means[b], row))).unwrap()
    };
    let right =
        nodes.splits.test.iter().filter(|&&node| nearest(&rows[node as usize]) == labels[node as usize] as usize);
    right.count() as f64 / nodes.splits.test.len() as f64
}

#[test]
fn the_same_seed_gives_the_same_graph_on_any_number_of_threads() {
    let options = FakeOptions { avg_num_nodes: 3000, seed: 9, ..FakeOptions::default() };
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fake(&options)).unwrap()
    };
    let one = on(1);
    let many = on(5);
    let bits = |d: &Dataset| {
        let nodes = d.nodes(NodeTypeId(0));
        let edges = d.edges(EdgeTypeId(0));
        let features: Vec<u8> =
            (0..nodes.num_nodes).flat_map(|n| nodes.features.as_ref().unwrap().row_bytes(n).to_vec()).collect();
        let splits = Split::ALL.map(|s| nodes.splits.get(s).to_vec());
        (edges.src.to_vec(), edges.dst.to_vec(), nodes.labels.as_ref().unwrap().to_vec(), features, splits)
    };
    assert!(bits(&one) == bits(&many));
    let other = fake(&FakeOptions { seed: 10, ..options }).unwrap();
    assert!(one.edges(EdgeTypeId(0)).src[..] != other.edges(EdgeTypeId(0)).src[..]);
}

#[test]
fn a_generated_graph_stays_the_same_over_versions() {
    let dataset = fake(&FakeOptions::default()).unwrap();
    let edges = dataset.edges(EdgeTypeId(0));
    let nodes = dataset.nodes(NodeTypeId(0));
    let Some(Features::F32 { values, .. }) = &nodes.features else { panic!("no features") };
    let sums = [
        crate::checksum(bytemuck::cast_slice(&edges.src[..])),
        crate::checksum(bytemuck::cast_slice(&edges.dst[..])),
        crate::checksum(bytemuck::cast_slice(&values[..])),
        crate::checksum(bytemuck::cast_slice(&nodes.splits.train[..])),
    ];
    assert_eq!(sums.map(|sum| sum.to_string()), EXPECTED);
}

const EXPECTED: [&str; 4] = ["78286e4fa3e22a24", "7fdc043cac3caa94", "7e0f42d8fd405c54", "a2b35faac028aea0"];

#[test]
fn edges_are_sorted_symmetric_and_as_many_as_asked() {
    let dataset = fake(&small()).unwrap();
    dataset.validate().unwrap();
    let edges = dataset.edges(EdgeTypeId(0));
    assert_eq!(edges.src.len(), 400_000);
    let pairs: Vec<(u32, u32)> = edges.src.iter().copied().zip(edges.dst.iter().copied()).collect();
    assert!(pairs.is_sorted());
    assert!(pairs.iter().all(|(a, b)| a != b));
    let mut reversed: Vec<(u32, u32)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
    reversed.sort_unstable();
    assert!(pairs == reversed);
}

#[test]
fn the_share_of_edges_in_a_class_is_the_homophily() {
    for wanted in [0.0, 0.3, 0.8, 1.0] {
        let found = homophily(&fake(&FakeOptions { homophily: wanted, ..small() }).unwrap());
        assert!((found - wanted).abs() < 0.01, "{found} for {wanted}");
    }
}

#[test]
fn degrees_have_a_power_law_tail() {
    let degrees = in_degrees(&fake(&small()).unwrap());
    let mean = degrees.iter().sum::<usize>() as f64 / degrees.len() as f64;
    assert_eq!(mean, 20.0);
    // Hill's estimator over the degrees between three times the mean and the cap.
    let cap = 20.0 / 3.0 * (degrees.len() as f64).sqrt();
    let from = 60.0;
    let to = cap / 2.0;
    let share = |above: f64| degrees.iter().filter(|&&d| d as f64 >= above).count() as f64;
    let exponent = 1.0 + (share(from) / share(to)).ln() / (to / from).ln();
    assert!((exponent - 2.5).abs() < 0.3, "exponent {exponent}");
    assert!(share(60.0) / degrees.len() as f64 > 0.02, "a random graph without hubs has no such node at all");
    assert!((*degrees.iter().max().unwrap() as f64) < 1.3 * cap, "the cap holds");
}

#[test]
fn neighbors_tell_what_features_alone_do_not() {
    for options in [FakeOptions::default(), small()] {
        let dataset = fake(&options).unwrap();
        let alone = nearest_mean_accuracy(&dataset, &rows(&dataset));
        let with_neighbors = nearest_mean_accuracy(&dataset, &averaged(&dataset));
        eprintln!("{} nodes: features alone {alone:.3}, with neighbors {with_neighbors:.3}", options.avg_num_nodes);
        assert!((0.4..0.6).contains(&alone), "features alone {alone}");
        assert!(with_neighbors > 0.85, "with neighbors {with_neighbors}");
    }
}

#[test]
fn splits_cover_all_nodes_in_their_shares() {
    let dataset = fake(&FakeOptions { avg_num_nodes: 1001, ..FakeOptions::default() }).unwrap();
    let splits = &dataset.nodes(NodeTypeId(0)).splits;
    assert_eq!([splits.train.len(), splits.valid.len(), splits.test.len()], [601, 200, 200]);
    let mut all: Vec<u32> = Split::ALL.iter().flat_map(|&s| splits.get(s).to_vec()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..1001).collect::<Vec<_>>());
}

#[test]
fn tiny_and_odd_graphs_are_legal() {
    let options = FakeOptions::default();
    for options in [
        FakeOptions { avg_num_nodes: 1, ..options.clone() },
        FakeOptions { avg_num_nodes: 2, ..options.clone() },
        FakeOptions { avg_num_nodes: 5, num_classes: 100, homophily: 1.0, ..options.clone() },
        FakeOptions { avg_num_nodes: 50, num_classes: 1, homophily: 0.0, ..options.clone() },
        FakeOptions { avg_degree: 0.0, num_channels: 0, train_fraction: 0.0, valid_fraction: 0.0, ..options.clone() },
        FakeOptions { degree_exponent: 1000.0, ..options },
    ] {
        let dataset = fake(&options).unwrap();
        dataset.validate().unwrap();
        assert_eq!(dataset.num_edges(), 2 * options.num_pairs());
        assert_eq!(dataset.nodes(NodeTypeId(0)).features.is_some(), options.num_channels > 0);
    }
}

#[test]
fn rejects_options_out_of_range() {
    let default = FakeOptions::default();
    for (options, why) in [
        (FakeOptions { avg_num_nodes: 0, ..default.clone() }, "avg_num_nodes is 0"),
        (FakeOptions { avg_num_nodes: 1 << 32, ..default.clone() }, "avg_num_nodes"),
        (FakeOptions { avg_degree: -1.0, ..default.clone() }, "avg_degree is -1"),
        (FakeOptions { avg_degree: f64::NAN, ..default.clone() }, "avg_degree is NaN"),
        (FakeOptions { num_channels: 1 << 21, ..default.clone() }, "num_channels"),
        (FakeOptions { num_classes: 0, ..default.clone() }, "num_classes is 0"),
        (FakeOptions { homophily: 1.1, ..default.clone() }, "homophily is 1.1, outside 0..=1"),
        (FakeOptions { degree_exponent: 2.0, ..default.clone() }, "degree_exponent is 2"),
        (FakeOptions { feature_signal: f64::INFINITY, ..default.clone() }, "feature_signal"),
        (FakeOptions { train_fraction: 0.9, ..default.clone() }, "train_fraction + valid_fraction"),
        (FakeOptions { valid_fraction: -0.1, ..default }, "valid_fraction is -0.1"),
    ] {
        let error = fake(&options).unwrap_err().to_string();
        assert!(error.starts_with("dataset fake: ") && error.contains(why), "{error}");
    }
}

#[test]
fn edges_carry_nothing_unless_asked_and_their_weights_tell_of_classes_if_they_do() {
    let plain = fake(&small()).unwrap();
    assert!(plain.edge_types[0].attributes.is_empty() && plain.node_types[0].times.is_none());
    let graph = fake(&FakeOptions { edge_attributes: true, ..small() }).unwrap();
    graph.validate().unwrap();
    let nodes = graph.nodes(NodeTypeId(0));
    let edges = graph.edges(EdgeTypeId(0));
    assert_eq!(edges.src[..], plain.edge_types[0].src[..]);
    let labels = nodes.labels.as_ref().unwrap();
    let node_times = nodes.times.as_ref().unwrap();
    let attributes = &edges.attributes;
    let weights = attributes.weights.as_ref().unwrap();
    let times = attributes.times.as_ref().unwrap();
    let features = attributes.features.as_ref().unwrap();
    let mut by_ends = std::collections::HashMap::new();
    let mut within = (0.0, 0);
    let mut between = (0.0, 0);
    let mut row = vec![0.0; features.dim()];
    for (edge, (&src, &dst)) in edges.src.iter().zip(&edges.dst[..]).enumerate() {
        let is_within = labels[src as usize] == labels[dst as usize];
        assert!(if is_within { 2.0..4.0_f32 } else { 0.5..1.0 }.contains(&weights[edge]));
        assert!(times[edge] >= node_times[src as usize].max(node_times[dst as usize]));
        features.copy_row(edge, &mut row);
        let (sum, count) = if is_within { &mut within } else { &mut between };
        (*sum, *count) = (*sum + row[0], *count + 1);
        let carried = (weights[edge].to_bits(), times[edge], features.row_bytes(edge));
        let ends = (src.min(dst), src.max(dst));
        assert_eq!(*by_ends.entry(ends).or_insert(carried), carried, "both directions have the same attributes");
    }
    let mean = |(sum, count): (f32, u32)| sum / count as f32;
    assert!((mean(within) - 1.0).abs() < 0.05 && mean(between).abs() < 0.05, "{within:?}, {between:?}");
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let again = one.install(|| fake(&FakeOptions { edge_attributes: true, ..small() })).unwrap();
    assert_eq!(again.edge_types[0].attributes.times.as_ref().unwrap()[..], times[..]);
    assert_eq!(again.edge_types[0].attributes.weights.as_ref().unwrap()[..], weights[..]);
}
