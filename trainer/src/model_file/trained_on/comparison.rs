//! The comparison of the data of a training with other data.

use super::{
    Columns, Fingerprint, GRAPHS, ReadData, TargetEdges, TrainedOn, TypeIdentity, classes_of_labels, digest_of_graphs,
};
use edgecut_graph::{EdgeTypeId, EdgeTypeMeta, GraphDataset, Meta, TypeDigests};
use std::collections::{BTreeMap, BTreeSet};

/// Arrays that hold the same data in another order.
const ORDER: &str = "order";
/// Data by which examples are chosen or known: if it differs, other examples may be training data.
const CHOICES: [&str; 4] = ["splits", "ids", "ends", "graphs"];

/// A difference for which a model does not fit the data.
pub(super) enum Difference {
    /// Other transforms of the features of a `kind` of type.
    Transforms { kind: &'static str, name: String },
    /// Other classes of a type, a target, or the graphs.
    Classes { of: String },
    /// Another number of features of nodes or edges.
    NumFeatures { owners: &'static str, trained: usize, found: usize },
    /// Another meaning of a column of nodes or edges.
    Column { owners: &'static str, column: usize, trained: Option<String>, found: Option<String> },
}

/// Data with labels that is not the data that a model was trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherData {
    /// The owners of the data, with the verb.
    pub(super) owners: String,
    /// The kinds of data that differ, such as `features` and `splits`; empty if it is not known.
    pub(super) kinds: BTreeSet<String>,
    /// True if the splits are known to be the same.
    pub(super) has_same_splits: bool,
}

impl OtherData {
    /// Returns true if validation and test data may be among the training data of the model.
    pub fn may_be_training_data(&self) -> bool {
        self.kinds.is_empty() || CHOICES.iter().any(|kind| self.kinds.contains(*kind))
    }

    /// Returns true if the data is the same, but divided otherwise.
    pub fn is_other_split(&self) -> bool {
        self.kinds.iter().eq(["splits"])
    }
}

impl TrainedOn {
    /// Describes the first difference between the data of the training and a graph, and its remedy. Types whose
    /// description is missing on a side are not compared. Classes are compared if a model reads them.
    pub fn difference(&self, meta: &Meta, reads: ReadData) -> Option<String> {
        let graph = Self { classes_of_labels: classes_of_labels(meta), ..Self::new(meta) };
        let difference = self.other_transforms(&graph).or_else(|| self.first_other_classes(&graph, reads))?;
        Some(format!("{difference}: make the parts with partition-graph --transforms and the parts of the training"))
    }

    /// Describes the first difference between the training and a set of graphs in the data that a model reads, if there is
    /// one, and its remedy.
    pub fn difference_of_graphs(&self, graphs: &GraphDataset, reads: ReadData) -> Option<String> {
        let found = Self::columns_of_graphs(graphs);
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
        let difference = self.first_other_classes(&found, reads)?;
        Some(format!("{difference}: train a model for these graphs"))
    }

    /// Describes the first classes that a model reads and that differ between the training and other data.
    pub fn other_classes(&self, data: &Self, reads: ReadData) -> Option<String> {
        self.first_other_classes(data, reads).map(|difference| difference.to_string())
    }

    /// Returns the first nodes or edges of a graph that the model predicts and that are not as in the training. Nodes that
    /// updates have added after the nodes of the training do not count.
    pub fn other_data(&self, meta: &Meta) -> Option<OtherData> {
        let graph = Self::new(meta);
        for (name, [trained, found]) in pairs(&self.node_types, &graph.node_types) {
            let here = meta.node_types.iter().find(|nodes| nodes.name == *name)?;
            let is_split = here.labels().iter().any(|label| label.split_sizes[1..] != [0; 2]);
            if is_split && let Some(other) = other_data_of_type(trained, found, &here.digests) {
                return Some(OtherData { owners: format!("the nodes of type {name} have"), ..other });
            }
        }
        for (name, [trained, found]) in pairs(&self.edge_types, &graph.edge_types) {
            let here = meta.edge_types.iter().find(|edges| edges.full_name() == *name)?;
            let is_split = here.labels.as_ref().is_some_and(|labels| labels.split_sizes[1..] != [0; 2]);
            if is_split && let Some(other) = other_data_of_type(trained, found, &here.digests) {
                return Some(OtherData { owners: format!("the edges of type {name} have"), ..other });
            }
        }
        None
    }

    /// Returns what is not as in the training in a set of graphs, and in the numbers of its training graphs if these are
    /// given.
    pub fn other_graphs(&self, graphs: &GraphDataset, train: Option<&[u32]>) -> Option<OtherData> {
        let trained = self.node_types.get(GRAPHS)?;
        let mut kinds = BTreeSet::new();
        // Files of earlier versions tell the training graphs alone.
        if !trained.arrays.is_empty() {
            kinds = other_kinds(&trained.arrays, &graphs.array_digests());
        }
        let mut has_same_splits = false;
        if let (Some(scored), Some(train)) = (&trained.scored, train) {
            has_same_splits = *scored == digest_of_graphs(train);
            if !has_same_splits {
                kinds.insert("splits".to_owned());
            }
        }
        let owners = "the set of graphs has".to_owned();
        (!kinds.is_empty()).then_some(OtherData { owners, kinds, has_same_splits })
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

    /// Returns an edge type whose edges in a graph, or the held-out edges among them, differ from the edges of the training, so that
    /// held-out edges may be among the training edges.
    pub fn other_held_out(&self, meta: &Meta) -> Option<String> {
        let targets = self.targets_in(meta);
        let found = targets.into_iter().find(|(edges, trained)| TargetEdges::of(edges).differs_from(trained));
        found.map(|(edges, _)| edges.full_name())
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

    /// Returns the first type whose features have other transforms in the training than in other data.
    fn other_transforms(&self, data: &Self) -> Option<Difference> {
        let of_nodes = pairs(&self.node_types, &data.node_types).map(|(name, types)| ("node", name, types));
        let of_edges = pairs(&self.edge_types, &data.edge_types).map(|(name, types)| ("edge", name, types));
        for (kind, name, [trained, found]) in of_nodes.chain(of_edges) {
            if differ(&trained.transforms, &found.transforms) {
                return Some(Difference::Transforms { kind, name: name.clone() });
            }
        }
        None
    }

    /// Returns the first classes that a model reads and that differ between the training and other data.
    fn first_other_classes(&self, data: &Self, reads: ReadData) -> Option<Difference> {
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
        other.map(|of| Difference::Classes { of })
    }
}

impl TargetEdges {
    fn total(&self) -> u64 {
        self.training + self.held_out[0] + self.held_out[1]
    }

    /// Returns true if the edges, or the held-out edges among them, are known to be others.
    fn differs_from(&self, other: &Self) -> bool {
        let has_other_content = if self.arrays.is_empty() || other.arrays.is_empty() {
            // Features count too if one of the sides is of an earlier version.
            self.content.is_some() && other.content.is_some() && self.content != other.content
        } else {
            self.arrays != other.arrays
        };
        has_other_content || (self.training, self.held_out) != (other.training, other.held_out)
    }
}

impl Columns {
    /// Returns the first column of `owners` that is another one in the training than in `found`.
    fn difference(&self, found: &Self, owners: &'static str) -> Option<Difference> {
        if self.features != found.features {
            return Some(Difference::NumFeatures { owners, trained: self.features, found: found.features });
        }
        let most = self.names.len().max(found.names.len());
        let at = (0..most).find(|&at| self.names.get(at) != found.names.get(at))?;
        Some(Difference::Column {
            owners,
            column: self.features + at,
            trained: self.names.get(at).cloned(),
            found: found.names.get(at).cloned(),
        })
    }
}

/// Returns what differs in a type between the training and a graph with these digests, if both sides are known and different.
/// Rows that updates have added make no difference.
fn other_data_of_type(trained: &TypeIdentity, found: &TypeIdentity, here: &TypeDigests) -> Option<OtherData> {
    let (Some(scored), Some(content)) = (&trained.scored, &here.content) else { return None };
    if scored == content || here.earlier_contents.contains(scored) {
        return None;
    }
    let mut kinds = BTreeSet::new();
    let is_told = !trained.arrays.is_empty() && !here.arrays.is_empty();
    if is_told {
        kinds = other_kinds(&trained.arrays, &here.arrays);
        if kinds.is_empty() {
            return None;
        }
        if differ(&trained.ids, &found.ids) {
            kinds.insert("ids".to_owned());
        }
    }
    let has_same_splits = is_told && !kinds.contains("splits");
    Some(OtherData { owners: String::new(), kinds, has_same_splits })
}

/// Returns the kinds of arrays whose digests differ, or that one side lacks. Their order does not count.
fn other_kinds(trained: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut kinds: BTreeSet<String> = trained.keys().chain(found.keys()).cloned().collect();
    kinds.retain(|kind| kind != ORDER && trained.get(kind) != found.get(kind));
    kinds
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
