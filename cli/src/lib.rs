//! Helpers that the command-line programs share.

pub mod allocator;
mod flag_names;
mod spelling;

pub use flag_names::FlagNames;
pub use spelling::with_dashes;
