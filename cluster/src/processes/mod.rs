//! Ranks as processes of one machine: copies of this program that start and end together.

pub(crate) mod end_with_parent;
pub(crate) mod interrupts;
pub(crate) mod local_ranks;
pub(crate) mod rank_errors;
pub(crate) mod spawn;
pub(crate) mod termination;
