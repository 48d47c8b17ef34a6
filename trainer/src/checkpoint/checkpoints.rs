//! The checkpoints of a run, and the one that it continues from.

use super::cadence::Cadence;
use super::continuation::{Reading, Sightings, Successor, Usable};
use super::data_identity::DataIdentity;
use super::manifest::{Found, Manifest, find, folder_of, remove};
use super::merge::Merge;
use super::mirror::CheckpointMirror;
use super::rank_state::{Position, RankState};
use super::state_file::{read_state, state_file_name};
use crate::error::CheckpointError;
use edgecut_cluster::{ProcessGroup, Termination};
use edgecut_output::{FolderLock, check_output};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

/// The settings of checkpoints.
#[derive(Clone, Debug)]
pub struct CheckpointConfig {
    /// The folder of the checkpoints. Each node keeps its own ranks' checkpoints, in a folder of its own or in one that all
    /// nodes share.
    pub dir: PathBuf,
    /// The distance between two checkpoints. One is also written at the end of the training.
    pub every: Cadence,
    /// The number of complete checkpoints to keep, at least 1.
    pub keep: usize,
    /// True to continue from the newest checkpoint in the folder, if there is one. False refuses a folder with
    /// checkpoints.
    pub resume: bool,
    /// The number of epochs of the run. It may not be less than that of the checkpoint, whose best model may be that of a
    /// later epoch.
    pub num_epochs: u64,
    /// The settings that a run must have to continue from a checkpoint of this one, as JSON texts by name.
    pub settings: BTreeMap<String, String>,
    /// The identity of the data.
    pub data: DataIdentity,
    /// The request to end the run with a checkpoint; `None` if there can be none.
    pub termination: Option<Termination>,
    /// The place outside of this machine that has the same files.
    pub mirror: Option<Arc<dyn CheckpointMirror>>,
}

/// The checkpoints of a run, which all ranks write together.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    pub(super) config: CheckpointConfig,
    /// A random name, equal on all ranks.
    pub(super) run: String,
    /// The steps of the complete checkpoints, ascending.
    pub(super) complete: Vec<u64>,
    resumed: Option<Resumption>,
    /// The name of the process group that wrote the checkpoint from which the run continues.
    resumed_group: Option<String>,
    /// Keeps other jobs from the folder. Only rank 0 has it, since nodes may share the folder.
    _lock: Option<Arc<FolderLock>>,
}

/// The checkpoint that a run continues from.
#[derive(Clone, Copy, Debug)]
struct Resumption {
    position: Position,
    reading: Reading,
}

impl Checkpoints {
    /// Finds the newest checkpoint that this run can continue from, and checks its settings and files. Removes what
    /// interrupted runs have left. Every rank must call this.
    ///
    /// # Errors
    /// [`CheckpointError::Refused`] if the checkpoint belongs to a run with other settings or data, if ranks cannot read
    /// the files that they need, or if the folder holds checkpoints and [`CheckpointConfig::resume`] is false.
    /// [`CheckpointError::Damaged`] for damaged files. [`CheckpointError::Write`] if another job writes to the folder.
    pub fn open(config: CheckpointConfig, world: &mut ProcessGroup) -> Result<Self, CheckpointError> {
        let dir = &config.dir;
        std::fs::create_dir_all(dir)
            .and_then(|()| check_output(&dir.join(state_file_name(world.rank()))))
            .map_err(|source| CheckpointError::Write { path: dir.clone(), source })?;
        let mut lock = None;
        if world.rank() == 0 {
            let taken = FolderLock::take(dir, "checkpoints");
            let taken = taken.map_err(|source| CheckpointError::Write { path: dir.clone(), source })?;
            lock = Some(Arc::new(taken));
        }
        // No rank reads checkpoints that another job may still remove.
        world.barrier()?;
        let found = find(dir)?;
        check_identity(&config, &found)?;
        let usable = agree(&config, &found, world)?;
        let run = random_name(world)?;
        if !config.resume && !usable.as_ref().is_ok_and(Vec::is_empty) {
            let what = format!(
                "{} holds checkpoints of an earlier run: add `resume` to continue it, or choose another \
                 `checkpoint_dir`",
                dir.display()
            );
            return Err(CheckpointError::Refused { what });
        }
        let usable = usable.map_err(|what| CheckpointError::Refused { what })?;
        let complete = usable.iter().map(|usable| usable.steps).collect();
        let mut checkpoints = Self { config, run, complete, resumed: None, resumed_group: None, _lock: lock };
        if let Some(newest) = usable.last() {
            let seen = found.iter().filter(|found| found.steps == newest.steps);
            let manifests: Vec<&Manifest> =
                seen.flat_map(|found| found.manifests.values()).filter(|manifest| manifest.run == newest.run).collect();
            if let Some(manifest) = manifests.first() {
                checkpoints.check(manifest)?;
                let position = manifest.position;
                checkpoints.resumed = Some(Resumption { position, reading: newest.reading });
                checkpoints.resumed_group = Some(newest.run.clone());
            }
            let verified = match newest.reading {
                Reading::Own => vec![world.rank()],
                // The ranks divide the files, since each of them reads all of them once more.
                Reading::All { num_old } => (world.rank()..num_old).step_by(world.size()).collect(),
            };
            verified.into_iter().try_for_each(|old| checkpoints.verify(&manifests, newest.steps, old))?;
        }
        if world.cluster().local_rank() == 0 {
            let left = found.iter().filter(|found| !checkpoints.complete.contains(&found.steps));
            left.for_each(|found| remove(&found.path, checkpoints.config.mirror.as_deref()));
        }
        // No rank may write before the remains are removed.
        world.barrier()?;
        Ok(checkpoints)
    }

    /// Returns the position of the checkpoint from which the run continues; `None` if it starts anew.
    pub fn resumed(&self) -> Option<Position> {
        self.resumed.map(|resumed| resumed.position)
    }

    /// Returns the name of the process group that writes these checkpoints. Each start of a run has another one.
    pub fn group(&self) -> &str {
        &self.run
    }

    /// Returns the name of the process group that wrote the checkpoint from which the run continues.
    pub fn resumed_group(&self) -> Option<&str> {
        self.resumed_group.as_deref()
    }

    /// Returns the folder of the checkpoint from which the run continues.
    pub fn resumed_folder(&self) -> Option<PathBuf> {
        self.resumed.map(|resumed| folder_of(&self.config.dir, resumed.position.steps))
    }

    /// Returns the number of processes that wrote the checkpoint, if the run continues with another number or with other
    /// parts.
    pub fn resumed_from_others(&self) -> Option<usize> {
        match self.resumed?.reading {
            Reading::Own => None,
            Reading::All { num_old } => Some(num_old),
        }
    }

    /// Reads this rank's state from which the run continues. `held_ids` are the original ids of the nodes whose embeddings
    /// this rank holds, by table.
    pub(crate) fn read(
        &self,
        held_ids: &[Vec<u32>],
        world: &ProcessGroup,
    ) -> Result<Option<RankState>, CheckpointError> {
        let Some(Resumption { position, reading }) = self.resumed else { return Ok(None) };
        let folder = folder_of(&self.config.dir, position.steps);
        let num_old = match reading {
            Reading::Own => return read_state(&folder.join(state_file_name(world.rank()))).map(Some),
            Reading::All { num_old } => num_old,
        };
        let mut merge = Merge::new(world.rank(), world.size(), held_ids);
        for old in 0..num_old {
            merge.take(old, num_old, read_state(&folder.join(state_file_name(old)))?);
        }
        let merged = merge.finish().map_err(|why| CheckpointError::Refused {
            what: format!("{why}: the checkpoint {} is that of another model or graph", folder.display()),
        })?;
        Ok(Some(merged))
    }

    /// Returns the number of groups of parts that processes hold.
    pub(crate) fn num_groups(&self) -> usize {
        self.config.data.num_groups
    }

    /// Checks that this run is long enough to continue from a checkpoint.
    fn check(&self, manifest: &Manifest) -> Result<(), CheckpointError> {
        let num_epochs = self.config.num_epochs;
        let finished = manifest.position.epoch;
        if finished > num_epochs {
            let what = format!(
                "`num_epochs` is {num_epochs}, but the checkpoint has {finished} epochs: give at least {finished}"
            );
            return Err(CheckpointError::Refused { what });
        }
        Ok(())
    }

    /// Checks that the file of an old rank is undamaged.
    fn verify(&self, manifests: &[&Manifest], steps: u64, old: usize) -> Result<(), CheckpointError> {
        let folder = folder_of(&self.config.dir, steps);
        let name = state_file_name(old);
        let listed = manifests.iter().flat_map(|manifest| &manifest.files).find(|file| file.name == name);
        let verified = match listed {
            Some(file) => file.verify(&folder),
            None => Err(io::Error::new(ErrorKind::NotFound, format!("the checkpoint has no file of rank {old}"))),
        };
        verified.map_err(|source| {
            let older = self.complete.iter().rev().nth(1).map(|&steps| folder_of(&self.config.dir, steps));
            let then = match older {
                Some(older) => format!("to resume from the older checkpoint {}", older.display()),
                None => "to start anew, since there is no older checkpoint".to_owned(),
            };
            let remedy = format!("remove the folder {} on all nodes {then}", folder.display());
            CheckpointError::Damaged { path: folder.join(&name), remedy, source }
        })
    }
}

/// The alternative to a resumption with the settings and the data of the checkpoint.
const ANEW: &str = "or start a new run in another `checkpoint_dir`";

/// Returns the lowest rank of this rank's node.
pub(super) fn first_rank(world: &ProcessGroup) -> usize {
    world.rank() - world.cluster().local_rank()
}

/// Refuses checkpoints of another dataset, and for a run that continues also of other settings.
fn check_identity(config: &CheckpointConfig, found: &[Found]) -> Result<(), CheckpointError> {
    for manifest in found.iter().flat_map(|found| found.manifests.values()) {
        let folder = folder_of(&config.dir, manifest.position.steps);
        let folder = folder.display();
        // Settings come first: another type of features also changes the fingerprint of the data.
        let what = match difference(&config.settings, &manifest.settings) {
            Some(what) if config.resume => {
                format!("{what} in the checkpoint {folder}: resume with the same value, {ANEW}")
            }
            _ if is_other_data(&config.data, manifest) => format!(
                "the data of this run is not that of the checkpoint {folder}: resume with the same data, {ANEW}"
            ),
            _ => continue,
        };
        return Err(CheckpointError::Refused { what });
    }
    Ok(())
}

/// Returns true if a checkpoint belongs to other data. The features of the same parts may have been built again.
fn is_other_data(data: &DataIdentity, manifest: &Manifest) -> bool {
    // Clients of servers of earlier versions did not store the features.
    let is_stored = !manifest.features.is_empty();
    let has_other_features = manifest.parts == data.parts && is_stored && manifest.features != data.features;
    manifest.dataset != data.dataset || has_other_features
}

/// Returns the result of [`Successor::usable`], which is equal on all ranks.
fn agree(
    config: &CheckpointConfig,
    found: &[Found],
    world: &mut ProcessGroup,
) -> Result<Result<Vec<Usable>, String>, CheckpointError> {
    let mine = serde_json::to_vec(&Sightings::new(found)).unwrap_or_default();
    let all = world.all_gather(&mine)?;
    let all: Vec<Sightings> = all.iter().map(|rank| serde_json::from_slice(rank).unwrap_or_default()).collect();
    let successor = Successor { dir: &config.dir, world_size: world.size(), data: &config.data };
    Ok(successor.usable(&all))
}

/// Returns a random name that rank 0 chooses.
fn random_name(world: &mut ProcessGroup) -> Result<String, CheckpointError> {
    let mut name = format!("{:016x}", RandomState::new().build_hasher().finish()).into_bytes();
    world.broadcast_bytes(&mut name, 0)?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Describes the first setting whose value differs from the checkpoint.
fn difference(own: &BTreeMap<String, String>, stored: &BTreeMap<String, String>) -> Option<String> {
    let names: BTreeSet<&String> = own.keys().chain(stored.keys()).collect();
    let name = names.into_iter().find(|name| value_of(own, name) != value_of(stored, name))?;
    let [own, stored] = [own, stored].map(|settings| value_of(settings, name).unwrap_or("not set"));
    Some(format!("`{name}` is {own}, but it is {stored}"))
}

/// Returns the value of a setting; `None` if it is not set or off, or not known to the version that stored the settings.
fn value_of<'a>(settings: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    settings.get(name).map(String::as_str).filter(|value| !["null", "false", "[]"].contains(value))
}
