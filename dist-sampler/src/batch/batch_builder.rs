//! A batch that is being sampled: its nodes, numbered so far, and its edges.

use crate::batch::seeds::{Excluded, SampleSeeds};
use crate::batch::subgraph::{SampledEdges, SampledNodes, SampledSubgraph};
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::numbering::Numbering;
use crate::numbering::disjoint::DisjointRelabel;
use crate::numbering::shared::Relabel;
use edgecut_graph::{GlobalNodeId, PartitionBook};

/// A batch that is being sampled.
pub(crate) struct BatchBuilder {
    pub(crate) numbers: Numbers,
    /// By node type, the number of nodes after each hop.
    pub(crate) hop_offsets: Vec<Vec<u32>>,
    pub(crate) edges: Vec<SampledEdges>,
    /// The time of each seed in temporal sampling.
    pub(crate) times: Vec<i64>,
    /// See [`SampleSeeds::draws`].
    draws: Vec<u32>,
    pub(crate) excluded: Excluded,
}

/// The nodes found so far, by node type.
pub(crate) enum Numbers {
    Shared(Vec<Relabel>),
    Disjoint(Vec<DisjointRelabel>),
}

impl Numbers {
    pub(crate) fn of_type(&self, t: usize) -> &dyn Numbering {
        match self {
            Self::Shared(relabels) => &relabels[t],
            Self::Disjoint(relabels) => &relabels[t],
        }
    }
}

impl BatchBuilder {
    /// Returns the bytes of the nodes and edges that were found so far.
    pub(crate) fn num_bytes(&self) -> usize {
        let num_nodes: usize = self.hop_offsets.iter().filter_map(|offsets| offsets.last()).map(|&n| n as usize).sum();
        let of_edges = |edges: &SampledEdges| edges.indptr.len() + edges.indices.len() + edges.positions.len();
        (num_nodes + self.edges.iter().map(of_edges).sum::<usize>()) * size_of::<u32>()
    }

    /// Starts a batch with checked `seeds` as its first nodes.
    pub(crate) fn start(graph: &DistGraph, seeds: SampleSeeds, disjoint: bool) -> Result<Self, SampleError> {
        let meta = graph.part().meta();
        let num_types = meta.node_types.len();
        let mut numbers = if disjoint {
            Numbers::Disjoint((0..num_types).map(|_| DisjointRelabel::default()).collect())
        } else {
            Numbers::Shared(graph.take_relabels())
        };
        for (t, nodes) in seeds.nodes.iter().enumerate() {
            let book = &meta.node_types[t].book;
            let batch = seeds.batch.get(t).filter(|_| disjoint).map_or(&[][..], |batch| &batch[..]);
            match &mut numbers {
                Numbers::Shared(relabels) => number_seeds(&mut relabels[t], book, nodes, batch)?,
                Numbers::Disjoint(relabels) => number_seeds(&mut relabels[t], book, nodes, batch)?,
            }
        }
        let hop_offsets = (0..num_types).map(|t| vec![numbers.of_type(t).nodes().len() as u32]).collect();
        let edges = vec![SampledEdges { indptr: vec![0], ..SampledEdges::default() }; meta.edge_types.len()];
        let excluded = Excluded::new(&seeds.excluded);
        Ok(Self { numbers, hop_offsets, edges, times: seeds.times, draws: seeds.draws, excluded })
    }

    /// Returns the number that the random draws in the neighborhood of a seed depend on.
    pub(crate) fn draws_of(&self, seed: u32) -> u32 {
        self.draws.get(seed as usize).copied().unwrap_or(seed)
    }

    /// Returns the sampled neighborhood, and the number maps to `node` for the next batch.
    pub(crate) fn finish(self, graph: &DistGraph) -> SampledSubgraph {
        let nodes = match self.numbers {
            Numbers::Shared(relabels) => {
                let of_type = |(relabel, hop_offsets): (&Relabel, _)| SampledNodes {
                    ids: relabel.nodes().to_vec(),
                    hop_offsets,
                    batch: Vec::new(),
                };
                let nodes = relabels.iter().zip(self.hop_offsets).map(of_type).collect();
                graph.keep_relabels(relabels);
                nodes
            }
            Numbers::Disjoint(relabels) => {
                let of_type = |(relabel, hop_offsets): (DisjointRelabel, _)| {
                    let (ids, batch) = relabel.into_parts();
                    SampledNodes { ids, hop_offsets, batch }
                };
                relabels.into_iter().zip(self.hop_offsets).map(of_type).collect()
            }
        };
        SampledSubgraph { nodes, edges: self.edges, seed_times: Vec::new() }
    }
}

/// Numbers the seeds of one type in order, so that the first nodes of the batch are its seeds.
fn number_seeds(
    numbers: &mut impl Numbering,
    book: &PartitionBook,
    seeds: &[u32],
    batch: &[u32],
) -> Result<(), SampleError> {
    for (position, &seed) in seeds.iter().enumerate() {
        if !book.contains(GlobalNodeId(seed)) {
            let what = format!("seed {position} is node {seed}, but the graph has {} nodes", book.num_nodes());
            return Err(SampleError::NoSuchNode { what });
        }
        if numbers.number(batch.get(position).copied().unwrap_or(0), seed) as usize != position {
            return Err(SampleError::NoSuchNode { what: format!("seed {position} occurs twice in its batch") });
        }
    }
    Ok(())
}
