//! Damaged files do not load, and the error names the file.

use crate::graphs;

use edgecut_graph::{DiskPartId, EdgeTypeId, HotnessRule, META_FILE, Meta, Part, Split, checksum, write_npy};
use edgecut_partition::{Method, PartitionOptions, partition, verify};
use edgecut_testing::assert_has;
use graphs::rich;
use half::f16;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// One file of each kind, in the first part.
const KINDS: [&str; 20] = [
    "part_0/nodes/paper/original_ids.npy",
    "part_0/nodes/paper/features.npy",
    "part_0/nodes/author/features.npy",
    "part_0/nodes/paper/labels.npy",
    "part_0/nodes/paper/train.npy",
    "part_0/nodes/author/valid.npy",
    "part_0/edges/author__writes__paper/indptr.npy",
    "part_0/edges/author__writes__paper/indices.npy",
    "part_0/edges/author__writes__paper/features.npy",
    "part_0/edges/author__writes__paper/weights.npy",
    "part_0/edges/author__writes__paper/times.npy",
    "part_0/edges/author__writes__paper/src_times.npy",
    "part_0/edges/paper__cites__paper/test_edges.npy",
    "part_0/nodes/author/times.npy",
    "part_0/nodes/author/hot_nodes.npy",
    "part_0/nodes/author/hotness.npy",
    "part_0/edges/author__writes__paper/labels.npy",
    "part_0/edges/author__writes__paper/splits.npy",
    "part_0/edges/author__writes__paper/id_ends.npy",
    "part_0/edges/author__writes__paper/id_bytes.npy",
];

/// The bytes before the data of a file.
const HEADER_BYTES: usize = 128;
/// The digits of the digest of `META.json` while the digest is computed.
const ZEROS: &str = "00000000000000000000000000000000";

struct Parts {
    _root: tempfile::TempDir,
    dir: PathBuf,
}

impl Parts {
    fn new() -> Self {
        let root = graphs::tempdir();
        let dir = root.path().join("2-parts");
        let options = PartitionOptions { hotness: Some(HotnessRule::InDegree), ..PartitionOptions::new(2) };
        partition(&rich(), &options, &dir, &()).unwrap();
        Self { _root: root, dir }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    fn edit(&self, file: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.path(file)).unwrap();
        edit(&mut bytes);
        std::fs::write(self.path(file), bytes).unwrap();
    }

    fn edit_meta(&self, edit: impl FnOnce(&mut serde_json::Value)) {
        edit_meta(&self.dir, edit);
    }

    /// Makes `META.json` list `file` in its current state, so that only the invariants can detect the damage.
    fn relist(&self, file: &str) {
        let bytes = std::fs::read(self.path(file)).unwrap();
        self.edit_meta(|meta| {
            meta["files"][file] = serde_json::json!({ "bytes": bytes.len(), "xxh3": checksum(&bytes) });
        });
    }

    fn open(&self, verify: bool) -> Result<Part, String> {
        Part::open(&self.dir, DiskPartId(0), verify).map_err(|e| e.to_string())
    }

    /// Returns the error of verification.
    fn why(&self) -> String {
        verify(&self.dir).unwrap_err().to_string()
    }
}

/// Changes `META.json`, and its digest accordingly.
pub(crate) fn edit_meta(dir: &Path, edit: impl FnOnce(&mut serde_json::Value)) {
    let path = dir.join(META_FILE);
    let mut meta = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    edit(&mut meta);
    meta["digest"] = ZEROS.into();
    let text = serde_json::to_string(&meta).unwrap();
    let digest = format!("{:032x}", xxh3_128(text.as_bytes()));
    std::fs::write(path, text.replacen(ZEROS, &digest, 1)).unwrap();
}

fn assert_names(error: &str, file: &str, why: &str) {
    let name = Path::new(file).file_name().unwrap().to_str().unwrap();
    assert!(error.contains(name) && error.contains(why), "{error}: expected {name} and {why:?}");
}

#[test]
fn rejects_missing_files() {
    for file in KINDS {
        let parts = Parts::new();
        std::fs::remove_file(parts.path(file)).unwrap();
        assert_names(&parts.open(true).unwrap_err(), file, "No such file");
        assert_names(&parts.open(false).unwrap_err(), file, "No such file");
        assert_names(&parts.why(), file, "No such file");
    }
}

#[test]
fn rejects_truncated_and_extended_files() {
    for file in KINDS {
        for cut in [1, 100, usize::MAX] {
            let parts = Parts::new();
            parts.edit(file, |bytes| bytes.truncate(bytes.len().saturating_sub(cut)));
            assert_names(&parts.open(true).unwrap_err(), file, "truncated");
            assert_names(&parts.open(false).unwrap_err(), file, "truncated");
            assert_names(&parts.why(), file, "truncated");
        }
        let parts = Parts::new();
        parts.edit(file, |bytes| bytes.push(0));
        assert_names(&parts.why(), file, "bytes");
        assert_names(&parts.open(false).unwrap_err(), file, "truncated");
    }
}

#[test]
fn rejects_every_flipped_bit_of_a_file() {
    for file in KINDS {
        let parts = Parts::new();
        let length = std::fs::read(parts.path(file)).unwrap().len();
        for byte in (0..length).step_by(7) {
            parts.edit(file, |bytes| bytes[byte] ^= 1 << (byte % 8));
            assert_names(&parts.open(true).unwrap_err(), file, "checksum");
            let has_checksum = !file.ends_with("features.npy");
            if has_checksum {
                assert_names(&parts.open(false).unwrap_err(), file, "checksum");
            } else if byte >= HEADER_BYTES {
                parts.open(false).unwrap();
            }
            parts.edit(file, |bytes| bytes[byte] ^= 1 << (byte % 8));
        }
        verify(&parts.dir).unwrap();
    }
}

#[test]
fn rejects_every_changed_byte_of_the_description() {
    let parts = Parts::new();
    let whole = std::fs::read(parts.path(META_FILE)).unwrap();
    for byte in (0..whole.len()).step_by(5) {
        parts.edit(META_FILE, |bytes| bytes[byte] ^= 1 << (byte % 8));
        for error in [parts.open(false).unwrap_err(), parts.why()] {
            assert_names(&error, META_FILE, ": ");
            let remedies = ["copy the parts again or partition again", "update the program", "pass the N-parts folder"];
            assert!(remedies.iter().any(|remedy| error.contains(remedy)), "byte {byte}: {error}");
        }
        parts.edit(META_FILE, |bytes| bytes[byte] = whole[byte]);
    }
    verify(&parts.dir).unwrap();
}

#[test]
fn rejects_a_damaged_description() {
    let parts = Parts::new();
    let whole = std::fs::read(parts.path(META_FILE)).unwrap();
    for length in (0..whole.len() - 2).step_by(13) {
        parts.edit(META_FILE, |bytes| bytes.truncate(length));
        assert_names(&parts.open(true).unwrap_err(), META_FILE, "");
        parts.edit(META_FILE, |bytes| *bytes = whole.clone());
    }
    std::fs::remove_file(parts.path(META_FILE)).unwrap();
    assert!(parts.why().contains("it is not a partitioned graph, because META.json is missing"), "{}", parts.why());
}

#[test]
fn parts_near_a_folder_without_parts_are_named() {
    let around = tempfile::tempdir().unwrap();
    let parts = Parts::new();
    let meant = around.path().join("graph/2-parts");
    std::fs::create_dir_all(&meant).unwrap();
    std::fs::copy(parts.path(META_FILE), meant.join(META_FILE)).unwrap();
    std::fs::create_dir(meant.join("part_0")).unwrap();
    let expected = format!("because META.json is missing: did you mean {}?", meant.display());
    for folder in [around.path(), &around.path().join("graph"), &meant.join("part_0")] {
        assert_has(Meta::read(folder).unwrap_err().to_string(), &[&expected]);
    }
    let error = Meta::read(&around.path().join("absent")).unwrap_err().to_string();
    assert!(error.contains("there is no such folder: pass the N-parts folder"), "{error}");
}

/// Members of `META.json` by their JSON pointers, with other values or removed, and the errors of parts that have them.
const CONTRADICTIONS: &str = r#"
/version 5 => version 5 and was written by a newer version of this program
/version 0 => version 0, but this build reads versions 1 to 4: partition again
/format "numpy" => its format is "numpy"
/num_parts 3 => 3 parts, but the report has 2
/num_parts 0 => 0 parts
/node_types/0/book [0, 40] => has 1 ranges for 2 parts
/node_types/0/book [0, 30, 20] => a range ends before it starts
/node_types/0/name "../paper" => META.json
/node_types/1/name "../author" => META.json
/edge_types/0/relation "a/b" => cannot be a folder
/node_types/1/name "paper" => two node types have the name paper
/edge_types/0/src_type "venue" => joins unknown node type venue
/node_types/0/feature_dtype "f64" => unknown variant
/node_types/0/feature_dim 0 => lists the file "part_0/nodes/paper/features.npy"
/node_types/1/has_labels true => does not list the file part_0/nodes/author/labels.npy
/edge_types/0/has_weights true => does not list the file part_0/edges/paper__cites__paper/weights.npy
/edge_types/1/feature_dim 0 => lists the file "part_0/edges/author__writes__paper/features.npy"
/node_types/0/has_times true => does not list the file part_0/edges/paper__cites__paper/src_times.npy
/edge_types/0/held_out [0, 0] => lists the file "part_0/edges/paper__cites__paper/test_edges.npy"
/edge_types/1/labels => lists the file "part_0/edges/author__writes__paper/labels.npy"
/edge_types/1/labels/num_classes 2000 => author__writes__paper has 2000 classes, but its 60 edges allow at most 1600
/edge_types/1/labels/num_classes => EdgeLabelKind
/provenance/edge_ids true => paper__cites__paper has no numbers as ids, which `provenance.edge_ids` says
/files/..~1..~1etc~1passwd {"bytes": 1, "xxh3": ""} => not part of this format
/files/part_0~1nodes~1paper~1features.npy => does not list the file
/report => missing field `report`
"#;

/// Members whose values only the arrays contradict.
const OTHER_SUMS: &str = r#"
/node_types/0/split_sizes [8, 8, 7] => split sizes of node type paper
/edge_types/2/num_edges 31 => edges/paper__of__author has 31 edges, but parts have 30
/edge_types/0/held_out [10, 21] => edges/paper__cites__paper has [10, 21] held-out edges, but parts have [10, 20]
/report/cut_edges 1 => its report differs from the one computed from the parts
/report/parts/1/halo_nodes 999 => its report
/report/remote_neighbor_fraction 0.25 => its report
"#;

/// Returns parts with each of the changes, and the expected errors.
fn changed(lines: &'static str) -> impl Iterator<Item = (Parts, &'static str)> {
    lines.trim().lines().map(|line| {
        let (change, why) = line.split_once(" => ").unwrap();
        let (pointer, value) = change.split_once(' ').unwrap_or((change, ""));
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/");
        let parts = Parts::new();
        parts.edit_meta(|meta| {
            let members = meta.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            if value.is_empty() {
                members.remove(&key).unwrap();
            } else {
                members.insert(key, serde_json::from_str(value).unwrap());
            }
        });
        (parts, why)
    })
}

#[test]
fn rejects_descriptions_that_contradict_themselves() {
    let twice = Parts::new();
    twice.edit_meta(|meta| meta["edge_types"][1] = meta["edge_types"][0].clone());
    let twice = (twice, "two edge types have the folder edges/paper__cites__paper");
    for (parts, why) in changed(CONTRADICTIONS).chain([twice]) {
        assert_names(&parts.open(false).unwrap_err(), META_FILE, why);
        assert_names(&parts.why(), META_FILE, why);
    }
}

#[test]
fn rejects_another_shape_or_type() {
    type Write = fn(&Path);
    let shapes: [(&str, Write); 12] = [
        (KINDS[0], |path| write_npy(path, &[2], &[0_u32, 1]).unwrap()),
        (KINDS[0], |path| write_npy(path, &[2], &[0_u64, 1]).unwrap()),
        (KINDS[1], |path| write_npy(path, &[3, 2], &[0_f32; 6]).unwrap()),
        (KINDS[1], |path| write_npy(path, &[3, 2], &[f16::ZERO; 6]).unwrap()),
        (KINDS[3], |path| write_npy(path, &[1, 1], &[0_i64]).unwrap()),
        (KINDS[6], |path| write_npy(path, &[1], &[0_u64]).unwrap()),
        (KINDS[9], |path| write_npy(path, &[1], &[0_f32]).unwrap()),
        (KINDS[10], |path| write_npy(path, &[1], &[0_f32]).unwrap()),
        (KINDS[12], |path| write_npy(path, &[2], &[0_u32, 0]).unwrap()),
        (KINDS[13], |path| write_npy(path, &[1], &[0_i64]).unwrap()),
        (KINDS[16], |path| write_npy(path, &[1], &[0_i64]).unwrap()),
        (KINDS[17], |path| write_npy(path, &[1], &[0_i64]).unwrap()),
    ];
    for (file, write) in shapes {
        let parts = Parts::new();
        write(&parts.path(file));
        parts.relist(file);
        for error in [parts.open(true).unwrap_err(), parts.why()] {
            assert_names(&error, file, "its ");
            assert!(error.contains("expected") || error.contains("wants"), "{error}");
        }
    }
}

/// Damages that only the invariants detect: the checksums are right.
#[test]
fn rejects_files_that_contradict_each_other() {
    fn words<const N: usize>(bytes: &mut [u8], entry: usize, value: [u8; N]) {
        bytes[128 + entry * N..128 + (entry + 1) * N].copy_from_slice(&value);
    }
    fn last_word(bytes: &mut [u8], value: u32) {
        let last = (bytes.len() - 128) / 4 - 1;
        words(bytes, last, value.to_le_bytes());
    }
    type Damage = fn(&mut Vec<u8>);
    let cases: [(&str, Damage, &str); 22] = [
        (KINDS[0], |b| words(b, 0, 39_u32.to_le_bytes()), "does not ascend after row 0"),
        (KINDS[0], |b| last_word(b, 40), "past the last of 40"),
        (KINDS[14], |b| words(b, 0, 1000_u32.to_le_bytes()), "does not ascend after entry 0"),
        (KINDS[14], |b| words(b, 0, 0_u32.to_le_bytes()), "entry 0 is node 0, which is not a node of another part"),
        (KINDS[15], |b| words(b, 0, 0_u32.to_le_bytes()), "entry 0 is 0"),
        (KINDS[1], |b| words(b, 4, f32::NAN.to_le_bytes()), "feature 1 of row 1 is NaN or infinite"),
        (KINDS[2], |b| words(b, 0, f16::INFINITY.to_le_bytes()), "feature 0 of row 0 is NaN or infinite"),
        (KINDS[3], |b| words(b, 2, 3_i64.to_le_bytes()), "row 2 has label 3, outside -1..3"),
        (KINDS[3], |b| b[128..].fill(0xff), "has no label"),
        (KINDS[4], |b| words(b, 0, 99_u32.to_le_bytes()), "not ascending"),
        (KINDS[6], |b| words(b, 1, 77_u64.to_le_bytes()), "indptr decreases after row 1"),
        (KINDS[6], |b| words(b, 0, 1_u64.to_le_bytes()), "indptr does not start at 0"),
        (KINDS[7], |b| words(b, 0, 25_u32.to_le_bytes()), "comes from node 25, past the last of 25"),
        (KINDS[8], |b| words(b, 3, f32::NEG_INFINITY.to_le_bytes()), "feature 1 of edge 1 is NaN or infinite"),
        (KINDS[9], |b| words(b, 1, (-1_f32).to_le_bytes()), "edge 1 has weight -1, which is negative"),
        (KINDS[9], |b| words(b, 0, f32::NAN.to_le_bytes()), "edge 0 has weight NaN, which is not finite"),
        (KINDS[11], |b| words(b, 0, 7_i64.to_le_bytes()), "edge 0 comes from a node of time 20"),
        (KINDS[12], |b| words(b, 0, 40_u32.to_le_bytes()), "edge 0 comes from node 40, past the last of 40"),
        (KINDS[12], |b| last_word(b, 39), "goes to node 39, which this part does not own"),
        (KINDS[16], |b| words(b, 2, 4_i64.to_le_bytes()), "edge 2 has label 4, outside -1..4"),
        (KINDS[16], |b| b[128..].fill(0xff), "split, but has no label"),
        (KINDS[17], |b| words(b, 3, [3]), "edge 3 has split 3, which is not 0, 1, 2 or 255"),
    ];
    for (file, damage, why) in cases {
        let parts = Parts::new();
        parts.edit(file, damage);
        parts.relist(file);
        assert_has(parts.why(), &["part_0", why]);
    }
}

/// Training on such a part would take -1 for a class.
#[test]
fn rejects_nodes_of_splits_without_a_label_when_a_part_is_opened() {
    for split in Split::ALL {
        let parts = Parts::new();
        let open = |part: u32| Part::open(&parts.dir, DiskPartId(part), false);
        let papers = |part: u32| open(part).unwrap().nodes(edgecut_graph::NodeTypeId(0)).clone();
        // The parts share the split unevenly.
        let part = (0..2).find(|&part| !papers(part).splits.get(split).is_empty()).unwrap();
        let row = papers(part).splits.get(split)[0] as usize;
        let node = papers(part).original_ids[row];
        let labels = format!("part_{part}/nodes/paper/labels.npy");
        parts.edit(&labels, |bytes| {
            bytes[HEADER_BYTES + 8 * row..][..8].copy_from_slice(&(-1_i64).to_le_bytes());
        });
        parts.relist(&labels);
        let split = split.name();
        let expected =
            format!("row {row} of part {part} is in the {split} split, but node {node} of type paper has no label");
        for error in [open(part).unwrap_err().to_string(), parts.why()] {
            assert_names(&error, &format!("{split}.npy"), &expected);
            assert!(error.contains("leave it out of the split or give it a label"), "{error}");
        }
    }
}

#[test]
fn rejects_a_node_in_two_parts() {
    let parts = Parts::new();
    let second = Part::open(&parts.dir, DiskPartId(1), true).unwrap();
    let file = "part_1/nodes/author/original_ids.npy";
    let own = &second.nodes(edgecut_graph::NodeTypeId(1)).original_ids;
    let first = parts.open(true).unwrap();
    let stolen = first.nodes(edgecut_graph::NodeTypeId(1)).original_ids[0];
    let mut ids = own.to_vec();
    ids[0] = stolen;
    ids.sort_unstable();
    write_npy(&parts.path(file), &[ids.len()], &ids).unwrap();
    parts.relist(file);
    assert_names(&parts.why(), file, &format!("node {stolen} is in another part as well"));
}

#[test]
fn rejects_sums_and_a_report_that_are_not_those_of_the_parts() {
    for (parts, why) in changed(OTHER_SUMS) {
        parts.open(true).unwrap();
        assert_names(&parts.why(), META_FILE, why);
    }
}

#[test]
fn rejects_unlisted_files_and_folders_in_parts() {
    let parts = Parts::new();
    std::fs::write(parts.path("README.txt"), "a note beside the parts is fine").unwrap();
    verify(&parts.dir).unwrap();
    for file in ["part_0/notes.txt", "part_1/nodes/paper/extra.npy", "part_2"] {
        std::fs::write(parts.path(file), "").unwrap();
        assert_names(&parts.why(), file, "does not list this file");
        std::fs::remove_file(parts.path(file)).unwrap();
    }
    std::fs::create_dir(parts.path("part_0/old")).unwrap();
    assert_names(&parts.why(), "part_0/old", "lists nothing in this folder");
}

#[test]
fn rejects_parts_of_two_runs() {
    let parts = Parts::new();
    let root = graphs::tempdir();
    let other = root.path().join("2-parts");
    partition(&rich(), &PartitionOptions { method: Method::Random, ..PartitionOptions::new(2) }, &other, &()).unwrap();
    assert_ne!(Meta::read(&other).unwrap().fingerprint(), Meta::read(&parts.dir).unwrap().fingerprint());
    std::fs::rename(parts.path("part_0"), parts.path("gone")).unwrap();
    std::fs::rename(other.join("part_0"), parts.path("part_0")).unwrap();
    assert_has(parts.why(), &["part_0", "from another run"]);
}

#[test]
fn opening_a_part_checks_original_ids_and_labels() {
    let cases = [(KINDS[0], 4, "it does not ascend after row 0"), (KINDS[3], 8, "row 0 has label -2, outside -1..3")];
    for (file, width, why) in cases {
        let parts = Parts::new();
        parts.edit(file, |bytes| {
            bytes[128..128 + width].fill(0xff);
            if width == 8 {
                bytes[128] = 0xfe;
            }
        });
        parts.relist(file);
        assert_names(&parts.open(false).unwrap_err(), file, why);
        assert_names(&parts.open(true).unwrap_err(), file, why);
    }
}

/// Returns parts whose held-out edges have times.
fn parts_with_held_out_times() -> Parts {
    let parts = Parts::new();
    let mut graph = rich();
    graph.edge_types[0].held_out = graphs::with_times(&graph.edge_types[0].held_out);
    let options = PartitionOptions { overwrite: true, ..PartitionOptions::new(2) };
    partition(&graph, &options, &parts.dir, &()).unwrap();
    parts
}

#[test]
fn times_of_held_out_edges_are_files_of_the_format() {
    let file = "part_0/edges/paper__cites__paper/test_edge_times.npy";
    let parts = parts_with_held_out_times();
    let held_out = &parts.open(true).unwrap().edges(EdgeTypeId(0)).held_out.clone();
    assert!(held_out.has_times() && held_out.test.times.as_ref().unwrap().len() == held_out.test.len());
    write_npy(&parts.path(file), &[1, 1], &[0_i64]).unwrap();
    parts.relist(file);
    assert_names(&parts.open(false).unwrap_err(), file, "wants");
    std::fs::remove_file(parts.path(file)).unwrap();
    assert_names(&parts.why(), file, "");
    let parts = parts_with_held_out_times();
    parts.edit_meta(|meta| meta["edge_types"][0]["held_out_has_times"] = false.into());
    assert_names(&parts.why(), META_FILE, "lists the file \"part_0/edges/paper__cites__paper/test_edge_times.npy\"");
}

#[test]
fn descriptions_from_before_held_out_edges_had_times_are_read() {
    let parts = Parts::new();
    parts.edit_meta(|meta| {
        let remove = |object: &mut serde_json::Value, field: &str| {
            object.as_object_mut().unwrap().remove(field).unwrap();
        };
        meta["edge_types"].as_array_mut().unwrap().iter_mut().for_each(|e| remove(e, "held_out_has_times"));
        remove(&mut meta["provenance"], "hold_out_choice");
        remove(&mut meta["provenance"], "overlap");
    });
    let part = parts.open(true).unwrap();
    assert!(!part.edges(EdgeTypeId(0)).held_out.has_times());
    verify(&parts.dir).unwrap();
}

#[test]
fn rejects_more_classes_than_labels_allow() {
    let parts = Parts::new();
    parts.edit_meta(|meta| meta["node_types"][0]["num_classes"] = 2_000_000_001_u64.into());
    let why = "node type paper has 2000000001 classes, but its 40 nodes allow at most 1400";
    assert_names(&parts.open(false).unwrap_err(), META_FILE, why);
    assert_names(&parts.why(), META_FILE, why);
    // The number of nodes would allow as many classes, but their three distinct labels do not.
    let parts = Parts::new();
    parts.edit_meta(|meta| meta["node_types"][0]["num_classes"] = 1350.into());
    assert_names(&parts.why(), META_FILE, "its labels have 3 different values, which allow at most 1030");
    let root = graphs::tempdir();
    let whole = root.path().join("1-parts");
    partition(&rich(), &PartitionOptions::new(1), &whole, &()).unwrap();
    let parts = Parts { _root: root, dir: whole };
    parts.edit_meta(|meta| meta["node_types"][0]["num_classes"] = 1350.into());
    assert_names(&parts.open(false).unwrap_err(), "labels.npy", "3 different values");
}
