//! Changes of a graph as tables describe them, and the changes of parts that follow.

use crate::PartitionError;
use edgecut_graph::{
    Dataset, EdgeTypeId, EdgeUpdate, Features, GraphError, GraphUpdate, HoldOut, HoldOutChoice, KeptDuplicate,
    KnownPairs, Meta, NodeKeys, NodeUpdate, Part, Workspace, known_pairs, reverse_relation,
};

/// Changes of a graph, before the options of its parts are applied.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The changed and new nodes, and the new edges. Node types are those of the parts, in their order; edge types are any of the parts.
    /// The ends of edges are numbers of nodes after the update.
    pub rows: Dataset,
    /// The number after the update of the node of each row, by node type; see [`NodeUpdate::numbers`].
    pub numbers: Vec<Vec<u32>>,
    /// True for each node that is removed, by node type and original id.
    pub removed_nodes: Vec<Vec<bool>>,
    /// The removed edges.
    pub removed_edges: Vec<RemovedPairs>,
    /// Positions of edge types of `rows`, each with the rule that holds out some of its edges, beside the rule of the parts
    /// for all types. [`HoldOut::NOTHING`] only keeps pairs of nodes that the parts have in their lists.
    pub held_out: Vec<(usize, HoldOut)>,
}

/// Removed edges of a type.
#[derive(Clone, Debug)]
pub struct RemovedPairs {
    /// The names of the source type, the relation and the destination type.
    pub edge_type: [String; 3],
    /// The original ids of both ends before the update. All edges between the two nodes are removed.
    pub pairs: Vec<[u32; 2]>,
}

/// The changes of parts, and the edge types that they concern.
pub(super) struct ChangesOfParts {
    pub(super) update: GraphUpdate,
    /// The positions of the edge types whose edges tables remove.
    pub(super) direct_removals: Vec<usize>,
    /// True for each edge type whose latest edges are held out.
    pub(super) holds_out_latest: Vec<bool>,
    /// One sentence each for the user.
    pub(super) warnings: Vec<String>,
}

/// The parts to which changes are applied.
pub(super) struct KnownParts<'a> {
    pub(super) parts: &'a [Part],
    pub(super) meta: &'a Meta,
    /// The keys by which nodes draw.
    pub(super) keys: &'a dyn NodeKeys,
    pub(super) space: &'a Workspace,
}

impl Changes {
    /// Applies the options of the parts: held-out edges, reverse edges and stored types of features.
    pub(super) fn for_parts(mut self, known: &KnownParts) -> Result<ChangesOfParts, PartitionError> {
        let KnownParts { meta, space, .. } = *known;
        let made = &meta.provenance;
        // A partitioning has the same order: edges that tables hold out have no reverses.
        let mut holds_out_latest = vec![false; meta.edge_types.len()];
        for (edge_type, rule) in std::mem::take(&mut self.held_out) {
            self.hold_out(known, Some(EdgeTypeId(edge_type as u16)), &rule, &mut holds_out_latest)?;
        }
        let mut warnings = Vec::new();
        if made.to_undirected {
            let choice = made.hold_out_edges.map(|_| made.hold_out_choice);
            warnings = self.add_reverses(space, KeptDuplicate::before(choice))?;
        }
        if let Some([valid_fraction, test_fraction]) = made.hold_out_edges
            && self.rows.num_edges() > 0
        {
            let rule = HoldOut { choice: made.hold_out_choice, valid_fraction, test_fraction, seed: made.seed };
            self.hold_out(known, None, &rule, &mut holds_out_latest)?;
        }
        let Self { mut rows, numbers, removed_nodes, removed_edges, .. } = self;
        if made.add_reverse_edges {
            rows.add_reverse_edges();
        }
        let Dataset { name, node_types: node_rows, edge_types: edge_rows } = rows;
        let mut edge_types: Vec<EdgeUpdate> = meta.edge_types.iter().map(|_| EdgeUpdate::default()).collect();
        for mut edges in edge_rows {
            let [src, dst] = [edges.src_type, edges.dst_type].map(|t| node_rows[t.index()].name.as_str());
            let found = position(meta, [src, &edges.relation, dst]);
            let Some(at) = found else {
                let why = format!("the parts have no edge type {src}__{}__{dst}", edges.relation);
                return Err(GraphError::Dataset { dataset: name, why }.into());
            };
            let of_type = &meta.edge_types[at];
            if let Some(features) = &edges.attributes.features {
                edges.attributes.features = Some(stored(features, of_type.feature_dtype, &of_type.relation, space)?);
            }
            edge_types[at].added = Some(edges);
        }
        let mut direct = Vec::new();
        for RemovedPairs { edge_type, pairs } in removed_edges {
            let [src, relation, dst] = edge_type.each_ref().map(String::as_str);
            let reverse = reverse_relation(relation);
            if let Some(at) = position(meta, [dst, &reverse, src]).filter(|_| made.add_reverse_edges) {
                edge_types[at].removed.extend(pairs.iter().map(|&[src, dst]| [dst, src]));
            }
            let Some(at) = position(meta, [src, relation, dst]) else {
                let why = format!("the parts have no edge type {src}__{relation}__{dst} to remove edges of");
                return Err(GraphError::Dataset { dataset: name, why }.into());
            };
            edge_types[at].removes_both_directions = made.to_undirected && src == dst;
            edge_types[at].removed.extend(&pairs);
            direct.push(at);
        }
        let mut node_types = Vec::with_capacity(node_rows.len());
        let lists = node_rows.into_iter().zip(numbers).zip(removed_nodes).zip(&meta.node_types);
        for (((mut rows, numbers), removed), of_type) in lists {
            if let Some(features) = &rows.features {
                rows.features = Some(stored(features, of_type.feature_dtype, &of_type.name, space)?);
            }
            node_types.push(NodeUpdate { removed, rows, numbers });
        }
        let update = GraphUpdate { node_types, edge_types };
        Ok(ChangesOfParts { update, direct_removals: direct, holds_out_latest, warnings })
    }

    /// Makes the new edges undirected. Returns sentences for the user.
    fn add_reverses(&mut self, space: &Workspace, kept: KeptDuplicate) -> Result<Vec<String>, PartitionError> {
        // Ends are numbers of all nodes, of which the rows are a part.
        let mut nums_rows = Vec::with_capacity(self.rows.node_types.len());
        for ((rows, numbers), removed) in self.rows.node_types.iter_mut().zip(&self.numbers).zip(&self.removed_nodes) {
            let num_kept = removed.iter().filter(|is_removed| !**is_removed).count();
            let num_new = numbers.iter().filter(|&&number| number as usize >= num_kept).count();
            nums_rows.push(std::mem::replace(&mut rows.num_nodes, num_kept + num_new));
        }
        let made = self.rows.to_undirected_in(space, kept);
        self.rows.node_types.iter_mut().zip(nums_rows).for_each(|(rows, num_rows)| rows.num_nodes = num_rows);
        Ok(made?)
    }

    /// Holds out new edges of a type, or of all types by the rule of the parts. A pair of nodes that the parts have stays in its
    /// list, so that no training edge becomes a test edge. Sets `holds_out_latest` for edge types of the parts whose latest
    /// edges are held out.
    fn hold_out(
        &mut self,
        known: &KnownParts,
        edge_type: Option<EdgeTypeId>,
        rule: &HoldOut,
        holds_out_latest: &mut [bool],
    ) -> Result<(), PartitionError> {
        let KnownParts { parts, meta, keys, space } = *known;
        let Self { rows, removed_nodes, .. } = self;
        let edge_types = edge_type.map_or_else(|| rows.edge_type_ids(), |edge_type| vec![edge_type]);
        let mut in_parts = Vec::with_capacity(edge_types.len());
        for edge_type in &edge_types {
            let edges = &rows.edge_types[edge_type.index()];
            let [src, dst] = [edges.src_type, edges.dst_type].map(|t| rows.node_types[t.index()].name.as_str());
            in_parts.extend(position(meta, [src, &edges.relation, dst]));
        }
        let is_latest = rule.choice == HoldOutChoice::Latest;
        in_parts.iter().for_each(|&at| holds_out_latest[at] |= is_latest);
        let pairs = if is_latest {
            KnownPairs::default()
        } else {
            if edge_type.is_none() {
                // The rule of the parts is for all of their types, whichever types the tables have.
                in_parts = (0..meta.edge_types.len()).collect();
            }
            let in_parts: Vec<EdgeTypeId> = in_parts.into_iter().map(|at| EdgeTypeId(at as u16)).collect();
            known_pairs(parts, removed_nodes, rows, &edge_types, &in_parts, space)?
        };
        if rule.if_any().is_none() {
            return Ok(rows.hold_out_known_in(space, &edge_types, &pairs)?);
        }
        Ok(rows.hold_out_edges_in(space, &edge_types, rule, keys, &pairs)?)
    }
}

fn position(meta: &Meta, names: [&str; 3]) -> Option<usize> {
    meta.edge_types.iter().position(|of_type| [&of_type.src_type[..], &of_type.relation, &of_type.dst_type] == names)
}

/// Converts features to the type that the parts store.
fn stored(
    features: &Features,
    dtype: edgecut_graph::FeatureDtype,
    name: &str,
    space: &Workspace,
) -> Result<Features, PartitionError> {
    let stored = features.to_dtype_in(space, dtype)?;
    Ok(stored.map_err(|source| GraphError::OutOfRange { node_type: name.to_owned(), source })?)
}
