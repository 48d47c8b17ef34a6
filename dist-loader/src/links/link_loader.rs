//! A loader of batches of edges, made ahead of the trainer.

use crate::batch::collate::Collation;
use crate::error::LoaderError;
use crate::links::edge_relations::EdgeRelations;
use crate::links::given_negatives::{GivenNegatives, NegativeSources};
use crate::links::link_batches::LinkBatches;
use crate::links::negatives::{Exclude, NegativeSampler, NegativeSampling};
use crate::loader_config::LoaderConfig;
use crate::prefetch::seed_loader::SeedLoader;
use crate::seeds::edge_seeds::{EdgeIndex, EdgeSeeds};
use crate::seeds::seed_plan::{SeedPlan, Shuffle};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraph, DistNeighborSampler};
use edgecut_graph::{EdgeTypeId, NegativesMeta, Part, Split};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most negatives of one batch. Each is a seed of its neighborhood.
const MAX_NEGATIVES: usize = 1 << 25;

/// The configuration of link batches, in addition to [`LoaderConfig`].
#[derive(Clone, Debug, Serialize)]
pub struct LinkConfig {
    /// The negatives to draw.
    pub negatives: NegativeSampling,
    /// True to exclude the edges of a batch and their reverses from message passing, since they would reveal the
    /// answer. They are removed from the drawn neighbors, as in DGL, so a node at such an edge may have fewer neighbors
    /// than its fan-out.
    pub exclude_seed_edges: bool,
    /// Pairs of edge types that are each other's reverse, in addition to those that names imply: `rev_writes` is the
    /// reverse of `writes`, and a type that connects a node type with itself may contain both directions.
    pub reverse_types: Vec<(EdgeTypeId, EdgeTypeId)>,
    /// True to fetch the weights of the edges of a batch. They must be training edges.
    pub weights: bool,
    /// The sources of negatives that come before drawn ones.
    pub given_negatives: NegativeSources,
}

/// A loader of a rank's mini-batches of edges, epoch by epoch. All ranks of the job take the same number of steps.
///
/// ```
/// # let loader = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_link_loader.rs"));
/// use edgecut_dist_loader::Negatives;
/// let batch = loader.epoch(0).next().expect("a batch")?;
/// assert_eq!(batch.src.len(), 32);
/// let Negatives::OfEach { num: 2, dst } = &batch.negatives else { panic!("two negatives per edge") };
/// assert_eq!(dst.len(), 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type DistLinkNeighborLoader = SeedLoader<LinkBatches>;

impl DistLinkNeighborLoader {
    /// Makes a loader for `seeds`. Every rank of `world` must call this, in the same order as other collectives.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for other settings or another list than on the other ranks, for a batch size of 0, for shared negatives with exclusion of edges or in temporal
    /// sampling, for too many negatives per batch, for more distinct negatives than there are nodes, for wrong reverse
    /// types, for edges without requested weights, for sources that cannot give negatives, for another number of negatives than
    /// the dataset gives to held-out edges, and for edges without times in temporal sampling. [`LoaderError::Graph`] if servers do not tell the edges or negatives cannot be looked up. [`LoaderError::Agree`] if the ranks
    /// cannot agree on the number of steps.
    pub fn new(
        sampler: Arc<DistNeighborSampler>,
        seeds: EdgeSeeds,
        config: LoaderConfig,
        link: LinkConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let invalid = |what: String| Err(LoaderError::Config { what });
        let listed = seeds.are_listed();
        // Before any error of one rank and any request, for which others would wait.
        let settings = config.shared_settings(&sampler, listed).with_fields(&link);
        let settings = settings.with_list("given_negatives.listed", &link.given_negatives.listed);
        seeds.describe(settings).agree(world)?;
        config.check(&sampler)?;
        if link.negatives.shared && link.negatives.exclude != Exclude::Nothing {
            return invalid(
                "negatives that a batch shares may be neighbors of some of its edges: draw them per edge, or do not \
                 exclude edges"
                    .into(),
            );
        }
        if link.negatives.shared && sampler.temporal().is_some() {
            return invalid(
                "negatives that a batch shares have no time: draw them per edge in temporal sampling".into(),
            );
        }
        let graph = sampler.node();
        let part = graph.part();
        let edge_types: Vec<EdgeTypeId> = match &seeds {
            EdgeSeeds::Split(_, edge_types) | EdgeSeeds::Negatives(_, edge_types) => edge_types.clone(),
            EdgeSeeds::Labeled(_, edge_type) => vec![*edge_type],
            EdgeSeeds::Listed(edges) => {
                edges.iter().map(|edge| edge.edge_type).collect::<BTreeSet<_>>().into_iter().collect()
            }
        };
        if !link.negatives.shared && config.batch_size.saturating_mul(link.negatives.num) > MAX_NEGATIVES {
            let batch_size = config.batch_size;
            let num = link.negatives.num;
            return invalid(format!(
                "{num} negatives for each of {batch_size} edges exceed {MAX_NEGATIVES} per batch: reduce one of them, \
                 or share the negatives"
            ));
        }
        if let Some(why) = too_few_nodes(part, &edge_types, link.negatives) {
            return invalid(why);
        }
        if link.weights
            && let Some(why) = lacks_weights(part, &seeds, &edge_types)
        {
            return invalid(why);
        }
        let relations = Arc::new(EdgeRelations::new(part, &link.reverse_types)?);
        let of_held_out = if link.given_negatives.of_held_out {
            Some(Arc::new(given_of_held_out(graph, &seeds, link.negatives.num)?))
        } else {
            None
        };
        let index = EdgeIndex::new(graph, seeds).map_err(LoaderError::seeds)?;
        index.check_len()?;
        if let (Some(_), Some(why)) = (sampler.temporal(), index.lacks_times(part)) {
            return invalid(why);
        }
        let given = GivenNegatives::new(graph, &relations, &edge_types, &link.given_negatives, link.negatives)?;
        // Negatives are looked up for the types that they are drawn for.
        let drawn_types: &[EdgeTypeId] = if of_held_out.is_some() { &[] } else { &edge_types };
        let negatives = Arc::new(NegativeSampler::new(link.negatives, given, &sampler, drawn_types, world)?);
        let mut plan = SeedPlan::new(index.len(), listed, Shuffle::Permutation, &config, graph, world);
        let agreed = plan.agree(config.even_batches, world)?;
        let collation = Collation { sampler, wanted: config.wanted, cache: config.cache.clone(), rows: Vec::new() };
        let batches = LinkBatches {
            collation,
            index: Arc::new(index),
            negatives,
            of_held_out,
            num_negatives: link.negatives,
            exclude_seed_edges: link.exclude_seed_edges,
            relations,
            weights: link.weights,
        };
        Ok(SeedLoader::planned(batches, plan, agreed, &config))
    }
}

/// Returns the given negatives of held-out edges, `num` for each, edge by edge.
fn given_of_held_out(graph: &DistGraph, seeds: &EdgeSeeds, num: usize) -> Result<EdgeIndex, LoaderError> {
    let EdgeSeeds::Split(split @ (Split::Valid | Split::Test), edge_types) = seeds else {
        return Err(LoaderError::Config { what: "the dataset gives negatives to held-out edges only".into() });
    };
    for edge_type in edge_types {
        let edges = &graph.part().meta().edge_types[edge_type.index()];
        let at = usize::from(*split == Split::Test);
        if edges.held_out[at] > 0 && edges.negatives[at] != Some(NegativesMeta::OfEach(num as u64)) {
            let what = format!(
                "{num} negatives were requested for each held-out {} edge of type {}, but the dataset does not give this number",
                split.name(),
                edges.full_name()
            );
            return Err(LoaderError::Config { what });
        }
    }
    let index = EdgeIndex::new(graph, EdgeSeeds::Negatives(*split, edge_types.clone()));
    let index = index.map_err(LoaderError::seeds)?;
    index.check_len()?;
    Ok(index)
}

/// Returns the reason why the seeds have no weights, if there is one.
fn lacks_weights(part: &Part, seeds: &EdgeSeeds, edge_types: &[EdgeTypeId]) -> Option<String> {
    if !matches!(seeds, EdgeSeeds::Split(Split::Train, _)) {
        return Some("only training edges have weights: do not request weights of other edges".into());
    }
    let all = &part.meta().edge_types;
    let edges = edge_types.iter().map(|edge_type| &all[edge_type.index()]).find(|edges| !edges.has_weights)?;
    Some(format!(
        "edges of type {}__{}__{} have no weights: store weights, or do not weight edges in the loss (`weighted_loss`)",
        edges.src_type, edges.relation, edges.dst_type
    ))
}

/// Returns the reason why no edge of some type can have distinct negatives, if there is one.
fn too_few_nodes(part: &Part, edge_types: &[EdgeTypeId], negatives: NegativeSampling) -> Option<String> {
    if negatives.exclude != Exclude::Edges {
        return None;
    }
    let num = negatives.num;
    for &edge_type in edge_types {
        let edges = &part.meta().edge_types[edge_type.index()];
        let nodes = &part.meta().node_types[part.edges(edge_type).dst_type.index()];
        let num_nodes = nodes.book.num_nodes();
        // An edge's own destination is not among its negatives.
        if num > 0 && num >= num_nodes {
            return Some(format!(
                "{num} distinct negatives were requested for an edge of type {}__{}__{}, but there are only {num_nodes} \
                 nodes of type {}, one of which is its destination: request fewer, or do not exclude edges",
                edges.src_type, edges.relation, edges.dst_type, nodes.name
            ));
        }
    }
    None
}
