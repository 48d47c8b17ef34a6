//! Types and forms of tables as companies have them: keys of all types, partitions, files in a wrong order, and relations without
//! rows.

use crate::table_files::{Folder, arrays, one_type, values_of_nodes, with};
use arrow_array::types::{Float64Type, Int16Type};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, DurationSecondArray,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array, Int64Array, ListArray, NullArray,
    StringArray, UInt8Array, new_null_array,
};
use edgecut_testing::assert_has;
use parquet::basic::Compression;
use serde_json::{Value, json};
use std::sync::Arc;

fn parquet(folder: &Folder, name: &str, columns: Vec<(&str, ArrayRef)>) {
    folder.write_parquet(name, Compression::SNAPPY, columns);
}

fn decimals(values: Vec<i128>, scale: i8) -> ArrayRef {
    Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, scale).unwrap())
}

fn dictionary(values: Vec<i64>) -> ArrayRef {
    let keys = Int16Array::from_iter_values(0..values.len() as i16);
    Arc::new(DictionaryArray::<Int16Type>::new(keys, Arc::new(Int64Array::from(values))))
}

#[test]
fn numbers_of_all_types_are_read_where_no_value_changes() {
    let folder = Folder::new();
    let label = json!({"task_type": "classification", "label_col": "y", "split_pct": [1, 0, 0]});
    let conf = |ending: &str| {
        json!({
            "nodes": [{"node_type": "n", "node_id_col": "id", "files": format!("n.{ending}"), "features": [{"feature_col": "x"}],
                "labels": [label.clone()]}],
            "edges": [{"relation": ["n", "to", "n"], "files": format!("e.{ending}"), "source_id_col": "s", "dest_id_col": "d"}]
        })
        .to_string()
    };
    folder.write("n.csv", "id,x,y\n7,1,1\n8,0,0\n9,1,1\n").write("e.csv", "s,d\n7,8\n9,7\n");
    folder.with(&conf("csv")).made("csv", &[]);
    let expected = arrays(&folder.path("csv"));
    let ids: [(&str, ArrayRef, ArrayRef); 6] = [
        (
            "f64",
            Arc::new(Float64Array::from(vec![7.0, 8.0, 9.0])),
            Arc::new(Float64Array::from(vec![Some(7.0), Some(9.0)])),
        ),
        ("decimal", decimals(vec![7, 8, 9], 0), decimals(vec![7, 9], 0)),
        ("digits", decimals(vec![70_000, 80_000, 90_000], 4), decimals(vec![700, 900], 2)),
        ("dictionary", dictionary(vec![7, 8, 9]), dictionary(vec![7, 9])),
        ("i16", Arc::new(Int16Array::from(vec![7, 8, 9])), Arc::new(Int8Array::from(vec![7, 9]))),
        ("mixed", Arc::new(Float32Array::from(vec![7.0, 8.0, 9.0])), Arc::new(StringArray::from(vec!["7", "9"]))),
    ];
    let numbers: [(&str, ArrayRef); 7] = [
        ("bool", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ("i8", Arc::new(Int8Array::from(vec![1, 0, 1]))),
        ("u8", Arc::new(UInt8Array::from(vec![1, 0, 1]))),
        ("i16", Arc::new(Int16Array::from(vec![1, 0, 1]))),
        ("decimal", decimals(vec![1, 0, 1], 0)),
        ("cents", decimals(vec![100, 0, 100], 2)),
        ("dictionary", dictionary(vec![1, 0, 1])),
    ];
    folder.write("graph.json", conf("parquet"));
    for (at, (of_numbers, column)) in numbers.iter().enumerate() {
        let (of_ids, of_nodes, of_sources) = &ids[at % ids.len()];
        let out = format!("{of_ids}-{of_numbers}");
        let nodes = vec![("id", of_nodes.clone()), ("x", column.clone()), ("y", column.clone())];
        parquet(&folder, "n.parquet", nodes);
        let destinations: ArrayRef = Arc::new(Int64Array::from(vec![8, 7]));
        parquet(&folder, "e.parquet", vec![("s", of_sources.clone()), ("d", destinations)]);
        folder.made(&out, &[]);
        assert!(arrays(&folder.path(&out)) == expected, "{out}");
    }
    // Truth values of CSV are those of Parquet.
    folder.write("n.csv", "id,x,y\n7,True,1\n8,false,0\n9,TRUE,1\n");
    folder.with(&conf("csv")).made("texts", &[]);
    assert!(arrays(&folder.path("texts")) == expected);
    // Ids that floats do not tell from each other, and other types, are refused with the line that converts them.
    let bytes: Vec<&[u8]> = vec![b"a", b"b", b"c"];
    let refused: [(ArrayRef, &str, &str); 5] = [
        (
            Arc::new(Float64Array::from(vec![1e16, 8.0, 9.0])),
            "its type is Float64, but ids are texts or whole numbers, and 1",
            "astype(str)",
        ),
        (
            Arc::new(BooleanArray::from(vec![true, false, true])),
            "its type is Boolean, but ids are texts or whole numbers",
            "astype(str)",
        ),
        (
            decimals(vec![700, 850, 900], 2),
            "row 2: column id: its type is Decimal128(38, 2), but ids are texts or whole numbers, and 8.50 is not a whole",
            "astype(str)",
        ),
        (Arc::new(BinaryArray::from_vec(bytes.clone())), "its type is Binary, but ids", "str.decode(\"utf-8\")"),
        (
            Arc::new(FixedSizeBinaryArray::try_from_iter(bytes.into_iter()).unwrap()),
            "its type is FixedSizeBinary(1), but ids",
            "map(bytes.hex)",
        ),
    ];
    folder.write("graph.json", conf("parquet"));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 0, 1]));
    for (column, why, line) in refused {
        parquet(&folder, "n.parquet", vec![("id", column), ("x", number.clone()), ("y", number.clone())]);
        assert_has(folder.fails(&[]), &[why, &format!("table[column] = table[column].{line}")]);
    }
    // Features and classes of other types name the key that reads them, or the line that converts them.
    let days: ArrayRef = Arc::new(Date32Array::from(vec![0, 1, 2]));
    let half: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 0.5, 0.0]));
    let spans: ArrayRef = Arc::new(DurationSecondArray::from(vec![1, 2, 3]));
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9]));
    for (x, y, why) in [
        (
            &days,
            &number,
            "column x: its type is Date32, which holds no numbers; the transform {name: date} reads dates",
        ),
        (
            &spans,
            &number,
            "which holds no numbers. Convert the column, for example with pandas: table[column] = table[column].dt",
        ),
        (
            &number,
            &days,
            "column y: its type is Date32, which holds no whole numbers: classes are texts or whole numbers. Convert",
        ),
        (&number, &half, "row 2: column y: 0.5 is not a whole number; task_type: regression predicts numbers"),
    ] {
        parquet(&folder, "n.parquet", vec![("id", keys.clone()), ("x", x.clone()), ("y", y.clone())]);
        assert_has(folder.fails(&[]), &[why]);
    }
    let feature = json!({"feature_col": "x", "transform": {"name": "to_categorical"}});
    let of_edges = json!({"files": "e.parquet"});
    folder.with(&one_type(&json!({"files": "n.parquet", "features": [feature]}), &of_edges));
    parquet(&folder, "n.parquet", vec![("id", texts(["7", "8"])), ("x", lists())]);
    assert_has(folder.fails(&[]), &["column x: its type is List", "table[column].str.join(\"|\"), and set separator"]);
    // Whole numbers that were written as floats are texts in CSV.
    folder.write("n.csv", "id,x,y\n7,1,1\n8,0,0\n9,1,1\n").write("e.csv", "s,d\n7.0,8\n");
    assert_has(
        folder.with(&conf("csv")).fails(&[]),
        &["there is no n with the id 7.0, but one with the id 7", "Int64"],
    );
}

/// Returns two lists of two numbers.
fn lists() -> ArrayRef {
    let rows = [0.0, 1.0].map(|first| Some(vec![Some(first), Some(1.0)]));
    Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows))
}

fn texts(values: [&str; 2]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// pandas and pyarrow write a column of missing values as one of no type, also if another file has values there.
#[test]
fn columns_without_any_value_have_missing_values() {
    let folder = Folder::of(&[("e.csv", "s,d\na,b\nb,c\n")]);
    let features = json!([
        {"feature_col": "x", "impute": "mean", "indicator": true},
        {"feature_col": "c", "transform": {"name": "to_categorical"}},
        {"feature_col": "v", "impute": "none"},
        {"feature_col": "t", "impute": "none", "transform": {"name": "date"}}
    ]);
    let label = json!([{"task_type": "classification", "label_col": "y", "split_pct": [1, 0, 0]}]);
    let node = json!({"files": "n-*.parquet", "features": features, "labels": label});
    folder.with(&one_type(&node, &json!({})));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 3]));
    let days: ArrayRef = Arc::new(Date32Array::from(vec![0, 10]));
    let known = [("x", numbers), ("c", texts(["red", "blue"])), ("v", lists()), ("t", days)];
    let classes: ArrayRef = Arc::new(Int64Array::from(vec![0, 1]));
    for (name, of_label) in [("classes", classes), ("names", texts(["no", "yes"])), ("several", lists())] {
        let mut expected = None;
        for is_typed in [true, false] {
            let mut first = vec![("id", texts(["a", "b"]))];
            let mut second = vec![("id", texts(["c", "d"]))];
            for (column, values) in known.iter().cloned().chain([("y", of_label.clone())]) {
                let missing: ArrayRef =
                    if is_typed { new_null_array(values.data_type(), 2) } else { Arc::new(NullArray::new(2)) };
                first.push((column, missing));
                second.push((column, values));
            }
            parquet(&folder, "n-0.parquet", first);
            parquet(&folder, "n-1.parquet", second);
            let out = format!("{name}-{is_typed}");
            let (made, stderr) = folder.made(&out, &[]);
            assert_eq!(made["node_types"][0]["split_sizes"], json!([2, 0, 0]), "{out}");
            assert!(stderr.contains("nodes[0], column x: 2 of 4 values are missing (2 null)"), "{stderr}");
            let found = arrays(&folder.path(&out));
            assert!(*expected.get_or_insert_with(|| found.clone()) == found, "{out}");
        }
        let rows = values_of_nodes::<f32>(&folder, &format!("{name}-false"), "features.npy");
        let missing = [2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(rows[..2], [missing, missing], "{name}");
        assert_eq!(rows[2], [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 10.0], "{name}");
    }
}

/// Returns a configuration of edges with the given keys.
pub(crate) fn edges(more: &Value) -> Value {
    with(json!({"relation": ["n", "to", "n"], "files": "e", "source_id_col": "s", "dest_id_col": "d"}), more)
}

#[test]
fn relations_without_rows_have_no_edges() {
    let folder = Folder::of(&[("n.csv", "id\na\nb\nc\n"), ("e.csv", "s,d\na,b\nb,c\n"), ("none.csv", "s,d,w,t,x\n")]);
    let ids = || -> ArrayRef { Arc::new(StringArray::from(Vec::<&str>::new())) };
    let numbers = || -> ArrayRef { Arc::new(Float64Array::from(Vec::<f64>::new())) };
    let columns = vec![("s", ids()), ("d", ids()), ("w", numbers()), ("t", numbers()), ("x", numbers())];
    parquet(&folder, "none.parquet", columns);
    let mut found = Vec::new();
    for file in ["none.csv", "none.parquet"] {
        let none = edges(&json!({"relation": ["n", "none", "n"], "files": file, "weight_col": "w", "time_col": "t",
            "features": [{"feature_col": "x", "transform": {"name": "z_score"}}]}));
        let nodes = json!([{"node_type": "n", "node_id_col": "id", "files": "n.csv"}]);
        let conf = json!({"nodes": nodes, "edges": [edges(&json!({"files": "e.csv"})), none]});
        folder.write("graph.json", conf.to_string());
        for (parts, more) in [("1", vec![]), ("3", vec!["--add-reverse-edges"])] {
            let out = format!("{file}-{parts}");
            let (made, stderr) = folder.made(&out, &[&["--num-partitions", parts][..], &more].concat());
            assert_eq!(made["edge_types"][0]["num_edges"], 0, "{made}");
            assert!(
                stderr.contains("warning: edges[1]: n__none__n gets no edges, because its table has no rows"),
                "{stderr}"
            );
            found.push(arrays(&folder.path(&out)));
        }
        folder.made(&format!("{file}-limit"), &["--memory-limit", "512MiB", "--num-partitions", "1"]);
    }
    assert!(found[0] == found[2] && found[1] == found[3]);
}

#[test]
fn names_of_folders_are_columns() {
    let folder = Folder::of(&[("n.csv", "id\na\nb\nc\n")]);
    for (year, rows) in [("2019", "s,d\na,b\n"), ("2020", "s,d\nb,c\nc,a\n"), ("__HIVE_DEFAULT_PARTITION__", "s,d\n")] {
        folder.write(&format!("e/year={year}/kind=x%20y/part-0.csv"), rows);
    }
    folder.write("e/_SUCCESS", "");
    let features = json!([{"feature_col": "year"}, {"feature_col": "kind", "transform": {"name": "to_categorical"}}]);
    let node = json!({"node_type": "n", "node_id_col": "id", "files": "n.csv"});
    for (out, files) in [("folder", "e"), ("pattern", "e/*/*/*.csv")] {
        let edges = edges(&json!({"files": files, "features": features.clone(), "time_col": "year"}));
        folder.with(&json!({"nodes": [node.clone()], "edges": [edges]})).made(out, &["--num-partitions", "1"]);
    }
    assert!(arrays(&folder.path("folder")) == arrays(&folder.path("pattern")));
    let times = edgecut_graph::map_npy::<i64>(&folder.path("folder/part_0/edges/n__to__n/times.npy")).unwrap().1;
    let mut times = times.to_vec();
    times.sort_unstable();
    assert_eq!(times, [2019, 2020, 2020]);
    let saved: Value = serde_json::from_slice(&std::fs::read(folder.path("folder/transforms.json")).unwrap()).unwrap();
    assert_eq!(saved["edge_types"]["n__to__n"]["features"][1]["transform"]["mapping"], json!({"x y": 0}));
    // The same table in Parquet.
    for (year, from, to) in [("2019", vec!["a"], vec!["b"]), ("2020", vec!["b", "c"], vec!["c", "a"])] {
        let columns: Vec<(&str, ArrayRef)> =
            vec![("s", Arc::new(StringArray::from(from))), ("d", Arc::new(StringArray::from(to)))];
        parquet(&folder, &format!("p/year={year}/kind=x y/part-0.parquet"), columns);
    }
    let edges = edges(&json!({"files": "p", "features": features, "time_col": "year"}));
    folder.with(&json!({"nodes": [node], "edges": [edges]})).made("parquet", &["--num-partitions", "1"]);
    assert!(arrays(&folder.path("folder")) == arrays(&folder.path("parquet")));
}

#[test]
fn a_default_partition_is_missing_also_if_empty_texts_are_values() {
    let folder = Folder::of(&[("n/city=Bonn/part-0.csv", "id\na\nb\n")]);
    folder.write("n/city=__HIVE_DEFAULT_PARTITION__/part-0.csv", "id\nc\n").write("e.csv", "s,d\na,b\n");
    let feature = json!({"feature_col": "city", "transform": {"name": "to_categorical"}});
    let node = json!({"node_type": "n", "node_id_col": "id", "files": "n", "na_values": ["NA"], "features": [feature]});
    let (_, stderr) =
        folder.with(&json!({"nodes": [node], "edges": [edges(&json!({"files": "e.csv"}))]})).made("out", &[]);
    assert_eq!(values_of_nodes::<f32>(&folder, "out", "features.npy"), [[1.0], [1.0], [0.0]]);
    assert!(stderr.contains("nodes[0], column city: 1 of 3 values are missing (1 null)"), "{stderr}");
}

/// Returns a configuration of edges in `files` with a column as feature.
fn conf_of_column(files: &Value, column: &str) -> String {
    let node = json!({"node_type": "n", "node_id_col": "id", "files": "n.csv"});
    let edges = edges(&json!({"files": files, "features": [{"feature_col": column}]}));
    json!({"nodes": [node], "edges": [edges]}).to_string()
}

#[test]
fn folders_above_a_table_are_no_columns() {
    let folder = Folder::of(&[("n.csv", "id\na\nb\nc\n"), ("run=7/e/year=2019/part-0.csv", "s,d\na,b\n")]);
    folder.write("run=7/e/year=2020/part-0.csv", "s,d\nb,c\n");
    for (out, files) in [
        ("folder", "run=7/e"),
        ("pattern", "run=7/e/*/*.csv"),
        ("folders", "./run=7/e/year=*"),
        ("all", "run=7/**/*.csv"),
    ] {
        folder.with(&conf_of_column(&json!(files), "year")).made(out, &[]);
        let error = folder.with(&conf_of_column(&json!(files), "run")).fails(&[]);
        assert!(error.contains("part-0.csv: it has no column run"), "{out}: {error}");
    }
    for files in [json!(["run=7/e/year=2019/part-0.csv"]), json!("run=7/e/year=2019")] {
        assert_has(folder.with(&conf_of_column(&files, "year")).fails(&[]), &["part-0.csv: it has no column year"]);
    }
}

#[test]
fn files_of_row_numbers_in_a_wrong_order_are_named() {
    let folder = Folder::new();
    let node = |more: Value| {
        let node = with(json!({"node_type": "n", "files": "n", "features": [{"feature_col": "x"}]}), &more);
        json!({"nodes": [node], "edges": [edges(&json!({"files": "e.csv"}))]}).to_string()
    };
    folder.write("e.csv", "s,d\n0,1\n1,2\n");
    for part in [0, 1, 2, 10] {
        folder.write(&format!("n/part-{part}.csv"), format!("id,x\n{part},{part}\n"));
    }
    let (_, stderr) = folder.with(&node(json!({}))).made("rows", &[]);
    let why = "part-2.csv, because files are in the order of their names as texts: write the numbers in the names with leading \
               zeros, or set node_id_col";
    assert!(stderr.contains("part-10.csv is read before ") && stderr.contains(why), "{stderr}");
    assert_eq!(values_of_nodes::<f32>(&folder, "rows", "features.npy"), [[0.0], [1.0], [10.0], [2.0]]);
    let (_, stderr) = folder.with(&node(json!({"node_id_col": "id"}))).made("ids", &[]);
    assert!(!stderr.contains("is read before"), "{stderr}");
}

/// A column of whole numbers is a column of floats in files of pandas with a missing value.
#[test]
fn whole_numbers_are_one_category_in_all_types() {
    let folder = Folder::new();
    let texts = ["to_categorical", "frequency", "hash_buckets"];
    let features: Vec<Value> = texts
        .iter()
        .map(|name| {
            let mut transform = json!({"name": name});
            if *name == "hash_buckets" {
                transform["buckets"] = 50.into();
            }
            json!({"feature_col": "code", "feature_name": name, "transform": transform})
        })
        .collect();
    folder.with(&one_type(&json!({"files": "n-*.parquet", "features": features}), &json!({})));
    folder.write("e.csv", "s,d\n0,1\n");
    let whole: ArrayRef = Arc::new(Int64Array::from(vec![10, 20, 30]));
    let wholes: [(&str, ArrayRef); 5] = [
        ("whole", Arc::new(Int64Array::from(vec![10, 20, 10]))),
        ("floats", Arc::new(Float64Array::from(vec![10.0, 20.0, 10.0]))),
        ("singles", Arc::new(Float32Array::from(vec![10.0, 20.0, 10.0]))),
        ("decimals", decimals(vec![1000, 2000, 1000], 2)),
        ("texts", Arc::new(StringArray::from(vec!["10", "20", "10"]))),
    ];
    let mut expected = None;
    let ids: [ArrayRef; 2] = [vec![0, 1, 2], vec![3, 4, 5]].map(|ids| Arc::new(Int64Array::from(ids)) as ArrayRef);
    for (name, column) in wholes {
        parquet(&folder, "n-0.parquet", vec![("id", ids[0].clone()), ("code", whole.clone())]);
        parquet(&folder, "n-1.parquet", vec![("id", ids[1].clone()), ("code", column)]);
        folder.made(name, &[]);
        let found = arrays(&folder.path(name));
        assert!(*expected.get_or_insert_with(|| found.clone()) == found, "{name}");
    }
}

/// Rows of several tables belong together by position, so that the files of all tables need one order.
#[test]
fn tables_with_files_in_different_orders_are_named() {
    for (ids, vectors, is_warned) in [
        ("part-1,part-2,part-10", "v-01,v-02,v-10", true),
        ("part-1,part-2,part-10", "v-1,v-2,v-10", false),
        ("p-01,p-02,p-10", "v", false),
        ("p-1,p-2,p-10", "v", true),
    ] {
        let folder = Folder::new();
        for (at, name) in ids.split(',').enumerate() {
            folder.write(&format!("ids/{name}.csv"), format!("id\na{at}\n"));
            folder.write(&format!("ends/{name}.csv"), format!("s,d\na{at},a{at}\n"));
        }
        for name in vectors.split(',') {
            let rows = if vectors == "v" { "1\n2\n3\n" } else { "1\n" };
            folder.write(&format!("vectors/{name}.csv"), format!("x\n{rows}"));
        }
        let feature = json!([{"feature_col": "x"}]);
        let relation = ["n", "to", "n"];
        let conf = json!({
            "nodes": [{"node_type": "n", "node_id_col": "id", "files": "ids"},
                      {"node_type": "n", "files": "vectors", "features": feature}],
            "edges": [{"relation": relation, "files": "ends", "source_id_col": "s", "dest_id_col": "d"},
                      {"relation": relation, "files": "vectors", "features": feature}]
        });
        let (_, stderr) = folder.with(&conf).made("parts", &[]);
        for at in ["nodes[0]", "edges[0]"] {
            let warning =
                format!("warning: {at}: its rows are joined with the rows of another table by position, and ");
            assert_eq!(stderr.contains(&warning), is_warned, "{ids} {vectors}: {stderr}");
        }
        assert_eq!(stderr.contains("in the names of all tables with leading zeros"), is_warned, "{stderr}");
    }
}
