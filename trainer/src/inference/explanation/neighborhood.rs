//! The nodes and edges of a batch of disjoint neighborhoods, or of whole graphs.

use super::integrated_gradients::{BatchContributions, RowContributions};
use super::ranked::Ranked;
use super::{ExplainedInput, Explanation};
use crate::models::{GraphSchema, InputRows};
use edgecut_dist_loader::{GraphBatch, LabeledEdgeBatch, MiniBatch};
use edgecut_graph::{EdgeTypeId, NodeTypeId};

/// The ids of a batch, which its tensors lack.
pub(crate) struct Neighborhood {
    /// By node type.
    nodes: Vec<Nodes>,
    /// By edge type.
    edges: Vec<Edges>,
    /// By target, its original ids.
    targets: Vec<Vec<u32>>,
    /// By target edge, see [`Explanation::edge`]. Empty for other targets.
    target_edges: Vec<[u32; 2]>,
    /// The type of target edges.
    target_type: Option<EdgeTypeId>,
}

struct Nodes {
    original_ids: Vec<u32>,
    /// The target to whose neighborhood each node belongs.
    targets: Vec<u32>,
    feature_dim: usize,
}

struct Edges {
    indptr: Vec<u32>,
    indices: Vec<u32>,
    src: usize,
    dst: usize,
}

/// A row of inputs: a node or an edge, and its target.
struct InputRow {
    target: u32,
    input: ExplainedInput,
}

impl Neighborhood {
    /// Reads the ids of a batch, whose loader must fetch original ids.
    pub(crate) fn of(batch: &MiniBatch, schema: &GraphSchema) -> Self {
        let mut nodes = Vec::with_capacity(batch.nodes.len());
        for (of_type, described) in batch.nodes.iter().zip(&schema.node_types) {
            let original_ids = of_type.original_ids.clone();
            nodes.push(Nodes { original_ids, targets: of_type.batch.clone(), feature_dim: described.feature_dim });
        }
        let mut edges = Vec::with_capacity(batch.edges.len());
        for (of_type, (src, dst)) in batch.edges.iter().zip(schema.edge_ends()) {
            edges.push(Edges { indptr: of_type.indptr.clone(), indices: of_type.indices.clone(), src, dst });
        }
        Self { nodes, edges, targets: Vec::new(), target_edges: Vec::new(), target_type: None }
    }

    /// Reads the edges of a batch of whole graphs, which are the targets. Nodes have their number in their graph as id.
    pub(crate) fn of_graphs(batch: &GraphBatch) -> Self {
        let mut nodes = Nodes { original_ids: Vec::new(), targets: Vec::new(), feature_dim: batch.feature_dim };
        for (ends, target) in batch.node_offsets.windows(2).zip(0..) {
            let num_nodes = ends[1] - ends[0];
            nodes.original_ids.extend(0..num_nodes);
            nodes.targets.extend(std::iter::repeat_n(target, num_nodes as usize));
        }
        let edges = Edges { indptr: batch.indptr.clone(), indices: batch.indices.clone(), src: 0, dst: 0 };
        let targets = batch.graphs.iter().map(|&graph| vec![graph]).collect();
        Self { nodes: vec![nodes], edges: vec![edges], targets, target_edges: Vec::new(), target_type: None }
    }

    /// Sets the targets: the first nodes of a type.
    pub(crate) fn with_target_nodes(mut self, node_type: NodeTypeId, num_targets: usize) -> Self {
        let ids = &self.nodes.get(node_type.index()).map_or(&[][..], |nodes| &nodes.original_ids)[..num_targets];
        self.targets = ids.iter().map(|&id| vec![id]).collect();
        self
    }

    /// Sets the targets: the edges of a batch, which are of one type.
    pub(crate) fn with_target_edges(mut self, edge_type: EdgeTypeId, batch: &LabeledEdgeBatch) -> Self {
        if let Some(edges) = self.edges.get(edge_type.index()) {
            let sources = &self.nodes[edges.src].original_ids;
            let destinations = &self.nodes[edges.dst].original_ids;
            let ends = batch.src.iter().zip(&batch.dst);
            self.targets = ends.map(|(&src, &dst)| vec![sources[src as usize], destinations[dst as usize]]).collect();
            let global = &batch.graph.nodes[edges.dst].input_nodes;
            for (&dst, &position) in batch.dst.iter().zip(&batch.positions) {
                self.target_edges.push([global[dst as usize], position]);
            }
        }
        self.target_type = Some(edge_type);
        self
    }

    /// Returns the explanation of each target, with the `top` greatest contributions of each kind.
    pub(crate) fn explain(&self, found: &BatchContributions, top: usize) -> Vec<Explanation> {
        let mut all: Vec<Ranked> = self.targets.iter().map(|_| Ranked::new(top)).collect();
        for rows in &found.rows {
            let RowContributions { of, width, values, contributions } = rows;
            // The columns after the features are a learned embedding.
            let feature_dim = match of {
                Some(InputRows::Nodes(node_type)) => self.nodes[node_type.index()].feature_dim,
                Some(InputRows::Edges(_)) | None => *width,
            };
            let numbers = values.chunks_exact(*width).zip(contributions.chunks_exact(*width));
            for (row, (values, contributions)) in self.rows(*of).into_iter().zip(numbers) {
                all[row.target as usize].add(row.input, feature_dim, values, contributions);
            }
        }
        let mut explanations = Vec::with_capacity(all.len());
        for (at, (target, ranked)) in self.targets.iter().zip(all).enumerate() {
            let (sum, contributions) = ranked.finish();
            explanations.push(Explanation {
                target: target.clone(),
                edge: self.target_edges.get(at).copied(),
                output: found.outputs[at],
                score: found.scores[at],
                baseline: found.baselines[at],
                sum,
                contributions,
            });
        }
        explanations
    }

    /// Returns the nodes or edges of rows, in their order; the target edges for `None`.
    fn rows(&self, of: Option<InputRows>) -> Vec<InputRow> {
        match of {
            Some(InputRows::Nodes(node_type)) => {
                let nodes = &self.nodes[node_type.index()];
                let ids = nodes.original_ids.iter().zip(&nodes.targets);
                ids.map(|(&id, &target)| InputRow { target, input: ExplainedInput::Node(node_type, id) }).collect()
            }
            Some(InputRows::Edges(edge_type)) => self.edge_rows(edge_type),
            None => {
                let edge_type = self.target_type.unwrap_or(EdgeTypeId(0));
                let mut rows = Vec::with_capacity(self.targets.len());
                for (ends, target) in self.targets.iter().zip(0..) {
                    rows.push(InputRow { target, input: ExplainedInput::Edge(edge_type, ends[0], ends[1]) });
                }
                rows
            }
        }
    }

    fn edge_rows(&self, edge_type: EdgeTypeId) -> Vec<InputRow> {
        let Edges { indptr, indices, src, dst } = &self.edges[edge_type.index()];
        let sources = &self.nodes[*src].original_ids;
        let destinations = &self.nodes[*dst];
        let mut rows = Vec::with_capacity(indices.len());
        for (destination, ends) in indptr.windows(2).enumerate() {
            let target = destinations.targets[destination];
            let to = destinations.original_ids[destination];
            for &source in &indices[ends[0] as usize..ends[1] as usize] {
                rows.push(InputRow { target, input: ExplainedInput::Edge(edge_type, sources[source as usize], to) });
            }
        }
        rows
    }
}
