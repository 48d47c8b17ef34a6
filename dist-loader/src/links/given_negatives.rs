//! Negatives that come before drawn ones: from edges of other types, from lists of pairs, and from ranks of earlier epochs.

use crate::error::LoaderError;
use crate::links::edge_relations::EdgeRelations;
use crate::links::negative_pairs::{ChangingNegatives, NegativePairs, choose_positions};
use crate::links::negatives::{EdgeKey, NegativeSampling};
use crate::seeds::edge_seeds::SeedEdge;
use edgecut_dist_sampler::{
    BatchKey, DistGraph, DistNeighborSampler, ExcludedEdge, Fanout, NumNeighbors, SampleError, SampleSeeds,
    SampledSubgraph, SamplerConfig,
};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeTypeId, NodeTypeId, Part};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Combined with the keys of draws (the bytes spell "given"), so that given and drawn negatives use different random
/// numbers.
const STREAM: u64 = 0x67_6976_656e;
/// The same for listed pairs (the bytes spell "listed").
const LISTED_STREAM: u64 = 0x6c69_7374_6564;
/// The same for pairs that change (the bytes spell "ranked").
const CHANGING_STREAM: u64 = 0x7261_6e6b_6564;
/// The most given negatives of a source over edges that an epoch reads, unless an edge needs more.
const MAX_PER_SOURCE: u32 = 256;

/// The sources of negatives that come before drawn ones. The negatives of an edge come from the first source, then from the
/// next, up to their number; the choice among more is by chance.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NegativeSources {
    /// Edge types that give negatives: a destination to which an edge of such a type leads from the source of a seed edge
    /// is its negative. These edges carry no messages in a batch in which they are negatives.
    pub edge_types: Vec<EdgeTypeId>,
    /// Pairs of sources and negatives, by predicted edge type.
    #[serde(skip)]
    pub listed: Vec<(EdgeTypeId, Arc<NegativePairs>)>,
    /// Pairs that change between epochs.
    #[serde(skip)]
    pub changing: Option<ChangingNegatives>,
    /// The most negatives of an edge from these sources. The others are drawn. `None` is the number of negatives.
    pub max_per_edge: Option<usize>,
    /// True to take all negatives from the dataset, which gives as many to each of the held-out edges that are seeds. None are
    /// drawn. A negative gets the time of its edge.
    pub of_held_out: bool,
}

impl NegativeSources {
    /// Returns true if there is no source.
    pub fn is_empty(&self) -> bool {
        self.edge_types.is_empty() && self.listed.is_empty() && self.changing.is_none()
    }
}

/// The given negatives of predicted edge types. An edge of a given type states that its destination is a negative of its
/// source.
///
/// Invariant: the given negatives of an edge are a function of the seed, the epoch, the original ids of its ends and the listed
/// pairs, as drawn negatives are.
#[derive(Default)]
pub(crate) struct GivenNegatives {
    /// By predicted edge type.
    of_types: BTreeMap<EdgeTypeId, GivenOfType>,
    /// By predicted edge type.
    listed: BTreeMap<EdgeTypeId, Arc<NegativePairs>>,
    changing: Option<ChangingNegatives>,
    max_per_edge: Option<usize>,
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
    /// Checks the `sources`, and makes the samplers of their edges.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a given type that is predicted itself, that has other ends than all predicted types, or
    /// whose reverse edges are in no type; for given types on a client of servers; for pairs of a type that is not predicted;
    /// and for shared negatives.
    pub(crate) fn new(
        graph: &Arc<DistGraph>,
        relations: &EdgeRelations,
        predicted: &[EdgeTypeId],
        sources: &NegativeSources,
        negatives: NegativeSampling,
    ) -> Result<Self, LoaderError> {
        if sources.is_empty() {
            return Ok(Self::default());
        }
        let part = graph.part();
        let given = &sources.edge_types;
        if let Some(what) = refusal(graph, relations, predicted, sources, negatives) {
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
        Ok(Self {
            of_types,
            listed: sources.listed.iter().cloned().collect(),
            changing: sources.changing.clone(),
            max_per_edge: sources.max_per_edge,
        })
    }

    /// Returns the given negatives of each edge, at most `num`, each once and without the destination of the edge. `keys`
    /// are the keys of the edges.
    pub(crate) async fn of_edges(
        &self,
        graph: &Arc<DistGraph>,
        key: BatchKey,
        edges: &[SeedEdge],
        keys: &[EdgeKey],
        num: usize,
    ) -> Result<Vec<Vec<u32>>, SampleError> {
        let num = self.max_per_edge.map_or(num, |most| most.min(num));
        let mut found = vec![Vec::new(); edges.len()];
        for (&edge_type, of_type) in &self.of_types {
            let mut of_edges = Vec::new();
            for (at, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.edge_type == edge_type) {
                of_edges.push(Request { at, src: edge.src, dst: edge.dst, key: keys[at].key });
            }
            if of_edges.is_empty() {
                continue;
            }
            for (at, negatives) in of_type.choose(key, edge_type, of_edges, num).await? {
                found[at] = negatives;
            }
        }
        let mut listed = Vec::new();
        for (&edge_type, pairs) in &self.listed {
            listed.push((edge_type, pairs.clone()));
        }
        add_pairs(graph, edges, keys, &listed, Choice { num, stream: LISTED_STREAM }, &mut found).await?;
        if let Some(changing) = &self.changing {
            let predicted: BTreeSet<EdgeTypeId> = edges.iter().map(|edge| edge.edge_type).collect();
            let mut pairs = Vec::new();
            for edge_type in predicted {
                pairs.extend(changing.get(edge_type).map(|of_type| (edge_type, of_type)));
            }
            add_pairs(graph, edges, keys, &pairs, Choice { num, stream: CHANGING_STREAM }, &mut found).await?;
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
    choose_positions(negatives.len(), num, &mut rng).into_iter().map(|position| negatives[position]).collect()
}

/// A choice by chance.
#[derive(Clone, Copy)]
struct Choice {
    /// The most negatives of an edge, with those that are found before.
    num: usize,
    /// The random numbers.
    stream: u64,
}

/// Adds negatives from pairs of some edge types to those that are found.
async fn add_pairs(
    graph: &Arc<DistGraph>,
    edges: &[SeedEdge],
    keys: &[EdgeKey],
    pairs: &[(EdgeTypeId, Arc<NegativePairs>)],
    choice: Choice,
    found: &mut [Vec<u32>],
) -> Result<(), SampleError> {
    for (edge_type, pairs) in pairs {
        let mut owners = Vec::new();
        let mut originals = Vec::new();
        for at in (0..edges.len()).filter(|&at| edges[at].edge_type == *edge_type) {
            let EdgeKey { key, src, dst } = keys[at];
            let mut rng = CounterRng::new(combine(key, choice.stream));
            let chosen = pairs.choose(src, dst, choice.num.saturating_sub(found[at].len()), &mut rng);
            owners.resize(owners.len() + chosen.len(), at);
            originals.extend(chosen);
        }
        if originals.is_empty() {
            continue;
        }
        let ids = graph.find_originals(graph.part().edges(*edge_type).dst_type, &originals).await?;
        for (at, id) in owners.into_iter().zip(ids) {
            // Another source may have given the same negative.
            if !found[at].contains(&id) {
                found[at].push(id);
            }
        }
    }
    Ok(())
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
    Ok(Arc::new(sampler.map_err(LoaderError::seeds)?))
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
    sources: &NegativeSources,
    negatives: NegativeSampling,
) -> Option<String> {
    if negatives.shared {
        return Some(
            "given negatives (`train_negatives`, `negative_pairs`, `ranked_negatives`) belong to one source each: do not share \
             negatives (`shared_negatives`)"
                .into(),
        );
    }
    if let Some((edge_type, _)) = sources.listed.iter().find(|(edge_type, _)| !predicted.contains(edge_type)) {
        let name = graph.part().meta().edge_types[edge_type.index()].full_name();
        return Some(format!("negatives of edges of type {name} are listed, which is not predicted: leave them out"));
    }
    let given = &sources.edge_types;
    if graph.is_client() && !given.is_empty() {
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
