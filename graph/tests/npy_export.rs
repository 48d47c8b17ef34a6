//! Exports of graphs over folders of arrays that exist.

use crate::npy_folder::{Folder, legal};
use edgecut_graph::readers::{FakeOptions, export_npy, fake, read_npy_folder};
use edgecut_graph::{EdgeTypeId, NodeTypeId, Split};
use edgecut_testing::names;
use std::fs;

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
