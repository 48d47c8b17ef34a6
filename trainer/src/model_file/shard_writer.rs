//! The writer of the embedding rows that one process holds.

use super::NamedTable;
use super::embedding_index::{ShardEntry, TableEntry, save_of, shard_name};
use super::file_header::{Announced, FileHeader, header_bytes};
use super::{ModelFileError, embedding_name, original_ids_name};
use edgecut_output::{OutputFile, OwnEntries, check_output, remove_abandoned_in};
use safetensors::Dtype;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;

/// The value of `format` in the metadata of a shard.
pub(super) const SHARD_FORMAT: &str = "edgecut-embeddings";
/// The approximate number of bytes of a table that are in memory at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Creates the folder, checks that this process can write its shard there, and removes temporary files of killed
/// processes.
///
/// # Errors
/// [`ModelFileError::Write`] if one of these steps fails.
pub(super) fn check_folder(folder: &Path, rank: usize, world_size: usize) -> Result<(), ModelFileError> {
    let is_shard = |name: &OsStr| name.to_str().is_some_and(|name| save_of(name).is_some());
    fs::create_dir_all(folder)
        .and_then(|()| check_output(&folder.join(shard_name("check", rank, world_size))))
        .and_then(|()| remove_abandoned_in(folder, is_shard))
        .map_err(|source| ModelFileError::Write { path: folder.to_owned(), source })
}

/// Returns the sizes of the tables over all processes.
pub(super) fn table_entries(embeddings: &[NamedTable<'_>]) -> Vec<TableEntry> {
    let entry = |named: &NamedTable<'_>| TableEntry {
        node_type: named.node_type.to_owned(),
        num_nodes: named.table.num_nodes(),
        dim: named.table.dim(),
    };
    embeddings.iter().map(entry).collect()
}

/// Writes the rows that this process holds, piece by piece. Returns `None` if it holds no rows.
///
/// # Errors
/// [`ModelFileError::Write`] or [`ModelFileError::Format`]. No file with the shard's name exists then.
pub(super) fn write_shard(
    folder: &Path,
    save: &str,
    (rank, world_size): (usize, usize),
    embeddings: &[NamedTable<'_>],
) -> Result<Option<ShardEntry>, ModelFileError> {
    let tables: Vec<_> = embeddings
        .iter()
        .filter_map(|&NamedTable { node_type, table }| Some((node_type, table, table.own_nodes()?)))
        .collect();
    if tables.is_empty() {
        return Ok(None);
    }
    let file = shard_name(save, rank, world_size);
    let path = folder.join(&file);
    let metadata = [("format", SHARD_FORMAT), ("save", save)];
    let metadata: HashMap<String, String> = metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let mut announced = Vec::new();
    for (node_type, table, nodes) in &tables {
        let ids = original_ids_name(node_type);
        let values = embedding_name(node_type);
        announced.push(Announced { name: ids, dtype: Dtype::U32, shape: vec![nodes.len()] });
        announced.push(Announced { name: values, dtype: Dtype::F32, shape: vec![nodes.len(), table.dim()] });
    }
    // The header lists the sizes of all tensors, so it is written first and the data follows without being held in
    // memory.
    let header =
        header_bytes(metadata, announced).map_err(|source| ModelFileError::Format { path: path.clone(), source })?;
    let write = || -> std::io::Result<()> {
        let output = OutputFile::create(&path)?;
        output.file().write_all(&header)?;
        let mut values = Vec::new();
        for (_, table, nodes) in &tables {
            output.file().write_all(bytemuck::cast_slice::<u32, u8>(&nodes[..]))?;
            let rows_per_piece = (PIECE_BYTES / (table.dim() * size_of::<f32>())).max(1);
            for start in (0..nodes.len()).step_by(rows_per_piece) {
                let rows = start..nodes.len().min(start + rows_per_piece);
                values.resize(rows.len() * table.dim(), 0.0);
                table.read_rows(rows, &mut values).map_err(std::io::Error::other)?;
                output.file().write_all(bytemuck::cast_slice::<f32, u8>(&values))?;
            }
        }
        output.commit()
    };
    write().map_err(|source| ModelFileError::Write { path: path.clone(), source })?;
    Ok(Some(ShardEntry { file, rows: tables.iter().map(|(_, _, nodes)| nodes.len()).collect() }))
}

/// Removes the shards of other saves. Other processes may do the same concurrently.
pub(super) fn remove_other_saves(folder: &Path, save: &str) {
    let mut others = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_other = name.to_str().and_then(save_of).is_some_and(|found| found != save);
        if is_other && is_shard(&entry.path()) {
            others.push(name);
        }
    }
    // A file that cannot be removed only takes space, so the error is ignored.
    let _ = OwnEntries::default().with_paths(others).remove_within(folder);
}

/// Returns true if a file is a shard by its contents. A file of the user may have the name of one.
fn is_shard(path: &Path) -> bool {
    match FileHeader::read(path) {
        Ok(header) => header.metadata().get("format").is_some_and(|format| format == SHARD_FORMAT),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_the_name_of_a_shard_stay_unless_they_are_shards() {
        let folder = tempfile::tempdir().expect("a folder");
        let theirs = folder.path().join("mine.rank_0-of-1.safetensors");
        fs::write(&theirs, "rows of the user").expect("a file of the user");
        let metadata = HashMap::from([("format".to_owned(), SHARD_FORMAT.to_owned())]);
        let ours = folder.path().join("old.rank_0-of-1.safetensors");
        fs::write(&ours, header_bytes(metadata, Vec::new()).expect("a header")).expect("an earlier shard");
        remove_other_saves(folder.path(), "new");
        assert!(theirs.exists());
        assert!(!ours.exists());
    }
}
