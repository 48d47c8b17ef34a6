//! Pairs grouped by row, in memory or in scratch files.

mod external;
mod groups;

pub use groups::{Groups, Pairs};
