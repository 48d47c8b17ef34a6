//! The terminal and the logs.

pub(crate) mod printer;
pub(crate) mod screen;
