//! Graphs in DGL's chunked format, in OGB's binary layout and in MAG240M's layout.

use edgecut_graph::readers::{DatasetSource, load, load_with_warnings, read_dgl_chunks};
use edgecut_graph::{Dataset, FeatureDtype, npy_header, write_npy};
use edgecut_testing::assert_has;
use std::io::Write;
use std::path::Path;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

fn write(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn array<T: edgecut_graph::NpyElement>(path: &Path, shape: &[usize], values: &[T]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_npy(path, shape, values).unwrap();
}

fn loaded(folder: &Path) -> Dataset {
    load(&DatasetSource::of_folder(folder)).unwrap()
}

const METADATA: &str = r#"{"graph_name": "papers", "node_type": ["paper", "author"],
    "num_nodes_per_chunk": [[2, 3], [1, 2]], "edge_type": ["author:writes:paper", "paper:cites:paper"],
    "num_edges_per_chunk": [[2, 1], [2]],
    "edges": {"author:writes:paper": {"format": {"name": "csv", "delimiter": " "}, "data": ["edges/w0.csv", "edges/w1.csv"]},
              "paper:cites:paper": {"format": {"name": "numpy"}, "data": ["edges/c.npy"]}},
    "node_data": {"paper": {"feat": {"format": {"name": "numpy"}, "data": ["f0.npy", "f1.npy"]},
                            "label": {"format": {"name": "numpy"}, "data": ["l0.npy", "l1.npy"]},
                            "color": {"format": {"name": "numpy"}, "data": ["l0.npy", "l1.npy"]},
                            "train_mask": {"format": {"name": "numpy"}, "data": ["m0.npy", "m1.npy"]}}},
    "edge_data": {"author:writes:paper": {"time": {"format": {"name": "numpy"}, "data": ["t.npy"]}}}}"#;

fn write_chunks(dir: &Path) {
    write(&dir.join("metadata.json"), METADATA);
    write(&dir.join("edges/w0.csv"), "0 4\n2 1\n");
    write(&dir.join("edges/w1.csv"), "1 0\n");
    array(&dir.join("edges/c.npy"), &[2, 2], &[3_i64, 0, 4, 2]);
    array(&dir.join("f0.npy"), &[2, 2], &[0.0_f32, 1.0, 2.0, 3.0]);
    array(&dir.join("f1.npy"), &[3, 2], &[4.0_f32, 5.0, 6.0, 7.0, 8.0, 9.0]);
    array(&dir.join("l0.npy"), &[2], &[1_i64, 0]);
    array(&dir.join("l1.npy"), &[3], &[-1_i64, 2, 1]);
    array(&dir.join("m0.npy"), &[2], &[1_u8, 0]);
    array(&dir.join("m1.npy"), &[3], &[0_u8, 1, 0]);
    array(&dir.join("t.npy"), &[3], &[7_i64, 8, 9]);
}

#[test]
fn chunks_of_dgl_are_joined() {
    let dir = tempfile::tempdir().unwrap();
    write_chunks(dir.path());
    let read = load_with_warnings(&DatasetSource::of_folder(dir.path())).unwrap();
    assert!(
        read.warnings.iter().any(|text| text.contains("node_data \"color\" of paper is not read")),
        "{:?}",
        read.warnings
    );
    let [paper, author] = &read.dataset.node_types[..] else { panic!("two node types") };
    assert_eq!((paper.num_nodes, author.num_nodes, paper.num_classes), (5, 3, 3));
    assert_eq!(paper.labels.as_ref().unwrap()[..], [1, 0, -1, 2, 1]);
    assert_eq!(paper.splits.train[..], [0, 3]);
    let mut row = [0.0; 2];
    paper.features.as_ref().unwrap().copy_row(3, &mut row);
    assert_eq!(row, [6.0, 7.0]);
    let [writes, cites] = &read.dataset.edge_types[..] else { panic!("two edge types") };
    assert_eq!((&writes.src[..], &writes.dst[..]), (&[0, 2, 1][..], &[4, 1, 0][..]));
    assert_eq!(writes.attributes.times.as_ref().unwrap()[..], [7, 8, 9]);
    assert_eq!((&cites.src[..], &cites.dst[..]), (&[3, 4][..], &[0, 2][..]));
}

#[test]
fn damaged_chunks_are_refused() {
    for (file, content, why) in [
        ("edges/w1.csv", "1 5\n", "edges/w1.csv: line 1: node 5 is out of range: there are 5 nodes of type paper"),
        ("edges/w1.csv", "1,0\n", "edges/w1.csv: line 1: \"1,0\" is not a pair of ids with the delimiter \" \""),
        ("edges/w1.csv", "1 x\n", "edges/w1.csv: line 1: \"x\" is not an id"),
        ("edges/w1.csv", "", "author:writes:paper has 2 edges, but num_edges_per_chunk says 3"),
        ("metadata.json", "{}", "metadata.json: missing field"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write_chunks(dir.path());
        write(&dir.path().join(file), content);
        assert_has(read_dgl_chunks("papers", dir.path()).unwrap_err().to_string(), &[why]);
    }
    let dir = tempfile::tempdir().unwrap();
    write_chunks(dir.path());
    array(&dir.path().join("f1.npy"), &[2, 2], &[4.0_f32; 4]);
    assert_has(
        read_dgl_chunks("papers", dir.path()).unwrap_err().to_string(),
        &["f0.npy: all files of this array have 4 rows, but there are 5 nodes of type paper"],
    );
    write_chunks(dir.path());
    write(&dir.path().join("metadata.json"), &METADATA.replacen("\"numpy\"", "\"parquet\"", 1));
    let error = read_dgl_chunks("papers", dir.path()).unwrap_err().to_string();
    assert!(error.contains("the format \"parquet\" of edges is not read"), "{error}");
    write_chunks(dir.path());
    array(&dir.path().join("m1.npy"), &[3, 2], &[0_u8, 1, 0, 0, 1, 0]);
    assert_has(read_dgl_chunks("papers", dir.path()).unwrap_err().to_string(), &["m1.npy: it holds 2 masks"]);
    write(&dir.path().join("metadata.json"), &METADATA.replacen("\"color\"", "\"labels\"", 1));
    let error = read_dgl_chunks("papers", dir.path()).unwrap_err().to_string();
    assert!(error.contains("paper has data \"label\" and \"labels\", which mean the same"), "{error}");
}

/// Writes a `.npz` file of `.npy` files, each as its name and content.
fn npz(path: &Path, arrays: &[(&str, Vec<u8>)]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, bytes) in arrays {
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        writer.start_file(format!("{name}.npy"), options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap();
}

fn npy<T: edgecut_graph::NpyElement>(shape: &[usize], values: &[T]) -> Vec<u8> {
    let mut bytes = npy_header::<T>(shape).unwrap();
    bytes.extend_from_slice(bytemuck::cast_slice(values));
    bytes
}

#[test]
fn the_binary_layout_of_ogb_is_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let mut none = b"\x93NUMPY\x01\x00\x76\x00{'descr': '|O', 'fortran_order': False, 'shape': (), }".to_vec();
    none.resize(128, b' ');
    let data = [
        ("edge_index", npy(&[2, 3], &[0_i64, 1, 3, 2, 0, 1])),
        ("node_feat", npy(&[4, 1], &[0.5_f32, 1.5, 2.5, 3.5])),
        ("edge_feat", none),
        ("node_year", npy(&[4, 1], &[2001_i64, 2002, 2003, 2004])),
        ("num_nodes_list", npy(&[1], &[4_i64])),
        ("num_edges_list", npy(&[1], &[3_i64])),
    ];
    npz(&dir.path().join("raw/data.npz"), &data);
    npz(&dir.path().join("raw/node-label.npz"), &[("node_label", npy(&[4, 1], &[1.0_f32, f32::NAN, 0.0, 1.0]))]);
    for (split, ids) in [("train", "0\n"), ("valid", "2\n"), ("test", "3\n")] {
        write(&dir.path().join(format!("split/time/{split}.csv")), ids);
    }
    let graph = loaded(dir.path());
    let nodes = &graph.node_types[0];
    assert_eq!((nodes.num_nodes, nodes.num_classes), (4, 2));
    assert_eq!(nodes.labels.as_ref().unwrap()[..], [1, -1, 0, 1]);
    assert_eq!(nodes.times.as_ref().unwrap()[..], [2001, 2002, 2003, 2004]);
    assert_eq!((&nodes.splits.train[..], &nodes.splits.test[..]), (&[0][..], &[3][..]));
    assert_eq!((&graph.edge_types[0].src[..], &graph.edge_types[0].dst[..]), (&[0, 1, 3][..], &[2, 0, 1][..]));
    let mut row = [0.0];
    nodes.features.as_ref().unwrap().copy_row(2, &mut row);
    assert_eq!(row, [2.5]);
    let bytes = std::fs::read(dir.path().join("raw/data.npz")).unwrap();
    std::fs::write(dir.path().join("raw/data.npz"), &bytes[..bytes.len() / 2]).unwrap();
    assert_has(load(&DatasetSource::of_folder(dir.path())).unwrap_err().to_string(), &["raw/data.npz: "]);
}

#[test]
fn arrays_of_mag240m_are_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("processed");
    array(&root.join("author___writes___paper/edge_index.npy"), &[2, 3], &[0_i64, 4, 1, 2, 1, 0]);
    array(&root.join("author___affiliated_with___institution/edge_index.npy"), &[2, 1], &[5_i64, 1]);
    array(&root.join("paper___cites___paper/edge_index.npy"), &[2, 2], &[0_i64, 1, 2, 2]);
    let halves = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5].map(half::f16::from_f32);
    array(&root.join("paper/node_feat.npy"), &[3, 2], &halves);
    array(&root.join("paper/node_label.npy"), &[3], &[0.0_f32, f32::NAN, 2.0]);
    array(&root.join("paper/node_year.npy"), &[3], &[2018_i64, 2019, 2020]);
    array(&root.join("paper/train_idx.npy"), &[1], &[2_i64]);
    let graph = loaded(dir.path());
    let found: Vec<(&str, usize)> = graph.node_types.iter().map(|t| (t.name.as_str(), t.num_nodes)).collect();
    assert_eq!(found, [("author", 6), ("institution", 2), ("paper", 3)]);
    let paper = &graph.node_types[2];
    assert_eq!(paper.features.as_ref().map(|features| features.dtype()), Some(FeatureDtype::F16));
    assert_eq!((&paper.labels.as_ref().unwrap()[..], &paper.splits.train[..]), (&[0, -1, 2][..], &[2][..]));
    let relations: Vec<&str> = graph.edge_types.iter().map(|e| e.relation.as_str()).collect();
    assert_eq!(relations, ["affiliated_with", "writes", "cites"]);
    assert_eq!(graph.edge_types[1].dst[..], [2, 1, 0]);

    // A stray id does not make billions of nodes, but their number may be stated.
    array(&root.join("author___writes___paper/edge_index.npy"), &[2, 3], &[0_i64, 300_000, 1, 2, 1, 0]);
    let why = load(&DatasetSource::of_folder(dir.path())).unwrap_err().to_string();
    assert!(why.contains("paper/edge_index.npy: edge 1 has node 300000, but 4 ends of edges are few"), "{why}");
    assert!(why.contains("author/num_nodes.npy with the number of nodes"), "{why}");
    array(&root.join("author/num_nodes.npy"), &[1], &[400_000_i64]);
    assert_eq!(loaded(dir.path()).node_types[0].num_nodes, 400_000);
}
