//! The files of a set of graphs, which the processes of a machine map.

use super::format::{FORMAT_NAME, FORMAT_VERSION, GraphsMeta, RowsMeta};
use super::graph_data::check_offsets;
use super::{AttributeRows, GraphDataset, OneHotLabels};
use crate::memory::Buffer;
use crate::npy::{NpyElement, NpyWriter, map_features, map_npy, write_features};
use crate::{GraphError, TargetMeta, Targets};
use std::path::{Path, PathBuf};

/// The file that describes a folder of graphs. It is written last, so a folder without it is incomplete.
const META_FILE: &str = "GRAPHS.json";

/// The names of the arrays, without the extension.
const ARRAYS: [&str; 9] = [
    "node_offsets",
    "indptr",
    "indices",
    "labels",
    "targets",
    "node_features",
    "node_labels",
    "edge_features",
    "edge_labels",
];

impl GraphDataset {
    /// Returns the number of bytes of the arrays that [`GraphDataset::write`] writes.
    pub fn stored_bytes(&self) -> u64 {
        let targets = self.targets.as_ref().map_or(0, |targets| targets.values.len());
        let of_four = self.indices.len() + self.labels.len() + targets;
        let of_eight = self.node_offsets.len() + self.indptr.len();
        (8 * of_eight + 4 * of_four + self.nodes.num_bytes() + self.edges.num_bytes()) as u64
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
        let nodes = write_rows(dir, "node", &self.nodes)?;
        let edges = write_rows(dir, "edge", &self.edges)?;
        let meta = GraphsMeta {
            format: FORMAT_NAME.into(),
            version: FORMAT_VERSION,
            dataset: self.name.clone(),
            classes: self.classes.clone(),
            nodes,
            edges,
            targets: self.targets.as_ref().map(Targets::meta),
        };
        let path = dir.join(META_FILE);
        let text = serde_json::to_vec_pretty(&meta).map_err(|e| GraphError::io(&path, e.into()))?;
        std::fs::write(&path, text).map_err(|e| GraphError::io(&path, e))
    }

    /// Maps the graphs that [`GraphDataset::write`] wrote. The files may be deleted afterwards.
    ///
    /// # Errors
    /// Fails if a file is missing, truncated or inconsistent with the others.
    pub fn open(dir: &Path) -> Result<Self, GraphError> {
        let path = dir.join(META_FILE);
        let text = std::fs::read(&path).map_err(|e| GraphError::io(&path, e))?;
        let meta = GraphsMeta::parse(&path, &text)?;
        let node_offsets: Buffer<u64> = map(dir, "node_offsets")?;
        let num_nodes = node_offsets.last().map_or(0, |&end| end as usize);
        let indices: Buffer<u32> = map(dir, "indices")?;
        let targets = match meta.targets {
            Some(TargetMeta { dim, kind }) => Some(Targets { values: map(dir, "targets")?, dim, kind }),
            None => None,
        };
        let dataset = Self {
            name: meta.dataset,
            node_offsets,
            indptr: map(dir, "indptr")?,
            nodes: map_rows(dir, "node", meta.nodes, num_nodes)?,
            edges: map_rows(dir, "edge", meta.edges, indices.len())?,
            indices,
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
        self.nodes.check(num_nodes, "node")?;
        self.edges.check(self.indices.len(), "edge")
    }
}

/// Writes the rows of nodes or edges and returns their description.
fn write_rows(dir: &Path, of: &str, rows: &AttributeRows) -> Result<RowsMeta, GraphError> {
    let mut meta = RowsMeta::default();
    if let Some(features) = &rows.features {
        write_features(&file(dir, &format!("{of}_features")), features)?;
        meta.features = Some((features.dim(), features.dtype()));
    }
    if let Some(OneHotLabels { columns, per_row, names }) = &rows.labels {
        put(&file(dir, &format!("{of}_labels")), &[columns.len()], columns)?;
        meta.labels = Some((*per_row, names.clone()));
    }
    Ok(meta)
}

fn map_rows(dir: &Path, of: &str, meta: RowsMeta, num_rows: usize) -> Result<AttributeRows, GraphError> {
    let mut rows = AttributeRows::default();
    if let Some((dim, dtype)) = meta.features {
        rows.features = Some(map_features(&file(dir, &format!("{of}_features")), [num_rows, dim], dtype)?);
    }
    if let Some((per_row, names)) = meta.labels {
        rows.labels = Some(OneHotLabels { columns: map(dir, &format!("{of}_labels"))?, per_row, names });
    }
    Ok(rows)
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
