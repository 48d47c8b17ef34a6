//! A whole dataset as one part.

use super::{Grouped, WriteError, WriteOptions, check_names, write_parts};
use crate::{Dataset, GraphError, HoldOutChoice, Meta, OverlapPolicy, Provenance};
use std::path::Path;

/// The `provenance.method` of a graph that nobody has split. How it was loaded is not noted beside it.
pub const WHOLE: &str = "whole";

/// Writes `dataset`, which [`datasets::load`](crate::datasets::load) has returned, as its only part to the empty folder
/// `dir`, without waiting until the files are on the disk. Nodes keep their ids, and edges their order within each
/// destination. Its edge list is let go of as soon as it is grouped.
///
/// ```
/// use edgecut_graph::datasets::{FakeOptions, fake};
/// use edgecut_graph::{NodeTypeId, Part, PartitionId, parts::write_one_part};
/// let graph = fake(&FakeOptions { avg_num_nodes: 100, ..FakeOptions::default() })?;
/// let dir = tempfile::tempdir()?;
/// write_one_part(graph, dir.path())?;
/// let part = Part::open(dir.path(), PartitionId(0), true)?;
/// assert_eq!(part.owned(NodeTypeId(0)), 0..100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A dataset that contradicts itself, or an I/O error; then what is written so far stays.
pub fn write_one_part(dataset: Dataset, dir: &Path) -> Result<Meta, GraphError> {
    dataset.validate_structure()?;
    check_names(&dataset).map_err(|why| GraphError::Dataset { dataset: dataset.name.clone(), why })?;
    let assignment: Vec<Vec<u32>> = dataset.node_types.iter().map(|nodes| vec![0; nodes.num_nodes]).collect();
    let provenance = Provenance {
        method: WHOLE.into(),
        recursive: false,
        seed: 0,
        balance: Vec::new(),
        split: None,
        to_undirected: false,
        add_reverse_edges: false,
        hold_out_edges: None,
        hold_out_choice: HoldOutChoice::default(),
        overlap: OverlapPolicy::default(),
    };
    let options = WriteOptions { num_parts: 1, provenance, is_synced: false };
    write_parts(Grouped::new(dataset), &assignment, options, dir, &()).map_err(|error| match error {
        WriteError::Graph(error) => error,
        WriteError::Cancelled => unreachable!("nobody asks to stop"),
    })
}
