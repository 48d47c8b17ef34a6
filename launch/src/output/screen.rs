//! Output to the terminal and the log files.

use crate::messages::Stream;
use anyhow::{Context, bail};
use edgecut_output::{FolderLock, OwnEntries, is_numbered, write_output};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};

/// The number of last lines of a rank that are repeated if it fails.
const KEPT_LINES: usize = 10;
/// The number of lines after errors that are remembered. Beyond it all lines are shown.
const MAX_ERROR_LINES: usize = 1000;
/// Terminal colors of ranks: cyan, green, yellow, magenta, blue and their bright variants.
const COLORS: [u8; 10] = [36, 32, 33, 35, 34, 96, 92, 93, 95, 94];

/// The list of the logs of the last job, in their folder.
const LIST_FILE: &str = ".launch-logs";

/// The printer of all ranks' output to the terminal and the log files.
pub(crate) struct Screen {
    labels: Vec<String>,
    last: Vec<VecDeque<String>>,
    errors: ErrorLines,
    /// The rank whose line was shown last.
    shown_last: Option<usize>,
    log_dir: Option<PathBuf>,
    /// Keeps other jobs from the folder.
    _lock: Option<FolderLock>,
    logs: Vec<File>,
    /// True if standard output, and standard error, are shown in color.
    colors: (bool, bool),
}

impl Screen {
    /// Creates a screen, and the folder `log_dir` if it does not exist. Fails if that holds logs of others, or if
    /// another job writes there.
    pub(crate) fn new(log_dir: Option<&Path>) -> anyhow::Result<Self> {
        let mut lock = None;
        if let Some(dir) = log_dir {
            std::fs::create_dir_all(dir).with_context(|| format!("make the folder {}", dir.display()))?;
            lock = Some(FolderLock::take(dir, "logs").context("--log-dir")?);
            listed_logs(dir)?;
        }
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colors = (!plain && stdout().is_terminal(), !plain && stderr().is_terminal());
        Ok(Self {
            labels: Vec::new(),
            last: Vec::new(),
            errors: ErrorLines::default(),
            shown_last: None,
            log_dir: log_dir.map(Into::into),
            _lock: lock,
            logs: Vec::new(),
            colors,
        })
    }

    /// Opens a log file per rank for the attempt after `restarts` restarts, whose ranks have these labels. Files of earlier
    /// attempts are kept.
    pub(crate) fn begin(&mut self, restarts: u32, labels: Vec<String>) -> anyhow::Result<()> {
        self.last = vec![VecDeque::new(); labels.len()];
        self.errors = ErrorLines::new(labels.len());
        self.shown_last = None;
        self.labels = labels;
        let Some(dir) = &self.log_dir else { return Ok(()) };
        if restarts == 0 {
            remove_logs(dir)?;
        }
        let suffix = if restarts == 0 { "log".to_owned() } else { format!("restart-{restarts}.log") };
        let names: Vec<String> = (0..self.labels.len()).map(|rank| format!("rank-{rank}.{suffix}")).collect();
        list_logs(dir, &names)?;
        self.logs.clear();
        for name in names {
            let path = dir.join(name);
            self.logs.push(File::create_new(&path).with_context(|| format!("create {}", path.display()))?);
        }
        Ok(())
    }

    /// Prints a line of a rank, and logs it. A line of a rank that the job does not have is ignored. The error of several
    /// ranks, such as a wrong flag, is printed once.
    pub(crate) fn line(&mut self, rank: usize, stream: Stream, text: &str) -> anyhow::Result<()> {
        let Some(last) = self.last.get_mut(rank) else { return Ok(()) };
        if let Some(log) = self.logs.get_mut(rank) {
            writeln!(log, "{text}").context("write a log: is the disk of --log-dir full?")?;
        }
        if last.len() == KEPT_LINES {
            last.pop_front();
        }
        last.push_back(text.into());
        if stream == Stream::Err && self.errors.is_repeated(rank, text) {
            return Ok(());
        }
        self.shown_last = Some(rank);
        // A closed pipe does not end the job: the logs continue.
        let _ = match stream {
            Stream::Out => writeln!(stdout().lock(), "{} {text}", self.prefix(rank, self.colors.0)),
            Stream::Err => writeln!(stderr().lock(), "{} {text}", self.prefix(rank, self.colors.1)),
        };
        Ok(())
    }

    /// Prints the failure of a rank, and repeats its last lines if lines of other ranks follow them.
    pub(crate) fn failure(&self, rank: usize, what: &str) {
        if self.last[rank].is_empty() || self.shown_last == Some(rank) || self.errors.has_repeated(rank) {
            return self.note(what);
        }
        self.note(&format!("{what}; its last lines:"));
        let mut err = stderr().lock();
        for line in &self.last[rank] {
            let _ = writeln!(err, "{} {line}", self.prefix(rank, self.colors.1));
        }
    }

    /// Prints a message of the launcher itself.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(stderr().lock(), "launch: {text}");
    }

    fn prefix(&self, rank: usize, colored: bool) -> String {
        let label = &self.labels[rank];
        if colored { format!("\x1b[{}m[{label}]\x1b[0m", COLORS[rank % COLORS.len()]) } else { format!("[{label}]") }
    }
}

/// The lines that ranks have printed since they printed an error, which other ranks may repeat.
#[derive(Default)]
struct ErrorLines {
    /// The rank that has printed a line first.
    printed_by: HashMap<String, usize>,
    ranks: Vec<RankErrors>,
}

/// The errors of a rank.
#[derive(Clone, Copy, Default)]
struct RankErrors {
    has_failed: bool,
    has_repeated: bool,
}

impl ErrorLines {
    fn new(num_ranks: usize) -> Self {
        Self { printed_by: HashMap::new(), ranks: vec![RankErrors::default(); num_ranks] }
    }

    /// Returns true for a line of an error that another rank has printed.
    fn is_repeated(&mut self, rank: usize, text: &str) -> bool {
        let errors = &mut self.ranks[rank];
        errors.has_failed |= text.starts_with("error: ");
        if !errors.has_failed {
            return false;
        }
        match self.printed_by.get(text) {
            Some(&first) => {
                errors.has_repeated |= first != rank;
                first != rank
            }
            None => {
                if self.printed_by.len() < MAX_ERROR_LINES {
                    self.printed_by.insert(text.to_owned(), rank);
                }
                false
            }
        }
    }

    /// Returns true if lines of a rank's error were not shown, because another rank has printed them.
    fn has_repeated(&self, rank: usize) -> bool {
        self.ranks[rank].has_repeated
    }
}

/// Returns the logs of the last job, which may have had more ranks.
///
/// # Errors
/// The folder cannot be read, or holds a file with the name of a log that no job has written.
fn listed_logs(dir: &Path) -> anyhow::Result<BTreeSet<String>> {
    let list = dir.join(LIST_FILE);
    let listed = match std::fs::read_to_string(&list) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        listed => listed.with_context(|| format!("read {}", list.display()))?,
    };
    // The list may have been edited.
    let listed: BTreeSet<String> = listed.lines().filter(|name| is_log(name)).map(str::to_owned).collect();
    let reading = || format!("read the folder {}", dir.display());
    for entry in std::fs::read_dir(dir).with_context(reading)? {
        let name = entry.with_context(reading)?.file_name();
        if name.to_str().is_some_and(|name| is_log(name) && !listed.contains(name)) {
            bail!(
                "--log-dir: {} would be replaced or mistaken for a log of this job, but the last job has not written it \
                 (its logs are listed in {LIST_FILE}): move it away, or choose another folder",
                dir.join(name).display()
            );
        }
    }
    Ok(listed)
}

/// Removes the logs of the last job.
fn remove_logs(dir: &Path) -> anyhow::Result<()> {
    let logs = OwnEntries::default().with_paths(listed_logs(dir)?);
    logs.remove_within(dir).with_context(|| format!("remove the logs of the last job in {}", dir.display()))?;
    let list = dir.join(LIST_FILE);
    write_output(&list, b"").with_context(|| format!("write {}", list.display()))
}

/// Adds logs to the list of those that the next job may remove, before they are created.
fn list_logs(dir: &Path, names: &[String]) -> anyhow::Result<()> {
    let list = dir.join(LIST_FILE);
    let file = File::options().create(true).append(true).open(&list);
    let added = file.and_then(|mut file| file.write_all((names.join("\n") + "\n").as_bytes()));
    added.with_context(|| format!("write {}", list.display()))
}

/// Returns true for the names of logs.
fn is_log(name: &str) -> bool {
    ["rank-#.log", "rank-#.restart-#.log"].iter().any(|form| is_numbered(name, form))
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_output::testing::ForeignEntries;
    use edgecut_testing::assert_has;

    /// Returns the names of logs in a folder.
    fn logs(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut logs: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        logs.retain(|name| is_log(name));
        logs.sort();
        logs
    }

    fn begin(dir: &Path, restarts: u32, ranks: usize) -> anyhow::Result<()> {
        Screen::new(Some(dir))?.begin(restarts, vec![String::new(); ranks])
    }

    #[test]
    fn logs_of_the_last_job_are_removed_and_other_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = ForeignEntries::plant(dir.path()).unwrap();
        begin(dir.path(), 0, 3).unwrap();
        begin(dir.path(), 1, 3).unwrap();
        assert_eq!(logs(dir.path()).len(), 6);
        begin(dir.path(), 0, 2).unwrap();
        assert_eq!(logs(dir.path()), ["rank-0.log", "rank-1.log"]);
        assert!(foreign.lost().is_empty());
    }

    #[test]
    fn logs_of_a_job_that_runs_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut running = Screen::new(Some(dir.path())).unwrap();
        running.begin(0, vec![String::new()]).unwrap();
        let error = format!("{:#}", begin(dir.path(), 0, 1).unwrap_err());
        assert!(error.starts_with("--log-dir: another job writes logs to the folder"), "{error}");
        assert_eq!(logs(dir.path()), ["rank-0.log"]);
    }

    #[test]
    fn a_file_with_the_name_of_a_log_is_not_replaced() {
        for name in ["rank-0.log", "rank-7.log", "rank-1.restart-2.log"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(name), "theirs").unwrap();
            assert_has(begin(dir.path(), 0, 2).unwrap_err().to_string(), &["but the last job has not written it"]);
            assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), b"theirs");
        }
    }
}
