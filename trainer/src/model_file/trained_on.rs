//! The data that a model was trained on, as its file describes it.

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
///
/// ```
/// use edgecut_graph::Meta;
/// use edgecut_graph::part_writer::write_one_part;
/// use edgecut_graph::readers::{FakeOptions, fake};
/// use edgecut_trainer::model_file::{ReadData, TrainedOn};
/// # let dir = tempfile::tempdir()?;
/// write_one_part(fake(&FakeOptions { avg_num_nodes: 100, ..FakeOptions::default() })?, dir.path())?;
/// let meta = Meta::read(dir.path())?;
/// assert_eq!(TrainedOn::new(&meta).difference(&meta, ReadData { classes: true, ..ReadData::default() }), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
                scored: None,
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

    /// Describes a set of graphs that a model is trained on: its classes, and the columns of its nodes.
    pub fn of_graphs(graphs: &GraphDataset) -> Self {
        let names = format!("{:?}", graphs.classes());
        let classes = Some(Fingerprint::Digest(checksum(names.as_bytes())));
        let identity = TypeIdentity { classes, ..TypeIdentity::default() };
        Self {
            node_types: BTreeMap::from([(GRAPHS.to_owned(), identity)]),
            graph_columns: Some(Columns::of(graphs.nodes())),
            graph_edge_columns: Some(Columns::of(graphs.edges())),
            ..Self::default()
        }
    }

    /// Describes the first difference between the training and a set of graphs in the data that a model reads, if there is
    /// one, and its remedy.
    pub fn difference_of_graphs(&self, graphs: &GraphDataset, reads: ReadData) -> Option<String> {
        let found = Self::of_graphs(graphs);
        let of_nodes = (&self.graph_columns, &found.graph_columns, "nodes");
        let of_edges = (&self.graph_edge_columns, &found.graph_edge_columns, "edges");
        for (trained, found, owners) in [of_nodes, of_edges] {
            if owners == "edges" && !reads.edge_features {
                continue;
            }
            if let (Some(trained), Some(found)) = (trained, found)
                && let Some(difference) = trained.difference(found, owners)
            {
                return Some(format!("{difference}: train a model for these graphs"));
            }
        }
        let difference = self.other_classes(&found, reads)?;
        Some(format!("{difference}: train a model for these graphs"))
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
        }
        self
    }

    /// Adds the splits of an edge type whose labels the model predicts.
    pub fn with_scored_edges(mut self, meta: &Meta, edge_type: EdgeTypeId) -> Self {
        let edges = &meta.edge_types[edge_type.index()];
        if let Some(identity) = self.edge_types.get_mut(&edges.full_name()) {
            identity.scored.clone_from(&edges.digests.content);
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

    /// Returns the nodes or edges of a graph that the model predicts and that may have other splits than in the training, so that
    /// validation and test data may be among the training data. Nodes that updates have added after the nodes of the training
    /// do not count.
    pub fn other_splits(&self, meta: &Meta) -> Option<String> {
        let graph = Self::new(meta);
        for (name, [trained, _]) in pairs(&self.node_types, &graph.node_types) {
            let here = meta.node_types.iter().find(|nodes| nodes.name == *name)?;
            let is_split = here.labels().iter().any(|label| label.split_sizes[1..] != [0; 2]);
            if is_split && has_other_splits(trained, &here.digests) {
                return Some(format!("nodes of type {name}"));
            }
        }
        for (name, [trained, _]) in pairs(&self.edge_types, &graph.edge_types) {
            let here = meta.edge_types.iter().find(|edges| edges.full_name() == *name)?;
            let is_split = here.labels.as_ref().is_some_and(|labels| labels.split_sizes[1..] != [0; 2]);
            if is_split && has_other_splits(trained, &here.digests) {
                return Some(format!("edges of type {name}"));
            }
        }
        None
    }

    /// Returns true if the model was trained on other graphs of a set than those with these numbers.
    pub fn has_other_training_graphs(&self, train: &[u32]) -> bool {
        let trained = self.node_types.get(GRAPHS).and_then(|graphs| graphs.scored.as_ref());
        trained.is_some_and(|trained| *trained != digest_of_graphs(train))
    }

    /// Returns the edge types of a graph that a model for links predicts, with their edges in the training. Returns none if the
    /// file does not tell them.
    fn targets_in<'a>(&'a self, meta: &'a Meta) -> Vec<(&'a EdgeTypeMeta, &'a TargetEdges)> {
        // The only types of two graphs belong together whatever their names are.
        if let ([only], 1, Some(target)) = (&meta.edge_types[..], self.edge_types.len(), self.targets.values().next()) {
            return vec![(only, target)];
        }
        let mut found = Vec::new();
        for edges in &meta.edge_types {
            found.extend(self.targets.get(&edges.full_name()).map(|target| (edges, target)));
        }
        found
    }

    /// Returns the full names of the edge types of a graph that a model for links predicts. Returns none if the file does not
    /// tell them.
    pub fn target_names(&self, meta: &Meta) -> Vec<String> {
        self.targets_in(meta).into_iter().map(|(edges, _)| edges.full_name()).collect()
    }

    /// Returns true if a model for links was trained to score pairs of an edge type, or if the file does not tell it. A
    /// decoder that is not relational scores a pair equally for all edge types, so that a type between the same node types as
    /// a target is one too.
    pub fn is_trained_to_score(&self, meta: &Meta, edge_type: EdgeTypeId, is_relational: bool) -> bool {
        let edges = &meta.edge_types[edge_type.index()];
        let targets = self.targets_in(meta);
        let connects_same_types = |target: &EdgeTypeMeta| {
            let ends = [&target.src_type, &target.dst_type];
            ends == [&edges.src_type, &edges.dst_type] || ends == [&edges.dst_type, &edges.src_type]
        };
        self.targets.is_empty()
            || targets.iter().any(|(target, _)| {
                target.full_name() == edges.full_name() || (!is_relational && connects_same_types(target))
            })
    }

    /// Returns an edge type whose held-out edges in a graph were trained on, because the training held out none and the graph
    /// has no more edges of the type.
    pub fn trained_on_held_out(&self, meta: &Meta) -> Option<String> {
        let targets = self.targets_in(meta);
        let found = targets.into_iter().find(|(edges, trained)| {
            let here = TargetEdges::of(edges);
            trained.held_out == [0; 2] && here.held_out != [0; 2] && here.total() <= trained.total()
        });
        found.map(|(edges, _)| edges.full_name())
    }

    /// Returns an edge type whose edges in a graph, or the held-out edges among them, are not those of the training, so that
    /// held-out edges may be among the training edges.
    pub fn other_held_out(&self, meta: &Meta) -> Option<String> {
        let targets = self.targets_in(meta);
        let found = targets.into_iter().find(|(edges, trained)| TargetEdges::of(edges).differs_from(trained));
        found.map(|(edges, _)| edges.full_name())
    }

    /// Reads the description from the bytes of a model file; `None` if the file has none. `path` is the file for errors.
    ///
    /// # Errors
    /// [`ModelFileError::Format`] if the bytes are no safetensors file, [`ModelFileError::Config`] if the
    /// description cannot be parsed.
    pub fn of_file(bytes: &[u8], path: &Path) -> Result<Option<Self>, ModelFileError> {
        let (_, header) = SafeTensors::read_metadata(bytes)
            .map_err(|source| ModelFileError::Format { path: path.to_owned(), source })?;
        Self::of_metadata(header.metadata().as_ref(), path)
    }

    pub(super) fn of_metadata(
        metadata: Option<&HashMap<String, String>>,
        path: &Path,
    ) -> Result<Option<Self>, ModelFileError> {
        let text = metadata.and_then(|metadata| metadata.get(TRAINED_ON));
        let parsed = text.map(|text| serde_json::from_str(text)).transpose();
        parsed.map_err(|source| ModelFileError::Config { path: path.to_owned(), source })
    }

    /// Describes the first difference between the data of the training and a graph, and its remedy. Types whose
    /// description is missing on a side are not compared. Classes are compared if a model reads them.
    pub fn difference(&self, meta: &Meta, reads: ReadData) -> Option<String> {
        let graph = Self { classes_of_labels: classes_of_labels(meta), ..Self::new(meta) };
        let difference = self.other_transforms(&graph).or_else(|| self.other_classes(&graph, reads))?;
        Some(format!("{difference}: make the parts with partition-graph --transforms and the parts of the training"))
    }

    /// Describes the first type whose features have other transforms in the training than in other data.
    fn other_transforms(&self, data: &Self) -> Option<String> {
        let of_nodes = pairs(&self.node_types, &data.node_types).map(|(name, types)| ("node", name, types));
        let of_edges = pairs(&self.edge_types, &data.edge_types).map(|(name, types)| ("edge", name, types));
        for (kind, name, [trained, found]) in of_nodes.chain(of_edges) {
            if differ(&trained.transforms, &found.transforms) {
                return Some(format!(
                    "the features of {kind} type {name} have other transforms or columns than in its training"
                ));
            }
        }
        None
    }

    /// Describes the first classes that a model reads and that differ between the training and other data.
    pub fn other_classes(&self, data: &Self, reads: ReadData) -> Option<String> {
        let mut other = None;
        if reads.classes {
            for (name, [trained, found]) in pairs(&self.node_types, &data.node_types) {
                if differ(&trained.classes, &found.classes) {
                    let of_nodes = format!("node type {name}");
                    other.get_or_insert(if name == GRAPHS { "the graphs".to_owned() } else { of_nodes });
                }
            }
            for (name, trained) in &self.classes_of_labels {
                // The only label of a type may have no name here.
                let of_type = name.split_once(':').map_or(name.as_str(), |(of_type, _)| of_type);
                let found = data.classes_of_labels.get(name).or_else(|| data.classes_of_labels.get(of_type));
                if found.is_some_and(|found| found != trained) {
                    other.get_or_insert(format!("the target {name}"));
                }
            }
        }
        if reads.edge_classes {
            for (name, [trained, found]) in pairs(&self.edge_types, &data.edge_types) {
                if differ(&trained.classes, &found.classes) {
                    other.get_or_insert(format!("edge type {name}"));
                }
            }
        }
        other.map(|what| format!("the classes of {what} are not those of its training"))
    }

    /// Returns true if a type has other nodes than in the training: they have other ids, or the same ids in another
    /// order.
    pub(crate) fn has_other_nodes(&self, meta: &Meta, node_type: &str) -> bool {
        self.is_true_of(meta, node_type, |trained, found| differ(&trained.ids, &found.ids))
    }

    /// Returns true if the nodes of a type are known to have the same ids in their table as in the training, in the same
    /// order.
    pub(crate) fn has_same_nodes(&self, meta: &Meta, node_type: &str) -> bool {
        self.is_true_of(meta, node_type, |trained, found| trained.ids.is_some() && trained.ids == found.ids)
    }

    /// Returns true if the ids of the nodes of a type are row numbers, here and in the training, and the nodes have other
    /// features, labels, splits or times here. Nodes that updates have added after the nodes of the training do not count.
    pub(crate) fn has_other_content(&self, meta: &Meta, node_type: &str) -> bool {
        self.is_true_of(meta, node_type, |trained, found| {
            let (Some(trained), Some(found)) = (&trained.content, &found.content) else { return false };
            let is_earlier = meta.node_types.iter().any(|of_type| of_type.digests.earlier_contents.contains(trained));
            trained != found && !is_earlier
        })
    }

    /// Returns true if a node type exists in the training and in a graph, and the condition holds for it.
    fn is_true_of(
        &self,
        meta: &Meta,
        node_type: &str,
        condition: impl Fn(&TypeIdentity, &TypeIdentity) -> bool,
    ) -> bool {
        let graph = Self::new(meta);
        pairs(&self.node_types, &graph.node_types)
            .any(|(name, [trained, found])| name == node_type && condition(trained, found))
    }

    /// Returns true if the parts of a graph tell what a model file tells of its training.
    pub fn is_told_by(meta: &Meta) -> bool {
        let has_ids = meta.node_types.iter().all(|t| !t.has_id_map || t.digests.ids.is_some());
        has_ids && tells_tables(meta)
    }
}

impl TargetEdges {
    fn of(edges: &EdgeTypeMeta) -> Self {
        let content = edges.digests.content.clone();
        Self { training: edges.num_edges, held_out: edges.held_out, content }
    }

    fn total(&self) -> u64 {
        self.training + self.held_out[0] + self.held_out[1]
    }

    /// Returns true if the edges, or the held-out edges among them, are known to be others.
    fn differs_from(&self, other: &Self) -> bool {
        let has_other_content = self.content.is_some() && other.content.is_some() && self.content != other.content;
        has_other_content || (self.training, self.held_out) != (other.training, other.held_out)
    }
}

impl Columns {
    fn of(rows: &AttributeRows) -> Self {
        let names = rows.label_names().to_vec();
        Self { features: rows.dim() - names.len(), names }
    }

    /// Describes the first column of `owners` that is another one in the training than in `found`.
    fn difference(&self, found: &Self, owners: &str) -> Option<String> {
        if self.features != found.features {
            let features = self.features;
            return Some(format!("{owners} had {features} features in its training, and have {}", found.features));
        }
        let most = self.names.len().max(found.names.len());
        let at = (0..most).find(|&at| self.names.get(at) != found.names.get(at))?;
        let column = self.features + at;
        let trained = self.name(at);
        Some(format!("column {column} of {owners} was {trained:?} in its training, and is {:?}", found.name(at)))
    }

    fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("missing", String::as_str)
    }
}

/// Returns the digest of the numbers of graphs, whatever their order.
fn digest_of_graphs(graphs: &[u32]) -> String {
    let mut sorted = graphs.to_vec();
    sorted.sort_unstable();
    checksum(format!("{sorted:?}").as_bytes())
}

/// Returns true if both sides are known and different. Rows that updates have added make no difference.
fn has_other_splits(trained: &TypeIdentity, found: &TypeDigests) -> bool {
    let (Some(trained), Some(content)) = (&trained.scored, &found.content) else { return false };
    trained != content && !found.earlier_contents.contains(trained)
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

/// Returns true if both sides are known and different.
fn differ(one: &Option<Fingerprint>, other: &Option<Fingerprint>) -> bool {
    one.is_some() && other.is_some() && one != other
}

/// Returns the types of the training with a graph's types, by name. The only types of two graphs belong together whatever
/// their names are.
fn pairs<'a>(
    trained: &'a BTreeMap<String, TypeIdentity>,
    graph: &'a BTreeMap<String, TypeIdentity>,
) -> impl Iterator<Item = (&'a String, [&'a TypeIdentity; 2])> {
    let is_only = trained.len() == 1 && graph.len() == 1;
    graph.iter().filter_map(move |(name, found)| {
        let of_training = if is_only { trained.values().next() } else { trained.get(name) };
        Some((name, [of_training?, found]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::part_writer::write_one_part;
    use edgecut_graph::readers::{FakeOptions, fake};

    const NOTHING: ReadData = ReadData { classes: false, edge_classes: false, edge_features: false };
    const CLASSES: ReadData = ReadData { classes: true, edge_classes: true, edge_features: false };

    /// Returns what describes a small graph.
    fn fake_meta() -> Meta {
        let dir = tempfile::tempdir().expect("a folder");
        let options = FakeOptions { avg_num_nodes: 50, ..FakeOptions::default() };
        write_one_part(fake(&options).expect("a graph"), dir.path()).expect("a part");
        Meta::read(dir.path()).expect("META.json")
    }

    #[test]
    fn only_what_both_sides_know_is_compared() {
        let arrays = fake_meta();
        let table = |digest: Option<&str>| {
            let mut meta = arrays.clone();
            meta.has_transforms = true;
            let of_type = &mut meta.node_types[0];
            of_type.has_id_map = true;
            let digest = digest.map(str::to_owned);
            of_type.digests.ids = digest.clone();
            of_type.digests.transforms = digest.clone();
            of_type.digests.classes = digest;
            if of_type.digests.ids.is_none() {
                of_type.digests.content = None;
                meta.edge_types.iter_mut().for_each(|edges| edges.digests = TypeDigests::default());
            }
            meta
        };
        let name = &arrays.node_types[0].name;
        let [one, other, old] = [table(Some("1")), table(Some("2")), table(None)];
        for (trained, found, is_other) in [
            (&one, &one, false),
            (&one, &other, true),
            (&one, &arrays, true),
            (&arrays, &one, true),
            (&arrays, &arrays, false),
            (&old, &one, false),
            (&one, &old, false),
            (&old, &arrays, false),
        ] {
            let trained = TrainedOn::new(trained);
            let text = serde_json::to_string(&trained).expect("JSON");
            assert_eq!(serde_json::from_str::<TrainedOn>(&text).expect("a description"), trained);
            assert_eq!(trained.difference(found, CLASSES).is_some(), is_other, "{text}");
            assert_eq!(trained.has_other_nodes(found, name), is_other, "{text}");
        }
        assert!(TrainedOn::is_told_by(&one) && TrainedOn::is_told_by(&arrays) && !TrainedOn::is_told_by(&old));
        // Tables of ids alone have no other digest, and are not of an earlier version.
        let mut ids_alone = one.clone();
        ids_alone.node_types[0].digests.transforms = None;
        ids_alone.node_types[0].digests.classes = None;
        assert!(TrainedOn::is_told_by(&ids_alone));
        // Classes of nodes do not matter to models for links and edges.
        let mut relabeled = one.clone();
        relabeled.node_types[0].digests.classes = Some("2".into());
        let trained = TrainedOn::new(&one);
        assert_eq!(trained.difference(&relabeled, ReadData { edge_classes: true, ..NOTHING }), None);
        assert!(trained.difference(&relabeled, CLASSES).is_some_and(|what| what.contains("classes")));
    }

    #[test]
    fn held_out_edges_of_a_graph_are_compared_with_the_edges_of_the_training() {
        let all = fake_meta();
        let mut split = all.clone();
        split.edge_types[0].num_edges -= 20;
        split.edge_types[0].held_out = [10, 10];
        let mut grown = split.clone();
        grown.edge_types[0].num_edges += 20;
        let mut other_split = split.clone();
        other_split.edge_types[0].digests.content = Some("other".into());
        let target = EdgeTypeId(0);
        let trained = |meta: &Meta| TrainedOn::new(meta).with_targets(meta, &[target]);
        let name = all.edge_types[0].full_name();
        let text = serde_json::to_string(&trained(&all)).expect("JSON");
        assert_eq!(serde_json::from_str::<TrainedOn>(&text).expect("a description"), trained(&all));
        assert_eq!(trained(&all).trained_on_held_out(&split), Some(name.clone()));
        // The edges that were added since the training may be the held-out ones.
        assert_eq!(trained(&all).trained_on_held_out(&grown), None);
        assert_eq!(trained(&all).other_held_out(&grown), Some(name.clone()));
        assert_eq!(trained(&split).trained_on_held_out(&split), None);
        assert_eq!(trained(&split).other_held_out(&split), None);
        assert_eq!(trained(&split).other_held_out(&other_split), Some(name.clone()));
        assert_eq!(trained(&split).target_names(&split), [name]);
        // A file of an earlier version tells nothing.
        let old = TrainedOn::new(&all);
        assert_eq!((old.trained_on_held_out(&split), old.other_held_out(&split)), (None, None));
        assert!(old.is_trained_to_score(&all, target, true));
    }

    #[test]
    fn rows_that_updates_have_added_are_no_other_content() {
        let before = fake_meta();
        let name = &before.node_types[0].name;
        let trained = TrainedOn::new(&before);
        assert!(!trained.has_other_content(&before, name));
        let mut after = before.clone();
        let first = after.node_types[0].digests.content.replace("1".into()).expect("a digest");
        assert!(trained.has_other_content(&after, name));
        after.node_types[0].digests.earlier_contents = vec!["2".into(), first];
        assert!(!trained.has_other_content(&after, name));
    }

    #[test]
    fn other_splits_of_predicted_labels_are_known() {
        let before = fake_meta();
        let name = &before.node_types[0].name;
        let trained = TrainedOn::new(&before).with_scored_nodes(&before, NodeTypeId(0));
        let text = serde_json::to_string(&trained).expect("JSON");
        assert_eq!(serde_json::from_str::<TrainedOn>(&text).expect("a description"), trained);
        assert_eq!(trained.other_splits(&before), None);
        // Tables with ids have a digest too.
        let mut after = before.clone();
        after.node_types[0].has_id_map = true;
        let first = after.node_types[0].digests.content.replace("1".into()).expect("a digest");
        assert_eq!(trained.other_splits(&after), Some(format!("nodes of type {name}")));
        assert_eq!(TrainedOn::new(&before).other_splits(&after), None, "a file of an earlier version");
        after.node_types[0].split_sizes = [9, 0, 0];
        assert_eq!(trained.other_splits(&after), None, "there is nothing to evaluate");
        after.node_types[0].split_sizes = [9, 9, 9];
        after.node_types[0].digests.earlier_contents = vec![first];
        assert_eq!(trained.other_splits(&after), None, "an update has added nodes");
        let graphs = TrainedOn::of_graphs(&labeled([3, 5, 5, 8]));
        assert!(!graphs.has_other_training_graphs(&[1]), "a file of an earlier version");
        let graphs = graphs.with_training_graphs(&[4, 1]);
        assert!(!graphs.has_other_training_graphs(&[1, 4]) && graphs.has_other_training_graphs(&[1, 3]));
    }

    /// Returns two graphs of two nodes each, which have these labels.
    fn labeled(labels: [i64; 4]) -> GraphDataset {
        graphs_of(labels, [1, 2, 1, 2])
    }

    /// Returns two graphs of two nodes and two edges each, which have these labels.
    fn graphs_of(labels: [i64; 4], edge_labels: [i64; 4]) -> GraphDataset {
        let dir = tempfile::tempdir().expect("a folder");
        let lines = |values: &[i64]| values.iter().map(|value| format!("{value}\n")).collect::<String>();
        for (what, text) in [
            ("A", "1, 2\n2, 1\n3, 4\n4, 3\n".to_owned()),
            ("graph_indicator", lines(&[1, 1, 2, 2])),
            ("graph_labels", lines(&[1, 2])),
            ("node_labels", lines(&labels)),
            ("edge_labels", lines(&edge_labels)),
        ] {
            std::fs::write(dir.path().join(format!("SET_{what}.txt")), text).expect("a file");
        }
        edgecut_graph::small_graphs::read_tu("SET", dir.path()).expect("graphs")
    }

    #[test]
    fn columns_of_graphs_must_mean_what_they_meant_in_the_training() {
        let graphs = labeled([3, 5, 5, 8]);
        let trained = TrainedOn::of_graphs(&graphs);
        let text = serde_json::to_string(&trained).expect("JSON");
        let trained: TrainedOn = serde_json::from_str(&text).expect("a description");
        assert_eq!(trained.difference_of_graphs(&graphs, CLASSES), None);
        assert_eq!(trained.difference_of_graphs(&labeled([8, 3, 3, 5]), CLASSES), None);
        // As many labels, but another one.
        let what = trained.difference_of_graphs(&labeled([3, 5, 5, 6]), CLASSES).expect("another label");
        assert!(what.starts_with("column 2 of nodes was \"label 8\" in its training, and is \"label 6\""), "{what}");
        let what = trained.difference_of_graphs(&labeled([3, 5, 5, 5]), NOTHING).expect("no such label");
        assert!(what.contains("\"label 8\" in its training, and is \"missing\""), "{what}");
        let what =
            trained.difference_of_graphs(&labeled([3, 5, 5, 8]).with_degrees_as_labels(), CLASSES).expect("degrees");
        assert!(what.contains("was \"label 3\" in its training, and is \"in-degree 1\""), "{what}");
        // Labels of edges matter to models that read them.
        let bonds = graphs_of([3, 5, 5, 8], [1, 4, 1, 4]);
        let reads = ReadData { edge_features: true, ..CLASSES };
        assert_eq!(trained.difference_of_graphs(&graphs, reads), None);
        assert_eq!(trained.difference_of_graphs(&bonds, CLASSES), None);
        let what = trained.difference_of_graphs(&bonds, reads).expect("another label of edges");
        assert!(what.contains("column 1 of edges was \"label 2\" in its training, and is \"label 4\""), "{what}");
        // A file of an earlier version tells the classes alone.
        let old = TrainedOn { graph_columns: None, ..trained };
        assert_eq!(old.difference_of_graphs(&labeled([3, 5, 5, 6]), CLASSES), None);
    }
}
