//! Rows of numbers for nodes, computed by all processes and read by all.

pub(crate) mod dist_rows;
