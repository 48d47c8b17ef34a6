//! Notes and warnings about data from which a model would learn little.

use crate::table_files::{Folder, arrays, with};
use edgecut_graph::Meta;
use edgecut_testing::assert_has;
use serde_json::{Value, json};

const LARGE: &str = "note: features with large numbers: ";
const ONE_WAY: &str = "warning: no edge leads to ";

/// Writes tables of users with times and amounts, and of their purchases.
fn shop() -> Folder {
    let mut users = "id,joined,seen,share,amount,y\n".to_owned();
    let mut buys = "who,what\n".to_owned();
    for row in 0..20 {
        let joined = format!("20{:02}-01-31", 10 + row);
        users += &format!("u{row},{joined},{},0.{row:02},{},{}\n", 1_700_000_000 + row, row * 1000, row % 2);
        buys += &format!("u{row},i{}\n", row % 3);
    }
    Folder::of(&[("users.csv", &users), ("buys.csv", &buys)])
}

fn conf(features: &Value) -> String {
    let labels = json!([{"task_type": "classification", "label_col": "y"}]);
    json!({
        "nodes": [{"node_type": "user", "node_id_col": "id", "files": "users.csv", "features": features, "labels": labels}],
        "edges": [{"relation": ["user", "buys", "item"], "files": "buys.csv", "source_id_col": "who", "dest_id_col": "what"}]
    })
    .to_string()
}

/// Returns a feature of dates.
fn date(more: Value) -> Value {
    json!({"feature_col": "joined", "transform": with(json!({"name": "date"}), &more)})
}

#[test]
fn large_numbers_are_named_with_their_remedy() {
    let folder = shop();
    let [share, seen, amount] = ["share", "seen", "amount"].map(|name| json!({"feature_col": name}));
    let z_score = with(seen.clone(), &json!({"transform": {"name": "z_score"}}));
    let days = date(json!({}));
    let of_seen = "seen of nodes[0] (1700000000 to 1700000000)";
    for (name, features, expected) in [
        ("small", json!([share]), vec![]),
        ("seconds", json!([share, seen]), vec![of_seen, ": add transform: {name: z_score}\n"]),
        ("days", json!([days]), vec!["joined of nodes[0] (0 to 6940)", ": add scale: true to the transform date\n"]),
        ("both", json!([days, amount]), vec!["amount of nodes[0] (0 to 19000), joined", "z_score}, or add scale"]),
        ("scaled", json!([date(json!({"scale": true, "outputs": ["age", "year"]})), z_score]), vec![]),
    ] {
        let (_, stderr) = folder.with(&conf(&features)).made(name, &["--add-reverse-edges"]);
        assert_eq!(stderr.matches(LARGE).count(), usize::from(!expected.is_empty()), "{name}: {stderr}");
        for text in expected {
            assert!(stderr.contains(text), "{name}: {stderr}");
        }
    }
    // Saved means and deviations apply to new data, and nothing is noted about transforms that are given.
    let saved = folder.path("scaled");
    let (_, stderr) = folder.made("again", &["--add-reverse-edges", "--transforms", saved.to_str().unwrap()]);
    assert!(!stderr.contains(LARGE), "{stderr}");
    assert!(arrays(&folder.path("scaled")) == arrays(&folder.path("again")));
    assert_has(std::fs::read_to_string(saved.join("transforms.json")).unwrap(), &["\"scale\": [", "\"std\": "]);
}

#[test]
fn large_numbers_of_deferred_features_are_named_when_these_are_built() {
    let folder = shop();
    let z_score = json!({"name": "z_score"});
    for (name, features, is_noted) in [
        ("large", json!([{"feature_col": "share"}, {"feature_col": "seen"}]), true),
        ("scaled", json!([{"feature_col": "share"}, {"feature_col": "seen", "transform": z_score}]), false),
    ] {
        folder.write("graph.json", conf(&features));
        for num_parts in [1, 3] {
            let out = format!("{name}-{num_parts}");
            let flags = ["--add-reverse-edges", "--defer-features", "--num-partitions", &num_parts.to_string()];
            let output = folder.run(&out, &flags);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !stderr.contains(LARGE), "{stderr}");
            for part in 0..num_parts {
                let stderr = folder.built_features(&out, part);
                assert_eq!(stderr.matches(LARGE).count(), usize::from(is_noted), "{out}: {stderr}");
                let remedy = "add transform: {name: z_score}, and make the parts again";
                assert_eq!(stderr.contains(remedy), is_noted, "{out}: {stderr}");
                // What is built already is not read again.
                assert!(!folder.built_features(&out, part).contains(LARGE));
            }
        }
    }
}

#[test]
fn small_numbers_are_named_with_their_remedy() {
    let folder = shop();
    for (name, transform, is_noted) in
        [("standard", json!({"name": "standard", "sum": 1e6}), true), ("log", json!({"name": "log"}), false)]
    {
        let features = json!([{"feature_col": "share", "transform": transform}]);
        let (_, stderr) = folder.with(&conf(&features)).made(name, &["--add-reverse-edges"]);
        let note = "note: features with small numbers: share of nodes[0] (0 to 0.00000019). A model learns little";
        assert_eq!(stderr.contains(note), is_noted, "{stderr}");
    }
}

#[test]
fn unknown_scales_are_refused() {
    let folder = shop();
    for (transform, why) in [
        (
            json!({"name": "date", "scale": true, "outputs": ["hour"], "cyclic": true}),
            "scale: all outputs are between -1 and 1",
        ),
        (json!({"name": "date", "scale": true, "outputs": ["age", "hour"]}), "an output has the standard deviation 0"),
        (json!({"name": "date", "scales": true}), "scales: unknown key (did you mean scale?)"),
    ] {
        assert_has(folder.with(&conf(&json!([{"feature_col": "joined", "transform": transform}]))).fails(&[]), &[why]);
    }
}

#[test]
fn columns_of_ids_as_labels_are_pointed_out() {
    let folder = shop();
    let mut users = std::fs::read_to_string(folder.path("users.csv")).unwrap();
    users += "u20,2030-01-31,0,0,0,1\n";
    folder.write("users.csv", users);
    for (column, is_noted) in [("joined", true), ("y", false)] {
        let label = json!({"task_type": "classification", "label_col": column, "split_pct": [1, 0, 0]});
        let mut of_column: Value = serde_json::from_str(&conf(&json!([]))).unwrap();
        of_column["nodes"][0]["labels"] = json!([label]);
        let (_, stderr) = folder.with(&of_column).made(column, &["--add-reverse-edges"]);
        let note = "note: nodes[0], column joined: 21 different labels in 21 rows, each of which is a class";
        assert_eq!(stderr.contains(note), is_noted, "{stderr}");
    }
}

#[test]
fn edges_in_one_direction_of_graphs_with_types_are_pointed_out_once() {
    let folder = shop();
    folder.write("graph.json", conf(&json!([{"feature_col": "share"}])));
    let said = "20 of 20 nodes of type user, so they receive no messages: add the reverses of all edges by --add-reverse-edges";
    for (name, flags, expected) in [("one-way", &[][..], Some(said)), ("both", &["--add-reverse-edges"], None)] {
        let (_, stderr) = folder.made(name, flags);
        assert_eq!(stderr.matches(ONE_WAY).count(), usize::from(expected.is_some()), "{name}: {stderr}");
        assert!(expected.is_none_or(|text| stderr.contains(text)), "{name}: {stderr}");
    }
    // A share decides: a recommendation of 9 users is not enough, one of 10 is.
    for (num_recommended, is_warned) in [(9, true), (10, false)] {
        let rows: Vec<String> = (0..num_recommended).map(|row| format!("i0,u{row}\n")).collect();
        folder.write("to.csv", format!("what,who\n{}", rows.concat()));
        let mut with_both: Value = serde_json::from_str(&conf(&json!([]))).unwrap();
        let to = json!({"relation": ["item", "to", "user"], "files": "to.csv", "source_id_col": "what", "dest_id_col": "who"});
        with_both["edges"].as_array_mut().unwrap().push(to);
        let (_, stderr) = folder.with(&with_both).made(&format!("{num_recommended}"), &[]);
        assert_eq!(stderr.contains(ONE_WAY), is_warned, "{stderr}");
    }
}

/// Labels -1 mean no label, which a table of signs does not mean.
#[test]
fn labels_minus_one_are_counted() {
    let warned = "2 labels are -1, which means no label, and 3 are 1: if -1 is a class, write the classes as words";
    for (name, signs, counted, is_warned) in [
        ("signs", ["-1", "1", "1", "-1.0", "1"], "2 of 5 values are missing (1 -1, 1 -1.0)", true),
        ("votes", ["-1", "1", "0", "-1", "1"], "2 of 5 values are missing (2 -1)", true),
        ("classes", ["-1", "1", "2", "-1", "0"], "2 of 5 values are missing (2 -1)", false),
        ("words", ["-1", "up", "up", "-1", "down"], "2 of 5 values are missing (2 -1)", false),
        ("binary", ["0", "1", "1", "", "0"], "1 of 5 values are missing (1 empty)", false),
    ] {
        let folder = Folder::new();
        let rows: String =
            signs.iter().enumerate().map(|(row, sign)| format!("{row},{},{sign}\n", (row + 1) % 5)).collect();
        folder.write("edges.csv", format!("s,d,y\n{rows}"));
        let labels = json!([{"task_type": "classification", "label_col": "y"}]);
        let conf = json!({"edges": [{"relation": ["n", "to", "n"], "files": "edges.csv", "source_id_col": "s",
                                     "dest_id_col": "d", "labels": labels}]});
        let (_, stderr) = folder.with(&conf).made(name, &[]);
        assert!(stderr.contains(&format!("note: edges[0], column y: {counted}")), "{name}: {stderr}");
        let expected = warned.replace("and 3", if name == "votes" { "and 2" } else { "and 3" });
        let expected = format!("warning: edges[0], column y: {expected}");
        assert_eq!(stderr.contains(&expected), is_warned, "{name}: {stderr}");
        assert_eq!(stderr.contains("which means no label"), is_warned, "{name}: {stderr}");
    }
}

/// A table that stores whole numbers as floats gives each node a second id.
#[test]
fn ids_in_two_forms_are_pointed_out() {
    let warned = "warning: user: ids that differ only in spaces, zeros before digits or .0 are different nodes, as \"1\" and \"1.0\" are (2 \
                  pairs in all)";
    for (name, more, num_users, is_warned) in [("floats", "1.0,b\n2.0,a\n", 5, true), ("whole", "1,b\n2,a\n", 3, false)]
    {
        let folder = Folder::of(&[("a.csv", "who,what\n1,a\n2,b\n3,a\n"), ("b.csv", &format!("who,what\n{more}"))]);
        let [buys, rates] = [("buys", "a.csv"), ("rates", "b.csv")].map(|(relation, file)| {
            json!({"relation": ["user", relation, "item"], "files": file, "source_id_col": "who", "dest_id_col": "what"})
        });
        let conf = json!({"edges": [buys, rates]});
        let (_, stderr) = folder.with(&conf).made(name, &[]);
        assert_eq!(stderr.contains(warned), is_warned, "{name}: {stderr}");
        assert_eq!(stderr.contains("ids that differ"), is_warned, "{name}: {stderr}");
        let meta = Meta::read(&folder.path(name)).unwrap();
        assert_eq!(meta.node_types[1].book.num_nodes(), num_users, "{name}");
    }
}

/// A class that is written in two ways is two classes.
#[test]
fn classes_and_categories_in_two_forms_are_pointed_out() {
    let folder = shop();
    let mut users = "id,color,y\n".to_owned();
    for row in 0..20 {
        let class = if row % 2 == 0 { "no" } else { "yes" };
        users += &format!("u{row},{},{class}\n", ["red", " Red", "blue"][row % 3]);
    }
    for (name, users, expected) in [
        (
            "alike",
            users.clone(),
            &["color: 1 value differs from others only in spaces or capital letters, as \"red\" from \" Red\""][..],
        ),
        ("other", users.replace(" Red", "green"), &[]),
        (
            "classes",
            users.replace(" Red", "green").replacen(",yes", ",Yes", 3),
            &["y: 1 value differs from others", "\"yes\" from \"Yes\""],
        ),
    ] {
        folder.write("users.csv", users);
        let color = json!([{"feature_col": "color", "transform": {"name": "to_categorical"}}]);
        let (_, stderr) = folder.with(&conf(&color)).made(name, &["--add-reverse-edges"]);
        assert_eq!(stderr.contains("only in spaces or capital letters"), !expected.is_empty(), "{name}: {stderr}");
        expected.iter().for_each(|text| assert!(stderr.contains(text), "{name}: {stderr}"));
    }
}

/// Labels 1 and 2 are three classes, of which one has no rows.
#[test]
fn numbers_without_the_class_0_are_pointed_out() {
    let note = "note: edges[0], column y: classes are numbered from 0, but no row has the class 0, so that there are 3 classes";
    for (name, classes, is_noted) in [("from-1", ["1", "2", ""], true), ("from-0", ["0", "2", "1"], false)] {
        let folder = Folder::new();
        let rows: String =
            classes.iter().enumerate().map(|(row, class)| format!("{row},{},{class}\n", (row + 1) % 3)).collect();
        folder.write("edges.csv", format!("s,d,y\n{rows}"));
        let labels = json!([{"task_type": "classification", "label_col": "y"}]);
        let conf = json!({"edges": [{"relation": ["n", "to", "n"], "files": "edges.csv", "source_id_col": "s",
                                     "dest_id_col": "d", "labels": labels}]});
        let (_, stderr) = folder.with(&conf).made(name, &[]);
        assert_eq!(stderr.contains(note), is_noted, "{name}: {stderr}");
        assert_eq!(stderr.contains("no row has the class 0"), is_noted, "{name}: {stderr}");
    }
}
