//! Features that are built after the parts, by the machine that holds a part.
//!
//! `META.json` is the same for all parts, so it cannot have their checksums. They are in a file beside the features, which
//! is written last.

use super::meta::Meta;
use super::{node_dir, part_dir};
use crate::memory::{Features, MappedFile};
use crate::npy::{FileMeta, checksum, write_features_with};
use crate::{DiskPartId, GraphError, NodeTypeId};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The features of a node type in a part.
pub const FEATURES_FILE: &str = "features.npy";
/// The size and the checksum of features that were built after the parts, in the folder of each node type.
pub const BUILT_FEATURES_FILE: &str = "features.json";

/// The file of features and of their description until they are complete.
const PARTIAL_FILE: &str = "features.partial";

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
    if owned.try_lock().is_err() {
        let why = format!("another process builds the features of part {part}: wait for it, or end it");
        return Err(GraphError::format(partial, why));
    }
    let written = write_features_with(&partial, features, true)
        .and_then(|file| std::fs::rename(&partial, dir.join(FEATURES_FILE)).map(|()| file).map_err(failed));
    let file = match written {
        Ok(file) => file,
        Err(error) => {
            // The error of writing is the one to report.
            let _ = std::fs::remove_file(&partial);
            return Err(error);
        }
    };
    let built = BuiltFeatures { fingerprint: meta.fingerprint_on_disk(), file };
    let write = || -> io::Result<()> {
        let mut out = File::create(&partial)?;
        serde_json::to_writer_pretty(&mut out, &built)?;
        out.write_all(b"\n")?;
        out.sync_all()?;
        std::fs::rename(&partial, dir.join(BUILT_FEATURES_FILE))?;
        File::open(&dir)?.sync_all()
    };
    write().map_err(failed)
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
