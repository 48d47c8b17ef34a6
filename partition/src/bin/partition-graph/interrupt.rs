//! Ctrl-C and SIGTERM.

use crate::terminal::Terminal;
use anyhow::Context;
use std::sync::Arc;

/// The exit status of an interrupted run.
pub(crate) const EXIT_CODE: u8 = 130;

/// Lets SIGINT, SIGTERM and SIGHUP end the run without leftovers.
pub(crate) fn handle(terminal: &Arc<Terminal>) -> anyhow::Result<()> {
    if ignores_hangup() {
        // Under nohup, the hangup that must not end the run would look like the signals that must. Then none is
        // handled; what a killed run leaves, the next one removes.
        return Ok(());
    }
    let terminal = terminal.clone();
    ctrlc::set_handler(move || terminal.interrupt()).context("handle signals")
}

/// Whether the process was started with SIGHUP ignored.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
