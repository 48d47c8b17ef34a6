//! The check that changes fit the types of existing parts.

use super::{EdgeUpdate, GraphUpdate, NodeUpdate};
use crate::dataset::{EdgeData, EdgeIdKind, EdgeIds, EdgeLabelKind, EdgeLabelValues, Split, TargetMeta, Targets};
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
    for (of_type, of_update) in meta.edge_types.iter().zip(&update.edge_types) {
        let name = edge_dir_name(&of_type.src_type, &of_type.relation, &of_type.dst_type);
        if meta.provenance.edge_ids && of_update.added.as_ref().is_some_and(has_edges) {
            return Err(format!(
                "edge type {name}: the ids of its edges are their positions in the dataset (`edge_ids`), which added edges do \
                 not have: partition all edges together"
            ));
        }
        check_edges(of_type, of_update).map_err(|why| format!("edge type {name}: {why}"))?;
        let [num_sources, num_destinations] =
            [&of_type.src_type, &of_type.dst_type].map(|end| num_nodes_after(meta, update, end));
        let Some(added) = &of_update.added else { continue };
        let lists = [(&added.src, &added.dst)].into_iter();
        for (src, dst) in lists.chain(added.held_out.lists().map(|(_, list)| (&list.src, &list.dst))) {
            if src.iter().any(|&id| id as usize >= num_sources) || dst.iter().any(|&id| id as usize >= num_destinations)
            {
                return Err(format!("edge type {name}: an added edge joins a node that does not exist"));
            }
        }
    }
    Ok(())
}

/// Returns the number of nodes of a type after an update, 0 for an unknown type.
fn num_nodes_after(meta: &Meta, update: &GraphUpdate, name: &str) -> usize {
    let Some(at) = meta.node_types.iter().position(|of_type| of_type.name == name) else { return 0 };
    let NodeUpdate { removed, numbers, .. } = &update.node_types[at];
    let num_kept = removed.iter().filter(|is_removed| !**is_removed).count();
    num_kept + numbers.iter().filter(|&&number| number as usize >= num_kept).count()
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
    if rows.num_nodes == 0 {
        return Ok(());
    }
    if rows.more_labels.iter().zip(&of_type.more_labels).any(|(found, known)| found.name != known.name)
        || rows.more_labels.len() > of_type.more_labels.len()
    {
        return Err("the tables have other labels than the parts, or in another order".into());
    }
    check_features(rows.features.as_ref(), of_type.feature_dim, of_type.feature_dtype)?;
    check_same("times", rows.times.is_some(), of_type.has_times)?;
    check_lengths(rows.num_nodes, "nodes", rows.features.as_ref(), [rows.times.as_ref().map(|times| times.len())])?;
    for (of_label, known) in rows.by_label().iter().zip(of_type.labels()) {
        if let Some(labels) = &of_label.labels {
            check_classes(known.has_labels, of_label.num_classes, known.num_classes)?;
            check_lengths(rows.num_nodes, "nodes", None, [Some(labels.len())])?;
            check_class_numbers(labels, known.num_classes)?;
        }
        check_targets(of_label.targets.as_ref(), known.targets)?;
        of_label.targets.as_ref().and_then(|targets| targets.problem(rows.num_nodes, "node")).map_or(Ok(()), Err)?;
        for split in Split::ALL {
            let ids = of_label.splits.get(split);
            if !ids.is_sorted_by(|a, b| a < b) || ids.last().is_some_and(|&last| last as usize >= rows.num_nodes) {
                return Err(format!("the rows of the {} split do not ascend, or are past the last", split.name()));
            }
        }
    }
    Ok(())
}

/// Returns true if edges, or held-out edges, are added.
fn has_edges(added: &EdgeData) -> bool {
    !added.src.is_empty() || !added.held_out.is_empty()
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
    let attributes = &added.attributes;
    // Also if all added edges are held out, since the update writes the files of the ids.
    check_kind_of_ids(attributes.ids.as_ref().map(EdgeIds::kind), of_type.ids)?;
    if added.src.is_empty() {
        return Ok(());
    }
    let lengths = [
        Some(added.dst.len()),
        attributes.weights.as_ref().map(|weights| weights.len()),
        attributes.times.as_ref().map(|times| times.len()),
        attributes.labels.as_ref().map(|labels| labels.splits.len()),
        attributes.ids.as_ref().map(EdgeIds::len),
    ];
    check_lengths(added.src.len(), "edges", attributes.features.as_ref(), lengths)?;
    check_features(attributes.features.as_ref(), of_type.feature_dim, of_type.feature_dtype)?;
    check_same("times", attributes.times.is_some(), of_type.has_times)?;
    check_same("weights", attributes.weights.is_some(), of_type.has_weights)?;
    check_same("ids of edges", attributes.ids.is_some(), of_type.ids.is_some())?;
    let Some(labels) = &attributes.labels else { return Ok(()) };
    let of_parts = of_type.labels.map(|labels| labels.values);
    match &labels.values {
        EdgeLabelValues::Classes { of_edges, num_classes } => {
            let has_classes = matches!(of_parts, Some(EdgeLabelKind::NumClasses(_)));
            let known = of_parts.map_or(0, EdgeLabelKind::num_classes);
            check_classes(has_classes, *num_classes, known)?;
            check_lengths(added.src.len(), "edges", None, [Some(of_edges.len())])?;
            check_class_numbers(of_edges, known)?;
        }
        EdgeLabelValues::Targets(targets) => {
            check_targets(Some(targets), of_parts.and_then(EdgeLabelKind::targets))?;
            targets.problem(added.src.len(), "edge").map_or(Ok(()), Err)?;
        }
    }
    labels.check_splits(added.src.len())
}

/// Checks that arrays have an entry for each of `expected` items.
fn check_lengths(
    expected: usize,
    items: &str,
    features: Option<&Features>,
    lengths: impl IntoIterator<Item = Option<usize>>,
) -> Result<(), String> {
    let all = lengths.into_iter().flatten().chain(features.map(Features::num_rows));
    match all.into_iter().find(|&length| length != expected) {
        Some(length) => Err(format!("an array has {length} entries for {expected} {items}")),
        None => Ok(()),
    }
}

/// Checks the classes of rows of an update.
fn check_class_numbers(labels: &[i64], num_classes: usize) -> Result<(), String> {
    match labels.iter().find(|&&label| label < -1 || label >= num_classes as i64) {
        Some(label) => Err(format!("a row has the label {label}, outside -1..{num_classes}")),
        None => Ok(()),
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

/// Checks the kind of the ids of edges. Parts with texts take numbers as well.
fn check_kind_of_ids(found: Option<EdgeIdKind>, expected: Option<EdgeIdKind>) -> Result<(), String> {
    if (found, expected) == (Some(EdgeIdKind::Texts), Some(EdgeIdKind::Numbers)) {
        return Err(
            "the ids of its edges are texts in the tables, but numbers in the parts: partition all tables together"
                .into(),
        );
    }
    Ok(())
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
