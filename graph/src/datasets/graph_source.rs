//! Finding a set of graphs by name.

use super::blocks::find_text;
use super::fake_graphs::{FAKE_GRAPHS_NAME, FakeGraphsOptions, fake_graphs};
use super::tu::{find_edges, read_tu};
use crate::{GraphDataset, GraphError};
use std::path::PathBuf;

/// Which set of graphs to load.
#[derive(Clone, Debug)]
pub struct GraphSource {
    /// Its name; `fake-graphs` generates one.
    pub name: String,
    /// The folder under which it is looked for.
    pub root_dir: PathBuf,
    /// What is generated under the name `fake-graphs`.
    pub fake: FakeGraphsOptions,
}

impl GraphSource {
    /// The set `name` under `root_dir`.
    ///
    /// ```
    /// use edgecut_graph::datasets::{GraphSource, load_graphs};
    /// assert_eq!(load_graphs(&GraphSource::new("fake-graphs", "data"))?.num_graphs(), 1000);
    /// # Ok::<(), edgecut_graph::GraphError>(())
    /// ```
    pub fn new(name: impl Into<String>, root_dir: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), root_dir: root_dir.into(), fake: FakeGraphsOptions::default() }
    }

    /// The folder that holds the set's files: the first with a file of edges among `{root_dir}/{name}`, `{root_dir}/{name}/raw`,
    /// which is PyG's, or `root_dir` itself if it has
    /// `{name}_A.txt`; `None` where the set is generated.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] listing what was looked for if there is none.
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
        // Its files may have any name in a folder of its own, but not beside those of other sets.
        if find_text(&self.root_dir, &format!("{}_A.txt", self.name)).is_some() {
            return Ok(Some(self.root_dir.clone()));
        }
        let looked = [&own, &raw, &self.root_dir].map(|folder| folder.display().to_string());
        let why = format!("no file {}_A.txt (TU format) found; looked in: {}", self.name, looked.join(", "));
        Err(GraphError::Dataset { dataset: self.name.clone(), why })
    }
}

/// Loads or generates a set of graphs.
///
/// # Errors
/// Those of [`GraphSource::folder`], [`read_tu`] and [`fake_graphs`](fn@fake_graphs).
pub fn load_graphs(source: &GraphSource) -> Result<GraphDataset, GraphError> {
    match source.folder()? {
        Some(folder) => read_tu(&source.name, &folder),
        None => fake_graphs(&source.fake),
    }
}
