//! Inference over all nodes of a graph.
//!
//! [`layer_wise`] computes each layer over all nodes with all neighbors before the next one, so that no row is computed
//! twice. The result equals a full-neighbor evaluation.
//!
//! [`LinkEnds`] scores pairs of nodes by such rows, and [`TopDestinations`] finds the pairs with the highest scores.
//! [`predict_graphs`] computes rows of whole graphs. [`explain_nodes`], [`explain_edges`](crate::edge::explain_edges) and
//! [`explain_graphs`] compute the inputs that predictions rest on.

mod destinations;
pub(crate) mod explanation;
mod graphs;
mod known_edges;
mod layer_wise;
mod link_ends;
mod predict;
mod ranking_report;
mod scored_node;
mod top_destinations;

pub use crate::inference_progress::{InferenceProgress, InferenceStep};
pub use crate::models::LayeredModel;
pub(crate) use destinations::{Destinations, KnownDestinations};
pub use explanation::{
    Contribution, ExplainedInput, Explanation, ExplanationConfig, ExplanationRun, ExplanationVisitor, explain_graphs,
    explain_nodes,
};
pub use graphs::{GraphPredictionConfig, WantedGraphRows, predict_graphs};
pub use known_edges::ExcludedEdges;
pub(crate) use known_edges::{candidates, for_each_reverse};
pub use layer_wise::{LayerWiseConfig, LayerWiseInput, layer_wise};
pub(crate) use layer_wise::{layer_wise_types, write_rows};
pub(crate) use link_ends::pulled;
pub use link_ends::{LinkEnds, encode_link_ends, link_edge_type};
pub(crate) use predict::with_own_neighborhoods;
pub use predict::{Neighborhoods, PredictionConfig, PredictionJob, WantedRows, predict_node, predict_outputs};
pub use ranking_report::{RankingMetrics, RankingReport};
pub use scored_node::ScoredNode;
pub use top_destinations::{TopDestinations, TopDestinationsConfig, find_top_destinations};
