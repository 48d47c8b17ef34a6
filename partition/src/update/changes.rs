//! Changes of a graph as tables describe them, and the changes of parts that follow.

use crate::PartitionError;
use edgecut_graph::{
    Dataset, EdgeList, EdgeUpdate, Features, GraphError, GraphUpdate, HoldOut, Meta, NodeUpdate, Workspace,
};
use std::collections::HashSet;

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
}

/// Removed edges of a type.
#[derive(Clone, Debug)]
pub struct RemovedPairs {
    /// The names of the source type, the relation and the destination type.
    pub edge_type: [String; 3],
    /// The original ids of both ends before the update. All edges between the two nodes are removed.
    pub pairs: Vec<[u32; 2]>,
}

impl Changes {
    /// Applies the options of the parts: held-out edges, reverse edges and stored types of features. Also returns the positions
    /// of the edge types whose edges tables remove.
    pub(super) fn for_parts(self, meta: &Meta, space: &Workspace) -> Result<(GraphUpdate, Vec<usize>), PartitionError> {
        let Self { mut rows, numbers, removed_nodes, removed_edges } = self;
        let made = &meta.provenance;
        if made.to_undirected {
            // In memory, since scratch files are divided by the number of nodes, of which the rows are a part.
            rows.to_undirected_in(&Workspace::default())?;
        }
        if let Some([valid_fraction, test_fraction]) = made.hold_out_edges
            && rows.num_edges() > 0
        {
            let rule = HoldOut { choice: made.hold_out_choice, valid_fraction, test_fraction, seed: made.seed };
            rows.hold_out_edges_in(space, &rows.edge_type_ids(), &rule)?;
        }
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
            let reversed: Vec<[u32; 2]> = pairs.iter().map(|&[src, dst]| [dst, src]).collect();
            let reverse = format!("rev_{relation}");
            if let Some(at) = position(meta, [dst, &reverse, src]).filter(|_| made.add_reverse_edges) {
                edge_types[at].removed.extend(&reversed);
            }
            let Some(at) = position(meta, [src, relation, dst]) else { continue };
            if made.to_undirected && src == dst {
                edge_types[at].removed.extend(&reversed);
            }
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
        Ok((GraphUpdate { node_types, edge_types }, direct))
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

/// Sorts the held-out edges of undirected edge types by their ends, as the edges of these types are. An edge that a table lists
/// again stays one edge.
pub(super) fn sort_held_out(dataset: &mut Dataset) {
    for edges in dataset.edge_types.iter_mut().filter(|edges| edges.src_type == edges.dst_type) {
        let mut known = HashSet::new();
        for list in [&mut edges.held_out.valid, &mut edges.held_out.test] {
            let mut positions: Vec<usize> =
                (0..list.len()).filter(|&at| known.insert((list.src[at], list.dst[at]))).collect();
            positions.sort_unstable_by_key(|&at| (list.src[at], list.dst[at]));
            let src: Vec<u32> = positions.iter().map(|&at| list.src[at]).collect();
            let dst: Vec<u32> = positions.iter().map(|&at| list.dst[at]).collect();
            let times =
                list.times.as_ref().map(|times| positions.iter().map(|&at| times[at]).collect::<Vec<i64>>().into());
            *list = EdgeList { times, ..EdgeList::new(src.into(), dst.into()) };
        }
    }
}
