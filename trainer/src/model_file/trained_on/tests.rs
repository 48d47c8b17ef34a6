//! Tests of descriptions of training data, and of their comparison with graphs.

use super::*;
use edgecut_graph::part_writer::write_one_part;
use edgecut_graph::readers::{FakeOptions, fake};

const NOTHING: ReadData = ReadData { classes: false, edge_classes: false, edge_features: false };
const CLASSES: ReadData = ReadData { classes: true, edge_classes: true, edge_features: false };

/// Returns what describes a small graph.
fn fake_meta() -> Meta {
    let dir = tempfile::tempdir().expect("a folder");
    let options = FakeOptions { avg_num_nodes: 50, ..FakeOptions::default() };
    write_one_part(fake(&options).expect("a graph"), dir.path()).expect("a part");
    Meta::read(dir.path()).expect("META.json")
}

#[test]
fn only_what_both_sides_know_is_compared() {
    let arrays = fake_meta();
    let table = |digest: Option<&str>| {
        let mut meta = arrays.clone();
        meta.has_transforms = true;
        let of_type = &mut meta.node_types[0];
        of_type.has_id_map = true;
        let digest = digest.map(str::to_owned);
        of_type.digests.ids = digest.clone();
        of_type.digests.transforms = digest.clone();
        of_type.digests.classes = digest;
        if of_type.digests.ids.is_none() {
            of_type.digests = TypeDigests::default();
            meta.edge_types.iter_mut().for_each(|edges| edges.digests = TypeDigests::default());
        }
        meta
    };
    let name = &arrays.node_types[0].name;
    let [one, other, old] = [table(Some("1")), table(Some("2")), table(None)];
    for (trained, found, is_other) in [
        (&one, &one, false),
        (&one, &other, true),
        (&one, &arrays, true),
        (&arrays, &one, true),
        (&arrays, &arrays, false),
        (&old, &one, false),
        (&one, &old, false),
        (&old, &arrays, false),
    ] {
        let trained = TrainedOn::new(trained);
        let text = serde_json::to_string(&trained).expect("JSON");
        assert_eq!(serde_json::from_str::<TrainedOn>(&text).expect("a description"), trained);
        assert_eq!(trained.difference(found, CLASSES).is_some(), is_other, "{text}");
        assert_eq!(trained.has_other_nodes(found, name), is_other, "{text}");
    }
    assert!(TrainedOn::is_told_by(&one) && TrainedOn::is_told_by(&arrays) && !TrainedOn::is_told_by(&old));
    // Tables of ids alone have no other digest, and are not of an earlier version.
    let mut ids_alone = one.clone();
    ids_alone.node_types[0].digests.transforms = None;
    ids_alone.node_types[0].digests.classes = None;
    assert!(TrainedOn::is_told_by(&ids_alone));
    // Classes of nodes do not matter to models for links and edges.
    let mut relabeled = one.clone();
    relabeled.node_types[0].digests.classes = Some("2".into());
    let trained = TrainedOn::new(&one);
    assert_eq!(trained.difference(&relabeled, ReadData { edge_classes: true, ..NOTHING }), None);
    assert!(trained.difference(&relabeled, CLASSES).is_some_and(|what| what.contains("classes")));
}

#[test]
fn held_out_edges_of_a_graph_are_compared_with_the_edges_of_the_training() {
    let all = fake_meta();
    let mut split = all.clone();
    split.edge_types[0].num_edges -= 20;
    split.edge_types[0].held_out = [10, 10];
    let mut grown = split.clone();
    grown.edge_types[0].num_edges += 20;
    let mut other_features = split.clone();
    other_features.edge_types[0].digests.content = Some("other".into());
    other_features.edge_types[0].digests.arrays.insert("features".into(), "other".into());
    let mut other_split = other_features.clone();
    other_split.edge_types[0].digests.arrays.insert("held_out".into(), "other".into());
    let target = EdgeTypeId(0);
    let trained = |meta: &Meta| TrainedOn::new(meta).with_targets(meta, &[target]);
    let name = all.edge_types[0].full_name();
    let text = serde_json::to_string(&trained(&all)).expect("JSON");
    assert_eq!(serde_json::from_str::<TrainedOn>(&text).expect("a description"), trained(&all));
    assert_eq!(trained(&all).trained_on_held_out(&split), Some(name.clone()));
    // The edges that were added since the training may be the held-out ones.
    assert_eq!(trained(&all).trained_on_held_out(&grown), None);
    assert_eq!(trained(&all).other_held_out(&grown), Some(name.clone()));
    assert_eq!(trained(&split).trained_on_held_out(&split), None);
    assert_eq!(trained(&split).other_held_out(&split), None);
    assert_eq!(trained(&split).other_held_out(&other_features), None);
    assert_eq!(trained(&split).other_held_out(&other_split), Some(name.clone()));
    assert_eq!(trained(&split).target_names(&split), [name]);
    // A file of an earlier version tells nothing.
    let old = TrainedOn::new(&all);
    assert_eq!((old.trained_on_held_out(&split), old.other_held_out(&split)), (None, None));
    assert!(old.is_trained_to_score(&all, target, true));
}

#[test]
fn rows_that_updates_have_added_are_no_other_content() {
    let before = fake_meta();
    let name = &before.node_types[0].name;
    let trained = TrainedOn::new(&before);
    assert!(!trained.has_other_content(&before, name));
    let mut after = before.clone();
    let first = after.node_types[0].digests.content.replace("1".into()).expect("a digest");
    assert!(trained.has_other_content(&after, name));
    after.node_types[0].digests.earlier_contents = vec!["2".into(), first];
    assert!(!trained.has_other_content(&after, name));
}

#[test]
fn other_data_of_predicted_labels_is_named() {
    let before = fake_meta();
    let name = &before.node_types[0].name;
    let trained = TrainedOn::new(&before).with_scored_nodes(&before, NodeTypeId(0));
    let text = serde_json::to_string(&trained).expect("JSON");
    assert_eq!(serde_json::from_str::<TrainedOn>(&text).expect("a description"), trained);
    assert_eq!(trained.other_data(&before), None);
    let arrays: Vec<&str> = before.node_types[0].digests.arrays.keys().map(String::as_str).collect();
    assert_eq!(arrays, ["features", "labels", "splits"]);
    // Tables with ids have a digest too.
    let mut after = before.clone();
    after.node_types[0].has_id_map = true;
    let first = after.node_types[0].digests.content.replace("1".into()).expect("a digest");
    let leak = ", so that validation and test data may be among the training data of the model";
    for (kinds, expected, may_leak) in [
        (&["features"][..], "other features than in the training of m, but the same splits", false),
        (&["features", "labels"], "other features and labels than in the training of m, but the same splits", false),
        (&["splits"], "other splits than in the training of m, so that", true),
        (&["features", "labels", "splits"], "other features, labels and splits than in the training of m, so", true),
    ] {
        let mut other = after.clone();
        for kind in kinds {
            other.node_types[0].digests.arrays.insert((*kind).to_owned(), "1".into());
        }
        let found = trained.other_data(&other).expect("other data");
        let note = found.note("m");
        assert!(note.starts_with(&format!("the nodes of type {name} have {expected}")), "{note}");
        assert_eq!((note.ends_with(leak), found.may_be_training_data()), (may_leak, may_leak), "{note}");
    }
    // Parts or files of an earlier version do not tell what differs.
    let mut old_parts = after.clone();
    old_parts.node_types[0].digests.arrays.clear();
    let note = trained.other_data(&old_parts).expect("other data").note("m");
    let unknown =
        format!("the nodes of type {name} have other features, labels, splits or times than in the training of m");
    assert_eq!(note, format!("{unknown}{leak}"));
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    json["node_types"][name].as_object_mut().expect("a type").remove("arrays");
    let old_file: TrainedOn = serde_json::from_value(json).expect("a description");
    assert_eq!(old_file.other_data(&after).expect("other data").note("m"), note);
    assert_eq!(TrainedOn::new(&before).other_data(&after), None, "a file of an earlier version");
    after.node_types[0].digests.arrays.insert("splits".into(), "1".into());
    after.node_types[0].split_sizes = [9, 0, 0];
    assert_eq!(trained.other_data(&after), None, "there is nothing to evaluate");
    after.node_types[0].split_sizes = [9, 9, 9];
    after.node_types[0].digests.earlier_contents = vec![first];
    assert_eq!(trained.other_data(&after), None, "an update has added nodes");
}

#[test]
fn other_graphs_and_other_training_graphs_are_named() {
    let graphs = labeled([3, 5, 5, 8]);
    let trained = TrainedOn::of_graphs(&graphs);
    assert_eq!(trained.other_graphs(&graphs, Some(&[1])), None, "the training graphs are not known");
    let trained = trained.with_training_graphs(&[4, 1]);
    assert_eq!(trained.other_graphs(&graphs, Some(&[1, 4])), None);
    assert_eq!(trained.other_graphs(&graphs, None), None);
    let other_split = trained.other_graphs(&graphs, Some(&[1, 3])).expect("another split");
    assert!(other_split.is_other_split() && other_split.may_be_training_data());
    let other_features = labeled([8, 3, 3, 5]);
    let note = trained.other_graphs(&other_features, None).expect("other features").note("m");
    assert_eq!(note, "the set of graphs has other features than in the training of m");
    let note = trained.other_graphs(&other_features, Some(&[1, 4])).expect("other features").note("m");
    assert_eq!(note, "the set of graphs has other features than in the training of m, but the same splits");
    // A file of an earlier version tells the training graphs alone.
    let mut old = trained.clone();
    old.node_types.values_mut().for_each(|identity| identity.arrays.clear());
    assert_eq!(old.other_graphs(&other_features, Some(&[1, 4])), None);
    assert!(old.other_graphs(&other_features, Some(&[1])).expect("another split").is_other_split());
}

/// Returns two graphs of two nodes each, which have these labels.
fn labeled(labels: [i64; 4]) -> GraphDataset {
    graphs_of(labels, [1, 2, 1, 2])
}

/// Returns two graphs of two nodes and two edges each, which have these labels.
fn graphs_of(labels: [i64; 4], edge_labels: [i64; 4]) -> GraphDataset {
    let dir = tempfile::tempdir().expect("a folder");
    let lines = |values: &[i64]| values.iter().map(|value| format!("{value}\n")).collect::<String>();
    for (what, text) in [
        ("A", "1, 2\n2, 1\n3, 4\n4, 3\n".to_owned()),
        ("graph_indicator", lines(&[1, 1, 2, 2])),
        ("graph_labels", lines(&[1, 2])),
        ("node_labels", lines(&labels)),
        ("edge_labels", lines(&edge_labels)),
    ] {
        std::fs::write(dir.path().join(format!("SET_{what}.txt")), text).expect("a file");
    }
    edgecut_graph::small_graphs::read_tu("SET", dir.path()).expect("graphs")
}

#[test]
fn columns_of_graphs_must_mean_what_they_meant_in_the_training() {
    let graphs = labeled([3, 5, 5, 8]);
    let trained = TrainedOn::of_graphs(&graphs);
    let text = serde_json::to_string(&trained).expect("JSON");
    let trained: TrainedOn = serde_json::from_str(&text).expect("a description");
    assert_eq!(trained.difference_of_graphs(&graphs, CLASSES), None);
    assert_eq!(trained.difference_of_graphs(&labeled([8, 3, 3, 5]), CLASSES), None);
    // As many labels, but another one.
    let what = trained.difference_of_graphs(&labeled([3, 5, 5, 6]), CLASSES).expect("another label");
    assert!(what.starts_with("column 2 of nodes was \"label 8\" in its training, and is \"label 6\""), "{what}");
    let what = trained.difference_of_graphs(&labeled([3, 5, 5, 5]), NOTHING).expect("no such label");
    assert!(what.contains("\"label 8\" in its training, and is \"missing\""), "{what}");
    let what = trained.difference_of_graphs(&labeled([3, 5, 5, 8]).with_degrees_as_labels(), CLASSES).expect("degrees");
    assert!(what.contains("was \"label 3\" in its training, and is \"in-degree 1\""), "{what}");
    // Labels of edges matter to models that read them.
    let bonds = graphs_of([3, 5, 5, 8], [1, 4, 1, 4]);
    let reads = ReadData { edge_features: true, ..CLASSES };
    assert_eq!(trained.difference_of_graphs(&graphs, reads), None);
    assert_eq!(trained.difference_of_graphs(&bonds, CLASSES), None);
    let what = trained.difference_of_graphs(&bonds, reads).expect("another label of edges");
    assert!(what.contains("column 1 of edges was \"label 2\" in its training, and is \"label 4\""), "{what}");
    // A file of an earlier version tells the classes alone.
    let old = TrainedOn { graph_columns: None, ..trained };
    assert_eq!(old.difference_of_graphs(&labeled([3, 5, 5, 6]), CLASSES), None);
}
