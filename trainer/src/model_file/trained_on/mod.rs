//! The data that a model was trained on, as its file describes it. `comparison` compares descriptions with graphs, and `wording`
//! makes sentences of the differences.

mod comparison;
#[cfg(test)]
mod tests;
mod wording;

pub use comparison::OtherData;

use super::ModelFileError;
use edgecut_dist_sampler::SamplerConfig;
use edgecut_graph::{
    AttributeRows, EdgeTypeId, EdgeTypeMeta, GraphDataset, LabelId, Meta, NodeTypeId, TypeDigests, checksum,
};
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The key of the metadata of a model file under which the description is stored as JSON.
pub(super) const TRAINED_ON: &str = "trained_on";

/// The name of the only entry for a set of graphs.
const GRAPHS: &str = "graphs";

/// The data that a model was trained on.
///
/// A model fits another graph only if the columns of its features and the numbers of its classes mean the same there, and
/// learned embeddings belong to the nodes of the training. Digests tell whether this is the case. Embeddings are loaded
/// only for the same nodes in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainedOn {
    /// By the name of the node type.
    node_types: BTreeMap<String, TypeIdentity>,
    /// By the names of source type, relation and destination type, joined by two underscores.
    edge_types: BTreeMap<String, TypeIdentity>,
    /// The columns that a model for whole graphs reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    graph_columns: Option<Columns>,
    /// The columns of edges of a set of graphs. Files of earlier versions lack them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    graph_edge_columns: Option<Columns>,
    /// The attribute that constrained sampling by time, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_attr: Option<String>,
    /// True if neighbors were sampled by the weights of edges.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub weighted: bool,
    /// The sampler of the evaluation. Files of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<SamplerConfig>,
    /// The edge types that a model for links predicts, by their full names. Files of earlier versions lack them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    targets: BTreeMap<String, TargetEdges>,
    /// The labels of nodes that the model predicts, by their names in the graph ([`Meta::find_label`]). Empty if the graph has
    /// one label of a node type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The fingerprints of the names of the classes of several labels, by the names of the labels. Labels without names of
    /// classes have none, and files of earlier versions have none at all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    classes_of_labels: BTreeMap<String, String>,
}

/// The edges of a type that a model for links predicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TargetEdges {
    /// The number of training edges.
    training: u64,
    /// The numbers of held-out validation and test edges.
    held_out: [u64; 2],
    /// The digest of the edges, which tells the held-out ones. Parts of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The digests of the ends of the edges and of the held-out edges. Parts and files of earlier versions have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    arrays: BTreeMap<String, String>,
}

/// The identity of a node type or edge type. An entry is absent if the parts of the training did not tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TypeIdentity {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ids: Option<Fingerprint>,
    /// The digest of the features, labels, splits and times of nodes whose ids are row numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transforms: Option<Fingerprint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    classes: Option<Fingerprint>,
    /// The digest of the data with the splits, if the model predicts labels of the type: all arrays of nodes or edges, or the
    /// numbers of the training graphs. Files of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scored: Option<String>,
    /// The digests of the same data by what it holds, such as `features` and `splits`. Files of earlier versions lack them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    arrays: BTreeMap<String, String>,
}

/// The part of a description of data that a model reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadData {
    /// Classes of nodes or of whole graphs.
    pub classes: bool,
    /// Classes of edges.
    pub edge_classes: bool,
    /// Features of the edges of small graphs.
    pub edge_features: bool,
}

/// The columns of the nodes or the edges of a set of graphs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Columns {
    /// The number of features, which come first.
    features: usize,
    /// The meaning of each column after them: a label or a degree.
    names: Vec<String>,
}

/// The fingerprint of something that a type may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fingerprint {
    /// The type has none: ids are row numbers, or classes are numbers.
    None,
    Digest(String),
}

/// Returns the names of the labels that a run has chosen among several.
fn chosen_labels(meta: &Meta) -> Vec<String> {
    let mut labels = Vec::new();
    for (t, nodes) in meta.node_types.iter().enumerate() {
        if nodes.label_name.is_some() && nodes.more_labels.is_empty() {
            labels.push(meta.label_name(LabelId { node_type: NodeTypeId(t as u16), label: 0 }));
        }
    }
    labels
}

/// Returns the fingerprints of the names of the classes of all labels that have some, by the names of the labels.
fn classes_of_labels(meta: &Meta) -> BTreeMap<String, String> {
    let mut classes = BTreeMap::new();
    for (t, nodes) in meta.node_types.iter().enumerate() {
        for (label, of_label) in nodes.labels().into_iter().enumerate() {
            let name = meta.label_name(LabelId { node_type: NodeTypeId(t as u16), label });
            classes.extend(of_label.classes.map(|digest| (name, digest)));
        }
    }
    classes
}

impl TrainedOn {
    /// Describes a graph that a model is trained on.
    pub fn new(meta: &Meta) -> Self {
        let is_told = tells_tables(meta);
        let node_types = meta.node_types.iter().map(|t| {
            let TypeDigests { ids, transforms, classes, content, .. } = &t.digests;
            let identity = TypeIdentity {
                ids: fingerprint(ids, !t.has_id_map),
                content: content.clone().filter(|_| !t.has_id_map),
                // Arrays may have been made by the same transforms elsewhere.
                transforms: fingerprint(transforms, false),
                classes: fingerprint(classes, is_told && t.has_labels),
                ..TypeIdentity::default()
            };
            (t.name.clone(), identity)
        });
        let edge_types = meta.edge_types.iter().map(|e| {
            let transforms = fingerprint(&e.digests.transforms, false);
            let classes = fingerprint(&e.digests.classes, is_told && e.labels.is_some());
            (e.full_name(), TypeIdentity { transforms, classes, ..TypeIdentity::default() })
        });
        Self {
            node_types: node_types.collect(),
            edge_types: edge_types.collect(),
            labels: chosen_labels(meta),
            ..Self::default()
        }
    }

    /// Describes a set of graphs that a model is trained on: its arrays, its classes, and the columns of its nodes.
    pub fn of_graphs(graphs: &GraphDataset) -> Self {
        let mut found = Self::columns_of_graphs(graphs);
        for identity in found.node_types.values_mut() {
            identity.arrays = graphs.array_digests();
        }
        found
    }

    /// Describes the columns and the classes of graphs, and does not read their arrays.
    fn columns_of_graphs(graphs: &GraphDataset) -> Self {
        let names = format!("{:?}", graphs.classes());
        let classes = Some(Fingerprint::Digest(checksum(names.as_bytes())));
        Self {
            node_types: BTreeMap::from([(GRAPHS.to_owned(), TypeIdentity { classes, ..TypeIdentity::default() })]),
            graph_columns: Some(Columns::of(graphs.nodes())),
            graph_edge_columns: Some(Columns::of(graphs.edges())),
            ..Self::default()
        }
    }

    /// Adds the sampler of the evaluation.
    pub fn with_sampler(self, sampler: SamplerConfig) -> Self {
        let time_attr = sampler.temporal.map(|temporal| temporal.attr.to_string());
        Self { time_attr, weighted: sampler.weighted, sampler: Some(sampler), ..self }
    }

    /// Adds several labels of nodes that the model predicts, by their names in the graph.
    pub fn with_labels(mut self, meta: &Meta, labels: Vec<String>) -> Self {
        self.classes_of_labels = classes_of_labels(meta);
        self.classes_of_labels.retain(|name, _| labels.contains(name));
        self.labels = labels;
        self
    }

    /// Adds the edge types that a model for links predicts.
    pub fn with_targets(mut self, meta: &Meta, targets: &[EdgeTypeId]) -> Self {
        for edge_type in targets {
            let edges = &meta.edge_types[edge_type.index()];
            self.targets.insert(edges.full_name(), TargetEdges::of(edges));
        }
        self
    }

    /// Adds the splits of a node type whose labels the model predicts.
    pub fn with_scored_nodes(mut self, meta: &Meta, node_type: NodeTypeId) -> Self {
        let nodes = &meta.node_types[node_type.index()];
        if let Some(identity) = self.node_types.get_mut(&nodes.name) {
            identity.scored.clone_from(&nodes.digests.content);
            identity.arrays.clone_from(&nodes.digests.arrays);
        }
        self
    }

    /// Adds the splits of an edge type whose labels the model predicts.
    pub fn with_scored_edges(mut self, meta: &Meta, edge_type: EdgeTypeId) -> Self {
        let edges = &meta.edge_types[edge_type.index()];
        if let Some(identity) = self.edge_types.get_mut(&edges.full_name()) {
            identity.scored.clone_from(&edges.digests.content);
            identity.arrays.clone_from(&edges.digests.arrays);
        }
        self
    }

    /// Adds the numbers of the graphs that a model for whole graphs is trained on.
    pub fn with_training_graphs(mut self, train: &[u32]) -> Self {
        if let Some(identity) = self.node_types.get_mut(GRAPHS) {
            identity.scored = Some(digest_of_graphs(train));
        }
        self
    }

    /// Reads the description from the bytes of a model file; `None` if the file has none. `path` is the file for errors.
    ///
    /// # Errors
    /// [`ModelFileError::Format`] if the bytes are no safetensors file, [`ModelFileError::Config`] if the
    /// description cannot be parsed.
    pub fn of_file(bytes: &[u8], path: &Path) -> Result<Option<Self>, ModelFileError> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(ModelFileError::format(path))?;
        Self::of_metadata(header.metadata().as_ref(), path)
    }

    pub(super) fn of_metadata(
        metadata: Option<&HashMap<String, String>>,
        path: &Path,
    ) -> Result<Option<Self>, ModelFileError> {
        let text = metadata.and_then(|metadata| metadata.get(TRAINED_ON));
        let parsed = text.map(|text| serde_json::from_str(text)).transpose();
        parsed.map_err(ModelFileError::config(path))
    }

    /// Returns true if the parts of a graph tell what a model file tells of its training.
    pub fn is_told_by(meta: &Meta) -> bool {
        let has_ids = meta.node_types.iter().all(|t| !t.has_id_map || t.digests.ids.is_some());
        has_ids && tells_tables(meta)
    }
}

impl TargetEdges {
    fn of(edges: &EdgeTypeMeta) -> Self {
        let TypeDigests { content, mut arrays, .. } = edges.digests.clone();
        arrays.retain(|kind, _| ["ends", "held_out"].contains(&kind.as_str()));
        Self { training: edges.num_edges, held_out: edges.held_out, content, arrays }
    }
}

impl Columns {
    fn of(rows: &AttributeRows) -> Self {
        let names = rows.label_names().to_vec();
        Self { features: rows.dim() - names.len(), names }
    }
}

/// Returns the digest of the numbers of graphs, whatever their order.
fn digest_of_graphs(graphs: &[u32]) -> String {
    let mut sorted = graphs.to_vec();
    sorted.sort_unstable();
    checksum(format!("{sorted:?}").as_bytes())
}

/// Returns true if the parts tell the digests of features and classes of tables. Parts of earlier versions have no digests.
fn tells_tables(meta: &Meta) -> bool {
    let of_nodes = meta.node_types.iter().map(|t| &t.digests);
    let mut all = of_nodes.chain(meta.edge_types.iter().map(|e| &e.digests));
    !meta.has_transforms || all.any(|digests| !digests.is_empty())
}

/// Returns the fingerprint of a digest. Without one, `is_absent` tells that there is nothing to have a digest of.
fn fingerprint(digest: &Option<String>, is_absent: bool) -> Option<Fingerprint> {
    let known = digest.clone().map(Fingerprint::Digest);
    known.or(is_absent.then_some(Fingerprint::None))
}
