//! The edges of loaders of links.

use crate::errors::invalid;
use crate::graph::OpenGraph;
use crate::seeds::{global_ids, not_made, original_ids, split_named};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{
    DistLinkNeighborLoader, EdgeSeeds, Exclude, LinkConfig, LoaderConfig, NegativeDistribution, NegativeSampling,
    SeedEdge,
};
use edgecut_dist_sampler::DistNeighborSampler;
use edgecut_graph::{EdgeTypeId, NodeTypeId, Split};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use std::sync::Arc;

/// The settings of the edges.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct LinkSettings<'py> {
    /// The number of the edge type.
    edge_type: u16,
    /// The original ids of the ends. Without them the edges are those of `split`.
    src: Option<PyReadonlyArray1<'py, i64>>,
    dst: Option<PyReadonlyArray1<'py, i64>>,
    times: Option<PyReadonlyArray1<'py, i64>>,
    split: String,
    num_negatives: usize,
    exclude_seed_edges: bool,
}

/// The edges, and the rule of their negatives.
pub(crate) struct LinkSeeds {
    pub(crate) edge_type: EdgeTypeId,
    ends: [NodeTypeId; 2],
    pub(crate) given: Option<[Vec<u32>; 2]>,
    times: Option<Vec<i64>>,
    pub(crate) split: Split,
    config: LinkConfig,
}

impl LinkSettings<'_> {
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
            reverse_types: Vec::new(),
            weights: false,
            given_negatives: Default::default(),
        };
        Ok(LinkSeeds { edge_type, ends, given, times, split, config })
    }
}

impl LinkSeeds {
    /// Makes a loader. All ranks must call this.
    pub(crate) fn loader(
        self,
        graph: &OpenGraph,
        sampler: Arc<DistNeighborSampler>,
        config: LoaderConfig,
        world: &mut ProcessGroup,
    ) -> PyResult<DistLinkNeighborLoader> {
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
        let loader = DistLinkNeighborLoader::new(sampler, seeds, config, self.config, world);
        loader.map_err(|error| not_made(graph, error))
    }
}
