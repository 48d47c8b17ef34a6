//! Handling of Ctrl-C and SIGTERM.
//!
//! Signals are blocked on every thread and taken by one thread that waits for them, so no handler ever runs. METIS
//! installs a handler for SIGTERM that jumps out of whatever the interrupted thread is doing.

use crate::terminal::Terminal;
use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};
use std::sync::Arc;

/// Blocks SIGINT, SIGTERM and SIGHUP on this thread and on all threads that it starts later.
pub(crate) fn block() -> anyhow::Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    // Under nohup, a hangup must not end the run.
    if !ignores_hangup() {
        signals.add(Signal::SIGHUP);
    }
    signals.thread_block().context("block signals")?;
    Ok(signals)
}

/// Starts a thread that ends the run on a blocked signal, without leaving files behind.
pub(crate) fn handle(signals: SigSet, terminal: &Arc<Terminal>) -> anyhow::Result<()> {
    let terminal = terminal.clone();
    let wait = move || {
        while signals.wait().is_ok() {
            terminal.interrupt();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).context("start a thread for signals").map(drop)
}

/// Returns true if the process was started with SIGHUP ignored.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Bit 0 of the mask is signal 1, SIGHUP.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
