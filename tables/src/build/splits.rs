//! Splits of nodes and of labeled edges: shares, or ids from files.

use super::Context;
use super::bad_rows::BadKind;
use super::known::{KnownSplit, NumberedIds, RowNumbers};
use super::split_files::{SplitRow, read_split};
use crate::conf::{Label, SplitFiles};
use crate::saved_split::SplitBy;
use crate::transform::SavedType;
use crate::{OnBadRows, TableError};
use edgecut_graph::{Division, GroupLimits, RowNumber, Share, Split, SplitOrder, Splits};

/// The division of labeled rows of a type by shares.
pub(super) struct ByShares<'a> {
    pub(super) label: &'a Label,
    /// The name of the type.
    pub(super) name: &'a str,
    pub(super) shares: [Share; 3],
    pub(super) by: &'a SplitBy,
    /// The times or the groups of all rows.
    pub(super) keys: Option<&'a [i64]>,
    /// The keys by which the rows of an update draw, because their numbers say nothing about them. They follow from ids.
    pub(super) draw_keys: Option<Vec<i64>>,
}

impl ByShares<'_> {
    /// Divides the rows by the seed of the recorded rule. An update puts groups into the splits of the recorded limits, which
    /// other tables set, and divides its few rows without rounding, so that many updates keep the shares.
    ///
    /// # Errors
    /// Fails for an update with groups of parts that do not record the limits.
    pub(super) fn divide<T: RowNumber>(
        &self,
        context: &Context,
        labeled: Vec<T>,
        saved: &mut SavedType,
    ) -> Result<Division<T>, TableError> {
        let Self { label, name, shares, by, keys, draw_keys } = self;
        let seed = saved.split.as_ref().map_or(context.options.seed, |rule| rule.seed);
        let order = SplitOrder { seed, name };
        Ok(match (by, keys) {
            (SplitBy::Time(_), Some(times)) => match draw_keys {
                Some(draw_keys) => order.later_by_times(labeled, times, draw_keys, *shares),
                None => order.by_times(labeled, times, *shares),
            },
            (SplitBy::Group(_), Some(groups)) if !context.is_update => {
                let (division, found) = order.by_groups(labeled, groups, *shares);
                saved.group_limits = Some(found);
                division
            }
            (SplitBy::Group(_), Some(groups)) => {
                let Some(limits) = saved.group_limits else {
                    let why = format!(
                        "{}: the parts do not record how groups were divided, so a group could be in two splits: partition \
                         all tables together",
                        label.at
                    );
                    return Err(TableError::file(context.conf, why));
                };
                order.by_group_limits(labeled, groups, limits)
            }
            _ => match draw_keys {
                Some(draw_keys) => order.by_group_limits(labeled, draw_keys, GroupLimits::of_shares(*shares)),
                None => order.at_random(labeled, *shares),
            },
        })
    }
}

/// Describes new rows that are divided by time among themselves; `None` unless `by` is a time.
pub(super) fn divided_by_time(label: &Label, by: &SplitBy, num_rows: usize) -> Option<String> {
    let is_by_time = matches!(by, SplitBy::Time(_)) && num_rows > 0;
    is_by_time.then(|| {
        format!(
            "{}: split_by divides the {num_rows} new rows among themselves, so new training rows may be later than validation and \
             test rows of the parts: partition all tables together to divide all rows by time",
            label.at
        )
    })
}

/// Reads the nodes of each split from files. A node in the files of two splits is a bad entry, because a model must not
/// be evaluated on its training data. Returns rows. Entries of `known` nodes that are in another split are counted in a warning.
pub(super) fn by_files(
    context: &mut Context,
    label: &Label,
    files: &SplitFiles,
    NumberedIds { label: at, ids, known }: NumberedIds,
) -> Result<Splits, TableError> {
    // The split that lists a node.
    let mut taken = vec![None; ids.len()];
    let rows = known.map(RowNumbers::rows);
    let mut num_kept = 0;
    let mut splits = Vec::with_capacity(3);
    for (split, name) in Split::ALL.into_iter().enumerate() {
        let mut nodes = Vec::new();
        for row in read_split(context.conf, &label.at, files, split, 1)? {
            let number = row.ids.first().and_then(|id| ids.get(id.as_id()));
            if let (Some(known), Some(number)) = (known, number)
                && let KnownSplit::Decided(split) = known.split(at, number)
            {
                num_kept += u64::from(split != Some(name));
                continue;
            }
            let node = match (&rows, number) {
                (Some(rows), Some(number)) => rows.get(&number).copied(),
                _ => number,
            };
            match node {
                Some(node) => match taken[node as usize] {
                    None => {
                        taken[node as usize] = Some(name);
                        nodes.push(node);
                    }
                    Some(other) if other == name => {}
                    Some(other) => bad_entry(context, label, &row, &listed_twice(other))?,
                },
                None if number.is_some() => bad_entry(context, label, &row, "no row of this update has this node")?,
                None => bad_entry(context, label, &row, "there is no such node")?,
            }
        }
        nodes.sort_unstable();
        splits.push(nodes.into());
    }
    if num_kept > 0 {
        context.warnings.push(format!(
            "{}: {num_kept} entries of split files name nodes that stay in another split, or in none",
            label.at
        ));
    }
    let Ok([train, valid, test]) = <[_; 3]>::try_from(splits) else { unreachable!("there are three splits") };
    Ok(Splits { train, valid, test })
}

/// Describes an entry that the list of another split has as well.
pub(super) fn listed_twice(other: Split) -> String {
    format!("the list {} has it as well: leave it in one list", other.name())
}

/// Counts a bad entry of a split file, or fails if such entries are errors.
pub(super) fn bad_entry(context: &mut Context, label: &Label, row: &SplitRow, why: &str) -> Result<(), TableError> {
    let shown: Vec<String> = row.ids.iter().map(ToString::to_string).collect();
    let why = format!("{}: {why}", shown.join(", "));
    if context.options.on_bad_rows == OnBadRows::Error {
        return Err(TableError::Row { path: row.path.to_path_buf(), row: row.row, why });
    }
    let first = format!("{}: row {}: {why}", row.path.display(), row.row);
    context.counts.add_rows(&label.at, BadKind::SplitId, 1, &first);
    Ok(())
}
