//! Tests of sets of graphs in TUDataset's format: valid variations, all kinds of errors, and published sets.

use edgecut_graph::small_graphs::{FakeGraphsOptions, GraphSource, fake_graphs, load_graphs, read_folds, read_tu};
use edgecut_graph::{GraphDataset, GraphError, TargetKind};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A folder with three graphs: a triangle with a tail, an empty graph, and a pair. Tests change single files of it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.put("A", "1, 2\n2, 1\n2, 3\n3, 2\n1,3\n3,1\n3, 4\n4, 3\n\n6, 5\r\n5, 6\n");
        folder.put("graph_indicator", "1\n1\n1\n1\n3\n3\n").put("graph_labels", "1\n-1\n1\n");
        folder
    }

    fn put(&self, what: &str, text: &str) -> &Self {
        fs::write(self.0.path().join(format!("SMALL_{what}.txt")), text).unwrap();
        self
    }

    fn remove(&self, what: &str) -> &Self {
        fs::remove_file(self.0.path().join(format!("SMALL_{what}.txt"))).unwrap();
        self
    }

    fn read(&self) -> Result<GraphDataset, GraphError> {
        read_tu("small", self.0.path())
    }

    fn why(&self) -> String {
        self.read().unwrap_err().to_string()
    }
}

fn features(graphs: &GraphDataset, graph: usize) -> Vec<f32> {
    let mut rows = Vec::new();
    graphs.append_features(graph, &mut rows);
    rows
}

/// Returns the labels of a graph's edges.
fn edge_labels(graphs: &GraphDataset, graph: usize) -> Vec<usize> {
    let mut rows = Vec::new();
    graphs.append_edge_features(graph, &mut rows);
    let label = |row: &[f32]| row.iter().position(|&value| value == 1.0).expect("a label");
    rows.chunks(graphs.edge_dim()).map(label).collect()
}

#[test]
fn graphs_are_read_with_an_empty_one_among_them() {
    let folder = Folder::new();
    let graphs = folder.read().unwrap();
    assert_eq!((graphs.num_graphs(), graphs.num_nodes(), graphs.num_edges()), (3, 6, 10));
    assert_eq!((graphs.labels(), graphs.classes()), (&[1, 0, 1][..], &[-1, 1][..]));
    assert_eq!([0, 1, 2].map(|graph| graphs.num_nodes_of(graph)), [4, 0, 2]);
    let first = graphs.graph(0);
    assert_eq!([0, 1, 2, 3].map(|node| first.neighbors(node)), [&[1, 2][..], &[0, 2], &[1, 0, 3], &[2]]);
    assert_eq!((graphs.graph(2).neighbors(0), graphs.feature_dim()), (&[1][..], 0));
}

#[test]
fn labels_and_attributes_of_nodes_and_labels_of_edges_come_with_them() {
    let folder = Folder::new();
    folder.put("node_attributes", "0.5, 1\n1.5, 0\n0,0\n0,0\n0,0\n7,-8\n");
    folder.put("node_labels", "5, 0\n9, 1\n5, 0\n5, 1\n9, 1\n5, 0\n");
    folder.put("edge_labels", "2\n2\n0\n0\n2\n2\n2\n2\n1\n0\n");
    let graphs = folder.read().unwrap();
    assert_eq!(graphs.feature_dim(), 6);
    assert_eq!(features(&graphs, 2), [0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 7.0, -8.0, 1.0, 0.0, 1.0, 0.0]);
    // The third node has in-edges from the second, the first and the fourth.
    assert_eq!(edge_labels(&graphs, 0)[4..7], [0, 2, 2]);
    assert_eq!(edge_labels(&graphs, 2), [1, 0]);
}

#[test]
fn graphs_without_labels_may_have_numbers_to_predict() {
    let folder = Folder::new();
    folder.put("graph_attributes", "0.5, 1\n-1.5, 0\n0,3\n");
    // Labels come first.
    assert!(folder.read().unwrap().targets().is_none());
    folder.remove("graph_labels");
    let graphs = folder.read().unwrap();
    let targets = graphs.targets().unwrap();
    assert_eq!((targets.dim, targets.kind, targets.row(1)), (2, TargetKind::Regression, &[-1.5, 0.0][..]));
    assert_eq!((graphs.labels(), graphs.classes()), (&[0, 0, 0][..], &[][..]));
    let dir = tempfile::tempdir().unwrap();
    graphs.write(dir.path()).unwrap();
    let mapped = GraphDataset::open(dir.path()).unwrap();
    assert_eq!(mapped.targets().unwrap().values[..], targets.values[..]);
    assert_eq!(mapped.fingerprint(), graphs.fingerprint());
    folder.put("graph_attributes", "0, 1\n1, 0\n0,1\n");
    let labels = folder.read().unwrap();
    assert_eq!(labels.targets().unwrap().kind, TargetKind::MultiLabel);
    assert_ne!(labels.fingerprint(), graphs.fingerprint());
    folder.put("graph_attributes", "0, 1\n1, 0\n");
    assert!(folder.why().contains("graph_attributes.txt: rows of numbers of graph 3 are missing"), "{}", folder.why());
    folder.put("graph_attributes", "0\nnan\n1\n");
    assert!(folder.why().contains("line 2"), "{}", folder.why());
}

#[test]
fn what_is_written_is_mapped_back_after_its_files_are_gone() {
    let folder = Folder::new();
    folder.put("node_attributes", "0.5\n1.5\n0\n0\n0\n7\n").put("edge_labels", &"3\n".repeat(10));
    let graphs = folder.read().unwrap().with_degrees_as_labels();
    let dir = tempfile::tempdir().unwrap();
    graphs.write(dir.path()).unwrap();
    let mapped = GraphDataset::open(dir.path()).unwrap();
    drop(dir);
    assert_eq!((mapped.name(), mapped.labels(), mapped.classes()), (graphs.name(), graphs.labels(), graphs.classes()));
    for graph in 0..3 {
        assert_eq!(features(&mapped, graph), features(&graphs, graph));
        assert_eq!(mapped.graph(graph).indices, graphs.graph(graph).indices);
        assert_eq!(edge_labels(&mapped, graph), edge_labels(&graphs, graph));
    }
}

#[test]
fn damaged_files_are_named() {
    let graphs = Folder::new().read().unwrap();
    let dir = tempfile::tempdir().unwrap();
    graphs.write(dir.path()).unwrap();
    let why = || GraphDataset::open(dir.path()).unwrap_err().to_string();
    let indices = dir.path().join("indices.npy");
    let bytes = fs::read(&indices).unwrap();
    fs::write(&indices, &bytes[..bytes.len() - 1]).unwrap();
    assert!(why().contains("indices.npy: its header promises 40 bytes of data, but it holds 39"), "{}", why());
    let mut changed = bytes.clone();
    *changed.last_mut().unwrap() = 1;
    fs::write(&indices, changed).unwrap();
    assert!(why().contains("graph 2 has an edge from a node outside the graph"), "{}", why());
    let meta = fs::read_to_string(dir.path().join("GRAPHS.json")).unwrap();
    fs::write(dir.path().join("GRAPHS.json"), meta.replace("\"version\": 3", "\"version\": 4")).unwrap();
    assert!(why().contains("its format is edgecut-graphs 4, expected edgecut-graphs 3"), "{}", why());
    fs::remove_file(dir.path().join("GRAPHS.json")).unwrap();
    assert!(why().contains("GRAPHS.json: No such file"), "{}", why());
}

#[test]
fn bad_lines_are_named() {
    for (what, text, expected) in [
        ("graph_indicator", "1\n1\n3\n1\n3\n3\n", "line 4: graph 1 comes after graph 3: the indicator must ascend"),
        ("graph_indicator", "0\n1\n1\n1\n3\n3\n", "line 1: graph 0: graphs are counted from 1"),
        (
            "graph_indicator",
            "1\n1\n1\n1\n3\n999999999\n",
            "line 6: graph 999999999 is out of range for a set of 6 nodes",
        ),
        ("graph_indicator", "1\none\n", "line 2: \"one\" is not the number of a graph"),
        ("graph_indicator", "", "it lists no node"),
        ("graph_indicator", "1\n1\n1\n2\n3\n3\n", "A.txt: line 7: an edge from node 3 of graph 1 to node 4 of graph 2"),
        ("A", "1, 2\n2, 7\n", "A.txt: line 2: node 7 is out of range: the indicator has 6 nodes, counted from 1"),
        ("A", "1, 2\n0, 1\n", "line 2: node 0 is out of range"),
        ("A", "1, 2\n1 2\n", "line 2: \"1 2\" is not an edge"),
        ("A", "1\n", "line 1: \"1\" is not an edge"),
        ("graph_labels", "1\n-1\n", "graph_labels.txt: labels of graph 3 are missing: the indicator has 3"),
        ("graph_labels", "1\n-1\n1\n1\n", "graph_labels.txt: 4 labels, but the indicator has 3 graphs"),
        ("graph_labels", "1\nx\n1\n", "line 2: \"x\" is not a label"),
        ("graph_labels", "1,2\n1,2\n1,2\n", "2 labels per line, expected one"),
        ("node_labels", "1\n1\n", "node_labels.txt: labels of node 3 are missing: the indicator has 6"),
        ("node_labels", "1\n1\n1,2\n1\n1\n1\n", "line 3: 2 labels, but the first line has 1"),
        ("node_attributes", "1\nnan\n1\n1\n1\n1\n", "line 2: column 1: \"nan\" is not a finite"),
        ("node_attributes", "1\n1\n", "node_attributes.txt: attributes of node 3 are missing"),
        ("edge_labels", "1\n", "edge_labels.txt: labels of edge 2 are missing: the file of edges has 10"),
    ] {
        let folder = Folder::new();
        folder.put(what, text);
        assert!(folder.why().contains(expected), "{}, expected {expected}", folder.why());
    }
}

#[test]
fn missing_and_ambiguous_files_are_named() {
    let folder = Folder::new();
    fs::remove_file(folder.0.path().join("SMALL_graph_labels.txt")).unwrap();
    assert!(folder.why().contains("SMALL_graph_labels.txt is missing"));
    fs::write(folder.0.path().join("OTHER_A.txt"), "").unwrap();
    assert!(folder.why().contains("it contains two sets of graphs"));
    let empty = tempfile::tempdir().unwrap();
    assert!(read_tu("none", empty.path()).unwrap_err().to_string().contains("no file ends with _A.txt"));
    let why = load_graphs(&GraphSource::new("none", empty.path())).unwrap_err().to_string();
    assert!(why.contains("dataset none: no file none_A.txt (TU format) found; looked in: "), "{why}");
}

#[test]
fn sets_are_found_by_name_in_any_of_the_usual_places() {
    let folder = Folder::new();
    let root = tempfile::tempdir().unwrap();
    let raw = root.path().join("any/raw");
    fs::create_dir_all(&raw).unwrap();
    for entry in fs::read_dir(folder.0.path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, raw.join(path.file_name().unwrap())).unwrap();
    }
    assert_eq!(load_graphs(&GraphSource::new("any", root.path())).unwrap().num_graphs(), 3);
    assert_eq!(load_graphs(&GraphSource::new("SMALL", &raw)).unwrap().num_graphs(), 3);
    assert!(load_graphs(&GraphSource::new("other", &raw)).is_err(), "another set than was asked for");
}

#[test]
fn fake_graphs_are_the_same_on_any_number_of_threads_and_their_classes_differ_in_degrees() {
    let options = FakeGraphsOptions { num_graphs: 400, ..FakeGraphsOptions::default() };
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fake_graphs(&options)).unwrap()
    };
    let graphs = on(1);
    let others = on(3);
    let greatest = |graph: usize| {
        let view = graphs.graph(graph);
        assert_eq!(view.indices, others.graph(graph).indices);
        assert!((10..=30).contains(&view.num_nodes()) && view.indices.len() == 4 * view.num_nodes());
        (0..view.num_nodes()).map(|node| view.neighbors(node).len()).max().unwrap() as f64
    };
    let sums = (0..400).fold([0.0; 2], |mut sums, graph| {
        sums[graph % 2] += greatest(graph);
        sums
    });
    assert!(sums[1] > 1.4 * sums[0], "{sums:?}");
    for bad in [
        FakeGraphsOptions { num_classes: 0, ..options.clone() },
        FakeGraphsOptions { num_graphs: 1, ..options.clone() },
        FakeGraphsOptions { avg_num_nodes: 1, ..options.clone() },
        FakeGraphsOptions { avg_num_nodes: usize::MAX, ..options },
    ] {
        assert!(fake_graphs(&bad).is_err(), "{bad:?}");
    }
}

/// Returns the folder that contains the published set `name`, or `None` if the test is skipped.
fn published(name: &str) -> Option<PathBuf> {
    edgecut_testing::dataset(&format!("tu/{name}"), "tu").and_then(|folder| folder.parent().map(PathBuf::from))
}

#[test]
fn published_sets_have_their_published_sizes() {
    if let Some(root) = published("MUTAG") {
        let graphs = load_graphs(&GraphSource::new("MUTAG", root)).unwrap();
        assert_eq!((graphs.num_graphs(), graphs.num_nodes(), graphs.num_edges()), (188, 3371, 7442));
        assert_eq!((graphs.feature_dim(), graphs.classes()), (7, &[-1, 1][..]));
        assert_eq!(graphs.labels().iter().filter(|&&class| class == 1).count(), 125);
        assert_eq!((0..188).flat_map(|graph| edge_labels(&graphs, graph)).max(), Some(3));
    }
    if let Some(root) = published("IMDB-BINARY") {
        let graphs = load_graphs(&GraphSource::new("IMDB-BINARY", &root)).unwrap();
        assert_eq!((graphs.num_graphs(), graphs.num_nodes(), graphs.num_edges()), (1000, 19773, 193_062));
        assert_eq!(graphs.labels().iter().filter(|&&class| class == 1).count(), 500);
        let folds = read_folds(&root.join("IMDB-BINARY/10fold"), 1000).unwrap();
        assert_eq!(folds.len(), 10);
        let mut tested: Vec<u32> = folds.iter().flat_map(|fold| fold.test.clone()).collect();
        tested.sort_unstable();
        assert_eq!(tested, (0..1000).collect::<Vec<_>>());
    }
}
