//! `partition-graph update`: rows are divided by the rules of the parts, and stay in their splits.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::corruption::edit_meta;
use crate::table_files::{Folder, arrays, contents, with};
use crate::update_rules::{fails, ids, open, said, small_parts};
use crate::updates::{edges_conf, partition, partition_as, updated, write_assignment};
use edgecut_graph::{Meta, NodeTypeId, Split, TRANSFORMS_FILE, checksum};
use edgecut_testing::assert_has;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn pairs_of_the_parts_stay_in_their_list() {
    let folder = Folder::new();
    let mut conf = edges_conf();
    let lines: String = (0..30).map(|n| format!("a{n},a{}\n", n + 30)).collect();
    folder.write("e.csv", format!("s,d\n{lines}")).write("test.json", "[\"a0\", \"a30\"]\n");
    conf["edges"][0]["labels"] =
        json!([{"task_type": "link_prediction", "custom_split_filenames": {"test": "test.json"}}]);
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    forget_rules(&folder);
    // Most pairs would be drawn for the test now.
    conf["edges"][0]["labels"] = json!([{"task_type": "link_prediction", "split_pct": [0.1, 0.0, 0.9]}]);
    let reversed: String = (0..30).map(|n| format!("a{},a{n}\n", n + 30)).collect();
    folder.write("e.csv", format!("s,d\n{lines}{reversed}")).write("gone.csv", "id\na3\n");
    folder.write("e2.csv", format!("s,d\n{}{}", lines.replace("a3,a33\n", ""), reversed.replace("a33,a3\n", "")));
    conf["edges"][0]["files"] = "e2.csv".into();
    conf["removed_nodes"] = json!([{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]);
    said(&folder, &conf);
    assert_eq!(edge_counts(&folder), (28 * 3, [0, 3]));
}

#[test]
fn pairs_that_files_hold_out_stay_in_their_list() {
    let folder = Folder::new();
    let mut conf = edges_conf();
    let lines: String = (0..30).map(|n| format!("a{n},a{}\n", n + 30)).collect();
    let listed: String = (0..10).map(|n| format!("[\"a{n}\", \"a{}\"]\n", n + 30)).collect();
    folder.write("e.csv", format!("s,d\n{lines}")).write("test.json", listed);
    let by_files = json!([{"task_type": "link_prediction", "custom_split_filenames": {"test": "test.json"}}]);
    conf["edges"][0]["labels"] = by_files.clone();
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    let reversed: String = (0..30).map(|n| format!("a{},a{n}\n", n + 30)).collect();
    folder.write("e.csv", format!("s,d\n{reversed}"));
    conf["edges"][0].as_object_mut().unwrap().remove("labels");
    said(&folder, &conf);
    assert_eq!(edge_counts(&folder), (40, [0, 20]));
    // Lists of the update come beside the lists of the parts.
    folder.write("e.csv", format!("s,d\n{lines}a0,a1\na1,a2\n")).write("test.json", "[\"a0\", \"a1\"]\n");
    conf["edges"][0]["labels"] = by_files;
    said(&folder, &conf);
    assert_eq!(edge_counts(&folder), (40 + 20 + 1, [0, 20 + 10 + 1]));
}

/// Returns the numbers of training edges, and of validation and test edges, of the first edge type.
fn edge_counts(folder: &Folder) -> (u64, [u64; 2]) {
    let of_type = &Meta::read(&folder.path("parts")).unwrap().edge_types[0];
    (of_type.num_edges, of_type.held_out)
}

#[test]
fn a_row_without_a_label_keeps_the_split() {
    let (folder, conf) = small_parts(&[]);
    let before = splits(&folder);
    folder.write("n.csv", "id,x,y\na,1,\nb,2,\nc,3,\nd,4,\n");
    let mut nodes = conf.clone();
    nodes.as_object_mut().unwrap().remove("edges");
    said(&folder, &nodes);
    assert_eq!(splits(&folder), before);
    folder.write("n.csv", "id,x,y\na,1,red\nb,2,blue\nc,3,red\nd,4,red\ne,4,\n");
    said(&folder, &nodes);
    let after = splits(&folder);
    assert!(before.iter().all(|(id, split)| after[id] == *split), "{before:?} {after:?}");
    assert_eq!(after["e"], None);
}

#[test]
fn a_group_stays_in_its_split() {
    let (folder, mut conf) = small_parts(&[]);
    std::fs::remove_dir_all(folder.path("parts")).unwrap();
    let rows =
        |first: usize, last: usize| (first..last).map(|n| format!("n{n},1,red,g{}\n", n % 23)).collect::<String>();
    folder.write("n.csv", format!("id,x,y,g\na,1,blue,a\nb,1,blue,a\nc,1,blue,a\nd,1,blue,a\n{}", rows(0, 60)));
    conf["nodes"][0]["labels"][0]["split_by_group"] = "g".into();
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    conf.as_object_mut().unwrap().remove("edges");
    for first in [60, 90] {
        folder.write("n.csv", format!("id,x,y,g\n{}", rows(first, first + 30)));
        said(&folder, &conf);
        // The second update leaves the rule out.
        let label = conf["nodes"][0]["labels"][0].as_object_mut().unwrap();
        label.retain(|key, _| ["task_type", "label_col"].contains(&key.as_str()));
    }
    let mut of_groups: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (id, split) in splits(&folder) {
        if let Some(number) = id.strip_prefix('n') {
            let group = number.parse::<usize>().unwrap() % 23;
            of_groups.entry(group).or_default().insert(format!("{split:?}"));
        }
    }
    assert!(of_groups.values().all(|splits| splits.len() == 1), "{of_groups:?}");
    let all: BTreeSet<&String> = of_groups.values().flatten().collect();
    assert_eq!(all.len(), 3, "{of_groups:?}");
    // Parts of earlier versions do not say to which split a group belongs.
    let (folder, mut conf) = small_parts(&[]);
    forget_rules(&folder);
    conf["nodes"][0]["labels"][0]["split_by_group"] = "y".into();
    folder.write("n.csv", "id,x,y\ne,5,red\n");
    assert_has(fails(&folder, &conf), &["the parts do not record how groups were divided"]);
}

/// Parts of version 2 record how groups were divided, but not by which column.
#[test]
fn groups_without_a_recorded_rule_need_their_column() {
    let rules = json!({"split_pct": [0.5, 0.3, 0.2], "split_by_group": "g"});
    let folder = Folder::new();
    folder.write("e.csv", "s,d,t\nn1,n2,1\n").write("n.csv", format!("id,y,t,g\n{}", rows_of_groups(0)));
    let conf = conf_of_rules(&rules, None);
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    forget_rules(&folder);
    let path = folder.path("parts/transforms.json");
    assert_has(std::fs::read_to_string(&path).unwrap(), &["group_limits"]);
    folder.write("n.csv", format!("id,y,t,g\n{}", rows_of_groups(60))).write("e.csv", "s,d,t\nn1,n3,1\n");
    for rule in [json!({}), json!({"split_pct": [0.5, 0.3, 0.2]}), json!({"split_by": "t"})] {
        let error = fails(&folder, &conf_of_rules(&rule, None));
        assert!(error.contains("labels[0]: the parts were divided by groups"), "{error}");
        assert!(error.contains("add split_by_group with this column"), "{error}");
    }
    said(&folder, &conf);
    let mut of_groups: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (id, split) in splits(&folder) {
        let number: usize = id[1..].parse().unwrap();
        of_groups.entry(number % 23).or_default().insert(format!("{split:?}"));
    }
    assert!(of_groups.values().all(|splits| splits.len() == 1), "{of_groups:?}");
}

/// Returns rows of nodes of 23 groups, from a number on.
fn rows_of_groups(first: usize) -> String {
    (first..first + 60).map(|n| format!("n{n},{},{n},g{}\n", n % 2, n % 23)).collect()
}

#[test]
fn later_training_edges_are_counted() {
    let folder = Folder::new();
    let mut conf = edges_conf();
    conf["edges"][0]["time_col"] = "t".into();
    folder.write("graph.json", conf.to_string());
    let rows = |first: usize| {
        let lines: String = (0..20).map(|n| format!("a{n},b{n},{}\n", first + n)).collect();
        format!("s,d,t\n{lines}")
    };
    folder.write("e.csv", rows(0));
    partition(&folder, "graph.json", "parts", &["--hold-out-edges", "latest:0.1,0.2"]);
    folder.write("e.csv", rows(20));
    // 14 training edges and 2 validation edges are later than the first test edge of the first day.
    let expected = "16 training or validation edges of n__to__n are later than an edge of a later split";
    assert_has(said(&folder, &conf), &[expected]);
    // Rows of nodes are divided among themselves as well.
    let folder = Folder::new();
    let nodes = |first: usize| (first..first + 10).map(|n| format!("n{n},{n},{}\n", n % 2)).collect::<String>();
    folder.write("n.csv", format!("id,t,y\n{}", nodes(0))).write("e.csv", "s,d\nn0,n1\n");
    let mut conf = edges_conf();
    conf["nodes"] = json!([{"node_type": "n", "files": "n.csv", "node_id_col": "id", "labels":
        [{"task_type": "classification", "label_col": "y", "split_pct": [0.6, 0.2, 0.2], "split_by": "t"}]}]);
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    folder.write("n.csv", format!("id,t,y\n{}", nodes(10))).write("e.csv", "s,d\nn0,n11\n");
    assert_has(said(&folder, &conf), &["split_by divides the 10 new rows among themselves"]);
}

#[test]
fn split_files_of_an_update_may_list_what_the_parts_have() {
    let (folder, mut conf) = small_parts(&[]);
    let before = splits(&folder);
    conf.as_object_mut().unwrap().remove("edges");
    folder.write("n.csv", "id,x,y\ne,5,red\n");
    let lists = |of: &dyn Fn(Split) -> Option<Split>| {
        for split in Split::ALL {
            let listed = before.iter().filter(|(_, found)| found.and_then(of) == Some(split));
            let ids: String = listed.map(|(id, _)| format!("{id:?}\n")).collect();
            folder.write(&format!("{}.json", split.name()), ids);
        }
    };
    let label = &mut conf["nodes"][0]["labels"][0];
    label.as_object_mut().unwrap().remove("split_pct");
    label["custom_split_filenames"] = json!({"train": "train.json", "valid": "valid.json", "test": "test.json"});
    lists(&Some);
    let text = said(&folder, &conf);
    assert!(!text.contains("split files"), "{text}");
    folder.write("n.csv", "id,x,y\nf,5,red\n");
    lists(&|split| Some(if split == Split::Train { Split::Test } else { split }));
    assert_has(said(&folder, &conf), &["2 entries of split files name nodes that stay in another split, or in none"]);
    folder.write("n.csv", "id,x,y\ng,5,red\n").write("test.json", "\"h\"\n");
    assert_has(fails(&folder, &conf), &["h: there is no such node"]);
    folder.write("test.json", "\"e\"\n");
    assert_has(said(&folder, &conf), &["1 entries of split files name nodes that stay in another split, or in none"]);
    // Edges of the parts are not among the edges of the update.
    let edges = json!([{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d",
                        "weight_col": "w", "labels": [{"task_type": "link_prediction",
                                                       "custom_split_filenames": {"test": "edges.json"}}]}]);
    folder.write("e.csv", "s,d,w\na,c,1\n").write("edges.json", "[\"a\", \"b\"]\n");
    assert_has(
        fails(&folder, &json!({"edges": edges})),
        &["no edge of this update joins these nodes; edges of the parts stay in their split"],
    );
}

#[test]
fn known_nodes_in_split_files_need_a_row() {
    let (folder, mut conf) = small_parts(&[]);
    conf.as_object_mut().unwrap().remove("edges");
    folder.write("n.csv", "id,x,y\ne,5,\n");
    said(&folder, &conf);
    let label = &mut conf["nodes"][0]["labels"][0];
    label.as_object_mut().unwrap().remove("split_pct");
    label["custom_split_filenames"] = json!({"test": "test.json"});
    folder.write("n.csv", "id,x,y\nf,5,red\n").write("test.json", "\"e\"\n");
    assert_has(fails(&folder, &conf), &["e: no row of this update has this node"]);
}

/// Makes the parts those of an earlier version, which did not record the rules of splits.
fn forget_rules(folder: &Folder) {
    let path = folder.path("parts").join(TRANSFORMS_FILE);
    let mut saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(saved["version"], 3);
    saved["version"] = 2.into();
    for types in ["node_types", "edge_types"] {
        for (_, of_type) in saved[types].as_object_mut().unwrap() {
            of_type.as_object_mut().unwrap().remove("split");
        }
    }
    let text = saved.to_string();
    std::fs::write(path, &text).unwrap();
    edit_meta(&folder.path("parts"), |meta| {
        meta["files"][TRANSFORMS_FILE] = json!({"bytes": text.len(), "xxh3": checksum(text.as_bytes())});
    });
}

/// Returns the split of each node of the first type, by its id.
fn splits(folder: &Folder) -> BTreeMap<String, Option<Split>> {
    let ids = ids(folder);
    let mut splits: BTreeMap<String, Option<Split>> = ids.iter().map(|id| (id.clone(), None)).collect();
    for part in open(folder, "parts") {
        let nodes = part.nodes(NodeTypeId(0));
        for split in Split::ALL {
            for &row in nodes.splits.get(split).iter() {
                splits.insert(ids[nodes.original_ids[row as usize] as usize].clone(), Some(split));
            }
        }
    }
    splits
}

/// Writes 60 labeled nodes and edges from `first` on, with a time and a group, to `n.csv` and `e.csv`.
fn write_rows(folder: &Folder, first: usize) {
    let nodes = (first..first + 60).map(|n| format!("n{n},{},{n},g{}\n", n % 2, n % 17)).collect::<String>();
    let edges = (first..first + 59).map(|n| format!("n{n},n{},{n}\n", n + 1)).collect::<String>();
    folder.write("n.csv", format!("id,y,t,g\n{nodes}")).write("e.csv", format!("s,d,t\n{edges}"));
}

/// Returns a configuration of labeled nodes with the rule `of_nodes`, whose edges are held out by the rule `of_edges`.
fn conf_of_rules(of_nodes: &Value, of_edges: Option<&Value>) -> Value {
    let mut conf = edges_conf();
    let label = with(json!({"task_type": "classification", "label_col": "y"}), of_nodes);
    conf["nodes"] = json!([{"node_type": "n", "files": "n.csv", "node_id_col": "id", "labels": [label]}]);
    conf["edges"][0]["time_col"] = "t".into();
    if let Some(rule) = of_edges {
        conf["edges"][0]["labels"] = json!([with(json!({"task_type": "link_prediction"}), rule)]);
    }
    conf
}

/// Makes parts of a configuration with rules, and writes the rows of the next day.
fn parts_of_rules(conf: &Value) -> Folder {
    let folder = Folder::new();
    write_rows(&folder, 0);
    partition(folder.with(&conf), "graph.json", "parts", &["--seed", "5"]);
    write_rows(&folder, 60);
    folder
}

#[test]
fn a_rule_that_is_left_out_is_the_rule_of_the_parts() {
    for (of_nodes, of_edges) in [
        (json!({"split_pct": [0.5, 0.3, 0.2]}), json!({"split_pct": [0.5, 0.2, 0.3]})),
        (json!({"split_pct": [0.5, 0.3, 0.2], "split_by_group": "g"}), json!({})),
        (
            json!({"split_pct": [0.5, 0.25, 0.25], "split_by": {"name": "t", "epoch": "s"}}),
            json!({"split_pct": [0.6, 0.2, 0.2], "split_by": "t"}),
        ),
    ] {
        let given = conf_of_rules(&of_nodes, Some(&of_edges));
        let folder = parts_of_rules(&given);
        folder.write("given.json", given.to_string());
        folder.write("left-out.json", conf_of_rules(&json!({}), None).to_string());
        for name in ["given", "left-out"] {
            let out = folder.path(name);
            updated(&folder, "parts", &format!("{name}.json"), &["--output-dir", out.to_str().unwrap()]);
        }
        assert!(contents(&folder.path("given")) == contents(&folder.path("left-out")), "{of_nodes} {of_edges}");
        let after = Meta::read(&folder.path("left-out")).unwrap();
        let before = Meta::read(&folder.path("parts")).unwrap();
        for split in 0..3 {
            assert!(after.node_types[0].split_sizes[split] > before.node_types[0].split_sizes[split], "{of_nodes}");
        }
        for list in 0..2 {
            assert!(after.edge_types[0].held_out[list] > before.edge_types[0].held_out[list], "{of_edges}");
        }
    }
}

#[test]
fn transforms_record_the_whole_rule() {
    let of_nodes = json!({"split_pct": [0.5, 0.25, 0.25], "split_by": {"name": "t", "epoch": "ms"}});
    let folder = parts_of_rules(&conf_of_rules(&of_nodes, Some(&json!({}))));
    let path = folder.path("parts").join(TRANSFORMS_FILE);
    let saved: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let of_nodes = json!({"task": "labels", "split_pct": [0.5, 0.25, 0.25], "seed": 5, "unit": "nanoseconds",
                          "by": {"time": {"name": "t", "form": {"epoch": "ms"}}}});
    assert_eq!(saved["node_types"]["n"]["split"], of_nodes);
    let of_edges = json!({"task": "link_prediction", "split_pct": [0.8, 0.1, 0.1], "by": "random", "seed": 5});
    assert_eq!(saved["edge_types"]["n__to__n"]["split"], of_edges);
}

#[test]
fn another_rule_than_that_of_the_parts_is_an_error() {
    let remedy = "leave the keys of the split out, which keeps the rule of the parts, or partition all tables together";
    let groups = json!({"split_pct": [0.5, 0.3, 0.2], "split_by_group": "g"});
    let folder = parts_of_rules(&conf_of_rules(&groups, None));
    let of_parts = "the parts were divided by split_pct [0.5, 0.3, 0.2] and split_by_group g";
    folder.write("test.json", "\"n61\"\n");
    for (rule, given) in [
        (json!({"split_pct": [0.5, 0.2, 0.3]}), "split_pct [0.5, 0.2, 0.3] at random"),
        (
            json!({"split_pct": [0.5, 0.2, 0.3], "split_by_group": "g"}),
            "split_pct [0.5, 0.2, 0.3] and split_by_group g",
        ),
        (
            json!({"split_pct": [0.5, 0.3, 0.2], "split_by_group": "y"}),
            "split_pct [0.5, 0.3, 0.2] and split_by_group y",
        ),
        (json!({"split_pct": [0.5, 0.3, 0.2], "split_by": "t"}), "split_pct [0.5, 0.3, 0.2] and split_by t"),
        (json!({"custom_split_filenames": {"test": "test.json"}}), "custom_split_filenames"),
    ] {
        let error = fails(&folder, &conf_of_rules(&rule, None));
        for expected in ["nodes[0].labels[0]: the rule of its split is ", given, of_parts, remedy] {
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
    // Edges of the parts were not held out.
    let error = fails(&folder, &conf_of_rules(&json!({}), Some(&json!({"split_pct": [0.5, 0.3, 0.2]}))));
    let expected = "its rule is link_prediction with split_pct [0.5, 0.3, 0.2] at random, but the tables of the parts held out no edges";
    assert!(error.contains(expected), "{error}");
    let folder = parts_of_rules(&conf_of_rules(&json!({"split_by": "t"}), Some(&json!({"split_by": "t"}))));
    for (rule, given) in [
        (json!({"split_pct": [0.8, 0.2, 0.0]}), "link_prediction with split_pct [0.8, 0.2, 0.0] "),
        (json!({"split_pct": [0.7, 0.2, 0.1], "split_by": "t"}), "link_prediction with split_pct [0.7, 0.2, 0.1] "),
    ] {
        let error = fails(&folder, &conf_of_rules(&json!({}), Some(&rule)));
        let of_parts = "the parts were divided by link_prediction with split_pct [0.8, 0.1, 0.1] and split_by t";
        assert!(error.contains(given) && error.contains(of_parts) && error.contains(remedy), "{error}");
    }
    // Times of another unit have another meaning.
    folder.write("n.csv", "id,y,t\nn61,1,2020-01-31\n").write("e.csv", "s,d,t\n");
    assert_has(
        fails(&folder, &conf_of_rules(&json!({}), None)),
        &["split_by: its times are in nanoseconds since 1970, but the parts were divided by times in plain"],
    );
}

#[test]
fn rows_that_lists_leave_out_are_in_no_split() {
    let folder = Folder::new();
    write_rows(&folder, 0);
    folder.write("train.json", "\"n1\"\n\"n2\"\n");
    let conf = conf_of_rules(&json!({"custom_split_filenames": {"train": "train.json"}}), None);
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    write_rows(&folder, 60);
    let error = fails(&folder, &conf_of_rules(&json!({"split_pct": [0.8, 0.1, 0.1]}), None));
    assert!(error.contains("but the parts were divided by custom_split_filenames"), "{error}");
    said(&folder, &conf_of_rules(&json!({}), None));
    assert_eq!(Meta::read(&folder.path("parts")).unwrap().node_types[0].split_sizes, [2, 0, 0]);
}

#[test]
fn parts_without_recorded_rules_are_named_once() {
    let rules = conf_of_rules(&json!({}), Some(&json!({})));
    let folder = parts_of_rules(&rules);
    forget_rules(&folder);
    let text = said(&folder, &rules);
    assert_eq!(text.matches("the parts do not record the rules of their splits").count(), 1, "{text}");
    write_rows(&folder, 120);
    let mut edges = rules;
    edges.as_object_mut().unwrap().remove("nodes");
    edges["edges"][0].as_object_mut().unwrap().remove("labels");
    folder.write("e.csv", "s,d,t\nn1,n5,1\n");
    assert_has(said(&folder, &edges), &["edges[0]: the parts do not record the rules of their splits"]);
}

/// Small updates put every labeled row into a split, and not always the same rows of their tables.
#[test]
fn small_updates_keep_the_shares() {
    let rules = json!({"split_pct": [0.5, 0.25, 0.25]});
    let by_time = json!({"split_pct": [0.5, 0.25, 0.25], "split_by": "t"});
    for rule in [&rules, &by_time] {
        let folder = Folder::new();
        write_rows(&folder, 0);
        let mut conf = conf_of_rules(rule, None);
        conf["edges"][0]["labels"] = json!([with(json!({"task_type": "classification", "label_col": "y"}), rule)]);
        folder.write("e.csv", "s,d,t,y\nn1,n2,0,0\nn2,n3,1,1\nn3,n4,2,0\nn4,n5,3,1\n");
        partition(folder.with(&conf), "graph.json", "parts", &[]);
        let mut edges_before = split_sizes(&folder);
        let mut in_places = [0; 3];
        for day in 0..12 {
            let first = 100 + 3 * day;
            let nodes: String = (first..first + 3).map(|n| format!("n{n},{},{n},g\n", n % 2)).collect();
            let edges: String = (first..first + 3).map(|n| format!("n1,n{n},{n},{}\n", n % 2)).collect();
            folder.write("n.csv", format!("id,y,t,g\n{nodes}")).write("e.csv", format!("s,d,t,y\n{edges}"));
            said(&folder, &conf);
            let found = splits(&folder);
            for place in 0..3 {
                let split = found[&format!("n{}", first + place)].expect("a split");
                in_places[place] += usize::from(split == Split::Train);
            }
            let edges_after = split_sizes(&folder);
            assert_eq!(edges_after.iter().sum::<u64>(), edges_before.iter().sum::<u64>() + 3, "{rule}");
            edges_before = edges_after;
        }
        // At random, each row of the tables is in training on some days only.
        if rule == &rules {
            assert!(in_places.iter().all(|number| (1..12).contains(number)), "{in_places:?}");
        }
        let sizes = Meta::read(&folder.path("parts")).unwrap().node_types[0].split_sizes;
        for sizes in [edges_before, [sizes[0] - 30, sizes[1] - 15, sizes[2] - 15]] {
            assert!(sizes[0] > 6 && sizes[1] > 2 && sizes[2] > 2, "{rule} {sizes:?}");
        }
    }
}

/// The split of a new row follows from its id, whatever else its table has.
#[test]
fn the_split_of_a_new_row_does_not_depend_on_other_rows() {
    let conf = conf_of_rules(&json!({"split_pct": [0.5, 0.25, 0.25]}), None);
    let mut found = Vec::new();
    for is_reversed in [false, true] {
        let folder = parts_of_rules(&conf);
        let mut rows: Vec<String> = (60..90).map(|n| format!("n{n},{},{n},g\n", n % 2)).collect();
        if is_reversed {
            rows.truncate(20);
            rows.reverse();
        }
        folder.write("n.csv", format!("id,y,t,g\n{}", rows.concat())).write("e.csv", "s,d,t\nn1,n2,1\n");
        said(&folder, &conf);
        let mut of_rows = splits(&folder);
        of_rows.retain(|id, _| (60..80).any(|n| *id == format!("n{n}")));
        found.push(of_rows);
    }
    assert_eq!(found[0].len(), 20);
    assert_eq!(found[0], found[1]);
}

/// Returns the sizes of the splits of the first edge type.
fn split_sizes(folder: &Folder) -> [u64; 3] {
    Meta::read(&folder.path("parts")).unwrap().edge_types[0].labels.unwrap().split_sizes
}

#[test]
fn labels_of_edges_are_kept_and_added() {
    let folder = Folder::new();
    let mut conf = json!({"edges": [{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d",
                                     "labels": [{"task_type": "classification", "label_col": "y"}]}]});
    folder.write("graph.json", conf.to_string());
    let lines: Vec<String> = (0..60).map(|at| format!("{},{},{}", at % 10, at * 7 % 10, at / 3 % 2)).collect();
    folder.write("e.csv", format!("s,d,y\n{}\n", lines[..40].join("\n")));
    partition(&folder, "graph.json", "parts", &[]);
    folder.write("e.csv", format!("s,d,y\n{}\n", lines[40..].join("\n")));
    updated(&folder, "parts", "graph.json", &[]);
    write_assignment(&folder, "parts", "assignment");
    folder.write("e.csv", format!("s,d,y\n{}\n", lines.join("\n")));
    partition_as(&folder, "graph.json", "all", &["--num-partitions", "2"]);
    let mut found = arrays(&folder.path("parts"));
    let mut all = arrays(&folder.path("all"));
    // The new edges are divided on their own.
    found.retain(|name, _| !name.ends_with("/splits.npy"));
    all.retain(|name, _| !name.ends_with("/splits.npy"));
    assert!(found == all, "{:?}", found.keys());
    let sizes = split_sizes(&folder);
    assert_eq!(sizes.iter().sum::<u64>(), 60);
    folder.write("e.csv", "s,d,y\n0,1,2\n");
    assert_has(fails(&folder, &conf), &["the tables have the class 2, but the parts have 2 classes"]);
    conf["edges"][0].as_object_mut().unwrap().remove("labels");
    folder.write("graph.json", conf.to_string());
    updated(&folder, "parts", "graph.json", &[]);
    assert_eq!(split_sizes(&folder), sizes, "an edge without a label is in no split");
}
