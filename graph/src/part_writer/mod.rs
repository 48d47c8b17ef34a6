//! Writing of parts: turns a dataset and an assignment of nodes to parts into files, as specified in
//! `docs/src/format.md`.
//!
//! The crate edgecut-partition computes assignments. [`write_one_part`] needs none: it writes a whole dataset as a
//! single part, which the processes of a node can map together.

mod assignment;
mod digests;
mod edge_files;
mod extra_files;
mod files;
mod grouped;
mod hotness;
mod id_files;
mod in_edges;
mod measure;
mod names;
mod one_part;
mod options;
mod part_digests;
mod progress;
mod renumber;
mod write;

pub use crate::grouping::{Groups, Pairs};
pub use assignment::check_assignment;
pub(crate) use edge_files::{attribute_files, held_out_files};
pub(crate) use extra_files::IdMapJob;
pub use extra_files::{ExtraFiles, NodeFiles, NodeTypeFacts, TransformsDigests};
pub(crate) use files::{Content, FileWriter, Files, Job, Selection, hotness_jobs};
pub use grouped::Grouped;
pub(crate) use hotness::{RankedGraph, RankedNodes};
pub(crate) use in_edges::HeldOutInPart;
pub use in_edges::InEdges;
pub use measure::{EdgeSlice, MeasuredPart, PartMeasure, fraction, report};
pub use names::check_names;
pub use one_part::write_one_part;
pub use options::WriteOptions;
pub(crate) use part_digests::PartDigests;
pub use progress::{WriteError, WriteProgress};
pub(crate) use write::write_meta;
pub use write::write_parts_with;
