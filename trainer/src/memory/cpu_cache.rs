//! The cache of other parts' features in the memory of a machine.

use crate::error::TrainError;
use edgecut_dist_loader::LoaderError;
use edgecut_dist_sampler::{CacheSize, DistGraph, Hotness, LookAhead};
use edgecut_settings::words;
use serde::Serialize;
use std::sync::Arc;

/// The number of batches that are sampled to find the most frequently sampled nodes.
const BATCHES_TO_COUNT: usize = 256;

/// The features of other parts' nodes that a machine keeps in memory, so that they are not fetched for each batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuCache {
    /// The limit on the rows of a machine.
    pub size: CacheSize,
    /// The ranking by which nodes are chosen. `None` is the ranking that is stored with the part, which is made for
    /// batches of nodes, or else [`NodeRanking::Presample`].
    pub ranking: Option<NodeRanking>,
    /// The number of batches that are sampled ahead for [`NodeRanking::LookAhead`].
    pub num_ahead: usize,
}

/// The ranking by which nodes are chosen for a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRanking {
    /// The ranking that was stored with the part (`partition-graph --hotness`).
    Stored,
    /// The number of batches of the first epoch that contain a node, counted in up to 256 batches per rank.
    Presample,
    /// The in-degree of a node in the whole graph. Needs no sampling, but knows nothing of seeds and fan-outs.
    InDegree,
    /// The next use of a node. The cache changes from batch to batch: each process samples some batches ahead, and keeps the
    /// rows whose next use is nearest.
    LookAhead,
}

words!(
    NodeRanking,
    "ranking of nodes",
    Stored = "stored",
    Presample = "presample",
    InDegree = "in-degree",
    LookAhead = "look-ahead",
);

impl CpuCache {
    /// Fills the cache. `count` samples the given number of batches and counts their nodes. `has_node_seeds` is true if
    /// the seeds are the nodes of the own part.
    ///
    /// # Errors
    /// An error while sampling or fetching.
    pub(crate) fn fill(
        self,
        graph: &Arc<DistGraph>,
        has_node_seeds: bool,
        count: impl FnOnce(usize) -> Result<Hotness, LoaderError>,
    ) -> Result<(), TrainError> {
        if graph.part().meta().num_parts == 1 {
            return Ok(());
        }
        let hotness = match self.ranking {
            Some(NodeRanking::LookAhead) => {
                graph.look_ahead(LookAhead { size: self.size, num_batches: self.num_ahead })?;
                return Ok(());
            }
            Some(NodeRanking::Presample) => count(BATCHES_TO_COUNT)?,
            Some(NodeRanking::InDegree) => graph.in_degrees_elsewhere()?,
            Some(NodeRanking::Stored) => graph.stored_hotness().ok_or_else(|| TrainError::Config {
                what:
                    "`cache_ranking` is stored, but this process holds no parts with a ranking: partition again with \
                       --hotness, or rank by presample"
                        .into(),
            })?,
            None => match graph.stored_hotness().filter(|stored| has_node_seeds && !stored.is_empty()) {
                Some(stored) => stored,
                None => count(BATCHES_TO_COUNT)?,
            },
        };
        graph.cache_features(hotness, self.size)?;
        Ok(())
    }
}
