//! Learned embeddings of nodes with real processes: rows of saved models find their nodes by the ids of tables, and types
//! with features can have embeddings too.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::predict_tables::{
    NUM_USERS, Row, partition_tables, partition_tables_as, partition_tables_with, read_rows, user, write_tables_of,
};
use crate::programs::*;

use edgecut_graph::HoldOut;
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::rng::CounterRng;
use edgecut_tables::{TableOptions, read_tables};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const COLORS: [&str; 3] = ["red", "green", "blue"];

/// The values of users by the ids of their table.
type ById = BTreeMap<String, Vec<f32>>;

/// Returns the embeddings of users as a prediction writes them, and its standard error.
fn rows_of_users(parts: &Path, model: &Path, processes: usize, flags: &[&str]) -> (ById, String) {
    let folder = Folder::new();
    let out = folder.join("out");
    let nproc = processes.to_string();
    let of_users = ["--output", "embedding", "--node-type", "user", "--format", "csv", "--nproc-per-node", &nproc];
    let output = succeeded(predict(parts, model, &out, &[&of_users[..], flags].concat()));
    let rows = read_rows(&out, "predictions", "csv", processes);
    (rows.iter().map(|row| (id_of(row), row.2.clone())).collect(), stderr(&output))
}

/// Returns the id of a row in the tables, or the row number in a graph without such ids.
fn id_of(row: &Row) -> String {
    row.1.first().cloned().unwrap_or_else(|| row.0[0].to_string())
}

/// Returns the line about the match of users.
fn match_of(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("embeddings of user")).collect();
    assert!(lines.len() <= 1, "one line for all ranks: {text}");
    lines.first().map(|line| line.split_once("matched by ").expect("a match").1.to_owned())
}

fn start(task: &str, parts: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(TRAIN);
    command.args([task, "--dataset-root-dir"]).arg(parts).args(["--num-neighbors", "-1,-1", "--hidden-channels", "16"]);
    command.args(["--batch-size", "64", "--dropout", "0", "--lr", "0.01", "--num-epochs", "2", "--json"]).args(flags);
    unplace(&mut command);
    train_or_evaluate(&command)
}

/// The folders of a test: tables, their parts, and a model of `train node` that was trained on two parts of the first
/// tables.
struct Shop {
    folder: Folder,
    user: fn(usize) -> String,
    /// The purchases that are held out. Draws depend on row numbers, so that another order holds out others.
    hold_out: Option<HoldOut>,
}

impl Shop {
    fn new(user: fn(usize) -> String, hold_out: Option<HoldOut>) -> Self {
        let shop = Self { folder: Folder::new(), user, hold_out };
        shop.write(&(0..NUM_USERS).collect::<Vec<_>>(), 2, "parts");
        trained("node", &shop.path("parts"), &shop.path("model"), &[]);
        shop
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes the parts of tables with these users in this order.
    fn write(&self, rows: &[usize], num_parts: u32, name: &str) {
        write_tables_of(self.folder.path(), rows, self.user, COLORS);
        let first = Some(self.path("parts")).filter(|path| path.exists());
        let path = self.path(name);
        partition_tables_with(self.folder.path(), num_parts, first.as_deref(), self.hold_out, &path);
    }
}

fn descending_number(n: usize) -> String {
    (1000 - 7 * n as i64).to_string()
}

fn row_number(n: usize) -> String {
    n.to_string()
}

/// Returns the users in another order.
fn shuffled() -> Vec<usize> {
    (0..NUM_USERS).map(|n| (n * 37 + 11) % NUM_USERS).collect()
}

const ALL_KNOWN: &str = "the ids of the table: 60 nodes known, 0 new, 0 saved rows gone";

/// Returns a shop with parts of shuffled users, who have their saved embeddings, and these embeddings.
fn shuffled_shop(user: fn(usize) -> String) -> (Shop, ById) {
    let shop = Shop::new(user, None);
    let model = shop.path("model");
    let (expected, text) = rows_of_users(&shop.path("parts"), &model, 1, &["--layer", "0"]);
    assert_eq!(match_of(&text), None, "nothing to tell of the same nodes");
    assert_eq!(expected.len(), NUM_USERS);
    shop.write(&shuffled(), 3, "shuffled");
    for processes in [1, 4] {
        let (found, text) = rows_of_users(&shop.path("shuffled"), &model, processes, &["--layer", "0"]);
        assert_eq!(match_of(&text).as_deref(), Some(ALL_KNOWN));
        assert!(found == expected, "{processes} processes");
    }
    (shop, expected)
}

#[test]
fn shuffled_tables_find_the_rows_of_a_saved_model_by_their_ids() {
    for user in [user as fn(usize) -> String, descending_number] {
        shuffled_shop(user);
    }
    // These ids are row numbers in the order of the training.
    let (shop, expected) = shuffled_shop(row_number);
    let model = shop.path("model");
    let (last_layer, _) = rows_of_users(&shop.path("parts"), &model, 1, &[]);
    let (found, _) = rows_of_users(&shop.path("shuffled"), &model, 2, &[]);
    for (id, values) in &last_layer {
        assert_close(&found[id], values, id);
    }
    // The evaluation reads all neighbors, so that row numbers change nothing.
    let load = ["--load-model", model.to_str().expect("UTF-8")];
    let [before, after] = ["parts", "shuffled"].map(|parts| start("node", &shop.path(parts), &load));
    assert_eq!(match_of(&stderr(&after)).as_deref(), Some(ALL_KNOWN));
    assert_same(&json_of(&before), &json_of(&after), &["test_acc"]);
    // A training that starts from the model, with frozen embeddings.
    let next = shop.path("next");
    let flags = ["--init-from", model.to_str().expect("UTF-8"), "--freeze", "embeddings", "--nproc-per-node", "2"];
    let save = ["--save-model", next.to_str().expect("UTF-8")];
    let output = succeeded(start("node", &shop.path("shuffled"), &[&flags[..], &save].concat()));
    assert_eq!(match_of(&stderr(&output)).as_deref(), Some(ALL_KNOWN));
    let (found, text) = rows_of_users(&shop.path("parts"), &next, 2, &["--layer", "0"]);
    assert!(found == expected, "the model of the shuffled users on the first ones");
    assert_eq!(match_of(&text).as_deref(), Some(ALL_KNOWN));
}

#[test]
fn new_users_start_as_asked_and_users_that_are_gone_are_dropped() {
    let shop = Shop::new(user, None);
    let model = shop.path("model");
    let (saved, _) = rows_of_users(&shop.path("parts"), &model, 1, &["--layer", "0"]);
    // The first ten users are gone, and six are new.
    let mut rows: Vec<usize> = shuffled().into_iter().filter(|&n| n >= 10).collect();
    (0..6).for_each(|n| rows.insert(n * 7, NUM_USERS + n));
    shop.write(&rows, 3, "changed");
    let mut mean = vec![0.0_f64; 16];
    for values in saved.values() {
        mean.iter_mut().zip(values).for_each(|(mean, value)| *mean += f64::from(*value) / NUM_USERS as f64);
    }
    let mean: Vec<f32> = mean.into_iter().map(|value| value as f32).collect();
    for (flags, start, processes) in
        [(&[][..], "mean", 1), (&["--new-embeddings", "mean"], "mean", 4), (&["--new-embeddings", "zero"], "zero", 4)]
    {
        let flags = [flags, &["--layer", "0"]].concat();
        let (found, text) = rows_of_users(&shop.path("changed"), &model, processes, &flags);
        let line = format!("the ids of the table: 50 nodes known, 6 new (start: {start}), 10 saved rows gone");
        assert_eq!(match_of(&text), Some(line));
        assert_eq!(found.len(), 56);
        for n in 10..NUM_USERS + 6 {
            let id = user(n);
            match saved.get(&id) {
                Some(values) => assert!(found[&id] == *values, "{id}"),
                None if start == "zero" => assert!(found[&id].iter().all(|value| *value == 0.0), "{id}"),
                None => assert_close(&found[&id], &mean, &id),
            }
        }
    }
    // In a training new users begin as in a training of their own, which depends on the seed.
    let flags = ["--init-from", model.to_str().expect("UTF-8"), "--num-epochs", "1"];
    let output = succeeded(start("node", &shop.path("changed"), &flags));
    let line = "the ids of the table: 50 nodes known, 6 new (start: random), 10 saved rows gone";
    assert_eq!(match_of(&stderr(&output)).as_deref(), Some(line));
    let text = model.to_str().expect("UTF-8");
    for (flags, what) in [
        (&["--new-embeddings", "zero"][..], "--new-embeddings has no effect without a saved model"),
        (&["--new-embeddings", "one", "--load-model", text], "one"),
        (&["--load-model", text, "--node-embeddings", "item"], "--node-embeddings"),
        (&["--node-embeddings", "shop"], "names node type shop, which does not exist: choose one of item, user"),
        (&["--node-embeddings", "item=4", "--node-embeddings", "item"], "names node type item twice"),
        (&["--node-embeddings", "item=0"], "write TYPE=DIM"),
    ] {
        assert_error(&start("node", &shop.path("changed"), flags), &[what]);
    }
    // Rows of new users are random by the seed, and a start without any effect is refused.
    let [one, again, other] = ["1", "1", "2"].map(|seed| {
        let flags = ["--layer", "0", "--new-embeddings", "random", "--seed", seed];
        rows_of_users(&shop.path("changed"), &model, 2, &flags).0
    });
    assert!(one == again && one[&user(10)] == other[&user(10)], "known users have their rows");
    assert!(one[&user(NUM_USERS)] != other[&user(NUM_USERS)], "new users have rows by the seed");
    let flags = ["--init-from", text, "--new-embeddings", "mean", "--node-embeddings", "user=4"];
    assert_error(&start("node", &shop.path("changed"), &flags), &["no embeddings of the saved model fit this model"]);
    // A run that continues needs neither the model of its start nor the flags.
    let checkpoints = shop.path("checkpoints").to_str().expect("UTF-8").to_owned();
    let stored = ["--checkpoint-dir", &checkpoints];
    let first = ["--init-from", text, "--new-embeddings", "zero", "--num-epochs", "1"];
    let gone = ["--init-from", "gone", "--new-embeddings", "zero", "--num-epochs", "3", "--resume"];
    for flags in [&first[..], &["--num-epochs", "2", "--resume"], &gone] {
        let output = start("node", &shop.path("changed"), &[flags, &stored].concat());
        assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
    }
    let mut table = program();
    table.args(["predict", "--output", "table", "--new-embeddings", "zero", "--load-model", text, "--out"]);
    assert_error(&run(table.arg(shop.path("out"))), &["--new-embeddings applies to"]);
}

/// The number of people whose embeddings are trained, and the followers of people who come later. Two of these have no
/// follower whom the model knows.
const NUM_PEOPLE: usize = 40;
const FOLLOWERS: [&[usize]; 4] = [&[1, 2, 3, 3], &[40, 5], &[40], &[]];

/// Writes tables of people in an order, and of follows among them.
fn write_people(dir: &Path, rows: &[usize]) {
    let people: String = rows.iter().map(|n| format!("p{n},{}\n", ["a", "b"][n % 2])).collect();
    let mut pairs = Vec::new();
    for person in 0..NUM_PEOPLE {
        pairs.extend([((person * 3 + 1) % NUM_PEOPLE, person), ((person * 7 + 2) % NUM_PEOPLE, person)]);
    }
    for (at, followers) in FOLLOWERS.iter().enumerate() {
        pairs.extend(followers.iter().map(|&follower| (follower, NUM_PEOPLE + at)));
    }
    pairs.retain(|(src, dst)| rows.contains(src) && rows.contains(dst));
    let follows: String = pairs.into_iter().zip(0..).map(|((src, dst), at)| format!("p{src},p{dst},{at}\n")).collect();
    std::fs::write(dir.join("people.csv"), format!("id,label\n{people}")).expect("write the people");
    std::fs::write(dir.join("follows.csv"), format!("src,dst,at\n{follows}")).expect("write the follows");
    let label = serde_json::json!({"task_type": "classification", "label_col": "label", "split_pct": [0.6, 0.2, 0.2]});
    let conf = serde_json::json!({
        "nodes": [{"node_type": "user", "node_id_col": "id", "files": "people.csv", "labels": [label]}],
        "edges": [{"relation": ["user", "follows", "user"], "files": "follows.csv", "source_id_col": "src",
            "dest_id_col": "dst", "time_col": "at"}]});
    std::fs::write(dir.join("graph.json"), conf.to_string()).expect("write the configuration");
}

fn mean_of(rows: &[&Vec<f32>]) -> Vec<f32> {
    let mut mean = vec![0.0; rows[0].len()];
    for row in rows {
        mean.iter_mut().zip(*row).for_each(|(mean, value)| *mean += value / rows.len() as f32);
    }
    mean
}

#[test]
fn new_users_start_from_the_neighbors_that_the_model_knows() {
    let folder = Folder::new();
    let model = folder.join("model");
    write_people(folder.path(), &(0..NUM_PEOPLE).collect::<Vec<_>>());
    let first = folder.join("parts");
    partition_tables_as(folder.path(), "people", None, |_| {}, 2, &first);
    trained("node", &first, &model, &[]);
    let (saved, _) = rows_of_users(&first, &model, 1, &["--layer", "0"]);
    let all: Vec<&Vec<f32>> = saved.values().collect();
    let followers = [1, 2, 3, 3].map(|n| &saved[&format!("p{n}")]);
    let expected = [mean_of(&followers), saved["p5"].clone(), mean_of(&all), mean_of(&all)];
    // The later people are first in the table.
    write_people(folder.path(), &(0..NUM_PEOPLE + FOLLOWERS.len()).rev().collect::<Vec<_>>());
    let mut found = Vec::new();
    for num_parts in [1, 3] {
        let parts = folder.join(format!("{num_parts}"));
        partition_tables_as(folder.path(), "people", Some(&first), |_| {}, num_parts, &parts);
        for processes in [1, 3] {
            let flags = ["--layer", "0", "--new-embeddings", "neighbors"];
            let (rows, text) = rows_of_users(&parts, &model, processes, &flags);
            let line = "the ids of the table: 40 nodes known, 4 new (start: neighbors, mean for 2 without known neighbors), \
                        0 saved rows gone";
            assert_eq!(match_of(&text).as_deref(), Some(line));
            for (n, expected) in expected.iter().enumerate() {
                assert_close(
                    &rows[&format!("p{}", NUM_PEOPLE + n)],
                    expected,
                    &format!("person {n}, {num_parts} parts"),
                );
            }
            found.push(rows);
        }
    }
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "starts depend on parts or processes");
    // A training from the model starts there too.
    let flags = ["--init-from", model.to_str().expect("UTF-8"), "--new-embeddings", "neighbors", "--num-epochs", "1"];
    let output = succeeded(start("node", &folder.join("3"), &flags));
    assert!(match_of(&stderr(&output)).is_some_and(|line| line.contains("mean for 2 without known neighbors")));
    // A start of all edges would tell seeds of later edges.
    let times = ["--new-embeddings", "neighbors", "--time-attr", "edge_time"];
    let of_seeds = [&times[..], &["--num-neighbors", "5,3", "--seed-time", "50"]].concat();
    let refusal = ["--new-embeddings neighbors", "--time-attr", "--new-embeddings mean"];
    assert_error(&predict(&folder.join("3"), &model, &folder.join("out"), &of_seeds), &refusal);
    let of_training = [&times[..], &["--init-from", model.to_str().expect("UTF-8")]].concat();
    assert_error(&start("node", &folder.join("3"), &of_training), &refusal);
    let of_evaluation = [&times[..], &["--load-model", model.to_str().expect("UTF-8")]].concat();
    assert_error(&start("node", &folder.join("3"), &of_evaluation), &refusal);
    // Users of the shop have no neighbors with embeddings.
    let shop = Shop::new(user, None);
    shop.write(&(1..NUM_USERS + 1).collect::<Vec<_>>(), 2, "changed");
    let flags = ["--new-embeddings", "neighbors"];
    let output = predict(&shop.path("changed"), &shop.path("model"), &shop.path("out"), &flags);
    assert_error(
        &output,
        &["no edges lead to nodes of type user from nodes with saved embeddings", "--new-embeddings mean"],
    );
}

#[test]
fn arrays_are_matched_by_row_number_and_with_another_number_of_nodes_only_if_asked() {
    let options = FakeOptions { avg_num_nodes: 300, avg_degree: 4.0, num_channels: 6, ..FakeOptions::default() };
    let larger = FakeOptions { avg_num_nodes: 320, ..options.clone() };
    let first = written_by(&fake_hetero(&options).expect("a fake graph"), 2);
    let second = written_by(&fake_hetero(&larger).expect("a fake graph"), 3);
    let Scratch { folder, model, .. } = scratch();
    trained("node", &first.path, &model, &[]);
    let out = folder.join("out");
    let logits = ["--output", "logit", "--nproc-per-node", "2"];
    let same = predict(&first.path, &model, &out, &logits);
    assert!(same.status.success() && !stderr(&same).contains("embeddings of"), "{}", stderr(&same));
    let out = folder.join("larger");
    assert_error(&predict(&second.path, &model, &out, &logits[..2]), &["is for 300 nodes", "--new-embeddings mean"]);
    let output = succeeded(predict(&second.path, &model, &out, &[&logits[..], &["--new-embeddings", "zero"]].concat()));
    let line = "matched by row number: 300 nodes known, 20 new (start: zero), 0 saved rows gone";
    assert!(stderr(&output).contains(line), "{}", stderr(&output));
}

/// A row number of arrays says nothing of the ids of a table, even if these are numbers.
#[test]
fn rows_of_tables_are_not_given_to_row_numbers_of_arrays() {
    let hold_out = HoldOut::random(0.2, 0.1, 0);
    let shop = Shop::new(shuffled_number, Some(hold_out));
    // The same graph without ids.
    let read = read_tables(&shop.path("graph.json"), "shop", &TableOptions::default()).expect("a graph");
    let mut graph = read.dataset;
    let buys = graph.edge_type_ids().into_iter().find(|e| graph.edge_types[e.index()].relation == "buys");
    graph.hold_out_edges(&[buys.expect("purchases")], &hold_out).expect("held-out edges");
    let arrays = written_by(&graph, 2);
    let tables = shop.path("parts");
    let [of_tables, of_arrays, out] = ["of-tables", "of-arrays", "out"].map(|name| shop.path(name));
    let few = ["--eval-negatives", "5"];
    trained("link", &tables, &of_tables, &few);
    trained("link", &arrays.path, &of_arrays, &few);
    let users = ["--output", "embedding", "--node-type", "user", "--layer", "0"];
    let ids = "the nodes of type user have ids of a table";
    for (parts, model, why) in [
        (&arrays.path, &of_tables, format!("{ids} in its training, and are row numbers of arrays here")),
        (&tables, &of_arrays, format!("{ids} here, and are row numbers of arrays in its training")),
    ] {
        let name = model.to_str().expect("UTF-8");
        for output in [predict(parts, model, &out, &users), start("link", parts, &["--load-model", name])] {
            assert_error(&output, &[&why]);
        }
        let output = start("link", parts, &[&few[..], &["--init-from", name]].concat());
        assert!(output.status.success() && !stderr(&output).contains("matched by"), "{}", stderr(&output));
    }
    // Arrays find their own rows.
    assert!(predict(&arrays.path, &of_arrays, &out, &users).status.success());
}

/// Returns numbers that are row numbers of other users.
fn shuffled_number(n: usize) -> String {
    ((n * 37 + 11) % NUM_USERS).to_string()
}

#[test]
fn types_with_features_can_have_embeddings_in_every_layout() {
    for (task, flags) in [
        ("link", &["--node-embeddings", "item=5", "--eval-negatives", "5"][..]),
        ("link", &["--node-embeddings", "item:add", "--eval-negatives", "5"]),
        ("node", &["--node-embeddings", "item", "--node-embeddings", "user=7"]),
        ("node", &["--node-embeddings", "item=5:add,user=3", "--model", "rgcn", "--eval", "layer-wise"]),
    ] {
        let is_link = task == "link";
        let shop = Shop::new(user, is_link.then(|| HoldOut::random(0.2, 0.1, 0)));
        let [parts, three] = ["parts", "three"].map(|name| shop.path(name));
        shop.write(&(0..NUM_USERS).collect::<Vec<_>>(), 3, "three");
        shop.write(&shuffled(), 2, "shuffled");
        let model = shop.path("both");
        let out = shop.path("out");
        let layer_wise = flags.contains(&"layer-wise");
        // The evaluation of a training with all neighbors has the results of the one that reads layers.
        let eval = if layer_wise { &["--num-neighbors", "-1,-1"][..] } else { &[] };
        let mut command = Command::new(TRAIN);
        command.args([task, "--dataset-root-dir"]).arg(&parts).args(["--num-neighbors", "5,3"]).args(eval).args(flags);
        command.args(["--hidden-channels", "16", "--batch-size", "64", "--lr", "0.01", "--num-epochs", "4", "--json"]);
        command.args(["--nproc-per-node", "2", "--save-model"]).arg(&model);
        unplace(&mut command);
        succeeded(run(command.stdout(Stdio::piped()).stderr(Stdio::piped())));
        let mut expected: Option<Vec<f32>> = None;
        let items = ["--output", "embedding", "--node-type", "item", "--format", "csv"];
        // With 1, fewer, as many and more processes than parts.
        for (parts, processes) in [(&parts, 1), (&three, 2), (&three, 3), (&three, 4)] {
            let nproc = ["--nproc-per-node", &processes.to_string()].map(str::to_owned);
            let flags: Vec<&str> = items.iter().copied().chain(nproc.iter().map(String::as_str)).collect();
            predicted(parts, &model, &out, &flags);
            let rows = read_rows(&out, "predictions", "csv", processes);
            let values: Vec<f32> = rows.into_iter().flat_map(|row| row.2).collect();
            match &expected {
                None => expected = Some(values),
                Some(expected) => assert_close(&values, expected, "the rows of items"),
            }
        }
        if !is_link {
            // Nodes have the embeddings of their ids, whatever the order of the users.
            predicted(&shop.path("shuffled"), &model, &out, &items);
            let values: Vec<f32> = read_rows(&out, "predictions", "csv", 1).into_iter().flat_map(|row| row.2).collect();
            assert_close(&values, &expected.expect("rows"), "the rows of items after users were shuffled");
        }
        let load = ["--load-model", model.to_str().expect("UTF-8"), "--num-neighbors", "-1,-1"];
        let [first, second] = [&parts, &three].map(|parts| json_of(start(task, parts, &load)));
        if is_link {
            assert_same(&first, &second, &["test.edges", "valid.edges"]);
            // Two almost equal scores may swap.
            for score in ["test.mrr", "valid.mrr"] {
                let difference = number_of(&first, score) - number_of(&second, score);
                assert!(difference.abs() < 0.05, "{score}: {first} and {second}");
            }
        } else {
            assert_same(&first, &second, &["test_acc", "valid_acc"]);
        }
    }
}

#[test]
fn embeddings_are_added_to_features_alone() {
    let shop = Shop::new(user, None);
    let output = start("node", &shop.path("parts"), &["--node-embeddings", "user:add"]);
    assert_error(&output, &["--node-embeddings", "node type user, which has none", ":add"]);
}

/// Writes tables of a shop whose users buy from the group of items that suits their taste. Neither group nor taste is in
/// the features.
fn write_tastes(dir: &Path) {
    const USERS: usize = 200;
    const ITEMS: usize = 100;
    const GROUPS: usize = 5;
    let group = |number: usize, salt: u64| CounterRng::new(salt + number as u64).next_u64() as usize % GROUPS;
    let noise = |number: usize| CounterRng::new(900_000 + number as u64).next_u64() % 1000;
    let users: String = (0..USERS).map(|n| format!("u{n},{}\n", noise(n))).collect();
    let items: String = (0..ITEMS).map(|n| format!("i{n},{}\n", noise(USERS + n))).collect();
    let mut purchases = "user,item\n".to_owned();
    for n in 0..USERS {
        let taste = group(n, 1_000_000);
        let suited: Vec<usize> = (0..ITEMS).filter(|&item| group(item, 2_000_000) == taste).collect();
        let mut rng = CounterRng::new(3_000_000 + n as u64);
        let mut bought = std::collections::BTreeSet::new();
        while bought.len() < 10.min(suited.len()) {
            bought.insert(suited[rng.next_u64() as usize % suited.len()]);
        }
        bought.into_iter().for_each(|item| purchases += &format!("u{n},i{item}\n"));
    }
    std::fs::write(dir.join("users.csv"), format!("id,x\n{users}")).expect("users");
    std::fs::write(dir.join("items.csv"), format!("id,x\n{items}")).expect("items");
    std::fs::write(dir.join("purchases.csv"), purchases).expect("purchases");
    let nodes = |node_type: &str, files: &str| {
        serde_json::json!({"node_type": node_type, "node_id_col": "id", "files": files, "features":
            [{"feature_col": "x", "transform": {"name": "max_min_norm"}}]})
    };
    let conf = serde_json::json!({
        "nodes": [nodes("user", "users.csv"), nodes("item", "items.csv")],
        "edges": [{"relation": ["user", "buys", "item"], "files": "purchases.csv", "source_id_col": "user",
            "dest_id_col": "item"}]});
    std::fs::write(dir.join("graph.json"), conf.to_string()).expect("a configuration");
}

#[test]
fn a_recommender_with_features_and_embeddings_finds_more_than_one_with_features_alone() {
    let folder = Folder::new();
    write_tastes(folder.path());
    let parts = folder.join("parts");
    partition_tables(folder.path(), 2, None, &parts);
    let recall = |name: &str, flags: &[&str]| {
        let model = folder.join(name);
        let mut command = Command::new(TRAIN);
        command.args(["link", "--dataset-root-dir"]).arg(&parts).args(["--model", "embedding", "--num-epochs", "60"]);
        command.args(["--hidden-channels", "32", "--batch-size", "256", "--lr", "0.03", "--eval-negatives", "all"]);
        command
            .args(["--patience", "0", "--dropout", "0", "--nproc-per-node", "2", "--save-model"])
            .arg(&model)
            .args(flags);
        unplace(&mut command);
        succeeded(run(command.stdout(Stdio::piped()).stderr(Stdio::piped())));
        let lists = ["--output", "top-k", "--sources", "all", "--top-k", "20", "--exclude-known", "train"];
        let result = predicted(&parts, &model, &folder.join("out"), &lists);
        let recall_of = |name: &str| result[name]["recall"].as_f64().expect("a number");
        (recall_of("test"), recall_of("popularity"))
    };
    let (features, popularity) = recall("features", &[]);
    for both in ["user=32,item=32", "user:add,item:add"] {
        let (found, _) = recall("both", &["--node-embeddings", both]);
        assert!(found > features + 0.2 && found > popularity + 0.2, "{found} with {both}, {features}, {popularity}");
    }
}
