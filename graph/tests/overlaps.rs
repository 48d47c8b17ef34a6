//! Tests of overlaps between training and held-out data, and of class counts, in the layouts of all readers.

use edgecut_graph::readers::{DatasetSource, Loaded, load_with_warnings};
use edgecut_graph::{Dataset, EdgeTypeId, GraphError, HoldOut, NpyElement, OverlapPolicy, Split, write_npy};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A folder with a dataset.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn npy<T: NpyElement>(self, name: &str, shape: &[usize], values: &[T]) -> Self {
        let path = self.0.path().join(format!("{name}.npy"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_npy(&path, shape, values).unwrap();
        self
    }

    fn text(self, name: &str, text: &str) -> Self {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn load(&self, set: impl FnOnce(&mut DatasetSource)) -> Result<Loaded, GraphError> {
        let mut source = DatasetSource::of_folder(self.path());
        source.name = "mine".into();
        set(&mut source);
        load_with_warnings(&source)
    }

    /// Returns the warnings about overlaps. Small graphs may also have edges in one direction only.
    fn remarks(&self) -> Vec<String> {
        let warnings = self.load(|_| ()).unwrap().warnings;
        warnings.into_iter().filter(|warning| !warning.contains("sampled edges have their reverses")).collect()
    }

    fn why(&self) -> String {
        self.load(|_| ()).unwrap_err().to_string()
    }

    fn with(&self, overlap: OverlapPolicy) -> Loaded {
        self.load(|source| source.overlap = overlap).unwrap()
    }
}

/// Returns a folder with five edges. The first edge, the last edge and the reverse of the second are also held out.
fn homogeneous() -> Folder {
    Folder::new()
        .npy("edge_index", &[2, 5], &[0_i64, 1, 2, 3, 3, 1, 2, 3, 0, 1])
        .npy("valid_edge_index", &[2, 2], &[0_i64, 2, 1, 1])
        .npy("test_edge_index", &[2, 1], &[3_i64, 1])
}

fn typed() -> Folder {
    Folder::new()
        .npy("nodes/author/num_nodes", &[], &[4_i64])
        .npy("nodes/paper/num_nodes", &[], &[4_i64])
        .npy("edges/author__writes__paper/edge_index", &[2, 2], &[0_i64, 1, 1, 2])
        .npy("edges/author__writes__paper/test_edge_index", &[2, 2], &[0_i64, 3, 1, 3])
        .npy("edges/paper__rev_writes__author/edge_index", &[2, 2], &[1_i64, 3, 0, 3])
}

fn triples() -> Folder {
    Folder::new()
        .text("train.tsv", "ada\tknows\tbob\nbob\tknows\tcy\nada\tlikes\tcy\n")
        .text("valid.tsv", "ada\tknows\tbob\n")
        .text("test.tsv", "ada\tknows\tbob\nada\tlikes\tbob\n")
}

/// Returns the edges of a type as pairs.
fn edges(dataset: &Dataset, edge_type: u16) -> Vec<(u32, u32)> {
    let edges = dataset.edges(EdgeTypeId(edge_type));
    edges.src.iter().copied().zip(edges.dst.iter().copied()).collect()
}

#[test]
fn held_out_edges_among_training_edges_are_an_error_in_every_layout() {
    let counts = [
        (homogeneous(), "edge type node__to__node: 1 of 2 validation edges are training edges, 1 of 1 test edges"),
        (
            typed(),
            "edge type author__writes__paper: 1 of 2 test edges are training edges, 2 of 2 test edges are training edges \
             of the reverse type",
        ),
        (
            triples(),
            "edge type entity__knows__entity: 1 of 1 validation edges are training edges, 1 of 1 test edges are training \
             edges, 1 of 1 validation edges are test edges",
        ),
    ];
    for (folder, expected) in counts {
        let why = folder.why();
        assert!(why.starts_with("dataset mine: ") && why.contains(expected), "{why}, expected {expected}");
        assert!(why.contains("`overlap=remove`") && why.contains("`overlap=allow`"), "{why}");
        let allowed = folder.with(OverlapPolicy::Allow);
        assert!(allowed.warnings[0].contains(expected), "{:?}", allowed.warnings);
        let removed = folder.with(OverlapPolicy::Remove);
        assert!(removed.dataset.overlaps().leaks(false).is_empty());
        assert!(removed.warnings[0].starts_with("removed overlaps: "), "{:?}", removed.warnings);
        assert!(removed.dataset.num_edges() < allowed.dataset.num_edges());
    }
    let removed = typed().with(OverlapPolicy::Remove).dataset;
    assert_eq!((edges(&removed, 0), edges(&removed, 1)), (vec![(1, 2)], vec![]));
}

#[test]
fn the_reverse_of_a_held_out_edge_is_an_overlap_if_the_graph_is_undirected() {
    let clean =
        homogeneous().npy("valid_edge_index", &[2, 1], &[2_i64, 1]).npy("test_edge_index", &[2, 0], &[0_i64; 0]);
    let remarks = clean.remarks();
    assert_eq!(remarks.len(), 1);
    let remark = "the reverse of 1 of 1 validation edges and of 0 of 0 test edges is a training edge";
    assert!(remarks[0].contains(remark), "{remarks:?}");
    let error = clean.load(|source| source.to_undirected = true).unwrap_err().to_string();
    assert!(error.contains("1 of 1 validation edges are training edges in the other direction"), "{error}");
    let set = |source: &mut DatasetSource| {
        source.to_undirected = true;
        source.overlap = OverlapPolicy::Remove;
    };
    let removed = clean.load(set).unwrap().dataset;
    let left = edges(&removed, 0);
    assert!(!left.contains(&(1, 2)) && !left.contains(&(2, 1)) && left.len() == 8, "{left:?}");
    // Without overlaps in the edge types, their reverse types have none either.
    let with_reverse = clean.load(|source| source.add_reverse_edges = true).unwrap().dataset;
    assert!(with_reverse.overlaps().leaks(false).is_empty());
}

#[test]
fn a_graph_without_overlaps_is_read_without_a_word() {
    let clean = homogeneous().npy("edge_index", &[2, 3], &[2_i64, 3, 0, 3, 0, 2]);
    assert_eq!(clean.remarks(), [""; 0]);
}

#[test]
fn nodes_in_two_splits_are_an_error_in_every_layout() {
    let npy = homogeneous()
        .npy("valid_edge_index", &[2, 0], &[0_i64; 0])
        .npy("test_edge_index", &[2, 0], &[0_i64; 0])
        .npy("train_idx", &[2], &[0_i64, 1])
        .npy("valid_idx", &[2], &[1_i64, 2])
        .npy("test_mask", &[4], &[0_u8, 1, 1, 1]);
    let types = Folder::new()
        .npy("nodes/node/num_nodes", &[], &[4_i64])
        .npy("nodes/node/train_mask", &[4], &[1_u8, 1, 0, 0])
        .npy("nodes/node/val_mask", &[4], &[0_u8, 1, 1, 0])
        .npy("nodes/node/test_idx", &[3], &[3_i64, 1, 2])
        .npy("edges/node__to__node/edge_index", &[2, 1], &[0_i64, 1]);
    let splits = [("train", "0\n1\n"), ("valid", "1\n2\n"), ("test", "1\n2\n3\n")];
    let with_splits = |folder: Folder, dir: &str| {
        splits.iter().fold(folder, |folder, (name, ids)| folder.text(&format!("{dir}/{name}.csv"), ids))
    };
    let ogb = Folder::new()
        .text("raw/num-node-list.csv", "4\n")
        .text("raw/num-edge-list.csv", "1\n")
        .text("raw/edge.csv", "0,1\n");
    let ogb_hetero = Folder::new()
        .text("raw/num-node-dict.csv", "node\n4\n")
        .text("raw/triplet-type-list.csv", "node,to,node\n")
        .text("raw/relations/node___to___node/edge.csv", "0,1\n")
        .text("raw/relations/node___to___node/num-edge-list.csv", "1\n");
    let folders = [npy, types, with_splits(ogb, "split/random"), with_splits(ogb_hetero, "split/random/node")];
    for folder in folders {
        let why = folder.why();
        let expected = "node type node: 1 training nodes are validation nodes, 1 training nodes are test nodes, 2 validation \
                        nodes are test nodes";
        assert!(why.contains(expected), "{why}");
        let allowed = folder.with(OverlapPolicy::Allow).dataset;
        assert_eq!(allowed.node_types[0].splits.get(Split::Valid).len(), 2);
        let removed = folder.with(OverlapPolicy::Remove).dataset;
        let ids = Split::ALL.map(|split| removed.node_types[0].splits.get(split).to_vec());
        assert_eq!(ids, [vec![0], vec![], vec![1, 2, 3]]);
    }
}

#[test]
fn times_of_held_out_edges_are_read_and_checked() {
    let timed = || {
        homogeneous().npy("edge_time", &[5], &[1_i64, 2, 3, 4, 5]).npy("val_edge_time", &[2], &[9_i64, 8]).npy(
            "test_edge_time",
            &[1, 1],
            &[10_i32],
        )
    };
    // Later edges between the same nodes are separate edges, which need temporal sampling.
    let loaded = timed().load(|_| ()).unwrap();
    let held_out = &loaded.dataset.edges(EdgeTypeId(0)).held_out;
    assert_eq!(held_out.valid.times.as_ref().unwrap()[..], [9, 8]);
    assert_eq!(held_out.test.times.as_ref().unwrap()[..], [10]);
    let said = timed().remarks();
    assert!(said.len() == 1 && said[0].contains("at other times; they leak held-out edges"), "{said:?}");
    let same = timed().npy("val_edge_time", &[2], &[1_i64, 8]);
    assert!(same.why().contains("1 of 2 validation edges are training edges"), "{}", same.why());
    for (folder, why) in [
        (timed().npy("val_edge_time", &[3], &[1_i64; 3]), "val_edge_time.npy: it has 3 rows, but "),
        (timed().npy("valid_edge_time", &[2], &[1_i64; 2]), "exists as well; keep one of them"),
        (timed().npy("val_edge_time", &[2], &[1.0_f32; 2]), "expected whole numbers"),
    ] {
        assert!(folder.why().contains(why), "{}, expected {why}", folder.why());
    }
    let folder = timed();
    fs::remove_file(folder.path().join("test_edge_time.npy")).unwrap();
    assert!(folder.why().contains("the held-out test edges have no times"), "{}", folder.why());
    let folder = timed();
    fs::remove_file(folder.path().join("test_edge_index.npy")).unwrap();
    assert!(folder.why().contains("save their edge index as well"), "{}", folder.why());
}

#[test]
fn the_latest_edges_are_held_out() {
    let folder = Folder::new().npy("edge_index", &[2, 5], &[0_i64, 1, 2, 3, 3, 1, 2, 3, 0, 1]).npy(
        "edge_time",
        &[5],
        &[1_i64, 5, 3, 4, 2],
    );
    let latest = folder.load(|source| source.hold_out_edges = Some(HoldOut::latest(0.2, 0.2, 0))).unwrap().dataset;
    let of_type = latest.edges(EdgeTypeId(0));
    assert_eq!(of_type.attributes.times.as_ref().unwrap()[..], [1, 3, 2]);
    assert_eq!((&of_type.held_out.valid.src[..], &of_type.held_out.test.src[..]), (&[3][..], &[1][..]));
}

#[test]
fn a_label_far_above_the_number_of_classes_is_an_error_in_every_layout() {
    let labels = [0_i64, 2_000_000_000, 1, 1];
    let text = "0\n2000000000\n1\n1\n";
    let npy = homogeneous().npy("y", &[4], &labels);
    let types =
        Folder::new().npy("nodes/node/y", &[4], &labels).npy("edges/node__to__node/edge_index", &[2, 1], &[0_i64, 1]);
    let ogb = Folder::new()
        .text("raw/num-node-list.csv", "4\n")
        .text("raw/num-edge-list.csv", "1\n")
        .text("raw/edge.csv", "0,1\n")
        .text("raw/node-label.csv", text);
    let ogb_hetero = Folder::new()
        .text("raw/num-node-dict.csv", "node\n4\n")
        .text("raw/triplet-type-list.csv", "node,to,node\n")
        .text("raw/relations/node___to___node/edge.csv", "0,1\n")
        .text("raw/relations/node___to___node/num-edge-list.csv", "1\n")
        .text("raw/node-label/node/node-label.csv", text);
    for (folder, file) in [(npy, "y.npy"), (types, "y.npy"), (ogb, "node-label.csv"), (ogb_hetero, "node-label.csv")] {
        let why = folder.why();
        let expected = "node 1 has label 2000000000, so there are 2000000001 classes, but the labels have 3 different \
                        values, which allow at most 1030 classes";
        assert!(why.contains(&format!("{file}: {expected}")), "{why}");
    }
}
