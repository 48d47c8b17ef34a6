//! `partition-graph update`: all kinds of labels and attributes, its memory, and its end between two parts.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::table_files::{Folder, contents, one_type};
use crate::update_rules::fails;
use crate::updates::{assert_like_all, partition, partition_as, program, update, updated, write_assignment};
use edgecut_graph::Meta;
use edgecut_graph::rng::CounterRng;
use edgecut_testing::{names, succeeded};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

const LABELS: [&str; 4] = ["churn", "kind", "spend", "tags"];

/// A user: the age, the time, and the labels, which are empty if they are missing.
type User = [String; 6];

/// The tables of a graph.
#[derive(Clone, Default)]
struct Tables {
    users: BTreeMap<usize, User>,
    items: Vec<usize>,
    /// The stars, the kind, the weight and the time of each user's rating of an item.
    ratings: Vec<([usize; 2], [String; 4])>,
}

fn user(rng: &mut CounterRng) -> User {
    let mut fields: User = Default::default();
    fields[0] = rng.below(80).to_string();
    fields[1] = rng.below(1000).to_string();
    let labels = [
        ["yes", "no", ""][rng.below(3) as usize].to_owned(),
        ["red", "blue", "green", ""][rng.below(4) as usize].to_owned(),
        ["0.5", "1", "2.25", ""][rng.below(4) as usize].to_owned(),
        ["1|0", "0|1", "1|1", ""][rng.below(4) as usize].to_owned(),
    ];
    fields[2..].clone_from_slice(&labels);
    fields
}

fn rating(rng: &mut CounterRng) -> [String; 4] {
    let kind = ["plain", "gift", ""][rng.below(3) as usize].to_owned();
    let stars = ["1", "2.5", "5", ""][rng.below(4) as usize].to_owned();
    [stars, kind, rng.below(9).to_string(), rng.below(1000).to_string()]
}

/// Returns the position of the split of a row, past the last one for none.
fn split(number: usize) -> usize {
    number * 5 % 4
}

/// The texts of split files, by name.
#[derive(Default)]
struct Lists(BTreeMap<String, String>);

impl Lists {
    /// Makes the lists of a label empty.
    fn start(&mut self, label: &str) {
        for split in ["train", "valid", "test"] {
            self.0.insert(format!("{label}-{split}.json"), String::new());
        }
    }

    /// Adds the row with a number to the list of its split, if its label is known.
    fn add(&mut self, label: &str, value: &str, number: usize, id: &Value) {
        if let (Some(split), false) = (["train", "valid", "test"].get(split(number)), value.is_empty()) {
            *self.0.get_mut(&format!("{label}-{split}.json")).unwrap() += &format!("{id}\n");
        }
    }
}

/// Writes tables, and returns their configuration.
fn write(folder: &Folder, name: &str, tables: &Tables) -> Value {
    let mut lists = Lists::default();
    LABELS.iter().chain(&["stars", "gift"]).for_each(|label| lists.start(label));
    let mut users = "id,age,since,churn,kind,spend,tags\n".to_owned();
    for (number, fields) in &tables.users {
        users += &format!("u{number},{}\n", fields.join(","));
        for (label, value) in LABELS.iter().zip(&fields[2..]) {
            lists.add(label, value, *number, &json!(format!("u{number}")));
        }
    }
    let items: String = tables.items.iter().map(|item| format!("i{item},{}\n", item * 13 % 17)).collect();
    let mut ratings = "s,d,stars,gift,w,t\n".to_owned();
    for ([user, item], fields) in &tables.ratings {
        ratings += &format!("u{user},i{item},{}\n", fields.join(","));
        for (label, value) in ["stars", "gift"].iter().zip(fields) {
            lists.add(label, value, user + item, &json!([format!("u{user}"), format!("i{item}")]));
        }
    }
    folder.write(&format!("{name}/users.csv"), users).write(&format!("{name}/items.csv"), format!("id,price\n{items}"));
    folder.write(&format!("{name}/ratings.csv"), ratings);
    lists.0.iter().for_each(|(file, text)| _ = folder.write(&format!("{name}/{file}"), text));
    json!({
        "nodes": [
            {"node_type": "user", "files": format!("{name}/users.csv"), "node_id_col": "id", "time_col": "since",
             "features": [{"feature_col": "age", "transform": {"name": "z_score"}}], "labels": LABELS.map(|column| label(name, column))},
            {"node_type": "item", "files": format!("{name}/items.csv"), "node_id_col": "id",
             "features": [{"feature_col": "price", "transform": {"name": "max_min_norm"}}]}
        ],
        "edges": [relation(name, "rates", "stars"), relation(name, "gives", "gift")]
    })
}

/// Returns the entry of a label, with its split files in a folder.
fn label(folder: &str, column: &str) -> Value {
    let files = ["train", "valid", "test"].map(|split| format!("{folder}/{column}-{split}.json"));
    let is_number = ["spend", "stars"].contains(&column);
    let mut label = json!({
        "task_type": if is_number { "regression" } else { "classification" }, "label_col": column,
        "custom_split_filenames": {"train": files[0], "valid": files[1], "test": files[2]}
    });
    if column == "tags" {
        label["separator"] = "|".into();
    }
    label
}

/// Returns the entry of a relation from users to items.
fn relation(folder: &str, relation: &str, label_col: &str) -> Value {
    json!({
        "relation": ["user", relation, "item"], "files": format!("{folder}/ratings.csv"), "source_id_col": "s",
        "dest_id_col": "d", "weight_col": "w", "time_col": "t", "labels": [label(folder, label_col)],
        "features": [{"feature_col": "w", "transform": {"name": "log"}, "out_dtype": "float16"}]
    })
}

/// Makes parts of users with several labels, updates them, and compares them with the parts of all tables.
fn check_kinds(more: &[&str], seed: u64) {
    let folder = Folder::new();
    let mut rng = CounterRng::new(seed);
    let mut tables = Tables { items: (0..15).collect(), ..Tables::default() };
    tables.users.extend((0..40).map(|number| (number, user(&mut rng))));
    let pairs: Vec<[usize; 2]> = (0..45).flat_map(|user| (0..17).map(move |item| [user, item])).collect();
    for &pair in pairs.iter().filter(|[user, item]| *user < 40 && *item < 15 && (user * 3 + item) % 5 == 0) {
        tables.ratings.push((pair, rating(&mut rng)));
    }
    folder.write("monday.json", write(&folder, "monday", &tables).to_string());
    partition(&folder, "monday.json", "parts", &[&["--num-partitions", "3"], more].concat());
    // New users and items, changed users, and ratings of all of them.
    let mut day = Tables { items: vec![15, 16], ..Tables::default() };
    day.users.extend([4, 11, 19, 40, 41, 42, 43, 44].map(|number| (number, user(&mut rng))));
    for &pair in pairs.iter().filter(|[user, item]| *user != 3 && *item != 2 && (user * 3 + item) % 5 == 1) {
        day.ratings.push((pair, rating(&mut rng)));
    }
    let mut conf = write(&folder, "tuesday", &day);
    // The order of the labels is the order of the parts.
    conf["nodes"][0]["labels"].as_array_mut().unwrap().reverse();
    folder.write("gone-users.csv", "id\nu3\n").write("gone-items.csv", "id\ni2\n");
    folder.write("gone-ratings.csv", "s,d\nu5,i0\n");
    conf["removed_nodes"] = json!([{"node_type": "user", "files": "gone-users.csv", "node_id_col": "id"},
                                   {"node_type": "item", "files": "gone-items.csv", "node_id_col": "id"}]);
    conf["removed_edges"] = json!([{"relation": ["user", "rates", "item"], "files": "gone-ratings.csv", "source_id_col": "s",
                                    "dest_id_col": "d"}]);
    folder.write("tuesday.json", conf.to_string());
    updated(&folder, "parts", "tuesday.json", &[]);
    tables.users.remove(&3);
    tables.items.retain(|item| *item != 2);
    tables.ratings.retain(|(pair, _)| pair[0] != 3 && pair[1] != 2);
    for (number, mut fields) in day.users {
        let known = tables.users.get(&number);
        for (field, known) in fields.iter_mut().zip(known.into_iter().flatten()).skip(2) {
            if field.is_empty() {
                field.clone_from(known);
            }
        }
        tables.users.insert(number, fields);
    }
    tables.items.extend(day.items);
    tables.ratings.extend(day.ratings);
    let mut conf = write(&folder, "all", &tables);
    // The removed edge is of one relation only.
    let rates: String = std::fs::read_to_string(folder.path("all/ratings.csv")).unwrap();
    folder.write(
        "all/rates.csv",
        rates.lines().filter(|line| !line.starts_with("u5,i0,")).collect::<Vec<_>>().join("\n"),
    );
    conf["edges"][0]["files"] = "all/rates.csv".into();
    for list in ["train", "valid", "test"] {
        let name = format!("all/stars-{list}.json");
        let text = std::fs::read_to_string(folder.path(&name)).unwrap();
        folder.write(&name, text.lines().filter(|line| *line != r#"["u5","i0"]"#).collect::<Vec<_>>().join("\n"));
    }
    folder.write("all.json", conf.to_string());
    write_assignment(&folder, "parts", "assignment");
    let transforms = folder.path("parts");
    let given = ["--num-partitions", "3", "--transforms", transforms.to_str().unwrap()];
    partition_as(&folder, "all.json", "all-parts", &[&given[..], more].concat());
    assert_like_all(&folder, "parts", "all-parts", &more.join(" "));
    let meta = Meta::read(&folder.path("parts")).unwrap();
    let of_all = Meta::read(&folder.path("all-parts")).unwrap();
    let [found, expected] = [&meta, &of_all].map(|meta| meta.node_types.iter().find(|t| t.name == "user").unwrap());
    assert_eq!(found.more_labels, expected.more_labels);
    assert_eq!(found.more_labels.len(), 3);
    assert!(found.more_labels.iter().all(|label| label.split_sizes.iter().all(|size| *size > 0)));
    for (found, expected) in meta.edge_types.iter().zip(&of_all.edge_types) {
        assert_eq!((found.labels, found.feature_dtype), (expected.labels, expected.feature_dtype));
    }
}

#[test]
fn all_kinds_of_labels_and_attributes_are_those_of_all_tables() {
    check_kinds(&["--feature-dtype", "user=bf16,item=f16", "--hotness", "in-degree"], 1);
    let presample = ["--hotness", "presample", "--num-neighbors", "4,2", "--batch-size", "3"];
    check_kinds(&[&["--feature-dtype", "item=int8"], &presample[..]].concat(), 2);
    check_kinds(&["--add-reverse-edges"], 3);
}

/// Returns the entry of classes in columns, all of them for training.
fn classes(columns: &Value) -> Value {
    json!({"task_type": "classification", "label_col": columns, "split_pct": [1, 0, 0]})
}

#[test]
fn a_table_has_all_of_several_labels_or_none() {
    let folder = Folder::of(&[("n.csv", "id,churn,kind\na,yes,red\nb,no,blue\nc,yes,red\n")]);
    folder.write("e.csv", "s,d\na,b\nb,c\n");
    let mut conf = one_type(&json!({"labels": [classes(&json!(["churn", "kind"]))]}), &json!({}));
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    folder.write("n.csv", "id,churn,kind,other\nd,yes,blue,x\na,,,\n").write("e.csv", "s,d\nd,a\n");
    for columns in [json!("churn"), json!(["churn", "kind", "other"]), json!(["other", "kind"])] {
        conf["nodes"][0]["labels"] = json!([classes(&columns)]);
        let error = fails(&folder, &conf);
        assert!(error.contains("nodes[0].labels: the table has the labels"), "{error}");
        assert!(error.contains("the nodes of type n have the labels churn, kind in the parts"), "{error}");
    }
    // A row without a label keeps the labels of its node, and a new node has none.
    conf["nodes"][0].as_object_mut().unwrap().remove("labels");
    folder.write("new.json", conf.to_string());
    updated(&folder, "parts", "new.json", &[]);
    let meta = Meta::read(&folder.path("parts")).unwrap();
    assert_eq!((meta.node_types[0].split_sizes, meta.node_types[0].more_labels[0].split_sizes), ([3, 0, 0], [3, 0, 0]));
    conf["nodes"][0]["labels"] = json!([classes(&json!(["kind", "churn"]))]);
    folder.write("new.json", conf.to_string()).write("e.csv", "s,d\na,d\n");
    updated(&folder, "parts", "new.json", &[]);
    let meta = Meta::read(&folder.path("parts")).unwrap();
    assert_eq!((meta.node_types[0].split_sizes, meta.node_types[0].more_labels[0].split_sizes), ([4, 0, 0], [4, 0, 0]));
}

/// Makes parts of a generated graph, and a configuration `new.json` that removes one of its nodes and adds an edge.
fn generated_parts(folder: &Folder, more: &[&str]) {
    let mut command = program();
    command.args(["--dataset", "fake", "--output-dir"]).arg(folder.path("parts")).args(more);
    succeeded(command.output().unwrap());
    folder.write("gone.csv", "id\n7\n").write("e.csv", "s,d\n1,2\n");
    let conf = json!({
        "removed_nodes": [{"node_type": "node", "files": "gone.csv", "node_id_col": "id"}],
        "edges": [{"relation": ["node", "to", "node"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d"}]
    });
    folder.write("new.json", conf.to_string());
}

/// Updates parts under a limit of the shell.
fn update_with_limit(folder: &Folder, limit: &str) -> Output {
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("ulimit {limit}; exec \"$@\"")).arg("bash").env("RAYON_NUM_THREADS", "2");
    command.arg(env!("CARGO_BIN_EXE_partition-graph")).arg("update").arg(folder.path("parts"));
    command.arg("--conf").arg(folder.path("new.json")).output().unwrap()
}

#[test]
fn the_memory_of_an_update_is_that_of_a_part() {
    let folder = Folder::new();
    // 80 MB of features and 13 MB of edges, in eight parts.
    let size = ["--avg-num-nodes", "80000", "--num-channels", "256", "--avg-degree", "40"];
    generated_parts(&folder, &[&["--num-partitions", "8", "--method", "random"], &size[..]].concat());
    let features = (0..8).map(|part| format!("parts/part_{part}/nodes/node/features.npy"));
    let bytes: u64 = features.map(|file| std::fs::metadata(folder.path(&file)).unwrap().len()).sum();
    assert!(bytes > 80_000_000, "{bytes}");
    // In units of 1024 bytes, of memory that is not mapped from files.
    succeeded(update_with_limit(&folder, "-d 56000"));
    assert_eq!(Meta::read(&folder.path("parts")).unwrap().node_types[0].book.num_nodes(), 79_999);
}

/// Returns the name of a folder of incomplete parts.
fn partial_parts(folder: &Folder) -> Option<String> {
    names(&folder.path("")).into_iter().find(|name| name.contains(".partial"))
}

#[test]
fn a_process_that_dies_between_parts_leaves_the_old_parts() {
    let folder = Folder::new();
    let assignment: String = (0..1000).map(|node| if node < 40 { "0\n" } else { "1\n" }).collect();
    folder.write("assignment.txt", assignment);
    let given = folder.path("assignment.txt");
    let more = ["--num-partitions", "2", "--num-channels", "64", "--assignment", given.to_str().unwrap()];
    generated_parts(&folder, &more);
    let before = contents(&folder.path("parts"));
    // A file of more than 100 KiB ends the process. The first one is the features of the second part.
    let output = update_with_limit(&folder, "-f 100");
    assert_eq!(output.status.signal(), Some(25), "{output:?}");
    assert!(contents(&folder.path("parts")) == before);
    let partial = partial_parts(&folder).expect("the folder of the process that died");
    assert!(folder.path(&partial).join("part_0/nodes/node/features.npy").exists());
    assert!(folder.path(&partial).join("part_1").exists());
    succeeded(update(&folder, "parts", "new.json", &[]));
    assert!(contents(&folder.path("parts")) != before);
    assert_eq!(partial_parts(&folder), None);
}
