//! Table files for tests, and runs of the program on them.
#![allow(dead_code, reason = "each test program uses a part of this")]

pub(crate) use crate::graphs::contents;
use arrow_array::{ArrayRef, RecordBatch};
use edgecut_graph::{Meta, NpyElement, map_npy};
use edgecut_testing::succeeded;
use flate2::Compression as Level;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Returns JSON with further keys.
pub(crate) fn with(mut value: Value, more: &Value) -> Value {
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    value
}

/// Returns a configuration of nodes of type `n` in `n.csv` and of edges between them in `e.csv`, with further or other keys.
pub(crate) fn one_type(of_nodes: &Value, of_edges: &Value) -> Value {
    let nodes = json!({"node_type": "n", "node_id_col": "id", "files": "n.csv"});
    let edges = json!({"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d"});
    json!({"nodes": [with(nodes, of_nodes)], "edges": [with(edges, of_edges)]})
}

/// A folder with a configuration and its tables.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(crate::graphs::tempdir())
    }

    /// Makes a folder of text files.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let folder = Self::new();
        files.iter().for_each(|(name, content)| _ = folder.write(name, content));
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and the folders that it is in.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// Writes the configuration `graph.json`.
    pub(crate) fn with(&self, conf: &dyn Display) -> &Self {
        self.write("graph.json", conf.to_string())
    }

    pub(crate) fn write_gzip(&self, name: &str, content: &str) {
        let mut encoder = GzEncoder::new(Vec::new(), Level::default());
        encoder.write_all(content.as_bytes()).unwrap();
        self.write(name, encoder.finish().unwrap());
    }

    pub(crate) fn write_zstd(&self, name: &str, content: &str) {
        self.write(name, zstd::encode_all(content.as_bytes(), 1).unwrap());
    }

    /// Writes a Parquet file with row groups of 7 rows.
    pub(crate) fn write_parquet(&self, name: &str, compression: Compression, columns: Vec<(&str, ArrayRef)>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Arrays without a type have nulls that `try_from_iter` does not count.
        let columns = columns.into_iter().map(|(column, values)| {
            let has_nulls = values.is_nullable();
            (column, values, has_nulls)
        });
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let properties =
            WriterProperties::builder().set_compression(compression).set_max_row_group_row_count(Some(7)).build();
        let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    /// Runs `partition-graph` on `graph.json`, into the folder `out`.
    pub(crate) fn run(&self, out: &str, more: &[&str]) -> Output {
        self.command("graph.json", out, more).output().unwrap()
    }

    /// Returns the command that partitions the tables of a configuration.
    pub(crate) fn command(&self, conf: &str, out: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
        command.args(["--dataset", "graph", "--method", "random", "--json"]);
        command.arg("--conf").arg(self.path(conf)).arg("--output-dir").arg(self.path(out)).args(more);
        if !more.contains(&"--num-partitions") {
            command.args(["--num-partitions", "2"]);
        }
        command
    }

    /// Runs `partition-graph`, which must succeed, and returns its results and its messages.
    pub(crate) fn made(&self, out: &str, more: &[&str]) -> (Value, String) {
        let output = self.run(out, more);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        let verified = Command::new(env!("CARGO_BIN_EXE_partition-graph")).arg("verify").arg(self.path(out)).output();
        succeeded(verified.unwrap());
        (serde_json::from_slice(&output.stdout).unwrap(), stderr)
    }

    /// Returns the command `partition-graph features`.
    pub(crate) fn features(&self, out: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
        command.args(["features", "--dataset-root-dir"]).arg(self.path(out));
        command.arg("--conf").arg(self.path("graph.json"));
        command
    }

    /// Builds the features of a part that were left out, and returns the messages.
    pub(crate) fn built_features(&self, out: &str, part: u32) -> String {
        let output = self.features(out).args(["--part", &part.to_string()]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        stderr
    }

    /// Runs `partition-graph`, which must fail without output, and returns its error.
    pub(crate) fn fails(&self, more: &[&str]) -> String {
        let output = self.run("failed", more);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(!self.path("failed").exists(), "{stderr}");
        stderr
    }
}

/// Returns the arrays among the files of a folder.
pub(crate) fn arrays(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    contents(dir).into_iter().filter(|(name, _)| name.ends_with(".npy")).collect()
}

/// Returns the values of the nodes of type `n` in a file, a row for each node in the order of the table.
pub(crate) fn values_of_nodes<T: NpyElement + Copy>(folder: &Folder, out: &str, file: &str) -> Vec<Vec<T>> {
    rows_of(folder, out, "n", file)
}

/// Returns the values of the nodes of a type in a file, a row for each node in the order of the table.
pub(crate) fn rows_of<T: NpyElement + Copy>(folder: &Folder, out: &str, node_type: &str, file: &str) -> Vec<Vec<T>> {
    let num_parts = Meta::read(&folder.path(out)).unwrap().num_parts;
    let mut rows = BTreeMap::new();
    for part in 0..num_parts {
        let dir = folder.path(&format!("{out}/part_{part}/nodes/{node_type}"));
        let (_, ids) = map_npy::<u32>(&dir.join("original_ids.npy")).unwrap();
        let (shape, values) = map_npy::<T>(&dir.join(file)).unwrap();
        let width = shape.get(1).copied().unwrap_or(1);
        rows.extend(ids.iter().copied().zip(values.chunks(width).map(<[T]>::to_vec)));
    }
    rows.into_values().collect()
}
