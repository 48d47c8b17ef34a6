//! The file that completes a checkpoint.

use super::mirror::CheckpointMirror;
use super::rank_state::Position;
use super::state_file::{STATE_FORM, StateFile};
use crate::error::CheckpointError;
use edgecut_output::{OwnEntries, is_numbered, write_output};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The value of `format`.
const FORMAT: &str = "edgecut-checkpoint";
/// The version of the manifest and of the files that it lists.
const VERSION: u32 = 3;
/// The first part of a folder's name, before the number of steps.
const FOLDER_PREFIX: &str = "step-";
/// The form of the names of manifests.
const MANIFEST_FORM: &str = "node-#.json";

/// The description of the files that the ranks of one node have written. A checkpoint is complete on a node once this
/// file exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) format: String,
    pub(super) version: u32,
    /// A random name of the process group that wrote the checkpoint.
    pub(super) run: String,
    #[serde(flatten)]
    pub(super) position: Position,
    pub(super) world_size: usize,
    /// The fingerprint of the dataset, which does not depend on its partitioning.
    pub(super) dataset: String,
    /// The fingerprint of the parts.
    pub(super) parts: String,
    /// The fingerprint of the features that were built after the parts.
    pub(super) features: String,
    /// The number of groups of parts that processes held.
    pub(super) num_groups: usize,
    /// The settings of the run, as JSON texts by name.
    pub(super) settings: BTreeMap<String, String>,
    /// The files of the node's ranks.
    pub(super) files: Vec<StateFile>,
}

impl Manifest {
    pub(super) fn new(run: String, position: Position, world_size: usize) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            run,
            position,
            world_size,
            dataset: String::new(),
            parts: String::new(),
            features: String::new(),
            num_groups: 0,
            settings: BTreeMap::new(),
            files: Vec::new(),
        }
    }

    /// Writes the manifest of the node whose lowest rank is `first_rank`, which completes the checkpoint there.
    ///
    /// # Errors
    /// [`CheckpointError::Write`].
    pub(super) fn write(
        &self,
        folder: &Path,
        first_rank: usize,
        mirror: Option<&dyn CheckpointMirror>,
    ) -> Result<(), CheckpointError> {
        let name = manifest_name(first_rank);
        let path = folder.join(&name);
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        let written = check_new(folder, first_rank, mirror).and(text).and_then(|text| write_output(&path, &text));
        let stored = written.and_then(|()| match mirror {
            Some(mirror) => mirror.put(&in_mirror(folder, &name)),
            None => Ok(()),
        });
        stored.map_err(|source| CheckpointError::Write { path, source })
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] if the file is not a manifest of this version; [`CheckpointError::Read`].
    fn read(path: &Path) -> Result<Self, CheckpointError> {
        let folder = path.parent().unwrap_or(path).display();
        let damaged = |source: io::Error| CheckpointError::Damaged {
            path: path.to_owned(),
            remedy: format!("remove the folder {folder}"),
            source,
        };
        let bytes = fs::read(path).map_err(|source| CheckpointError::Read { path: path.to_owned(), source })?;
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|error| damaged(error.into()))?;
        if (manifest.format.as_str(), manifest.version) != (FORMAT, VERSION) {
            let found = format!("{} {}", manifest.format, manifest.version);
            let what = format!("this program reads {FORMAT} {VERSION}, but the file is {found}");
            return Err(damaged(io::Error::new(ErrorKind::InvalidData, what)));
        }
        Ok(manifest)
    }
}

/// Checks that no other job has completed the checkpoint in `folder` in the mirror, for the node whose lowest rank is
/// `first_rank`. The local folder is reserved for this job, but not its mirror.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`], or a failure of the mirror.
pub(super) fn check_new(folder: &Path, first_rank: usize, mirror: Option<&dyn CheckpointMirror>) -> io::Result<()> {
    let Some(mirror) = mirror else { return Ok(()) };
    let name = in_mirror(folder, &manifest_name(first_rank));
    if !mirror.has(&name)? {
        return Ok(());
    }
    let what = format!(
        "another job has written {mirror:?}/{} meanwhile: give each run a `checkpoint_dir` of its own",
        name.display()
    );
    Err(io::Error::new(ErrorKind::AlreadyExists, what))
}

/// Returns the path of a file of the checkpoint in `folder` below the folder of all checkpoints.
fn in_mirror(folder: &Path, name: &str) -> PathBuf {
    Path::new(folder.file_name().unwrap_or_default()).join(name)
}

/// Returns the name of the manifest of the node whose lowest rank is `first_rank`.
fn manifest_name(first_rank: usize) -> String {
    format!("node-{first_rank:05}.json")
}

/// Returns the folder of the checkpoint after `steps` steps.
pub(super) fn folder_of(dir: &Path, steps: u64) -> PathBuf {
    dir.join(format!("{FOLDER_PREFIX}{steps:08}"))
}

/// The folder of a checkpoint, complete or not.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) steps: u64,
    /// The manifests by file name, of this node and of others with the same file system.
    pub(super) manifests: BTreeMap<String, Manifest>,
    /// The names of all files.
    pub(super) files: Vec<String>,
}

/// Returns the folders of checkpoints in `dir`.
///
/// # Errors
/// [`CheckpointError::Read`], or [`CheckpointError::Damaged`] for a manifest that cannot be read.
pub(super) fn find(dir: &Path) -> Result<Vec<Found>, CheckpointError> {
    let names = |dir: &Path| -> Result<Vec<String>, CheckpointError> {
        let read = || fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
        match read() {
            // Another node of the same file system may remove an incomplete checkpoint meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(CheckpointError::Read { path: dir.to_owned(), source }),
            Ok(names) => Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect()),
        }
    };
    let mut found = Vec::new();
    for name in names(dir)? {
        let Some(Ok(steps)) = name.strip_prefix(FOLDER_PREFIX).map(str::parse) else { continue };
        let path = dir.join(&name);
        // Other ways to write the number are not used for checkpoints.
        if path != folder_of(dir, steps) {
            continue;
        }
        let mut manifests = BTreeMap::new();
        let files = names(&path)?;
        for file in files.iter().filter(|file| is_numbered(file, MANIFEST_FORM)) {
            manifests.insert(file.clone(), Manifest::read(&path.join(file))?);
        }
        found.push(Found { path, steps, manifests, files });
    }
    found.sort_by_key(|found| found.steps);
    Ok(found)
}

/// Removes the files of a checkpoint: first the manifests, so that no partly removed checkpoint counts as complete. The
/// folder stays if it holds anything else, which may be the user's; an empty one belongs to a run that was killed.
/// Something that cannot be removed only takes space, so errors are ignored.
pub(super) fn remove(folder: &Path, mirror: Option<&dyn CheckpointMirror>) {
    if let Some(mirror) = mirror {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
        let mut removed = Vec::new();
        for form in [MANIFEST_FORM, STATE_FORM] {
            let of_form = names.iter().filter(|name| is_numbered(name, form));
            removed.extend(of_form.map(|name| in_mirror(folder, name)));
        }
        mirror.remove(&removed);
    }
    for form in [MANIFEST_FORM, STATE_FORM] {
        let _ = OwnEntries::forms(&[form]).remove_from(folder);
    }
}
