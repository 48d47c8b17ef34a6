//! The metrics file that `--metrics` names.

use anyhow::Context;
use edgecut_cluster::Attempt;
use edgecut_output::write_output;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The field of the attempt, before its number.
const ATTEMPT: &str = "\"attempt\":";

/// A metrics file in JSON Lines format. Each line is written with one call, so that a reader during the run sees only
/// complete lines. A restarted attempt appends to the lines of earlier attempts. A run that continues from a checkpoint
/// appends to the lines of the epochs up to the checkpoint.
pub(crate) struct MetricsFile {
    file: File,
    path: PathBuf,
    /// The lines of the epochs before the checkpoint from which this run continues.
    pub(crate) kept: String,
}

impl MetricsFile {
    /// Opens the file: truncates it, or in a restarted attempt continues at its end. If `kept_epochs` is given, continues
    /// after the lines of this number of epochs and removes the others.
    pub(crate) fn open(path: &Path, attempt: &Attempt, kept_epochs: Option<u64>) -> anyhow::Result<Self> {
        let opened = open(path, attempt, kept_epochs);
        let (file, kept) = opened.with_context(|| format!("--metrics: open {}", path.display()))?;
        Ok(Self { file, path: path.to_owned(), kept })
    }

    /// Writes one line.
    pub(crate) fn write(&mut self, line: &Map<String, Value>) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(line).context("write metrics as JSON")?;
        text.push(b'\n');
        self.file.write_all(&text).with_context(|| format!("write {}", self.path.display()))
    }
}

/// Returns a line: the number of restarts before this attempt, the event and the given fields.
pub(crate) fn line_of(attempt: u64, event: &str, fields: impl Serialize) -> anyhow::Result<Map<String, Value>> {
    let mut line = Map::from_iter([("attempt".to_owned(), json!(attempt)), ("event".to_owned(), json!(event))]);
    if let Value::Object(fields) = serde_json::to_value(fields).context("write metrics as JSON")? {
        line.extend(fields);
    }
    Ok(line)
}

/// Opens a metrics file, and returns the lines that it keeps of the epochs before a checkpoint.
fn open(path: &Path, attempt: &Attempt, kept_epochs: Option<u64>) -> std::io::Result<(File, String)> {
    // Devices and pipes cannot be read again.
    if let Some(epochs) = kept_epochs.filter(|_| path.is_file()) {
        let kept = kept_lines(&std::fs::read(path)?, epochs, attempt.number);
        write_output(path, kept.as_bytes())?;
        return Ok((OpenOptions::new().append(true).open(path)?, kept));
    }
    if !attempt.is_restart() {
        return Ok((File::create(path)?, String::new()));
    }
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    if ends_within_a_line(path)? {
        file.write_all(b"\n")?;
    }
    Ok((file, String::new()))
}

/// Returns the lines of the first `epochs` epochs and of the runs that trained them. They become lines of this attempt, which continues them, so that a
/// report shows all of them.
fn kept_lines(text: &[u8], epochs: u64, attempt: u64) -> String {
    let mut kept = String::new();
    let mut last = 0;
    // The description of the run whose epochs follow.
    let mut run = None;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let Ok(Value::Object(fields)) = serde_json::from_slice(line) else { continue };
        let epoch = fields.get("epoch").and_then(Value::as_u64);
        let event = fields.get("event").and_then(Value::as_str);
        if event == Some("run") {
            run = Some(line);
        }
        let is_epoch = event == Some("epoch");
        // An earlier attempt that started anew may have written an epoch as well.
        let Some(epoch) = epoch.filter(|&epoch| is_epoch && epoch <= epochs && epoch > last) else { continue };
        last = epoch;
        for line in run.take().into_iter().chain([line]) {
            // The text is kept, because numbers that are parsed and written again may differ in the last digit.
            let text = String::from_utf8_lossy(line);
            match text.split_once(ATTEMPT) {
                Some((before, after)) => {
                    let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
                    kept.push_str(&format!("{before}{ATTEMPT}{attempt}{after}"));
                }
                None => kept.push_str(&text),
            }
        }
    }
    kept
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
        let mut file = MetricsFile::open(path, &Attempt { number, run: None }, None).expect("a file");
        let line = line_of(number, "epoch", json!({ "epoch": 1 })).expect("a line");
        file.write(&line).expect("written");
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

    fn run_line(attempt: u64, date: u64) -> String {
        format!("{{\"attempt\":{attempt},\"date\":{date},\"event\":\"run\"}}\n")
    }

    #[test]
    fn a_resumed_run_continues_after_the_lines_of_the_epochs_before() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("metrics.jsonl");
        let line =
            |attempt: u64, epoch: u64| format!("{{\"attempt\":{attempt},\"epoch\":{epoch},\"event\":\"epoch\"}}\n");
        let other = "{\"attempt\":0,\"event\":\"result\"}\n";
        let all = [&run_line(0, 1), &line(0, 1), &line(0, 2), &run_line(0, 2), &line(0, 3), other, "{\"att"].concat();
        for (kept, expected) in [
            (2, [run_line(1, 1), line(1, 1), line(1, 2)].concat()),
            (0, String::new()),
            (9, [run_line(1, 1), line(1, 1), line(1, 2), run_line(1, 2), line(1, 3)].concat()),
        ] {
            std::fs::write(&path, &all).expect("a file");
            drop(MetricsFile::open(&path, &Attempt { number: 1, run: None }, Some(kept)).expect("a file"));
            assert_eq!(std::fs::read_to_string(&path).expect("the file"), expected);
        }
        std::fs::remove_file(&path).expect("removed");
        MetricsFile::open(&path, &Attempt::default(), Some(3)).expect("a new file");
    }
}
