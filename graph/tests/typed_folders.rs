//! Tests of heterogeneous graphs from files: OGB's raw CSV layout, folders of `.npy` arrays, and all kinds of errors.

use edgecut_graph::readers::{DatasetSource, load, read_npy_types, read_ogb_hetero};
use edgecut_graph::{Dataset, GraphError, Split, write_npy};
use edgecut_testing::assert_has;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A folder with a valid graph of authors that write papers and papers that cite papers. Tests change single files of
/// it.
fn ogb_folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("raw/num-node-dict.csv", "author,paper\n2,3\n"),
        ("raw/triplet-type-list.csv", "author,writes,paper\npaper,cites,paper\n"),
        ("raw/relations/author___writes___paper/edge.csv", "0,2\n1,0\n1,2\n"),
        ("raw/relations/author___writes___paper/num-edge-list.csv", "3\n"),
        ("raw/relations/paper___cites___paper/edge.csv", "2,0\n"),
        ("raw/relations/paper___cites___paper/num-edge-list.csv", "1\n"),
        ("raw/node-feat/paper/node-feat.csv", "1,0.5\n0,0\n-2,1e2\n"),
        ("raw/node-label/author/node-label.csv", "1\n0\n"),
        ("split/time/author/train.csv", "1\n"),
        ("split/time/author/valid.csv", ""),
        ("split/time/author/test.csv", "0\n"),
    ] {
        put(dir.path(), name, text);
    }
    dir
}

fn put(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(dir: &TempDir) -> Result<Dataset, GraphError> {
    read_ogb_hetero("mag", dir.path(), None)
}

/// Returns the edge types as (source type, relation, destination type, edges).
fn edge_lists(dataset: &Dataset) -> Vec<(String, Vec<(u32, u32)>)> {
    let name = |t: edgecut_graph::NodeTypeId| dataset.nodes(t).name.clone();
    let list = |e: &edgecut_graph::EdgeData| {
        let triple = format!("{},{},{}", name(e.src_type), e.relation, name(e.dst_type));
        (triple, e.src.iter().copied().zip(e.dst.iter().copied()).collect())
    };
    dataset.edge_types.iter().map(list).collect()
}

#[test]
fn ogb_types_come_with_their_features_labels_splits_and_edges() {
    let dataset = read(&ogb_folder()).unwrap();
    dataset.validate().unwrap();
    let [author, paper] = &dataset.node_types[..] else { panic!("{dataset:?}") };
    assert_eq!((author.name.as_str(), author.num_nodes, author.num_classes), ("author", 2, 2));
    assert!(author.features.is_none() && paper.labels.is_none());
    assert_eq!(
        paper.features.as_ref().unwrap().row_bytes(2),
        [(-2.0_f32).to_le_bytes(), 100.0_f32.to_le_bytes()].concat()
    );
    assert_eq!(Split::ALL.map(|split| author.splits.get(split).to_vec()), [vec![1], vec![], vec![0]]);
    assert!(Split::ALL.iter().all(|&split| paper.splits.get(split).is_empty()));
    let expected = [
        ("author,writes,paper".to_owned(), vec![(0, 2), (1, 0), (1, 2)]),
        ("paper,cites,paper".to_owned(), vec![(2, 0)]),
    ];
    assert_eq!(edge_lists(&dataset), expected);
}

#[test]
fn ogb_edges_come_with_features_and_nodes_with_years() {
    let dir = ogb_folder();
    put(dir.path(), "raw/relations/author___writes___paper/edge-feat.csv", "1,2\n3,4\n5,6\n");
    put(dir.path(), "raw/node-feat/paper/node_year.csv", "2010\n2011\n2012\n");
    let dataset = read(&dir).unwrap();
    dataset.validate().unwrap();
    let features = dataset.edge_types[0].attributes.features.as_ref().unwrap();
    assert_eq!(features.row_bytes(2), [5.0_f32.to_le_bytes(), 6.0_f32.to_le_bytes()].concat());
    assert!(dataset.edge_types[1].attributes.is_empty() && dataset.node_types[0].times.is_none());
    assert_eq!(dataset.node_types[1].times.as_ref().unwrap()[..], [2010, 2011, 2012]);
}

#[test]
fn reverse_edges_are_types_of_their_own_and_are_added_once() {
    let dir = ogb_folder();
    let mut source = DatasetSource::new("mag", dir.path().parent().unwrap());
    source.folder = Some(dir.path().into());
    source.add_reverse_edges = true;
    let mut dataset = load(&source).unwrap();
    dataset.validate().unwrap();
    let reversed = [
        ("paper,rev_writes,author".to_owned(), vec![(2, 0), (0, 1), (2, 1)]),
        ("paper,rev_cites,paper".to_owned(), vec![(0, 2)]),
    ];
    let before = edge_lists(&dataset);
    assert_eq!(before[2..], reversed);
    dataset.add_reverse_edges();
    assert_eq!(edge_lists(&dataset), before);
}

/// Files, their wrong contents, and the errors. Paper 2 exists, but author 2 does not.
const OF_OGB: &str = r#"
raw/num-node-dict.csv | author,paper\n2\n | it names 2 types, but counts 1
raw/num-node-dict.csv | author,author\n2,3\n | node type author is listed twice
raw/num-node-dict.csv | author,paper\n2,many\n | "many" is not the number of nodes of type paper
raw/num-node-dict.csv | author,paper\n0,3\n | type author has no nodes
raw/triplet-type-list.csv | author,writes,book\n | line 1: there is no node type book
raw/triplet-type-list.csv | author,writes\n | line 1: 2 fields
master.csv | ,mag\nadd_inverse_edge,True\n | add_inverse_edge of mag in master.csv is True
master.csv | ,mag\nnum tasks,2\n | has 1 label per node, but OGB's dataset has 2 tasks
raw/triplet-type-list.csv | paper,cites,paper\npaper,cites,paper\n | line 2: edge type paper,cites,paper is listed twice
raw/triplet-type-list.csv | paper,likes,paper\n | paper___likes___paper
raw/relations/author___writes___paper/edge.csv | 0,2\n2,0\n1,2\n | source node 2 is out of range: there are 2 nodes of type author
raw/relations/author___writes___paper/edge.csv | 0,2\n1,3\n1,2\n | destination node 3 is out of range
raw/relations/author___writes___paper/num-edge-list.csv | 4\n | it has 3 edges, but
raw/node-feat/paper/node-feat.csv | 1,2\n3,4\n | it has 2 rows, but there are 3 nodes of type paper
split/time/author/train.csv | 2\n | node 2 is out of range: there are 2 nodes of type author
raw/node-label/author/node-label.csv | 1\n0\n1\n | it has 3 rows, but there are 2 nodes of type author
raw/node-feat/paper/node_year.csv | 1999\n | node_year.csv: it has 1 row, but there are 3 nodes of type paper
raw/node-feat/paper/node_year.csv | 1\nlate\n3\n | node_year.csv: line 2: "late" is not a time
raw/relations/paper___cites___paper/edge-feat.csv | 1\n2\n | edge-feat.csv: it has 2 rows, but there is 1 edge
"#;

#[test]
fn what_is_wrong_with_ogb_files_is_named() {
    for case in OF_OGB.trim().lines() {
        let [name, text, expected] = case.splitn(3, " | ").collect::<Vec<_>>()[..] else { panic!("{case}") };
        let dir = ogb_folder();
        put(dir.path(), name, &text.replace("\\n", "\n"));
        let error = read(&dir).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
    let dir = ogb_folder();
    fs::remove_file(dir.path().join("split/time/author/valid.csv")).unwrap();
    assert!(read(&dir).unwrap_err().to_string().contains("valid.csv"));
}

fn npy_folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["nodes/author", "nodes/paper", "edges/author__writes__paper", "edges/paper__cites__paper"] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    write_npy(&dir.path().join("nodes/author/y.npy"), &[2], &[1_i64, 0]).unwrap();
    write_npy(&dir.path().join("nodes/author/train_idx.npy"), &[1], &[1_i64]).unwrap();
    write_npy(&dir.path().join("nodes/paper/num_nodes.npy"), &[], &[3_i64]).unwrap();
    write_npy(&dir.path().join("edges/author__writes__paper/edge_index.npy"), &[2, 3], &[0_i64, 1, 1, 2, 0, 2])
        .unwrap();
    write_npy(&dir.path().join("edges/paper__cites__paper/edge_index.npy"), &[2, 1], &[2_i64, 0]).unwrap();
    dir
}

#[test]
fn a_folder_per_type_is_a_heterogeneous_graph() {
    let dir = npy_folder();
    let mut source = DatasetSource::new("mine", dir.path().parent().unwrap());
    source.folder = Some(dir.path().into());
    let dataset = load(&source).unwrap();
    dataset.validate().unwrap();
    assert_eq!(edge_lists(&dataset), edge_lists(&read(&ogb_folder()).unwrap()));
    assert_eq!((dataset.node_types[0].num_classes, dataset.node_types[1].num_nodes), (2, 3));
    assert_eq!(dataset.node_types[0].splits.get(Split::Train)[..], [1]);
}

#[test]
fn a_folder_per_type_may_have_weights_times_and_held_out_edges() {
    let dir = npy_folder();
    write_npy(&dir.path().join("nodes/author/node_time.npy"), &[2], &[7_i64, 8]).unwrap();
    write_npy(&dir.path().join("edges/author__writes__paper/edge_weight.npy"), &[3], &[1.0_f32, 2.0, 3.0]).unwrap();
    write_npy(&dir.path().join("edges/author__writes__paper/edge_attr.npy"), &[3, 1], &[1.0_f32, 2.0, 3.0]).unwrap();
    write_npy(&dir.path().join("edges/author__writes__paper/edge_time.npy"), &[3], &[1_i64, 2, 3]).unwrap();
    write_npy(&dir.path().join("edges/author__writes__paper/valid_edge_index.npy"), &[2, 1], &[0_i64, 0]).unwrap();
    let dataset = read_npy_types("mine", dir.path()).unwrap();
    dataset.validate().unwrap();
    let writes = &dataset.edge_types[0];
    assert_eq!(writes.attributes.weights.as_ref().unwrap()[..], [1.0, 2.0, 3.0]);
    assert_eq!(writes.attributes.times.as_ref().unwrap()[..], [1, 2, 3]);
    assert_eq!((writes.attributes.features.as_ref().unwrap().dim(), writes.held_out.valid.len()), (1, 1));
    assert_eq!(dataset.node_types[0].times.as_ref().unwrap()[..], [7, 8]);
    assert!(dataset.edge_types[1].attributes.is_empty() && dataset.node_types[1].times.is_none());
}

#[test]
fn what_is_wrong_with_folders_of_types_is_named() {
    let error = |change: &dyn Fn(&Path)| {
        let dir = npy_folder();
        change(dir.path());
        read_npy_types("mine", dir.path()).unwrap_err().to_string()
    };
    let rename =
        |from: &'static str, to: &'static str| move |dir: &Path| fs::rename(dir.join(from), dir.join(to)).unwrap();
    assert_has(error(&rename("edges/paper__cites__paper", "edges/cites")), &["edges/cites", "author__writes__paper"]);
    assert_has(error(&rename("nodes/author", "nodes/writer")), &["there is no node type author"]);
    let said = error(&|dir| fs::remove_file(dir.join("nodes/paper/num_nodes.npy")).unwrap());
    assert!(said.contains("nodes/paper") && said.contains("num_nodes.npy"), "{said}");
    let said = error(&|dir| {
        write_npy(&dir.join("edges/author__writes__paper/edge_index.npy"), &[2, 1], &[2_i64, 2]).unwrap();
    });
    assert!(said.contains("the source of edge 0 is node 2") && said.contains("2 nodes of type author"), "{said}");
    let said = error(&|dir| write_npy(&dir.join("nodes/author/node_time.npy"), &[3], &[0_i64; 3]).unwrap());
    assert!(said.contains("node_time.npy: it has 3 rows, but there are 2 nodes of type author"), "{said}");
    let said = error(&|dir| write_npy(&dir.join("nodes/author/train_idx.npy"), &[1], &[2_i64]).unwrap());
    assert!(said.contains("entry 0 is node 2, which is out of range: there are 2 nodes of type author"), "{said}");
    let said = error(&|dir| write_npy(&dir.join("nodes/paper/num_nodes.npy"), &[], &[0_i64]).unwrap());
    assert!(said.contains("num_nodes.npy: type paper has no nodes"), "{said}");
    let said = error(&|dir| {
        write_npy(&dir.join("edges/author__writes__paper/test_edge_index.npy"), &[2, 1], &[0_i64, 3]).unwrap();
    });
    assert!(said.contains("the destination of edge 0 is node 3") && said.contains("3 nodes of type paper"), "{said}");
    let said = error(&|dir| {
        write_npy(&dir.join("edges/author__writes__paper/edge_index.npy"), &[2, 1], &[1_i64, 3]).unwrap();
    });
    assert!(said.contains("the destination of edge 0 is node 3"), "{said}");
}
