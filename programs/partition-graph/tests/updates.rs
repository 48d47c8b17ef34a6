//! `partition-graph update`: the parts are those of all tables with the same assignment, and changes that do not fit fail.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::table_files::{Folder, arrays, contents};
use arrow_array::{ArrayRef, Float64Array, StringArray};
use edgecut_graph::rng::CounterRng;
use edgecut_graph::{DiskPartId, EdgeTypeMeta, Meta, NodeTypeId, Part, Split, TypeDigests};
use edgecut_partition::Balances;
use edgecut_tables::IdMaps;
use parquet::basic::Compression;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};
use std::sync::Arc;

#[derive(Clone, Debug)]
struct User {
    id: String,
    /// Empty if it is missing.
    age: String,
    city: &'static str,
    /// Empty for a user without a label.
    segment: &'static str,
    split: Option<usize>,
}

#[derive(Clone, Debug)]
struct Purchase {
    user: String,
    item: String,
    amount: u64,
    day: u64,
}

/// The tables of a graph.
#[derive(Clone, Debug, Default)]
struct Tables {
    users: Vec<User>,
    items: Vec<(String, u64)>,
    purchases: Vec<Purchase>,
    friends: Vec<[String; 2]>,
    /// The numbers of users and items that there have been, with those that were removed.
    num_ever: [usize; 2],
}

/// The changes of a day.
#[derive(Clone, Debug, Default)]
struct Day {
    /// Changed and new rows.
    rows: Tables,
    removed_users: Vec<String>,
    removed_items: Vec<String>,
    removed_purchases: Vec<[String; 2]>,
}

/// The forms of ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ids {
    Texts,
    Numbers,
    Rows,
    /// Row numbers of parts that have lost nodes.
    FormerRows,
}

const CITIES: [&str; 4] = ["London", "Paris", "", "Rome"];
const SEGMENTS: [&str; 3] = ["new", "regular", ""];

/// A source of random choices.
struct Dice(CounterRng);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    fn user(&mut self, id: String) -> User {
        let segment = SEGMENTS[self.below(3)];
        let split = (!segment.is_empty()).then(|| self.below(4)).filter(|split| *split < 3);
        let age = if self.below(5) == 0 { String::new() } else { self.below(80).to_string() };
        // Rome is not among the categories of the first day.
        User { id, age, city: CITIES[self.below(3)], segment, split }
    }
}

impl Ids {
    fn of(self, node_type: &str, number: usize) -> String {
        match self {
            Self::Texts => format!("{node_type}-{number}"),
            Self::Numbers => (number * 7 + 3).to_string(),
            Self::Rows | Self::FormerRows => number.to_string(),
        }
    }
}

/// Adds nodes and edges to tables, of which `earlier` has the nodes and edges of the parts.
fn add(dice: &mut Dice, ids: Ids, earlier: &Tables, num_users: usize, num_items: usize, num_edges: usize) -> Tables {
    let mut tables = Tables::default();
    for number in 0..num_users {
        tables.users.push(dice.user(ids.of("u", earlier.users.len() + number)));
    }
    for number in 0..num_items {
        tables.items.push((ids.of("i", earlier.items.len() + number), dice.below(100) as u64));
    }
    tables.num_ever = [earlier.num_ever[0] + num_users, earlier.num_ever[1] + num_items];
    let users: Vec<String> = earlier.users.iter().chain(&tables.users).map(|user| user.id.clone()).collect();
    let items: Vec<String> = earlier.items.iter().chain(&tables.items).map(|item| item.0.clone()).collect();
    for _ in 0..num_edges {
        tables.purchases.push(Purchase {
            user: users[dice.below(users.len())].clone(),
            item: items[dice.below(items.len())].clone(),
            amount: dice.below(9) as u64,
            day: dice.below(1000) as u64,
        });
        tables.friends.push([0, 1].map(|_| users[dice.below(users.len())].clone()));
    }
    tables
}

/// Chooses the changes of a day.
fn changes(dice: &mut Dice, ids: Ids, tables: &Tables, removes: bool) -> Day {
    let mut day = Day::default();
    if removes {
        day.removed_users = vec![tables.users[3].id.clone(), tables.users[8].id.clone()];
        day.removed_items = vec![tables.items[1].0.clone()];
        let first = &tables.purchases[5];
        day.removed_purchases = vec![[first.user.clone(), first.item.clone()]];
    }
    let mut kept = tables.clone();
    kept.users.retain(|user| !day.removed_users.contains(&user.id));
    kept.items.retain(|item| !day.removed_items.contains(&item.0));
    // New ids follow the ids of all earlier nodes, also if these were removed.
    let mut rows = add(dice, ids, &kept, 0, 0, 0);
    let [num_users, num_items] = tables.num_ever;
    for number in 0..7 {
        rows.users.push(dice.user(ids.of("u", num_users + number)));
        rows.items.push((ids.of("i", num_items + number), dice.below(100) as u64));
    }
    rows.num_ever = [num_users + 7, num_items + 7];
    let mut all = kept.clone();
    all.users.extend(rows.users.clone());
    all.items.extend(rows.items.clone());
    let edges = add(dice, ids, &all, 0, 0, 40);
    rows.purchases = edges.purchases;
    rows.friends = edges.friends;
    // Some friends come again, in both directions.
    let known = tables.friends.iter().filter(|ends| !ends.iter().any(|user| day.removed_users.contains(user)));
    for [a, b] in known.step_by(5) {
        rows.friends.push([a.clone(), b.clone()]);
        rows.friends.push([b.clone(), a.clone()]);
    }
    if ids != Ids::Rows {
        for at in [0, 4, 9] {
            let known = &kept.users[at];
            let mut changed = dice.user(known.id.clone());
            changed.city = "Rome";
            // A user stays in the split, unless it had no label.
            changed.split = if known.segment.is_empty() { changed.split } else { known.split };
            if changed.segment.is_empty() {
                changed.split = None;
            }
            rows.users.insert(at % 3, changed);
        }
    }
    day.rows = rows;
    day
}

/// Returns the tables after a day.
fn applied(tables: &Tables, day: &Day) -> Tables {
    let mut all = tables.clone();
    all.users.retain(|user| !day.removed_users.contains(&user.id));
    all.items.retain(|item| !day.removed_items.contains(&item.0));
    all.purchases.retain(|purchase| {
        !day.removed_users.contains(&purchase.user)
            && !day.removed_items.contains(&purchase.item)
            && !day.removed_purchases.contains(&[purchase.user.clone(), purchase.item.clone()])
    });
    all.friends.retain(|ends| !ends.iter().any(|user| day.removed_users.contains(user)));
    for row in &day.rows.users {
        match all.users.iter_mut().find(|user| user.id == row.id) {
            // A row without a label keeps the label and the split.
            Some(known) if row.segment.is_empty() => {
                *known = User { segment: known.segment, split: known.split, ..row.clone() };
            }
            Some(known) => *known = row.clone(),
            None => all.users.push(row.clone()),
        }
    }
    all.num_ever = day.rows.num_ever;
    all.items.extend(day.rows.items.clone());
    all.purchases.extend(day.rows.purchases.clone());
    all.friends.extend(day.rows.friends.clone());
    all
}

fn texts(values: impl Iterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn numbers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values.map(|value| value as f64)))
}

/// Writes tables and their configuration `NAME.json`.
fn write(folder: &Folder, name: &str, tables: &Tables, ids: Ids) -> Value {
    let mut users = "id,age,city,segment\n".to_owned();
    let mut splits = [String::new(), String::new(), String::new()];
    for User { id, age, city, segment, split } in &tables.users {
        users += &format!("{id},{age},{city},{segment}\n");
        if let Some(split) = split {
            splits[*split] += &format!("{}\n", if ids == Ids::Texts { format!("{id:?}") } else { id.clone() });
        }
    }
    let mut items = "id,price\n".to_owned();
    tables.items.iter().for_each(|(id, price)| items += &format!("{id},{price}\n"));
    folder.write(&format!("{name}/users.csv"), users);
    folder.write(&format!("{name}/items.csv"), items);
    for (split, text) in ["train", "valid", "test"].into_iter().zip(splits) {
        folder.write(&format!("{name}/{split}.json"), text);
    }
    let purchases = &tables.purchases;
    let columns = vec![
        ("who", texts(purchases.iter().map(|purchase| purchase.user.clone()))),
        ("what", texts(purchases.iter().map(|purchase| purchase.item.clone()))),
        ("amount", numbers(purchases.iter().map(|purchase| purchase.amount))),
        ("day", numbers(purchases.iter().map(|purchase| purchase.day))),
    ];
    folder.write_parquet(&format!("{name}/purchases.parquet"), Compression::SNAPPY, columns);
    let mut friends = "a,b\n".to_owned();
    tables.friends.iter().for_each(|[a, b]| friends += &format!("{a},{b}\n"));
    folder.write(&format!("{name}/friends.csv"), friends);
    let mut user = json!({
        "node_type": "user", "files": format!("{name}/users.csv"),
        "features": [
            {"feature_col": "age", "transform": {"name": "z_score"}, "impute": "mean"},
            {"feature_col": "city", "transform": {"name": "to_categorical"}, "impute": "most_frequent"}
        ],
        "labels": [{"task_type": "classification", "label_col": "segment", "custom_split_filenames":
                    {"train": format!("{name}/train.json"), "valid": format!("{name}/valid.json"), "test": format!("{name}/test.json")}}]
    });
    let mut item = json!({
        "node_type": "item", "files": format!("{name}/items.csv"),
        "features": [{"feature_col": "price", "transform": {"name": "max_min_norm"}, "out_dtype": "float16"}]
    });
    if ids != Ids::Rows {
        user["node_id_col"] = "id".into();
        item["node_id_col"] = "id".into();
    }
    let mut knows = json!({
        "relation": ["user", "knows", "user"], "files": format!("{name}/friends.csv"), "source_id_col": "a", "dest_id_col": "b"
    });
    knows["labels"] = json!([{"task_type": "link_prediction", "split_pct": [0.6, 0.2, 0.2]}]);
    let conf = json!({
        "nodes": [user, item],
        "edges": [
            {"relation": ["user", "buys", "item"], "files": format!("{name}/purchases.parquet"), "source_id_col": "who",
             "dest_id_col": "what", "time_col": "day", "weight_col": "amount",
             "features": [{"feature_col": "amount", "transform": {"name": "log"}}]},
            knows
        ]
    });
    folder.write(&format!("{name}.json"), conf.to_string());
    conf
}

/// Writes the tables and the configuration of a day.
fn write_day(folder: &Folder, name: &str, day: &Day, ids: Ids) {
    let mut conf = write(folder, name, &day.rows, ids);
    let mut removed = Vec::new();
    for (node_type, ids) in [("user", &day.removed_users), ("item", &day.removed_items)] {
        if !ids.is_empty() {
            let file = format!("{name}/removed-{node_type}.csv");
            folder.write(&file, format!("id\n{}\n", ids.join("\n")));
            removed.push(json!({"node_type": node_type, "files": file, "node_id_col": "id"}));
        }
    }
    conf["removed_nodes"] = removed.into();
    if !day.removed_purchases.is_empty() {
        let file = format!("{name}/removed-purchases.csv");
        let lines: Vec<String> = day.removed_purchases.iter().map(|ends| ends.join(",")).collect();
        folder.write(&file, format!("who,what\n{}\n", lines.join("\n")));
        conf["removed_edges"] = json!([{"relation": ["user", "buys", "item"], "files": file, "source_id_col": "who",
                                        "dest_id_col": "what"}]);
    }
    folder.write(&format!("{name}.json"), conf.to_string());
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_partition-graph"))
}

fn update(folder: &Folder, parts: &str, conf: &str, more: &[&str]) -> Output {
    program().arg("update").arg(folder.path(parts)).arg("--conf").arg(folder.path(conf)).args(more).output().unwrap()
}

/// Updates parts, which must succeed, and verifies them. Returns the results.
fn updated(folder: &Folder, parts: &str, conf: &str, more: &[&str]) -> Value {
    let output = update(folder, parts, conf, &[&["--json"], more].concat());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let verified = program().arg("verify").arg(results["path"].as_str().unwrap()).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    results
}

/// Partitions a configuration, which must succeed.
fn partition(folder: &Folder, conf: &str, out: &str, more: &[&str]) {
    let output = folder.command(conf, out, more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Writes the part of each node of the parts `out`, in the order of original ids, as `--assignment` reads it.
fn write_assignment(folder: &Folder, out: &str, to: &str) {
    let meta = Meta::read(&folder.path(out)).unwrap();
    for of_type in &meta.node_types {
        let mut parts = BTreeMap::new();
        for part in 0..meta.num_parts {
            let file = folder.path(&format!("{out}/part_{part}/nodes/{}/original_ids.npy", of_type.name));
            let (_, ids) = edgecut_graph::map_npy::<u32>(&file).unwrap();
            parts.extend(ids.iter().map(|&id| (id, part)));
        }
        let lines: Vec<String> = parts.values().map(ToString::to_string).collect();
        folder.write(&format!("{to}/{}.txt", of_type.name), lines.join("\n"));
    }
}

/// Checks that the updated parts are those of all tables with their assignment.
fn assert_like_all(folder: &Folder, found: &str, all: &str, name: &str) {
    let [found_files, all_files] = [found, all].map(|out| {
        let mut files = contents(&folder.path(out));
        files.remove("META.json");
        files
    });
    for (file, content) in &all_files {
        assert!(found_files.get(file) == Some(content), "{name}: {file} differs");
    }
    assert_eq!(found_files.len(), all_files.len(), "{name}");
    let [found, all] = [found, all].map(|out| Meta::read(&folder.path(out)).unwrap());
    assert_eq!(found.report, all.report, "{name}");
    for (found, all) in found.node_types.iter().zip(&all.node_types) {
        // Only updates record earlier contents.
        let digests = TypeDigests { earlier_contents: Vec::new(), ..found.digests.clone() };
        assert_eq!(digests, all.digests, "{name}: {}", all.name);
        assert_eq!((found.num_classes, found.split_sizes), (all.num_classes, all.split_sizes), "{name}: {}", all.name);
    }
    for (found, all) in found.edge_types.iter().zip(&all.edge_types) {
        assert_eq!((found.num_edges, found.held_out), (all.num_edges, all.held_out), "{name}: {}", all.relation);
        assert_eq!(found.digests.transforms, all.digests.transforms, "{name}: {}", all.relation);
        // The order of edges into different nodes is not stored, and counts if edges have attributes or are held out.
        if all.feature_dim == 0 && all.held_out == [0, 0] {
            assert_eq!(found.digests, all.digests, "{name}: {}", all.relation);
        }
    }
}

/// Updates parts twice, and compares them with parts of all tables.
fn check(mut ids: Ids, parts: &str, removes: bool, seed: u64) {
    let name = format!("{ids:?}-{parts}-{removes}-{seed}");
    let folder = Folder::new();
    let mut dice = Dice(CounterRng::new(seed));
    let mut tables = add(&mut dice, ids, &Tables::default(), 30, 20, 120);
    write(&folder, "monday", &tables, ids);
    partition(&folder, "monday.json", "parts", &["--num-partitions", parts]);
    for day_name in ["tuesday", "wednesday"] {
        let day = changes(&mut dice, ids, &tables, removes);
        write_day(&folder, day_name, &day, ids);
        let before = Meta::read(&folder.path("parts")).unwrap();
        let results = updated(&folder, "parts", &format!("{day_name}.json"), &[]);
        tables = applied(&tables, &day);
        check_counts(&results, &before, &folder, &name);
        if removes && ids == Ids::Rows {
            ids = Ids::FormerRows;
        }
    }
    write(&folder, "all", &tables, ids);
    write_assignment(&folder, "parts", "assignment");
    let transforms = folder.path("parts");
    let assignment = folder.path("assignment");
    let more = ["--num-partitions", parts, "--transforms", transforms.to_str().unwrap(), "--assignment"];
    let mut command = program();
    command.args(["--dataset", "graph", "--conf"]).arg(folder.path("all.json"));
    let output = command.arg("--output-dir").arg(folder.path("all-parts")).args(more).arg(assignment).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_like_all(&folder, "parts", "all-parts", &name);
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap()
}

/// Returns the number of edges of a type with those that are held out.
fn all_edges(of_type: &EdgeTypeMeta) -> u64 {
    of_type.num_edges + of_type.held_out.iter().sum::<u64>()
}

/// Checks that the printed numbers add up, and are those of the parts.
fn check_counts(results: &Value, before: &Meta, folder: &Folder, name: &str) {
    let after = Meta::read(&folder.path("parts")).unwrap();
    let types = before.node_types.iter().zip(&after.node_types);
    for ((before, after), found) in types.zip(results["nodes"].as_array().unwrap()) {
        assert_eq!(number(found, "before"), before.book.num_nodes() as u64, "{name}: {found}");
        assert_eq!(number(found, "after"), after.book.num_nodes() as u64, "{name}: {found}");
        let sum = number(found, "before") - number(found, "removed") + number(found, "new");
        assert_eq!(number(found, "after"), sum, "{name}: {found}");
    }
    let types = before.edge_types.iter().zip(&after.edge_types);
    for ((before, after), found) in types.zip(results["edges"].as_array().unwrap()) {
        assert_eq!(
            (number(found, "before"), number(found, "after")),
            (all_edges(before), all_edges(after)),
            "{name}: {found}"
        );
        let removed =
            number(found, "removed") + number(found, "removed_with_nodes") + number(found, "removed_overlaps");
        assert_eq!(number(found, "after"), number(found, "before") - removed + number(found, "added"), "{found}");
    }
    let balances = Balances::new(&after.report);
    let quality = &results["quality"]["after"];
    assert_eq!(quality["node_balance"], balances.nodes, "{name}");
    assert_eq!(quality["cut_fraction"], after.report.cut_fraction, "{name}");
}

#[test]
fn updated_parts_are_those_of_all_tables() {
    for (seed, ids) in (0..).zip([Ids::Texts, Ids::Numbers, Ids::Rows]) {
        for parts in ["1", "3"] {
            check(ids, parts, false, seed);
        }
    }
    for (seed, ids) in (10..).zip([Ids::Texts, Ids::Numbers, Ids::Rows]) {
        check(ids, "3", true, seed);
    }
}

/// Makes parts of two tables, and returns the folder and the configuration.
fn small_parts(more: &[&str]) -> (Folder, Value) {
    let folder = Folder::new();
    folder.write("n.csv", "id,x,y\na,1,red\nb,2,blue\nc,3,red\nd,4,blue\n");
    folder.write("e.csv", "s,d,w\na,b,1\nb,c,2\nc,d,3\n");
    let conf = json!({
        "nodes": [{"node_type": "n", "files": "n.csv", "node_id_col": "id", "features": [{"feature_col": "x"}],
                   "labels": [{"task_type": "classification", "label_col": "y", "split_pct": [0.5, 0.25, 0.25]}]}],
        "edges": [{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d", "weight_col": "w"}]
    });
    folder.write("graph.json", conf.to_string());
    partition(&folder, "graph.json", "parts", more);
    (folder, conf)
}

/// Updates parts, which must fail and leave them as they were, and returns the error.
fn fails(folder: &Folder, conf: &Value) -> String {
    folder.write("new.json", conf.to_string());
    let before = contents(&folder.path("parts"));
    let output = update(folder, "parts", "new.json", &[]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(contents(&folder.path("parts")) == before, "{stderr}");
    let entries = std::fs::read_dir(folder.path("")).unwrap();
    let left: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".partial")), "{left:?}");
    stderr
}

#[test]
fn tables_that_do_not_fit_the_parts_are_errors() {
    let (folder, conf) = small_parts(&[]);
    folder.write("n.csv", "id,x,y,z\ne,5,red,0\n");
    folder.write("e.csv", "s,d,w\na,e,1\n");
    folder.write("unknown.csv", "id\nq\n");
    folder.write("pairs.csv", "s,d\nb,a\n");
    for (expected, change) in [
        (
            "the features of n are z (no-op), but those of transforms.json are x",
            &(|conf: &mut Value| conf["nodes"][0]["features"][0]["feature_col"] = "z".into()) as &dyn Fn(&mut Value),
        ),
        ("the features of n are x (z_score)", &|conf| {
            conf["nodes"][0]["features"][0]["transform"] = json!({"name": "z_score"});
        }),
        ("nodes[0].node_type: the parts have no node type m", &|conf| conf["nodes"][0]["node_type"] = "m".into()),
        ("edges[0].relation: the parts have no edge type n__too__n (did you mean n__to__n?)", &|conf| {
            conf["edges"][0]["relation"] = json!(["n", "too", "n"]);
        }),
        ("the nodes of type n have ids in the parts: set node_id_col", &|conf| {
            conf["nodes"][0].as_object_mut().unwrap().remove("node_id_col");
        }),
        ("the tables have no weights, but the parts have some", &|conf| {
            conf["edges"][0].as_object_mut().unwrap().remove("weight_col");
        }),
        ("the tables have times, but the parts have none", &|conf| conf["edges"][0]["time_col"] = "w".into()),
        ("removed_nodes[0].node_type: the parts have no node type m", &|conf| {
            conf["removed_nodes"] = json!([{"node_type": "m", "files": "unknown.csv", "node_id_col": "id"}]);
        }),
        ("there is no n with the id q", &|conf| {
            conf["removed_nodes"] = json!([{"node_type": "n", "files": "unknown.csv", "node_id_col": "id"}]);
        }),
        ("removed_edges[0]: 1 edges do not exist, such as n__to__n from b to a", &|conf| {
            conf["removed_edges"] = json!([{"relation": ["n", "to", "n"], "files": "pairs.csv", "source_id_col": "s",
                                            "dest_id_col": "d"}]);
        }),
        ("removed_node: unknown key (did you mean removed_nodes?)", &|conf| conf["removed_node"] = json!([])),
    ] {
        let mut changed = conf.clone();
        change(&mut changed);
        let error = fails(&folder, &changed);
        assert!(error.contains(expected), "{expected}: {error}");
    }
    for (file, content, expected) in [
        ("n.csv", "id,x,y\ne,5,green\n", "the label \"green\" is not one of the known classes"),
        ("n.csv", "id,x,y\na,5,red\na,6,red\n", "the id a of n is that of an earlier row"),
        ("n.csv", "id,x,y\ne,5,red\ne,5,red\n", "the id e of n is that of an earlier row"),
        ("e.csv", "s,d,w\na,zz,1\n", "there is no n with the id zz"),
    ] {
        let before = std::fs::read(folder.path(file)).unwrap();
        folder.write(file, content);
        let error = fails(&folder, &conf);
        assert!(error.contains(expected), "{expected}: {error}");
        folder.write(file, before);
    }
}

#[test]
fn only_updates_remove_rows() {
    let (folder, mut conf) = small_parts(&[]);
    conf["removed_nodes"] = json!([{"node_type": "n", "files": "n.csv", "node_id_col": "id"}]);
    folder.write("graph.json", conf.to_string());
    let error = folder.fails(&[]);
    assert!(error.contains("removed_nodes: only `partition-graph update` removes nodes and edges"), "{error}");
}

#[test]
fn files_of_users_in_parts_stop_an_update() {
    let (folder, conf) = small_parts(&[]);
    folder.write("parts/model.safetensors", "hours of training");
    let error = fails(&folder, &conf);
    assert!(error.contains("model.safetensors") && error.contains("an update replaces the folder"), "{error}");
    assert!(!error.contains("--overwrite"), "{error}");
}

#[test]
fn deferred_features_are_not_updated() {
    let (folder, conf) = small_parts(&["--defer-features"]);
    let error = fails(&folder, &conf);
    assert!(error.contains("the features of part 0 are not built yet"), "{error}");
    folder.built_features("parts", 0);
    folder.built_features("parts", 1);
    let error = fails(&folder, &conf);
    assert!(error.contains("its features are built after the parts, so they cannot be updated"), "{error}");
}

#[test]
fn bad_rows_are_dropped_and_counted() {
    let (folder, mut conf) = small_parts(&[]);
    folder.write("n.csv", "id,x,y\ne,5,red\nf,,red\na,7,\n");
    folder.write("e.csv", "s,d,w\na,e,1\na,f,1\na,zz,1\n");
    folder.write("gone.csv", "id\nb\nq\n");
    conf["removed_nodes"] = json!([{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]);
    folder.write("new.json", conf.to_string());
    let results = updated(&folder, "parts", "new.json", &["--on-bad-rows", "drop"]);
    let nodes = json!([{"node_type": "n", "before": 4, "removed": 1, "changed": 1, "new": 1, "after": 4}]);
    assert_eq!(results["nodes"], nodes);
    let edges = json!([{"edge_type": "n__to__n", "before": 3, "removed": 0, "removed_with_nodes": 2, "removed_overlaps": 0,
                        "added": 1, "after": 2}]);
    assert_eq!(results["edges"], edges);
    let reasons: BTreeSet<&str> =
        results["dropped_rows"].as_array().unwrap().iter().map(|dropped| dropped["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
}

#[test]
fn an_update_without_rows_keeps_all_files() {
    let (folder, _) = small_parts(&[]);
    folder.write("empty.csv", "id,x,y\n");
    let conf = json!({"nodes": [{"node_type": "n", "files": "empty.csv", "node_id_col": "id",
                                 "features": [{"feature_col": "x"}]}]});
    folder.write("new.json", conf.to_string());
    let results = updated(&folder, "parts", "new.json", &["--output-dir", folder.path("same").to_str().unwrap()]);
    assert_eq!(arrays(&folder.path("same")), arrays(&folder.path("parts")));
    assert_eq!(results["quality"]["updates"], 1);
    let scratch = folder.path("");
    let in_files = folder.path("in-files");
    let more = ["--scratch-dir", scratch.to_str().unwrap(), "--output-dir", in_files.to_str().unwrap()];
    updated(&folder, "parts", "new.json", &more);
    assert_eq!(contents(&folder.path("same")), contents(&in_files));
}

/// Partitions the edges of `e.csv`, updates the parts with other edges without node 7, and compares the result with the parts
/// of all edges.
fn check_edges(more: &[&str]) {
    let folder = Folder::new();
    let conf = edges_conf();
    folder.write("graph.json", conf.to_string());
    let mut dice = Dice(CounterRng::new(5));
    let mut pairs = Vec::new();
    for _ in 0..200 {
        pairs.push([0, 1].map(|_| 1000 + dice.below(40)));
    }
    let table = |pairs: &[[usize; 2]]| {
        let lines: String = pairs.iter().map(|[src, dst]| format!("{src},{dst}\n")).collect();
        format!("s,d\n{lines}")
    };
    folder.write("e.csv", table(&pairs[..150]));
    partition(&folder, "graph.json", "parts", more);
    let is_kept = |pair: &&[usize; 2]| !pair.contains(&1007);
    let first: Vec<[usize; 2]> = pairs[..150].iter().filter(is_kept).copied().collect();
    let mut later: Vec<[usize; 2]> = pairs[150..].iter().filter(is_kept).copied().collect();
    // Many edges come again, in both directions.
    for &[src, dst] in &first[..60] {
        later.extend([[src, dst], [dst, src]]);
    }
    folder.write("e.csv", table(&later));
    folder.write("gone.csv", "id\n1007\n");
    let mut changes = conf;
    changes["removed_nodes"] = json!([{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]);
    folder.write("new.json", changes.to_string());
    let results = updated(&folder, "parts", "new.json", &[]);
    assert_eq!(results["nodes"][0]["new"], 0, "all numbers occur among the first edges");
    folder.write("e.csv", table(&[first, later].concat()));
    write_assignment(&folder, "parts", "assignment");
    let assignment = folder.path("assignment");
    let mut command = program();
    command
        .args(["--dataset", "graph", "--num-partitions", "2"])
        .args(more)
        .arg("--conf")
        .arg(folder.path("graph.json"));
    command.arg("--output-dir").arg(folder.path("all")).arg("--assignment").arg(assignment);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_like_all(&folder, "parts", "all", &more.join(" "));
}

/// Returns the configuration of the edges in `e.csv`.
fn edges_conf() -> Value {
    json!({"edges": [{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d"}]})
}

#[test]
fn options_of_the_parts_apply_to_new_edges() {
    for more in [
        &["--to-undirected"][..],
        &["--add-reverse-edges"],
        &["--hold-out-edges", "0.2,0.2"],
        &["--to-undirected", "--hold-out-edges", "0.2,0.2"],
        &["--add-reverse-edges", "--hold-out-edges", "0.2,0.2"],
    ] {
        check_edges(more);
    }
}

/// Opens all parts of a folder.
fn open(folder: &Folder, parts: &str) -> Vec<Part> {
    let dir = folder.path(parts);
    let num_parts = Meta::read(&dir).unwrap().num_parts;
    (0..num_parts).map(|part| Part::open(&dir, DiskPartId(part), true).unwrap()).collect()
}

/// Returns the ids of the first node type's nodes, in the order of their original ids.
fn ids(folder: &Folder) -> Vec<String> {
    let maps = IdMaps::read(&folder.path("parts"), &open(folder, "parts")).unwrap();
    (0..maps.0[0].len() as u32).map(|node| maps.0[0].ids().show(node)).collect()
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

/// Updates parts with a configuration, which must succeed, and returns what the program says.
fn said(folder: &Folder, conf: &Value) -> String {
    folder.write("new.json", conf.to_string());
    let output = update(folder, "parts", "new.json", &[]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    stderr
}

#[test]
fn pairs_of_the_parts_stay_in_their_list() {
    let folder = Folder::new();
    let mut conf = edges_conf();
    let lines: String = (0..30).map(|n| format!("a{n},a{}\n", n + 30)).collect();
    folder.write("e.csv", format!("s,d\n{lines}"));
    folder.write("test.json", "[\"a0\", \"a30\"]\n");
    conf["edges"][0]["labels"] =
        json!([{"task_type": "link_prediction", "custom_split_filenames": {"test": "test.json"}}]);
    folder.write("graph.json", conf.to_string());
    partition(&folder, "graph.json", "parts", &[]);
    // Most pairs would be drawn for the test now.
    conf["edges"][0]["labels"] = json!([{"task_type": "link_prediction", "split_pct": [0.1, 0.0, 0.9]}]);
    let reversed: String = (0..30).map(|n| format!("a{},a{n}\n", n + 30)).collect();
    folder.write("e.csv", format!("s,d\n{lines}{reversed}"));
    folder.write("gone.csv", "id\na3\n");
    folder.write("e2.csv", format!("s,d\n{}{}", lines.replace("a3,a33\n", ""), reversed.replace("a33,a3\n", "")));
    conf["edges"][0]["files"] = "e2.csv".into();
    conf["removed_nodes"] = json!([{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]);
    said(&folder, &conf);
    let of_type = Meta::read(&folder.path("parts")).unwrap().edge_types[0].clone();
    assert_eq!((of_type.num_edges, of_type.held_out), (28 * 3, [0, 3]));
}

#[test]
fn numbers_of_removed_rows_are_not_given_again() {
    let folder = Folder::new();
    folder.write("n.csv", "x\n1\n2\n3\n4\n");
    folder.write("e.csv", "s,d\n0,1\n1,2\n");
    let mut conf = edges_conf();
    conf["nodes"] = json!([{"node_type": "n", "files": "n.csv", "features": [{"feature_col": "x"}]}]);
    folder.write("graph.json", conf.to_string());
    partition(&folder, "graph.json", "parts", &[]);
    let mut day = conf.clone();
    day.as_object_mut().unwrap().remove("edges");
    // The last row is removed, and others follow.
    folder.write("gone.csv", "id\n3\n");
    folder.write("n.csv", "x\n5\n6\n");
    day["removed_nodes"] = json!([{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]);
    said(&folder, &day);
    assert_eq!(ids(&folder), ["0", "1", "2", "4", "5"]);
    let without_rows = json!({"removed_nodes": [{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]});
    folder.write("gone.csv", "id\n5\n4\n");
    said(&folder, &without_rows);
    assert_eq!(ids(&folder), ["0", "1", "2"]);
    // The numbers that are left are 0, 1 and 2, but 3 has been another node.
    day.as_object_mut().unwrap().remove("removed_nodes");
    let error = fails(&folder, &day);
    assert!(error.contains("the nodes of type n have ids in the parts: set node_id_col"), "{error}");
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
    folder.write("graph.json", conf.to_string());
    partition(&folder, "graph.json", "parts", &[]);
    conf.as_object_mut().unwrap().remove("edges");
    for first in [60, 90] {
        folder.write("n.csv", format!("id,x,y,g\n{}", rows(first, first + 30)));
        said(&folder, &conf);
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
    // Parts without groups do not say to which split a group belongs.
    let (folder, mut conf) = small_parts(&[]);
    conf["nodes"][0]["labels"][0]["split_by_group"] = "y".into();
    folder.write("n.csv", "id,x,y\ne,5,red\n");
    let error = fails(&folder, &conf);
    assert!(error.contains("the parts do not record how groups were divided"), "{error}");
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
    let text = said(&folder, &conf);
    assert!(text.contains(expected), "{text}");
    // Rows of nodes are divided among themselves as well.
    let folder = Folder::new();
    let nodes = |first: usize| (first..first + 10).map(|n| format!("n{n},{n},{}\n", n % 2)).collect::<String>();
    folder.write("n.csv", format!("id,t,y\n{}", nodes(0)));
    folder.write("e.csv", "s,d\nn0,n1\n");
    let mut conf = edges_conf();
    conf["nodes"] = json!([{"node_type": "n", "files": "n.csv", "node_id_col": "id", "labels":
        [{"task_type": "classification", "label_col": "y", "split_pct": [0.6, 0.2, 0.2], "split_by": "t"}]}]);
    folder.write("graph.json", conf.to_string());
    partition(&folder, "graph.json", "parts", &[]);
    folder.write("n.csv", format!("id,t,y\n{}", nodes(10)));
    folder.write("e.csv", "s,d\nn0,n11\n");
    let text = said(&folder, &conf);
    assert!(text.contains("split_by divides the 10 new rows among themselves"), "{text}");
}

#[test]
fn relations_are_compared_by_their_three_names() {
    let folder = Folder::new();
    folder.write("e.csv", "s,d\nx,y\n");
    folder.write("none.csv", "s,d\n");
    let edges =
        |relation: [&str; 3]| json!({"relation": relation, "files": "e.csv", "source_id_col": "s", "dest_id_col": "d"});
    folder.write("graph.json", json!({"edges": [edges(["a__b", "c", "d"]), edges(["a", "b__c", "d"])]}).to_string());
    let error = folder.fails(&[]);
    assert!(error.contains("both have the name a__b__c__d in parts: rename one of them"), "{error}");
    folder.write("graph.json", json!({"edges": [edges(["a__b", "c", "d"])]}).to_string());
    partition(&folder, "graph.json", "parts", &[]);
    for key in ["edges", "removed_edges"] {
        let error = fails(&folder, &json!({key: [edges(["a", "b__c", "d"])]}));
        assert!(error.contains(r#"no edge type a__b__c__d of ["a", "b__c", "d"], but ["a__b", "c", "d"]"#), "{error}");
    }
}

#[test]
fn edges_name_no_new_nodes_of_a_type_with_a_table() {
    let folder = Folder::new();
    folder.write("n.csv", "id\na\nb\n");
    folder.write("e.csv", "s,d\na,b\n");
    let mut conf = edges_conf();
    conf["nodes"] = json!([{"node_type": "n", "files": "n.csv", "node_id_col": "id"}]);
    folder.write("graph.json", conf.to_string());
    partition(&folder, "graph.json", "parts", &[]);
    folder.write("e.csv", "s,d\na,bb\n");
    let error = fails(&folder, &edges_conf());
    assert!(error.contains("there is no n with the id bb"), "{error}");
    folder.write("n.csv", "id\nbb\n");
    said(&folder, &conf);
    folder.write("e.csv", "s,d\na,c\n");
    let error = fails(&folder, &edges_conf());
    assert!(error.contains("there is no n with the id c"), "{error}");
}

#[test]
fn reverse_types_follow_their_types() {
    let (folder, conf) = small_parts(&["--add-reverse-edges"]);
    for key in ["edges", "removed_edges"] {
        let mut table = conf["edges"][0].clone();
        table["relation"] = json!(["n", "rev_to", "n"]);
        if key == "removed_edges" {
            table.as_object_mut().unwrap().remove("weight_col");
        }
        let error = fails(&folder, &json!({key: [table]}));
        assert!(error.contains(r#"are the reverses of ["n", "to", "n"]"#), "{error}");
    }
}

#[test]
fn a_table_of_features_without_ids_is_an_error() {
    let (folder, mut conf) = small_parts(&[]);
    folder.write("ids.csv", "id\n");
    folder.write("n.csv", "x\n7\n");
    conf["nodes"] = json!([{"node_type": "n", "files": "ids.csv", "node_id_col": "id"},
                           {"node_type": "n", "files": "n.csv", "features": [{"feature_col": "x"}]}]);
    conf.as_object_mut().unwrap().remove("edges");
    let error = fails(&folder, &conf);
    assert!(error.contains("the table nodes[1] has 1 rows, but an earlier table of the same type has 0"), "{error}");
}

#[test]
fn a_missing_undirected_edge_counts_once_and_names_its_table() {
    let (folder, _) = small_parts(&["--to-undirected"]);
    folder.write("gone.csv", "s,d\nd,c\nd,a\n");
    let removed = json!({"removed_edges": [{"relation": ["n", "to", "n"], "files": "gone.csv", "source_id_col": "s",
                                            "dest_id_col": "d"}]});
    let error = fails(&folder, &removed);
    assert!(error.contains("removed_edges[0]: 1 edges do not exist, such as n__to__n from d to a"), "{error}");
    let results = updated(&folder, "parts", "new.json", &["--on-bad-rows", "drop"]);
    assert_eq!((&results["missing_edges"], &results["edges"][0]["removed"]), (&json!(1), &json!(2)));
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
    let text = said(&folder, &conf);
    assert!(text.contains("2 entries of split files name nodes that stay in another split, or in none"), "{text}");
    folder.write("n.csv", "id,x,y\ng,5,red\n");
    folder.write("test.json", "\"h\"\n");
    let error = fails(&folder, &conf);
    assert!(error.contains("h: there is no such node"), "{error}");
    folder.write("test.json", "\"e\"\n");
    let error = said(&folder, &conf);
    assert!(error.contains("1 entries of split files name nodes that stay in another split, or in none"), "{error}");
    // Edges of the parts are not among the edges of the update.
    let edges = json!([{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d",
                        "weight_col": "w", "labels": [{"task_type": "link_prediction",
                                                       "custom_split_filenames": {"test": "edges.json"}}]}]);
    folder.write("e.csv", "s,d,w\na,c,1\n");
    folder.write("edges.json", "[\"a\", \"b\"]\n");
    let error = fails(&folder, &json!({"edges": edges}));
    assert!(
        error.contains("no edge of this update joins these nodes; edges of the parts stay in their split"),
        "{error}"
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
    folder.write("n.csv", "id,x,y\nf,5,red\n");
    folder.write("test.json", "\"e\"\n");
    let error = fails(&folder, &conf);
    assert!(error.contains("e: no row of this update has this node"), "{error}");
}

#[test]
fn features_of_arrays_have_no_transforms_for_rows() {
    let folder = Folder::new();
    let mut command = program();
    command.args(["--dataset", "fake", "--avg-num-nodes", "60", "--num-partitions", "2", "--output-dir"]);
    assert!(command.arg(folder.path("parts")).output().unwrap().status.success());
    let name = Meta::read(&folder.path("parts")).unwrap().node_types[0].name.clone();
    folder.write("n.csv", "x\n1\n");
    let conf = json!({"nodes": [{"node_type": name, "files": "n.csv", "features": [{"feature_col": "x"}]}]});
    let error = fails(&folder, &conf);
    assert!(error.contains("are from arrays, and have no transforms for rows of tables"), "{error}");
    folder.write("n.csv", "id\n59\n");
    said(&folder, &json!({"removed_nodes": [{"node_type": name, "files": "n.csv", "node_id_col": "id"}]}));
}

#[test]
fn contents_of_first_rows_are_recorded() {
    let (folder, mut conf) = small_parts(&[]);
    let digests = || Meta::read(&folder.path("parts")).unwrap().node_types[0].digests.clone();
    let first = digests();
    assert!(first.earlier_contents.is_empty());
    conf.as_object_mut().unwrap().remove("edges");
    for id in ["e", "f"] {
        folder.write("n.csv", format!("id,x,y\n{id},5,red\n"));
        said(&folder, &conf);
    }
    let after = digests();
    assert_eq!((after.earlier_contents.len(), after.earlier_contents.first()), (2, first.content.as_ref()));
    folder.write("n.csv", "id,x,y\na,7,red\n");
    said(&folder, &conf);
    assert!(digests().earlier_contents.is_empty(), "a row was changed");
}

#[test]
fn new_nodes_go_to_the_part_of_their_neighbors() {
    let folder = Folder::new();
    // Two rings, a part each.
    let ring =
        |first: usize| (0..100).map(|n| format!("{},{}\n", first + n, first + (n + 1) % 100)).collect::<String>();
    folder.write("e.csv", format!("s,d\n{}{}", ring(0), ring(200)));
    let conf =
        json!({"edges": [{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d"}]});
    folder.write("graph.json", conf.to_string());
    let assignment: String = (0..200).map(|n| if n < 100 { "0\n" } else { "1\n" }).collect();
    folder.write("assignment.txt", assignment);
    let mut command = program();
    command.args(["--dataset", "graph", "--num-partitions", "2", "--conf"]).arg(folder.path("graph.json"));
    command.arg("--output-dir").arg(folder.path("parts")).arg("--assignment").arg(folder.path("assignment.txt"));
    assert!(command.output().unwrap().status.success());
    // 500 has two neighbors in the second part. 501 and 502 have only each other and 500.
    folder.write("e.csv", "s,d\n500,205\n206,500\n500,3\n501,502\n501,500\n");
    let results = updated(&folder, "parts", "graph.json", &[]);
    assert_eq!(results["quality"]["partitioned"]["cut_fraction"], 0.0);
    let meta = Meta::read(&folder.path("parts")).unwrap();
    assert_eq!(meta.report.cut_edges, 1, "{:?}", meta.report);
    let bounds: Vec<u64> = meta.node_types[0].book.clone().into();
    assert_eq!(bounds, [0, 100, 203]);
    // Edges between the parts are a reason to partition again.
    let across: String = (0..20).map(|n| format!("{n},{}\n", 200 + n)).collect();
    folder.write("e.csv", format!("s,d\n{across}"));
    let output = update(&folder, "parts", "graph.json", &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("partition again: the cut is"), "{text}");
    let results = updated(&folder, "parts", "graph.json", &[]);
    assert_eq!(results["quality"]["updates"], 3);
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
    let mut command = program();
    command.args(["--dataset", "graph", "--num-partitions", "2", "--conf"]).arg(folder.path("graph.json"));
    command.arg("--output-dir").arg(folder.path("all")).arg("--assignment").arg(folder.path("assignment"));
    assert!(command.output().unwrap().status.success());
    let mut found = arrays(&folder.path("parts"));
    let mut all = arrays(&folder.path("all"));
    // The new edges are divided on their own.
    found.retain(|name, _| !name.ends_with("/splits.npy"));
    all.retain(|name, _| !name.ends_with("/splits.npy"));
    assert!(found == all, "{:?}", found.keys());
    assert_eq!(split_sizes(&folder), [48, 6, 6]);
    folder.write("e.csv", "s,d,y\n0,1,2\n");
    let error = fails(&folder, &conf);
    assert!(error.contains("the tables have the class 2, but the parts have 2 classes"), "{error}");
    conf["edges"][0].as_object_mut().unwrap().remove("labels");
    folder.write("graph.json", conf.to_string());
    updated(&folder, "parts", "graph.json", &[]);
    assert_eq!(split_sizes(&folder), [48, 6, 6], "an edge without a label is in no split");
}
