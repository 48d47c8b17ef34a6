//! Tests of the documented lines with which PyG and DGL users export a graph, run on stand-ins for their objects.

use edgecut_graph::readers::read_npy_folder;
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use edgecut_testing::python_has;
use std::path::Path;
use std::process::Command;

/// Stand-ins for the exported objects. Their tensors implement `.numpy()` like those of PyTorch.
const STAND_INS: &str = r#"
import numpy as np
class Tensor:
    def __init__(self, array): self.array = array
    def numpy(self): return self.array
def mask(*nodes):
    mask = np.zeros(5, dtype=bool)
    mask[list(nodes)] = True
    return Tensor(mask)
tensors = dict(
    edge_index=Tensor(np.array([[0, 1, 4, 2], [1, 0, 2, 4]])),
    x=Tensor(np.arange(15, dtype=np.float32).reshape(5, 3)),
    y=Tensor(np.array([0, 1, 2, 1, 0])),
    train_mask=mask(4, 0), val_mask=mask(1), test_mask=mask(2, 3))
class Data:
    def __getattr__(self, name): return tensors[name]
    def __getitem__(self, name): return tensors[name]
class Graph:
    def edges(self): return tuple(Tensor(row) for row in tensors["edge_index"].array)
    ndata = {**tensors, "feat": tensors["x"], "label": tensors["y"]}
data, g = Data(), Graph()
"#;

/// Runs `script` in `folder`. Returns false if there is no Python with NumPy, so that the test is skipped.
fn python(script: &str, folder: &Path) -> bool {
    if !python_has(Command::new("python3"), "numpy", "python_export") {
        return false;
    }
    let output = Command::new("python3").args(["-c", script]).current_dir(folder).output().expect("python3 ran before");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

fn check_export(lines: &str) {
    assert!(include_str!("../../docs/src/data.md").contains(lines), "the guide shows the lines that are tested");
    let dir = tempfile::tempdir().unwrap();
    if !python(&format!("{STAND_INS}\n{lines}"), dir.path()) {
        return;
    }
    let dataset = read_npy_folder("exported", dir.path()).unwrap();
    dataset.validate().unwrap();
    let nodes = dataset.nodes(NodeTypeId(0));
    let edges = dataset.edges(EdgeTypeId(0));
    assert_eq!((&edges.src[..], &edges.dst[..]), (&[0, 1, 4, 2][..], &[1, 0, 2, 4][..]));
    let mut row = [0.0; 3];
    nodes.features.as_ref().unwrap().copy_row(4, &mut row);
    assert_eq!(row, [12.0, 13.0, 14.0]);
    assert_eq!(nodes.labels.as_ref().unwrap()[..], [0, 1, 2, 1, 0]);
    assert_eq!((nodes.num_nodes, nodes.num_classes), (5, 3));
    assert_eq!(nodes.splits.train[..], [0, 4]);
    assert_eq!(nodes.splits.valid[..], [1]);
    assert_eq!(nodes.splits.test[..], [2, 3]);
}

#[test]
fn a_pyg_graph_is_exported_in_five_lines() {
    let lines = include_str!("export_pyg.py");
    assert!(include_str!("../../README.md").contains(lines), "README.md shows the lines that are tested");
    check_export(lines);
}

#[test]
fn a_dgl_graph_is_exported_in_five_lines() {
    check_export(include_str!("export_dgl.py"));
}

#[test]
fn numpys_odd_arrays_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let save = |lines: &str| python(&format!("import numpy as np\n{lines}"), dir.path());
    let edges = |array: &str| format!("np.save('edge_index.npy', {array})");
    if !save(&edges("np.array([[0, 1], [1, 2], [2, 0]], dtype=np.int32).T")) {
        return;
    }
    let why = || read_npy_folder("odd", dir.path()).unwrap_err().to_string();
    // The transposed array is in Fortran order.
    let dataset = read_npy_folder("odd", dir.path()).unwrap();
    assert_eq!((&dataset.edge_types[0].src[..], &dataset.edge_types[0].dst[..]), (&[0, 1, 2][..], &[1, 2, 0][..]));
    save(&edges("np.array([[0, 1], [2, 0]], dtype='>i8')"));
    let dataset = read_npy_folder("odd", dir.path()).unwrap();
    assert_eq!((&dataset.edge_types[0].src[..], &dataset.edge_types[0].dst[..]), (&[0, 1][..], &[2, 0][..]));
    save(&edges("np.array([[0.0, 1.0], [1.0, 0.0]])"));
    assert!(why().contains("its type is <f8, expected whole numbers"), "{}", why());
    // A strided view is saved contiguously, and num_nodes is a Python integer.
    save(&format!("{}\nnp.save('num_nodes.npy', 7)", edges("np.arange(12).reshape(2, 6)[:, ::2] % 7")));
    let dataset = read_npy_folder("odd", dir.path()).unwrap();
    assert_eq!((dataset.num_edges(), dataset.node_types[0].num_nodes), (3, 7));
    assert_eq!(dataset.edge_types[0].dst[..], [6, 1, 3]);
}
