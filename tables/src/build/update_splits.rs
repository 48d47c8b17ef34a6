//! The rules of splits in an update, which are the rules of its parts.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

use super::known::KnownEdges;
use crate::conf::{Conf, Label, SplitRule};
use crate::saved_split::{SavedSplit, SplitBy};
use crate::transform::SavedType;
use crate::{TableError, Transforms};

/// Gives each table of an update the rule of splits that `recorded` has for its type. The rule of a relation whose edges are held
/// out also applies to tables that leave `labels` out. `recorded` is `None` for parts without `transforms.json`. Returns a
/// warning about rules that the parts do not record.
///
/// # Errors
/// Fails for a table with another rule than its type has in the parts, and for rows that are not divided by group although the
/// rows of the parts were.
pub(super) fn settle_splits(
    conf: &mut Conf,
    recorded: Option<&Transforms>,
    edge_types: &[KnownEdges],
) -> Result<Option<String>, TableError> {
    check_groups(conf, recorded)?;
    let Some(recorded) = recorded.filter(|recorded| recorded.has_splits()) else {
        return Ok(first_unknown(conf, edge_types).map(|at| {
            format!(
                "{at}: the parts do not record the rules of their splits, as parts of arrays and of earlier versions do not: this \
                 update divides its rows by its own rule, and holds out edges only with link_prediction or --hold-out-edges of \
                 the parts"
            )
        }));
    };
    for table in &mut conf.nodes {
        let Some(of_type) = recorded.node_types.get(&table.node_type) else { continue };
        for (position, label) in table.labels.iter_mut().enumerate() {
            if let Some(rule) = of_label(of_type, position, label).and_then(|of_label| of_label.split.as_ref()) {
                label.settle(rule).map_err(|why| TableError::file(&conf.path, why))?;
            }
        }
    }
    for table in &mut conf.edges {
        let rule = recorded.edge_types.get(&table.relation.join("__")).and_then(|of_type| of_type.split.as_ref());
        match (&mut table.label, rule) {
            (Some(label), Some(rule)) => label.settle(rule).map_err(|why| TableError::file(&conf.path, why))?,
            (Some(label), None) => {
                check_no_rule(label).map_err(|why| TableError::file(&conf.path, why))?;
            }
            (None, Some(rule)) if rule.holds_out() && table.ends.is_some() => {
                table.label = Some(rule.held_out(&table.at));
            }
            (None, _) => {}
        }
    }
    Ok(None)
}

/// Returns the record of the label at a position of a table.
fn of_label<'a>(of_type: &'a SavedType, position: usize, label: &Label) -> Option<&'a SavedType> {
    of_type.label(position, label.name()).ok()
}

/// Checks that the rows of types with groups are divided by group. Version 2 of `transforms.json` has the division of groups, but
/// not the rule with their column.
///
/// # Errors
/// Names the first table with another rule.
fn check_groups(conf: &Conf, recorded: Option<&Transforms>) -> Result<(), TableError> {
    let Some(recorded) = recorded else { return Ok(()) };
    let mut labels = Vec::new();
    for table in &conf.nodes {
        let Some(of_type) = recorded.node_types.get(&table.node_type) else { continue };
        for (position, label) in table.labels.iter().enumerate() {
            labels.extend(of_label(of_type, position, label).map(|of_type| (label, of_type)));
        }
    }
    for table in &conf.edges {
        labels.extend(table.label.as_ref().zip(recorded.edge_types.get(&table.relation.join("__"))));
    }
    for (label, of_type) in labels {
        let is_by_group = matches!(&label.split, SplitRule::Shares { by: SplitBy::Group(_), .. });
        if of_type.group_limits.is_some() && of_type.split.is_none() && !is_by_group {
            let why = format!(
                "{}: the parts were divided by groups, but do not record the column of the groups, and a group could be in two \
                 splits: add split_by_group with this column",
                label.at
            );
            return Err(TableError::file(&conf.path, why));
        }
    }
    Ok(())
}

/// Checks that an update does not hold out edges of a relation whose edges the parts do not hold out by a rule.
///
/// # Errors
/// Describes the rule of the update.
fn check_no_rule(label: &Label) -> Result<(), String> {
    if label.column.is_some() || matches!(label.split, SplitRule::Files(_)) {
        return Ok(());
    }
    let given = SavedSplit::new(label, 0, None);
    Err(format!(
        "{}: its rule is {given}, but the tables of the parts held out no edges of this relation: leave the entry out, which \
         keeps all edges for training, or partition all tables together",
        label.at
    ))
}

/// Returns the path of the first label, or of the first table whose relation has edges that a table or an array held out.
fn first_unknown<'a>(conf: &'a Conf, edge_types: &[KnownEdges]) -> Option<&'a str> {
    let of_nodes = conf.nodes.iter().flat_map(|table| &table.labels);
    let of_edges = conf.edges.iter().filter_map(|table| table.label.as_ref());
    if let Some(label) = of_nodes.chain(of_edges).next() {
        return Some(&label.at);
    }
    for table in &conf.edges {
        if edge_types.iter().any(|known| known.names == table.relation && known.has_held_out) {
            return Some(&table.at);
        }
    }
    None
}
