//! Partitioning in scratch files gives the same parts as in memory.

use crate::graphs;

use edgecut_graph::readers::{DatasetSource, FakeOptions, export_npy, fake, load};
use edgecut_graph::{Dataset, FeatureDtype, HotnessRule, Workspace, write_npy};
use edgecut_partition::{Assignment, Inputs, Method, PartitionOptions, partition, partition_loaded};
use edgecut_testing::names;
use graphs::{any_graph, contents, tempdir};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

/// Work bytes with which small graphs are in many buckets, and in one.
const WORK_BYTES: [usize; 3] = [1 << 16, 1 << 18, 1 << 22];

fn methods() -> [Method; 3] {
    [Method::default(), Method::Ldg, Method::Random]
}

/// Partitions the dataset of `source` in memory and in scratch files, and compares all files.
fn compare(source: &DatasetSource, options: &PartitionOptions, given: Option<&Assignment>) {
    let root = tempdir();
    let inputs = Inputs { given: given.cloned(), ..Inputs::default() };
    partition_loaded(load(source).unwrap(), inputs, options, &root.path().join("memory"), &()).unwrap();
    let expected = contents(&root.path().join("memory"));
    let scratch = root.path().join("scratch");
    for work_bytes in WORK_BYTES {
        let space = Workspace::scratch(&scratch, work_bytes, ()).unwrap();
        let source = DatasetSource { space: space.clone(), ..source.clone() };
        let out = root.path().join(format!("scratch-{work_bytes}"));
        let dataset = load(&source).unwrap();
        assert!(dataset.edge_types.iter().all(|edges| edges.src.is_empty() || edges.src.is_mapped()));
        let inputs = Inputs { space, given: given.cloned(), ..Inputs::default() };
        partition_loaded(dataset, inputs, options, &out, &()).unwrap();
        assert!(contents(&out) == expected, "{work_bytes} bytes, {options:?}");
        assert_eq!(names(&scratch), Vec::<String>::new());
    }
}

/// Saves a generated graph as arrays.
fn saved(dir: &Path, options: &FakeOptions) -> DatasetSource {
    export_npy(&fake(options).unwrap(), dir).unwrap();
    DatasetSource::of_folder(dir)
}

fn fake_options() -> FakeOptions {
    FakeOptions { avg_num_nodes: 4000, avg_degree: 20.0, num_channels: 6, ..FakeOptions::default() }
}

/// Keeps one direction of each edge of the arrays in `dir`, in an order that is not sorted, with duplicates.
fn make_directed(dir: &Path) {
    let dataset = load(&DatasetSource::of_folder(dir)).unwrap();
    let edges = &dataset.edge_types[0];
    let mut pairs: Vec<(i64, i64)> =
        edges.src.iter().zip(&edges.dst[..]).map(|(&a, &b)| (a.into(), b.into())).collect();
    pairs.retain(|(a, b)| a < b || (a + b) % 7 == 0);
    pairs.sort_by_key(|(a, b)| (a * 31 + b * 17) % 1009);
    let twice: Vec<(i64, i64)> = pairs.iter().copied().step_by(50).collect();
    pairs.extend(twice);
    let ends: Vec<i64> = pairs.iter().map(|pair| pair.0).chain(pairs.iter().map(|pair| pair.1)).collect();
    write_npy(&dir.join("edge_index.npy"), &[2, pairs.len()], &ends).unwrap();
    // Weights, and features in a type that is converted.
    let weights: Vec<f64> = (0..pairs.len()).map(|edge| edge as f64 / 4.0).collect();
    write_npy(&dir.join("edge_weight.npy"), &[pairs.len()], &weights).unwrap();
    let times: Vec<i32> = (0..pairs.len()).map(|edge| edge as i32 * 3 % 1000).collect();
    write_npy(&dir.join("edge_time.npy"), &[pairs.len()], &times).unwrap();
    let features: Vec<f64> = (0..2 * pairs.len()).map(|value| value as f64 / 8.0).collect();
    write_npy(&dir.join("edge_attr.npy"), &[pairs.len(), 2], &features).unwrap();
}

#[test]
fn parts_of_a_homogeneous_graph_are_those_of_memory() {
    let dir = tempdir();
    let source = saved(dir.path(), &fake_options());
    for method in methods() {
        for num_parts in [1, 3] {
            compare(&source, &PartitionOptions { method, seed: 5, ..PartitionOptions::new(num_parts) }, None);
        }
    }
    let rules = [HotnessRule::InDegree, HotnessRule::Presample { num_neighbors: vec![5, 3], batch_size: 64 }];
    for rule in rules {
        let options = PartitionOptions { method: Method::Ldg, hotness: Some(rule), ..PartitionOptions::new(3) };
        compare(&source, &options, None);
    }
    let given = Assignment { parts: vec![(0..4000).map(|node| node * 7 % 3).collect()] };
    compare(&source, &PartitionOptions::new(3), Some(&given));
}

#[test]
fn parts_of_directed_and_of_made_undirected_graphs_are_those_of_memory() {
    let dir = tempdir();
    let source = saved(dir.path(), &fake_options());
    make_directed(dir.path());
    let options = PartitionOptions { method: Method::Ldg, ..PartitionOptions::new(3) };
    compare(&source, &options, None);
    let undirected = DatasetSource { to_undirected: true, ..source };
    compare(&undirected, &options, None);
    for name in ["edge_weight.npy", "edge_time.npy", "edge_attr.npy"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    compare(&undirected, &options, None);
    // No edge is added between the ends of held-out edges.
    let dataset = load(&undirected).unwrap();
    let edges = &dataset.edge_types[0];
    let held_out: Vec<usize> = (0..edges.src.len()).step_by(91).collect();
    let ends = |ids: &[u32], add: u32| held_out.iter().map(|&at| i64::from((ids[at] + add) % 4000)).collect::<Vec<_>>();
    let ends = [ends(&edges.src, 1), ends(&edges.dst, 0)].concat();
    write_npy(&dir.path().join("test_edge_index.npy"), &[2, held_out.len()], &ends).unwrap();
    compare(&DatasetSource { overlap: edgecut_graph::OverlapPolicy::Allow, ..undirected }, &options, None);
}

#[test]
fn parts_of_a_typed_graph_are_those_of_memory() {
    let dir = tempdir();
    let array = |path: &str, shape: &[usize], values: &[i64]| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_npy(&path, shape, values).unwrap();
    };
    array("nodes/author/num_nodes.npy", &[1], &[900]);
    array("nodes/paper/y.npy", &[2500], &(0..2500).map(|node| node % 5).collect::<Vec<_>>());
    array("nodes/paper/train_idx.npy", &[500], &(0..500).map(|at| at * 5).collect::<Vec<_>>());
    for (name, sources, destinations, count) in
        [("author__writes__paper", 900, 2500, 9000), ("paper__cites__paper", 2500, 2500, 20_000)]
    {
        let src = (0..count).map(|edge| edge * 7919 % sources);
        let ends: Vec<i64> = src.chain((0..count).map(|edge| edge * edge % destinations)).collect();
        array(&format!("edges/{name}/edge_index.npy"), &[2, count as usize], &ends);
    }
    let of_writes = |file: &str| format!("edges/author__writes__paper/{file}.npy");
    array(&of_writes("edge_label"), &[9000], &(0..9000).map(|edge| edge % 4 - 1).collect::<Vec<_>>());
    array(&of_writes("edge_train_idx"), &[2000], &(0..2000).map(|at| at * 4 + 1).collect::<Vec<_>>());
    array(&of_writes("edge_test_mask"), &[9000], &(0..9000).map(|edge| i64::from(edge % 8 == 3)).collect::<Vec<_>>());
    let source = DatasetSource::of_folder(dir.path());
    for method in methods() {
        let options = PartitionOptions { method, ..PartitionOptions::new(3) };
        compare(&source, &options, None);
        compare(&DatasetSource { to_undirected: true, ..source.clone() }, &options, None);
        compare(&DatasetSource { add_reverse_edges: true, ..source.clone() }, &options, None);
    }
}

#[test]
fn converted_features_are_those_of_memory() {
    let dir = tempdir();
    let source = saved(dir.path(), &fake_options());
    let space = Workspace::scratch(dir.path().join("scratch"), 1 << 16, ()).unwrap();
    for dtype in [FeatureDtype::F16, FeatureDtype::Bf16, FeatureDtype::Int8] {
        let mut expected = load(&source).unwrap();
        let mut found = expected.clone();
        expected.convert_features(&dtype.into()).unwrap();
        found.convert_features_in(&space, &dtype.into()).unwrap();
        let [expected, found] = [expected, found].map(|dataset| dataset.node_types[0].features.clone().unwrap());
        assert!(found.is_mapped() && found.dtype() == dtype);
        assert!((0..4000).all(|row| found.row_bytes(row) == expected.row_bytes(row)), "{dtype}");
    }
    let mut values = vec![1.0_f32; 4000 * 2];
    values[2 * 3210 + 1] = 1e6;
    write_npy(&dir.path().join("x.npy"), &[4000, 2], &values).unwrap();
    let error = load(&source).unwrap().convert_features_in(&space, &FeatureDtype::F16.into()).unwrap_err().to_string();
    assert!(error.contains("feature 1 of row 3210 is 1000000"), "{error}");
}

#[test]
fn a_matrix_in_fortran_order_is_refused() {
    let dir = tempdir();
    let source = saved(dir.path(), &fake_options());
    let mut header = b"{'descr': '<f4', 'fortran_order': True, 'shape': (4000, 2), }".to_vec();
    header.resize(117, b' ');
    header.push(b'\n');
    let start = [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes()].concat();
    std::fs::write(dir.path().join("x.npy"), [start, header, vec![0; 4000 * 2 * 4]].concat()).unwrap();
    load(&source).unwrap();
    let space = Workspace::scratch(dir.path().join("scratch"), 1 << 16, ()).unwrap();
    let error = load(&DatasetSource { space, ..source }).unwrap_err().to_string();
    assert!(error.contains("`memory_limit`: ") && error.contains("x.npy is in Fortran order"), "{error}");
}

#[test]
fn a_generated_graph_is_the_same() {
    let source = DatasetSource { fake: fake_options(), ..DatasetSource::new("fake", "unused") };
    compare(&source, &PartitionOptions { method: Method::Ldg, ..PartitionOptions::new(2) }, None);
}

/// Partitions a graph in memory in scratch files.
fn in_scratch(dataset: Dataset, options: &PartitionOptions, root: &Path) -> PathBuf {
    let space = Workspace::scratch(root, 1 << 16, ()).unwrap();
    let out = root.join("scratch");
    partition_loaded(dataset, Inputs { space, ..Inputs::default() }, options, &out, &()).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn parts_of_any_graph_are_those_of_memory(dataset in any_graph(), num_parts in 1..5_u32, ldg in any::<bool>()) {
        let num_nodes: usize = dataset.node_types.iter().map(|nodes| nodes.num_nodes).sum();
        prop_assume!(num_parts as usize <= num_nodes);
        let method = if ldg { Method::Ldg } else { Method::Random };
        let options = PartitionOptions { method, ..PartitionOptions::new(num_parts) };
        let root = tempdir();
        partition(&dataset, &options, &root.path().join("memory"), &()).unwrap();
        let out = in_scratch(dataset, &options, root.path());
        prop_assert!(contents(&root.path().join("memory")) == contents(&out));
    }
}
