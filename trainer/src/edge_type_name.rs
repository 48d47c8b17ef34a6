//! Names of edge types.

use crate::error::TrainError;
use edgecut_graph::{EdgeTypeId, EdgeTypeMeta, Meta};
use edgecut_settings::suggestion;

/// Returns the edge types of pairs that are declared as the reverse of each other: the given pairs in their order, then the
/// other pairs that the parts declare.
///
/// # Errors
/// [`TrainError::Config`] for an unknown or ambiguous name.
pub(crate) fn reverse_edge_types(
    meta: &Meta,
    pairs: &[(String, String)],
) -> Result<Vec<(EdgeTypeId, EdgeTypeId)>, TrainError> {
    let mut found = Vec::with_capacity(pairs.len());
    for (one, other) in pairs {
        found.push((edge_type(meta, one)?, edge_type(meta, other)?));
    }
    for (one, other) in meta.declared_reverses() {
        if !found.contains(&(one, other)) && !found.contains(&(other, one)) {
            found.push((one, other));
        }
    }
    Ok(found)
}

/// Returns the edge type with a name: `author__writes__paper`, or only the relation if it is unique.
pub(crate) fn edge_type(meta: &Meta, name: &str) -> Result<EdgeTypeId, TrainError> {
    let all: Vec<String> = meta.edge_types.iter().map(EdgeTypeMeta::full_name).collect();
    let found: Vec<usize> = match all.iter().position(|triple| triple == name) {
        Some(exact) => vec![exact],
        None => (0..all.len()).filter(|&e| meta.edge_types[e].relation == name).collect(),
    };
    match found[..] {
        [only] => Ok(EdgeTypeId(only as u16)),
        [] => {
            let relations = meta.edge_types.iter().map(|edges| edges.relation.as_str());
            let hint = suggestion(name, all.iter().map(String::as_str).chain(relations));
            let what = format!("there is no edge type {name}{hint}: the graph has {}", all.join(", "));
            Err(TrainError::Config { what })
        }
        _ => Err(TrainError::Config {
            what: format!("several edge types have the relation {name}: use a full name such as {}", all[found[0]]),
        }),
    }
}
