//! Property: parts of an accepted configuration pass their own verification.

use crate::table_files::{Folder, arrays};
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use edgecut_partition::{Inputs, Method, PartitionOptions, partition_loaded, verify};
use edgecut_tables::{TableError, TableOptions, read_tables};
use parquet::basic::Compression;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

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

/// Transforms that take the texts of a column.
const OF_TEXTS: [&str; 4] = ["to_categorical", "hash_buckets", "frequency", "hash_ngrams"];

fn transform() -> impl Strategy<Value = Value> {
    let maybe = || prop::option::of(number());
    let few = || prop_oneof![8 => 1_u64..9, 1 => count()];
    prop_oneof![
        Just(json!({"name": "z_score"})),
        maybe().prop_map(|offset| json!({"name": "log", "offset": offset})),
        (maybe(), maybe()).prop_map(|(min, max)| json!({"name": "clip", "min": min, "max": max})),
        prop::sample::select(vec![[0.0, 1.0], [0.25, 0.75], [0.5, 0.5]])
            .prop_map(|quantiles| json!({"name": "clip", "quantiles": quantiles})),
        few().prop_map(|buckets| json!({"name": "hash_buckets", "buckets": buckets})),
        few().prop_map(|buckets| json!({"name": "hash_ngrams", "buckets": buckets, "of": "letters"})),
        Just(json!({"name": "frequency"})),
        (any::<bool>(), prop::sample::select(vec!["age", "hour", "month"]))
            .prop_map(|(cyclic, output)| json!({"name": "date", "epoch": "s", "cyclic": cyclic && output != "age", "outputs": output})),
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
    let by = prop::sample::select(vec![json!({}), json!({"split_by": "t"}), json!({"split_by_group": "t"})]);
    (task, [share(), share(), share()], by).prop_map(|(task, shares, mut label)| {
        let keys = json!({"task_type": task, "label_col": "y", "split_pct": shares});
        label.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        json!([label])
    })
}

/// Returns a replacement of missing values.
fn impute() -> impl Strategy<Value = Value> {
    let strategy = prop::sample::select(vec!["mean", "median", "most_frequent", "none", "constant"]);
    (strategy, any::<bool>(), stored()).prop_map(|(strategy, indicator, fill)| {
        let fill_value = (strategy == "constant").then_some(fill);
        json!({"impute": strategy, "indicator": indicator, "fill_value": fill_value})
    })
}

/// Returns the keys of a feature. Its missing values are replaced if there are some.
fn feature(
    at: usize,
    (transform, is_half, impute, on_training): (Value, bool, Value, bool),
    has_missing: bool,
) -> Value {
    let name = transform["name"].as_str().unwrap();
    let column = if name == "date" { "t" } else { "x" };
    let is_fitted = !["no-op", "log", "bucket_numerical", "hash_buckets", "hash_ngrams"].contains(&name);
    let on_training = on_training && is_fitted;
    let mut feature = json!({"feature_col": column, "feature_name": format!("f{at}"), "transform": transform,
        "out_dtype": if is_half { "float16" } else { "float32" }, "fit_on": on_training.then_some("train")});
    if has_missing && column == "x" {
        feature.as_object_mut().unwrap().extend(impute.as_object().unwrap().clone());
        if OF_TEXTS.contains(&name) {
            feature["impute"] = json!("most_frequent");
            feature["fill_value"] = Value::Null;
        }
    }
    feature
}

/// A configuration and the tables of its nodes and edges.
#[derive(Debug)]
struct Case {
    conf: Value,
    nodes: String,
    edges: String,
    /// The columns of the nodes.
    x: Vec<Option<f64>>,
    y: Vec<&'static str>,
    t: Vec<i64>,
}

fn case() -> impl Strategy<Value = Case> {
    let feature_keys = (transform(), any::<bool>(), impute(), any::<bool>());
    let label_text = prop::sample::select(vec!["0", "1", "", "NA", "-1", "2"]);
    let row = (stored(), 0_u32..4, label_text, 0_i64..4, stored());
    let rows = prop::collection::vec(row, 3..12);
    let key = |name: &'static str| prop::option::of(Just(name));
    let others = (key("t"), key("w"), any::<bool>(), any::<bool>());
    (prop::collection::vec(feature_keys, 1..4), rows, label(), others).prop_map(
        |(features, rows, labels, (time, weight, held_out, has_missing))| {
            let features: Vec<Value> =
                features.into_iter().enumerate().map(|(at, keys)| feature(at, keys, has_missing)).collect();
            let split = held_out.then(|| json!([{"task_type": "link_prediction", "split_pct": [0.5, 0.25, 0.25]}]));
            let conf = json!({
                "nodes": [{"node_type": "n", "files": "n.csv", "features": features, "labels": labels, "time_col": time}],
                "edges": [{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d",
                    "weight_col": weight, "labels": split}]
            });
            let mut case = Case {
                conf,
                nodes: "x,y,t\n".to_owned(),
                edges: "s,d,w\n".to_owned(),
                x: Vec::new(),
                y: Vec::new(),
                t: Vec::new(),
            };
            for (row, (number, missing, label, time, weight)) in rows.iter().enumerate() {
                let x = (!has_missing || *missing > 0).then_some(*number);
                let shown = x.map_or_else(String::new, |x| format!("{x:e}"));
                case.nodes += &format!("{shown},{label},{time}\n");
                case.edges += &format!("{row},{},{:e}\n", row * 7 % rows.len(), weight.abs());
                case.x.push(x);
                case.y.push(label);
                case.t.push(*time);
            }
            case
        },
    )
}

/// Writes the nodes as `n.parquet`. Numbers are texts if a feature takes these, since the texts of numbers differ.
fn write_parquet(folder: &Folder, case: &Case) {
    let of_texts = |feature: &Value| OF_TEXTS.contains(&feature["transform"]["name"].as_str().unwrap());
    let has_texts = case.conf["nodes"][0]["features"].as_array().unwrap().iter().any(of_texts);
    let x: ArrayRef = if has_texts {
        Arc::new(case.x.iter().map(|x| x.map(|x| format!("{x:e}"))).collect::<StringArray>())
    } else {
        Arc::new(Float64Array::from(case.x.clone()))
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("x", x),
        ("y", Arc::new(StringArray::from(case.y.clone()))),
        ("t", Arc::new(Int64Array::from(case.t.clone()))),
    ];
    folder.write_parquet("n.parquet", Compression::SNAPPY, columns);
}

/// Writes the parts of the tables in `graph.json`, if these are accepted.
fn partition(folder: &Folder, out: &str, num_parts: u32) -> Result<(), TableError> {
    let read = read_tables(&folder.path("graph.json"), "graph", &TableOptions::default())?;
    let options = PartitionOptions { method: Method::Random, ..PartitionOptions::new(num_parts) };
    partition_loaded(read.dataset, Inputs::default(), &options, &folder.path(out), &()).unwrap();
    verify(&folder.path(out)).unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, max_global_rejects: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn parts_of_accepted_configurations_verify_and_do_not_depend_on_the_format(case in case()) {
        let folder = Folder::new();
        folder.write("graph.json", case.conf.to_string()).write("n.csv", &case.nodes).write("e.csv", &case.edges);
        prop_assume!(partition(&folder, "csv-1", 1).is_ok());
        partition(&folder, "csv-3", 3).unwrap();
        write_parquet(&folder, &case);
        folder.write("graph.json", case.conf.to_string().replace("n.csv", "n.parquet"));
        for parts in [1, 3] {
            let out = format!("parquet-{parts}");
            partition(&folder, &out, parts).unwrap();
            prop_assert!(arrays(&folder.path(&out)) == arrays(&folder.path(&format!("csv-{parts}"))), "{}", out);
        }
    }
}
