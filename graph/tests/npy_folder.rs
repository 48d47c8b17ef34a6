//! Tests of folders of `.npy` arrays: valid variations and all kinds of errors.

use edgecut_graph::readers::{DatasetSource, GraphShape, export_npy, load, load_with_warnings, read_npy_folder};
use edgecut_graph::{
    Dataset, EdgeTypeId, FeatureDtype, GraphError, NodeSplit, NodeTypeId, NpyElement, TargetKind, write_npy,
};
use edgecut_testing::assert_has;
use half::f16;
use std::fs;
use tempfile::TempDir;

/// A folder of arrays.
pub(crate) struct Folder(pub(crate) TempDir);

/// Returns a folder with a valid graph of four nodes. Tests change single files of it.
pub(crate) fn legal() -> Folder {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.put("edge_index", &[2, 3], &[0_i64, 1, 3, 1, 0, 3]);
    folder.put("x", &[4, 2], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    folder.put("y", &[4], &[1_i64, 0, -1, 2]);
    folder.put("train_idx", &[2], &[3_i64, 0]);
    folder.put("valid_idx", &[1], &[1_i32]);
    folder
}

impl Folder {
    pub(crate) fn put<T: NpyElement>(&self, stem: &str, shape: &[usize], values: &[T]) -> &Self {
        write_npy(&self.0.path().join(format!("{stem}.npy")), shape, values).unwrap();
        self
    }

    /// Writes an array of NumPy's `bool`, which the library itself never writes.
    pub(crate) fn put_bool(&self, stem: &str, values: &[u8]) -> &Self {
        self.put_as(stem, &[values.len()], values, "|b1")
    }

    /// Writes the bytes of an array of a type that the library itself never writes.
    pub(crate) fn put_as(&self, stem: &str, shape: &[usize], bytes: &[u8], dtype: &str) -> &Self {
        let path = self.0.path().join(format!("{stem}.npy"));
        let mut file = edgecut_graph::npy_header::<u8>(shape).unwrap();
        let at = file.windows(3).position(|w| w == b"|u1").unwrap();
        file[at..at + 3].copy_from_slice(dtype.as_bytes());
        file.extend_from_slice(bytes);
        fs::write(path, file).unwrap();
        self
    }

    /// Writes a big-endian array, whose type has the letter `kind`.
    pub(crate) fn put_swapped<T: NpyElement>(&self, stem: &str, shape: &[usize], values: &[T], kind: char) -> &Self {
        let mut bytes: Vec<u8> = bytemuck::cast_slice(values).to_vec();
        bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
        self.put_as(stem, shape, &bytes, &format!(">{kind}{}", size_of::<T>()))
    }

    pub(crate) fn remove(&self, stem: &str) -> &Self {
        fs::remove_file(self.0.path().join(format!("{stem}.npy"))).unwrap();
        self
    }

    fn remove_splits(&self) {
        self.remove("train_idx").remove("valid_idx");
    }

    /// Returns the dataset with these arrays.
    pub(crate) fn source(&self) -> DatasetSource {
        DatasetSource::of_folder(self.0.path())
    }

    pub(crate) fn read(&self) -> Result<Dataset, GraphError> {
        read_npy_folder("four", self.0.path())
    }

    pub(crate) fn why(&self) -> String {
        self.read().unwrap_err().to_string()
    }
}

/// Checks that a folder with another array has an error about it.
pub(crate) fn bad<T: NpyElement>(folder: Folder, stem: &str, shape: &[usize], values: &[T], why: &str) {
    assert_has(folder.put(stem, shape, values).why(), &[&format!("{stem}.npy: {why}")]);
}

pub(crate) fn check_four(dataset: &Dataset) {
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
    folder.remove("valid_idx");
    std::os::unix::fs::symlink("moved.npy", &link).unwrap();
    let why = format!("{}: it is a link to a file that does not exist", link.display());
    assert_has(load(&folder.source()).unwrap_err().to_string(), &[&why]);
    fs::rename(&link, folder.0.path().join(".val_idx.npy")).unwrap();
    load(&folder.source()).expect("hidden entries are not read");
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
        folder.remove_splits();
        folder.put(&format!("{split}_idx"), &[2], &[1_i64, 2]);
        let loaded = load_with_warnings(&folder.source()).unwrap();
        let splits = &loaded.dataset.nodes(NodeTypeId(0)).splits;
        assert_eq!([&splits.train[..], &splits.valid, &splits.test].concat(), [1], "{split}");
        assert!(loaded.warnings.iter().any(|warning| warning == said), "{:?}", loaded.warnings);
        loaded.dataset.validate().unwrap();
    }
}

#[test]
fn nodes_without_splits_are_divided() {
    let folder = legal();
    folder.remove_splits();
    let mut source = folder.source();
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
    let why = "are in splits already: leave out `split_nodes` or their masks";
    assert_has(load_with_warnings(&source).unwrap_err().to_string(), &[why]);
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
        let loaded = load_with_warnings(&folder.source()).unwrap();
        let said = format!("{stem}.npy is not read, because its name has no meaning (did you mean {near}.npy?)");
        assert!(loaded.warnings.iter().any(|warning| warning.ends_with(&said)), "{:?}", loaded.warnings);
        folder.remove(stem);
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
    assert_eq!(GraphShape::read(&folder.source()).unwrap(), GraphShape::of(&dataset));
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
    let loaded = load_with_warnings(&folder.source()).unwrap();
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
    bad(legal(), "num_nodes", &[2], &[4_i64, 4], "it has 2 numbers");
    bad(legal(), "num_nodes", &[], &[0_i64], "the graph has no nodes");
    bad(legal(), "num_nodes", &[], &[1_u64 << 32], "4294967296 nodes are more");
}

#[test]
fn a_stray_id_makes_no_billions_of_nodes() {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.put("edge_index", &[2, 3], &[0_i64, 1, 4_000_000_000, 1, 2, 0]);
    let why = "edge_index.npy: edge 2 has node 4000000000, but 6 ends of edges are few for so many";
    assert_has(folder.why(), &[why, "save num_nodes.npy with the number of nodes"]);
    folder.put("edge_index", &[2, 3], &[0_i64, 1, 70_000, 1, 2, 0]);
    assert_has(folder.why(), &["edge 2 has node 70000"]);
    folder.put("num_nodes", &[], &[80_000_i64]);
    assert_eq!(folder.read().unwrap().node_types[0].num_nodes, 80_000);
}

#[test]
fn a_split_scheme_cannot_be_chosen() {
    let folder = legal();
    let mut source = folder.source();
    check_four(&load(&source).unwrap());
    source.split = Some("time".into());
    assert!(load(&source).unwrap_err().to_string().contains("split scheme time was requested"));
    let mut generated = DatasetSource::new("fake", "");
    generated.split = Some("time".into());
    assert_has(load(&generated).unwrap_err().to_string(), &["dataset fake: split scheme time was requested"]);
}
