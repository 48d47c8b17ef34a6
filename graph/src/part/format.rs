//! The name and the version of the format of parts, and their check.

use super::digest::check_digest;
use super::meta::META_FILE;
use super::{EdgeTypeMeta, NodeTypeMeta};
use crate::GraphError;
use serde::Deserialize;
use std::path::Path;

/// The value of [`Meta::format`](crate::Meta::format).
pub const FORMAT_NAME: &str = "edgecut-partition";
/// The latest version of the on-disk format.
const FORMAT_VERSION: u32 = 4;
/// The version of parts whose edges have no ids, which earlier builds read as well.
const VERSION_WITHOUT_EDGE_IDS: u32 = 3;
/// The version of such parts whose node types have one label each, which still earlier builds read as well.
const VERSION_OF_ONE_LABEL: u32 = 2;
/// The oldest version that this build reads.
const OLDEST_VERSION: u32 = 1;
/// The first version with a digest of `META.json`.
const FIRST_WITH_DIGEST: u32 = 2;

/// Returns the version of parts with these types.
pub(crate) fn version_of(node_types: &[NodeTypeMeta], edge_types: &[EdgeTypeMeta]) -> u32 {
    if edge_types.iter().any(|of_type| of_type.ids.is_some()) {
        return FORMAT_VERSION;
    }
    let has_one_label = node_types.iter().all(|of_type| of_type.more_labels.is_empty());
    if has_one_label { VERSION_OF_ONE_LABEL } else { VERSION_WITHOUT_EDGE_IDS }
}

/// Checks that the `META.json` in `path` with this `content` has the format and a version of this build, and that it is
/// undamaged.
///
/// # Errors
/// Names the format, the version or the damage of the file, and says what to do.
pub(super) fn check_format(path: &Path, content: &[u8]) -> Result<(), GraphError> {
    let damaged = |why: String| {
        let why = format!("{why}: {META_FILE} is damaged or was edited; copy the parts again or partition again");
        Err(GraphError::format(path, why))
    };
    let head: Head = match serde_json::from_slice(content) {
        Ok(head) => head,
        Err(error) => return damaged(format!("it is not the JSON of a partitioned graph ({error})")),
    };
    let Head { format, version, digest } = head;
    if format != FORMAT_NAME {
        let why = format!("its format is {format:?}, not {FORMAT_NAME:?}: pass the N-parts folder of partition-graph");
        return Err(GraphError::format(path, why));
    }
    if version > FORMAT_VERSION {
        let why = format!(
            "it has format version {version} and was written by a newer version of this program, which reads versions \
             {OLDEST_VERSION} to {FORMAT_VERSION}: update the program, or partition again with this one"
        );
        return Err(GraphError::format(path, why));
    }
    if version < OLDEST_VERSION {
        let why = format!(
            "it has format version {version}, but this build reads versions {OLDEST_VERSION} to {FORMAT_VERSION}: \
             partition again"
        );
        return Err(GraphError::format(path, why));
    }
    // A digest in a file of version 1 shows that the number of the version was changed.
    if version >= FIRST_WITH_DIGEST || digest.is_some() {
        check_digest(content).or_else(damaged)?;
    }
    Ok(())
}

/// The fields that are present in every version, and the digest.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
    digest: Option<serde::de::IgnoredAny>,
}
