//! The metrics file that `--metrics` names.

use anyhow::Context;
use edgecut_cluster::Attempt;
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A metrics file in JSON Lines format. Each line is written with one call, so that a reader during the run sees only
/// complete lines. A restarted attempt appends to the lines of earlier attempts.
pub(crate) struct MetricsFile {
    file: File,
    path: PathBuf,
    /// The number of restarts before this attempt.
    attempt: u64,
}

impl MetricsFile {
    /// Opens the file: truncates it, or in a restarted attempt continues at its end.
    pub(crate) fn open(path: &Path, attempt: &Attempt) -> anyhow::Result<Self> {
        let open = || -> std::io::Result<File> {
            if !attempt.is_restart() {
                return File::create(path);
            }
            let mut file = OpenOptions::new().append(true).create(true).open(path)?;
            if ends_within_a_line(path)? {
                file.write_all(b"\n")?;
            }
            Ok(file)
        };
        let file = open().with_context(|| format!("--metrics: open {}", path.display()))?;
        Ok(Self { file, path: path.to_owned(), attempt: attempt.number })
    }

    /// Writes one line: the attempt, the event and the given fields.
    pub(crate) fn line(&mut self, event: &str, fields: impl Serialize) -> anyhow::Result<()> {
        let mut value = json!({ "attempt": self.attempt, "event": event });
        let fields = serde_json::to_value(fields).context("write metrics as JSON")?;
        if let (Some(all), Value::Object(fields)) = (value.as_object_mut(), fields) {
            all.extend(fields);
        }
        let line = format!("{value}\n");
        self.file.write_all(line.as_bytes()).with_context(|| format!("write {}", self.path.display()))
    }
}

/// Returns whether a regular file ends with an incomplete line, which a killed process leaves behind.
fn ends_within_a_line(path: &Path) -> std::io::Result<bool> {
    let found = std::fs::metadata(path)?;
    if !found.is_file() || found.len() == 0 {
        return Ok(false);
    }
    let mut file = File::open(path)?;
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes one line in an attempt and returns all lines of the file. A line that is not JSON is returned as text.
    fn write(path: &Path, number: u64) -> Vec<Value> {
        let mut file = MetricsFile::open(path, &Attempt { number, run: None }).expect("a file");
        file.line("epoch", json!({ "epoch": 1 })).expect("a line");
        let text = std::fs::read_to_string(path).expect("the file");
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.into())).collect()
    }

    #[test]
    fn restarted_attempts_append_and_fresh_ones_start_anew() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("metrics.jsonl");
        let line = |attempt: u64| json!({ "attempt": attempt, "epoch": 1, "event": "epoch" });
        assert_eq!(write(&path, 1), [line(1)], "the first attempt ended before it wrote anything");
        assert_eq!(write(&path, 0), [line(0)]);
        // The second attempt was killed while it wrote a line.
        std::fs::write(&path, format!("{}\n{{\"att", line(0))).expect("a file");
        assert_eq!(write(&path, 2), [line(0), json!("{\"att"), line(2)]);
        assert_eq!(write(&path, 3).last(), Some(&line(3)));
    }
}
