//! A whole graph in memory, with original ids.

use crate::scan::first_position;
use crate::{Buffer, EdgeTypeId, Features, GraphError, NodeTypeId};
use rayon::prelude::*;

/// A graph as a reader or a generator gives it: node types, edge types, original ids `0..num_nodes` per type.
///
/// Self loops, duplicate edges, isolated nodes, missing features and missing labels are all legal. Self loops and
/// duplicates are kept as they are: each is an edge of its own.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// The name under which parts are stored.
    pub name: String,
    /// Node types; at least one.
    pub node_types: Vec<NodeData>,
    /// Edge types.
    pub edge_types: Vec<EdgeData>,
}

/// The nodes of one type.
#[derive(Clone, Debug)]
pub struct NodeData {
    /// The type's name.
    pub name: String,
    /// The number of nodes.
    pub num_nodes: usize,
    /// Features `[num_nodes, dim]`, if the type has any.
    pub features: Option<Features>,
    /// A class per node, -1 where unlabelled, if the type has labels.
    pub labels: Option<Buffer<i64>>,
    /// The number of classes: one more than the largest label, 0 without labels.
    pub num_classes: usize,
    /// Training, validation and test nodes.
    pub splits: Splits,
    /// When each node came to be, in any unit, if the type has times.
    pub times: Option<Buffer<i64>>,
}

/// The edges of one type, each from a source to a destination.
#[derive(Clone, Debug)]
pub struct EdgeData {
    /// The type of the sources.
    pub src_type: NodeTypeId,
    /// The relation's name.
    pub relation: String,
    /// The type of the destinations.
    pub dst_type: NodeTypeId,
    /// The source of every edge, an original id.
    pub src: Buffer<u32>,
    /// The destination of every edge, an original id.
    pub dst: Buffer<u32>,
    /// What edges carry besides their ends, in their order.
    pub attributes: EdgeAttributes,
    /// Edges that are not among those above.
    pub held_out: HeldOutEdges,
}

/// What edges carry besides their ends, a row an edge.
#[derive(Clone, Debug, Default)]
pub struct EdgeAttributes {
    /// Features `[num_edges, dim]`.
    pub features: Option<Features>,
    /// How likely an edge is to be drawn against the others into its destination; finite, not negative.
    pub weights: Option<Buffer<f32>>,
    /// When each edge came to be, in any unit.
    pub times: Option<Buffer<i64>>,
}

/// Edges that link prediction is judged by: no message flows over them. The ids are of the id space that the edges beside
/// them have.
#[derive(Clone, Debug, Default)]
pub struct HeldOutEdges {
    /// Edges that choose the epoch.
    pub valid: EdgeList,
    /// Edges that are looked at once, at the end.
    pub test: EdgeList,
}

/// Edges as their two ends.
#[derive(Clone, Debug, Default)]
pub struct EdgeList {
    /// Sources.
    pub src: Buffer<u32>,
    /// Destinations, as many.
    pub dst: Buffer<u32>,
}

impl EdgeData {
    /// Edges without attributes.
    pub fn new(
        src_type: NodeTypeId,
        relation: impl Into<String>,
        dst_type: NodeTypeId,
        src: Buffer<u32>,
        dst: Buffer<u32>,
    ) -> Self {
        let (attributes, held_out) = Default::default();
        Self { src_type, relation: relation.into(), dst_type, src, dst, attributes, held_out }
    }
}

/// One of the three standard node sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Nodes whose labels train the model.
    Train,
    /// Nodes that choose the epoch.
    Valid,
    /// Nodes that are looked at once, at the end.
    Test,
}

impl Split {
    /// All three, in the usual order.
    pub const ALL: [Split; 3] = [Split::Train, Split::Valid, Split::Test];

    /// `train`, `valid` or `test`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Valid => "valid",
            Self::Test => "test",
        }
    }
}

/// Node ids of the three splits, each ascending and without duplicates. Which id space they are in is said where a
/// `Splits` is held.
#[derive(Clone, Debug, Default)]
pub struct Splits {
    /// Training nodes.
    pub train: Buffer<u32>,
    /// Validation nodes.
    pub valid: Buffer<u32>,
    /// Test nodes.
    pub test: Buffer<u32>,
}

impl Splits {
    /// The ids of one split.
    pub fn get(&self, split: Split) -> &Buffer<u32> {
        match split {
            Split::Train => &self.train,
            Split::Valid => &self.valid,
            Split::Test => &self.test,
        }
    }

    /// Replaces one split.
    pub fn set(&mut self, split: Split, ids: Buffer<u32>) {
        match split {
            Split::Train => self.train = ids,
            Split::Valid => self.valid = ids,
            Split::Test => self.test = ids,
        }
    }
}

impl Dataset {
    /// A homogeneous graph: one node type and one edge type.
    pub fn homogeneous(name: &str, nodes: NodeData, src: Buffer<u32>, dst: Buffer<u32>) -> Self {
        let edges = EdgeData::new(NodeTypeId(0), crate::DEFAULT_RELATION, NodeTypeId(0), src, dst);
        Self { name: name.into(), node_types: vec![nodes], edge_types: vec![edges] }
    }

    /// The nodes of one type.
    pub fn nodes(&self, node_type: NodeTypeId) -> &NodeData {
        &self.node_types[node_type.index()]
    }

    /// The edges of one type.
    pub fn edges(&self, edge_type: EdgeTypeId) -> &EdgeData {
        &self.edge_types[edge_type.index()]
    }

    /// The number of edges over all types.
    pub fn num_edges(&self) -> usize {
        self.edge_types.iter().map(|e| e.src.len()).sum()
    }

    /// Adds the reverse of every edge of a type that joins a node type to itself, except where the reverse is there
    /// already; duplicates collapse to one edge. What results is symmetric and sorted by (source, destination);
    /// self loops stay single.
    pub fn to_undirected(&mut self) {
        for edges in self.edge_types.iter_mut().filter(|e| e.src_type == e.dst_type) {
            let pack = |(&a, &b): (&u32, &u32)| u64::from(a) << 32 | u64::from(b);
            let mut keys: Vec<u64> = Vec::with_capacity(2 * edges.src.len());
            keys.par_extend(edges.src.par_iter().zip(&edges.dst[..]).map(pack));
            keys.par_extend(edges.dst.par_iter().zip(&edges.src[..]).map(pack));
            keys.par_sort_unstable();
            keys.dedup();
            edges.src = keys.par_iter().map(|k| (k >> 32) as u32).collect::<Vec<_>>().into();
            edges.dst = keys.par_iter().map(|k| *k as u32).collect::<Vec<_>>().into();
        }
    }

    /// Adds to each edge type, `writes` from authors to papers, another one in the other direction, `rev_writes` from
    /// papers to authors, so that messages flow both ways and a model tells them apart. A type that joins a node type to
    /// itself gets one as well; one whose reverse of that name is there already does not.
    pub fn add_reverse_edges(&mut self) {
        let known: Vec<(NodeTypeId, String, NodeTypeId)> =
            self.edge_types.iter().map(|e| (e.src_type, e.relation.clone(), e.dst_type)).collect();
        for (edges, (src_type, relation, dst_type)) in self.edge_types.clone().into_iter().zip(&known) {
            let reverse = (*dst_type, format!("rev_{relation}"), *src_type);
            let is_reverse = relation.strip_prefix("rev_").is_some_and(|forward| {
                known.iter().any(|(src, name, dst)| (src, name.as_str(), dst) == (dst_type, forward, src_type))
            });
            if !is_reverse && !known.contains(&reverse) {
                let (src, dst) = (edges.dst, edges.src);
                self.edge_types.push(EdgeData::new(reverse.0, reverse.1, reverse.2, src, dst));
            }
        }
    }

    /// Checks that ids are in range, arrays have the right length, features are finite, and split nodes are labelled.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] names the type, the row and the value. Readers that know the file and line of a bad
    /// value report it themselves; this check is for what is made in memory.
    pub fn validate(&self) -> Result<(), GraphError> {
        self.check(true)
    }

    /// [`Dataset::validate`] without a look at the values of features, by far the largest array of many graphs.
    ///
    /// # Errors
    /// Those of [`Dataset::validate`].
    pub fn validate_structure(&self) -> Result<(), GraphError> {
        self.check(false)
    }

    fn check(&self, feature_values: bool) -> Result<(), GraphError> {
        let fail = |why: String| Err(GraphError::Dataset { dataset: self.name.clone(), why });
        if self.node_types.is_empty() || self.node_types.iter().all(|t| t.num_nodes == 0) {
            return fail("it has no nodes".into());
        }
        for nodes in &self.node_types {
            if let Err(why) = nodes.check(feature_values) {
                return fail(format!("node type {}: {why}", nodes.name));
            }
        }
        for edges in &self.edge_types {
            if edges.src.len() != edges.dst.len() {
                return fail(format!(
                    "edge type {} has {} sources but {} destinations",
                    edges.relation,
                    edges.src.len(),
                    edges.dst.len()
                ));
            }
            for (ids, node_type, end) in
                [(&edges.src, edges.src_type, "source"), (&edges.dst, edges.dst_type, "destination")]
            {
                let Some(nodes) = self.node_types.get(node_type.index()) else {
                    return fail(format!("edge type {} joins a node type that is not there", edges.relation));
                };
                if let Some(edge) = first_position(ids, |id| id as usize >= nodes.num_nodes) {
                    return fail(format!(
                        "the {end} of edge {edge} is node {}, but there are {} nodes of type {}",
                        ids[edge], nodes.num_nodes, nodes.name
                    ));
                }
            }
        }
        Ok(())
    }
}

impl NodeData {
    fn check(&self, feature_values: bool) -> Result<(), String> {
        if self.num_nodes > u32::MAX as usize {
            return Err(format!("{} nodes are more than 2^32 - 1", self.num_nodes));
        }
        if let Some(features) = &self.features {
            if features.num_rows() != self.num_nodes {
                return Err(format!("{} feature rows for {} nodes", features.num_rows(), self.num_nodes));
            }
            if feature_values && let Some((row, column)) = features.first_not_finite() {
                return Err(format!("feature {column} of node {row} is NaN or infinite"));
            }
        }
        if let Some(labels) = &self.labels {
            if labels.len() != self.num_nodes {
                return Err(format!("{} labels for {} nodes", labels.len(), self.num_nodes));
            }
            if let Some(node) = first_position(labels, |l| l < -1 || l >= self.num_classes as i64) {
                return Err(format!("node {node} has label {}, outside -1..{}", labels[node], self.num_classes));
            }
        }
        for split in Split::ALL {
            let (ids, name) = (self.splits.get(split), split.name());
            if let Some(at) = ids.windows(2).position(|w| w[0] >= w[1]) {
                return Err(format!("the {name} split is not ascending at entry {}", at + 1));
            }
            if let Some(last) = ids.last().filter(|&&last| last as usize >= self.num_nodes) {
                return Err(format!("the {name} split has node {last}, but there are {} nodes", self.num_nodes));
            }
            if let Some(labels) = &self.labels
                && let Some(node) = ids.iter().find(|&&id| labels[id as usize] < 0)
            {
                return Err(format!("the {name} split has node {node}, which has no label"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn nodes(num_nodes: usize) -> NodeData {
        NodeData {
            name: crate::DEFAULT_NODE_TYPE.into(),
            num_nodes,
            features: None,
            labels: None,
            num_classes: 0,
            splits: Splits::default(),
            times: None,
        }
    }

    fn graph(nodes: NodeData, edges: &[(u32, u32)]) -> Dataset {
        let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
        Dataset::homogeneous("test", nodes, src.into(), dst.into())
    }

    fn pairs(dataset: &Dataset) -> Vec<(u32, u32)> {
        let edges = dataset.edges(EdgeTypeId(0));
        edges.src.iter().copied().zip(edges.dst.iter().copied()).collect()
    }

    proptest! {
        #[test]
        fn undirected_is_the_sorted_set_of_both_directions(edges in prop::collection::vec((0..12_u32, 0..12_u32), 0..60)) {
            let mut dataset = graph(nodes(12), &edges);
            dataset.to_undirected();
            let expected: BTreeSet<(u32, u32)> = edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
            prop_assert_eq!(pairs(&dataset), expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn edges_between_two_node_types_keep_their_direction() {
        let mut dataset = graph(nodes(3), &[(2, 0), (0, 1)]);
        dataset.node_types.push(nodes(3));
        dataset.edge_types[0].dst_type = NodeTypeId(1);
        dataset.to_undirected();
        assert_eq!(pairs(&dataset), [(2, 0), (0, 1)]);
    }

    #[test]
    fn loops_duplicates_and_isolated_nodes_are_legal() {
        let dataset = graph(nodes(5), &[(1, 1), (0, 1), (0, 1)]);
        dataset.validate().unwrap();
        assert_eq!(dataset.num_edges(), 3);
    }

    #[test]
    fn the_structure_is_checked_without_the_values_of_features() {
        let featured = |rows: usize| {
            let features = Some(Features::F32 { values: vec![f32::NAN; 2 * rows].into(), dim: 2 });
            NodeData { features, ..nodes(3) }
        };
        graph(featured(3), &[(0, 1)]).validate_structure().unwrap();
        assert!(graph(featured(3), &[(0, 1)]).validate().is_err());
        let error = graph(featured(2), &[]).validate_structure().unwrap_err().to_string();
        assert!(error.contains("2 feature rows for 3 nodes"), "{error}");
        assert!(graph(featured(3), &[(0, 3)]).validate_structure().is_err());
    }

    #[test]
    fn validate_names_what_is_wrong() {
        let labelled = |labels: &[i64]| NodeData { labels: Some(labels.to_vec().into()), num_classes: 2, ..nodes(3) };
        let featured = |values: &[f32]| {
            let features = Some(Features::F32 { values: values.to_vec().into(), dim: 2 });
            NodeData { features, ..nodes(3) }
        };
        let split = |ids: &[u32], of: NodeData| {
            let mut of = of;
            of.splits.set(Split::Valid, ids.to_vec().into());
            of
        };
        let cases = [
            (graph(nodes(0), &[]), "no nodes"),
            (graph(nodes(3), &[(0, 1), (3, 1)]), "the source of edge 1 is node 3, but there are 3 nodes of type node"),
            (graph(nodes(3), &[(0, 7)]), "the destination of edge 0 is node 7"),
            (graph(featured(&[0.0; 4]), &[]), "2 feature rows for 3 nodes"),
            (graph(featured(&[0.0, 0.0, 0.0, f32::NAN, 0.0, 0.0]), &[]), "feature 1 of node 1 is NaN or infinite"),
            (graph(labelled(&[0, 1]), &[]), "2 labels for 3 nodes"),
            (graph(labelled(&[0, 1, 2]), &[]), "node 2 has label 2, outside -1..2"),
            (graph(labelled(&[0, -2, 1]), &[]), "node 1 has label -2"),
            (graph(split(&[1, 1], nodes(3)), &[]), "the valid split is not ascending at entry 1"),
            (graph(split(&[1, 3], nodes(3)), &[]), "the valid split has node 3"),
            (graph(split(&[0, 1], labelled(&[0, -1, 1])), &[]), "the valid split has node 1, which has no label"),
        ];
        for (dataset, why) in cases {
            let error = dataset.validate().unwrap_err().to_string();
            assert!(error.starts_with("dataset test: ") && error.contains(why), "{error}, expected {why}");
        }
        let mut uneven = graph(nodes(3), &[(0, 1)]);
        uneven.edge_types[0].dst = vec![1, 2].into();
        assert!(uneven.validate().unwrap_err().to_string().contains("1 sources but 2 destinations"));
        let mut untyped = graph(nodes(3), &[(0, 1)]);
        untyped.edge_types[0].src_type = NodeTypeId(4);
        assert!(untyped.validate().unwrap_err().to_string().contains("a node type that is not there"));
    }
}
