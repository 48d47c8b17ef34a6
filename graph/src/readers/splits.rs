//! Checks that the readers of all layouts share.

use crate::GraphError;
use crate::classes::check_num_classes;
use crate::memory::Buffer;
use crate::parallel;
use std::path::Path;

/// Sorts the ids of a split, and checks that there are no duplicates. Nodes without a label are left out when all of the
/// dataset is known.
///
/// # Errors
/// Names the first invalid node and the file.
pub(super) fn checked_split(path: &Path, mut ids: Vec<u32>) -> Result<Buffer<u32>, GraphError> {
    ids.sort_unstable();
    if let Some(twice) = ids.windows(2).find(|w| w[0] == w[1]) {
        return Err(GraphError::format(path, format!("node {} is listed twice", twice[0])));
    }
    Ok(ids.into())
}

/// Returns the number of classes of the labels in `path`, which is one more than the largest label.
///
/// # Errors
/// Fails if there are many more classes than different labels, and names the `item` with the largest label.
pub(super) fn count_classes(path: &Path, labels: &[i64], item: &str) -> Result<usize, GraphError> {
    let num_classes = parallel::max(labels).map_or(0, |largest| usize::try_from(largest + 1).unwrap_or(0));
    match check_num_classes(labels, num_classes, item) {
        Ok(()) => Ok(num_classes),
        Err(why) => Err(GraphError::format(path, why)),
    }
}
