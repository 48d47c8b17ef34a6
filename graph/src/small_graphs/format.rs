//! The description of a folder of graphs, and the check of its format version.

use crate::memory::FeatureDtype;
use crate::{GraphError, TargetMeta};
use serde::{Deserialize, Serialize};
use std::path::Path;

pub(super) const FORMAT_NAME: &str = "edgecut-graphs";
pub(super) const FORMAT_VERSION: u32 = 3;

/// The contents of `GRAPHS.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GraphsMeta {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) dataset: String,
    /// The original label of each class.
    pub(super) classes: Vec<i64>,
    pub(super) nodes: RowsMeta,
    pub(super) edges: RowsMeta,
    /// The numbers to predict for each graph, if graphs have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) targets: Option<TargetMeta>,
}

/// The description of the rows of nodes or edges.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RowsMeta {
    /// The number of features and their stored type.
    pub(super) features: Option<(usize, FeatureDtype)>,
    /// The number of labels of a row, and the meaning of each of their columns.
    pub(super) labels: Option<(usize, Vec<String>)>,
}

impl GraphsMeta {
    /// Parses the `content` of the file at `path`, and checks the format and its version.
    ///
    /// # Errors
    /// Fails for malformed JSON, and for another format or version.
    pub(super) fn parse(path: &Path, content: &[u8]) -> Result<Self, GraphError> {
        let meta: Self = serde_json::from_slice(content).map_err(|e| GraphError::json(path, e))?;
        if meta.format != FORMAT_NAME || meta.version != FORMAT_VERSION {
            let why =
                format!("its format is {} {}, expected {FORMAT_NAME} {FORMAT_VERSION}", meta.format, meta.version);
            return Err(GraphError::format(path, why));
        }
        Ok(meta)
    }
}
