//! Ctrl-C and SIGTERM.
//!
//! Signals are blocked on every thread and taken by one that waits for them, so that no handler ever runs: METIS sets
//! one of its own for SIGTERM, which jumps out of whatever the interrupted thread is doing.

use crate::terminal::Terminal;
use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};
use std::sync::Arc;

/// Blocks SIGINT, SIGTERM and SIGHUP on this thread and on all that it starts from now on.
pub(crate) fn block() -> anyhow::Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    // Under nohup a hangup must not end the run.
    if !ignores_hangup() {
        signals.add(Signal::SIGHUP);
    }
    signals.thread_block().context("block signals")?;
    Ok(signals)
}

/// Lets the blocked signals end the run without leftovers.
pub(crate) fn handle(signals: SigSet, terminal: &Arc<Terminal>) -> anyhow::Result<()> {
    let terminal = terminal.clone();
    let wait = move || {
        while signals.wait().is_ok() {
            terminal.interrupt();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).context("start a thread for signals").map(drop)
}

/// Whether the process was started with SIGHUP ignored.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
