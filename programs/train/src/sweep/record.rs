//! The record of a sweep in its folder of metrics, by which the same sweep continues after an interruption.

use super::outputs::task_of;
use anyhow::Context;
use edgecut_cli::version;
use edgecut_graph::{BUILT_FEATURES_FILE, META_FILE, checksum};
use edgecut_output::write_output;
use edgecut_stores::{StoreError, StoreUrl, Stores};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The name of the file.
pub(super) const RECORD_FILE: &str = "sweep-runs.json";
/// The endings of the names of files that data without parts consists of. Runs write no such files.
const DATA_ENDINGS: [&str; 6] = ["csv", "gz", "npy", "npz", "tsv", "txt"];
/// The most folders in each other that are searched for data.
const MOST_FOLDERS: usize = 8;
/// The bytes of a file that are read at once.
const PIECE_BYTES: u64 = 16 << 20;

/// The runs of a sweep, and the results of those that are complete.
pub(super) struct SweepRecord {
    path: PathBuf,
    runs: Vec<RecordedRun>,
    reads_servers: bool,
}

/// A run, by its number.
#[derive(Serialize, Deserialize)]
struct RecordedRun {
    /// The checksum of its flags, its data and the program.
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
    /// The checksum of its model; `None` without one, and in records of earlier versions.
    #[serde(default)]
    pub(super) model: Option<String>,
}

impl SweepRecord {
    /// Describes a sweep, whose runs have these words.
    ///
    /// # Errors
    /// Data of a run that cannot be read, and is there.
    pub(super) fn new(dir: &Path, runs: &[Vec<OsString>]) -> anyhow::Result<Self> {
        let mut recorded = Vec::with_capacity(runs.len());
        let mut inputs = Inputs::default();
        for words in runs {
            recorded.push(RecordedRun { settings: inputs.settings_of(words)?, done: None });
        }
        Ok(Self { path: dir.join(RECORD_FILE), runs: recorded, reads_servers: inputs.reads_servers })
    }

    /// Returns true if a run reads the data of servers, which a record does not compare.
    pub(super) fn reads_servers(&self) -> bool {
        self.reads_servers
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

/// The checksums of files and folders that runs read. Each is read once.
#[derive(Default)]
struct Inputs {
    contents: BTreeMap<PathBuf, String>,
    reads_servers: bool,
}

impl Inputs {
    /// Returns the checksum of the words of a run, of the flags that they and `--config` set, of the files that it reads, and
    /// of the version of the program.
    ///
    /// # Errors
    /// A file or an object that cannot be read, and is there.
    fn settings_of(&mut self, words: &[OsString]) -> anyhow::Result<String> {
        let mut text = format!("{words:?} {}", version());
        if let Ok(task) = task_of(words) {
            // An object has its names in alphabetical order.
            text += &serde_json::to_value(&task).unwrap_or_default().to_string();
            self.reads_servers |= task.args().reads_servers();
            for path in task.args().inputs() {
                if !self.contents.contains_key(&path) {
                    self.contents.insert(path.clone(), content_of(&path)?);
                }
                text.push_str(&self.contents[&path]);
            }
        }
        Ok(checksum(text.as_bytes()))
    }
}

/// Returns the checksum of a file, or of the data in a folder: of the descriptions of parts, which have the checksums of all
/// files, or of the names and contents of all files of data. For a URL it is the state of these objects. It is empty for what does
/// not exist.
///
/// # Errors
/// A file or an object that cannot be read, such as one in a store that does not answer: its content could be any.
pub(super) fn content_of(path: &Path) -> anyhow::Result<String> {
    if let Some(url) = path.to_str().and_then(|text| StoreUrl::parse(text).ok()) {
        return state_of(&url).context("compare the data of the sweep");
    }
    if !path.is_dir() {
        return content_of_file(path)
            .with_context(|| format!("compare the data of the sweep: read {}", path.display()));
    }
    let meta = path.join(META_FILE);
    if meta.exists() {
        return Ok(content_of(&meta)? + &content_of_built_features(path)?);
    }
    let mut files = Vec::new();
    add_data_files(path, MOST_FOLDERS, &mut files);
    files.sort_unstable();
    let mut text = String::new();
    for file in files {
        text += &format!("{} {}\n", file.display(), content_of(&file)?);
    }
    Ok(checksum(text.as_bytes()))
}

/// Returns the checksums of the descriptions of features that were built after the parts, which `META.json` does not describe.
fn content_of_built_features(parts: &Path) -> anyhow::Result<String> {
    let mut content = String::new();
    for part in sorted_entries(parts) {
        for node_type in sorted_entries(&part.join("nodes")) {
            let description = node_type.join(BUILT_FEATURES_FILE);
            if description.is_file() {
                content += &content_of(&description)?;
            }
        }
    }
    Ok(content)
}

/// Returns whether a file in a folder of parts describes them: as a whole, or features that were built after them.
fn describes_parts(name: &str) -> bool {
    name == META_FILE || name.rsplit('/').next() == Some(BUILT_FEATURES_FILE)
}

/// Returns the paths of the entries of a folder by name; none if it cannot be read.
fn sorted_entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        paths.push(entry.path());
    }
    paths.sort_unstable();
    paths
}

/// Returns the names, sizes and versions of the objects of data that a URL names, as a checksum. It is empty if there are none.
fn state_of(url: &StoreUrl) -> Result<String, StoreError> {
    let mut stores = Stores::new(None, |_| {})?;
    if let Some(folder) = stores.folder_if_any(url)? {
        let has_parts = folder.has(META_FILE);
        return Ok(folder.state_of(|name| if has_parts { describes_parts(name) } else { is_data(Path::new(name)) }));
    }
    if !url.has_key() || !stores.has(url)? {
        return Ok(String::new());
    }
    Ok(stores.file(url, &[])?.state())
}

/// Returns the checksum of the checksums of the pieces of a file. It is empty for a file that does not exist.
fn content_of_file(path: &Path) -> io::Result<String> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let mut checksums = String::new();
    loop {
        let mut piece = Vec::new();
        if file.by_ref().take(PIECE_BYTES).read_to_end(&mut piece)? == 0 {
            return Ok(checksum(checksums.as_bytes()));
        }
        checksums += &checksum(&piece);
    }
}

/// Adds the files of data in a folder, and in up to `most_folders` folders in each other.
fn add_data_files(dir: &Path, most_folders: usize, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if most_folders > 0 {
                add_data_files(&path, most_folders - 1, files);
            }
        } else if is_data(&path) {
            files.push(path);
        }
    }
}

fn is_data(file: &Path) -> bool {
    let ending = file.extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| DATA_ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        std::fs::write(dir.join(name), text).expect("a file");
    }

    fn content(path: &Path) -> String {
        content_of(path).expect("a content")
    }

    fn settings(words: &[OsString]) -> String {
        Inputs::default().settings_of(words).expect("settings")
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), "file", "");
        // A path through a file is no absent file.
        let error = content_of(&dir.path().join("file/model")).expect_err("no folder");
        assert!(format!("{error:#}").contains("file/model: Not a directory"), "{error:#}");
    }

    #[test]
    fn data_and_models_are_compared_by_their_contents() {
        let dir = tempfile::tempdir().expect("a folder");
        let data = dir.path().join("data");
        std::fs::create_dir_all(data.join("nodes")).expect("a folder");
        write(&data, "nodes/x.npy", "one");
        write(&data, "y.csv.gz", "labels");
        let first = content(&data);
        // Outputs of runs are no data.
        write(&data, "model.safetensors", "a model");
        write(&data, "run-1.jsonl", "metrics");
        assert_eq!(content(&data), first);
        write(&data, "nodes/x.npy", "two");
        let second = content(&data);
        assert_ne!(second, first);
        write(&data, "nodes/x.npy", "one");
        assert_eq!(content(&data), first);
        write(&data, "z.npy", "more");
        assert_ne!(content(&data), first);
        // The description of parts has the checksums of their files.
        write(&data, META_FILE, "parts");
        let parts = content(&data);
        write(&data, "z.npy", "other");
        assert_eq!(content(&data), parts);
        // Features that a machine has built for its part have a description of their own.
        std::fs::create_dir_all(data.join("part_0/nodes/user")).expect("a folder");
        write(&data, "part_0/nodes/user/features.json", "checksum");
        let built = content(&data);
        write(&data, "part_0/nodes/user/features.json", "another");
        assert!(built != parts && built != content(&data));
        assert_eq!(content(&data.join("absent")), "");
        let words: Vec<OsString> = ["node", "--dataset-root-dir"].map(OsString::from).into();
        let words = [words, vec![data.into_os_string()]].concat();
        let before = settings(&words);
        write(&dir.path().join("data"), META_FILE, "other parts");
        assert_ne!(settings(&words), before);
        let mut inputs = Inputs::default();
        inputs.settings_of(&words).expect("settings");
        assert!(!inputs.reads_servers);
        inputs.settings_of(&["node", "--servers", "127.0.0.1:4000"].map(OsString::from)).expect("settings");
        assert!(inputs.reads_servers);
    }
}
