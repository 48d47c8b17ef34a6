//! Batches of edges with their negatives, sampled around the ends of both.

use crate::batch::collate::Collation;
use crate::batch::mini_batch::MiniBatch;
use crate::error::LoaderError;
use crate::links::edge_relations::EdgeRelations;
use crate::links::link_batch::{LinkBatch, Negatives};
use crate::links::negatives::{Drawn, NegativeSampler, NegativeSampling};
use crate::prefetch::seed_loader::{SeedBatches, seed_batches};
use crate::seeds::edge_ends::Ends;
use crate::seeds::edge_seeds::{EdgeIndex, SeedEdge};
use crate::seeds::rest_of_epoch::SeedPartition;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{BatchKey, CachedFetch, EdgeFields, SampleError, SampleSeeds, SampledSubgraph};
use edgecut_graph::EdgeTypeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state that turns seed edges into batches.
#[derive(Clone)]
pub struct LinkBatches {
    pub(crate) collation: Collation,
    pub(crate) index: Arc<EdgeIndex>,
    pub(crate) negatives: Arc<NegativeSampler>,
    /// The negatives that the dataset gives for the edges of `index`, in its order; `None` if negatives are drawn.
    pub(crate) of_held_out: Option<Arc<EdgeIndex>>,
    pub(crate) num_negatives: NegativeSampling,
    pub(crate) exclude_seed_edges: bool,
    pub(crate) relations: Arc<EdgeRelations>,
    /// True to fetch the weights of the edges.
    pub(crate) weights: bool,
}

/// Seeds, and the numbers of the ends of edges and of their negatives among them.
struct Numbered {
    seeds: SampleSeeds,
    src: Vec<u32>,
    dst: Vec<u32>,
    negatives: Negatives,
}

/// The neighborhood of edges, and the numbers of their ends and negatives among its seeds.
#[derive(Default)]
pub struct Sampled {
    subgraph: SampledSubgraph,
    edges: Vec<SeedEdge>,
    /// The position of each edge among the seed edges of the rank.
    positions: Vec<u32>,
    /// The number of edges without negatives, which are not among `edges`.
    num_left_out: usize,
    src: Vec<u32>,
    dst: Vec<u32>,
    negatives: Negatives,
}

impl LinkBatches {
    /// Samples the neighborhood of the edges at these positions.
    async fn sample_edges(self: Arc<Self>, positions: Vec<u32>, key: BatchKey) -> Result<Sampled, SampleError> {
        let all = self.index.edges(self.node(), &positions).await?;
        let Drawn { kept, ids } = match &self.of_held_out {
            Some(given) => self.given(given, &positions).await?,
            None => self.negatives.draw(self.node(), key, &all).await?,
        };
        let num_left_out = all.len() - kept.len();
        let edges: Vec<SeedEdge> = kept.iter().map(|&edge| all[edge]).collect();
        let positions = kept.iter().map(|&edge| positions[edge]).collect();
        let maker = self.clone();
        let of = edges.clone();
        let number = move || maker.number_ends(&of, &ids);
        let Numbered { seeds, src, dst, negatives } = self.node().run_on_workers(number).await?;
        let subgraph = self.sampler().sample(seeds, key).await?;
        Ok(Sampled { subgraph, edges, positions, num_left_out, src, dst, negatives })
    }

    /// Reads the negatives that the dataset gives for the edges at these positions.
    async fn given(&self, negatives: &EdgeIndex, positions: &[u32]) -> Result<Drawn, SampleError> {
        let num = self.num_negatives.num;
        let mut of_edges = Vec::with_capacity(positions.len() * num);
        for &position in positions {
            // The loader has checked that all positions fit.
            let first = position * num as u32;
            of_edges.extend(first..first + num as u32);
        }
        let found = negatives.edges(self.node(), &of_edges).await?;
        let mut ids = Vec::with_capacity(positions.len());
        for of_edge in found.chunks(num.max(1)) {
            ids.push(of_edge.iter().map(|negative| negative.dst).collect());
        }
        Ok(Drawn { kept: (0..positions.len()).collect(), ids })
    }

    /// Returns the weights of training edges.
    async fn weights_of(&self, edges: &[SeedEdge]) -> Result<Vec<f32>, SampleError> {
        let mut by_type: BTreeMap<EdgeTypeId, Vec<usize>> = BTreeMap::new();
        for (at, edge) in edges.iter().enumerate() {
            by_type.entry(edge.edge_type).or_default().push(at);
        }
        let wanted = EdgeFields { weights: true, ..EdgeFields::default() };
        let mut weights = vec![1.0; edges.len()];
        for (edge_type, at) in by_type {
            let destinations: Vec<u32> = at.iter().map(|&at| edges[at].dst).collect();
            let positions: Vec<u32> =
                at.iter().map(|&at| edges[at].position_of_attributes()).collect::<Result<_, _>>()?;
            let found = self.node().fetch_edges(edge_type, &destinations, &positions, wanted).await?.weights;
            at.into_iter().zip(found).for_each(|(at, weight)| weights[at] = weight);
        }
        Ok(weights)
    }

    /// Numbers the ends of edges and their negatives as seeds.
    fn number_ends(&self, edges: &[SeedEdge], drawn: &[Vec<u32>]) -> Numbered {
        let part = self.node().part();
        let mut excluded = Vec::new();
        if self.exclude_seed_edges {
            let disjoint = self.sampler().is_disjoint();
            excluded = self.relations.excluded(edges, disjoint);
            self.negatives.given.exclude(&self.relations, edges, drawn, disjoint, &mut excluded);
        }
        let mut ends = Ends::new(self.sampler(), edges, excluded);
        let [src, dst] = ends.number_both(part, edges);
        let types_of = |edge: &SeedEdge| {
            let edges = part.edges(edge.edge_type);
            (edges.src_type.index(), edges.dst_type.index())
        };
        let negatives = if self.num_negatives.shared {
            // Shared negatives belong to no edge, so disjoint sampling puts them into a neighborhood after those of the
            // edges.
            Negatives::Shared(
                (drawn.iter().enumerate())
                    .map(|(t, ids)| ids.iter().map(|&id| ends.number(t, edges.len(), id)).collect())
                    .collect(),
            )
        } else {
            Negatives::OfEach {
                num: self.num_negatives.num,
                dst: (edges.iter().zip(drawn).enumerate())
                    .flat_map(|(i, (edge, ids))| ids.iter().map(move |&id| (types_of(edge).1, i, id)))
                    .map(|(t, i, id)| ends.number(t, i, id))
                    .collect(),
            }
        };
        Numbered { seeds: ends.seeds, src, dst, negatives }
    }
}

impl SeedBatches for LinkBatches {
    type Batch = LinkBatch;
    type Sampled = Sampled;

    seed_batches!();

    fn partition(&self, world: &mut ProcessGroup) -> Result<SeedPartition, LoaderError> {
        self.index.partition(self.node(), world)
    }

    async fn sample(self: Arc<Self>, positions: Vec<u32>, key: BatchKey) -> Result<Sampled, SampleError> {
        if positions.is_empty() {
            return Ok(Sampled::default());
        }
        self.sample_edges(positions, key).await
    }

    async fn make(
        self: Arc<Self>,
        sampled: Sampled,
        key: BatchKey,
        ahead: Option<Arc<CachedFetch>>,
    ) -> Result<LinkBatch, SampleError> {
        let Sampled { subgraph, edges, positions, num_left_out, src, dst, negatives } = sampled;
        if edges.is_empty() {
            return Ok(LinkBatch { num_left_out, ..LinkBatch::empty(MiniBatch::empty(key)) });
        }
        let graph = self.collation.collate(subgraph, key, edges.len(), ahead.as_ref()).await?;
        let graph = MiniBatch { seed_positions: positions, ..graph };
        let weights = if self.weights { self.weights_of(&edges).await? } else { Vec::new() };
        let edge_types = edges.iter().map(|edge| edge.edge_type).collect();
        let relations = self.relations.clone();
        Ok(LinkBatch { graph, edge_types, src, dst, weights, negatives, num_left_out, relations })
    }
}
