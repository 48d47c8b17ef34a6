//! Work on the nodes over SSH, by sessions and agents.

pub(crate) mod copy;
pub(crate) mod link;
pub(crate) mod parallel;
pub(crate) mod ssh;
