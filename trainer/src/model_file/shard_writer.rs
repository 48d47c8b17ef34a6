//! The writer of the embedding rows that one process holds.

use super::NamedTable;
use super::embedding_index::{ShardEntry, save_of, shard_name};
use super::file_header::{Announced, FileHeader, checksum_text, header_bytes};
use super::row_ids::IdKind;
use super::{ModelFileError, embedding_name, original_ids_name, table_id_ends_name, table_ids_name};
use edgecut_dist_sampler::DistEmbedding;
use edgecut_graph::TableIds;
use edgecut_output::{OutputFile, OwnEntries, check_output, remove_abandoned_in};
use safetensors::Dtype;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

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
        .map_err(ModelFileError::write(folder))
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
    let mut tables = Vec::new();
    for &NamedTable { node_type, table } in embeddings {
        if let Some(nodes) = table.own_nodes() {
            let ids = (table.graph().read_table_ids(table.node_type()))
                .map_err(|error| ModelFileError::Write { path: folder.to_owned(), source: io::Error::other(error) })?;
            tables.push(HeldTable { node_type, table, nodes, ids });
        }
    }
    if tables.is_empty() {
        return Ok(None);
    }
    let file = shard_name(save, rank, world_size);
    let path = folder.join(&file);
    let metadata = [("format", SHARD_FORMAT), ("save", save)];
    let metadata: HashMap<String, String> = metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    // The header lists the sizes of all tensors, so it is written first and the data follows without being held in
    // memory.
    let header = header_bytes(metadata, announced(&tables)).map_err(ModelFileError::format(&path))?;
    let write = || -> io::Result<(Vec<Vec<f64>>, String)> {
        let output = OutputFile::create(&path)?;
        let mut hashed = HashedFile { file: output.file(), hash: Xxh3::new() };
        let mut sums = Vec::new();
        hashed.write_all(&header)?;
        tables.iter().try_for_each(|table| table.write_wide_ids(&mut hashed))?;
        for table in &tables {
            hashed.write_all(bytemuck::cast_slice::<u32, u8>(&table.nodes[..]))?;
            sums.push(table.write_rows(&mut hashed)?);
        }
        tables.iter().try_for_each(|table| table.write_texts(&mut hashed))?;
        let checksum = checksum_text(&hashed.hash);
        output.commit()?;
        Ok((sums, checksum))
    };
    let (sums, checksum) = write().map_err(ModelFileError::write(&path))?;
    let rows = tables.iter().map(|table| table.nodes.len()).collect();
    let ids = tables.iter().map(HeldTable::id_kind).collect();
    Ok(Some(ShardEntry { file, rows, ids, sums, xxh3: Some(checksum) }))
}

/// A file, and the hash of the bytes that were written to it.
struct HashedFile<'a> {
    file: &'a File,
    hash: Xxh3,
}

impl Write for HashedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A table, and the rows of it that this process holds.
struct HeldTable<'a> {
    node_type: &'a str,
    table: &'a DistEmbedding,
    /// The original ids of the rows' nodes, ascending.
    nodes: Cow<'a, [u32]>,
    /// The ids of the nodes in their table, in the order of the part.
    ids: Option<TableIds>,
}

/// Lists the tensors of a shard. Entries of eight bytes come first and single bytes last, so that each tensor begins at a
/// multiple of the size of its entries.
fn announced(tables: &[HeldTable<'_>]) -> Vec<Announced> {
    let mut wide = Vec::new();
    let mut rows = Vec::new();
    let mut texts = Vec::new();
    for HeldTable { node_type, table, nodes, ids } in tables {
        match ids {
            None => {}
            Some(TableIds::Numbers(_)) => wide.push(tensor(table_ids_name(node_type), Dtype::I64, &[nodes.len()])),
            Some(TableIds::Texts(ids)) => {
                wide.push(tensor(table_id_ends_name(node_type), Dtype::U64, &[nodes.len()]));
                texts.push(tensor(table_ids_name(node_type), Dtype::U8, &[ids.num_bytes()]));
            }
        }
        rows.push(tensor(original_ids_name(node_type), Dtype::U32, &[nodes.len()]));
        rows.push(tensor(embedding_name(node_type), Dtype::F32, &[nodes.len(), table.dim()]));
    }
    wide.into_iter().chain(rows).chain(texts).collect()
}

fn tensor(name: String, dtype: Dtype, shape: &[usize]) -> Announced {
    Announced { name, dtype, shape: shape.to_vec() }
}

impl HeldTable<'_> {
    fn id_kind(&self) -> IdKind {
        let meta = self.table.graph().part().meta();
        match &self.ids {
            Some(TableIds::Numbers(_)) => IdKind::Numbers,
            Some(TableIds::Texts(_)) => IdKind::Texts,
            // The graph has no reader for the ids.
            None if meta.node_types[self.table.node_type().index()].has_id_map => IdKind::Unknown,
            None if meta.has_transforms => IdKind::TableRows,
            None => IdKind::Rows,
        }
    }

    /// Returns the rows of the part in ascending order of their original ids.
    fn order(&self) -> impl Iterator<Item = usize> + '_ {
        let nodes = self.table.graph().part().nodes(self.table.node_type());
        (0..self.nodes.len()).map(|position| nodes.row_at(position))
    }

    /// Writes the ids that are numbers, or the ends of texts.
    fn write_wide_ids(&self, file: &mut impl Write) -> io::Result<()> {
        let mut file = BufWriter::new(file);
        match &self.ids {
            None => {}
            Some(TableIds::Numbers(numbers)) => {
                self.order().try_for_each(|row| file.write_all(&numbers[row].to_le_bytes()))?;
            }
            Some(TableIds::Texts(texts)) => {
                let mut end = 0;
                for row in self.order() {
                    end += texts.get(row).len() as u64;
                    file.write_all(&end.to_le_bytes())?;
                }
            }
        }
        file.flush()
    }

    /// Writes the ids that are texts.
    fn write_texts(&self, file: &mut impl Write) -> io::Result<()> {
        let Some(TableIds::Texts(texts)) = &self.ids else { return Ok(()) };
        let mut file = BufWriter::new(file);
        self.order().try_for_each(|row| file.write_all(texts.get(row)))?;
        file.flush()
    }

    /// Writes the rows piece by piece. Returns their sum, which is empty if it is not finite.
    fn write_rows(&self, file: &mut impl Write) -> io::Result<Vec<f64>> {
        let dim = self.table.dim();
        let mut sum = vec![0.0; dim];
        let mut values = Vec::new();
        let rows_per_piece = (PIECE_BYTES / (dim * size_of::<f32>())).max(1);
        for start in (0..self.nodes.len()).step_by(rows_per_piece) {
            let rows = start..self.nodes.len().min(start + rows_per_piece);
            values.resize(rows.len() * dim, 0.0);
            self.table.read_rows(rows, &mut values).map_err(io::Error::other)?;
            for row in values.chunks_exact(dim) {
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
            }
            file.write_all(bytemuck::cast_slice::<f32, u8>(&values))?;
        }
        if !sum.iter().all(|value| value.is_finite()) {
            sum.clear();
        }
        Ok(sum)
    }
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
