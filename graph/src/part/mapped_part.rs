//! One part of a partitioned graph, memory-mapped.

use super::arrays::{PartEdges, PartLabel, PartNodes};
use super::deferred_features::FeaturesChecksum;
use super::folders::part_dir;
use super::map_files::PartFiles;
use super::meta::Meta;
use super::{Csc, PartMeta, PartitionBook, SplitIndex};
use crate::dataset::{
    EdgeAttributes, EdgeIds, EdgeLabelKind, EdgeLabelValues, EdgeLabels, HeldOutEdges, TargetMeta, Targets,
};
use crate::memory::{Buffer, FeatureDtype, FeatureDtypes, Features};
use crate::{DiskPartId, EdgeTypeId, GlobalNodeId, GraphError, NodeTypeId, PartitionId};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// One part: the nodes that it owns and all their in-edges. Opening a part maps its files. Pages are read on first use
/// and shared between the processes of a machine.
///
/// ```
/// use edgecut_graph::part_writer::write_one_part;
/// use edgecut_graph::readers::{FakeOptions, fake};
/// use edgecut_graph::{DiskPartId, EdgeTypeId, NodeTypeId, Part};
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// write_one_part(fake(&FakeOptions { avg_num_nodes: 100, ..FakeOptions::default() })?, dir)?;
/// let part = Part::open(dir, DiskPartId(0), true)?;
/// let edges = part.edges(EdgeTypeId(0));
/// assert_eq!(edges.csc.num_rows(), part.owned(NodeTypeId(0)).len());
/// assert!(edges.csc.is_mapped());
/// assert!(!part.with_edges_in_memory().edges(EdgeTypeId(0)).csc.is_mapped());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Part {
    pub(super) id: PartitionId,
    /// The numbers of the parts on disk that this part consists of.
    pub(super) on_disk: Range<u32>,
    pub(super) built_features: Vec<FeaturesChecksum>,
    pub(super) meta: Arc<Meta>,
    pub(super) nodes: Vec<PartNodes>,
    pub(super) edges: Vec<PartEdges>,
}

impl Part {
    /// Opens the part `part` of the partitioned graph in `dir`, the `N-parts` folder. Compares the sizes of all files,
    /// and the checksums of all files except features, which it does not read. Then checks the invariants of original
    /// ids, labels, splits, edges, weights and held-out edges. If `verify` is true, it compares the checksums of features
    /// too, which reads every byte of the part.
    ///
    /// # Errors
    /// Fails if a file is missing, truncated, altered or inconsistent. The error names the file.
    pub fn open(dir: &Path, part: DiskPartId, verify: bool) -> Result<Self, GraphError> {
        let meta = Meta::read(dir)?;
        if part.0 >= meta.num_parts {
            let why = format!("part {part} was requested, but it has parts 0 to {}", meta.num_parts - 1);
            return Err(GraphError::format(dir, why));
        }
        meta.check_part(dir, part, verify)?;
        Self::map(dir, part, Arc::new(meta))
    }

    /// Maps the files of a part without a comparison of their checksums.
    pub(crate) fn map(dir: &Path, part: DiskPartId, meta: Arc<Meta>) -> Result<Self, GraphError> {
        let root = dir.join(part_dir(part));
        let files = PartFiles { root: &root, part };
        let nodes = meta.node_types.iter().map(|t| files.map_nodes(t, &meta)).collect::<Result<Vec<_>, _>>()?;
        let edges = meta.edge_types.iter().map(|e| files.map_edges(e, &meta)).collect::<Result<Vec<_>, _>>()?;
        // Without groups, the parts on disk are the parts that processes hold.
        let id = PartitionId(part.0);
        let built_features = files.built_features(&meta)?;
        Ok(Self { id, on_disk: part.0..part.0 + 1, built_features, meta, nodes, edges })
    }

    /// Makes a part that owns nothing, for a process that knows a graph but holds none of its parts. It is added to the
    /// parts of the graph as the last one, so that all other nodes have an owner elsewhere.
    ///
    /// # Errors
    /// [`GraphError::Csc`] or [`GraphError::Book`] if `meta` contradicts itself.
    pub fn without_nodes(mut meta: Meta) -> Result<Self, GraphError> {
        let id = PartitionId(meta.num_parts);
        meta.num_parts += 1;
        meta.report.parts.push(PartMeta { nodes: 0, edges: 0, train_nodes: 0, halo_nodes: 0 });
        for of_type in &mut meta.node_types {
            let mut bounds: Vec<u64> = of_type.book.clone().into();
            bounds.push(of_type.book.num_nodes() as u64);
            of_type.book = PartitionBook::new(bounds)?;
        }
        let none = |dim, dtype| (dim > 0).then(|| Features::empty(dim, dtype));
        let no_times = |has_times: bool| has_times.then(Buffer::default);
        let nodes = meta.node_types.iter().map(|t| PartNodes {
            features: none(t.feature_dim, t.feature_dtype),
            labels: t.has_labels.then(Buffer::default),
            targets: t.targets.map(|_| Buffer::default()),
            times: no_times(t.has_times),
            more_labels: vec![PartLabel::default(); t.more_labels.len()],
            ..PartNodes::default()
        });
        let nodes = nodes.collect();
        let type_of = |name: &str| {
            let at = meta.node_types.iter().position(|t| t.name == name);
            at.map(|at| NodeTypeId(at as u16)).ok_or_else(|| GraphError::Csc { why: format!("no node type {name}") })
        };
        let edges = meta.edge_types.iter().map(|e| {
            let src_type = type_of(&e.src_type)?;
            Ok(PartEdges {
                src_type,
                dst_type: type_of(&e.dst_type)?,
                csc: Csc::new(vec![0].into(), Buffer::default(), meta.node_types[src_type.index()].book.num_nodes())?,
                attributes: EdgeAttributes {
                    features: none(e.feature_dim, e.feature_dtype),
                    weights: e.has_weights.then(Buffer::default),
                    times: no_times(e.has_times),
                    labels: e.labels.map(|labels| no_labels(labels.values)),
                    ids: e.ids.map(EdgeIds::none),
                },
                split_index: SplitIndex::default(),
                src_times: no_times(meta.node_types[src_type.index()].has_times),
                held_out: HeldOutEdges::default(),
            })
        });
        let edges = edges.collect::<Result<_, GraphError>>()?;
        Ok(Self { id, on_disk: 0..0, built_features: Vec::new(), meta: Arc::new(meta), nodes, edges })
    }

    /// Copies the edges, their weights and times, and the original ids into the memory of this process.
    ///
    /// A hop reads edges at random, which is faster from an allocator with huge pages than from the 4 KiB pages of a
    /// mapped file. The copy takes 4 bytes per edge and 12 per node, plus 4 per edge for weights and 8 per edge for
    /// each kind of times. Processes no longer share these arrays. Features, labels, ids and held-out edges stay mapped. `train`
    /// leaves the edges mapped if several processes of a machine share the part, so that the machine holds them once
    /// (`programs/train/tests/shared_part.rs`).
    pub fn with_edges_in_memory(mut self) -> Self {
        let in_memory = |edges: PartEdges| PartEdges {
            csc: edges.csc.into_memory(),
            attributes: EdgeAttributes {
                weights: edges.attributes.weights.map(Buffer::into_memory),
                times: edges.attributes.times.map(Buffer::into_memory),
                ..edges.attributes
            },
            src_times: edges.src_times.map(Buffer::into_memory),
            ..edges
        };
        self.edges = self.edges.into_iter().map(in_memory).collect();
        for nodes in &mut self.nodes {
            nodes.original_ids = std::mem::take(&mut nodes.original_ids).into_memory();
        }
        self
    }

    /// Converts node features to other stored types, in the memory of this process. Features of edges keep their type.
    ///
    /// # Errors
    /// [`GraphError::FeatureDtypes`] for a named type that does not exist or has no features,
    /// [`GraphError::OutOfRange`] for a value that the type cannot represent.
    pub fn with_feature_dtypes(mut self, dtypes: &FeatureDtypes) -> Result<Self, GraphError> {
        for (t, dtype) in self.meta.clone().new_feature_dtypes(dtypes)? {
            let converted = self.converted_features(t, dtype)?;
            self = self.with_features(t, converted);
        }
        Ok(self)
    }

    /// Returns the features of the owned nodes of a type, converted to another stored type.
    ///
    /// # Errors
    /// [`GraphError::OutOfRange`] for a value that the type cannot represent.
    ///
    /// # Panics
    /// If the node type has no features.
    #[expect(clippy::expect_used, reason = "documented: the caller chooses a type with features")]
    pub fn converted_features(&self, node_type: NodeTypeId, dtype: FeatureDtype) -> Result<Features, GraphError> {
        let features = self.nodes(node_type).features.as_ref().expect("a node type with features");
        let name = &self.meta.node_types[node_type.index()].name;
        features.to_dtype(dtype).map_err(|source| GraphError::OutOfRange { node_type: name.clone(), source })
    }

    /// Replaces the features of the owned nodes of a type by the same features of another stored type.
    ///
    /// # Panics
    /// If the numbers of rows or columns differ.
    pub fn with_features(mut self, node_type: NodeTypeId, features: Features) -> Self {
        let shape = (self.owned(node_type).len(), self.meta.node_types[node_type.index()].feature_dim);
        assert_eq!((features.num_rows(), features.dim()), shape, "rows and columns of features");
        Arc::make_mut(&mut self.meta).node_types[node_type.index()].feature_dtype = features.dtype();
        self.nodes[node_type.index()].features = Some(features);
        self
    }

    /// Records whether the reverse of every edge was added when a dataset was read that is not partitioned.
    pub fn with_to_undirected(mut self, to_undirected: bool) -> Self {
        Arc::make_mut(&mut self.meta).provenance.to_undirected = to_undirected;
        self
    }

    /// Returns the id of this part.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Returns the parts on disk that this part consists of: several ones for a group, and none for a part without nodes.
    pub fn parts_on_disk(&self) -> impl Iterator<Item = DiskPartId> + use<> {
        self.on_disk.clone().map(DiskPartId)
    }

    /// Returns the checksums of the features that were built after the parts.
    pub fn built_features(&self) -> &[FeaturesChecksum] {
        &self.built_features
    }

    /// Returns the description of the whole partitioned graph.
    pub fn meta(&self) -> &Arc<Meta> {
        &self.meta
    }

    /// Returns the owned nodes of one type.
    pub fn nodes(&self, node_type: NodeTypeId) -> &PartNodes {
        &self.nodes[node_type.index()]
    }

    /// Returns the in-edges of one edge type.
    pub fn edges(&self, edge_type: EdgeTypeId) -> &PartEdges {
        &self.edges[edge_type.index()]
    }

    /// Returns the ids of the edge types, in order.
    pub fn edge_type_ids(&self) -> impl Iterator<Item = EdgeTypeId> + use<> {
        (0..self.edges.len() as u16).map(EdgeTypeId)
    }

    /// Returns the global ids of one node type that this part owns.
    pub fn owned(&self, node_type: NodeTypeId) -> std::ops::Range<u32> {
        self.meta.node_types[node_type.index()].book.range(self.id)
    }

    /// Returns the row of an owned node.
    pub fn row(&self, node_type: NodeTypeId, node: GlobalNodeId) -> usize {
        (node.0 - self.owned(node_type).start) as usize
    }

    /// Returns true if this is the only part, and the nodes of a type are in the order of their original ids. Global ids
    /// are then original ids.
    pub fn has_original_order(&self, node_type: NodeTypeId) -> bool {
        self.meta.num_parts == 1 && self.nodes(node_type).by_original.is_none()
    }

    /// Finds the node with an original id by binary search. Returns `None` if this part does not own it.
    pub fn find_original(&self, node_type: NodeTypeId, original: u32) -> Option<GlobalNodeId> {
        let nodes = self.nodes(node_type);
        let position = nodes.num_below(original);
        let row = (position < nodes.original_ids.len()).then(|| nodes.row_at(position))?;
        (nodes.original_ids[row] == original).then(|| GlobalNodeId(self.owned(node_type).start + row as u32))
    }
}

/// Returns the labels of no edges.
fn no_labels(kind: EdgeLabelKind) -> EdgeLabels {
    let values = match kind {
        EdgeLabelKind::NumClasses(num_classes) => EdgeLabelValues::Classes { of_edges: Buffer::default(), num_classes },
        EdgeLabelKind::Targets(TargetMeta { dim, kind }) => {
            EdgeLabelValues::Targets(Targets { values: Buffer::default(), dim, kind })
        }
    };
    EdgeLabels { values, splits: Buffer::default() }
}
