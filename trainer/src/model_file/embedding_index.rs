//! The index of the files that hold a model's embeddings.

use super::ModelFileError;
use super::file_header::FileHeader;
use super::row_ids::IdKind;
use super::saved_embeddings::EmbeddingSize;
use edgecut_output::destination;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The key of the metadata of a model file under which the index is stored as JSON.
pub(super) const INDEX: &str = "embeddings";
/// The suffix that is appended to the name of the model file to name the folder with its shards.
const FOLDER: &str = ".embeddings";
const SHARD_EXTENSION: &str = ".safetensors";
/// The number of digits of the id of a save.
pub(super) const SAVE_LEN: usize = 16;

/// The embedding tables of a model, and the shards: the files with their rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct EmbeddingIndex {
    /// The id of the save that the shards belong to. It is empty if the model file itself holds the tables.
    pub(super) save: String,
    pub(super) tables: Vec<EmbeddingSize>,
    pub(super) shards: Vec<ShardEntry>,
}

/// A file with rows of all tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ShardEntry {
    /// The name of the file in the folder.
    pub(super) file: String,
    /// The number of rows of each table, in the order of the index.
    pub(super) rows: Vec<usize>,
    /// The ids of the rows of each table. Empty in files of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ids: Vec<IdKind>,
    /// The sum of the rows of each table, for the mean of all shards. Empty in files of earlier versions, and for a table
    /// whose sum is not finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sums: Vec<Vec<f64>>,
    /// The checksum of the file. Absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) xxh3: Option<String>,
}

impl ShardEntry {
    /// Returns the ids of the rows of a table, counted from 0.
    pub(super) fn id_kind(&self, table: usize) -> IdKind {
        self.ids.get(table).copied().unwrap_or_default()
    }
}

impl EmbeddingIndex {
    /// Parses the index of the model file `path`.
    ///
    /// # Errors
    /// [`ModelFileError::Content`] if the text is not an index, names files that are not shards of this save, or has a table
    /// with more nodes than its files have rows.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, ModelFileError> {
        let wrong = |what: String| ModelFileError::content(path, what);
        let index: Self =
            serde_json::from_str(text).map_err(|e| wrong(format!("its list of embeddings cannot be read: {e}")))?;
        for shard in &index.shards {
            // The names are joined to the folder, so a damaged index must not lead to files elsewhere.
            if !is_shard(&shard.file, &index.save) {
                return Err(wrong(format!(
                    "its list of embeddings names {:?}, which is not a file of this model",
                    shard.file
                )));
            }
            if shard.rows.len() != index.tables.len() {
                return Err(wrong(format!("its list of embeddings does not say how many rows {} holds", shard.file)));
            }
        }
        index.check_sizes().map_err(wrong)?;
        Ok(index)
    }

    /// Returns the ids of the rows of a node type; unknown if a shard does not say them, or if there is no table.
    pub(super) fn id_kind(&self, node_type: &str) -> IdKind {
        let Some(table) = self.table(node_type) else { return IdKind::Unknown };
        let mut kind = IdKind::Unknown;
        for shard in self.shards.iter().filter(|shard| shard.rows[table] > 0) {
            kind = shard.id_kind(table);
            if kind == IdKind::Unknown {
                break;
            }
        }
        kind
    }

    /// Returns the mean of the rows of a node type, if the shards say their sums and the mean is finite.
    pub(super) fn mean(&self, node_type: &str) -> Option<Vec<f32>> {
        let table = self.table(node_type)?;
        let EmbeddingSize { num_nodes, dim, .. } = self.tables[table];
        let mut mean = vec![0.0; dim];
        for shard in self.shards.iter().filter(|shard| shard.rows[table] > 0) {
            let sum = shard.sums.get(table).filter(|sum| sum.len() == dim)?;
            mean.iter_mut().zip(sum).for_each(|(mean, sum)| *mean += sum / num_nodes as f64);
        }
        let mean: Vec<f32> = mean.into_iter().map(|mean| mean as f32).collect();
        mean.iter().all(|value| value.is_finite()).then_some(mean)
    }

    /// Returns the position of the table of a node type.
    pub(super) fn table(&self, node_type: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.node_type == node_type)
    }

    /// Checks the sizes of the tables, for which readers take memory before they open the shards.
    fn check_sizes(&self) -> Result<(), String> {
        for (at, EmbeddingSize { node_type, num_nodes, dim }) in self.tables.iter().enumerate() {
            let listed = self.shards.iter().fold(0_usize, |sum, shard| sum.saturating_add(shard.rows[at]));
            // A model file that holds the tables itself lists no shards.
            let has_rows = self.shards.is_empty() || listed >= *num_nodes;
            let bytes = num_nodes.checked_mul(*dim).and_then(|values| values.checked_mul(size_of::<f32>()));
            let is_addressable = bytes.is_some_and(|bytes| bytes <= isize::MAX as usize);
            if !has_rows || !is_addressable || u32::try_from(*num_nodes).is_err() {
                return Err(format!(
                    "its embedding of node type {node_type} is for {num_nodes} nodes of {dim} values, but its files have \
                     {listed} rows: the file is damaged, copy it again"
                ));
            }
        }
        Ok(())
    }
}

/// Returns the names of the files with the embeddings of a saved model, in the folder beside it. A model without such files, and
/// a file that is not a model, have none.
pub fn embedding_files(model: &Path) -> Vec<String> {
    let index = FileHeader::read(model).ok().and_then(|header| header.metadata().remove(INDEX));
    let index = index.and_then(|text| EmbeddingIndex::parse(&text, model).ok()).unwrap_or_default();
    index.shards.into_iter().map(|shard| shard.file).collect()
}

/// Returns true for the name of a file with embeddings of a saved model.
pub fn is_embedding_file(name: &str) -> bool {
    save_of(name).is_some_and(|save| save.len() == SAVE_LEN)
}

/// Returns the folder with the shards of a model. It is next to the file that the path refers to after following links.
///
/// # Errors
/// [`ModelFileError::Read`] if the links cannot be followed.
pub(super) fn shard_folder(model: &Path) -> Result<PathBuf, ModelFileError> {
    let model = destination(model).map_err(ModelFileError::read(model))?;
    let mut name = OsString::from(model.file_name().unwrap_or_default());
    name.push(FOLDER);
    Ok(model.with_file_name(name))
}

/// Returns the file name of the shard that a rank writes.
pub(super) fn shard_name(save: &str, rank: usize, world_size: usize) -> String {
    format!("{save}.rank_{rank}-of-{world_size}{SHARD_EXTENSION}")
}

/// Returns whether a file of the folder is a shard of a save.
fn is_shard(name: &str, save: &str) -> bool {
    save_of(name) == Some(save)
}

/// Returns the id of the save that a shard belongs to, parsed from its file name, or `None` for other files.
pub(super) fn save_of(name: &str) -> Option<&str> {
    let (save, place) = name.strip_suffix(SHARD_EXTENSION)?.split_once(".rank_")?;
    let (rank, world_size) = place.split_once("-of-")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let is_save = !save.is_empty() && save.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_save && is_number(rank) && is_number(world_size)).then_some(save)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_shards_tell_their_save_and_other_names_none() {
        assert_eq!(save_of(&shard_name("00ff", 3, 16)), Some("00ff"));
        for other in
            ["model.safetensors", "a.rank_1.safetensors", "../a.rank_0-of-1.safetensors", "a.rank_x-of-1.safetensors"]
        {
            assert_eq!(save_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_mean_that_is_not_finite_is_not_told() {
        for (sum, mean) in [("3.0", Some(vec![3.0])), ("1e300", None)] {
            let text = format!(
                r#"{{"save":"1","tables":[{{"node_type":"user","num_nodes":1,"dim":1}}],
                "shards":[{{"file":"1.rank_0-of-1.safetensors","rows":[1],"sums":[[{sum}]]}}]}}"#
            );
            assert_eq!(EmbeddingIndex::parse(&text, Path::new("m")).expect("an index").mean("user"), mean);
        }
    }

    #[test]
    fn an_index_that_names_files_elsewhere_is_refused() {
        let path = Path::new("m");
        let text = |file: &str| format!(r#"{{"save":"1","tables":[],"shards":[{{"file":"{file}","rows":[]}}]}}"#);
        assert!(EmbeddingIndex::parse(&text("1.rank_0-of-1.safetensors"), path).is_ok());
        for file in ["2.rank_0-of-1.safetensors", "/etc/passwd", "../1.rank_0-of-1.safetensors"] {
            let error = EmbeddingIndex::parse(&text(file), path).expect_err("another file").to_string();
            assert!(error.contains("not a file of this model"), "{error}");
        }
        assert!(EmbeddingIndex::parse("{}", path).is_err());
    }
}
