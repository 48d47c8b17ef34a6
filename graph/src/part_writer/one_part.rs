//! A whole dataset as one part.

use super::{ExtraFiles, Grouped, WriteError, WriteOptions, check_names, write_parts_with};
use crate::GraphError;
use crate::dataset::Dataset;
use crate::memory::Workspace;
use crate::part::{Meta, Provenance};
use std::path::Path;

/// Writes `dataset` as a single part to the empty folder `dir`, without syncing the files to disk. The dataset must
/// come from [`readers::load`](crate::readers::load). Nodes keep their ids, and edges keep their order within each
/// destination. The edge lists are dropped once they are grouped.
///
/// # Errors
/// Fails if the dataset is inconsistent, or on an I/O error. Files that were already written remain.
pub fn write_one_part(dataset: Dataset, dir: &Path) -> Result<Meta, GraphError> {
    dataset.validate_structure()?;
    check_names(&dataset).map_err(|why| GraphError::Dataset { dataset: dataset.name.clone(), why })?;
    let assignment: Vec<Vec<u32>> = dataset.node_types.iter().map(|nodes| vec![0; nodes.num_nodes]).collect();
    let options = WriteOptions { num_parts: 1, provenance: Provenance::whole(), is_synced: false };
    let dataset = Grouped::new_in(&Workspace::default(), dataset)?;
    let written = write_parts_with(dataset, &assignment, options, dir, &(), ExtraFiles::default());
    written.map_err(|error| match error {
        WriteError::Graph(error) => error,
        WriteError::Cancelled => unreachable!("the progress `()` never cancels"),
    })
}
