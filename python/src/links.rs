//! The edges of loaders of links.

use crate::errors::{failed_in, invalid};
use crate::fork_guard::enter;
use crate::graph::OpenGraph;
use crate::seeds::{global_ids, not_made, original_ids, split_named};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{
    DistLinkNeighborLoader, EdgeRelations, EdgeSeeds, Exclude, LikelyReverse, LinkConfig, LoaderConfig,
    NegativeDistribution, NegativeSampling, SeedEdge, SharedSettings,
};
use edgecut_dist_sampler::DistNeighborSampler;
use edgecut_graph::{EdgeTypeId, EdgeTypeNames, Meta, NodeTypeId, Split};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use serde::Serialize;
use std::sync::Arc;

/// The settings of the edges. Their serialisation has what must be equal in all processes.
#[derive(FromPyObject, Serialize)]
#[pyo3(from_item_all)]
pub(crate) struct LinkSettings<'py> {
    /// The number of the edge type.
    #[serde(skip)]
    edge_type: u16,
    /// The original ids of the ends. Without them the edges are those of `split`.
    #[serde(skip)]
    src: Option<PyReadonlyArray1<'py, i64>>,
    #[serde(skip)]
    dst: Option<PyReadonlyArray1<'py, i64>>,
    #[serde(skip)]
    times: Option<PyReadonlyArray1<'py, i64>>,
    split: String,
    /// The layout of the negatives and the labels of the edges, which Python adds to the batches.
    neg_sampling: Option<String>,
    edge_label: Option<String>,
    #[serde(rename = "amount")]
    num_negatives: usize,
    exclude_seed_edges: bool,
    /// The numbers of edge types that are each other's reverse. Without them, other types are searched for reverses.
    #[serde(skip)]
    reverse_types: Option<Vec<(u16, u16)>>,
}

/// The edges, and the rule of their negatives.
pub(crate) struct LinkSeeds {
    edge_type: EdgeTypeId,
    ends: [NodeTypeId; 2],
    given: Option<[Vec<u32>; 2]>,
    times: Option<Vec<i64>>,
    split: Split,
    config: LinkConfig,
    /// True to look for edge types that hold reverses although nothing declares them.
    searches_reverses: bool,
}

impl LinkSettings<'_> {
    pub(crate) fn are_listed(&self) -> bool {
        self.src.is_some()
    }

    /// Adds the settings for a comparison over all processes.
    pub(crate) fn describe(&self, meta: &Meta, settings: SharedSettings) -> SharedSettings {
        let mut settings = settings.with_fields(self);
        if let Some(edges) = meta.edge_types.get(usize::from(self.edge_type)) {
            settings = settings.with("edge_type", [&edges.src_type, &edges.relation, &edges.dst_type]);
        }
        if let Some(pairs) = &self.reverse_types {
            settings = settings.with("reverse_types", pairs);
        }
        if let (Some(src), Some(dst)) = (&self.src, &self.dst) {
            let [src, dst] = [src.as_array(), dst.as_array()];
            settings = settings.with_list("edge_label_index", src.iter().chain(dst));
        }
        match &self.times {
            Some(times) => settings.with_list("edge_label_time", times.as_array()),
            None => settings,
        }
    }

    /// Copies the edges, so that threads without Python can use them.
    pub(crate) fn seeds(&self, graph: &OpenGraph) -> PyResult<LinkSeeds> {
        let part = graph.node().part();
        let edge_type = EdgeTypeId(self.edge_type);
        let edges = part.edges(edge_type);
        let ends = [edges.src_type, edges.dst_type];
        let given = match (&self.src, &self.dst) {
            (Some(src), Some(dst)) => {
                Some([original_ids(src.as_slice()?, graph, ends[0])?, original_ids(dst.as_slice()?, graph, ends[1])?])
            }
            _ => None,
        };
        let times = self.times.as_ref().map(|times| times.as_slice().map(<[i64]>::to_vec)).transpose()?;
        match (&given, &times) {
            (None, Some(_)) => return Err(invalid("`edge_label_time` needs a list of edges in `edge_label_index`")),
            (Some([src, _]), Some(times)) if times.len() != src.len() => {
                let what = format!("`edge_label_time` has {} entries for {} edges", times.len(), src.len());
                return Err(invalid(what));
            }
            _ => {}
        }
        let split = split_named(&self.split)?;
        let is_training = split == Split::Train;
        let negatives = NegativeSampling {
            num: self.num_negatives,
            distribution: NegativeDistribution::Uniform,
            // Held-out edges are not known during training.
            exclude: if is_training { Exclude::Edges } else { Exclude::EdgesAndHeldOut },
            shared: false,
        };
        let config = LinkConfig {
            negatives,
            exclude_seed_edges: self.exclude_seed_edges,
            reverse_types: self.reverse_types.iter().flatten().map(|&(a, b)| (EdgeTypeId(a), EdgeTypeId(b))).collect(),
            weights: false,
            given_negatives: Default::default(),
        };
        let searches_reverses = self.exclude_seed_edges && self.reverse_types.is_none();
        Ok(LinkSeeds { edge_type, ends, given, times, split, config, searches_reverses })
    }
}

impl LinkSeeds {
    /// Makes a loader, and returns its warnings. All ranks must call this.
    pub(crate) fn loader(
        self,
        graph: &OpenGraph,
        sampler: Arc<DistNeighborSampler>,
        config: LoaderConfig,
        world: &mut ProcessGroup,
    ) -> PyResult<(DistLinkNeighborLoader, Vec<String>)> {
        let edge_type = self.edge_type;
        let seeds = match self.given {
            Some([src, dst]) => {
                let src = global_ids(graph, self.ends[0], &src, world)?;
                let dst = global_ids(graph, self.ends[1], &dst, world)?;
                let time = |at: usize| self.times.as_ref().map(|times| times[at]);
                let ends = src.into_iter().zip(dst).enumerate();
                EdgeSeeds::Listed(
                    ends.map(|(at, (src, dst))| SeedEdge { edge_type, src, dst, time: time(at), position: None })
                        .collect(),
                )
            }
            None => EdgeSeeds::Split(self.split, vec![edge_type]),
        };
        let relations = EdgeRelations::new(graph.node().part(), &self.config.reverse_types);
        let cluster = graph.node().cluster();
        let relations = relations.map_err(|error| not_made(cluster, error))?;
        let mut warnings = Vec::new();
        if self.searches_reverses {
            let likely = relations.likely_reverses(graph.node(), edge_type, &seeds);
            for reverse in likely.map_err(|error| failed_in(cluster, &error))? {
                warnings.push(warning(graph.meta_data(), edge_type, reverse));
            }
        }
        let loader = DistLinkNeighborLoader::new(sampler, seeds, config, self.config, world);
        Ok((loader.map_err(|error| not_made(cluster, error))?, warnings))
    }
}

/// Returns true if two edge types, each given by source, relation and destination, hold each other's reverse edges by their names.
#[pyfunction]
pub(crate) fn are_reverses(one: [String; 3], other: [String; 3]) -> PyResult<bool> {
    enter()?;
    Ok(names(&one).is_reverse_of(&names(&other), &[]))
}

fn names([src, relation, dst]: &[String; 3]) -> EdgeTypeNames<'_> {
    EdgeTypeNames { src, relation, dst }
}

/// Returns the warning of an edge type that seems to hold the reverses of the seed edges.
fn warning(meta: &Meta, edge_type: EdgeTypeId, reverse: LikelyReverse) -> String {
    format!(
        "`exclude_seed_edges`: the reverse of {} of {} edges of {} is an edge of {}: if that type holds the reverse edges, messages \
         over it tell which edges exist: name the pair in `reverse_types`, or pass `reverse_types=[]` if it holds other edges",
        reverse.num_found,
        reverse.num_edges,
        meta.edge_types[edge_type.index()].full_name(),
        meta.edge_types[reverse.edge_type.index()].full_name()
    )
}
