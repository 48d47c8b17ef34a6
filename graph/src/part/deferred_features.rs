//! Features that are built after the parts, by the machine that holds a part.
//!
//! `META.json` is the same for all parts, so it cannot have their checksums. They are in a file beside the features, which
//! is written last.

use super::meta::Meta;
use super::{node_dir, part_dir};
use crate::memory::{Features, MappedFile};
use crate::npy::{FileMeta, checksum, write_features_with};
use crate::{DiskPartId, GraphError, NodeTypeId};
use edgecut_output::{remove_abandoned, sync_folder, write_output};
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The features of a node type in a part.
pub const FEATURES_FILE: &str = "features.npy";
/// The size and the checksum of features that were built after the parts, in the folder of each node type.
pub const BUILT_FEATURES_FILE: &str = "features.json";

/// The file of features until they are complete.
pub(super) const PARTIAL_FILE: &str = "features.partial";

/// The content of [`BUILT_FEATURES_FILE`].
#[derive(Debug, Serialize, Deserialize)]
struct BuiltFeatures {
    /// The fingerprint of the `META.json` that the features belong to.
    fingerprint: String,
    #[serde(flatten)]
    file: FileMeta,
}

/// The checksum of features that were built after the parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FeaturesChecksum {
    /// The part on disk.
    pub part: DiskPartId,
    /// The name of the node type.
    pub node_type: String,
    /// The checksum, in the form of [`FileMeta::xxh3`].
    pub xxh3: String,
}

/// Returns true if the features of a node type in a part are complete.
///
/// # Errors
/// Fails if the features cannot be read, are damaged or belong to other parts.
pub fn has_built_features(
    dir: &Path,
    part: DiskPartId,
    node_type: NodeTypeId,
    meta: &Meta,
) -> Result<bool, GraphError> {
    let dir = folder(dir, part, node_type, meta);
    if !dir.join(BUILT_FEATURES_FILE).exists() {
        return Ok(false);
    }
    check_size(&dir, part, meta).map(|()| true)
}

/// Writes the features of a node type in a part of the parts in `dir`, which appear when they are complete.
///
/// # Errors
/// Any I/O error, with the path.
///
/// # Panics
/// If the shape or the type of the features is not that of `meta`.
pub fn write_built_features(
    dir: &Path,
    part: DiskPartId,
    node_type: NodeTypeId,
    meta: &Meta,
    features: &Features,
) -> Result<(), GraphError> {
    let of_type = &meta.node_types[node_type.index()];
    let expected = (meta.book_on_disk(node_type).range(part).len(), of_type.feature_dim, of_type.feature_dtype);
    assert_eq!((features.num_rows(), features.dim(), features.dtype()), expected, "the shape and type of features");
    let dir = folder(dir, part, node_type, meta);
    // A run that was killed leaves its file, which the next one writes again.
    let partial = dir.join(PARTIAL_FILE);
    let failed = |error| GraphError::io(&partial, error);
    let owned = File::options().create(true).append(true).open(&partial).map_err(failed)?;
    // Some network file systems cannot lock files, which is no reason not to build there.
    if matches!(owned.try_lock(), Err(TryLockError::WouldBlock)) {
        let why = format!("another process builds the features of part {part}: wait for it, or end it");
        return Err(GraphError::format(partial, why));
    }
    let file = write_features_with(&partial, features, true).inspect_err(|_| {
        // The error of writing is the one to report.
        let _ = std::fs::remove_file(&partial);
    })?;
    let built = BuiltFeatures { fingerprint: meta.fingerprint_on_disk(), file };
    publish(&dir, &built, &|_| Ok(())).map_err(failed)
}

/// Gives features that are complete in [`PARTIAL_FILE`] their name, and describes them. Old features lose their description
/// first, on disk too, so that no interruption leaves features with the description of others: features without a
/// description do not count as built. `reached` is called before each step with its number.
fn publish(dir: &Path, built: &BuiltFeatures, reached: &dyn Fn(usize) -> io::Result<()>) -> io::Result<()> {
    let partial = dir.join(PARTIAL_FILE);
    let description = dir.join(BUILT_FEATURES_FILE);
    reached(0)?;
    match std::fs::remove_file(&description) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => sync_folder(dir)?,
    }
    reached(1)?;
    std::fs::rename(&partial, dir.join(FEATURES_FILE))?;
    sync_folder(dir)?;
    reached(2)?;
    remove_abandoned(&description)?;
    write_output(&description, format!("{}\n", serde_json::to_string_pretty(built)?).as_bytes())
}

/// Checks that the features in the folder of a node type are there, belong to `meta` and have the size of their
/// description.
pub(super) fn check_size(dir: &Path, part: DiskPartId, meta: &Meta) -> Result<(), GraphError> {
    let built = read(dir, part, meta)?;
    let path = dir.join(FEATURES_FILE);
    let found = std::fs::metadata(&path).map_err(|error| GraphError::io(&path, error))?.len();
    if found != built.file.bytes {
        let why = format!(
            "it has {found} bytes, but {BUILT_FEATURES_FILE} says {}: remove both files, and build the features again",
            built.file.bytes
        );
        return Err(GraphError::format(path, why));
    }
    Ok(())
}

/// Returns the checksum that the description of the features in the folder of a node type has.
pub(super) fn checksum_of(dir: &Path, part: DiskPartId, meta: &Meta) -> Result<String, GraphError> {
    Ok(read(dir, part, meta)?.file.xxh3)
}

/// Checks the checksum of the features in the folder of a node type.
pub(super) fn check_content(dir: &Path, part: DiskPartId, meta: &Meta) -> Result<(), GraphError> {
    let built = read(dir, part, meta)?;
    let path = dir.join(FEATURES_FILE);
    let found = checksum(&MappedFile::open(&path)?);
    if found != built.file.xxh3 {
        let why = format!(
            "its checksum is {found}, but {BUILT_FEATURES_FILE} says {}: remove both files, and build the features again",
            built.file.xxh3
        );
        return Err(GraphError::format(path, why));
    }
    Ok(())
}

fn read(dir: &Path, part: DiskPartId, meta: &Meta) -> Result<BuiltFeatures, GraphError> {
    let path = dir.join(BUILT_FEATURES_FILE);
    let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let why = format!(
                "the features of part {part} are not built yet: run `partition-graph features` with `--part {part}` on the \
                 machine that holds it"
            );
            GraphError::format(dir, why)
        }
        _ => GraphError::io(&path, error),
    })?;
    let built: BuiltFeatures = serde_json::from_slice(&bytes).map_err(|error| GraphError::json(&path, error))?;
    if built.fingerprint != meta.fingerprint_on_disk() {
        let why = format!("the features belong to other parts: remove it and {FEATURES_FILE}, and build them again");
        return Err(GraphError::format(path, why));
    }
    Ok(built)
}

fn folder(dir: &Path, part: DiskPartId, node_type: NodeTypeId, meta: &Meta) -> PathBuf {
    dir.join(part_dir(part)).join(node_dir(&meta.node_types[node_type.index()].name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DEFAULT_NODE_TYPE;
    use crate::part_writer::write_one_part;
    use crate::readers::{FakeOptions, fake};

    #[test]
    fn an_interrupted_replacement_never_leaves_features_with_the_description_of_others() {
        for step in 0..=2 {
            let root = tempfile::tempdir().unwrap();
            let graph = fake(&FakeOptions { avg_num_nodes: 20, ..FakeOptions::default() }).unwrap();
            let mut meta = write_one_part(graph, root.path()).unwrap();
            meta.node_types[0].has_deferred_features = true;
            let num_values = meta.node_types[0].book.num_nodes() * meta.node_types[0].feature_dim;
            let features = |value: f32| Features::F32 {
                values: vec![value; num_values].into(),
                dim: meta.node_types[0].feature_dim,
            };
            let node_type = NodeTypeId(0);
            write_built_features(root.path(), DiskPartId(0), node_type, &meta, &features(1.0)).unwrap();

            let dir = root.path().join(format!("part_0/nodes/{DEFAULT_NODE_TYPE}"));
            let file = write_features_with(&dir.join(PARTIAL_FILE), &features(2.0), true).unwrap();
            let built = BuiltFeatures { fingerprint: meta.fingerprint_on_disk(), file };
            let fail = |reached| if reached == step { Err(io::Error::other("injected")) } else { Ok(()) };
            publish(&dir, &built, &fail).unwrap_err();
            // Either the old features are complete, or there are none.
            let is_built = has_built_features(root.path(), DiskPartId(0), node_type, &meta).unwrap();
            assert_eq!(is_built, step == 0);
            if is_built {
                check_content(&dir, DiskPartId(0), &meta).unwrap();
            }
            write_built_features(root.path(), DiskPartId(0), node_type, &meta, &features(3.0)).unwrap();
            check_content(&dir, DiskPartId(0), &meta).unwrap();
            assert!(!dir.join(PARTIAL_FILE).exists());
        }
    }
}
