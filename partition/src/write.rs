//! Writing of an assignment as parts.

use crate::staging::Staging;
use crate::{
    Assignment, Method, PartitionError, PartitionOptions, Phase, Progress, assignment, methods::constraints,
    methods::constraints::GraphSizes, staging,
};
use edgecut_graph::part_writer::{self, ExtraFiles, Grouped, WriteError, WriteOptions, WriteProgress};
use edgecut_graph::{Dataset, HoldOutChoice, HotnessRule, Meta, NodeData, Provenance, Workspace};
use std::path::Path;

/// Writes the parts that `assignment` makes of `dataset` to `out_dir`. Of `options` it uses only the number of parts,
/// `overwrite`, and the fields that are recorded in `META.json`.
///
/// # Errors
/// Fails on an assignment that does not fit the dataset, on a dataset that contradicts itself, on an `out_dir` that
/// exists already, and on I/O errors. `out_dir` is then left as it was.
pub fn write_parts(
    dataset: &Dataset,
    assignment: &Assignment,
    options: &PartitionOptions,
    out_dir: &Path,
) -> Result<Meta, PartitionError> {
    assignment::validate(dataset)?;
    check_names(dataset)?;
    check_hotness(&dataset.node_types, options)?;
    assignment.check(&dataset.node_types, options.num_parts)?;
    staging::check_free(out_dir, options.overwrite)?;
    let dataset = Grouped::new_in(&Workspace::default(), dataset.clone())?;
    let written = write_options(&dataset, true, options);
    let staging = Staging::create(out_dir, options.overwrite)?;
    write_grouped(dataset, assignment, written, staging, &(), ExtraFiles::default())
}

/// Like [`write_parts`], for a dataset and an assignment that are known to be valid. It frees in-edges as soon as they
/// are renumbered.
pub(crate) fn write_grouped(
    dataset: Grouped,
    assignment: &Assignment,
    options: WriteOptions,
    staging: Staging,
    progress: &dyn Progress,
    extra: ExtraFiles,
) -> Result<Meta, PartitionError> {
    progress.phase(Phase::Writing);
    let meta =
        part_writer::write_parts_with(dataset, &assignment.parts, options, staging.dir(), &Written(progress), extra)?;
    commit(staging, progress)?;
    Ok(meta)
}

/// Moves complete parts to their destination.
pub(crate) fn commit(staging: Staging, progress: &dyn Progress) -> Result<(), PartitionError> {
    // The last chance to stop: a commit is never undone.
    if progress.cancelled() {
        return Err(PartitionError::Cancelled);
    }
    staging.commit()
}

/// Checks that every type has a folder name of its own.
pub(crate) fn check_names(dataset: &Dataset) -> Result<(), PartitionError> {
    part_writer::check_names(dataset).map_err(|why| PartitionError::Names { dataset: dataset.name.clone(), why })
}

/// Checks that the nodes of other parts can be ranked, if they are to be.
pub(crate) fn check_hotness(node_types: &[NodeData], options: &PartitionOptions) -> Result<(), PartitionError> {
    let Some(rule) = &options.hotness else { return Ok(()) };
    rule.check().map_err(|why| PartitionError::Hotness { why })?;
    let has_train = node_types.iter().any(|nodes| !nodes.splits.train.is_empty());
    let why = if node_types.iter().all(|nodes| nodes.features.is_none()) {
        "the graph has no node features that a cache could keep"
    } else if matches!(rule, HotnessRule::Presample { .. }) && !has_train {
        "the graph has no training nodes to sample around: add masks, divide the nodes by `split_nodes`, or rank by in-degree"
    } else {
        return Ok(());
    };
    Err(PartitionError::Hotness { why: why.into() })
}

/// The caller's progress, in the form that the file writer reports to.
pub(crate) struct Written<'a>(pub(crate) &'a dyn Progress);

impl WriteProgress for Written<'_> {
    fn written(&self, done: u64, total: u64) {
        self.0.written(done, total);
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

impl From<WriteError> for PartitionError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Graph(error) => Self::Graph(error),
            WriteError::Cancelled => Self::Cancelled,
        }
    }
}

/// Returns the options of the file writer. `is_by_method` is false for an assignment that was given.
pub(crate) fn write_options(dataset: &Grouped, is_by_method: bool, options: &PartitionOptions) -> WriteOptions {
    let balance =
        if is_by_method { constraints::effective_balance(&GraphSizes::of(dataset), options) } else { Vec::new() };
    let provenance = Provenance {
        method: if is_by_method { options.method.to_string() } else { "given".into() },
        recursive: is_by_method && options.method == Method::Metis { recursive: true },
        seed: options.seed,
        balance: balance.iter().map(|b| b.to_string()).collect(),
        split: options.split.clone(),
        to_undirected: options.to_undirected,
        add_reverse_edges: options.add_reverse_edges,
        hold_out_edges: options.hold_out_edges.map(|hold_out| [hold_out.valid_fraction, hold_out.test_fraction]),
        hold_out_choice: options.hold_out_edges.map_or_else(HoldOutChoice::default, |hold_out| hold_out.choice),
        overlap: options.overlap,
        reverse_types: options.reverse_types.clone(),
        edge_ids: options.edge_ids,
        hotness: options.hotness.clone(),
        updates: None,
    };
    WriteOptions { num_parts: options.num_parts, provenance, is_synced: true }
}
