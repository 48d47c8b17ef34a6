//! The metrics file that `--metrics` names.

use crate::args::checkpoints::KeptLines;
use anyhow::Context;
use edgecut_cluster::Attempt;
use edgecut_output::{FolderLock, write_output};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The field of the attempt, before its number.
const ATTEMPT: &str = "\"attempt\":";

/// A metrics file in JSON Lines format. Each line is written with one call, so that a reader during the run sees only
/// complete lines. A restarted attempt appends to the lines of earlier attempts at the same run. A run that continues from a
/// checkpoint appends to the lines of the epochs up to the checkpoint. Lines of other runs are removed in any case: the
/// line of a run has the names of [`RunNames`](crate::progress::run_facts::RunNames), by which they are recognized.
pub(crate) struct MetricsFile {
    file: File,
    path: PathBuf,
    /// The lines of the epochs before the checkpoint from which this run continues.
    pub(crate) kept: String,
    /// Keeps other jobs from the file.
    _lock: Option<FolderLock>,
}

impl MetricsFile {
    /// Opens the file: truncates it, or in a restarted attempt of a run with these `settings` continues at its end. If `kept` is
    /// given, continues after the lines of these epochs and removes the others. Fails if another job writes to the file.
    pub(crate) fn open(
        path: &Path,
        attempt: &Attempt,
        settings: &str,
        kept: Option<&KeptLines>,
    ) -> anyhow::Result<Self> {
        let opened = Self::try_open(path, attempt, settings, kept);
        opened.with_context(|| format!("--metrics: open {}", path.display()))
    }

    fn try_open(path: &Path, attempt: &Attempt, settings: &str, kept: Option<&KeptLines>) -> std::io::Result<Self> {
        let mut lock = None;
        // Several processes may write to devices and pipes.
        if path.is_file() || !path.exists() {
            lock = Some(FolderLock::take_file(path)?);
        }
        let (file, kept) = open(path, attempt, settings, kept)?;
        Ok(Self { file, path: path.to_owned(), kept, _lock: lock })
    }

    /// Returns a note if the file lacks lines of the first `epochs`, which were before the checkpoint. Lines of another run in it
    /// are gone. Devices and pipes have no note.
    pub(crate) fn lack_of(&self, epochs: u64) -> Option<String> {
        let kept = self.kept.matches("\"event\":\"epoch\"").count() as u64;
        if kept >= epochs || !self.path.is_file() {
            return None;
        }
        Some(format!(
            "note: --metrics {} has lines of {kept} of the {epochs} epochs before the checkpoint, as after a continuation \
             without this file: its reports lack the other epochs",
            self.path.display()
        ))
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
fn open(path: &Path, attempt: &Attempt, settings: &str, kept: Option<&KeptLines>) -> std::io::Result<(File, String)> {
    // Devices and pipes cannot be read again.
    if let Some(kept) = kept.filter(|_| path.is_file()) {
        let kept = kept_lines(&std::fs::read(path)?, kept, attempt.number);
        write_output(path, kept.as_bytes())?;
        return Ok((OpenOptions::new().append(true).open(path)?, kept));
    }
    if !attempt.is_restart() || (path.is_file() && !is_of_run(&std::fs::read(path)?, attempt, settings)) {
        return Ok((File::create(path)?, String::new()));
    }
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    if ends_within_a_line(path)? {
        file.write_all(b"\n")?;
    }
    Ok((file, String::new()))
}

/// Returns the fields of a line that describes a run; `None` for other lines.
fn run_of(line: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(fields)) if fields.get("event").and_then(Value::as_str) == Some("run") => Some(fields),
        _ => None,
    }
}

/// Returns true if the last lines of a file are of an earlier attempt at the run of this one. Runs without a name are all
/// different, and so are runs with other settings: the commands of a batch script have the name of Slurm's job. Lines of earlier
/// versions have no settings.
fn is_of_run(text: &[u8], attempt: &Attempt, settings: &str) -> bool {
    let Some(last) = text.split(|&byte| byte == b'\n').rev().find_map(run_of) else { return false };
    let name = last.get("run").and_then(Value::as_str);
    let found = last.get("settings").and_then(Value::as_str);
    name.is_some() && name == attempt.run.as_deref() && found.is_none_or(|found| found == settings)
}

/// Returns the lines up to the last one of a process group that wrote a checkpoint. The lines before the group's own are
/// the ones that it has kept itself. Versions before the names wrote no names, so lines at the start without a name are
/// kept if no line has the name.
fn lines_up_to<'a>(group: Option<&str>, text: &'a [u8]) -> Vec<&'a [u8]> {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    let mut end_of_unnamed = None;
    let mut end_of_group = None;
    let mut is_within = false;
    for (at, line) in lines.iter().enumerate() {
        let Some(run) = run_of(line) else { continue };
        let name = run.get("checkpoints").and_then(Value::as_str);
        if is_within {
            end_of_group = Some(at);
        }
        is_within = is_of_group(&run, group);
        if name.is_some() && end_of_unnamed.is_none() {
            end_of_unnamed = Some(at);
        }
    }
    if is_within {
        return lines;
    }
    lines.truncate(end_of_group.or(end_of_unnamed).unwrap_or(lines.len()));
    lines
}

/// Returns the lines of the first epochs and of the runs that trained them. They become lines of this attempt, which
/// continues them, so that a report shows all of them.
fn kept_lines(text: &[u8], wanted: &KeptLines, attempt: u64) -> String {
    let epochs = wanted.epochs;
    let mut kept = String::new();
    let mut last = 0;
    // The description of the run whose epochs follow.
    let mut run = None;
    for line in lines_up_to(wanted.group.as_deref(), text) {
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
            kept.push_str(&of_attempt(line, attempt));
        }
    }
    // Another start from the same checkpoint finds the end of the lines by this line, also if no epoch follows.
    if let Some(line) = run.filter(|line| run_of(line).is_some_and(|run| is_of_group(&run, wanted.group.as_deref()))) {
        kept.push_str(&of_attempt(line, attempt));
    }
    kept
}

/// Returns a line as one of an attempt. The text is kept, because numbers that are parsed and written again may differ in the
/// last digit.
fn of_attempt(line: &[u8], attempt: u64) -> String {
    let text = String::from_utf8_lossy(line);
    match text.split_once(ATTEMPT) {
        Some((before, after)) => {
            let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{before}{ATTEMPT}{attempt}{after}")
        }
        None => text.into_owned(),
    }
}

/// Returns true if a line describes the start of a run whose checkpoints have this name.
fn is_of_group(run: &Map<String, Value>, group: Option<&str>) -> bool {
    group.is_some() && run.get("checkpoints").and_then(Value::as_str) == group
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

    /// Writes the line of a run in an attempt and returns all lines of the file. A line that is not JSON is returned as text.
    fn write(path: &Path, number: u64, run: Option<&str>) -> Vec<Value> {
        let attempt = Attempt { number, run: run.map(str::to_owned) };
        let mut file = MetricsFile::open(path, &attempt, "settings", None).expect("a file");
        let line = line_of(number, "run", json!({ "run": run })).expect("a line");
        file.write(&line).expect("written");
        let text = std::fs::read_to_string(path).expect("the file");
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.into())).collect()
    }

    #[test]
    fn restarted_attempts_append_and_fresh_ones_start_anew() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("metrics.jsonl");
        let a = Some("a");
        let line = |attempt: u64| json!({ "attempt": attempt, "event": "run", "run": a });
        assert_eq!(write(&path, 1, a), [line(1)], "the first attempt ended before it wrote anything");
        assert_eq!(write(&path, 0, a), [line(0)]);
        // The second attempt was killed while it wrote a line.
        std::fs::write(&path, format!("{}\n{{\"att", line(0))).expect("a file");
        assert_eq!(write(&path, 2, a), [line(0), json!("{\"att"), line(2)]);
        assert_eq!(write(&path, 3, a).last(), Some(&line(3)));
        // Another command of the same batch script, which was started again as a whole.
        for (settings, lines) in [("settings", 2), ("other", 1)] {
            let earlier = line_of(0, "run", json!({ "run": a, "settings": settings })).expect("a line");
            std::fs::write(&path, serde_json::to_vec(&earlier).expect("JSON")).expect("a file");
            assert_eq!(write(&path, 1, a).len(), lines, "{settings}");
        }
        assert_eq!(write(&path, 2, a).last(), Some(&line(2)));
        // The first attempt of another run ended before it wrote anything.
        for other in [Some("b"), None, None] {
            assert_eq!(write(&path, 1, other).len(), 1, "lines of another run are removed: {other:?}");
        }
    }

    #[test]
    fn a_file_to_which_another_job_writes_is_refused_and_keeps_its_lines() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("metrics.jsonl");
        let mut file = MetricsFile::open(&path, &Attempt::default(), "", None).expect("a file");
        file.write(&line_of(0, "run", json!({})).expect("a line")).expect("written");
        let error = MetricsFile::open(&path, &Attempt::default(), "", None).map(drop).expect_err("the file is taken");
        let text = format!("{error:#}");
        assert!(text.contains("--metrics: open ") && text.contains("another job writes metrics.jsonl"), "{text}");
        assert!(!std::fs::read(&path).expect("the file").is_empty());
        drop(file);
        MetricsFile::open(&path, &Attempt::default(), "", None).expect("the file is free");
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
        for (epochs, expected) in [
            (2, [run_line(1, 1), line(1, 1), line(1, 2)].concat()),
            (0, String::new()),
            (9, [run_line(1, 1), line(1, 1), line(1, 2), run_line(1, 2), line(1, 3)].concat()),
        ] {
            std::fs::write(&path, &all).expect("a file");
            let kept = KeptLines { epochs, group: Some("of an earlier version".to_owned()) };
            drop(MetricsFile::open(&path, &Attempt { number: 1, run: None }, "", Some(&kept)).expect("a file"));
            assert_eq!(std::fs::read_to_string(&path).expect("the file"), expected);
        }
        std::fs::remove_file(&path).expect("removed");
        MetricsFile::open(&path, &Attempt::default(), "", Some(&KeptLines::default())).expect("a new file");
    }

    #[test]
    fn a_resumed_run_keeps_only_lines_of_the_run_that_wrote_its_checkpoint() {
        let mut sections = Vec::new();
        for (epoch, group) in ["", "a", "b", "c"].into_iter().enumerate() {
            let name = if group.is_empty() { String::new() } else { format!("\"checkpoints\":\"{group}\",") };
            sections.push(format!(
                "{{\"attempt\":0,{name}\"event\":\"run\"}}\n{{\"attempt\":0,\"epoch\":{},\"event\":\"epoch\"}}\n",
                epoch + 1
            ));
        }
        // The run continued once without a name, and then with the names a, b and c.
        for (first, group, expected) in [
            (0, "a", 0..2),
            (0, "b", 0..3),
            (0, "c", 0..4),
            (0, "of an earlier version", 0..1),
            // Another run has replaced the file.
            (1, "other", 1..1),
            (1, "a", 1..2),
        ] {
            let text = sections[first..].concat();
            let wanted = KeptLines { epochs: 9, group: Some(group.to_owned()) };
            assert_eq!(kept_lines(text.as_bytes(), &wanted, 0), sections[expected].concat(), "{group}");
        }
        // The run c continued within its first epoch, and was started again from that checkpoint of b, twice.
        let wanted = KeptLines { epochs: 2, group: Some("b".to_owned()) };
        let kept = kept_lines(sections.concat().as_bytes(), &wanted, 0);
        let start_of_b = sections[2].split_inclusive('\n').next().expect("a line");
        assert_eq!(kept, [&*sections[0], &*sections[1], start_of_b].concat());
        assert_eq!(kept_lines([&*kept, &*sections[3]].concat().as_bytes(), &wanted, 0), kept);
    }
}
