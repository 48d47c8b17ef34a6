//! Splits a graph into parts, and writes and verifies them.
//!
//! [`partition`] does it all: it assigns every node to a part ([`assign`]), renumbers the nodes so that each part owns a
//! contiguous range, and writes one folder a part ([`write_parts`]) under the contract of `docs/format.md`.
//! [`verify`] checks such a folder without the source graph.
//!
//! While METIS runs, it replaces the process's handlers of SIGTERM and SIGABRT by one that jumps out of its call, which
//! is undefined behavior on any thread but the calling one. A program that assigns nodes with [`Method::Metis`] should
//! block SIGTERM on all threads before it starts any, and take it with `sigwait` on one of them, as `partition-graph`
//! does.
//!
//! ```
//! use edgecut_graph::{Dataset, NodeData, Part, PartitionId, Splits};
//! use edgecut_partition::{PartitionOptions, partition, verify};
//! let nodes = NodeData {
//!     name: "node".into(),
//!     num_nodes: 4,
//!     features: None,
//!     labels: None,
//!     num_classes: 0,
//!     splits: Splits::default(),
//!     times: None,
//! };
//! let graph = Dataset::homogeneous("square", nodes, vec![0, 1, 2, 3].into(), vec![1, 0, 3, 2].into());
//! let dir = tempfile::tempdir()?;
//! let parts = dir.path().join("2-parts");
//! let meta = partition(&graph, &PartitionOptions::new(2), &parts, &())?;
//! assert_eq!(meta.report.cut_edges, 0);
//! verify(&parts)?;
//! assert_eq!(Part::open(&parts, PartitionId(0), true)?.meta().num_parts, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod assignment;
mod balances;
mod constraints;
mod error;
mod joined;
mod ldg;
mod multilevel;
mod options;
mod progress;
mod random;
mod repair;
mod staging;
mod symmetric;
mod verify;
mod write;

pub use assignment::{Assignment, assign};
pub use balances::Balances;
pub use error::PartitionError;
pub use options::{Balance, Method, PartitionOptions};
pub use progress::{Phase, Progress};
pub use verify::{VerifyReport, verify};
pub use write::write_parts;

use edgecut_graph::parts::Grouped;
use edgecut_graph::{Dataset, Meta};
use std::path::Path;

/// Splits `dataset` by `options`, and writes the parts to `out_dir`, the `N-parts` folder, which appears only when it
/// is complete. What is written depends on nothing but `dataset` and `options`. Without a wish to see how it goes,
/// `progress` is `&()`.
///
/// # Errors
/// A dataset that contradicts itself, options that cannot be met, an `out_dir` that exists, or an I/O error; then
/// nothing is left at `out_dir`, or what was there before.
pub fn partition(
    dataset: &Dataset,
    options: &PartitionOptions,
    out_dir: &Path,
    progress: &dyn Progress,
) -> Result<Meta, PartitionError> {
    run(dataset.clone(), assignment::validate, options, out_dir, progress)
}

/// [`partition`] with the memory of one copy of the edges less, for a dataset that
/// [`datasets::load`](edgecut_graph::datasets::load) has returned: its edge list is let go of as soon as it is of no
/// more use. The features are not checked to be finite, since the reader has done so; mapped ones come to memory only
/// when they are written.
///
/// # Errors
/// Those of [`partition`].
pub fn partition_loaded(
    dataset: Dataset,
    options: &PartitionOptions,
    out_dir: &Path,
    progress: &dyn Progress,
) -> Result<Meta, PartitionError> {
    run(dataset, assignment::validate_structure, options, out_dir, progress)
}

fn run(
    dataset: Dataset,
    validate: fn(&Dataset) -> Result<(), PartitionError>,
    options: &PartitionOptions,
    out_dir: &Path,
    progress: &dyn Progress,
) -> Result<Meta, PartitionError> {
    staging::check_free(out_dir, options.overwrite)?;
    write::check_names(&dataset)?;
    progress.phase(Phase::Preparing);
    validate(&dataset)?;
    let ids = assignment::joined_ids(&dataset.node_types, options.num_parts)?;
    let dataset = Grouped::new(dataset);
    let assignment = assignment::assign_grouped(&dataset, &ids, options, progress)?;
    write::write_grouped(dataset, &assignment, options, out_dir, progress)
}
