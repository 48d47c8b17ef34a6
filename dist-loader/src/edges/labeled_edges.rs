//! Batches of labeled edges, sampled around their ends.

use crate::batch::collate::Collation;
use crate::batch::mini_batch::MiniBatch;
use crate::bytes_held::bytes_held;
use crate::error::LoaderError;
use crate::links::edge_relations::EdgeRelations;
use crate::prefetch::seed_loader::{SeedBatches, seed_batches};
use crate::seeds::edge_ends::Ends;
use crate::seeds::edge_seeds::{EdgeIndex, SeedEdge};
use crate::seeds::rest_of_epoch::SeedPartition;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{
    BatchKey, CachedFetch, EdgeFields, SampleError, SampleSeeds, SampledEdgeAttributes, SampledSubgraph,
};
use edgecut_graph::EdgeTypeId;
use edgecut_graph::rng::combine;
use std::sync::Arc;

/// Edges of one type with what models predict for them, and the neighborhood of their ends.
///
/// Ends are numbers of nodes in `graph.nodes[type]`. All of them are seeds, that is, among the first `hop_offsets[0]`
/// nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct LabeledEdgeBatch {
    /// The neighborhood. Its `num_seeds` is the number of edges, and its labels and targets belong to the edges.
    pub graph: MiniBatch,
    /// The source of each edge.
    pub src: Vec<u32>,
    /// The destination of each edge.
    pub dst: Vec<u32>,
    /// The position of each edge among the in-edges of its destination.
    pub positions: Vec<u32>,
    /// The requested attributes of the edges, without labels and targets. Attributes that the type lacks are empty.
    pub attributes: SampledEdgeAttributes,
}

impl LabeledEdgeBatch {
    /// Returns the bytes of memory that the arrays hold, including unused capacity.
    pub fn num_bytes(&self) -> usize {
        let SampledEdgeAttributes { times, weights, features, ids, .. } = &self.attributes;
        let of_edges = bytes_held(times) + bytes_held(weights) + bytes_held(features) + bytes_held(ids);
        let of_ends = bytes_held(&self.src) + bytes_held(&self.dst) + bytes_held(&self.positions);
        self.graph.num_bytes() + of_ends + of_edges
    }
}

/// The state that turns labeled edges into batches.
#[derive(Clone)]
pub struct LabeledEdges {
    pub(crate) collation: Collation,
    pub(crate) edge_type: EdgeTypeId,
    pub(crate) index: Arc<EdgeIndex>,
    pub(crate) exclude_seed_edges: bool,
    pub(crate) relations: Arc<EdgeRelations>,
    pub(crate) of_seeds: EdgeFields,
    /// True to draw the neighborhoods of each edge by the ids of the edge instead of by its batch.
    pub(crate) draws_by_seed: bool,
}

/// The neighborhood of edges, and the numbers of their ends among its seeds.
#[derive(Default)]
pub struct Sampled {
    subgraph: SampledSubgraph,
    edges: Vec<SeedEdge>,
    /// The position of each edge among the seed edges of the rank.
    positions: Vec<u32>,
    ends: [Vec<u32>; 2],
}

impl LabeledEdges {
    /// Samples the neighborhood of the edges at these positions.
    async fn sample_edges(self: Arc<Self>, positions: Vec<u32>, mut key: BatchKey) -> Result<Sampled, SampleError> {
        let edges = self.index.edges(self.node(), &positions).await?;
        let mut draws = Vec::new();
        if self.draws_by_seed {
            // The number 0 stands for all batches of the epoch.
            key.batch = 0;
            if self.sampler().is_disjoint() {
                draws = self.draws_of(&edges).await?;
            }
        }
        let maker = self.clone();
        let of = edges.clone();
        let number = move || {
            let excluded = if maker.exclude_seed_edges {
                maker.relations.excluded(&of, maker.sampler().is_disjoint())
            } else {
                Vec::new()
            };
            let mut ends = Ends::new(maker.sampler(), &of, excluded);
            let numbers = ends.number_both(maker.node().part(), &of);
            (SampleSeeds { draws, ..ends.seeds }, numbers)
        };
        let (seeds, ends) = self.node().run_on_workers(number).await?;
        Ok(Sampled { subgraph: self.sampler().sample(seeds, key).await?, edges, positions, ends })
    }

    /// Returns a number of each edge that depends on the original id of its destination and on its position among the in-edges
    /// alone.
    async fn draws_of(&self, edges: &[SeedEdge]) -> Result<Vec<u32>, SampleError> {
        let dst_type = self.node().part().edges(self.edge_type).dst_type;
        let destinations: Vec<u32> = edges.iter().map(|edge| edge.dst).collect();
        let originals = self.node().original_ids(dst_type, destinations).await?;
        let mut draws = Vec::with_capacity(edges.len());
        for (edge, original) in edges.iter().zip(originals) {
            let position = edge.position_of_attributes()?;
            draws.push(combine(u64::from(original), u64::from(position)) as u32);
        }
        Ok(draws)
    }

    /// Returns the requested attributes of the edges, which are at these positions among the in-edges of their destinations.
    async fn attributes(&self, edges: &[SeedEdge], positions: &[u32]) -> Result<SampledEdgeAttributes, SampleError> {
        let meta = &self.node().part().meta().edge_types[self.edge_type.index()];
        let wanted = self.of_seeds.and(EdgeFields::all_of(meta));
        if !wanted.any() {
            return Ok(SampledEdgeAttributes::default());
        }
        let destinations: Vec<u32> = edges.iter().map(|edge| edge.dst).collect();
        self.node().fetch_edges(self.edge_type, &destinations, positions, wanted).await
    }
}

impl SeedBatches for LabeledEdges {
    type Batch = LabeledEdgeBatch;
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
        Sampled { subgraph, edges, positions, ends: [src, dst] }: Sampled,
        key: BatchKey,
        ahead: Option<Arc<CachedFetch>>,
    ) -> Result<LabeledEdgeBatch, SampleError> {
        if positions.is_empty() {
            let labels = self.node().part().meta().edge_types[self.edge_type.index()].labels;
            let targets = labels.filter(|_| self.of_seeds.labels).and_then(|labels| labels.values.targets());
            let target_dim = targets.map_or(0, |targets| targets.dim);
            let graph = MiniBatch { target_dim, ..MiniBatch::empty(key) };
            let attributes = SampledEdgeAttributes::default();
            return Ok(LabeledEdgeBatch { graph, src: Vec::new(), dst: Vec::new(), positions: Vec::new(), attributes });
        }
        let graph = self.collation.collate(subgraph, key, edges.len(), ahead.as_ref()).await?;
        let among: Vec<u32> = edges.iter().map(SeedEdge::position_of_attributes).collect::<Result<_, _>>()?;
        let mut attributes = self.attributes(&edges, &among).await?;
        let graph = MiniBatch {
            seed_positions: positions,
            labels: std::mem::take(&mut attributes.labels),
            targets: std::mem::take(&mut attributes.targets),
            target_dim: std::mem::take(&mut attributes.target_dim),
            ..graph
        };
        Ok(LabeledEdgeBatch { graph, src, dst, positions: among, attributes })
    }
}
