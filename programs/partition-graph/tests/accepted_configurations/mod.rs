//! Property: parts of an accepted configuration pass their own verification.

use crate::table_files::Folder;
use edgecut_partition::{Method, PartitionOptions, partition_loaded, verify};
use edgecut_tables::{TableOptions, read_tables};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Numbers of tables at which transforms overflow, underflow or lose digits.
fn stored() -> impl Strategy<Value = f64> {
    let extremes = [0.0, 1.0, -1.0, 0.5, 1e-300, 5e-324, 1e-45, -1e-38, 1e15, 3.4e38, -3.4e38];
    prop_oneof![4 => prop::sample::select(extremes.to_vec()), 1 => -1e3..1e3_f64]
}

/// Parameters of transforms, which need not fit into 32 bits.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![8 => stored(), 1 => prop::sample::select(vec![1e39, f64::MAX, f64::MIN])]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 1_u64..6, 1 => prop::sample::select(vec![0, 9_999, 10_000, 10_001, 1 << 20, 4_000_000_000, u64::MAX])]
}

fn transform() -> impl Strategy<Value = Value> {
    let maybe = || prop::option::of(number());
    prop_oneof![
        prop::option::of(count()).prop_map(|dim| json!({"name": "no-op", "truncate_dim": dim})),
        (maybe(), maybe(), maybe(), maybe()).prop_map(|(max_val, min_val, max_bound, min_bound)| json!({
            "name": "max_min_norm", "max_val": max_val, "min_val": min_val, "max_bound": max_bound, "min_bound": min_bound
        })),
        maybe().prop_map(|sum| json!({"name": "standard", "sum": sum})),
        (prop::option::of(prop_oneof![number(), Just(1e-15), Just(1e-17)]), any::<bool>())
            .prop_map(|(epsilon, uniquify)| json!({"name": "rank_gauss", "epsilon": epsilon, "uniquify": uniquify})),
        prop::option::of(Just("|")).prop_map(|separator| json!({"name": "to_categorical", "separator": separator})),
        (number(), number(), count(), maybe()).prop_map(|(a, b, count, window)| json!({
            "name": "bucket_numerical", "range": [a, b], "bucket_cnt": count, "slide_window_size": window
        })),
    ]
}

fn share() -> impl Strategy<Value = f64> {
    prop_oneof![4 => (0_u32..=33).prop_map(|percent| f64::from(percent) / 100.0), 1 => Just(1.0 / 3.0), 1 => Just(1e-17)]
}

fn label() -> impl Strategy<Value = Value> {
    let task = prop::sample::select(vec!["classification", "regression"]);
    (task, [share(), share(), share()])
        .prop_map(|(task, shares)| json!([{"task_type": task, "label_col": "y", "split_pct": shares}]))
}

/// A configuration and the tables of its nodes and edges.
#[derive(Debug)]
struct Case {
    conf: Value,
    nodes: String,
    edges: String,
}

fn case() -> impl Strategy<Value = Case> {
    let feature = (transform(), any::<bool>());
    let row = (stored(), prop::sample::select(vec!["0", "1", "", "NA", "-1", "2"]), 0_i64..4, stored());
    let rows = prop::collection::vec(row, 1..12);
    let key = |name: &'static str| prop::option::of(Just(name));
    (prop::collection::vec(feature, 1..4), rows, label(), key("t"), key("w"), any::<bool>()).prop_map(
        |(features, rows, labels, time, weight, held_out)| {
            let feature = |(at, (transform, is_half)): (usize, &(Value, bool))| {
                let name = format!("f{at}");
                let dtype = if *is_half { "float16" } else { "float32" };
                json!({"feature_col": "x", "feature_name": name, "transform": transform, "out_dtype": dtype})
            };
            let features: Vec<Value> = features.iter().enumerate().map(feature).collect();
            let split = held_out.then(|| json!([{"task_type": "link_prediction", "split_pct": [0.5, 0.25, 0.25]}]));
            let conf = json!({
                "nodes": [{"node_type": "n", "files": "n.csv", "features": features, "labels": labels, "time_col": time}],
                "edges": [{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d",
                    "weight_col": weight, "labels": split}]
            });
            let mut nodes = "x,y,t\n".to_owned();
            let mut edges = "s,d,w\n".to_owned();
            for (row, (number, label, time, weight)) in rows.iter().enumerate() {
                nodes += &format!("{number:e},{label},{time}\n");
                edges += &format!("{row},{},{:e}\n", row * 7 % rows.len(), weight.abs());
            }
            Case { conf, nodes, edges }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_of_accepted_configurations_verify(case in case()) {
        let folder = Folder::new();
        folder.write("graph.json", case.conf.to_string());
        folder.write("n.csv", &case.nodes);
        folder.write("e.csv", &case.edges);
        let read = read_tables(&folder.path("graph.json"), "graph", &TableOptions::default());
        prop_assume!(read.is_ok());
        let read = read.unwrap();
        let options = PartitionOptions { method: Method::Random, ..PartitionOptions::new(1) };
        partition_loaded(read.dataset, &options, &folder.path("out"), &()).unwrap();
        verify(&folder.path("out")).unwrap();
    }
}
