//! The supervision of a job: what starts, ends and restarts its processes, and when.

mod attempt;
mod launcher;
mod watch;

pub(crate) use launcher::run;
