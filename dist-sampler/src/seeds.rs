//! What a neighborhood is sampled for.

use crate::SampleError;
use edgecut_graph::NodeTypeId;
use rustc_hash::{FxHashMap, FxHashSet};

/// The seeds of a batch, and what their neighborhoods must not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleSeeds {
    /// Global ids by node type: distinct, or where neighborhoods are disjoint, distinct among those of a seed.
    pub nodes: Vec<Vec<u32>>,
    /// By node type, where neighborhoods are disjoint: the seed, from 0, that each of the nodes stands for. An edge that is a
    /// seed has two.
    pub batch: Vec<Vec<u32>>,
    /// The time of each seed, where times count.
    pub times: Vec<i64>,
    /// By edge type, if any: edges (source, destination) that are never followed, whichever node is expanded.
    pub excluded: Vec<Vec<(u32, u32)>>,
}

impl SampleSeeds {
    /// Nodes of one type of a graph with `num_types`.
    pub fn of_type(node_type: NodeTypeId, ids: Vec<u32>, num_types: usize) -> Self {
        let mut nodes = vec![Vec::new(); num_types];
        nodes[node_type.index()] = ids;
        Self { nodes, ..Self::default() }
    }

    /// The same, each with a neighborhood of its own, and a time each where times count.
    pub fn disjoint(mut self, times: Vec<i64>) -> Self {
        self.batch = self.nodes.iter().map(|nodes| (0..nodes.len() as u32).collect()).collect();
        self.times = times;
        self
    }

    pub(crate) fn check(&self, num_types: usize, disjoint: bool, temporal: bool) -> Result<(), SampleError> {
        let fail = |what: &str| Err(SampleError::Layout { what: what.into() });
        if self.nodes.len() != num_types {
            return fail("seeds need a list, if an empty one, for each node type");
        }
        if !disjoint {
            return Ok(());
        }
        if self.batch.len() != num_types || self.batch.iter().zip(&self.nodes).any(|(b, n)| b.len() != n.len()) {
            return fail("where neighborhoods are disjoint, each node needs the seed that it stands for");
        }
        let seeds = self.batch.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        if temporal && self.times.len() < seeds {
            return fail("temporal sampling needs a time for each seed");
        }
        Ok(())
    }
}

/// Edges that are never followed, by their destinations.
#[derive(Debug, Default)]
pub(crate) struct Excluded(Vec<FxHashMap<u32, FxHashSet<u32>>>);

impl Excluded {
    pub(crate) fn new(edges: &[Vec<(u32, u32)>]) -> Self {
        let of_type = |edges: &Vec<(u32, u32)>| {
            let mut by_destination: FxHashMap<u32, FxHashSet<u32>> = FxHashMap::default();
            edges.iter().for_each(|&(src, dst)| {
                by_destination.entry(dst).or_default().insert(src);
            });
            by_destination
        };
        Self(edges.iter().map(of_type).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(FxHashMap::is_empty)
    }

    /// The sources from which no edge of a type into `destination` is followed.
    pub(crate) fn sources(&self, edge_type: usize, destination: u32) -> Option<&FxHashSet<u32>> {
        self.0.get(edge_type)?.get(&destination)
    }
}
