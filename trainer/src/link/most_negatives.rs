//! The numbers of negatives that held-out edges are ranked against.

use super::config::{LinkEvaluation, LinkTrainingConfig, RankedEnds, target_edge_types};
use super::given::given_edge_types;
use super::judged::depths_of;
use crate::error::TrainError;
use edgecut_graph::{EdgeTypeMeta, Meta, NegativesMeta, Split};

/// The most negatives that an edge of each split is ranked against; 0 for a split without edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MostNegatives {
    valid: u64,
    test: u64,
}

impl MostNegatives {
    /// Counts the negatives.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the edges of a split have no negatives, or if the metric counts hits at a depth above their
    /// number: every edge would be a hit, whatever the model.
    pub(super) fn new(meta: &Meta, config: &LinkTrainingConfig) -> Result<Self, TrainError> {
        let edge_types = match config.eval_negatives {
            LinkEvaluation::Given => given_edge_types(meta, config)?,
            LinkEvaluation::Sampled(_) | LinkEvaluation::Filtered => target_edge_types(meta, config)?,
        };
        let mut most = [0; 2];
        for (at, split) in ["validation", "test"].into_iter().enumerate() {
            let types = edge_types.iter().map(|e| &meta.edge_types[e.index()]).filter(|edges| edges.held_out[at] > 0);
            let Some(negatives) = types.map(|edges| most_of_type(meta, edges, at, config)).max() else { continue };
            most[at] = negatives;
            let fail = |what: String| Err(TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) });
            if negatives == 0 {
                return fail(format!(
                    "the {split} edges have no negatives to be ranked against: give them negatives, or predict edges of \
                     a type with several destinations (`edge_types`)"
                ));
            }
            if let Some(depth) = depths_of(&config.metric).into_iter().find(|&depth| u64::from(depth) > negatives) {
                return fail(format!(
                    "hits@{depth} needs at least {depth} negatives, but the {split} edges have at most {negatives}, so that edges \
                     count as hits whatever the model is: choose a smaller K, another metric such as `metric=mrr`, or \
                     more negatives (`eval_negatives`)"
                ));
            }
        }
        let [valid, test] = most;
        Ok(Self { valid, test })
    }

    /// Returns the number for the validation or the test edges.
    pub(super) fn of(self, split: Split) -> u64 {
        if split == Split::Test { self.test } else { self.valid }
    }
}

/// Returns the most negatives of an edge of a type in the validation edges (`at` is 0) or in the test edges.
fn most_of_type(meta: &Meta, edges: &EdgeTypeMeta, at: usize, config: &LinkTrainingConfig) -> u64 {
    let others = |name: &str| {
        let nodes = meta.node_types.iter().find(|nodes| nodes.name == name);
        nodes.map_or(0, |nodes| nodes.book.num_nodes().saturating_sub(1)) as u64
    };
    match config.eval_negatives {
        // Sampled negatives may repeat, but there has to be one.
        LinkEvaluation::Sampled(num) if others(&edges.dst_type) > 0 => num as u64,
        LinkEvaluation::Sampled(_) => 0,
        LinkEvaluation::Filtered if config.rank == RankedEnds::Both => {
            others(&edges.src_type).max(others(&edges.dst_type))
        }
        LinkEvaluation::Filtered => others(&edges.dst_type),
        LinkEvaluation::Given => match edges.negatives[at] {
            Some(NegativesMeta::OfEach(num)) => num,
            Some(NegativesMeta::Shared(num)) => num,
            None => 0,
        },
    }
}
