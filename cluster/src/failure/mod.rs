//! Detection of failed ranks, and the spread of the first failure to all ranks.
//!
//! The control thread ([`control_thread`]) sends heartbeats and notices dead, silent and unreachable ranks
//! ([`death_detection`]). Rank 0 decides which failure was the first ([`control_plane`]). Each process keeps the
//! outcome in [`job_state`], which collectives check while they wait. One rank prints the failure where all ranks share a
//! terminal ([`printer`]).
//!
//! Invariant: ranks report the original failure, not the disconnect that it caused. A failing process keeps its
//! connections until the others have received the cause.

pub(crate) mod blame;
pub(crate) mod control_plane;
pub(crate) mod control_thread;
pub(crate) mod death_detection;
pub(crate) mod heartbeat_connection;
pub(crate) mod job_state;
pub(crate) mod keep_alive;
pub(crate) mod messages;
pub(crate) mod panics;
pub(crate) mod printer;
pub(crate) mod suspension;
pub(crate) mod verdict;
