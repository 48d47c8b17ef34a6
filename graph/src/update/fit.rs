//! The check that changes fit the types of existing parts.

use super::{EdgeUpdate, GraphUpdate, NodeUpdate};
use crate::dataset::{EdgeLabelKind, TargetMeta, Targets};
use crate::memory::{FeatureDtype, Features};
use crate::part::edge_dir_name;
use crate::{EdgeTypeMeta, Meta, NodeTypeMeta};

/// Checks that changes have the types and attributes of the parts.
///
/// # Errors
/// Describes the first difference.
pub(super) fn check(meta: &Meta, update: &GraphUpdate) -> Result<(), String> {
    if update.node_types.len() != meta.node_types.len() || update.edge_types.len() != meta.edge_types.len() {
        return Err("the update has other types than the parts".into());
    }
    for (of_type, update) in meta.node_types.iter().zip(&update.node_types) {
        check_nodes(of_type, update).map_err(|why| format!("node type {}: {why}", of_type.name))?;
    }
    for (of_type, update) in meta.edge_types.iter().zip(&update.edge_types) {
        let name = edge_dir_name(&of_type.src_type, &of_type.relation, &of_type.dst_type);
        check_edges(of_type, update).map_err(|why| format!("edge type {name}: {why}"))?;
    }
    Ok(())
}

fn check_nodes(of_type: &NodeTypeMeta, update: &NodeUpdate) -> Result<(), String> {
    let rows = &update.rows;
    if update.removed.len() != of_type.book.num_nodes() || update.numbers.len() != rows.num_nodes {
        return Err("the update has other numbers of nodes than the parts and its rows".into());
    }
    if of_type.has_deferred_features {
        return Err("its features are built after the parts, so they cannot be updated: partition again with the \
                    features"
            .into());
    }
    if !of_type.more_labels.is_empty() || !rows.more_labels.is_empty() {
        return Err("it has several labels, which an update cannot extend: partition all tables together".into());
    }
    if rows.num_nodes == 0 {
        return Ok(());
    }
    check_features(rows.features.as_ref(), of_type.feature_dim, of_type.feature_dtype)?;
    check_same("times", rows.times.is_some(), of_type.has_times)?;
    if rows.labels.is_some() {
        check_classes(of_type.has_labels, rows.num_classes, of_type.num_classes)?;
    }
    check_targets(rows.targets.as_ref(), of_type.targets)
}

fn check_edges(of_type: &EdgeTypeMeta, update: &EdgeUpdate) -> Result<(), String> {
    if of_type.negatives.iter().any(Option::is_some) {
        return Err("its held-out edges have given negatives, which an update cannot extend: partition again".into());
    }
    let Some(added) = &update.added else { return Ok(()) };
    for (name, list) in added.held_out.lists() {
        if !list.is_empty() {
            check_same(&format!("times of held-out {name} edges"), list.times.is_some(), of_type.has_times)?;
        }
    }
    if added.src.is_empty() {
        return Ok(());
    }
    let attributes = &added.attributes;
    check_features(attributes.features.as_ref(), of_type.feature_dim, of_type.feature_dtype)?;
    check_same("times", attributes.times.is_some(), of_type.has_times)?;
    check_same("weights", attributes.weights.is_some(), of_type.has_weights)?;
    let Some(labels) = &attributes.labels else { return Ok(()) };
    let of_parts = of_type.labels.map(|labels| labels.values);
    match labels.values.kind() {
        EdgeLabelKind::NumClasses(num_classes) => {
            let has_classes = matches!(of_parts, Some(EdgeLabelKind::NumClasses(_)));
            check_classes(has_classes, num_classes, of_parts.map_or(0, EdgeLabelKind::num_classes))
        }
        EdgeLabelKind::Targets(_) => check_targets(labels.values.targets(), of_parts.and_then(EdgeLabelKind::targets)),
    }
}

fn check_features(found: Option<&Features>, dim: usize, dtype: FeatureDtype) -> Result<(), String> {
    let found_dim = found.map_or(0, Features::dim);
    if found_dim != dim {
        return Err(format!("the tables have {found_dim} features, but the parts have {dim}"));
    }
    match found {
        Some(features) if features.dtype() != dtype => {
            Err(format!("its features are stored as {}, but the parts have {dtype}", features.dtype()))
        }
        _ => Ok(()),
    }
}

fn check_same(what: &str, found: bool, expected: bool) -> Result<(), String> {
    match (found, expected) {
        (true, false) => Err(format!("the tables have {what}, but the parts have none")),
        (false, true) => Err(format!("the tables have no {what}, but the parts have some")),
        _ => Ok(()),
    }
}

fn check_classes(has_classes: bool, found: usize, expected: usize) -> Result<(), String> {
    if !has_classes {
        return Err("the tables have classes, but the parts have none".into());
    }
    if found > expected {
        let last = found - 1;
        return Err(format!(
            "the tables have the class {last}, but the parts have {expected} classes: partition all tables together, and \
             train a new model"
        ));
    }
    Ok(())
}

fn check_targets(found: Option<&Targets>, expected: Option<TargetMeta>) -> Result<(), String> {
    let Some(found) = found.map(Targets::meta) else { return Ok(()) };
    if expected == Some(found) {
        return Ok(());
    }
    let expected = match expected {
        Some(TargetMeta { dim, .. }) => format!("{dim}, or numbers of another kind"),
        None => "none".into(),
    };
    Err(format!("the tables have {} numbers to predict, but the parts have {expected}", found.dim))
}
