//! Writing parts: a dataset whose nodes are assigned to parts becomes files under the contract of `docs/format.md`.
//!
//! Who decides which node goes where is not here but in edgecut-partition. [`write_one_part`] needs no decision: a whole
//! dataset, as the one part that processes of a node may map together.

mod files;
mod grouped;
mod grouping;
mod in_edges;
mod measure;
mod names;
mod one_part;
mod progress;
mod renumber;
mod write;

pub use grouped::Grouped;
pub use grouping::{Groups, Pairs};
pub use in_edges::InEdges;
pub use measure::{EdgeSlice, PartMeasure, fraction, report};
pub use names::check_names;
pub use one_part::{WHOLE, write_one_part};
pub use progress::{WriteError, WriteProgress};
pub use write::{WriteOptions, check_assignment, write_parts};
