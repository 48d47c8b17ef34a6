//! Parts whose features each node builds from the tables.

use crate::support::{Lab, text};
use crate::{TRAIN_FLAGS, accuracy, program};
use edgecut_testing::Need;
use std::fmt::Write as _;
use std::process::Command;

const NUM_USERS: usize = 900;
const CONF: &str = r#"{"nodes": [{"node_type": "user", "node_id_col": "id", "files": "users.csv",
    "features": [{"feature_col": ["a", "b"], "feature_name": "x", "transform": {"name": "max_min_norm"}}],
    "labels": [{"task_type": "classification", "label_col": "class", "split_pct": [0.4, 0.2, 0.4]}]}],
    "edges": [{"relation": ["user", "knows", "user"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"}]}"#;

/// Returns the tables: users of three classes that differ in their features, and edges within a class.
fn tables() -> [(&'static str, String); 3] {
    let mut users = "id,class,a,b\n".to_owned();
    let mut edges = "s,t\n".to_owned();
    for user in 0..NUM_USERS {
        let noise = user * 7919 % 101;
        writeln!(users, "u{user},{},{},{}", user % 3, user % 3 * 100 + noise, noise).unwrap();
        for step in 1..5 {
            writeln!(edges, "u{user},u{}", (user + 3 * step * step) % NUM_USERS).unwrap();
        }
    }
    [("users.csv", users), ("edges.csv", edges), ("graph.json", CONF.into())]
}

#[test]
fn each_node_builds_the_features_of_its_part_and_trains_on_them() {
    let test = "features on three nodes";
    let Some(lab) = Lab::namespaces_for(test, 3) else { return };
    let (Some(train), Some(partition)) = (program("train"), program("partition-graph")) else {
        return edgecut_testing::skip(
            Need::Programs,
            test,
            "the programs train and partition-graph are not built: test the whole workspace",
        );
    };
    for (name, content) in tables() {
        std::fs::write(lab.path(name), &content).unwrap();
        lab.hosts.iter().for_each(|host| std::fs::write(host.files.join(name), &content).unwrap());
    }
    for (out, more) in [("whole", None), ("deferred", Some("--defer-features"))] {
        let mut command = Command::new(&partition);
        command.args(["--conf", "graph.json", "--dataset", "users", "--num-partitions", "3", "--output-dir", out]);
        text(&command.args(more).current_dir(lab.path("")).output().unwrap());
    }
    let config = lab.ip_config(1).display().to_string();
    let launch = ["--ip-config", &config, "--copy-parts", "--sync-binary", "--"];
    let parts = ["--dataset-root-dir", "deferred"];
    let training = [launch.as_slice(), &[&train, "node"], &parts, &TRAIN_FLAGS, &["--json"]].concat();
    let run = lab.run(&training);
    assert!(!run.status.success() && run.err.contains("partition-graph features"), "{run:#?}");

    let building = [launch.as_slice(), &[&partition, "features"], &parts, &["--conf", "graph.json"]].concat();
    let run = lab.run(&building);
    assert!(run.status.success(), "{run:#?}");
    for (part, host) in lab.hosts.iter().enumerate() {
        let file = format!("part_{part}/nodes/user/features.npy");
        let [expected, found] =
            [lab.path("whole"), host.files.join("deferred")].map(|dir| std::fs::read(dir.join(&file)));
        assert!(expected.unwrap() == found.unwrap(), "{file}");
    }
    // A second run finds the features, and the copy of the parts keeps them.
    let run = lab.run(&building);
    assert!(run.status.success(), "{run:#?}");
    assert_eq!(run.out.matches("there already").count() + run.err.matches("there already").count(), 3, "{run:#?}");
    let run = lab.run(&training);
    assert!(run.status.success(), "{run:#?}");
    assert!(accuracy(&run.out) > 0.8, "{run:#?}");
}
