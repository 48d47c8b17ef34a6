//! Values without those that are equal to an earlier one.

/// Returns each of some values once, in the order in which they come first. There are few of them.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}
