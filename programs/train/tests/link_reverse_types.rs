//! `train link` with edge types that hold the reverses of the edges to predict.

use crate::programs::*;

use edgecut_graph::readers::{DatasetSource, load_with_warnings};
use edgecut_graph::{
    Dataset, EdgeData, EdgeTypeId, Features, HeldOutEdges, HoldOut, NodeData, NodeTypeId, OverlapPolicy, write_npy,
};
use edgecut_partition::{PartitionOptions, partition, verify};
use edgecut_testing::assert_has;
use std::path::Path;

/// Makes a graph of authors and papers with held-out edges `writes`. The type `written_by` has the reverses of the training edges,
/// and with `leaks` of all edges.
pub(crate) fn papers(leaks: bool, timed: bool) -> Dataset {
    let features = Some(Features::F32 { values: vec![0.5; 100].into(), dim: 1 });
    let author = NodeData { name: "author".into(), num_nodes: 100, features, ..NodeData::default() };
    let paper = NodeData { name: "paper".into(), ..author.clone() };
    let src: Vec<u32> = (0..400).map(|edge| edge % 100).collect();
    let dst: Vec<u32> = (0..400).map(|edge| (edge % 100 + 7 * (edge / 100)) % 100).collect();
    let mut writes = EdgeData::new(NodeTypeId(0), "writes", NodeTypeId(1), src.into(), dst.into());
    writes.attributes.times = timed.then(|| vec![3; 400].into());
    let mut graph = Dataset { name: "papers".into(), node_types: vec![author, paper], edge_types: vec![writes] };
    let all = graph.edge_types[0].clone();
    graph.hold_out_edges(&[EdgeTypeId(0)], &HoldOut::random(0.1, 0.2, 3)).expect("held-out edges");
    let writes = if leaks { &all } else { &graph.edge_types[0] };
    let mut written_by =
        EdgeData::new(NodeTypeId(1), "written_by", NodeTypeId(0), writes.dst.clone(), writes.src.clone());
    written_by.attributes.times = writes.attributes.times.clone();
    graph.edge_types.push(written_by);
    graph
}

/// Writes the arrays of a graph of authors and papers.
fn export_papers(graph: &Dataset, dataset: &Path) {
    for nodes in &graph.node_types {
        let folder = dataset.join("nodes").join(&nodes.name);
        std::fs::create_dir_all(&folder).expect("a folder");
        write_npy(&folder.join("x.npy"), &[100, 1], &[0.5_f32; 100]).expect("features");
    }
    for edges in &graph.edge_types {
        let [src_type, dst_type] = [edges.src_type, edges.dst_type].map(|t| &graph.node_types[t.index()].name);
        let folder = dataset.join("edges").join(format!("{src_type}__{}__{dst_type}", edges.relation));
        std::fs::create_dir_all(&folder).expect("a folder");
        let EdgeData { src, dst, held_out: HeldOutEdges { valid, test }, .. } = edges;
        for (name, times) in [("", &edges.attributes.times), ("val_", &valid.times), ("test_", &test.times)] {
            if let Some(times) = times.as_ref().filter(|times| !times.is_empty()) {
                write_npy(&folder.join(format!("{name}edge_time.npy")), &[times.len()], times).expect("times");
            }
        }
        for (name, src, dst) in [("", src, dst), ("val_", &valid.src, &valid.dst), ("test_", &test.src, &test.dst)] {
            let ends: Vec<i64> = src.iter().chain(dst.iter()).map(|&node| i64::from(node)).collect();
            let path = folder.join(format!("{name}edge_index.npy"));
            if !ends.is_empty() {
                write_npy(&path, &[2, src.len()], &ends).expect("edges");
            }
        }
    }
}

#[test]
fn held_out_edges_in_a_declared_reverse_type_are_one_error() {
    let plain = ["--model", "embedding", "--num-epochs", "1", "--eval-negatives", "10"];
    let declared = [&plain[..], &["--reverse-types", "writes=written_by"]].concat();
    let graph = papers(true, false);
    let leaking = written_by(&graph, 2);
    let HeldOutEdges { valid, test } = &graph.edge_types[0].held_out;
    let [valid, test] = [valid.src.len(), test.src.len()];
    let expected = format!(
        "{valid} of {valid} validation edges of author__writes__paper are training edges of the reverse type \
         paper__written_by__author; {test} of {test} test edges of author__writes__paper"
    );
    assert_error(&link(&leaking.path, 4, &declared), &[&expected, "--overlap allow"]);
    succeeded(link(&written_by(&papers(false, false), 2).path, 2, &declared));
    // Parts tell the types that were declared when they were made.
    let told = Folder::new();
    let parts = told.join("parts");
    let reverse_types = vec![("writes".into(), "paper__written_by__author".into())];
    let options = PartitionOptions { reverse_types, ..PartitionOptions::new(2) };
    partition(&graph, &options, &parts, &()).expect("parts");
    assert_error(&link(&parts, 2, &plain), &[&expected]);
    let leaks = verify(&parts).expect("parts").overlaps.leaks(false);
    assert_eq!(leaks.len(), 1, "{leaks:?}");
    assert!(leaks[0].contains("training edges of the reverse type"), "{leaks:?}");
    // The same nodes may meet again at other times.
    let mut timed = papers(true, true);
    assert_error(&link(&written_by(&timed, 2).path, 2, &declared), &[&expected]);
    timed.edge_types[1].attributes.times = Some(vec![4; 400].into());
    succeeded(link(&written_by(&timed, 2).path, 4, &declared));
    let folder = Folder::new();
    let dataset = folder.join("papers");
    export_papers(&papers(true, false), &dataset);
    let expected = format!(
        "edge type author__writes__paper: {valid} of {valid} validation edges are training edges of the reverse type, \
         {test} of {test} test edges are training edges of the reverse type"
    );
    assert_error(&link(&dataset, 2, &declared), &[&expected, "--overlap remove"]);
    let model = folder.path().join("model.safetensors");
    let allowed = [&declared[..], &["--overlap", "allow"]].concat();
    succeeded(link(&dataset, 2, &[&allowed[..], &["--save-model", text(&model)]].concat()));
    let evaluated = ["--load-model", text(&model), "--reverse-types", "writes=written_by"];
    assert_error(&link(&dataset, 2, &evaluated), &[&expected]);
    succeeded(link(&dataset, 2, &[&evaluated[..], &["--overlap", "allow"]].concat()));
    // Parts tell that overlaps were allowed.
    let options = PartitionOptions { overlap: OverlapPolicy::Allow, ..PartitionOptions::new(2) };
    let allowed = folder.join("allowed");
    partition(&papers(true, false), &options, &allowed, &()).expect("parts");
    succeeded(link(&allowed, 2, &declared));
}

#[test]
fn held_out_edges_are_removed_from_a_declared_reverse_type() {
    let folder = Folder::new();
    let flags = ["--model", "embedding", "--num-epochs", "1", "--overlap", "remove"];
    let declared = [&flags[..], &["--reverse-types", "writes=written_by"]].concat();
    let on_parts = ["--model", "embedding", "--num-epochs", "1", "--reverse-types", "writes=written_by"];
    for timed in [false, true] {
        let graph = papers(true, timed);
        let dataset = folder.join(format!("papers {timed}"));
        export_papers(&graph, &dataset);
        let HeldOutEdges { valid, test } = &graph.edge_types[0].held_out;
        let [valid, test] = [valid.src.len(), test.src.len()];
        let removed = format!(
            "removed overlaps: edge type author__writes__paper: {valid} of {valid} validation edges are training edges of the \
             reverse type, {test} of {test} test edges are training edges of the reverse type"
        );
        // Any number of processes reads the dataset once (unpartitioned.rs).
        let text = stderr(&succeeded(link(&dataset, 2, &declared)));
        assert_has(text, &[&removed, &format!("200 nodes and {} edges", 800 - 2 * (valid + test))]);
        assert!(!stderr(&succeeded(link(&dataset, 1, &flags))).contains("removed overlaps"));
        // Parts are refused, and their error names what cleans them.
        let remedy = "--overlap remove and --reverse-types author__writes__paper=paper__written_by__author";
        assert_error(&link(&written_by(&graph, 2).path, 2, &on_parts), &[remedy]);
        let mut source = DatasetSource::of_folder(&dataset);
        source.overlap = OverlapPolicy::Remove;
        source.reverse_types = vec![("author__writes__paper".into(), "paper__written_by__author".into())];
        let cleaned = load_with_warnings(&source).expect("a graph without overlaps").dataset;
        assert_eq!(cleaned.num_edges(), 800 - 2 * (valid + test));
        succeeded(link(&written_by(&cleaned, 2).path, 2, &on_parts));
        source.reverse_types = vec![("writes".into(), "written_bye".into())];
        let error = load_with_warnings(&source).expect_err("no such type").to_string();
        assert_has(error, &["there is no edge type written_bye", "written_by"]);
    }
    // At other times, the edges of the reverse type are other edges.
    let mut graph = papers(true, true);
    graph.edge_types[1].attributes.times = Some(vec![4; 400].into());
    let dataset = folder.join("papers at other times");
    export_papers(&graph, &dataset);
    assert!(!stderr(&succeeded(link(&dataset, 2, &declared))).contains("removed overlaps"));
}

#[test]
fn an_undeclared_reverse_type_with_held_out_edges_has_a_note() {
    let flags = ["--model", "embedding", "--num-epochs", "1"];
    let leaking = papers(true, false);
    let folder = Folder::new();
    let dataset = folder.join("papers");
    export_papers(&leaking, &dataset);
    let declaration = "--reverse-types author__writes__paper=paper__written_by__author";
    let [of_leaking, of_others] = [&leaking, &papers(false, false)].map(|graph| written_by(graph, 2));
    for (data, num_notes) in [(&of_leaking.path, 1), (&of_others.path, 0), (&dataset, 1)] {
        let text = stderr(&succeeded(link(data, 2, &flags)));
        assert_eq!(text.matches(declaration).count(), num_notes, "{}: {text}", data.display());
    }
}
