//! The files of a set of graphs, which the processes of a machine map.

use super::format::{FORMAT_NAME, FORMAT_VERSION, GraphsMeta};
use super::graph_data::check_offsets;
use super::{GraphDataset, NodeLabels};
use crate::memory::Buffer;
use crate::npy::{NpyElement, NpyWriter, map_features, map_npy, write_features};
use crate::{GraphError, TargetMeta, Targets};
use std::path::{Path, PathBuf};

/// The file that describes a folder of graphs. It is written last, so a folder without it is incomplete.
const META_FILE: &str = "GRAPHS.json";

/// The names of the arrays, without the extension.
const ARRAYS: [&str; 8] =
    ["node_offsets", "indptr", "indices", "labels", "targets", "features", "node_labels", "edge_labels"];

impl GraphDataset {
    /// Returns the number of bytes of the arrays that [`GraphDataset::write`] writes.
    pub fn stored_bytes(&self) -> u64 {
        let features = self
            .features
            .as_ref()
            .map_or(0, |features| features.num_rows() * features.dtype().row_bytes(features.dim()));
        let node_labels = self.node_labels.as_ref().map_or(0, |labels| labels.columns.len());
        let edge_labels = self.edge_labels.as_ref().map_or(0, |labels| labels.len());
        let targets = self.targets.as_ref().map_or(0, |targets| targets.values.len());
        let of_four = self.indices.len() + self.labels.len() + targets + node_labels + edge_labels;
        (8 * (self.node_offsets.len() + self.indptr.len()) + 4 * of_four + features) as u64
    }

    /// Returns the names of the files that [`GraphDataset::write`] may write.
    pub fn possible_files() -> impl Iterator<Item = String> {
        ARRAYS.into_iter().map(|array| format!("{array}.npy")).chain([META_FILE.to_owned()])
    }

    /// Writes the graphs to files in the existing folder `dir`, for [`GraphDataset::open`] in processes of the same
    /// machine. The files are not synced to disk.
    ///
    /// # Errors
    /// Any I/O error, with the path of the file.
    pub fn write(&self, dir: &Path) -> Result<(), GraphError> {
        put(&file(dir, "node_offsets"), &[self.node_offsets.len()], &self.node_offsets)?;
        put(&file(dir, "indptr"), &[self.indptr.len()], &self.indptr)?;
        put(&file(dir, "indices"), &[self.indices.len()], &self.indices)?;
        put(&file(dir, "labels"), &[self.labels.len()], &self.labels)?;
        if let Some(Targets { values, dim, .. }) = &self.targets {
            put(&file(dir, "targets"), &[self.num_graphs(), *dim], values)?;
        }
        if let Some(features) = &self.features {
            write_features(&file(dir, "features"), features)?;
        }
        if let Some(NodeLabels { columns, per_node, .. }) = &self.node_labels {
            put(&file(dir, "node_labels"), &[self.num_nodes(), *per_node], columns)?;
        }
        if let Some(labels) = &self.edge_labels {
            put(&file(dir, "edge_labels"), &[labels.len()], labels)?;
        }
        let meta = GraphsMeta {
            format: FORMAT_NAME.into(),
            version: FORMAT_VERSION,
            dataset: self.name.clone(),
            classes: self.classes.clone(),
            features: self.features.as_ref().map(|features| (features.dim(), features.dtype())),
            node_labels: self.node_labels.as_ref().map(|labels| (labels.per_node, labels.names.clone())),
            has_edge_labels: self.edge_labels.is_some(),
            targets: self.targets.as_ref().map(Targets::meta),
        };
        let path = dir.join(META_FILE);
        let text = serde_json::to_vec_pretty(&meta).map_err(|e| GraphError::io(&path, e.into()))?;
        std::fs::write(&path, text).map_err(|e| GraphError::io(&path, e))
    }

    /// Maps the graphs that [`GraphDataset::write`] wrote. The files may be deleted afterwards.
    ///
    /// ```
    /// use edgecut_graph::GraphDataset;
    /// use edgecut_graph::small_graphs::{FakeGraphsOptions, fake_graphs};
    /// # let dir = tempfile::tempdir()?;
    /// let graphs = fake_graphs(&FakeGraphsOptions::default())?;
    /// graphs.write(dir.path())?;
    /// assert_eq!(GraphDataset::open(dir.path())?.fingerprint(), graphs.fingerprint());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a file is missing, truncated or inconsistent with the others.
    pub fn open(dir: &Path) -> Result<Self, GraphError> {
        let path = dir.join(META_FILE);
        let text = std::fs::read(&path).map_err(|e| GraphError::io(&path, e))?;
        let meta = GraphsMeta::parse(&path, &text)?;
        let node_offsets: Buffer<u64> = map(dir, "node_offsets")?;
        let num_nodes = node_offsets.last().map_or(0, |&end| end as usize);
        let features = match meta.features {
            Some((dim, dtype)) => Some(map_features(&file(dir, "features"), [num_nodes, dim], dtype)?),
            None => None,
        };
        let node_labels = match meta.node_labels {
            Some((per_node, names)) => Some(NodeLabels { columns: map(dir, "node_labels")?, per_node, names }),
            None => None,
        };
        let targets = match meta.targets {
            Some(TargetMeta { dim, kind }) => Some(Targets { values: map(dir, "targets")?, dim, kind }),
            None => None,
        };
        let dataset = Self {
            name: meta.dataset,
            node_offsets,
            indptr: map(dir, "indptr")?,
            indices: map(dir, "indices")?,
            features,
            node_labels,
            edge_labels: meta.has_edge_labels.then(|| map(dir, "edge_labels")).transpose()?,
            labels: map(dir, "labels")?,
            classes: meta.classes,
            targets,
        };
        dataset.check().map_err(|why| GraphError::format(dir, why))?;
        Ok(dataset)
    }

    /// Checks the invariants of the type.
    fn check(&self) -> Result<(), String> {
        let num_nodes = check_offsets(&self.node_offsets)?;
        if self.indptr.len() != num_nodes + 1 || self.indptr[0] != 0 {
            return Err(format!("{} offsets of edges for {num_nodes} nodes", self.indptr.len()));
        }
        let ends = self.indptr[num_nodes] as usize;
        if self.indptr.windows(2).any(|ends| ends[0] > ends[1]) || ends != self.indices.len() {
            return Err(format!("offsets of edges do not ascend to {}, the number of edges", self.indices.len()));
        }
        let strays = |graph: usize| {
            let view = self.graph(graph);
            view.indices.iter().any(|&source| source as usize >= view.num_nodes())
        };
        if let Some(graph) = (0..self.num_graphs()).find(|&graph| strays(graph)) {
            return Err(format!("graph {graph} has an edge from a node outside the graph"));
        }
        if self.labels.len() != self.num_graphs() {
            return Err(format!("{} labels for {} graphs", self.labels.len(), self.num_graphs()));
        }
        if self.classes.len() > self.num_graphs() {
            return Err(format!("{} classes for {} graphs", self.classes.len(), self.num_graphs()));
        }
        if let Some(targets) = &self.targets {
            if !self.classes.is_empty() {
                return Err("its graphs have both classes and numbers to predict".into());
            }
            targets.problem(self.num_graphs(), "graph").map_or(Ok(()), Err)?;
        } else if self.labels.iter().any(|&class| class as usize >= self.classes.len()) {
            return Err(format!("the class of a graph is not below {}, the number of classes", self.classes.len()));
        }
        if self.edge_labels.as_ref().is_some_and(|labels| labels.len() != self.indices.len()) {
            return Err("the number of edge labels is not the number of edges".into());
        }
        self.check_nodes(num_nodes)
    }
}

fn file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.npy"))
}

fn put<T: NpyElement>(path: &Path, shape: &[usize], values: &[T]) -> Result<(), GraphError> {
    let mut writer = NpyWriter::create(path, shape)?;
    writer.write(values)?;
    writer.finish_unsynced().map(drop)
}

fn map<T: NpyElement>(dir: &Path, name: &str) -> Result<Buffer<T>, GraphError> {
    Ok(map_npy(&file(dir, name))?.1)
}
