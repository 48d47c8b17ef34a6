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
    /// By edge type, edges (source, destination) that no hop follows. May be empty.
    pub excluded: Vec<Vec<(u32, u32)>>,
}

impl SampleSeeds {
    /// Makes seeds from nodes of one type of a graph with `num_types` node types.
    ///
    /// ```
    /// use edgecut_dist_sampler::SampleSeeds;
    /// use edgecut_graph::NodeTypeId;
    /// let seeds = SampleSeeds::of_type(NodeTypeId(1), vec![7, 3], 3);
    /// assert_eq!(seeds.nodes, [vec![], vec![7, 3], vec![]]);
    /// ```
    pub fn of_type(node_type: NodeTypeId, ids: Vec<u32>, num_types: usize) -> Self {
        let mut nodes = vec![Vec::new(); num_types];
        nodes[node_type.index()] = ids;
        Self { nodes, ..Self::default() }
    }

    /// Gives each node a separate neighborhood and, in temporal sampling, a time.
    ///
    /// ```
    /// use edgecut_dist_sampler::SampleSeeds;
    /// use edgecut_graph::NodeTypeId;
    /// let seeds = SampleSeeds::of_type(NodeTypeId(0), vec![7, 3], 1).disjoint(vec![100, 200]);
    /// assert_eq!(seeds.batch, [[0, 1]]);
    /// ```
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
        if !disjoint {
            return Ok(());
        }
        if self.batch.len() != num_types || self.batch.iter().zip(&self.nodes).any(|(b, n)| b.len() != n.len()) {
            return fail("disjoint sampling needs the seed to which each node belongs");
        }
        let seeds = self.batch.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        if temporal && self.times.len() < seeds {
            return fail("temporal sampling needs a time for each seed");
        }
        Ok(())
    }
}

/// Edges that no hop follows, by destination.
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

    /// Returns the sources of the excluded edges of a type into `destination`.
    pub(crate) fn sources(&self, edge_type: usize, destination: u32) -> Option<&FxHashSet<u32>> {
        self.0.get(edge_type)?.get(&destination)
    }
}
