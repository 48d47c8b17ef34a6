//! Lookup of sets of graphs by name.

use super::GraphDataset;
use super::fake_graphs::{FAKE_GRAPHS_NAME, FakeGraphsOptions, fake_graphs};
use super::tu_dataset::{find_edges, read_tu};
use crate::GraphError;
use crate::readers::text::find_text;
use crate::readers::why_unreadable;
use std::path::PathBuf;

/// The description of a set of graphs to load.
#[derive(Clone, Debug)]
pub struct GraphSource {
    /// The name of the set. `fake-graphs` generates one.
    pub name: String,
    /// The folder that contains sets of graphs.
    pub root_dir: PathBuf,
    /// The options for generating `fake-graphs`.
    pub fake: FakeGraphsOptions,
}

impl GraphSource {
    /// Describes the set `name` in `root_dir`.
    pub fn new(name: impl Into<String>, root_dir: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), root_dir: root_dir.into(), fake: FakeGraphsOptions::default() }
    }

    /// Returns the folder with the files of the set, or `None` if the set is generated. It is the first folder with a
    /// file of edges among `{root_dir}/{name}`, `{root_dir}/{name}/raw` (the layout of PyG), and `root_dir` itself if
    /// it contains `{name}_A.txt`.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] with the searched folders if there is no such folder.
    pub fn folder(&self) -> Result<Option<PathBuf>, GraphError> {
        if self.name == FAKE_GRAPHS_NAME {
            return Ok(None);
        }
        let own = self.root_dir.join(&self.name);
        let raw = own.join("raw");
        for folder in [&own, &raw].into_iter().filter(|folder| folder.is_dir()) {
            if find_edges(folder)?.is_some() {
                return Ok(Some(folder.clone()));
            }
        }
        // In a folder of its own, the set's files may have any prefix. In `root_dir` they may lie next to those of
        // other sets.
        if find_text(&self.root_dir, &format!("{}_A.txt", self.name)).is_some() {
            return Ok(Some(self.root_dir.clone()));
        }
        if let Some(why) = [&own, &raw, &self.root_dir].into_iter().find_map(|folder| why_unreadable(folder)) {
            return Err(GraphError::Dataset { dataset: self.name.clone(), why });
        }
        let looked = [&own, &raw, &self.root_dir].map(|folder| folder.display().to_string());
        let why = format!("no file {}_A.txt (TU format) found; looked in: {}", self.name, looked.join(", "));
        Err(GraphError::Dataset { dataset: self.name.clone(), why })
    }
}

/// Loads or generates a set of graphs.
///
/// # Errors
/// As [`GraphSource::folder`], [`read_tu`] and [`fake_graphs`](fn@fake_graphs).
pub fn load_graphs(source: &GraphSource) -> Result<GraphDataset, GraphError> {
    match source.folder()? {
        Some(folder) => read_tu(&source.name, &folder),
        None => fake_graphs(&source.fake),
    }
}
