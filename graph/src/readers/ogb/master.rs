//! Properties of OGB datasets that are not in their files.

use crate::GraphError;
use crate::readers::text::{find_csv, read_fields};
use std::path::Path;

/// The datasets for whose graphs OGB's loader adds the inverse of each edge, according to the `master.csv` in OGB's
/// package, and those for which it does not.
const KNOWN: [(&str, bool); 5] = [
    ("ogbn-products", true),
    ("ogbn-proteins", true),
    ("ogbn-arxiv", false),
    ("ogbn-papers100M", false),
    ("ogbn-mag", false),
];
/// The row of `master.csv` that says whether inverse edges are added.
const ADD_INVERSE_EDGE: &str = "add_inverse_edge";

/// Returns true if OGB's loader adds the inverse of each edge to the graph of the dataset `name` in `folder`: according
/// to `master.csv` in the folder or beside it, or for known names.
///
/// `master.csv` has a column per dataset, named in the first line, and a row per property, named in the first column.
///
/// # Errors
/// Fails if `master.csv` lists the dataset, but its value is neither `True` nor `False`.
pub(super) fn adds_inverse_edges(name: &str, folder: &Path) -> Result<bool, GraphError> {
    let of_folder = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_this = |other: &str| [name, &of_folder].iter().any(|name| is_same(name, other));
    for dir in [Some(folder), folder.parent()].into_iter().flatten() {
        let Some(path) = find_csv(dir, "master") else { continue };
        let rows = read_fields(&path)?;
        let names = rows.first().map(Vec::as_slice).unwrap_or_default();
        let Some(column) = names.iter().position(|name| is_this(name)) else { continue };
        let Some(row) = rows.iter().find(|row| row.first().is_some_and(|key| key == ADD_INVERSE_EDGE)) else {
            continue;
        };
        return match row.get(column).map(String::as_str) {
            Some("True") => Ok(true),
            Some("False") => Ok(false),
            value => {
                let value = value.unwrap_or_default();
                let why = format!("{ADD_INVERSE_EDGE} of {name} is {value:?}, expected True or False");
                Err(GraphError::format(path, why))
            }
        };
    }
    Ok(KNOWN.iter().any(|&(known, adds)| adds && is_this(known)))
}

/// Compares names of datasets. Names of folders have underscores in place of hyphens.
fn is_same(a: &str, b: &str) -> bool {
    let spelled = |name: &str| name.replace('_', "-").to_ascii_lowercase();
    spelled(a) == spelled(b)
}
