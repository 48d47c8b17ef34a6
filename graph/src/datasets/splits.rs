//! Checks that node files share, whatever their layout.

use crate::{Buffer, GraphError};
use std::path::Path;

/// Sorts the ids of a split and checks that none is there twice and that all are labelled, where labels are known.
///
/// # Errors
/// The first node that breaks a rule, with the file.
pub(super) fn checked_split(
    path: &Path,
    mut ids: Vec<u32>,
    labels: Option<&Buffer<i64>>,
) -> Result<Buffer<u32>, GraphError> {
    ids.sort_unstable();
    if let Some(twice) = ids.windows(2).find(|w| w[0] == w[1]) {
        return Err(GraphError::format(path, format!("node {} is there twice", twice[0])));
    }
    if let Some(labels) = labels
        && let Some(node) = ids.iter().find(|&&id| labels.get(id as usize).is_none_or(|&label| label < 0))
    {
        return Err(GraphError::format(path, format!("node {node} is in this split, but has no label")));
    }
    Ok(ids.into())
}

/// One more than the largest label.
pub(super) fn count_classes(labels: &[i64]) -> usize {
    labels.iter().max().map_or(0, |&largest| usize::try_from(largest + 1).unwrap_or(0))
}
