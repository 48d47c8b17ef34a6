//! Parts that earlier versions have written are read, and the same datasets still give the same arrays.

use crate::graphs::contents;
use edgecut_graph::{
    DiskPartId, EdgeTypeId, FeatureDtype, GivenNegatives, GlobalNodeId, HotnessRule, META_FILE, Meta, NodeTypeId, Part,
    Split,
};
use edgecut_partition::verify;
use edgecut_testing::succeeded;
use half::f16;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions of the format for parts with one label per node type, with a folder for each.
const VERSIONS: [u32; 2] = [1, 2];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../partition/tests/golden")
}

fn parts_dir(version: u32, dataset: &str) -> PathBuf {
    golden().join(format!("v{version}")).join(dataset)
}

/// The opened parts of a graph.
struct Parts(Vec<Part>);

impl Parts {
    fn open(dir: &Path) -> Self {
        let num_parts = Meta::read(dir).unwrap().num_parts;
        Self((0..num_parts).map(|part| Part::open(dir, DiskPartId(part), true).unwrap()).collect())
    }

    /// Returns the original id of a node.
    fn original(&self, node_type: NodeTypeId, global: u32) -> u32 {
        let owner = self.0[0].meta().node_types[node_type.index()].book.owner(GlobalNodeId(global));
        let part = &self.0[owner.index()];
        part.nodes(node_type).original_ids[part.row(node_type, GlobalNodeId(global))]
    }

    /// Returns the row of each original id of a type, as `value` computes it from the part and the row.
    fn by_original<T>(&self, node_type: NodeTypeId, value: impl Fn(&Part, usize) -> T) -> Vec<T> {
        let rows = self.0.iter().flat_map(|part| {
            let ids = &part.nodes(node_type).original_ids;
            ids.iter().enumerate().map(|(row, &id)| (id, value(part, row))).collect::<Vec<_>>()
        });
        rows.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// Returns the edges of a type as original ids, each with the value of an attribute.
    fn edges<T>(&self, edge_type: EdgeTypeId, value: impl Fn(&Part, usize) -> T) -> Vec<(u32, u32, T)> {
        let mut edges = Vec::new();
        for part in &self.0 {
            let of_type = part.edges(edge_type);
            let first = part.owned(of_type.dst_type).start;
            for row in 0..of_type.csc.num_rows() {
                let dst = self.original(of_type.dst_type, first + row as u32);
                let in_edges = of_type.csc.indptr()[row] as usize..of_type.csc.indptr()[row + 1] as usize;
                for edge in in_edges {
                    let src = self.original(of_type.src_type, of_type.csc.indices()[edge]);
                    edges.push((src, dst, value(part, edge)));
                }
            }
        }
        edges
    }

    /// Returns the original ids of the nodes of a split.
    fn split(&self, node_type: NodeTypeId, split: Split) -> BTreeSet<u32> {
        let of_part = |part: &Part| {
            let nodes = part.nodes(node_type);
            nodes.splits.get(split).iter().map(|&row| nodes.original_ids[row as usize]).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_part).collect()
    }
}

#[test]
fn homogeneous_parts_have_the_values_of_their_dataset() {
    let node = NodeTypeId(0);
    let edge = EdgeTypeId(0);
    for version in VERSIONS {
        let dir = parts_dir(version, "homogeneous");
        assert_eq!(verify(&dir).unwrap().meta.version, version);
        let parts = Parts::open(&dir);
        let features = parts.by_original(node, |part, row| {
            let features = part.nodes(node).features.as_ref().unwrap();
            bytemuck::pod_collect_to_vec::<u8, f32>(features.row_bytes(row))
        });
        assert_eq!(features, (0..12).map(|n| vec![n as f32 / 2.0, -n as f32]).collect::<Vec<_>>());
        let labels = parts.by_original(node, |part, row| part.nodes(node).labels.as_ref().unwrap()[row]);
        assert_eq!(labels, (0..12).map(|n| n % 3).collect::<Vec<i64>>());
        let times = parts.by_original(node, |part, row| part.nodes(node).times.as_ref().unwrap()[row]);
        assert_eq!(times, (1000..1012).collect::<Vec<i64>>());
        assert_eq!(
            Split::ALL.map(|split| parts.split(node, split)),
            [(0..6).collect(), (6..9).collect(), (9..12).collect()]
        );
        // The time of an edge gives its number in the list of the dataset.
        let mut edges = parts.edges(edge, |part, edge_row| {
            let edges = part.edges(edge);
            let number = edges.attributes.times.as_ref().unwrap()[edge_row] - 2000;
            let features = edges.attributes.features.as_ref().unwrap().row_bytes(edge_row);
            let expected = [number as f32, number as f32 / 4.0].map(f16::from_f32);
            assert_eq!(features, bytemuck::cast_slice::<_, u8>(&expected));
            assert_eq!(edges.attributes.weights.as_ref().unwrap()[edge_row], 1.0 + number as f32 / 8.0);
            (number, edges.src_times.as_ref().unwrap()[edge_row] - 1000)
        });
        edges.sort_by_key(|&(_, _, (number, _))| number);
        let expected = (0..24_u32).map(|e| {
            let src = e % 12;
            let dst = if e < 12 { (src + 1) % 12 } else { (src + 5) % 12 };
            (src, dst, (i64::from(e), i64::from(src)))
        });
        assert_eq!(edges, expected.collect::<Vec<_>>());
        assert_held_out(&parts);
        assert_eq!(parts.0[0].meta().provenance.hotness, Some(HotnessRule::InDegree));
        assert!(parts.0.iter().all(|part| !part.nodes(node).hot.as_ref().unwrap().nodes.is_empty()));
    }
}

/// Compares the held-out edges of the homogeneous graph.
fn assert_held_out(parts: &Parts) {
    let node = NodeTypeId(0);
    let found = |test: bool| {
        let of_part = |part: &Part| {
            let held_out = &part.edges(EdgeTypeId(0)).held_out;
            let list = if test { held_out.test.clone() } else { held_out.valid.clone() };
            let Some(GivenNegatives::OfEach { num: 2, dst }) = &list.negatives else { panic!("{:?}", list.negatives) };
            let edge = |at: usize| {
                let original = |global| parts.original(node, global);
                let negatives = [original(dst[2 * at]), original(dst[2 * at + 1])];
                (list.times.as_ref().unwrap()[at], original(list.src[at]), original(list.dst[at]), negatives)
            };
            (0..list.len()).map(edge).collect::<Vec<_>>()
        };
        parts.0.iter().flat_map(of_part).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(found(false), [(3000, 0, 2, [4, 9]), (3001, 3, 5, [7, 10]), (3002, 6, 8, [1, 11])]);
    assert_eq!(found(true), [(4000, 1, 3, [8, 0]), (4001, 4, 6, [2, 11])]);
}

#[test]
fn heterogeneous_parts_have_the_values_of_their_dataset() {
    for version in VERSIONS {
        let dir = parts_dir(version, "heterogeneous");
        let meta = verify(&dir).unwrap().meta;
        let parts = Parts::open(&dir);
        let node_type = |name: &str| NodeTypeId(meta.node_types.iter().position(|t| t.name == name).unwrap() as u16);
        let edge_type =
            |name: &str| EdgeTypeId(meta.edge_types.iter().position(|e| e.relation == name).unwrap() as u16);
        let paper = node_type("paper");
        assert_eq!(meta.node_types[paper.index()].feature_dtype, FeatureDtype::Int8);
        assert_eq!(meta.node_types[node_type("author").index()].book.num_nodes(), 5);
        let features = parts.by_original(paper, |part, row| {
            let mut values = [0.0; 3];
            part.nodes(paper).features.as_ref().unwrap().copy_row(row, &mut values);
            values
        });
        for (n, row) in features.iter().enumerate() {
            let n = n as f32;
            let step = (n * n).max(n) / 127.0;
            for (found, expected) in row.iter().zip([n, n * n, -n]) {
                assert!((found - expected).abs() <= step, "{row:?} of paper {n}");
            }
        }
        let labels = parts.by_original(paper, |part, row| part.nodes(paper).labels.as_ref().unwrap()[row]);
        assert_eq!(labels, [0, 1, 0, 1, 0, 1, 0, 1]);
        let writes = edge_type("writes");
        let mut edges = parts.edges(writes, |part, edge| part.edges(writes).attributes.weights.as_ref().unwrap()[edge]);
        edges.sort_by(|a, b| a.2.total_cmp(&b.2));
        let written = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (0, 5), (2, 6), (4, 7), (1, 0)];
        let expected = written.iter().zip(1..).map(|(&(src, dst), e)| (src, dst, e as f32 / 2.0));
        assert_eq!(edges, expected.collect::<Vec<_>>());
        let cites = edge_type("cites");
        let mut edges: Vec<(u32, u32)> =
            parts.edges(cites, |_, _| ()).iter().map(|&(src, dst, ())| (src, dst)).collect();
        edges.sort_unstable();
        assert_eq!(edges, [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 3), (7, 0), (7, 4)]);
        let lists = parts.0.iter().map(|part| &part.edges(cites).held_out.valid);
        let shared = lists.map(|list| match &list.negatives {
            Some(GivenNegatives::Shared { src, dst }) => src
                .iter()
                .zip(dst.iter())
                .map(|(&s, &d)| (parts.original(paper, s), parts.original(paper, d)))
                .collect(),
            other => panic!("{other:?}"),
        });
        let shared: Vec<Vec<(u32, u32)>> = shared.collect();
        assert_eq!(shared.concat().into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([(3, 7), (5, 6)]));
    }
}

#[test]
fn the_same_datasets_give_the_same_arrays_as_in_earlier_versions() {
    let root = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_partition-graph");
    succeeded(Command::new(golden().join("write_parts.sh")).arg(program).arg(root.path()).output().unwrap());
    let description = |files: &mut BTreeMap<String, Vec<u8>>| -> Value {
        let mut meta: Value = serde_json::from_slice(&files.remove(META_FILE).unwrap()).unwrap();
        let fields = meta.as_object_mut().unwrap();
        let version = fields.remove("version").unwrap();
        assert_eq!(fields.remove("digest").is_some(), version != 1);
        // Fields that were added within a version are absent in golden parts.
        for types in ["node_types", "edge_types"] {
            for of_type in fields[types].as_array_mut().unwrap() {
                of_type.as_object_mut().unwrap().remove("digests");
            }
        }
        meta
    };
    for dataset in ["homogeneous", "heterogeneous"] {
        let mut made = contents(&root.path().join(dataset));
        let made_meta = description(&mut made);
        for version in VERSIONS {
            let mut golden = contents(&parts_dir(version, dataset));
            assert_eq!(description(&mut golden), made_meta);
            assert!(made == golden, "{dataset}: the arrays differ from those of version {version}");
        }
    }
}

#[test]
fn a_version_number_that_was_changed_is_found() {
    let root = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(parts_dir(2, "heterogeneous").join(META_FILE)).unwrap();
    std::fs::write(root.path().join(META_FILE), text.replace("\"version\": 2", "\"version\": 1")).unwrap();
    let error = Meta::read(root.path()).unwrap_err().to_string();
    assert!(error.contains("its `digest` is") && error.contains("META.json is damaged or was edited"), "{error}");
}
