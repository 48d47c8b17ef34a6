//! Arrays of edges in folders: attributes, labels and held-out edges, with all kinds of errors.

use crate::npy_folder::{Folder, bad, check_four, legal};
use edgecut_graph::readers::{DatasetSource, export_npy, load, load_with_warnings};
use edgecut_graph::{Dataset, EdgeLabelKind, EdgeTypeId, HoldOut, NO_SPLIT, NodeTypeId, Split, TargetKind};
use edgecut_testing::assert_has;
use half::f16;

/// Returns the valid folder with all attributes of edges and nodes.
fn with_attributes() -> Folder {
    let folder = legal();
    folder.put("edge_attr", &[3, 2], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0]);
    folder.put("edge_weight", &[3], &[0.5_f32, 0.0, 2.0]);
    folder.put("edge_time", &[3], &[30_i64, -10, 20]);
    folder.put("edge_label", &[3], &[1_i64, -1, 0]);
    folder.put("edge_train_idx", &[1, 1], &[2_i32]);
    folder.put_bool("edge_val_mask", &[1, 0, 0]);
    folder.put("node_time", &[4], &[1_i64, 2, 3, 4]);
    folder.put("val_edge_index", &[2, 1], &[2_i64, 0]);
    folder.put("test_edge_index", &[2, 2], &[3_i64, 0, 0, 3]);
    folder
}

fn check_attributes(dataset: &Dataset) {
    check_four(dataset);
    let edges = dataset.edges(EdgeTypeId(0));
    let attributes = &edges.attributes;
    assert_eq!(
        attributes.features.as_ref().unwrap().row_bytes(1),
        [2.0_f32.to_le_bytes(), 3.0_f32.to_le_bytes()].concat()
    );
    assert_eq!(attributes.weights.as_ref().unwrap()[..], [0.5, 0.0, 2.0]);
    assert_eq!(attributes.times.as_ref().unwrap()[..], [30, -10, 20]);
    let labels = attributes.labels.as_ref().unwrap();
    assert_eq!(labels.values.classes().unwrap()[..], [1, -1, 0]);
    assert_eq!(labels.splits[..], [Split::Valid.code(), NO_SPLIT, Split::Train.code()]);
    assert_eq!(labels.values.kind(), EdgeLabelKind::NumClasses(2));
    assert_eq!(dataset.nodes(NodeTypeId(0)).times.as_ref().unwrap()[..], [1, 2, 3, 4]);
    let [(_, valid), (_, test)] = edges.held_out.lists();
    assert_eq!((&valid.src[..], &valid.dst[..]), (&[2][..], &[0][..]));
    assert_eq!((&test.src[..], &test.dst[..]), (&[3, 0][..], &[0, 3][..]));
}

#[test]
fn what_edges_carry_survives_an_export() {
    let folder = with_attributes();
    let dataset = folder.read().unwrap();
    check_attributes(&dataset);
    // Exports over the dataset's own files, which are mapped, and over the files of another graph.
    export_npy(&dataset, folder.0.path()).unwrap();
    check_attributes(&folder.read().unwrap());
    assert!(!folder.0.path().join("val_edge_index.npy").exists());
    folder.put("edge_label", &[3, 1], &[1.0, f32::NAN, 0.0]);
    check_attributes(&folder.read().unwrap());
    folder.put("edge_weight", &[3, 1], &[0.5_f64, 0.0, 2.0]);
    folder.put("edge_time", &[3, 1], &[30_i32, -10, 20]);
    check_attributes(&folder.read().unwrap());
    folder.put("edge_weight", &[3], &[0.5, 0.0, 2.0].map(f16::from_f32));
    check_attributes(&folder.read().unwrap());
    export_npy(&legal().read().unwrap(), folder.0.path()).unwrap();
    let bare = folder.read().unwrap();
    assert!(bare.edges(EdgeTypeId(0)).attributes.is_empty() && bare.edges(EdgeTypeId(0)).held_out.is_empty());
    assert!(bare.nodes(NodeTypeId(0)).times.is_none());
}

#[test]
fn numbers_to_predict_for_edges_survive_an_export() {
    let folder = legal();
    folder.put("edge_target", &[3, 2], &[1.0_f32, 2.5, f32::NAN, f32::NAN, f32::NAN, -3.0]);
    folder.put("edge_test_mask", &[3], &[0_i64, 0, 1]);
    let dataset = folder.read().unwrap();
    dataset.validate().unwrap();
    export_npy(&dataset, folder.0.path()).unwrap();
    for dataset in [&dataset, &folder.read().unwrap()] {
        let labels = dataset.edges(EdgeTypeId(0)).attributes.labels.as_ref().unwrap();
        let targets = labels.values.targets().unwrap();
        assert_eq!((targets.dim, targets.kind, targets.row(2)[1]), (2, TargetKind::Regression, -3.0));
        assert_eq!((labels.splits[..].to_vec(), labels.sizes()), (vec![NO_SPLIT, NO_SPLIT, 2], [0, 0, 1]));
    }
}

#[test]
fn edges_without_a_label_are_in_no_split() {
    let cases = [
        ("train", "1 of 2 train edges have no label: they do not train"),
        ("valid", "1 of 2 valid edges have no label: they are not evaluated"),
        ("test", "1 of 2 test edges have no label: they are not evaluated"),
    ];
    for (split, said) in cases {
        let folder = legal();
        folder.put("edge_target", &[3], &[1.5_f32, f32::NAN, -3.0]);
        folder.put(&format!("edge_{split}_mask"), &[3], &[0_i64, 1, 1]);
        let mut dataset = folder.read().unwrap();
        let why = dataset.validate().unwrap_err().to_string();
        assert!(why.contains(&format!("edge 1 is in the {split} split, but has no label")), "{why}");
        assert_eq!(dataset.leave_out_unlabeled(), [said]);
        dataset.validate().unwrap();
        let loaded = load_with_warnings(&folder.source()).unwrap();
        assert!(loaded.warnings.iter().any(|warning| warning.contains(said)), "{:?}", loaded.warnings);
    }
}

#[test]
fn each_bad_label_of_an_edge_is_named_with_its_entry() {
    bad(with_attributes(), "edge_label", &[2], &[0_i64; 2], "it has 2 rows, but there are 3 edges");
    bad(with_attributes(), "edge_label", &[3], &[0_i64, -2, 0], "edge 1 has label -2, which is not a class");
    bad(with_attributes(), "edge_label", &[3], &[0.5_f32; 3], "edge 0 has label 0.5, which is not a class");
    let why = "it has 2 columns; expected one class per edge; several labels are edge_target.npy";
    bad(with_attributes(), "edge_label", &[3, 2], &[0_i64; 6], why);
    bad(with_attributes(), "edge_target", &[3], &[0_f32; 3], "there is also edge_label.npy");
    bad(with_attributes(), "edge_train_idx", &[1], &[3_i64], "entry 0 is edge 3, which is out of range");
    bad(with_attributes(), "edge_train_idx", &[2], &[2_i64, 2], "edge 2 is listed twice");
    bad(with_attributes(), "edge_test_idx", &[1], &[0_i64], "edge 0 is also in the valid split");
    bad(with_attributes(), "edge_test_mask", &[3], &[0_i64, 2, 0], "entry 1 is 2, but a mask has only");
    let why = "edge_train_idx.npy: the labels of these edges are missing: save edge_label.npy or edge_target.npy";
    assert_has(with_attributes().remove("edge_label").why(), &[why]);
}

#[test]
fn labels_stay_with_the_edges_that_have_them() {
    let folder = with_attributes();
    folder.remove("edge_val_mask");
    folder.remove("val_edge_index");
    folder.remove("test_edge_index");
    let reversed = load(&DatasetSource { add_reverse_edges: true, ..folder.source() }).unwrap();
    assert!(reversed.edge_types[0].attributes.labels.is_some() && reversed.edge_types[1].attributes.labels.is_none());
    assert!(reversed.edge_types[1].attributes.weights.is_some());
    let undirected = load(&DatasetSource { to_undirected: true, ..folder.source() });
    let words = ["edge type node__to__node has labels", "--add-reverse-edges"];
    assert_has(undirected.unwrap_err().to_string(), &words);
    let held_out = load(&DatasetSource { hold_out_edges: Some(HoldOut::random(0.3, 0.3, 1)), ..folder.source() });
    let why = "edge type node__to__node has labels, which held-out edges would lose";
    assert_has(held_out.unwrap_err().to_string(), &[why]);
}

#[test]
fn each_bad_attribute_is_named_with_its_entry() {
    bad(with_attributes(), "edge_attr", &[2, 2], &[0.0_f32; 4], "it has 2 rows, but there are 3 edges");
    bad(with_attributes(), "edge_attr", &[3], &[0.0_f32; 3], "its shape is [3], expected [num_edges, num_features]");
    let why = "entry 2 is 16777217, which floats of 32 bits do not hold; .astype(numpy.float32) rounds it";
    bad(with_attributes(), "edge_attr", &[3, 1], &[0, 0, (1_i64 << 24) + 1], why);
    bad(with_attributes(), "edge_attr", &[3, 1], &[0.0, f32::NAN, 0.0], "feature 0 of edge 1 is NaN");
    bad(with_attributes(), "edge_weight", &[4], &[0.0_f32; 4], "it has 4 rows, but there are 3 edges");
    bad(with_attributes(), "edge_weight", &[3, 2], &[0.0_f32; 6], "its shape is [3, 2], expected [num_edges]");
    bad(with_attributes(), "edge_weight", &[3], &[1.0, 0.0, -1.0_f32], "edge 2 has weight -1, which is negative");
    bad(with_attributes(), "edge_weight", &[3], &[1.0, f32::NAN, 1.0], "edge 1 has weight NaN, which is not");
    bad(with_attributes(), "edge_weight", &[3], &[1e300, 1.0, 1.0], "edge 0 has weight inf, which is not");
    bad(with_attributes(), "edge_weight", &[3], &[1, 1, u64::MAX], "entry 2 is 9223372036854775807, which");
    bad(with_attributes(), "edge_time", &[2], &[1_i64; 2], "it has 2 rows, but there are 3 edges");
    bad(with_attributes(), "edge_time", &[3], &[1.0_f32; 3], "its type is <f4, expected whole numbers");
    bad(with_attributes(), "edge_time", &[3], &[1, u64::MAX, 1], "the time of edge 1 does not fit");
    bad(with_attributes(), "node_time", &[3], &[1_i64; 3], "it has 3 rows, but the graph has 4 nodes");
    let why = "the destination of edge 0 is node 4, which is out of range: the graph has 4 nodes";
    bad(with_attributes(), "test_edge_index", &[2, 1], &[0_i64, 4], why);
    let both = with_attributes();
    assert_has(both.put("valid_edge_index", &[2, 1], &[0_i64, 1]).why(), &["exists as well; keep one of them"]);
}

#[test]
fn weights_that_would_become_zero_are_named() {
    let folder = legal();
    folder.put("edge_weight", &[3], &[0.5_f64, 1e-30, 0.0]);
    let weights = folder.read().unwrap().edges(EdgeTypeId(0)).attributes.weights.as_ref().unwrap().to_vec();
    assert_eq!(weights, [0.5, 1e-30, 0.0]);
    for tiny in [1e-60, 1e-45, 1e-39] {
        folder.put("edge_weight", &[3], &[0.5, 0.0, tiny]);
        let why = format!("edge_weight.npy: the weight of edge 2: {tiny:e} is too small for 32 bits");
        assert_has(folder.why(), &[&why, "multiply all weights"]);
    }
}
