//! The name and the version of the format of parts, and their check.

use crate::GraphError;
use serde::Deserialize;
use std::path::Path;

/// The value of [`Meta::format`](crate::Meta::format).
pub const FORMAT_NAME: &str = "edgecut-partition";
/// The version of the on-disk format that this build reads and writes.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Checks that the `META.json` in `path` with this `content` has the format and the version of this build.
///
/// # Errors
/// Names the format or the version of the file, and says what to do.
pub(super) fn check_format(path: &Path, content: &[u8]) -> Result<(), GraphError> {
    let head: Head = serde_json::from_slice(content).map_err(|e| GraphError::json(path, e))?;
    if head.format != FORMAT_NAME {
        return Err(GraphError::format(path, format!("its format is {:?}, not {FORMAT_NAME:?}", head.format)));
    }
    if head.version != FORMAT_VERSION {
        let why =
            format!("format version {}, but this build reads version {FORMAT_VERSION}: partition again", head.version);
        return Err(GraphError::format(path, why));
    }
    Ok(())
}

/// The fields that are present in every version.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}
