//! Tests of folders of `.npy` arrays: valid variations and all kinds of errors.

use edgecut_graph::readers::{
    DatasetSource, FakeOptions, GraphShape, export_npy, fake, load, load_with_warnings, read_npy_folder,
};
use edgecut_graph::{
    Dataset, EdgeLabelKind, EdgeTypeId, FeatureDtype, GraphError, NO_SPLIT, NodeSplit, NodeTypeId, NpyElement, Split,
    TargetKind, write_npy,
};
use edgecut_testing::{assert_has, names};
use half::f16;
use std::fs;
use tempfile::TempDir;

/// A folder of arrays.
struct Folder(TempDir);

/// Returns a folder with a valid graph of four nodes. Tests change single files of it.
fn legal() -> Folder {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.put("edge_index", &[2, 3], &[0_i64, 1, 3, 1, 0, 3]);
    folder.put("x", &[4, 2], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    folder.put("y", &[4], &[1_i64, 0, -1, 2]);
    folder.put("train_idx", &[2], &[3_i64, 0]);
    folder.put("valid_idx", &[1], &[1_i32]);
    folder
}

impl Folder {
    fn put<T: NpyElement>(&self, stem: &str, shape: &[usize], values: &[T]) -> &Self {
        write_npy(&self.0.path().join(format!("{stem}.npy")), shape, values).unwrap();
        self
    }

    /// Writes an array of NumPy's `bool`, which the library itself never writes.
    fn put_bool(&self, stem: &str, values: &[u8]) -> &Self {
        self.put_as(stem, &[values.len()], values, "|b1")
    }

    /// Writes the bytes of an array of a type that the library itself never writes.
    fn put_as(&self, stem: &str, shape: &[usize], bytes: &[u8], dtype: &str) -> &Self {
        let path = self.0.path().join(format!("{stem}.npy"));
        let mut file = edgecut_graph::npy_header::<u8>(shape).unwrap();
        let at = file.windows(3).position(|w| w == b"|u1").unwrap();
        file[at..at + 3].copy_from_slice(dtype.as_bytes());
        file.extend_from_slice(bytes);
        fs::write(path, file).unwrap();
        self
    }

    /// Writes a big-endian array, whose type has the letter `kind`.
    fn put_swapped<T: NpyElement>(&self, stem: &str, shape: &[usize], values: &[T], kind: char) -> &Self {
        let mut bytes: Vec<u8> = bytemuck::cast_slice(values).to_vec();
        bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
        self.put_as(stem, shape, &bytes, &format!(">{kind}{}", size_of::<T>()))
    }

    fn remove(&self, stem: &str) -> &Self {
        fs::remove_file(self.0.path().join(format!("{stem}.npy"))).unwrap();
        self
    }

    fn read(&self) -> Result<Dataset, GraphError> {
        read_npy_folder("four", self.0.path())
    }

    fn why(&self) -> String {
        self.read().unwrap_err().to_string()
    }
}

/// Checks that a folder with another array has an error about it.
fn bad<T: NpyElement>(folder: Folder, stem: &str, shape: &[usize], values: &[T], why: &str) {
    assert_has(folder.put(stem, shape, values).why(), &[&format!("{stem}.npy: {why}")]);
}

fn check_four(dataset: &Dataset) {
    dataset.validate().unwrap();
    let nodes = dataset.nodes(NodeTypeId(0));
    let edges = dataset.edges(EdgeTypeId(0));
    assert_eq!((&edges.src[..], &edges.dst[..]), (&[0, 1, 3][..], &[1, 0, 3][..]));
    let mut row = [0.0; 2];
    nodes.features.as_ref().unwrap().copy_row(3, &mut row);
    assert_eq!(row, [6.0, 7.0]);
    assert_eq!(nodes.labels.as_ref().unwrap()[..], [1, 0, -1, 2]);
    assert_eq!((nodes.num_nodes, nodes.num_classes), (4, 3));
    assert_eq!((&nodes.splits.train[..], &nodes.splits.valid[..], nodes.splits.test.len()), (&[0, 3][..], &[1][..], 0));
}

#[test]
fn whole_numbers_of_every_type_are_read() {
    let folder = legal();
    check_four(&folder.read().unwrap());
    folder.put("edge_index", &[2, 3], &[0_i32, 1, 3, 1, 0, 3]);
    folder.put("y", &[4, 1], &[1_i32, 0, -1, 2]);
    check_four(&folder.read().unwrap());
    folder.put("edge_index", &[2, 3], &[0_u32, 1, 3, 1, 0, 3]);
    folder.put("y", &[4], &[1.0_f32, 0.0, f32::NAN, 2.0]);
    check_four(&folder.read().unwrap());
    folder.put("edge_index", &[2, 3], &[0_u64, 1, 3, 1, 0, 3]);
    folder.put("train_idx", &[2, 1], &[0_u8, 3]);
    folder.put("y", &[4], &[1.0_f64, 0.0, -1.0, 2.0]);
    check_four(&folder.read().unwrap());
    folder.put("y", &[4], &[1_u8, 0, 0, 2]);
    assert_eq!(folder.read().unwrap().nodes(NodeTypeId(0)).labels.as_ref().unwrap()[..], [1, 0, 0, 2]);
}

#[test]
fn links_without_a_file_are_errors_and_not_absent_arrays() {
    let folder = legal();
    let link = folder.0.path().join("val_idx.npy");
    fs::remove_file(folder.0.path().join("valid_idx.npy")).unwrap();
    std::os::unix::fs::symlink("moved.npy", &link).unwrap();
    let why = load(&DatasetSource::of_folder(folder.0.path())).unwrap_err().to_string();
    assert!(why.contains(&format!("{}: it is a link to a file that does not exist", link.display())), "{why}");
    fs::rename(&link, folder.0.path().join(".val_idx.npy")).unwrap();
    load(&DatasetSource::of_folder(folder.0.path())).expect("hidden entries are not read");
}

#[test]
fn features_keep_their_type_except_f64() {
    let folder = legal();
    let values = [0.0_f64, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let dtype = |folder: &Folder| {
        let dataset = folder.read().unwrap();
        check_four(&dataset);
        dataset.nodes(NodeTypeId(0)).features.as_ref().unwrap().dtype()
    };
    folder.put("x", &[4, 2], &values);
    assert_eq!(dtype(&folder), FeatureDtype::F32);
    folder.put("x", &[4, 2], &values.map(f16::from_f64));
    assert_eq!(dtype(&folder), FeatureDtype::F16);
    folder.put("x", &[4, 0], &[] as &[f32]);
    assert!(folder.read().unwrap().nodes(NodeTypeId(0)).features.is_none());
}

#[test]
fn masks_stand_in_for_ids() {
    let folder = legal();
    folder.remove("train_idx");
    folder.remove("valid_idx");
    folder.put_bool("train_mask", &[1, 0, 0, 1]);
    folder.put("val_mask", &[4], &[0_u8, 1, 0, 0]);
    check_four(&folder.read().unwrap());
    folder.remove("val_mask");
    folder.put("val_idx", &[1], &[1_i64]);
    folder.put_bool("test_mask", &[0; 4]);
    check_four(&folder.read().unwrap());
    // Whole numbers are masks as well, but only with 0 and 1.
    folder.put("train_mask", &[4], &[1_i64, 0, 0, 1]);
    check_four(&folder.read().unwrap());
    folder.put("train_mask", &[4], &[0_i64, 3, 0, 1]);
    assert_has(folder.read().unwrap_err().to_string(), &["train_mask.npy: entry 1 is 3", "belong in train_idx.npy"]);
}

#[test]
fn nodes_without_a_label_are_in_no_split() {
    for (split, said) in [
        ("train", "1 of 2 train nodes have no label: they do not train"),
        ("valid", "1 of 2 valid nodes have no label: they are not evaluated"),
        ("test", "1 of 2 test nodes have no label: they are not evaluated"),
    ] {
        let folder = legal();
        for name in ["train", "valid", "val", "test"] {
            for kind in ["idx", "mask"] {
                let _ = fs::remove_file(folder.0.path().join(format!("{name}_{kind}.npy")));
            }
        }
        folder.put(&format!("{split}_idx"), &[2], &[1_i64, 2]);
        let loaded = load_with_warnings(&DatasetSource::of_folder(folder.0.path())).unwrap();
        let splits = &loaded.dataset.nodes(NodeTypeId(0)).splits;
        assert_eq!([&splits.train[..], &splits.valid, &splits.test].concat(), [1], "{split}");
        assert!(loaded.warnings.iter().any(|warning| warning == said), "{:?}", loaded.warnings);
        loaded.dataset.validate().unwrap();
    }
}

#[test]
fn nodes_without_splits_are_divided() {
    let folder = legal();
    for name in ["train", "valid", "val", "test"] {
        for kind in ["idx", "mask"] {
            let _ = fs::remove_file(folder.0.path().join(format!("{name}_{kind}.npy")));
        }
    }
    let mut source = DatasetSource::of_folder(folder.0.path());
    assert!(load_with_warnings(&source).unwrap().dataset.lacks_splits());
    source.split_nodes = Some(NodeSplit::parse("0.4,0.3,0.3,7").unwrap());
    let loaded = load_with_warnings(&source).unwrap().dataset;
    let splits = &loaded.nodes(NodeTypeId(0)).splits;
    // Three of the four nodes have labels, and counts are rounded down.
    assert_eq!([splits.train.len(), splits.valid.len(), splits.test.len()], [1, 0, 0]);
    assert!(!loaded.lacks_splits());
    folder.put("node_time", &[4], &[9_i64, 8, 7, 6]);
    source.split_nodes = Some(NodeSplit::parse("by-time:0.34,0.33,0.33").unwrap());
    let loaded = load_with_warnings(&source).unwrap().dataset;
    assert_eq!(loaded.nodes(NodeTypeId(0)).splits.train[..], [3]);
    folder.put("train_idx", &[1], &[0_i64]);
    let error = load_with_warnings(&source).unwrap_err().to_string();
    assert!(error.contains("are in splits already: leave out `split_nodes` or their masks"), "{error}");
}

#[test]
fn arrays_with_names_of_other_programs_are_named() {
    let folder = legal();
    for (stem, near) in [
        ("features", "x"),
        ("labels", "y"),
        ("edge_indx", "edge_index"),
        ("edge_weights", "edge_weight"),
        ("node-time", "node_time"),
    ] {
        folder.put(stem, &[1], &[0_i64]);
        let loaded = load_with_warnings(&DatasetSource::of_folder(folder.0.path())).unwrap();
        let said = format!("{stem}.npy is not read, because its name has no meaning (did you mean {near}.npy?)");
        assert!(loaded.warnings.iter().any(|warning| warning.ends_with(&said)), "{:?}", loaded.warnings);
        fs::remove_file(folder.0.path().join(format!("{stem}.npy"))).unwrap();
    }
}

/// Returns the valid folder with three targets per node in place of classes.
fn with_targets<T: NpyElement>(values: &[T]) -> Folder {
    let folder = legal();
    folder.remove("y");
    folder.put("targets", &[4, values.len() / 4], values);
    folder
}

#[test]
fn targets_of_every_type_are_read() {
    let labels = [0.0_f32, 1.0, 1.0, 0.0, f32::NAN, f32::NAN, 1.0, 0.0];
    let targets = |folder: &Folder| folder.read().unwrap().nodes(NodeTypeId(0)).targets.clone().unwrap();
    let found = targets(&with_targets(&labels));
    assert_eq!((found.dim, found.kind, found.row(1)), (2, TargetKind::MultiLabel, &[1.0, 0.0][..]));
    assert!(found.is_known(1) && !found.is_known(2));
    assert_eq!(targets(&with_targets(&[0_i64, 1, 1, 0])).kind, TargetKind::MultiLabel);
    assert_eq!(targets(&with_targets(&[0_u8, 1, 1, 0])).values[..], [0.0, 1.0, 1.0, 0.0]);
    let halves = [0.5, 1.0, 1.0, 0.0].map(f16::from_f32);
    assert_eq!(targets(&with_targets(&halves)).values[..], [0.5, 1.0, 1.0, 0.0]);
    assert_eq!(targets(&with_targets(&[0.5_f64, -1e9, 1.0, 0.0])).kind, TargetKind::Regression);
    let folder = with_targets(&[0_u8; 4]);
    folder.put_bool("targets", &[1, 0, 0, 1]);
    assert_eq!((targets(&folder).dim, &targets(&folder).values[..]), (1, &[1.0, 0.0, 0.0, 1.0][..]));
    // The targets survive an export, and determine the number of nodes.
    let folder = with_targets(&labels);
    let dataset = folder.read().unwrap();
    assert_eq!(GraphShape::read(&DatasetSource::of_folder(folder.0.path())).unwrap(), GraphShape::of(&dataset));
    export_npy(&dataset, folder.0.path()).unwrap();
    folder.remove("x");
    folder.remove("num_nodes");
    assert_eq!(targets(&folder).row(3), [1.0, 0.0]);
    export_npy(&legal().read().unwrap(), folder.0.path()).unwrap();
    check_four(&folder.read().unwrap());
}

#[test]
fn nodes_without_a_known_target_are_neither_trained_nor_evaluated() {
    let folder = with_targets(&[0.5_f32, 0.5, f32::NAN, 0.5]);
    folder.put("valid_idx", &[2], &[1_i64, 2]);
    let loaded = load_with_warnings(&DatasetSource::of_folder(folder.0.path())).unwrap();
    assert_eq!(loaded.dataset.nodes(NodeTypeId(0)).splits.valid[..], [1]);
    loaded.dataset.validate().unwrap();
}

#[test]
fn each_bad_target_is_named_with_its_node() {
    const HALVES: [f32; 4] = [0.5; 4];
    assert_has(with_targets(&HALVES).put("y", &[4], &[0_i64; 4]).why(), &["targets.npy: there is also y.npy"]);
    bad(with_targets(&HALVES), "targets", &[3, 2], &[0.0_f32; 6], "it has 3 rows, but the graph has 4 nodes");
    bad(with_targets(&HALVES), "targets", &[4, 1, 1], &[0.0_f32; 4], "its shape is [4, 1, 1]");
    bad(with_targets(&HALVES), "targets", &[4, 1], &[0.5, 1e300, 0.0, 0.0], "target 0 of node 1 is inf, which is");
    let mut infinite = [0.0; 8];
    infinite[3] = f32::NEG_INFINITY;
    bad(with_targets(&HALVES), "targets", &[4, 2], &infinite, "target 1 of node 1 is -inf, which is infinite");
    bad(with_targets(&HALVES), "targets", &[4, 0], &[] as &[f32], "it has 0 columns, but nodes have 1 to 1048576");
    bad(with_targets(&HALVES), "targets", &[4], &[0, 1 << 24 | 1, 0, 0_i64], "target 0 of node 1 is 16777217, too");
    bad(with_targets(&HALVES), "targets", &[], &[0.0_f32], "its shape is []");
}

#[test]
fn weights_that_would_become_zero_are_named() {
    let folder = legal();
    folder.put("edge_weight", &[3], &[0.5_f64, 1e-30, 0.0]);
    let weights = folder.read().unwrap().edges(EdgeTypeId(0)).attributes.weights.as_ref().unwrap().to_vec();
    assert_eq!(weights, [0.5, 1e-30, 0.0]);
    for tiny in [1e-60, 1e-45, 1e-39] {
        folder.put("edge_weight", &[3], &[0.5, 0.0, tiny]);
        let why = folder.why();
        let named = format!("edge_weight.npy: the weight of edge 2: {tiny:e} is too small for 32 bits");
        assert!(why.contains(&named) && why.contains("multiply all weights"), "{why}");
    }
}

#[test]
fn the_number_of_nodes_comes_from_the_first_file_that_tells_it() {
    let folder = legal();
    let num_nodes =
        |folder: &Folder| folder.read().map(|d| d.nodes(NodeTypeId(0)).num_nodes).map_err(|e| e.to_string());
    folder.remove("y");
    folder.remove("x");
    folder.put_bool("test_mask", &[0, 1, 0, 0, 0]);
    assert_eq!(num_nodes(&folder), Ok(5));
    folder.remove("test_mask");
    assert_eq!(num_nodes(&folder), Ok(4));
    folder.put("edge_index", &[2, 2], &[0_i64, 1, 1, 8]);
    assert_eq!(num_nodes(&folder), Ok(9));
    folder.put("num_nodes", &[], &[12_i64]);
    assert_eq!(num_nodes(&folder), Ok(12));
    folder.put("y", &[11], &[0_i64; 11]);
    assert!(num_nodes(&folder).unwrap_err().contains("y.npy: it has 11 rows, but the graph has 12 nodes"));
    folder.put("edge_index", &[2, 0], &[] as &[i64]);
    folder.put("y", &[12], &[0_i64; 12]);
    assert_eq!(num_nodes(&folder), Ok(12));
}

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
        let loaded = load_with_warnings(&DatasetSource::of_folder(folder.0.path())).unwrap();
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
    let source = |folder: &Folder| DatasetSource::of_folder(folder.0.path());
    let folder = with_attributes();
    folder.remove("edge_val_mask");
    folder.remove("val_edge_index");
    folder.remove("test_edge_index");
    let reversed = load(&DatasetSource { add_reverse_edges: true, ..source(&folder) }).unwrap();
    assert!(reversed.edge_types[0].attributes.labels.is_some() && reversed.edge_types[1].attributes.labels.is_none());
    assert!(reversed.edge_types[1].attributes.weights.is_some());
    let why = load(&DatasetSource { to_undirected: true, ..source(&folder) }).unwrap_err().to_string();
    assert!(why.contains("edge type node__to__node has labels") && why.contains("--add-reverse-edges"), "{why}");
    let hold_out = Some(edgecut_graph::HoldOut::random(0.3, 0.3, 1));
    let why = load(&DatasetSource { hold_out_edges: hold_out, ..source(&folder) }).unwrap_err().to_string();
    assert!(why.contains("edge type node__to__node has labels, which held-out edges would lose"), "{why}");
}

#[test]
fn held_out_edges_and_times_count_nodes_too() {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.put("edge_index", &[2, 1], &[0_i64, 1]);
    folder.put("test_edge_index", &[2, 1], &[6_i64, 1]);
    let num_nodes = |folder: &Folder| folder.read().unwrap().nodes(NodeTypeId(0)).num_nodes;
    assert_eq!(num_nodes(&folder), 7);
    folder.put("node_time", &[9], &[0_i64; 9]);
    assert_eq!(num_nodes(&folder), 9);
}

/// A graph does not depend on the types of its arrays, if these hold the same numbers.
#[test]
fn numbers_are_read_from_all_types_that_hold_them() {
    type Put = for<'a> fn(&'a Folder, &str, &[usize], &[u8]) -> &'a Folder;
    let cases: [(&str, Put); 15] = [
        ("int8", |f, stem, shape, v| f.put(stem, shape, &to(v, |v| v as i8))),
        ("uint8", |f, stem, shape, v| f.put(stem, shape, v)),
        ("int16", |f, stem, shape, v| f.put(stem, shape, &to(v, i16::from))),
        ("uint16", |f, stem, shape, v| f.put(stem, shape, &to(v, u16::from))),
        ("int32", |f, stem, shape, v| f.put(stem, shape, &to(v, i32::from))),
        ("uint32", |f, stem, shape, v| f.put(stem, shape, &to(v, u32::from))),
        ("int64", |f, stem, shape, v| f.put(stem, shape, &to(v, i64::from))),
        ("uint64", |f, stem, shape, v| f.put(stem, shape, &to(v, u64::from))),
        ("bool", |f, stem, shape, v| f.put_as(stem, shape, v, "|b1")),
        ("big-endian int16", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, i16::from), 'i')),
        ("big-endian uint32", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, u32::from), 'u')),
        ("big-endian int64", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, i64::from), 'i')),
        ("big-endian float16", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, f16::from), 'f')),
        ("big-endian float32", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, f32::from), 'f')),
        ("big-endian float64", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, f64::from), 'f')),
    ];
    let folder = legal();
    folder.put("x", &[4, 2], &[0.0_f32, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    folder.put("y", &[4], &[1_i64, 0, 0, 1]);
    folder.put("edge_weight", &[3], &[1.0_f32, 0.0, 1.0]);
    folder.put("edge_time", &[3], &[1_i64, 0, 1]);
    let found = numbers(&folder);
    for (name, put) in cases {
        let folder = legal();
        put(&folder, "x", &[4, 2], &[0, 1, 1, 0, 1, 1, 0, 0]);
        put(&folder, "edge_weight", &[3], &[1, 0, 1]);
        folder.put("edge_time", &[3], &[1_i64, 0, 1]);
        folder.put("y", &[4], &[1_i64, 0, 0, 1]);
        if !name.contains("float16") {
            put(&folder, "y", &[4], &[1, 0, 0, 1]);
        }
        if !name.contains("float") {
            put(&folder, "edge_time", &[3], &[1, 0, 1]);
            put(&folder, "train_idx", &[1], &[0]);
            if name != "bool" {
                put(&folder, "edge_index", &[2, 3], &[0, 1, 3, 1, 0, 3]);
            }
        }
        assert_eq!(numbers(&folder), found, "{name}");
    }
}

/// The features and labels of nodes, weights, times, sources and destinations.
type Numbers = (Vec<[f32; 2]>, Vec<i64>, Vec<f32>, Vec<i64>, Vec<u32>, Vec<u32>);

/// Reads all numbers of a graph.
fn numbers(folder: &Folder) -> Numbers {
    let dataset = folder.read().unwrap();
    let nodes = dataset.nodes(NodeTypeId(0));
    let mut rows = vec![[0.0; 2]; 4];
    let features = nodes.features.as_ref().unwrap();
    rows.iter_mut().enumerate().for_each(|(at, row)| features.copy_row(at, row));
    let edges = dataset.edges(EdgeTypeId(0));
    let attributes = &edges.attributes;
    let weights = attributes.weights.as_ref().unwrap().to_vec();
    let times = attributes.times.as_ref().unwrap().to_vec();
    (rows, nodes.labels.as_ref().unwrap().to_vec(), weights, times, edges.src.to_vec(), edges.dst.to_vec())
}

/// Converts small numbers.
fn to<T>(values: &[u8], convert: fn(u8) -> T) -> Vec<T> {
    values.iter().map(|&value| convert(value)).collect()
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
fn each_bad_array_is_named_with_its_entry() {
    bad(legal(), "edge_index", &[2, 2], &[0_i64, 1, 1, 4], "the destination of edge 1 is node 4, which is out");
    bad(legal(), "edge_index", &[2, 2], &[-1_i64, 1, 1, 4], "the source of edge 0 is node -1");
    bad(legal(), "edge_index", &[2, 1], &[0, u64::MAX], "the destination of edge 0");
    bad(legal(), "edge_index", &[3, 2], &[0_i64; 6], "its shape is [3, 2], expected [2, E]; save numpy");
    bad(legal(), "edge_index", &[6], &[0_i64; 6], "its shape is [6], expected [2, E]");
    bad(legal(), "edge_index", &[2, 3], &[0.0_f32; 6], "its type is <f4, expected whole numbers");
    assert_has(legal().remove("edge_index").why(), &["edge_index.npy: "]);
    assert_has(legal().put("x", &[3, 2], &[0.0_f32; 6]).why(), &["edge_index.npy: the source of edge 2 is node 3"]);
    assert_has(legal().put("x", &[5, 2], &[0.0_f32; 10]).why(), &["y.npy: it has 4 rows, but the graph has 5 nodes"]);
    assert_has(legal().put("x", &[8], &[0.0_f32; 8]).why(), &["the graph has 8 nodes"]);
    let why = "entry 1 is -9223372036854775807, which floats of 32 bits do not hold";
    bad(legal(), "x", &[4, 1], &[0, i64::MIN + 1, 0, 0], why);
    let why = "x.npy: its type is |S1, expected numbers; save it through";
    assert_has(legal().put_as("x", &[4, 1], &[0_u8; 4], "|S1").why(), &[why]);
    bad(legal(), "x", &[4, 1], &[0.0, 0.0, f32::NAN, 0.0], "feature 0 of node 2 is NaN or infinite");
    bad(legal(), "x", &[4, 1], &[0.0, 1e300, 0.0, 0.0], "feature 0 of node 1 is NaN or infinite, or too large");
    let why = "it has 3 columns; expected one class per node; several labels are targets.npy";
    bad(legal(), "y", &[4, 3], &[0_i64; 12], why);
    bad(legal(), "y", &[4], &[0_i64, -2, 0, 0], "node 1 has label -2");
    bad(legal(), "y", &[4], &[0, 1 << 40, 0, 0_i64], "node 1 has label 1099511627776");
    bad(legal(), "y", &[4], &[0.0, 0.5, 0.0, 0.0_f32], "node 1 has label 0.5");
    bad(legal(), "train_idx", &[2], &[0_i64, 9], "entry 1 is node 9, which is out of range");
    bad(legal(), "train_idx", &[3], &[0_i64, 1, 0], "node 0 is listed twice");
    bad(legal(), "train_idx", &[2, 2], &[0_i64; 4], "its shape is [2, 2]");
    assert_has(legal().put_bool("train_mask", &[0; 4]).why(), &["train_idx.npy: "]);
    let why = "test_mask.npy: it has 3 rows, but the graph has 4 nodes";
    assert_has(legal().put_bool("test_mask", &[0; 3]).why(), &[why]);
    bad(legal(), "test_mask", &[4, 10], &[0_u8; 40], "it holds 10 masks; save one of its columns");
}

#[test]
fn a_count_must_be_one_positive_number() {
    let folder = legal();
    folder.put("num_nodes", &[2], &[4_i64, 4]);
    assert!(folder.why().contains("num_nodes.npy: it has 2 numbers"), "{}", folder.why());
    folder.put("num_nodes", &[], &[0_i64]);
    assert!(folder.why().contains("num_nodes.npy: the graph has no nodes"), "{}", folder.why());
    folder.put("num_nodes", &[], &[1_u64 << 32]);
    assert!(folder.why().contains("num_nodes.npy: 4294967296 nodes are more"), "{}", folder.why());
}

#[test]
fn a_stray_id_makes_no_billions_of_nodes() {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.put("edge_index", &[2, 3], &[0_i64, 1, 4_000_000_000, 1, 2, 0]);
    let why = folder.why();
    assert!(
        why.contains("edge_index.npy: edge 2 has node 4000000000, but 6 ends of edges are few for so many"),
        "{why}"
    );
    assert!(why.contains("save num_nodes.npy with the number of nodes"), "{why}");
    folder.put("edge_index", &[2, 3], &[0_i64, 1, 70_000, 1, 2, 0]);
    assert!(folder.why().contains("edge 2 has node 70000"), "{}", folder.why());
    folder.put("num_nodes", &[], &[80_000_i64]);
    assert_eq!(folder.read().unwrap().node_types[0].num_nodes, 80_000);
}

#[test]
fn a_split_scheme_cannot_be_chosen() {
    let folder = legal();
    let mut source = DatasetSource::new("four", "");
    source.folder = Some(folder.0.path().to_owned());
    check_four(&load(&source).unwrap());
    source.split = Some("time".into());
    assert!(load(&source).unwrap_err().to_string().contains("split scheme time was requested"));
    let mut generated = DatasetSource::new("fake", "");
    generated.split = Some("time".into());
    assert_has(load(&generated).unwrap_err().to_string(), &["dataset fake: split scheme time was requested"]);
}

#[test]
fn a_dataset_can_be_exported_over_the_files_it_is_mapped_from() {
    let dir = tempfile::tempdir().unwrap();
    export_npy(&fake(&FakeOptions::default()).unwrap(), dir.path()).unwrap();
    let mapped = read_npy_folder("fake", dir.path()).unwrap();
    export_npy(&mapped, dir.path()).unwrap();
    mapped.validate().unwrap();
    let again = read_npy_folder("fake", dir.path()).unwrap();
    let one = mapped.nodes(NodeTypeId(0));
    let two = again.nodes(NodeTypeId(0));
    let x = one.features.as_ref().unwrap();
    let y = two.features.as_ref().unwrap();
    assert!((0..1000).all(|row| x.row_bytes(row) == y.row_bytes(row)));
    assert!(Split::ALL.iter().all(|&split| one.splits.get(split)[..] == two.splits.get(split)[..]));
    assert_eq!(mapped.edges(EdgeTypeId(0)).src[..], again.edges(EdgeTypeId(0)).src[..]);
    let mut several = mapped;
    several.node_types.push(several.node_types[0].clone());
    assert!(export_npy(&several, dir.path()).unwrap_err().to_string().contains("only a homogeneous graph"));
}

#[test]
fn a_bare_graph_exported_over_a_rich_one_keeps_nothing_of_it() {
    let bare = Folder(tempfile::tempdir().unwrap());
    bare.put("edge_index", &[2, 1], &[0_i64, 1]);
    bare.put("num_nodes", &[], &[2_i64]);
    let bare = bare.read().unwrap();
    let folder = legal();
    folder.put_bool("train_mask", &[1, 0, 0, 1]);
    folder.put_bool("valid_mask", &[0, 1, 0, 0]);
    folder.put_bool("val_mask", &[0, 1, 0, 0]);
    folder.put_bool("test_mask", &[0; 4]);
    folder.put("val_idx", &[1], &[1_i64]);
    folder.put("test_idx", &[1], &[1_i64]);
    export_npy(&bare, folder.0.path()).unwrap();
    assert_eq!(
        names(folder.0.path()),
        ["edge_index.npy", "num_nodes.npy", "test_idx.npy", "train_idx.npy", "valid_idx.npy"]
    );
    let back = folder.read().unwrap();
    let nodes = back.nodes(NodeTypeId(0));
    assert_eq!((nodes.num_nodes, back.num_edges(), nodes.num_classes), (2, 1, 0));
    assert!(nodes.features.is_none() && nodes.labels.is_none());
    assert!(Split::ALL.iter().all(|&split| nodes.splits.get(split).is_empty()));
}

#[test]
fn an_export_that_fails_leaves_a_folder_that_does_not_load() {
    let dataset = legal().read().unwrap();
    let folder = legal();
    // A folder in place of a file can be neither replaced nor removed as a file.
    fs::create_dir(folder.0.path().join("val_mask.npy")).unwrap();
    assert!(export_npy(&dataset, folder.0.path()).unwrap_err().to_string().contains("val_mask.npy"));
    assert!(folder.why().contains("edge_index.npy"), "{}", folder.why());
}
