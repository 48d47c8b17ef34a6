//! Clusters of nodes, whose induced subgraphs are batches.

use crate::agreement::SharedSettings;
use crate::error::LoaderError;
use edgecut_dist_sampler::{DistNeighborSampler, Fanout, NumNeighbors, SampledEdges, SampledSubgraph};
use edgecut_graph::{EdgeTypeId, Part};

/// Clusters of nodes of one type. A node is in at most one of them.
///
/// ```
/// use edgecut_dist_loader::NodeClusters;
/// // The cluster of the nodes 7 and 3, and the cluster of node 5.
/// let clusters = NodeClusters::new(Some(vec![7, 3, 5]), vec![0, 2, 3])?;
/// assert_eq!(clusters.len(), 2);
/// # Ok::<(), edgecut_dist_loader::LoaderError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NodeClusters {
    /// Global ids, cluster by cluster; `None` for all nodes in the order of their global ids.
    pub(crate) nodes: Option<Vec<u32>>,
    /// The position of the first node of each cluster, and the number of nodes.
    starts: Vec<u32>,
}

impl NodeClusters {
    /// Makes clusters. `nodes` has the global ids, cluster by cluster, or all nodes are taken in the order of their global
    /// ids. `starts` has the position of the first node of each cluster, and the number of nodes.
    ///
    /// # Errors
    /// [`LoaderError::Config`] if `starts` does not begin with 0, decreases, or does not end with the number of nodes, and for a
    /// node that is listed twice.
    pub fn new(nodes: Option<Vec<u32>>, starts: Vec<u32>) -> Result<Self, LoaderError> {
        let num_nodes = starts.last().map(|&end| end as usize);
        let is_valid = starts.first() == Some(&0) && starts.is_sorted();
        if !is_valid || nodes.as_ref().is_some_and(|nodes| Some(nodes.len()) != num_nodes) {
            let what =
                "the positions of the clusters must begin with 0, not decrease, and end with the number of nodes";
            return Err(LoaderError::Config { what: what.into() });
        }
        if let Some(node) = nodes.as_deref().and_then(first_repeated) {
            let what =
                format!("node {node} is listed twice, but a node is in at most one cluster: list each node once");
            return Err(LoaderError::Config { what });
        }
        Ok(Self { nodes, starts })
    }

    /// Returns the number of clusters.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns true if there are no clusters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of nodes of all clusters.
    pub(crate) fn num_nodes(&self) -> usize {
        self.starts[self.len()] as usize
    }

    /// Adds the clusters to the settings of a loader.
    pub(crate) fn describe(&self, settings: SharedSettings) -> SharedSettings {
        let settings = settings.with_list("clusters", &self.starts);
        match &self.nodes {
            Some(nodes) => settings.with_list("seeds", nodes),
            None => settings.with("seeds", "all nodes"),
        }
    }

    /// Returns the positions of the nodes of some clusters.
    pub(crate) fn positions(&self, clusters: &[u32]) -> Vec<u32> {
        let mut positions = Vec::new();
        for &cluster in clusters {
            let at = cluster as usize;
            positions.extend(self.starts[at]..self.starts[at + 1]);
        }
        positions
    }

    /// Checks that a sampler finds all edges between the nodes of a batch, and that there are as many nodes of the type as
    /// clusters without a list have.
    pub(crate) fn check(&self, sampler: &DistNeighborSampler, num_nodes: usize) -> Result<(), LoaderError> {
        let config = sampler.config();
        let what = if config.num_neighbors != NumNeighbors::from(vec![Fanout::All])
            || config.weighted
            || config.disjoint
            || config.isolated
        {
            "batches of clusters need a sampler of one hop with all neighbors of all edge types, which neither draws by \
             weights nor separates neighborhoods or parts"
                .to_owned()
        } else if self.nodes.is_none() && self.num_nodes() != num_nodes {
            format!("the clusters have {} nodes, but the graph has {num_nodes}", self.num_nodes())
        } else {
            return Ok(());
        };
        Err(LoaderError::Config { what })
    }
}

/// Returns the least id that is listed twice.
fn first_repeated(nodes: &[u32]) -> Option<u32> {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Returns the seeds of a neighborhood with the edges between them.
pub(crate) fn among_seeds(mut subgraph: SampledSubgraph, part: &Part) -> SampledSubgraph {
    for (e, edges) in subgraph.edges.iter_mut().enumerate() {
        let src_type = part.edges(EdgeTypeId(e as u16)).src_type;
        *edges = with_sources_below(edges, subgraph.nodes[src_type.index()].hop_offsets[0]);
    }
    for nodes in &mut subgraph.nodes {
        let num_seeds = nodes.hop_offsets[0];
        nodes.hop_offsets.fill(num_seeds);
        nodes.ids.truncate(num_seeds as usize);
        // The nodes around a cluster can be many more than its own, and the batch waits for the trainer.
        nodes.ids.shrink_to_fit();
    }
    subgraph
}

/// Returns the edges whose sources are among the first `num_sources` nodes.
fn with_sources_below(edges: &SampledEdges, num_sources: u32) -> SampledEdges {
    let mut kept = SampledEdges { indptr: vec![0], ..SampledEdges::default() };
    for ends in edges.indptr.windows(2) {
        for edge in ends[0] as usize..ends[1] as usize {
            if edges.indices[edge] < num_sources {
                kept.indices.push(edges.indices[edge]);
                kept.positions.extend(edges.positions.get(edge));
            }
        }
        kept.indptr.push(kept.indices.len() as u32);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_nodes_of_each_cluster_in_turn() {
        let clusters = NodeClusters::new(None, vec![0, 2, 2, 5]).expect("valid clusters");
        assert_eq!((clusters.len(), clusters.num_nodes(), clusters.is_empty()), (3, 5, false));
        assert_eq!(clusters.positions(&[2, 0]), [2, 3, 4, 0, 1]);
        assert!(clusters.positions(&[1]).is_empty());
    }

    #[test]
    fn contradictory_positions_are_rejected() {
        for starts in [vec![], vec![1, 3], vec![0, 3, 2], vec![0, 2]] {
            assert!(NodeClusters::new(Some(vec![4, 5, 6]), starts.clone()).is_err(), "{starts:?}");
        }
        assert!(NodeClusters::new(None, vec![0, 2]).is_ok());
    }

    #[test]
    fn a_node_of_two_clusters_is_rejected() {
        for nodes in [vec![4, 5, 4], vec![5, 5, 4]] {
            let error = NodeClusters::new(Some(nodes.clone()), vec![0, 2, 3]).expect_err("a repeated node").to_string();
            assert!(error.contains("is listed twice"), "{nodes:?}: {error}");
        }
        assert!(NodeClusters::new(Some(vec![4, 6, 5]), vec![0, 2, 3]).is_ok());
    }

    #[test]
    fn edges_from_other_nodes_are_left_out() {
        let edges =
            SampledEdges { indptr: vec![0, 3, 3, 5], indices: vec![1, 4, 0, 3, 2], positions: vec![0, 1, 2, 0, 7] };
        let kept = with_sources_below(&edges, 3);
        assert_eq!((kept.indptr, kept.indices, kept.positions), (vec![0, 2, 2, 3], vec![1, 0, 2], vec![0, 2, 7]));
        let without_positions = with_sources_below(&SampledEdges { positions: Vec::new(), ..edges }, 4);
        assert_eq!(without_positions.indices, [1, 0, 3, 2]);
        assert!(without_positions.positions.is_empty());
    }
}
