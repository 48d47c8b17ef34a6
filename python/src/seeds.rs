//! Input nodes of loaders, and the checks of ids and names.

use crate::errors::{failed_in, invalid};
use crate::graph::OpenGraph;
use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, LoaderError, NodeClusters, Seeds};
use edgecut_dist_sampler::DistNeighborSampler;
use edgecut_graph::{NodeTypeId, Split};
use pyo3::prelude::*;
use std::sync::Arc;

/// The input nodes of a loader.
pub(crate) struct NodeSeeds {
    pub(crate) node_type: NodeTypeId,
    pub(crate) given: Option<Vec<u32>>,
    pub(crate) times: Option<Vec<i64>>,
    pub(crate) split: Option<Split>,
    /// The position of the first node of each cluster in `given`, or among all nodes by global id, and the number of nodes.
    pub(crate) clusters: Option<Vec<u32>>,
}

impl NodeSeeds {
    pub(crate) fn loader(
        self,
        graph: &OpenGraph,
        sampler: Arc<DistNeighborSampler>,
        mut config: LoaderConfig,
        world: &mut ProcessGroup,
    ) -> PyResult<DistNeighborLoader> {
        let node_type = self.node_type;
        let seeds = match (self.clusters, self.given, self.times, self.split) {
            (Some(starts), given, _, _) => {
                let ids = match given {
                    Some(given) => Some(global_ids(graph, node_type, &given, world)?),
                    None => None,
                };
                let clusters = NodeClusters::new(ids, starts);
                Seeds::Clusters(clusters.map_err(|error| not_made(graph.node().cluster(), error))?)
            }
            (None, Some(given), times, _) => {
                let ids = global_ids(graph, node_type, &given, world)?;
                match times {
                    Some(times) if times.len() != ids.len() => {
                        let what = format!("`input_time` has {} entries for {} input nodes", times.len(), ids.len());
                        return Err(invalid(what));
                    }
                    Some(times) => Seeds::Timed(ids.into_iter().zip(times).collect()),
                    None => Seeds::Listed(ids),
                }
            }
            (None, None, Some(_), _) => return Err(invalid("`input_time` needs a list of ids in `input_nodes`")),
            (None, None, None, Some(split)) => Seeds::Split(split),
            (None, None, None, None) => Seeds::Owned,
        };
        config.wanted.labels = graph.meta_data().node_types[node_type.index()].is_labeled();
        let loader = DistNeighborLoader::new(sampler, node_type, seeds, config, world);
        loader.map_err(|error| not_made(graph.node().cluster(), error))
    }
}

/// Looks up nodes by their original ids. All ranks must call this.
pub(crate) fn global_ids(
    graph: &OpenGraph,
    node_type: NodeTypeId,
    originals: &[u32],
    world: &mut ProcessGroup,
) -> PyResult<Vec<u32>> {
    let graph = graph.node();
    let found = graph
        .make_directory(node_type, false, world)
        .and_then(|()| graph.handle().block_on(graph.find_originals(node_type, originals)));
    found.map_err(|error| failed_in(graph.cluster(), &error))
}

/// Converts the error of a loader that cannot be made.
pub(crate) fn not_made(cluster: &Cluster, error: LoaderError) -> PyErr {
    match error {
        LoaderError::Config { what } => invalid(what),
        error => failed_in(cluster, &error),
    }
}

/// Converts ids of nodes.
pub(crate) fn original_ids(ids: &[i64], graph: &OpenGraph, node_type: NodeTypeId) -> PyResult<Vec<u32>> {
    let nodes = &graph.meta_data().node_types[node_type.index()];
    let num_nodes = nodes.book.num_nodes();
    let checked = ids.iter().map(|&id| match u32::try_from(id) {
        Ok(small) if (small as usize) < num_nodes => Ok(small),
        _ => Err(invalid(format!("node {id} is not one of the {num_nodes} nodes of type {}", nodes.name))),
    });
    checked.collect()
}

pub(crate) fn split_named(name: &str) -> PyResult<Split> {
    match name {
        "train" => Ok(Split::Train),
        "valid" => Ok(Split::Valid),
        "test" => Ok(Split::Test),
        _ => Err(invalid(format!("{name:?} is not a split: choose from train, valid and test"))),
    }
}
