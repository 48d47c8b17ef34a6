//! Seeds of a sampled neighborhood.

use crate::error::SampleError;
use edgecut_graph::NodeTypeId;
use rustc_hash::{FxHashMap, FxHashSet};

/// The seeds of a batch, and the edges to exclude from their neighborhoods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleSeeds {
    /// Global ids by node type. Distinct, or if neighborhoods are disjoint, distinct within each neighborhood.
    pub nodes: Vec<Vec<u32>>,
    /// By node type, the seed (counted from 0) to whose neighborhood each node belongs. Only used if neighborhoods are
    /// disjoint. A seed edge contributes two nodes.
    pub batch: Vec<Vec<u32>>,
    /// The time of each seed. Only used in temporal sampling.
    pub times: Vec<i64>,
    /// By seed, the number that its random draws depend on; empty for the number of the seed in the batch. Only used if
    /// neighborhoods are disjoint.
    pub draws: Vec<u32>,
    /// By edge type, edges that no hop follows. May be empty. Either all of them name a neighborhood, or none does.
    pub excluded: Vec<Vec<ExcludedEdge>>,
}

/// An edge that no hop follows, and all edges of its type between the same ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExcludedEdge {
    /// Global id of the source.
    pub src: u32,
    /// Global id of the destination.
    pub dst: u32,
    /// The seed in whose neighborhood the edge is excluded; `None` excludes it in all neighborhoods.
    pub batch: Option<u32>,
}

impl SampleSeeds {
    /// Makes seeds from nodes of one type of a graph with `num_types` node types.
    pub fn of_type(node_type: NodeTypeId, ids: Vec<u32>, num_types: usize) -> Self {
        let mut nodes = vec![Vec::new(); num_types];
        nodes[node_type.index()] = ids;
        Self { nodes, ..Self::default() }
    }

    /// Gives each node a separate neighborhood and, in temporal sampling, a time.
    pub fn disjoint(mut self, times: Vec<i64>) -> Self {
        self.batch = self.nodes.iter().map(|nodes| (0..nodes.len() as u32).collect()).collect();
        self.times = times;
        self
    }

    pub(crate) fn check(&self, num_types: usize, disjoint: bool, temporal: bool) -> Result<(), SampleError> {
        let fail = |what: &str| Err(SampleError::Layout { what: what.into() });
        if self.nodes.len() != num_types {
            return fail("seeds need a list for each node type, which may be empty");
        }
        let mut excluded = self.excluded.iter().flatten();
        let first = excluded.next().is_some_and(|edge| edge.batch.is_some());
        if excluded.any(|edge| edge.batch.is_some() != first) {
            return fail("either all excluded edges or none name a neighborhood");
        }
        if !disjoint {
            return if first { fail("excluded edges name neighborhoods, which are not disjoint") } else { Ok(()) };
        }
        if self.batch.len() != num_types || self.batch.iter().zip(&self.nodes).any(|(b, n)| b.len() != n.len()) {
            return fail("disjoint sampling needs the seed to which each node belongs");
        }
        let seeds = self.batch.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        if temporal && self.times.len() < seeds {
            return fail("temporal sampling needs a time for each seed");
        }
        if !self.draws.is_empty() && self.draws.len() < seeds {
            return fail("numbers of draws are needed for each seed, or for none");
        }
        Ok(())
    }
}

/// The sources of edges by their neighborhood, if they name one, and their destination.
type Sources = FxHashMap<(Option<u32>, u32), FxHashSet<u32>>;

/// Edges that no hop follows.
#[derive(Debug, Default)]
pub(crate) struct Excluded {
    by_type: Vec<Sources>,
    /// True if the edges name neighborhoods.
    by_neighborhood: bool,
}

impl Excluded {
    pub(crate) fn new(edges: &[Vec<ExcludedEdge>]) -> Self {
        let mut by_type = Vec::with_capacity(edges.len());
        for of_type in edges {
            let mut by_destination = Sources::default();
            for edge in of_type {
                by_destination.entry((edge.batch, edge.dst)).or_default().insert(edge.src);
            }
            by_type.push(by_destination);
        }
        Self { by_type, by_neighborhood: edges.iter().flatten().any(|edge| edge.batch.is_some()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_type.iter().all(FxHashMap::is_empty)
    }

    /// Returns the sources of the excluded edges of a type into `destination`, in the neighborhood `batch`.
    pub(crate) fn sources(&self, edge_type: usize, batch: u32, destination: u32) -> Option<&FxHashSet<u32>> {
        self.by_type.get(edge_type)?.get(&(self.by_neighborhood.then_some(batch), destination))
    }
}
