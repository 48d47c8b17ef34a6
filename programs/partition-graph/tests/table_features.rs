//! Features of tables: replaced missing values, dates and all transforms, in CSV and Parquet, in one and in several parts.

use crate::table_files::{Folder, arrays, one_type, values_of_nodes, with};
use arrow_array::builder::{Float64Builder, ListBuilder};
use arrow_array::{ArrayRef, Float64Array, StringArray, TimestampMicrosecondArray};
use edgecut_testing::assert_has;
use parquet::basic::Compression;
use serde_json::{Value, json};
use std::sync::Arc;

const NUM_ROWS: usize = 6;
const X: [Option<f64>; NUM_ROWS] = [Some(1.0), Some(2.0), None, Some(4.0), Some(4.0), None];
const COLORS: [&str; NUM_ROWS] = ["red", "blue", "", "red", "unknown", "?"];
const NOTES: [&str; NUM_ROWS] = ["Red wine", "white wine!", "", "red", "a b c", "NA"];
/// Texts, and their microseconds since 1970.
const TIMES: [Option<(&str, i64)>; NUM_ROWS] = [
    Some(("2020-01-01", 1_577_836_800_000_000)),
    Some(("2020-01-02T12:00:00Z", 1_577_966_400_000_000)),
    None,
    Some(("2020-01-31T00:00", 1_580_428_800_000_000)),
    Some(("2020-01-01 06:00:00.000+01:00", 1_577_854_800_000_000)),
    None,
];
const VECTORS: [&str; NUM_ROWS] = ["[1, 2]", "[3. 4.]", "", "[5,6]", "[7, 8]", ""];

/// Writes the table of nodes as `n.csv` and `n.parquet`, and edges.
fn write(folder: &Folder) {
    let mut csv = "id,x,color,note,time,seconds,vector,y,day\n".to_owned();
    for row in 0..NUM_ROWS {
        let x = X[row].map_or_else(String::new, |x| x.to_string());
        let time = TIMES[row].map_or("", |(text, _)| text);
        let seconds = TIMES[row].map_or_else(String::new, |(_, micros)| (micros / 1_000_000).to_string());
        let [color, note, vector] = [COLORS, NOTES, VECTORS].map(|column| column[row]);
        csv += &format!("k{row},{x},{color},{note},{time},{seconds},\"{vector}\",{},{row}\n", row % 2);
    }
    folder.write("n.csv", csv);
    let texts = |values: &[&str]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let ids: Vec<String> = (0..NUM_ROWS).map(|row| format!("k{row}")).collect();
    let numbers = |values: Vec<Option<f64>>| -> ArrayRef { Arc::new(Float64Array::from(values)) };
    let micros: Vec<Option<i64>> = TIMES.iter().map(|time| time.map(|(_, micros)| micros)).collect();
    let seconds = micros.iter().map(|micros| micros.map(|micros| micros as f64 / 1e6)).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(StringArray::from(ids))),
        ("x", numbers(X.to_vec())),
        ("color", texts(&COLORS)),
        ("note", texts(&NOTES)),
        ("time", Arc::new(TimestampMicrosecondArray::from(micros))),
        // Whole numbers of pandas are floats where some are missing.
        ("seconds", numbers(seconds)),
        ("vector", texts(&VECTORS)),
        ("y", numbers((0..NUM_ROWS).map(|row| Some((row % 2) as f64)).collect())),
        ("day", numbers((0..NUM_ROWS).map(|row| Some(row as f64)).collect())),
    ];
    folder.write_parquet("n.parquet", Compression::SNAPPY, columns);
    folder.write("e.csv", "s,d\nk0,k1\nk1,k2\nk2,k3\nk3,k4\nk4,k5\nk5,k0\n");
}

/// Returns the configuration of features. The rows 0 to 2 train, row 3 is for validation and row 4 for tests.
fn conf(features: &[Value], file: &str) -> Value {
    let label =
        json!({"task_type": "classification", "label_col": "y", "split_pct": [0.5, 0.17, 0.17], "split_by": "day"});
    one_type(&json!({"files": file, "features": features, "labels": [label]}), &json!({}))
}

/// Checks that features are the same in all formats and numbers of parts, with a limit of memory and built later. Returns the
/// features of each row.
fn features(folder: &Folder, name: &str, features: &[Value]) -> Vec<Vec<f32>> {
    let scratch = folder.path("scratch");
    let mut found: Option<Vec<Vec<f32>>> = None;
    for parts in ["1", "3"] {
        let mut of_parts = None;
        for (run, file, more) in [
            ("csv", "n.csv", vec![]),
            ("parquet", "n.parquet", vec![]),
            ("limit", "n.parquet", vec!["--memory-limit", "512MiB", "--scratch-dir", scratch.to_str().unwrap()]),
        ] {
            let out = format!("{name}-{parts}-{run}");
            folder.with(&conf(features, file)).made(&out, &[&["--num-partitions", parts][..], &more].concat());
            let files =
                (arrays(&folder.path(&out)), std::fs::read_to_string(folder.path(&format!("{out}/transforms.json"))));
            let files = (files.0, files.1.unwrap());
            let first = of_parts.get_or_insert_with(|| files.clone());
            assert!(*first == files, "{out}: {} {}", first.1, files.1);
            let rows = values_of_nodes::<f32>(folder, &out, "features.npy");
            assert_eq!(*found.get_or_insert_with(|| rows.clone()), rows, "{out}");
        }
        let out = format!("{name}-{parts}-later");
        let output = folder.run(&out, &["--num-partitions", parts, "--defer-features"]);
        assert!(output.status.success(), "{out}: {}", String::from_utf8_lossy(&output.stderr));
        for part in 0..parts.parse().unwrap() {
            folder.built_features(&out, part);
        }
        assert!(of_parts.unwrap().0 == arrays(&folder.path(&out)), "{out}");
    }
    found.unwrap()
}

fn assert_near(name: &str, found: &[Vec<f32>], expected: &[&[f64]]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{name}: row {row}");
        for (at, (found, expected)) in found.iter().zip(*expected).enumerate() {
            assert!(
                (f64::from(*found) - expected).abs() < 1e-5,
                "{name}: row {row}: {at}: {found}, expected {expected}"
            );
        }
    }
}

/// Reads a case: the name of a feature, its configuration, and after ` => ` its values in each row.
fn case_of(line: &str) -> (&str, Value, Vec<Vec<f64>>) {
    let (feature, rows) = line.split_once(" => ").unwrap();
    let (name, feature) = feature.split_once(' ').unwrap();
    let feature = with(serde_json::from_str(feature).unwrap(), &json!({"feature_name": name}));
    let rows = rows.split("; ").map(|row| row.split(' ').map(|value| value.parse().unwrap()).collect());
    (name, feature, rows.collect())
}

/// Checks features of a graph that has them all, and a last feature without expected values. Returns the last feature of each
/// row.
fn check(folder: &Folder, cases: &str, last: Value) -> Vec<Vec<f32>> {
    let cases: Vec<(&str, Value, Vec<Vec<f64>>)> = cases.trim().lines().map(case_of).collect();
    let mut all: Vec<Value> = cases.iter().map(|case| case.1.clone()).collect();
    all.push(last);
    let mut rest = features(folder, "all", &all);
    for (name, _, expected) in &cases {
        let of_case: Vec<Vec<f32>> = rest.iter_mut().map(|row| row.drain(..expected[0].len()).collect()).collect();
        let expected: Vec<&[f64]> = expected.iter().map(Vec::as_slice).collect();
        assert_near(name, &of_case, &expected);
    }
    rest
}

/// Features of missing values. The values follow from NumPy's mean, median and std; the median of 1, 2, 4 and 4 is 3. The rows 0
/// to 2 train.
const IMPUTED: &str = r#"
mean {"feature_col": "x", "impute": "mean"} => 1; 2; 2.75; 4; 4; 2.75
median {"feature_col": "x", "impute": "median"} => 1; 2; 3; 4; 4; 3
most {"feature_col": "x", "impute": "most_frequent"} => 1; 2; 4; 4; 4; 4
constant {"feature_col": "x", "impute": "constant", "fill_value": 9, "indicator": true} => 1 0; 2 0; 9 1; 4 0; 4 0; 9 1
none {"feature_col": "x", "impute": "none"} => 1; 2; 0; 4; 4; 0
train {"feature_col": "x", "impute": "mean", "fit_on": "train"} => 1; 2; 1.5; 4; 4; 1.5
max_min_norm {"feature_col": "x", "impute": "constant", "fill_value": 10, "transform": {"name": "max_min_norm"}} => 0; 0.3333333; 1; 1; 1; 1
standard {"feature_col": "x", "impute": "median", "transform": {"name": "standard"}} => 0.0909091; 0.1818182; 0.2727273; 0.3636364; 0.3636364; 0.2727273
z_score {"feature_col": "x", "impute": "mean", "transform": {"name": "z_score"}} => -1.347151; -0.57735; 0; 0.96225; 0.96225; 0
log {"feature_col": "x", "impute": "none", "transform": {"name": "log"}} => 0.6931472; 1.098612; 0; 1.609438; 1.609438; 0
clip {"feature_col": "x", "impute": "most_frequent", "transform": {"name": "clip", "quantiles": [0, 0.5]}} => 1; 2; 3; 3; 3; 3
bucket {"feature_col": "x", "impute": "median", "transform": {"name": "bucket_numerical", "range": [0, 4], "bucket_cnt": 2}} => 1 0; 0 1; 0 1; 0 1; 0 1; 0 1
vector {"feature_col": "vector", "impute": "mean", "indicator": true} => 1 2 0; 3 4 0; 4 5 1; 5 6 0; 7 8 0; 4 5 1
zeros {COLOR} => 0 1; 1 0; 0 0; 0 1; 0 0; 0 0
frequent {COLOR, "impute": "most_frequent"} => 0 1; 1 0; 0 1; 0 1; 0 1; 0 1
other {COLOR, "impute": "constant", "fill_value": "other", "indicator": true} => 0 0 1 0; 1 0 0 0; 0 1 0 1; 0 0 1 0; 0 1 0 1; 0 1 0 1
"#;
const COLOR: &str =
    r#""feature_col": "color", "missing_values": ["unknown", "?"], "transform": {"name": "to_categorical"}"#;

#[test]
fn missing_values_are_replaced_in_every_transform() {
    let folder = Folder::new();
    write(&folder);
    let last = json!({"feature_col": "x", "impute": "median", "transform": {"name": "rank_gauss"}});
    let found = check(&folder, &IMPUTED.replace("COLOR", COLOR), last);
    assert!(found[1][0] < found[2][0] && found[2][0] < found[3][0], "{found:?}");
}

#[test]
fn replacements_are_those_of_the_transforms_of_other_parts() {
    let folder = Folder::new();
    write(&folder);
    let feature = json!({"feature_col": "x", "impute": "mean", "indicator": true, "transform": {"name": "z_score"}});
    let features = [feature];
    folder.with(&conf(&features, "n.csv")).made("old", &[]);
    let transforms = folder.path("old");
    let flags = ["--transforms", transforms.to_str().unwrap()];
    folder.write("n.csv", "id,x,y,day\nk0,,0,0\nk1,2.75,1,1\nk2,,0,2\nk3,100,1,3\nk4,,0,4\nk5,,1,5\n");
    folder.made("new", &flags);
    let found = values_of_nodes::<f32>(&folder, "new", "features.npy");
    assert_eq!(found[..3], [[0.0, 1.0], [0.0, 0.0], [0.0, 1.0]]);
    // A feature with another replacement is another feature.
    for impute in [json!("median"), Value::Null] {
        let mut other = features[0].clone();
        other["impute"] = impute.clone();
        other["indicator"] = json!(!impute.is_null());
        assert_has(
            folder.with(&conf(&[other], "n.csv")).fails(&flags),
            &["x (z_score, impute mean with an indicator)"],
        );
    }
    // Files that are damaged are refused.
    let saved = std::fs::read_to_string(transforms.join("transforms.json")).unwrap();
    folder.write("bad.json", saved.replace("2.75", "1e999"));
    folder.with(&conf(&features, "n.csv")).fails(&["--transforms", folder.path("bad.json").to_str().unwrap()]);
}

/// Features of times. Numbers since 1970 are the same times, and 2020-01-01 is a Wednesday.
const OF_TIMES: &str = r#"
age {"feature_col": "time", "impute": "none", "transform": {"name": "date"}} => 30; 28.5; 0; 0; 29.791667; 0
epoch {"feature_col": "seconds", "impute": "none", "transform": {"name": "date", "epoch": "s"}} => 30; 28.5; 0; 0; 29.791667; 0
scaled {"feature_col": "time", "impute": "none", "transform": {"name": "date", "scale": true}} => 0.621403; 0.503818; 0; -1.730293; 0.605072; 0
calendar {"feature_col": "time", "impute": "none", "transform": {"name": "date", "outputs": ["age", "hour", "weekday", "day", "month", "year"], "unit": "hours", "reference": "2020-01-02"}} => 24 0 2 1 1 2020; -12 12 3 2 1 2020; 0 0 0 0 0 0; -696 0 4 31 1 2020; 19 5 2 1 1 2020; 0 0 0 0 0 0
cyclic {"feature_col": "time", "impute": "none", "transform": {"name": "date", "outputs": ["hour", "month"], "cyclic": true}} => 0 1 0 1; 0 -1 0 1; 0 0 0 0; 0 1 0 1; 0.965926 0.258819 0 1; 0 0 0 0
"#;

#[test]
fn times_become_ages_and_parts_of_the_calendar() {
    let folder = Folder::new();
    write(&folder);
    // A missing time can be a date.
    let filled = json!({"feature_col": "time", "impute": "constant", "fill_value": "2020-05-07",
        "transform": {"name": "date", "outputs": ["day"]}});
    let found = check(&folder, OF_TIMES, filled);
    assert_near("filled", &found, &[&[1.0], &[2.0], &[7.0], &[31.0], &[1.0], &[7.0]]);
}

#[test]
fn a_column_of_times_is_a_feature_as_well() {
    let folder = Folder::of(&[("e.csv", "s,d\n0,1\n"), ("n.csv", "id,t\n0,1577836800000\n1,1577836800500\n")]);
    let feature = json!({"feature_col": "t", "transform": {"name": "date", "unit": "seconds", "epoch": "ms"}});
    let node = json!({"features": [feature], "time_col": {"name": "t", "epoch": "ms"}});
    let (made, _) = folder.with(&one_type(&node, &json!({}))).made("out", &[]);
    assert_eq!(made["time_unit"], "nanoseconds");
    assert_eq!(values_of_nodes::<f32>(&folder, "out", "features.npy"), [[0.5], [0.0]]);
    assert_eq!(
        values_of_nodes::<i64>(&folder, "out", "times.npy"),
        [[1_577_836_800_000_000_000], [1_577_836_800_500_000_000]]
    );
}

#[test]
fn texts_become_shares_and_hashes() {
    let folder = Folder::new();
    write(&folder);
    let feature = |column: &str, transform: Value| json!({"feature_col": column, "transform": transform});
    // Of the training rows 0 to 2, one is red and one is blue. Nothing is known of the others.
    let frequency = feature("color", json!({"name": "frequency"}));
    let found = features(&folder, "frequency", std::slice::from_ref(&frequency));
    let third = 1.0 / 3.0;
    assert_near("frequency", &found, &[&[third], &[third], &[0.0], &[third], &[0.0], &[0.0]]);
    // Rows of the test set change no training feature.
    let old = folder.path("frequency-1-csv/transforms.json");
    let table = std::fs::read_to_string(folder.path("n.csv")).unwrap();
    folder.write("n.csv", table.replace("unknown", "red").replace("?", "red"));
    folder.with(&conf(std::slice::from_ref(&frequency), "n.csv")).made("other", &["--num-partitions", "1"]);
    assert_eq!(std::fs::read(old).unwrap(), std::fs::read(folder.path("other/transforms.json")).unwrap());
    write(&folder);

    let on_all = with(frequency, &json!({"fit_on": "all", "feature_name": "on_all"}));
    let buckets = feature("color", json!({"name": "hash_buckets", "buckets": 64}));
    let ngrams = feature("note", json!({"name": "hash_ngrams", "buckets": 512}));
    let mut found = features(&folder, "several", &[on_all, buckets, ngrams]);
    let [of_all, hashes] =
        [1, 64].map(|width| found.iter_mut().map(|row| row.drain(..width).collect()).collect::<Vec<Vec<f32>>>());
    let sixth = 1.0 / 6.0;
    assert_near("all", &of_all, &[&[third], &[sixth], &[0.0], &[third], &[sixth], &[sixth]]);
    let sums: Vec<f32> = hashes.iter().map(|row| row.iter().sum()).collect();
    assert_eq!(sums, [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
    assert_eq!(hashes[0], hashes[3]);
    let product = |a: usize, b: usize| found[a].iter().zip(&found[b]).map(|(a, b)| a * b).sum::<f32>();
    assert!((product(0, 0) - 1.0).abs() < 1e-6 && (product(0, 1) - 0.5).abs() < 1e-6, "{}", product(0, 1));
    assert!((product(0, 3) - 0.5_f32.sqrt()).abs() < 1e-6 && product(1, 3) == 0.0 && product(2, 2) == 0.0);
}

#[test]
fn lists_of_other_lengths_are_cut_or_filled() {
    let folder = Folder::new();
    let mut lists = ListBuilder::new(Float64Builder::new());
    for row in [vec![1.0, 2.0, 3.0], vec![4.0], vec![]] {
        lists.append_value(row.into_iter().map(Some));
    }
    lists.append_null();
    let columns: Vec<(&str, ArrayRef)> =
        vec![("id", Arc::new(StringArray::from(vec!["a", "b", "c", "d"]))), ("v", Arc::new(lists.finish()))];
    folder.write_parquet("n.parquet", Compression::SNAPPY, columns);
    folder.write("n.csv", "id,v\na,\"[1, 2, 3]\"\nb,[4]\nc,[]\nd,\n").write("e.csv", "s,d\na,b\n");
    let conf = |file: &str, feature: Value| one_type(&json!({"files": file, "features": [feature]}), &json!({}));
    for file in ["n.csv", "n.parquet"] {
        let out = format!("parts of {file}");
        let feature = json!({"feature_col": "v", "length": 2, "impute": "mean", "indicator": true});
        folder.with(&conf(file, feature)).made(&out, &[]);
        let expected = [[1.0, 2.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0], [5.0 / 3.0, 2.0 / 3.0, 1.0]];
        assert_eq!(values_of_nodes::<f32>(&folder, &out, "features.npy"), expected, "{file}");
        let error = folder.with(&conf(file, json!({"feature_col": "v"}))).fails(&[]);
        assert_has(error, &["row 2: column v: it has 1 numbers, but earlier rows have 3; length of no-op"]);
    }
    let feature = json!({"feature_col": "v", "length": 2, "truncate_dim": 2});
    assert_has(
        folder.with(&conf("n.csv", feature)).fails(&[]),
        &["nodes[0].features[0].truncate_dim: length cuts vectors already"],
    );
}
