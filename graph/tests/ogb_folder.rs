//! Tests of OGB's raw CSV layout: valid variations and all kinds of errors.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use edgecut_graph::readers::{DatasetSource, load, load_with_warnings, read_ogb};
use edgecut_graph::{Dataset, EdgeTypeId, GraphError, NodeTypeId, TargetKind};
use edgecut_testing::assert_has;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder with a valid graph of four nodes. Tests change single files of it.
struct Folder(TempDir);

impl Folder {
    fn legal() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in [
            ("raw/num-node-list.csv", "4\n"),
            ("raw/num-edge-list.csv", "5\n"),
            ("raw/edge.csv", "0,1\n1,0\n1,2\n3,3\n1,2\n"),
            ("raw/node-feat.csv", "1,0.5\n0,0\n-2,1e2\n3,4\n"),
            ("raw/node-label.csv", "1\n0\n\n2.0\n"),
            ("split/time/train.csv", "3\n0\n"),
            ("split/time/valid.csv", "1\n"),
            ("split/time/test.csv", ""),
        ] {
            folder.put(name, text);
        }
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn remove(&self, name: &str) -> &Self {
        fs::remove_file(self.path().join(name)).unwrap();
        self
    }

    /// Replaces `NAME.csv` with `NAME.csv.gz`.
    fn compress(&self, name: &str) {
        let path = self.path().join(name);
        let bytes = gzip(&fs::read(&path).unwrap());
        self.put(&format!("{name}.gz"), bytes);
        fs::remove_file(path).unwrap();
    }

    fn read(&self) -> Result<Dataset, GraphError> {
        read_ogb("four", self.path(), None)
    }

    fn why(&self) -> String {
        self.read().unwrap_err().to_string()
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn check_four(dataset: &Dataset) {
    dataset.validate().unwrap();
    let nodes = dataset.nodes(NodeTypeId(0));
    let edges = dataset.edges(EdgeTypeId(0));
    assert_eq!((&edges.src[..], &edges.dst[..]), (&[0, 1, 1, 3, 1][..], &[1, 0, 2, 3, 2][..]));
    let features = nodes.features.as_ref().unwrap();
    let mut row = [0.0; 2];
    features.copy_row(2, &mut row);
    assert_eq!((row, features.num_rows()), ([-2.0, 100.0], 4));
    assert_eq!(nodes.labels.as_ref().unwrap()[..], [1, 0, -1, 2]);
    assert_eq!((nodes.num_nodes, nodes.num_classes), (4, 3));
    assert_eq!((&nodes.splits.train[..], &nodes.splits.valid[..], nodes.splits.test.len()), (&[0, 3][..], &[1][..], 0));
}

#[test]
fn plain_and_compressed_files_may_be_mixed() {
    let folder = Folder::legal();
    check_four(&folder.read().unwrap());
    for name in ["raw/edge.csv", "raw/num-node-list.csv", "raw/node-label.csv", "split/time/test.csv"] {
        folder.compress(name);
        check_four(&folder.read().unwrap());
    }
}

#[test]
fn windows_line_ends_missing_last_ends_and_several_gzip_members_are_legal() {
    let folder = Folder::legal();
    folder.put("raw/edge.csv", "0,1\r\n1,0\r\n1,2\r\n3,3\r\n1,2");
    folder.put("raw/node-feat.csv", "1,0.5\r\n0,0\r\n-2,1e2\r\n3,4");
    folder.put("raw/node-label.csv.gz", [gzip(b"1\n0\n"), gzip(b"nan\n2.0")].concat());
    folder.put("split/time/train.csv", "3\r\n0");
    check_four(&folder.read().unwrap());
}

#[test]
fn features_labels_and_splits_are_optional() {
    let folder = Folder::legal();
    folder.remove("raw/node-feat.csv").remove("raw/node-label.csv");
    fs::remove_dir_all(folder.path().join("split")).unwrap();
    folder.put("raw/node_species.csv", "9606\n");
    let dataset = folder.read().unwrap();
    let nodes = dataset.nodes(NodeTypeId(0));
    assert!(nodes.features.is_none() && nodes.labels.is_none() && nodes.splits.train.is_empty());
}

#[test]
fn edges_may_have_features_and_nodes_years() {
    let folder = Folder::legal();
    folder.put("raw/edge-feat.csv.gz", gzip(b"1,2\n3,4\n5,6\n7,8\n9,0.5\n"));
    folder.put("raw/node_year.csv", "2000\n2001\n1999\n2020\n");
    let dataset = folder.read().unwrap();
    check_four(&dataset);
    let features = dataset.edges(EdgeTypeId(0)).attributes.features.as_ref().unwrap();
    assert_eq!((features.num_rows(), features.dim()), (5, 2));
    assert_eq!(features.row_bytes(4), [9.0_f32.to_le_bytes(), 0.5_f32.to_le_bytes()].concat());
    assert_eq!(dataset.nodes(NodeTypeId(0)).times.as_ref().unwrap()[..], [2000, 2001, 1999, 2020]);
}

#[test]
fn a_graph_may_have_no_edges() {
    let folder = Folder::legal();
    folder.put("raw/edge.csv", "").put("raw/num-edge-list.csv", "0");
    assert_eq!(folder.read().unwrap().num_edges(), 0);
}

#[test]
fn one_split_scheme_is_taken_and_of_several_one_is_chosen() {
    let folder = Folder::legal();
    folder.put("split/random/train.csv", "2\n").put("split/README", "not a scheme");
    assert!(folder.why().contains("choose one of: random, time"), "{}", folder.why());
    check_four(&read_ogb("four", folder.path(), Some("time")).unwrap());
    let why = |split| read_ogb("four", folder.path(), Some(split)).unwrap_err().to_string();
    assert!(why("size").contains("it has no split scheme size; choose one of: random, time"), "{}", why("size"));
    assert!(why("../raw").contains("it has no split scheme"), "{}", why("../raw"));
    assert!(why("random").contains("it contains neither valid.csv.gz nor valid.csv"), "{}", why("random"));
}

#[test]
fn each_bad_file_is_named_with_its_line() {
    for (name, content, why) in [
        ("raw/edge.csv", "0,1\n4,0\n", "edge.csv: line 2: source node 4 is out of range: the graph has 4 nodes"),
        ("raw/edge.csv", "0,1\n", "edge.csv: it has 1 edge, but"),
        ("raw/edge.csv", "0;1\n", "edge.csv: line 1: \"0;1\" is not an edge"),
        ("raw/num-node-list.csv", "2\n2\n", "num-node-list.csv: it counts several graphs: this is OGB's graph classif"),
        ("raw/num-edge-list.csv", "2\n3\n", "num-edge-list.csv: it counts several graphs"),
        ("raw/num-node-list.csv", "0", "num-node-list.csv: the graph has no nodes"),
        ("raw/num-node-list.csv", "4294967296", "num-node-list.csv: 4294967296 nodes are more than"),
        ("raw/num-node-list.csv", "", "num-node-list.csv: it is empty"),
        ("raw/node-feat.csv", "1,2\n1\n1,2\n1,2\n", "node-feat.csv: line 2: 1 value, but the first line has 2"),
        ("raw/node-feat.csv", "1,2\n1,2\n1,nan\n1,2\n", "node-feat.csv: line 3: column 2: \"nan\" is not a finite"),
        ("raw/node-feat.csv", "1,2\n1,-Infinity\n1,1\n1,2\n", "node-feat.csv: line 2: column 2: \"-Infinity\""),
        ("raw/node-feat.csv", "1,2\nold,2\n1,1\n1,2\n", "node-feat.csv: line 2: column 1: \"old\" is not a number"),
        ("raw/node-feat.csv", "1\n2\n3\n", "node-feat.csv: it has 3 rows, but the graph has 4 nodes"),
        ("raw/node-feat.csv", "", "node-feat.csv: it has 0 rows"),
        ("raw/node-label.csv", "1\n1\n1\n", "node-label.csv: it has 3 rows, but the graph has 4 nodes"),
        ("raw/node-label.csv", "1\n1,0\n1\n1\n", "node-label.csv: line 2: 2 columns of labels"),
        ("raw/node-label.csv", "1\n1\n0.5\n1\n", "node-label.csv: line 3: \"0.5\" is not a class"),
        ("raw/edge-feat.csv", "1\n2\n", "edge-feat.csv: it has 2 rows, but there are 5 edges"),
        ("raw/edge-feat.csv", "1\n2\n3\nx\n5\n", "edge-feat.csv: line 4: column 1: \"x\" is not a number"),
        ("raw/node_year.csv", "1999\n", "node_year.csv: it has 1 row, but the graph has 4 nodes"),
        ("raw/node_year.csv", "1\n2\n3\n4.5\n", "node_year.csv: line 4: \"4.5\" is not a time"),
        ("split/time/train.csv", "0\n4\n", "train.csv: line 2: node 4 is out of range"),
        ("split/time/valid.csv", "1\n0\n1\n", "valid.csv: node 1 is listed twice"),
    ] {
        let folder = Folder::legal();
        folder.put(name, content);
        assert!(folder.why().contains(why), "{}, expected {why}", folder.why());
    }
}

#[test]
fn truncated_and_corrupt_gzip_files_are_told() {
    let folder = Folder::legal();
    folder.compress("raw/edge.csv");
    let path = folder.path().join("raw/edge.csv.gz");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    assert!(folder.why().contains("edge.csv.gz: the gzip file is truncated"), "{}", folder.why());
    fs::write(&path, b"0,1\n").unwrap();
    assert!(folder.why().contains("edge.csv.gz: it is not a gzip file"), "{}", folder.why());
}

#[test]
fn missing_files_and_other_layouts_are_told() {
    for name in ["edge", "num-node-list", "num-edge-list"] {
        let folder = Folder::legal();
        folder.remove(&format!("raw/{name}.csv"));
        let why = format!("it contains neither {name}.csv.gz nor {name}.csv");
        assert!(folder.why().contains(&why), "{}", folder.why());
    }
    for (name, why) in [("raw/num-node-dict.csv.gz", "heterogeneous"), ("raw/data.npz", "binary layout")] {
        let folder = Folder::legal();
        folder.remove("raw/edge.csv").put(name, "");
        assert!(folder.why().contains(why), "{}", folder.why());
    }
}

#[test]
fn a_dataset_is_found_by_name_as_ogb_and_pyg_lay_folders() {
    for (at, name) in [
        ("four", "four"),
        ("dataset/four", "four"),
        ("ogbn_four", "ogbn-four"),
        ("dataset/ogbn-four/ogbn_four", "ogbn-four"),
        ("dataset/ogbn_four", "ogbn-four"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::legal();
        let target = root.path().join(at);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::rename(folder.path(), &target).unwrap();
        let dataset = load(&DatasetSource::new(name, root.path())).unwrap();
        assert_eq!(dataset.name, name);
        check_four(&dataset);
        let mut explicit = DatasetSource::new("fake", "/nowhere");
        explicit.folder = Some(target);
        explicit.to_undirected = true;
        let undirected = load(&explicit).unwrap();
        assert_eq!(undirected.edges(EdgeTypeId(0)).dst[..], [1, 0, 2, 1, 3]);
    }
}

#[test]
fn what_was_looked_for_is_listed() {
    let root = tempfile::tempdir().unwrap();
    let error = load(&DatasetSource::new("ogbn-none", root.path())).unwrap_err().to_string();
    let places = ["ogbn-none", "ogbn_none", "dataset/ogbn-none", "dataset/ogbn-none/ogbn_none"];
    for place in places.map(|place| root.path().join(place)) {
        assert!(error.contains(&place.display().to_string()), "{error}");
    }
    assert!(error.starts_with("dataset ogbn-none: no dataset found: there is none of these folders: "), "{error}");
    let mut source = DatasetSource::new("x", "/nowhere");
    source.folder = Some(PathBuf::from("/nowhere/else"));
    assert!(load(&source).unwrap_err().to_string().ends_with("folders: /nowhere/else"));
    // The folder exists, and what it has tells what is missing.
    let folder = root.path().join("some");
    fs::create_dir(&folder).unwrap();
    source.folder = Some(folder.clone());
    let why = || load(&source).unwrap_err().to_string();
    assert!(why().contains("some is not a dataset; it has neither edge_index.npy"), "{}", why());
    for (name, expected) in [
        ("x.npy", "holds x.npy, but not edge_index.npy"),
        ("data.pt", "torch.load(\"data.pt\", weights_only=False)"),
        ("data.npz", "np.load(\"data.npz\")"),
    ] {
        fs::write(folder.join(name), "").unwrap();
        assert!(why().contains(expected), "{}", why());
    }
}

/// Writes a valid graph to the folder `name` in `root`.
fn place(root: &Path, name: &str) -> PathBuf {
    let target = root.join(name);
    fs::rename(Folder::legal().path(), &target).unwrap();
    target
}

#[test]
fn inverse_edges_are_added_where_ogb_adds_them() {
    let root = tempfile::tempdir().unwrap();
    let edges = |name: &str| {
        let dataset = load(&DatasetSource::new(name, root.path())).unwrap();
        dataset.validate().unwrap();
        let edges = dataset.edges(EdgeTypeId(0));
        (edges.src.to_vec(), edges.dst.to_vec(), edges.attributes.features.as_ref().map(|features| features.num_rows()))
    };
    let products = place(root.path(), "ogbn_products");
    fs::write(products.join("raw/edge-feat.csv"), "1\n2\n3\n4\n5\n").unwrap();
    // Each edge is followed by its inverse, also where that exists, with the same features.
    let src = vec![0, 1, 1, 0, 1, 2, 3, 3, 1, 2];
    let dst = vec![1, 0, 0, 1, 2, 1, 3, 3, 2, 1];
    assert_eq!(edges("ogbn-products"), (src.clone(), dst.clone(), Some(10)));
    let one_way = (vec![0, 1, 1, 3, 1], vec![1, 0, 2, 3, 2], None);
    place(root.path(), "ogbn_arxiv");
    assert_eq!(edges("ogbn-arxiv"), one_way);
    // A file in the folder, or beside it, describes other datasets.
    let own = place(root.path(), "own");
    let master = |value: &str| format!(",other,own\ntask type,x,y\nadd_inverse_edge,False,{value}\n");
    assert_eq!(edges("own"), one_way);
    fs::write(root.path().join("master.csv"), master("True")).unwrap();
    assert_eq!(edges("own"), (src, dst, None));
    assert_eq!(edges("ogbn-arxiv"), one_way);
    fs::write(own.join("master.csv"), master("yes")).unwrap();
    let error = load(&DatasetSource::new("own", root.path())).unwrap_err().to_string();
    assert!(error.contains("master.csv: add_inverse_edge of own is \"yes\", expected True or False"), "{error}");
}

#[test]
fn task_and_metric_of_ogb_are_respected() {
    let root = tempfile::tempdir().unwrap();
    let folder = place(root.path(), "own");
    let read = |name: &str, text: &str| {
        fs::write(folder.join("master.csv"), text).unwrap();
        load_with_warnings(&DatasetSource::new(name, root.path()))
    };
    let notes = |metric: &str| {
        let loaded = read("own", &format!(",own\nnum tasks,1\neval metric,{metric}\n")).unwrap();
        loaded.warnings.into_iter().filter(|warning| warning.contains("OGB")).collect::<Vec<_>>()
    };
    assert_eq!(notes("acc"), Vec::<String>::new());
    assert!(notes("rocauc")[0].contains("own by the area under the ROC curve: train with --metric roc-auc"));
    assert!(notes("ap")[0].contains("own by another metric than the accuracy"));
    assert_has(read("own", ",own\nnum tasks,2\n").unwrap_err().to_string(), &["has 1 label per node", "has 2 tasks"]);
    fs::write(folder.join("raw/node-label.csv"), "0,1\n1,1\n0,0\n1,0\n").unwrap();
    for (text, expected) in [
        (",own\nnum tasks,112\n", "raw/node-label has 2 labels per node, but OGB's dataset has 112 tasks"),
        (",own\nnum tasks,many\n", "num tasks of own is \"many\", expected a number"),
    ] {
        assert_has(read("own", text).unwrap_err().to_string(), &[expected]);
    }
    let loaded = read("own", ",own\nnum tasks,2\n").unwrap();
    assert_eq!(loaded.dataset.nodes(NodeTypeId(0)).targets.as_ref().map(|targets| targets.dim), Some(2));
}

/// ogbn-proteins has 112 labels per node, features of edges, and no features of nodes. Its edges are stored once.
#[test]
fn several_labels_per_node_are_read() {
    let root = tempfile::tempdir().unwrap();
    let raw = place(root.path(), "ogbn_proteins").join("raw");
    fs::remove_file(raw.join("node-feat.csv")).unwrap();
    fs::write(raw.join("node_species.csv"), "3702\n4932\n3702\n4932\n").unwrap();
    fs::write(raw.join("edge-feat.csv"), "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8\n".repeat(5)).unwrap();
    let mut lines: Vec<String> = ["0,1", "1,0", "0,1"].map(|pair| vec![pair; 56].join(",")).into();
    // One label of the last node is known.
    lines.push(format!("{}1,nan", ",".repeat(110)));
    fs::write(raw.join("node-label.csv"), lines.join("\n")).unwrap();
    let source = DatasetSource::new("ogbn-proteins", root.path());
    let dataset = load(&source).unwrap();
    dataset.validate().unwrap();
    let nodes = dataset.nodes(NodeTypeId(0));
    let targets = nodes.targets.as_ref().unwrap();
    assert_eq!((targets.dim, targets.kind, nodes.num_classes), (112, TargetKind::MultiLabel, 0));
    assert!(nodes.labels.is_none() && nodes.features.is_none());
    assert_eq!(&targets.row(1)[..3], &[1.0, 0.0, 1.0]);
    let known: Vec<usize> = (0..112).filter(|&task| !targets.row(3)[task].is_nan()).collect();
    assert_eq!((known, targets.row(3)[110]), (vec![110], 1.0));
    assert_eq!(&nodes.splits.train[..], &[0, 3]);
    let edges = dataset.edges(EdgeTypeId(0));
    let features = edges.attributes.features.as_ref().unwrap();
    assert_eq!((edges.src.len(), features.num_rows(), features.dim()), (10, 10, 8));
    lines[2] += ",1";
    fs::write(raw.join("node-label.csv"), lines.join("\n")).unwrap();
    let error = load(&source).unwrap_err().to_string();
    assert_has(error, &["node-label.csv: line 3: 113 values, but the first line has 112"]);
}

#[test]
fn edges_in_one_direction_are_pointed_out() {
    let warnings = |edges: &str, change: fn(&mut DatasetSource)| {
        let folder = Folder::legal();
        folder.put("raw/edge.csv", edges).put("raw/num-edge-list.csv", format!("{}\n", edges.lines().count()));
        let mut source = DatasetSource::of_folder(folder.path());
        change(&mut source);
        load_with_warnings(&source).unwrap().warnings
    };
    let said = warnings("0,1\n1,2\n3,3\n", |_| {});
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("0 of 2 sampled edges have their reverses") && said[0].contains("`to_undirected`"));
    assert!(warnings("0,1\n1,2\n3,3\n", |source| source.to_undirected = true).is_empty());
    assert!(warnings("0,1\n1,2\n3,3\n", |source| source.add_reverse_edges = true).is_empty());
    // One edge with its reverse is enough, and loops have none.
    assert!(warnings("0,1\n1,2\n1,0\n", |_| {}).is_empty());
    assert!(warnings("3,3\n", |_| {}).is_empty());
}
