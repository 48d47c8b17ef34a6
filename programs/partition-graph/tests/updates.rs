//! `partition-graph update`: the parts are those of all tables with the same assignment, and changes that do not fit fail.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::table_files::{Folder, contents};
use arrow_array::{ArrayRef, Float64Array, StringArray};
use edgecut_graph::rng::CounterRng;
use edgecut_graph::{EdgeTypeMeta, Meta, TypeDigests};
use edgecut_partition::Balances;
use edgecut_testing::{assert_has, succeeded};
use parquet::basic::Compression;
use serde_json::{Value, json};
use std::collections::BTreeMap;
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
    folder.write(&format!("{name}/users.csv"), users).write(&format!("{name}/items.csv"), items);
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

pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_partition-graph"))
}

pub(crate) fn update(folder: &Folder, parts: &str, conf: &str, more: &[&str]) -> Output {
    program().arg("update").arg(folder.path(parts)).arg("--conf").arg(folder.path(conf)).args(more).output().unwrap()
}

/// Updates parts, which must succeed, and verifies them. Returns the results.
pub(crate) fn updated(folder: &Folder, parts: &str, conf: &str, more: &[&str]) -> Value {
    let output = update(folder, parts, conf, &[&["--json"], more].concat());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    succeeded(program().arg("verify").arg(results["path"].as_str().unwrap()).output().unwrap());
    results
}

/// Partitions a configuration, which must succeed.
pub(crate) fn partition(folder: &Folder, conf: &str, out: &str, more: &[&str]) {
    succeeded(folder.command(conf, out, more).output().unwrap());
}

/// Partitions a configuration by the assignment in the folder `assignment`.
pub(crate) fn partition_as(folder: &Folder, conf: &str, out: &str, more: &[&str]) {
    let mut command = program();
    command.args(["--dataset", "graph", "--conf"]).arg(folder.path(conf)).arg("--output-dir").arg(folder.path(out));
    succeeded(command.arg("--assignment").arg(folder.path("assignment")).args(more).output().unwrap());
}

/// Writes the part of each node of the parts `out`, in the order of original ids, as `--assignment` reads it.
pub(crate) fn write_assignment(folder: &Folder, out: &str, to: &str) {
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
pub(crate) fn assert_like_all(folder: &Folder, found: &str, all: &str, name: &str) {
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
    let more = ["--num-partitions", parts, "--transforms", transforms.to_str().unwrap()];
    partition_as(&folder, "all.json", "all-parts", &more);
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
    folder.write("e.csv", table(&later)).write("gone.csv", "id\n1007\n");
    let mut changes = conf;
    changes["removed_nodes"] = json!([{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]);
    folder.write("new.json", changes.to_string());
    let [scratch, in_files] = ["", "in-files"].map(|name| folder.path(name));
    let of_files = ["--scratch-dir", scratch.to_str().unwrap(), "--output-dir", in_files.to_str().unwrap()];
    updated(&folder, "parts", "new.json", &of_files);
    let results = updated(&folder, "parts", "new.json", &[]);
    assert!(contents(&in_files) == contents(&folder.path("parts")), "in scratch files: {more:?}");
    assert_eq!(results["nodes"][0]["new"], 0, "all numbers occur among the first edges");
    folder.write("e.csv", table(&[first, later].concat()));
    write_assignment(&folder, "parts", "assignment");
    partition_as(&folder, "graph.json", "all", &[&["--num-partitions", "2"], more].concat());
    assert_like_all(&folder, "parts", "all", &more.join(" "));
}

/// Returns the configuration of the edges in `e.csv`.
pub(crate) fn edges_conf() -> Value {
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

#[test]
fn new_nodes_go_to_the_part_of_their_neighbors() {
    let folder = Folder::new();
    // Two rings, a part each.
    let ring =
        |first: usize| (0..100).map(|n| format!("{},{}\n", first + n, first + (n + 1) % 100)).collect::<String>();
    folder.write("e.csv", format!("s,d\n{}{}", ring(0), ring(200)));
    folder.with(&edges_conf());
    let assignment: String = (0..200).map(|n| if n < 100 { "0\n" } else { "1\n" }).collect();
    folder.write("assignment/n.txt", assignment);
    partition_as(&folder, "graph.json", "parts", &["--num-partitions", "2"]);
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
    assert_has(String::from_utf8_lossy(&output.stdout), &["partition again: the cut is"]);
    let results = updated(&folder, "parts", "graph.json", &[]);
    assert_eq!(results["quality"]["updates"], 3);
}
