//! One part of a partitioned graph, memory-mapped.

use crate::npy::map_npy;
use crate::scan::first_position;
use crate::{
    Buffer, Csc, EdgeAttributes, EdgeTypeId, EdgeTypeMeta, FeatureDtype, Features, GlobalNodeId, GraphError,
    HeldOutEdges, Meta, NodeTypeId, NodeTypeMeta, NpyElement, PartitionId, Split, Splits,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of a part, relative to `META.json`.
pub fn part_dir(part: PartitionId) -> String {
    format!("part_{part}")
}

/// The folder of a node type, relative to its part.
pub fn node_dir(node_type: &str) -> String {
    format!("nodes/{node_type}")
}

/// The folder of an edge type, relative to its part.
pub fn edge_dir(edge_type: &EdgeTypeMeta) -> String {
    format!("edges/{}__{}__{}", edge_type.src_type, edge_type.relation, edge_type.dst_type)
}

/// What one part holds: the nodes it owns, and all in-edges of those. Opening it maps the files; pages are read when
/// they are first used, and processes of one machine share them.
#[derive(Clone, Debug)]
pub struct Part {
    id: PartitionId,
    meta: Arc<Meta>,
    nodes: Vec<PartNodes>,
    edges: Vec<PartEdges>,
}

/// The owned nodes of one type, in ascending order of their original ids. The *row* of a node is its global id less
/// the start of the part's range.
#[derive(Clone, Debug)]
pub struct PartNodes {
    /// The original id of each row, strictly ascending.
    pub original_ids: Buffer<u32>,
    /// Features per row, if the type has any.
    pub features: Option<Features>,
    /// A class per row, -1 where unlabelled, if the type has labels.
    pub labels: Option<Buffer<i64>>,
    /// Rows of the training, validation and test nodes, ascending.
    pub splits: Splits,
    /// A time per row, if the type has times.
    pub times: Option<Buffer<i64>>,
}

/// The in-edges of the owned nodes, by one edge type.
#[derive(Clone, Debug)]
pub struct PartEdges {
    /// The type of the sources.
    pub src_type: NodeTypeId,
    /// The type of the destinations.
    pub dst_type: NodeTypeId,
    /// Rows are those of the owned destinations; indices are global ids of sources.
    pub csc: Csc,
    /// What edges carry besides their ends, in the order of the indices.
    pub attributes: EdgeAttributes,
    /// The time of each edge's source, in the order of the indices, if the type of the sources has times.
    pub src_times: Option<Buffer<i64>>,
    /// The held-out edges into the owned destinations; both ends are global ids.
    pub held_out: HeldOutEdges,
}

impl Part {
    /// Opens `part` of the partitioned graph in `dir`, the `N-parts` folder. Original ids, labels, splits and edges are
    /// checked against their invariants; features are not read. With `verify`, checksums are compared first, which
    /// reads every byte of the part once.
    ///
    /// # Errors
    /// A missing, truncated, altered or contradictory file, named.
    pub fn open(dir: &Path, part: PartitionId, verify: bool) -> Result<Self, GraphError> {
        let meta = Meta::read(dir)?;
        if part.0 >= meta.num_parts {
            let why = format!("part {part} was asked for, but it has parts 0 to {}", meta.num_parts - 1);
            return Err(GraphError::format(dir, why));
        }
        if verify {
            meta.verify_files(dir, Some(part))?;
        }
        let root = dir.join(part_dir(part));
        let open = Opener { root: &root, part };
        let nodes = meta.node_types.iter().map(|t| open.nodes(t)).collect::<Result<Vec<_>, _>>()?;
        let edges = meta.edge_types.iter().map(|e| open.edges(e, &meta)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { id: part, meta: Arc::new(meta), nodes, edges })
    }

    /// The same with the edges in memory of this process instead of in mapped files.
    ///
    /// A hop reads edges at random, which with an allocator that gives huge pages is faster than in the 4 KiB pages of a
    /// file. It takes 4 bytes an edge and 8 a node, and processes no longer share them.
    pub fn with_edges_in_memory(mut self) -> Self {
        let in_memory = |edges: PartEdges| PartEdges { csc: edges.csc.into_memory(), ..edges };
        self.edges = self.edges.into_iter().map(in_memory).collect();
        self
    }

    /// Which part it is.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The description of the whole partitioned graph.
    pub fn meta(&self) -> &Arc<Meta> {
        &self.meta
    }

    /// The owned nodes of one type.
    pub fn nodes(&self, node_type: NodeTypeId) -> &PartNodes {
        &self.nodes[node_type.index()]
    }

    /// The in-edges by one edge type.
    pub fn edges(&self, edge_type: EdgeTypeId) -> &PartEdges {
        &self.edges[edge_type.index()]
    }

    /// Ids of the edge types, in order.
    pub fn edge_type_ids(&self) -> impl Iterator<Item = EdgeTypeId> + use<> {
        (0..self.edges.len() as u16).map(EdgeTypeId)
    }

    /// The global ids of one type that this part owns.
    pub fn owned(&self, node_type: NodeTypeId) -> std::ops::Range<u32> {
        self.meta.node_types[node_type.index()].book.range(self.id)
    }

    /// The row of an owned node.
    pub fn row(&self, node_type: NodeTypeId, node: GlobalNodeId) -> usize {
        (node.0 - self.owned(node_type).start) as usize
    }

    /// The node with an original id, if this part owns it; a binary search.
    pub fn find_original(&self, node_type: NodeTypeId, original: u32) -> Option<GlobalNodeId> {
        let row = self.nodes(node_type).original_ids.binary_search(&original).ok()?;
        Some(GlobalNodeId(self.owned(node_type).start + row as u32))
    }
}

struct Opener<'a> {
    root: &'a Path,
    part: PartitionId,
}

impl Opener<'_> {
    fn nodes(&self, t: &NodeTypeMeta) -> Result<PartNodes, GraphError> {
        let dir = self.root.join(node_dir(&t.name));
        let rows = t.book.range(self.part).len();
        let ids_file = dir.join("original_ids.npy");
        let original_ids: Buffer<u32> = array(ids_file.clone(), &[rows])?;
        if let Some(row) = original_ids.windows(2).position(|w| w[0] >= w[1]) {
            return Err(GraphError::format(ids_file, format!("it does not ascend after row {row}")));
        }
        let features_file = dir.join("features.npy");
        let features = match (t.feature_dim, t.feature_dtype) {
            (0, _) => None,
            (dim, FeatureDtype::F32) => Some(Features::F32 { values: array(features_file, &[rows, dim])?, dim }),
            (dim, FeatureDtype::F16) => Some(Features::F16 { values: array(features_file, &[rows, dim])?, dim }),
        };
        let labels = t.has_labels.then(|| labels(dir.join("labels.npy"), rows, t.num_classes)).transpose()?;
        let mut splits = Splits::default();
        for split in Split::ALL {
            let path = dir.join(format!("{}.npy", split.name()));
            let (_, ids) = map_npy::<u32>(&path)?;
            if ids.windows(2).any(|w| w[0] >= w[1]) || ids.last().is_some_and(|&last| last as usize >= rows) {
                return Err(GraphError::format(path, format!("its rows are not ascending, or not below {rows}")));
            }
            splits.set(split, ids);
        }
        Ok(PartNodes { original_ids, features, labels, splits, times: None })
    }

    fn edges(&self, e: &EdgeTypeMeta, meta: &Meta) -> Result<PartEdges, GraphError> {
        let dir = self.root.join(edge_dir(e));
        let find = |name: &str| meta.node_types.iter().position(|t| t.name == name).map(|i| NodeTypeId(i as u16));
        let (Some(src_type), Some(dst_type)) = (find(&e.src_type), find(&e.dst_type)) else {
            return Err(GraphError::format(dir, "it joins an unknown node type"));
        };
        let rows = meta.node_types[dst_type.index()].book.range(self.part).len();
        let indptr = array(dir.join("indptr.npy"), &[rows + 1])?;
        let indices_file = dir.join("indices.npy");
        let (_, indices) = map_npy::<u32>(&indices_file)?;
        let num_sources = meta.node_types[src_type.index()].book.num_nodes();
        let csc = Csc::new(indptr, indices, num_sources).map_err(|e| GraphError::format(dir, e.to_string()))?;
        let (attributes, held_out) = Default::default();
        Ok(PartEdges { src_type, dst_type, csc, attributes, src_times: None, held_out })
    }
}

fn labels(path: PathBuf, rows: usize, num_classes: usize) -> Result<Buffer<i64>, GraphError> {
    let labels: Buffer<i64> = array(path.clone(), &[rows])?;
    let classes = i64::try_from(num_classes).unwrap_or(i64::MAX);
    if let Some(row) = first_position(&labels, |label| !(-1..classes).contains(&label)) {
        return Err(GraphError::format(path, format!("row {row} has label {}, outside -1..{classes}", labels[row])));
    }
    Ok(labels)
}

fn array<T: NpyElement>(path: PathBuf, shape: &[usize]) -> Result<Buffer<T>, GraphError> {
    let (found, values) = map_npy::<T>(&path)?;
    if found != shape {
        return Err(GraphError::format(path, format!("its shape is {found:?}, but META.json wants {shape:?}")));
    }
    Ok(values)
}
