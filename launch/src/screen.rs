//! Output to the terminal and the log files.

use crate::messages::Stream;
use anyhow::Context;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};

/// The number of last lines of a rank that are repeated if it fails.
const KEPT_LINES: usize = 10;
/// Terminal colors of ranks: cyan, green, yellow, magenta, blue and their bright variants.
const COLORS: [u8; 10] = [36, 32, 33, 35, 34, 96, 92, 93, 95, 94];

/// The printer of all ranks' output to the terminal and the log files.
pub(crate) struct Screen {
    labels: Vec<String>,
    last: Vec<VecDeque<String>>,
    log_dir: Option<PathBuf>,
    logs: Vec<File>,
    /// True if standard output, and standard error, are shown in color.
    colors: (bool, bool),
}

impl Screen {
    /// Creates a screen, and the folder `log_dir` if it does not exist.
    pub(crate) fn new(log_dir: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(dir) = log_dir {
            std::fs::create_dir_all(dir).with_context(|| format!("make the folder {}", dir.display()))?;
        }
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colors = (!plain && stdout().is_terminal(), !plain && stderr().is_terminal());
        Ok(Self { labels: Vec::new(), last: Vec::new(), log_dir: log_dir.map(Into::into), logs: Vec::new(), colors })
    }

    /// Opens a log file per rank for the attempt after `restarts` restarts, whose ranks have these labels. Files of earlier
    /// attempts are kept.
    pub(crate) fn begin(&mut self, restarts: u32, labels: Vec<String>) -> anyhow::Result<()> {
        self.last = vec![VecDeque::new(); labels.len()];
        self.labels = labels;
        let Some(dir) = &self.log_dir else { return Ok(()) };
        let name = |rank| match restarts {
            0 => format!("rank-{rank}.log"),
            restarts => format!("rank-{rank}.restart-{restarts}.log"),
        };
        if restarts == 0 {
            remove_old(dir)?;
        }
        let open = |rank| {
            let path = dir.join(name(rank));
            File::create(&path).with_context(|| format!("create {}", path.display()))
        };
        self.logs = (0..self.labels.len()).map(open).collect::<anyhow::Result<_>>()?;
        Ok(())
    }

    /// Prints a line of a rank, and logs it. A line of a rank that the job does not have is ignored.
    pub(crate) fn line(&mut self, rank: usize, stream: Stream, text: &str) -> anyhow::Result<()> {
        let Some(last) = self.last.get_mut(rank) else { return Ok(()) };
        if let Some(log) = self.logs.get_mut(rank) {
            writeln!(log, "{text}").context("write a log: is the disk of --log-dir full?")?;
        }
        if last.len() == KEPT_LINES {
            last.pop_front();
        }
        last.push_back(text.into());
        // A closed pipe does not end the job: the logs continue.
        let _ = match stream {
            Stream::Out => writeln!(stdout().lock(), "{} {text}", self.prefix(rank, self.colors.0)),
            Stream::Err => writeln!(stderr().lock(), "{} {text}", self.prefix(rank, self.colors.1)),
        };
        Ok(())
    }

    /// Prints the failure of a rank, and repeats its last lines.
    pub(crate) fn failure(&self, rank: usize, what: &str) {
        let lines = if self.last[rank].is_empty() { "" } else { "; its last lines:" };
        self.note(&format!("{what}{lines}"));
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

/// Removes the logs of earlier jobs, which may have had more ranks.
fn remove_old(dir: &Path) -> anyhow::Result<()> {
    for file in std::fs::read_dir(dir).with_context(|| format!("read the folder {}", dir.display()))?.flatten() {
        let name = file.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("rank-") && name.ends_with(".log")) {
            std::fs::remove_file(file.path()).with_context(|| format!("remove {}", file.path().display()))?;
        }
    }
    Ok(())
}
