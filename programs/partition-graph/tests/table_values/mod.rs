//! Values of tables: missing values, blank lines, shares, and times.

use crate::table_files::{Folder, arrays, one_type, values_of_nodes};
use arrow_array::types::{Date32Type, Date64Type, TimestampMillisecondType, TimestampSecondType};
use arrow_array::{
    ArrayRef, Date32Array, Date64Array, Decimal128Array, Float32Array, Float64Array, Int64Array, PrimitiveArray,
    StringArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use edgecut_graph::{Meta, TimeUnit, map_npy};
use edgecut_testing::assert_has;
use parquet::basic::Compression;
use parquet::data_type::{Int64Type, Int96, Int96Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};
use std::fs::File;
use std::sync::Arc;

/// Returns a configuration with one table of each kind, with `of_nodes` and `of_edges` among their keys.
fn conf(of_nodes: Value, of_edges: Value) -> String {
    one_type(&of_nodes, &of_edges).to_string()
}

/// Returns the values of the nodes of type `n` in a file, in the order of the table.
fn of_nodes<T: edgecut_graph::NpyElement + Copy>(folder: &Folder, out: &str, file: &str) -> Vec<T> {
    values_of_nodes(folder, out, file).concat()
}

fn parquet(folder: &Folder, name: &str, columns: Vec<(&str, ArrayRef)>) {
    folder.write_parquet(name, Compression::SNAPPY, columns);
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[test]
fn a_blank_line_of_one_column_is_a_missing_value() {
    let folder = Folder::new();
    let labels = json!([{"task_type": "classification", "label_col": "y", "split_pct": [0.5, 0.25, 0.25]}]);
    let nodes = json!({"node_type": "n", "files": "n.csv", "labels": labels});
    let edges = json!({"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d"});
    folder.write("graph.json", json!({"nodes": [nodes], "edges": [edges]}).to_string());
    folder.write("e.csv", "s,d\n0,1\n1,2\n");
    let expected = [0, -1, 1, -1, -1, 0, 1, 0, -1, 1];
    for (out, end) in [("unix", "\n"), ("windows", "\r\n")] {
        let rows = expected.map(|class| if class < 0 { String::new() } else { class.to_string() });
        folder.write("n.csv", format!("y{end}{}{end}", rows.join(end)));
        let (_, stderr) = folder.made(out, &[]);
        assert_eq!(of_nodes::<i64>(&folder, out, "labels.npy"), expected, "{out}");
        assert!(stderr.contains("note: nodes[0], column y: 4 of 10 values are missing (4 empty)"), "{stderr}");
    }
    folder.write_gzip("n.csv", "y\n\n1\n0\n");
    folder.made("gzip", &[]);
    assert_eq!(of_nodes::<i64>(&folder, "gzip", "labels.npy"), [-1, 1, 0]);
}

#[test]
fn a_blank_line_in_a_second_table_names_its_row() {
    let folder = Folder::new();
    let second = json!({"node_type": "n", "files": "x.csv", "features": [{"feature_col": "x"}]});
    let mut conf: Value = serde_json::from_str(&conf(json!({}), json!({}))).unwrap();
    conf["nodes"].as_array_mut().unwrap().push(second);
    folder.write("graph.json", conf.to_string()).write("n.csv", "id\na\nb\nc\n").write("x.csv", "x\n1\n\n3\n");
    folder.write("e.csv", "s,d\na,b\n");
    assert_has(folder.fails(&[]), &["x.csv: row 2: column x: it is missing"]);
}

/// Every spelling of a missing value, and two values.
const SPELLINGS: [&str; 9] = ["x", "", "NA", "y", "N/A", "NaN", "nan", "null", "None"];

#[test]
fn csv_and_parquet_have_the_same_missing_values() {
    let folder = Folder::new();
    let of_nodes_conf = json!({
        "features": [{"feature_col": "c", "transform": {"name": "to_categorical"}}],
        "labels": [{"task_type": "classification", "label_col": "c", "split_pct": [1, 0, 0]}]
    });
    folder.write("e.csv", "s,d\nk0,k1\n");
    let ids: Vec<String> = (0..SPELLINGS.len()).map(|n| format!("k{n}")).collect();
    let rows = ids.iter().zip(SPELLINGS).fold("id,c\n".to_owned(), |text, (id, c)| format!("{text}{id},{c}\n"));
    folder.write("n.csv", rows);
    let (_, stderr) = folder.with(&conf(of_nodes_conf.clone(), json!({}))).made("csv", &[]);
    let note = "nodes[0], column c: 7 of 9 values are missing (1 empty, 1 N/A, 1 NA, 1 NaN, 1 None, 1 nan, 1 null); the key \
                na_values lists the texts that are read as missing";
    assert!(stderr.contains(note), "{stderr}");

    let of_ids: ArrayRef = Arc::new(StringArray::from(ids));
    let dictionary: arrow_array::DictionaryArray<arrow_array::types::Int32Type> = SPELLINGS.into_iter().collect();
    parquet(&folder, "texts.parquet", vec![("id", of_ids.clone()), ("c", texts(&SPELLINGS))]);
    parquet(&folder, "dictionary.parquet", vec![("id", of_ids.clone()), ("c", Arc::new(dictionary))]);
    for name in ["texts", "dictionary"] {
        folder.write("graph.json", conf(of_nodes_conf.clone(), json!({})).replace("n.csv", &format!("{name}.parquet")));
        let (_, stderr) = folder.made(name, &[]);
        assert!(stderr.contains(note), "{stderr}");
        assert!(arrays(&folder.path("csv")) == arrays(&folder.path(name)), "{name}");
    }
    assert_eq!(of_nodes::<i64>(&folder, "csv", "labels.npy"), [0, -1, -1, 1, -1, -1, -1, -1, -1]);

    // Missing ids and numbers are bad rows in both formats.
    for (column, of_row) in [("id", "the id is missing; the key na_values"), ("x", "it is missing")] {
        let features = json!({"features": [{"feature_col": "x"}]});
        let values = |of: &str, good: &'static str| if of == column { [good, "NA", "2"] } else { ["1", "3", "2"] };
        let [ids, numbers] = [values("id", "1"), values("x", "1")];
        let rows = (0..3).fold("id,x\n".to_owned(), |text, row| format!("{text}{},{}\n", ids[row], numbers[row]));
        folder.write("n.csv", rows).write("e.csv", "s,d\n1,2\n");
        parquet(&folder, "n.parquet", vec![("id", texts(&ids)), ("x", texts(&numbers))]);
        for file in ["n.csv", "n.parquet"] {
            folder.write("graph.json", conf(features.clone(), json!({})).replace("n.csv", file));
            assert_has(folder.fails(&[]), &[&format!("{file}: row 2: column {column}: {of_row}")]);
        }
    }
}

#[test]
fn na_values_of_a_table_come_before_those_of_the_configuration() {
    let folder = Folder::new();
    // Namibia is a country.
    folder.write("n.csv", "id,x\nDE,1\nNA,-999\nNL,3\n").write("e.csv", "s,d\nNA,NL\n");
    let labels = json!([{"task_type": "regression", "label_col": "x", "split_pct": [1, 0, 0]}]);
    let of_nodes_conf = json!({"na_values": ["", -999], "labels": labels});
    let mut read: Value = serde_json::from_str(&conf(of_nodes_conf, json!({}))).unwrap();
    read["na_values"] = json!([""]);
    let (made, stderr) = folder.with(&read).made("csv", &[]);
    assert_eq!(made["node_types"][0]["split_sizes"], json!([2, 0, 0]));
    assert!(stderr.contains("nodes[0], column x: 1 of 3 values are missing (1 -999)"), "{stderr}");
    let numbers: ArrayRef = Arc::new(Float64Array::from(vec![1.0, -999.0, 3.0]));
    parquet(&folder, "n.parquet", vec![("id", texts(&["DE", "NA", "NL"])), ("x", numbers)]);
    folder.with(&read.to_string().replace("n.csv", "n.parquet")).made("parquet", &[]);
    assert!(arrays(&folder.path("csv")) == arrays(&folder.path("parquet")));
    // Without the list for the edges, the default list reads the country as missing.
    read["na_values"] = Value::Null;
    assert_has(folder.with(&read).fails(&[]), &["e.csv: row 1: column s: the id is missing; the key na_values"]);
    read["na_values"] = json!("NA");
    assert_has(folder.with(&read).fails(&[]), &["na_values: expected a list"]);
}

fn decimals(values: Vec<i128>, scale: i8) -> ArrayRef {
    Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, scale).unwrap())
}

/// Reads the numbers of three nodes, and returns how many of them are known.
fn num_known(folder: &Folder, out: &str, file: &str, missing: &Value) -> u64 {
    let label = json!({"task_type": "regression", "label_col": "x", "split_pct": [1, 0, 0]});
    let of_table = json!({"na_values": ["", missing], "labels": [label]});
    let of_column = json!({"labels": [{"task_type": "regression", "label_col": "x", "split_pct": [1, 0, 0],
        "missing_values": [missing]}]});
    let mut known = Vec::new();
    for (form, of_nodes) in [("table", of_table), ("column", of_column)] {
        let (made, _) =
            folder.with(&conf(of_nodes, json!({})).replace("n.csv", file)).made(&format!("{out}-{form}"), &[]);
        known.push(made["node_types"][0]["split_sizes"][0].as_u64().unwrap());
    }
    assert_eq!(known[0], known[1], "{out}");
    known[0]
}

#[test]
fn numbers_of_na_values_are_missing_in_columns_of_all_types() {
    let folder = Folder::of(&[("e.csv", "s,d\na,b\n")]);
    let columns: [(&str, Value, ArrayRef, u64); 9] = [
        ("i64", json!(-999), Arc::new(Int64Array::from(vec![1, -999, 3])), 2),
        ("i64-float", json!(-999.0), Arc::new(Int64Array::from(vec![1, -999, 3])), 2),
        ("f64", json!(-999.5), Arc::new(Float64Array::from(vec![1.0, -999.5, 3.0])), 2),
        ("f32", json!(0.1), Arc::new(Float32Array::from(vec![1.0, 0.1, 3.0])), 2),
        ("f32-long", json!(-3.402_823_466_385_288_6e38), Arc::new(Float32Array::from(vec![1.0, f32::MIN, 3.0])), 2),
        ("decimal", json!(-999), decimals(vec![100, -99_900, 300], 2), 2),
        ("cents", json!(0.1), decimals(vec![100, 10, 300], 2), 2),
        ("whole", json!(-999.0), decimals(vec![1, -999, 3], 0), 2),
        // A neighbor that floats do not tell from the missing value.
        ("neighbor", json!(i64::MIN), Arc::new(Int64Array::from(vec![1, i64::MIN + 1, 3])), 3),
    ];
    for (name, missing, column, expected) in columns {
        parquet(&folder, "n.parquet", vec![("id", texts(&["a", "b", "c"])), ("x", column)]);
        assert_eq!(num_known(&folder, name, "n.parquet", &missing), expected, "{name}");
    }
    let spellings =
        [(" -999", json!(-999)), ("-999.00", json!(-999)), ("-999", json!(-999.0)), ("-9.99e2", json!(-999))];
    for (at, (text, missing)) in spellings.into_iter().enumerate() {
        folder.write("n.csv", format!("id,x\na,1\nb,{text}\nc,3\n"));
        assert_eq!(num_known(&folder, &format!("text-{at}"), "n.csv", &missing), 2, "{text}");
    }
    // An id with zeros before it is not a number.
    folder.write("n.csv", "id,x\na,1\n007,2\nb,3\n");
    assert_eq!(num_known(&folder, "zeros", "n.csv", &json!(7)), 3);
}

#[test]
fn shares_of_splits_are_decimals() {
    let folder = Folder::new();
    let labels = json!([{"task_type": "classification", "label_col": "y", "split_pct": [0.29, 0.57, 0.14]}]);
    folder.write("graph.json", conf(json!({"labels": labels}), json!({})));
    folder.write("n.csv", (0..100).fold("id,y\n".to_owned(), |text, n| format!("{text}{n},{}\n", n % 2)));
    folder.write("e.csv", "s,d\n0,1\n");
    let (made, _) = folder.made("out", &[]);
    assert_eq!(made["node_types"][0]["split_sizes"], json!([29, 57, 14]));
}

const DAY: i64 = 86_400;
const NANOS: i64 = 1_000_000_000;
/// The seconds since 1970 of the days of three nodes, from 2020-01-01.
const DAYS: [i64; 3] = [18_262 * DAY, 18_263 * DAY, 18_264 * DAY];

/// Writes the nodes with times, and an edge into each node at its time.
fn write_times(folder: &Folder, of_nodes: ArrayRef, of_edges: ArrayRef) {
    parquet(folder, "n.parquet", vec![("id", texts(&["0", "1", "2"])), ("t", of_nodes)]);
    let [src, dst] = [texts(&["1", "2", "0"]), texts(&["0", "1", "2"])];
    parquet(folder, "e.parquet", vec![("s", src), ("d", dst), ("t", of_edges)]);
    let conf = conf(json!({"time_col": "t"}), json!({"time_col": "t"}));
    folder.write("graph.json", conf.replace("n.csv", "n.parquet").replace("e.csv", "e.parquet"));
}

/// Returns the times of the edges of a part graph, ascending.
fn times_of_edges(folder: &Folder, out: &str) -> Vec<i64> {
    let mut times = Vec::new();
    for part in 0..2 {
        let path = folder.path(&format!("{out}/part_{part}/edges/n__to__n/times.npy"));
        times.extend_from_slice(&map_npy::<i64>(&path).unwrap().1);
    }
    times.sort_unstable();
    times
}

#[test]
fn times_of_all_types_have_one_unit() {
    let scaled = |factor: i64| DAYS.map(|day| day * factor).to_vec();
    let columns: [(&str, ArrayRef); 7] = [
        ("s", Arc::new(TimestampSecondArray::from(scaled(1)))),
        ("ms", Arc::new(TimestampMillisecondArray::from(scaled(1000)))),
        ("us", Arc::new(TimestampMicrosecondArray::from(scaled(1_000_000)))),
        ("ns", Arc::new(TimestampNanosecondArray::from(scaled(NANOS)))),
        ("zone", Arc::new(TimestampMicrosecondArray::from(scaled(1_000_000)).with_timezone("+02:00"))),
        ("date32", Arc::new(Date32Array::from(DAYS.map(|day| (day / DAY) as i32).to_vec()))),
        ("date64", Arc::new(Date64Array::from(scaled(1000)))),
    ];
    let folder = Folder::new();
    let expected = DAYS.map(|day| day * NANOS);
    for at in 0..columns.len() {
        // Each type of nodes meets another type of edges.
        let (name, of_nodes_column) = &columns[at];
        let (_, of_edges) = &columns[(at + 1) % columns.len()];
        write_times(&folder, of_nodes_column.clone(), of_edges.clone());
        let (made, _) = folder.made(name, &[]);
        assert_eq!(made["time_unit"], "nanoseconds");
        assert_eq!(of_nodes::<i64>(&folder, name, "times.npy"), expected, "{name}");
        assert_eq!(times_of_edges(&folder, name), expected, "{name}");
        let meta = Meta::read(&folder.path(name)).unwrap();
        assert_eq!(meta.time_unit, Some(TimeUnit::Nanoseconds));
    }
    // Two files of one table in different units.
    let times = |part: &str, times: ArrayRef| {
        parquet(&folder, part, vec![("s", texts(&["1", "2", "0"])), ("d", texts(&["0", "1", "2"])), ("t", times)]);
    };
    times("e-1.parquet", columns[1].1.clone());
    times("e-2.parquet", columns[2].1.clone());
    let read = std::fs::read_to_string(folder.path("graph.json")).unwrap();
    folder.with(&read.replace("e.parquet", "e-*.parquet")).made("files", &[]);
    let twice: Vec<i64> = expected.into_iter().flat_map(|time| [time, time]).collect();
    assert_eq!(times_of_edges(&folder, "files"), twice);
}

#[test]
fn times_in_texts_are_those_of_iso_8601_or_of_a_format() {
    let folder = Folder::of(&[("e.csv", "s,d\n0,1\n")]);
    let noon = DAYS[1] * NANOS + DAY / 2 * NANOS;
    for (out, format, rows) in [
        ("iso", "", "2020-01-02 | 2020-01-02T12:00:00Z | 2020-01-02 14:00+02:00"),
        ("fractions", "", "2020-01-02 00:00:00.000000000 | 2020-01-02T07:00:00.000-05:00 | 2020-01-02T12:00"),
        ("logs", "", "2020-01-02 00:00:00,000 | 2020-01-02 12:00:00,000+00:00 | 2020-01-02 12:00:00.000000 UTC"),
        ("minutes", "", "2020-01-02 00:00 UTC | 2020-01-02T12:00Z | 2020-01-02 12:00:00 UTC"),
        ("days", "%d.%m.%Y %H:%M", "02.01.2020 00:00 | 02.01.2020 12:00 | 02.01.2020 12:00"),
        ("seconds", "%s", "1577923200 | 1577966400 | 1577966400"),
        ("zone", "%m/%d/%y %I:%M %p %z", "01/02/20 01:00 AM +0100 | 01/02/20 01:00 PM +0100 | 01/02/20 12:00 PM +0000"),
        (
            "postgres",
            "%Y-%m-%d %H:%M:%S%.f%#z",
            "2020-01-02 01:00:00.000+01 | 2020-01-02 13:00:00+0100 | 2020-01-02 12:00:00.0+00:00",
        ),
    ] {
        let time_col = if format.is_empty() { json!("t") } else { json!({"name": "t", "format": format}) };
        let rows: Vec<&str> = rows.split(" | ").collect();
        folder.write("n.csv", (0..3).fold("id,t\n".to_owned(), |text, row| format!("{text}{row},\"{}\"\n", rows[row])));
        folder.with(&conf(json!({"time_col": time_col}), json!({}))).made(out, &[]);
        assert_eq!(of_nodes::<i64>(&folder, out, "times.npy"), [DAYS[1] * NANOS, noon, noon], "{out}");
        parquet(&folder, "n.parquet", vec![("id", texts(&["0", "1", "2"])), ("t", texts(&rows))]);
        folder.write("graph.json", conf(json!({"time_col": time_col}), json!({})).replace("n.csv", "n.parquet"));
        folder.made(&format!("{out}-parquet"), &[]);
        assert!(arrays(&folder.path(out)) == arrays(&folder.path(&format!("{out}-parquet"))), "{out}");
    }
    // Whole numbers in the form of a date.
    let days: ArrayRef = Arc::new(Int64Array::from(vec![20_200_101, 20_200_102, 20_200_103]));
    parquet(&folder, "n.parquet", vec![("id", texts(&["0", "1", "2"])), ("t", days)]);
    let time_col = json!({"time_col": {"name": "t", "format": "%Y%m%d"}});
    folder.with(&conf(time_col, json!({})).replace("n.csv", "n.parquet")).made("whole", &[]);
    assert_eq!(of_nodes::<i64>(&folder, "whole", "times.npy"), DAYS.map(|day| day * NANOS));
}

#[test]
fn fractions_of_times_since_1970_are_exact() {
    let folder = Folder::of(&[("e.csv", "s,d\n0,1\n")]);
    let expected = [1_600_000_000_123_456_789_i64, -1_500_000_000, 1_600_000_000_000_000_000];
    for (epoch, rows) in [
        ("s", ["1600000000.123456789", "-1.5", "1.6e9"]),
        ("ms", ["1600000000123.4567890000", "-1500.0", "1600000000000."]),
        ("ns", ["1600000000123456789.25", "-1500000000.4", "1600000000000000000.0"]),
    ] {
        folder.write("n.csv", (0..3).fold("id,t\n".to_owned(), |text, row| format!("{text}{row},{}\n", rows[row])));
        let time_col = json!({"time_col": {"name": "t", "epoch": epoch}});
        folder.with(&conf(time_col, json!({}))).made(epoch, &[]);
        assert_eq!(of_nodes::<i64>(&folder, epoch, "times.npy"), expected, "{epoch}");
    }
    let seconds = decimals(vec![1_600_000_000_123_456_789, -1_500_000_000, 1_600_000_000_000_000_000], 9);
    parquet(&folder, "n.parquet", vec![("id", texts(&["0", "1", "2"])), ("t", seconds)]);
    let time_col = json!({"time_col": {"name": "t", "epoch": "s"}});
    folder.with(&conf(time_col.clone(), json!({})).replace("n.csv", "n.parquet")).made("decimals", &[]);
    assert_eq!(of_nodes::<i64>(&folder, "decimals", "times.npy"), expected);
    folder.write("n.csv", "id,t\n0,1\n1,1.2.3\n").write("graph.json", conf(time_col, json!({})));
    assert_has(folder.fails(&[]), &["row 2: column t: \"1.2.3\" is not a number since 1970, as epoch says"]);
}

#[test]
fn plain_integers_stay_and_do_not_mix_with_times() {
    let folder = Folder::new();
    let days = || -> ArrayRef { Arc::new(Date32Array::from(DAYS.map(|day| (day / DAY) as i32).to_vec())) };
    let plain = || -> ArrayRef { Arc::new(Int64Array::from(DAYS.to_vec())) };
    write_times(&folder, plain(), plain());
    folder.made("plain", &[]);
    assert_eq!(of_nodes::<i64>(&folder, "plain", "times.npy"), DAYS);
    assert_eq!(Meta::read(&folder.path("plain")).unwrap().time_unit, Some(TimeUnit::Integers));

    write_times(&folder, plain(), days());
    let error = folder.fails(&[]);
    let why = "e.parquet: column t of edges[0] has nanoseconds since 1970, but column t of nodes[0] has plain whole numbers: \
               times of different units cannot be compared";
    assert!(error.contains(why), "{error}");

    // Later graphs have the unit of the transforms.
    let transforms = folder.path("plain");
    let flags = ["--transforms", transforms.to_str().unwrap()];
    write_times(&folder, days(), days());
    assert_has(
        folder.fails(&flags),
        &["nodes[0] has nanoseconds since 1970, but the graph of transforms.json has plain"],
    );
    write_times(&folder, plain(), plain());
    folder.made("again", &flags);
    // Transforms of the previous version do not have the unit.
    let saved = std::fs::read_to_string(transforms.join("transforms.json")).unwrap();
    let mut saved: Value = serde_json::from_str(&saved).unwrap();
    saved["version"] = json!(1);
    saved.as_object_mut().unwrap().remove("time_unit");
    folder.write("old.json", saved.to_string());
    write_times(&folder, days(), days());
    let (_, stderr) = folder.made("old", &["--transforms", folder.path("old.json").to_str().unwrap()]);
    assert!(stderr.contains("warning: the transforms are those of an older version"), "{stderr}");

    // One column does not mix them either.
    folder.write("n.csv", "id,t\n0,7\n1,2020-01-01\n2,9\n").write("e.csv", "s,d\n0,1\n");
    folder.write("graph.json", conf(json!({"time_col": "t"}), json!({})));
    assert_has(folder.fails(&[]), &["n.csv: row 2: column t: its time is in nanoseconds since 1970, but"]);
}

/// Writes nodes whose times are one second after the start of Julian days, as INT96.
fn write_int96(folder: &Folder, julian_days: [u32; 3]) {
    let schema = parse_message_type("message m { REQUIRED INT64 id; REQUIRED INT96 t; }").unwrap();
    let file = File::create(folder.path("n.parquet")).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[0, 1, 2], None, None).unwrap();
    column.close().unwrap();
    let times = julian_days.map(|day| Int96::from(vec![NANOS as u32, 0, day]));
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&times, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn times_that_do_not_fit_are_named() {
    let folder = Folder::new();
    let with = |last: i64| [DAYS[0], DAYS[1], last].to_vec();
    fn column<T: arrow_array::types::ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter_values(values))
    }
    for (times, shown) in [
        (column::<TimestampSecondType>(with(253_402_300_799)), "9999-12-31"),
        (column::<TimestampMillisecondType>(with(-62_135_596_800_000)), "0001-01-01"),
        (column::<TimestampSecondType>(with(i64::MAX)), "9223372036854775807000000000 ns"),
        (column::<Date64Type>(with(253_402_300_799_000)), "9999-12-31"),
        (column::<Date32Type>(vec![0, 1, 2_932_896]), "9999-12-31"),
        (texts(&["2020-01-01", "2020-01-01", "2300-01-01T00:00:00Z"]), "2300-01-01T00:00:00Z"),
    ] {
        write_times(&folder, times.clone(), times);
        let error = folder.fails(&[]);
        let why = format!("n.parquet: row 3: column t: {shown} is outside of 1677-09-21 to 2262-04-11");
        assert!(error.contains(&why), "{error}, expected {why}");
    }
    // Spark stores times as INT96 by default: nanoseconds of the day and a Julian day.
    for (last_day, expected) in [(2_458_852, Ok(())), (5_373_484, Err("9999-12-31"))] {
        write_int96(&folder, [2_458_850, 2_458_851, last_day]);
        folder.write("e.csv", "s,d\n0,1\n");
        folder.write("graph.json", conf(json!({"time_col": "t"}), json!({})).replace("n.csv", "n.parquet"));
        if let Err(shown) = expected {
            assert_has(folder.fails(&[]), &[&format!("row 3: column t: {shown} is outside of 1677")]);
        } else {
            folder.made("int96", &[]);
            assert_eq!(of_nodes::<i64>(&folder, "int96", "times.npy"), DAYS.map(|day| (day + 1) * NANOS));
        }
    }
    let seconds: ArrayRef = Arc::new(arrow_array::Time32SecondArray::from(vec![1, 2, 3]));
    write_times(&folder, seconds.clone(), seconds);
    assert_has(folder.fails(&[]), &["column t: its type is Time32(s), which is not a point in time"]);
    for (format, why) in [
        ("%Q", "nodes[0].time_col.format: \"%Q\" is not a format of strftime"),
        ("%H:%M", "nodes[0].time_col.format: \"%H:%M\" does not determine a time"),
        ("%#z", "nodes[0].time_col.format: \"%#z\" does not determine a time"),
        (
            "%Y-%m-%d %H:%M %Z",
            "nodes[0].time_col.format: %Z is the name of a zone, which tells no offset from UTC: use %z",
        ),
        ("%Y-%m-%d %H:%M:%S.%f", "nodes[0].time_col.format: %f counts nanoseconds: use %.f, without a point before it"),
    ] {
        assert_has(
            folder.with(&conf(json!({"time_col": {"name": "t", "format": format}}), json!({}))).fails(&[]),
            &[why],
        );
    }
    folder.write("n.csv", "id,t\n0,2020-01-01\n1,soon\n").write("e.csv", "s,d\n0,1\n");
    folder.write("graph.json", conf(json!({"time_col": "t"}), json!({})));
    assert_has(folder.fails(&[]), &["row 2: column t: \"soon\" is not a whole number, or a date or time of ISO 8601"]);
    folder.write("graph.json", conf(json!({"time_col": {"name": "t", "format": "%d.%m.%Y"}}), json!({})));
    assert_has(folder.fails(&[]), &["row 1: column t: \"2020-01-01\" is not a time of the format \"%d.%m.%Y\""]);
}

#[test]
fn texts_that_may_stand_for_missing_values_are_named() {
    let folder = Folder::of(&[("n.csv", "id,y,c\na,cat,x\nb,?,Unknown\nc,dog,y\nd,?,x\n"), ("e.csv", "s,d\na,b\n")]);
    let mut label = json!({"task_type": "classification", "label_col": "y", "split_pct": [1, 0, 0]});
    let mut feature = json!({"feature_col": "c", "transform": {"name": "to_categorical"}});
    folder.write("graph.json", conf(json!({"labels": [label.clone()], "features": [feature.clone()]}), json!({})));
    let (made, stderr) = folder.made("values", &[]);
    assert_eq!(made["node_types"][0]["num_classes"], 3);
    for (column, text) in [("y", "?"), ("c", "Unknown")] {
        let note = format!(
            "note: nodes[0], column {column}: the text {text} is a value like others; missing_values: [{text:?}] reads it as missing"
        );
        assert!(stderr.contains(&note), "{stderr}");
    }
    label["missing_values"] = json!(["?"]);
    feature["missing_values"] = json!(["Unknown"]);
    let (made, stderr) =
        folder.with(&conf(json!({"labels": [label], "features": [feature]}), json!({}))).made("missing", &[]);
    assert_eq!(
        (&made["node_types"][0]["num_classes"], &made["node_types"][0]["split_sizes"]),
        (&json!(2), &json!([2, 0, 0]))
    );
    assert!(!stderr.contains("a value like others"), "{stderr}");
    assert!(stderr.contains("nodes[0], column y: 2 of 4 values are missing (2 ?)"), "{stderr}");
}
