//! Work on the nodes over SSH, by sessions and agents.

pub(crate) mod agent_connection;
pub(crate) mod copy;
pub(crate) mod parallel;
pub(crate) mod ssh;
