//! Negatives that edges of other types give.

use crate::error::LoaderError;
use crate::links::edge_relations::EdgeRelations;
use crate::links::negatives::NegativeSampling;
use crate::seeds::edge_seeds::SeedEdge;
use edgecut_dist_sampler::{
    BatchKey, DistGraph, DistNeighborSampler, ExcludedEdge, Fanout, NumNeighbors, SampleError, SampleSeeds,
    SampledSubgraph, SamplerConfig,
};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeTypeId, NodeTypeId, Part};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Combined with the keys of draws (the bytes spell "given"), so that given and drawn negatives use different random
/// numbers.
const STREAM: u64 = 0x67_6976_656e;
/// The most given negatives of a source that an epoch reads, unless an edge needs more.
const MAX_PER_SOURCE: u32 = 256;

/// The given negatives of predicted edge types. An edge of a given type states that its destination is a negative of its
/// source.
///
/// Invariant: the given negatives of an edge are a function of the seed, the epoch and the original ids of its ends, as
/// drawn negatives are.
#[derive(Default)]
pub(crate) struct GivenNegatives {
    /// By predicted edge type.
    of_types: BTreeMap<EdgeTypeId, GivenOfType>,
}

/// The edge types that give the negatives of a predicted edge type.
struct GivenOfType {
    given: BTreeSet<EdgeTypeId>,
    /// The reverses of the given types: edges are stored with their destinations, so that the negatives of a source are
    /// the neighbors over these. Several types may have the same one.
    reverses: BTreeSet<EdgeTypeId>,
    /// The sampler of neighbors over `reverses`.
    sampler: Arc<DistNeighborSampler>,
}

impl GivenNegatives {
    /// Checks the `given` types, and makes the samplers of their edges.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a given type that is predicted itself, that has other ends than all predicted types, or
    /// whose reverse edges are in no type; for shared negatives; and on a client of servers.
    pub(crate) fn new(
        graph: &Arc<DistGraph>,
        relations: &EdgeRelations,
        predicted: &[EdgeTypeId],
        given: &[EdgeTypeId],
        negatives: NegativeSampling,
    ) -> Result<Self, LoaderError> {
        if given.is_empty() {
            return Ok(Self::default());
        }
        let part = graph.part();
        if let Some(what) = refusal(graph, relations, predicted, given, negatives) {
            return Err(LoaderError::Config { what });
        }
        let mut of_types = BTreeMap::new();
        for &edge_type in predicted {
            let ends = relations.ends[edge_type.index()];
            let of_type: BTreeSet<EdgeTypeId> =
                given.iter().copied().filter(|given| relations.ends[given.index()] == ends).collect();
            if of_type.is_empty() {
                continue;
            }
            let reverses = of_type.iter().filter_map(|&given| reverse_of(relations, given)).collect();
            let sampler = sampler_over(graph, part, &reverses, negatives.num)?;
            of_types.insert(edge_type, GivenOfType { given: of_type, reverses, sampler });
        }
        Ok(Self { of_types })
    }

    /// Returns the given negatives of each edge, at most `num`, each once and without the destination of the edge. `keys`
    /// are the keys of the edges.
    pub(crate) async fn of_edges(
        &self,
        key: BatchKey,
        edges: &[SeedEdge],
        keys: &[u64],
        num: usize,
    ) -> Result<Vec<Vec<u32>>, SampleError> {
        let mut found = vec![Vec::new(); edges.len()];
        for (&edge_type, of_type) in &self.of_types {
            let mut of_edges = Vec::new();
            for (at, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.edge_type == edge_type) {
                of_edges.push(Request { at, src: edge.src, dst: edge.dst, key: keys[at] });
            }
            if of_edges.is_empty() {
                continue;
            }
            for (at, negatives) in of_type.choose(key, edge_type, of_edges, num).await? {
                found[at] = negatives;
            }
        }
        Ok(found)
    }

    /// Adds the edges of given types between edges and their negatives, and the reverses of these, to the edges that carry
    /// no messages: in training they would reveal which destination is the negative.
    pub(crate) fn exclude(
        &self,
        relations: &EdgeRelations,
        edges: &[SeedEdge],
        negatives: &[Vec<u32>],
        disjoint: bool,
        excluded: &mut [Vec<ExcludedEdge>],
    ) {
        for (number, (edge, negatives)) in edges.iter().zip(negatives).enumerate() {
            let Some(of_type) = self.of_types.get(&edge.edge_type) else { continue };
            let batch = disjoint.then_some(number as u32);
            for &given in &of_type.given {
                for &negative in negatives {
                    relations.exclude(given, ExcludedEdge { src: edge.src, dst: negative, batch }, excluded);
                }
            }
        }
    }
}

/// An edge of a batch, by its number, that needs negatives.
struct Request {
    at: usize,
    src: u32,
    dst: u32,
    key: u64,
}

impl GivenOfType {
    /// Chooses at most `num` given negatives for each edge of a type.
    async fn choose(
        &self,
        key: BatchKey,
        edge_type: EdgeTypeId,
        edges: Vec<Request>,
        num: usize,
    ) -> Result<Vec<(usize, Vec<u32>)>, SampleError> {
        let graph = self.sampler.node();
        let part = graph.part();
        let predicted = part.edges(edge_type);
        let sources: BTreeSet<u32> = edges.iter().map(|edge| edge.src).collect();
        let sources: Vec<u32> = sources.into_iter().collect();
        let seeds = SampleSeeds::of_type(predicted.src_type, sources.clone(), part.meta().node_types.len());
        // The number 0 stands for all batches of the epoch.
        let key = BatchKey { seed: combine(key.seed, STREAM), batch: 0, ..key };
        let sampled = self.sampler.sample(seeds, key).await?;
        let dst_type = predicted.dst_type;
        let reverses = self.reverses.clone();
        graph
            .run_on_workers(move || {
                let of_sources = negatives_of(&sampled, dst_type, &reverses, sources);
                edges.into_iter().map(|edge| (edge.at, chosen(&of_sources[&edge.src], &edge, num))).collect()
            })
            .await
    }
}

/// Returns the given negatives of sources, each once, in the order of the original edge lists.
fn negatives_of(
    sampled: &SampledSubgraph,
    dst_type: NodeTypeId,
    reverses: &BTreeSet<EdgeTypeId>,
    sources: Vec<u32>,
) -> FxHashMap<u32, Vec<u32>> {
    let ids = &sampled.nodes[dst_type.index()].ids;
    let mut of_sources = FxHashMap::default();
    for (row, source) in sources.into_iter().enumerate() {
        let mut negatives = Vec::new();
        let mut known = FxHashSet::default();
        for reverse in reverses {
            let edges = &sampled.edges[reverse.index()];
            for &number in &edges.indices[edges.indptr[row] as usize..edges.indptr[row + 1] as usize] {
                let id = ids[number as usize];
                if known.insert(id) {
                    negatives.push(id);
                }
            }
        }
        of_sources.insert(source, negatives);
    }
    of_sources
}

/// Draws at most `num` of the negatives of a source for an edge.
fn chosen(of_source: &[u32], edge: &Request, num: usize) -> Vec<u32> {
    let mut negatives = of_source.to_vec();
    negatives.retain(|&negative| negative != edge.dst);
    let mut rng = CounterRng::new(combine(edge.key, STREAM));
    for first in 0..negatives.len().min(num) {
        let chosen = first + rng.below((negatives.len() - first) as u64) as usize;
        negatives.swap(first, chosen);
    }
    negatives.truncate(num);
    negatives
}

/// Makes a sampler of neighbors over some edge types.
fn sampler_over(
    graph: &Arc<DistGraph>,
    part: &Part,
    edge_types: &BTreeSet<EdgeTypeId>,
    num: usize,
) -> Result<Arc<DistNeighborSampler>, LoaderError> {
    let fanout = Fanout::Count(MAX_PER_SOURCE.max(num as u32));
    let mut named = Vec::new();
    for edge_type in edge_types {
        named.push((part.meta().edge_types[edge_type.index()].full_name(), vec![fanout]));
    }
    let num_neighbors = NumNeighbors::new(Some(vec![Fanout::Count(0)]), named);
    let num_neighbors = num_neighbors.map_err(|what| LoaderError::Config { what })?;
    let sampler = DistNeighborSampler::new(graph.clone(), SamplerConfig::new(num_neighbors));
    Ok(Arc::new(sampler.map_err(|source| LoaderError::Seeds { source: Box::new(source) })?))
}

/// Returns the type with the reverses of a type's edges. A type among its own reverses may have one direction only.
fn reverse_of(relations: &EdgeRelations, edge_type: EdgeTypeId) -> Option<EdgeTypeId> {
    relations.reverses[edge_type.index()].iter().copied().find(|&reverse| reverse != edge_type)
}

/// Returns the reason why edge types cannot give negatives, if there is one.
fn refusal(
    graph: &DistGraph,
    relations: &EdgeRelations,
    predicted: &[EdgeTypeId],
    given: &[EdgeTypeId],
    negatives: NegativeSampling,
) -> Option<String> {
    if negatives.shared {
        return Some(
            "given negatives (`train_negatives`) belong to one source each: do not share negatives (`shared_negatives`)"
                .into(),
        );
    }
    if graph.is_client() {
        return Some(
            "servers look up no given negatives (`train_negatives`): train with the parts on this node \
             (`dataset_root_dir`), or leave them out"
                .into(),
        );
    }
    let part = graph.part();
    for given in given {
        let edges = &part.meta().edge_types[given.index()];
        let name = edges.full_name();
        if predicted.contains(given) {
            return Some(format!("{name} gives negatives (`train_negatives`) and is predicted: leave it out of one"));
        }
        let ends = relations.ends[given.index()];
        if !predicted.iter().any(|predicted| relations.ends[predicted.index()] == ends) {
            return Some(format!(
                "edges of type {name} give negatives (`train_negatives`), but no predicted edge type has the same source \
                 type and destination type: predict one that has (`edge_types`)"
            ));
        }
        if reverse_of(relations, *given).is_none() {
            return Some(format!(
                "edges of type {name} give negatives (`train_negatives`), which are looked up over their reverses, but no \
                 edge type has these: add them (`add_reverse_edges`), or name their type (`reverse_types`)"
            ));
        }
    }
    None
}
