//! The ends of seed edges as seeds of a neighborhood.

use crate::seeds::edge_seeds::SeedEdge;
use edgecut_dist_sampler::{DistNeighborSampler, ExcludedEdge, SampleSeeds};
use edgecut_graph::Part;
use rustc_hash::FxHashMap;

/// The ends of a batch's edges as seeds of its neighborhood, each node once, or once per edge if neighborhoods are
/// disjoint.
pub(crate) struct Ends {
    pub(crate) seeds: SampleSeeds,
    numbers: Vec<FxHashMap<(u32, u32), u32>>,
    disjoint: bool,
}

impl Ends {
    /// Starts the seeds of a batch of `edges`, in whose neighborhood the `excluded` edges carry no messages.
    pub(crate) fn new(sampler: &DistNeighborSampler, edges: &[SeedEdge], excluded: Vec<Vec<ExcludedEdge>>) -> Self {
        let num_types = sampler.node().part().meta().node_types.len();
        Self {
            seeds: SampleSeeds {
                nodes: vec![Vec::new(); num_types],
                batch: vec![Vec::new(); num_types],
                times: edges.iter().filter_map(|edge| edge.time).collect(),
                draws: Vec::new(),
                excluded,
            },
            numbers: vec![FxHashMap::default(); num_types],
            disjoint: sampler.is_disjoint(),
        }
    }

    /// Returns the numbers of the sources and of the destinations of `edges`.
    pub(crate) fn number_both(&mut self, part: &Part, edges: &[SeedEdge]) -> [Vec<u32>; 2] {
        let with_types = || edges.iter().map(|edge| (edge, part.edges(edge.edge_type))).enumerate();
        let src = with_types().map(|(i, (edge, of_type))| self.number(of_type.src_type.index(), i, edge.src)).collect();
        let dst = with_types().map(|(i, (edge, of_type))| self.number(of_type.dst_type.index(), i, edge.dst)).collect();
        [src, dst]
    }

    /// Returns the number of a node among the seeds of its type, and adds it if it is new.
    pub(crate) fn number(&mut self, node_type: usize, edge: usize, id: u32) -> u32 {
        let batch = if self.disjoint { edge as u32 } else { 0 };
        let nodes = &mut self.seeds.nodes[node_type];
        *self.numbers[node_type].entry((batch, id)).or_insert_with(|| {
            nodes.push(id);
            if self.disjoint {
                self.seeds.batch[node_type].push(batch);
            }
            nodes.len() as u32 - 1
        })
    }
}
