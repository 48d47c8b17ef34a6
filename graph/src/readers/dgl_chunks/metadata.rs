//! The description of a chunked graph.

use crate::{GraphError, check_unique_keys};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file that identifies this layout.
pub(in crate::readers) const METADATA_FILE: &str = "metadata.json";

/// The content of `metadata.json`.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) node_type: Vec<String>,
    pub(super) num_nodes_per_chunk: Vec<Vec<u64>>,
    /// Source type, relation and destination type, joined by colons.
    pub(super) edge_type: Vec<String>,
    pub(super) num_edges_per_chunk: Vec<Vec<u64>>,
    pub(super) edges: BTreeMap<String, Chunks>,
    /// By node type and name of the attribute.
    #[serde(default)]
    pub(super) node_data: BTreeMap<String, BTreeMap<String, Chunks>>,
    /// By edge type and name of the attribute.
    #[serde(default)]
    pub(super) edge_data: BTreeMap<String, BTreeMap<String, Chunks>>,
}

/// The files of an array.
#[derive(Deserialize)]
pub(super) struct Chunks {
    pub(super) format: ChunkFormat,
    pub(super) data: Vec<PathBuf>,
}

/// The format of files.
#[derive(Deserialize)]
pub(super) struct ChunkFormat {
    pub(super) name: String,
    /// The separator of CSV files.
    #[serde(default)]
    pub(super) delimiter: Option<String>,
}

impl Metadata {
    /// Reads and checks the file in `folder`.
    pub(super) fn read(folder: &Path) -> Result<Self, GraphError> {
        let path = folder.join(METADATA_FILE);
        let bytes = std::fs::read(&path).map_err(|error| GraphError::io(&path, error))?;
        check_unique_keys(&bytes).map_err(|error| GraphError::json(&path, error))?;
        let metadata: Self = serde_json::from_slice(&bytes).map_err(|error| GraphError::json(&path, error))?;
        let counts = [
            ("node_type", metadata.node_type.len(), "num_nodes_per_chunk", metadata.num_nodes_per_chunk.len()),
            ("edge_type", metadata.edge_type.len(), "num_edges_per_chunk", metadata.num_edges_per_chunk.len()),
        ];
        for (types, num_types, numbers, num_lists) in counts {
            if num_types != num_lists {
                let why = format!("{types} has {num_types} entries, but {numbers} has {num_lists}");
                return Err(GraphError::format(path, why));
            }
        }
        Ok(metadata)
    }
}
