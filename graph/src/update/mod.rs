//! Changes of the graph of existing parts: new, changed and removed nodes and edges.
//!
//! [`update_parts`] reads parts back as a dataset in original ids, with the changes applied. Writing this dataset with the
//! parts of the nodes that stay is an update without a new partitioning.
//!
//! Invariant: nodes that stay keep their order, and new nodes come after them. The in-edges of a node keep their order, and
//! added edges come after them. Training edges do not depend on the partitioning: they are in the order of their destinations,
//! then in their own order, and added edges are the last. Held-out edges are in the order of the parts that hold them.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

mod edges;
mod fit;
mod gather;
mod known_pairs;
mod nodes;

pub use known_pairs::known_pairs;

use crate::dataset::{Dataset, EdgeData, NodeData};
use crate::memory::Workspace;
use crate::{EdgeTypeId, GraphError, NodeTypeId, Part};
use nodes::Numbering;

/// Changes of the graph of existing parts. Types are those of the parts, in their order.
#[derive(Clone, Debug)]
pub struct GraphUpdate {
    /// The changes of each node type.
    pub node_types: Vec<NodeUpdate>,
    /// The changes of each edge type.
    pub edge_types: Vec<EdgeUpdate>,
}

/// Changes of the nodes of a type.
#[derive(Clone, Debug)]
pub struct NodeUpdate {
    /// True for each node that is removed, by original id.
    pub removed: Vec<bool>,
    /// The attributes of changed and new nodes, with features of the stored type of the parts. The splits have rows of nodes
    /// that are in no split yet. A changed node whose row has no label keeps its own, so that it stays in its split.
    pub rows: NodeData,
    /// The number after the update of the node of each row. Nodes that stay have the numbers from 0, in the order of their
    /// original ids. New nodes have the numbers after them.
    pub numbers: Vec<u32>,
}

/// Changes of the edges of a type.
#[derive(Clone, Debug, Default)]
pub struct EdgeUpdate {
    /// The ends of edges that are removed, as original ids before the update. All edges between the two nodes are removed.
    pub removed: Vec<[u32; 2]>,
    /// True if `removed` also removes the edges in the other direction.
    pub removes_both_directions: bool,
    /// The edges that are added, with ends in the numbers after the update.
    pub added: Option<EdgeData>,
}

/// The graph of updated parts.
#[derive(Debug)]
pub struct UpdatedGraph {
    /// The graph.
    pub dataset: Dataset,
    /// The part of each node that stays, by node type and number.
    pub parts: Vec<Vec<u32>>,
    /// The removed edges, by edge type.
    pub removed: Vec<RemovedCounts>,
}

/// The numbers of edges of a type that were removed. Held-out edges count as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedCounts {
    /// The edges between two nodes that the update lists.
    pub listed: u64,
    /// The other edges, of which an end was removed.
    pub with_nodes: u64,
    /// The first pair of nodes that the update lists, but that no edge joins.
    pub first_unmatched: Option<[u32; 2]>,
    /// The number of such pairs.
    pub num_unmatched: u64,
}

/// Applies changes to the graph of `parts`, which are all parts on disk of a graph. Large arrays are made in `space`.
///
/// ```
/// use edgecut_graph::part_writer::write_one_part;
/// use edgecut_graph::readers::{FakeOptions, fake};
/// use edgecut_graph::{DiskPartId, EdgeUpdate, GraphUpdate, NodeData, NodeUpdate, Part, Workspace, update_parts};
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// write_one_part(fake(&FakeOptions { avg_num_nodes: 100, ..FakeOptions::default() })?, dir)?;
/// let part = Part::open(dir, DiskPartId(0), true)?;
/// let mut removed = vec![false; 100];
/// removed[7] = true;
/// let nodes = NodeUpdate { removed, rows: NodeData::default(), numbers: Vec::new() };
/// let update = GraphUpdate { node_types: vec![nodes], edge_types: vec![EdgeUpdate::default()] };
/// let updated = update_parts(&[part], update, &Workspace::default())?;
/// assert_eq!(updated.dataset.node_types[0].num_nodes, 99);
/// assert!(updated.removed[0].with_nodes > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`GraphError::Dataset`] for changes that do not fit the types of the parts, and [`GraphError::Scratch`].
pub fn update_parts(parts: &[Part], update: GraphUpdate, space: &Workspace) -> Result<UpdatedGraph, GraphError> {
    let Some(meta) = parts.first().map(Part::meta) else {
        return Err(GraphError::Dataset { dataset: String::new(), why: "there are no parts to update".into() });
    };
    fit::check(meta, &update).map_err(|why| GraphError::Dataset { dataset: meta.dataset.clone(), why })?;
    let GraphUpdate { node_types: node_updates, edge_types: edge_updates } = update;
    let mut numberings = Vec::with_capacity(node_updates.len());
    let mut node_types = Vec::with_capacity(node_updates.len());
    for (t, update) in (0..).map(NodeTypeId).zip(&node_updates) {
        let numbering = Numbering::new(parts, t, &update.removed)
            .and_then(|numbering| numbering.with_rows(&update.numbers))
            .map_err(|why| GraphError::Dataset { dataset: meta.dataset.clone(), why })?;
        node_types.push(nodes::updated(parts, t, update, &numbering, space)?);
        numberings.push(numbering);
    }
    let mut edge_types = Vec::with_capacity(edge_updates.len());
    let mut removed = Vec::with_capacity(edge_updates.len());
    for (e, update) in (0..).map(EdgeTypeId).zip(edge_updates) {
        let (edges, counts) = edges::updated(parts, e, update, &numberings, space)?;
        edge_types.push(edges);
        removed.push(counts);
    }
    let dataset = Dataset { name: meta.dataset.clone(), node_types, edge_types };
    Ok(UpdatedGraph { dataset, parts: numberings.into_iter().map(|of_type| of_type.parts).collect(), removed })
}
