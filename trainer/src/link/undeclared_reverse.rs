//! Edge types that seem to hold the reverses of the edges to predict, although neither a name nor a setting says so.

use super::config::{LinkTrainingConfig, held_out_of, target_edge_types};
use crate::edge_type_name::reverse_edge_types;
use crate::error::TrainError;
use edgecut_dist_loader::{EdgeRelations, EdgeSeeds};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::Split;
use std::sync::Arc;

/// Returns a note for each edge type in the opposite direction of a type to predict that has the reverses of at least half of
/// some held-out edges of this process, and is not declared as its reverse.
///
/// # Errors
/// [`TrainError::Config`] for types that `config` names wrongly. An error of a peer.
pub fn undeclared_reverses(graph: &Arc<DistGraph>, config: &LinkTrainingConfig) -> Result<Vec<String>, TrainError> {
    let meta = graph.part().meta();
    let relations = EdgeRelations::new(graph.part(), &reverse_edge_types(meta, &config.reverse_types)?)?;
    let mut notes = Vec::new();
    for edge_type in target_edge_types(meta, config)? {
        let [has_validation, _] = held_out_of(meta, &[edge_type]);
        let split = if has_validation { Split::Valid } else { Split::Test };
        let seeds = EdgeSeeds::Split(split, vec![edge_type]);
        for reverse in relations.likely_reverses(graph, edge_type, &seeds)? {
            let one = meta.edge_types[edge_type.index()].full_name();
            let other = meta.edge_types[reverse.edge_type.index()].full_name();
            notes.push(format!(
                "note: edge type {one}: the reverse of {} of {} held-out edges is a training edge of {other}; if \
                 that type holds the reverse edges, messages over it leak held-out edges: declare it \
                 (--reverse-types {one}={other}), or leave it out and add reverse edges (--add-reverse-edges)",
                reverse.num_found, reverse.num_edges
            ));
        }
    }
    Ok(notes)
}
