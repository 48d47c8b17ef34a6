//! Splits a graph into parts, and writes and verifies them.
//!
//! [`partition`] runs all steps: it assigns every node to a part ([`assign`]), renumbers the nodes so that each part
//! owns a contiguous range, and writes one folder per part ([`write_parts`]) in the format of `docs/src/format.md`.
//! [`verify`] checks such a folder without the source graph.
//!
//! While METIS runs, it replaces the process's handlers of SIGTERM and SIGABRT by a handler that jumps out of its call.
//! This is undefined behavior if the signal arrives on any thread but the calling one. A program that assigns nodes
//! with [`Method::Metis`] or [`Method::SemiExternal`] should block SIGTERM on all threads before it starts any, and take it with `sigwait` on one
//! of them, as `partition-graph` does.
//!
//! ```
//! use edgecut_graph::{Dataset, NodeData, Part, DiskPartId};
//! use edgecut_partition::{PartitionOptions, partition, verify};
//! let nodes = NodeData { name: "node".into(), num_nodes: 4, ..NodeData::default() };
//! let graph = Dataset::homogeneous("square", nodes, vec![0, 1, 2, 3].into(), vec![1, 0, 3, 2].into());
//! let dir = tempfile::tempdir()?;
//! let parts = dir.path().join("2-parts");
//! let meta = partition(&graph, &PartitionOptions::new(2), &parts, &())?;
//! assert_eq!(meta.report.cut_edges, 0);
//! verify(&parts)?;
//! assert_eq!(Part::open(&parts, DiskPartId(0), true)?.meta().num_parts, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod assignment;
mod balances;
mod cut_matrix;
mod error;
mod estimate;
mod methods;
mod options;
mod own_folder;
mod plan;
mod progress;
mod staging;
mod update;
mod verify;
mod write;

pub use assignment::{Assignment, assign};
pub use balances::Balances;
pub use cut_matrix::cut_matrix;
pub use error::PartitionError;
pub use options::{Balance, MemoryLimit, Method, PartitionOptions};
pub use plan::{PhasePlan, Plan, PlanInput, RankPlan, TableBytes};
pub use progress::{Phase, Progress};
pub use staging::check_free;
pub use update::{
    Advice, Changes, EdgeCounts, NodeCounts, Quality, RemovedPairs, Replaces, UpdateOptions, UpdateReport,
    check_update_output, update, update_limits,
};
pub use verify::{VerifyReport, verify};
pub use write::write_parts;

use edgecut_graph::part_writer::{ExtraFiles, Grouped};
use edgecut_graph::{Dataset, Meta, Workspace};
use std::path::Path;

/// Splits `dataset` by `options`, and writes the parts to `out_dir`, the `N-parts` folder, which appears only when it
/// is complete. The output depends only on `dataset` and `options`. Pass `&()` as `progress` to run without progress
/// reports.
///
/// # Errors
/// Fails on a dataset that contradicts itself, on options that cannot be met, on an `out_dir` that exists already, and
/// on I/O errors. `out_dir` is then left as it was.
pub fn partition(
    dataset: &Dataset,
    options: &PartitionOptions,
    out_dir: &Path,
    progress: &dyn Progress,
) -> Result<Meta, PartitionError> {
    run(dataset.clone(), assignment::validate, Inputs::default(), options, out_dir, progress)
}

/// Like [`partition`], for a dataset that [`readers::load`](edgecut_graph::readers::load) has returned. It takes less
/// memory, by one copy of the edges, because it frees the edge list once it is grouped. It does not check that features
/// are finite, since the reader has done so. Memory-mapped features are read only when they are written.
///
/// # Errors
/// The errors of [`partition`] and of scratch files, and [`PartitionError::Assignment`] for an assignment that does not fit the
/// dataset.
pub fn partition_loaded(
    dataset: Dataset,
    inputs: Inputs,
    options: &PartitionOptions,
    out_dir: &Path,
    progress: &dyn Progress,
) -> Result<Meta, PartitionError> {
    run(dataset, assignment::validate_structure, inputs, options, out_dir, progress)
}

/// The inputs of a run that have defaults.
#[derive(Clone, Default)]
pub struct Inputs<'a> {
    /// The place for arrays that are made from edges. A dataset in scratch files has been loaded with the same space as
    /// [`DatasetSource::space`](edgecut_graph::readers::DatasetSource::space). The parts are the same, byte for byte.
    pub space: Workspace,
    /// The assignment, such as [`read_assignment`](edgecut_graph::readers::read_assignment) returns, instead of one by the method
    /// of the options.
    pub given: Option<Assignment>,
    /// Further files in the parts.
    pub extra: ExtraFiles<'a>,
}

// Everything that can fail without the costly steps is checked first: the output folder, the names, then the arrays.
fn run(
    dataset: Dataset,
    validate: fn(&Dataset) -> Result<(), PartitionError>,
    inputs: Inputs,
    options: &PartitionOptions,
    out_dir: &Path,
    progress: &dyn Progress,
) -> Result<Meta, PartitionError> {
    let Inputs { space, given, extra } = inputs;
    staging::check_free(out_dir, options.overwrite)?;
    write::check_names(&dataset)?;
    write::check_hotness(&dataset.node_types, options)?;
    progress.phase(Phase::Preparing);
    validate(&dataset)?;
    let ids = assignment::joined_ids(&dataset.node_types, options.num_parts)?;
    given.iter().try_for_each(|given| given.check(&dataset.node_types, options.num_parts))?;
    let dataset = Grouped::new_in(&space, dataset)?;
    let is_by_method = given.is_none();
    let (assignment, method) = match given {
        Some(given) => (given, options.method),
        None => assignment::assign_grouped(&dataset, &ids, options, progress)?,
    };
    let options = &PartitionOptions { method, ..options.clone() };
    let written = write::write_options(&dataset, is_by_method, options);
    let staging = staging::Staging::create(out_dir, options.overwrite)?;
    write::write_grouped(dataset, &assignment, written, staging, progress, extra)
}
