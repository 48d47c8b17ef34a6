//! The end of a rank's process together with the process that started it.

use rustix::process::Signal;

use crate::error::{ClusterError, system};

/// The environment variable that [`LocalRanks::run`](crate::LocalRanks::run) sets for the processes that it starts, to
/// its own process id. Such a process takes its rank from the environment only.
pub const SPAWNED: &str = "EDGECUT_SPAWNED";

/// Makes a process that [`LocalRanks::run`](crate::LocalRanks::run) started end when the thread that started it ends,
/// for whatever reason. Does nothing in other processes.
///
/// # Errors
/// The parent has ended already.
pub fn end_with_parent() -> Result<(), ClusterError> {
    let Some(parent) = std::env::var(SPAWNED).ok().and_then(|text| text.parse::<i32>().ok()) else { return Ok(()) };
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|errno| system("watch the parent process")(errno.into()))?;
    // If the parent ended before the line above, no signal comes. The parent's id shows that.
    match rustix::process::getppid() {
        Some(pid) if pid.as_raw_nonzero().get() == parent => Ok(()),
        _ => Err(system("watch the parent process")(std::io::Error::other("it has ended"))),
    }
}
