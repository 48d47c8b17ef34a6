//! An entry point for fuzzing: all reads of a saved model. Not for other use.

use super::wanted_rows::WantedRows;
use super::{ModelFileError, ModelOrigin, NewEmbeddings, SavedTask, TrainedOn, open_model, read_network};
use crate::models::LinkModelConfig;
use edgecut_gnn::Cpu;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

/// Reads a model for links, the description of its training, and all rows of its tables, by original ids and by the ids of their
/// tables. Returns the number of rows that `ids` find.
///
/// # Errors
/// [`ModelFileError`] if a file is missing or damaged.
pub fn read_all(path: &Path, ids: &[String]) -> Result<usize, ModelFileError> {
    let bytes = read_network(path)?;
    SavedTask::of_file(&bytes, path)?;
    TrainedOn::of_file(&bytes, path)?;
    ModelOrigin::read(path)?;
    let (_, _, saved) = open_model::<Cpu, LinkModelConfig>(&bytes, path, &Default::default())?;
    let nodes: Vec<u32> = (0..ids.len() as u32).collect();
    let mut num_found = 0;
    for size in saved.sizes() {
        if let Ok(Some(mean)) = saved.first_values(&size, NewEmbeddings::Mean) {
            assert!(mean.iter().all(|value| value.is_finite()), "the mean of {}", size.node_type);
        }
        let wanted = WantedRows {
            node_type: &size.node_type,
            dim: size.dim,
            num_nodes: size.num_nodes,
            nodes: &nodes,
            first_shard: 0,
            ids: Some(ids.iter().map(|id| xxh3_128(id.as_bytes())).zip(0..).collect()),
            may_differ: false,
        };
        let unknown = saved.read_rows(&wanted, &mut |_, row| {
            assert!(row.iter().all(|value| value.is_finite()), "a row of {}", size.node_type);
        })?;
        num_found += ids.len() - unknown.len();
    }
    saved.into_tables()?;
    Ok(num_found)
}
