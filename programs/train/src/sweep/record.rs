//! The record of a sweep in its folder of metrics, by which the same sweep continues after an interruption.

use super::outputs::task_of;
use anyhow::Context;
use edgecut_graph::{META_FILE, checksum};
use edgecut_output::write_output;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name of the file.
pub(super) const RECORD_FILE: &str = "sweep-runs.json";

/// The runs of a sweep, and the results of those that are complete.
pub(super) struct SweepRecord {
    path: PathBuf,
    runs: Vec<RecordedRun>,
}

/// A run, by its number.
#[derive(Serialize, Deserialize)]
struct RecordedRun {
    /// The checksum of its flags and its data.
    settings: String,
    /// `None` until the run is complete.
    done: Option<DoneRun>,
}

/// A complete run.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct DoneRun {
    /// The result that it has printed.
    pub(super) result: String,
    pub(super) seconds: f64,
}

impl SweepRecord {
    /// Describes a sweep, whose runs have these words.
    pub(super) fn new(dir: &Path, runs: &[Vec<OsString>]) -> Self {
        let mut recorded = Vec::with_capacity(runs.len());
        for words in runs {
            recorded.push(RecordedRun { settings: settings_of(words), done: None });
        }
        Self { path: dir.join(RECORD_FILE), runs: recorded }
    }

    /// Returns true if the folder has the record of the same sweep.
    pub(super) fn is_in_folder(&self) -> bool {
        self.found().is_some()
    }

    /// Takes the complete runs of the same sweep from its record, and writes the record.
    pub(super) fn open(&mut self) -> anyhow::Result<()> {
        if let Some(found) = self.found() {
            self.runs = found;
        }
        self.write()
    }

    /// Returns a run that is complete.
    pub(super) fn done(&self, number: usize) -> Option<&DoneRun> {
        self.runs.get(number - 1)?.done.as_ref()
    }

    /// Records that a run is complete.
    pub(super) fn add(&mut self, number: usize, done: DoneRun) -> anyhow::Result<()> {
        self.runs[number - 1].done = Some(done);
        self.write()
    }

    /// Returns the runs in the folder, if these are the runs of this sweep.
    fn found(&self) -> Option<Vec<RecordedRun>> {
        let found: Vec<RecordedRun> = serde_json::from_slice(&std::fs::read(&self.path).ok()?).ok()?;
        let is_same = found.iter().map(|run| &run.settings).eq(self.runs.iter().map(|run| &run.settings));
        is_same.then_some(found)
    }

    fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_vec(&self.runs).context("write the runs as JSON")?;
        write_output(&self.path, &text).with_context(|| format!("--out: write {}", self.path.display()))
    }
}

/// Returns the checksum of the words of a run, of the flags that they and `--config` set, and of the parts that it reads.
fn settings_of(words: &[OsString]) -> String {
    let mut text = format!("{words:?}").into_bytes();
    if let Ok(task) = task_of(words) {
        // An object has its names in alphabetical order.
        text.extend(serde_json::to_value(&task).unwrap_or_default().to_string().bytes());
        let root = task.args().flags().part.and_then(|part| part.dataset_root_dir.as_ref());
        // Parts that are made anew have another one.
        text.extend(root.and_then(|root| std::fs::read(root.join(META_FILE)).ok()).unwrap_or_default());
    }
    checksum(&text)
}
