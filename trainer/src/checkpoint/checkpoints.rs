//! The checkpoints of a run, and the one that it continues from.

use super::cadence::Cadence;
use super::error::CheckpointError;
use super::manifest::{Found, Manifest, find, folder_of, remove};
use super::rank_state::{Position, RankState};
use super::state_file::{read_state, state_file_name};
use edgecut_cluster::{ProcessGroup, Termination};
use edgecut_output::check_output;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The settings of checkpoints.
#[derive(Clone, Debug)]
pub struct CheckpointConfig {
    /// The folder of the checkpoints. Each node keeps those of its own ranks, in a folder of its own or in one that all
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
    /// The fingerprint of the data.
    pub graph: String,
    /// The request to end the run with a checkpoint; `None` if there can be none.
    pub termination: Option<Termination>,
}

/// The checkpoints of a run, which all ranks write together.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    pub(super) config: CheckpointConfig,
    /// A random name, equal on all ranks.
    pub(super) run: String,
    /// The steps of the complete checkpoints, ascending.
    pub(super) complete: Vec<u64>,
    resumed: Option<Position>,
}

/// A complete checkpoint, as nodes compare it.
type Complete = (u64, String);

impl Checkpoints {
    /// Finds the newest checkpoint that is complete on all nodes and checks that this run can continue from it. Removes
    /// what interrupted runs have left. Every rank must call this.
    ///
    /// # Errors
    /// [`CheckpointError::Refused`] if the checkpoint is that of a run with other settings, ranks or data, or the folder
    /// holds checkpoints and [`CheckpointConfig::resume`] is false. [`CheckpointError::Damaged`] for damaged files.
    pub fn open(config: CheckpointConfig, world: &mut ProcessGroup) -> Result<Self, CheckpointError> {
        let dir = &config.dir;
        std::fs::create_dir_all(dir)
            .and_then(|()| check_output(&dir.join(state_file_name(world.rank()))))
            .map_err(|source| CheckpointError::Write { path: dir.clone(), source })?;
        let found = find(dir)?;
        check_world_size(dir, &found, world.size())?;
        let complete = agree(dir, &found, world)?;
        let run = random_name(world)?;
        if !config.resume && !complete.is_empty() {
            let what = format!(
                "{} holds checkpoints of an earlier run: add `resume` to continue it, or choose another \
                 `checkpoint_dir`",
                dir.display()
            );
            return Err(CheckpointError::Refused { what });
        }
        let mut checkpoints =
            Self { config, run, complete: complete.iter().map(|(steps, _)| *steps).collect(), resumed: None };
        if let Some(newest) = checkpoints.complete.last() {
            let newest = found.iter().find(|found| found.steps == *newest);
            let manifest = newest.and_then(|found| found.manifest_of(&state_file_name(world.rank())));
            if let Some(manifest) = manifest {
                checkpoints.check(manifest, world.rank())?;
                checkpoints.resumed = Some(manifest.position);
            }
        }
        if world.cluster().local_rank() == 0 {
            let left = found.iter().filter(|found| !checkpoints.complete.contains(&found.steps));
            left.for_each(|found| remove(&found.path));
        }
        // No rank may write before the remains are removed.
        world.barrier()?;
        Ok(checkpoints)
    }

    /// Returns the position of the checkpoint from which the run continues; `None` if it starts anew.
    pub fn resumed(&self) -> Option<Position> {
        self.resumed
    }

    /// Returns the folder of the checkpoint from which the run continues.
    pub fn resumed_folder(&self) -> Option<PathBuf> {
        self.resumed.map(|position| folder_of(&self.config.dir, position.steps))
    }

    /// Reads this rank's state from which the run continues.
    pub(crate) fn read(&self, rank: usize) -> Result<Option<RankState>, CheckpointError> {
        self.resumed_folder().map(|folder| read_state(&folder.join(state_file_name(rank)))).transpose()
    }

    /// Checks that this run can continue from a checkpoint, and that this rank's file is undamaged.
    fn check(&self, manifest: &Manifest, rank: usize) -> Result<(), CheckpointError> {
        let folder = folder_of(&self.config.dir, manifest.position.steps);
        let refused = |what: String| Err(CheckpointError::Refused { what });
        let anew = "or start a new run in another `checkpoint_dir`";
        if let Some(what) = difference(&self.config.settings, &manifest.settings) {
            return refused(format!(
                "{what} in the checkpoint {}: resume with the same value, {anew}",
                folder.display()
            ));
        }
        if self.config.graph != manifest.graph {
            let what = "the data of this run is not that of the checkpoint";
            return refused(format!("{what} {}: resume with the same data, {anew}", folder.display()));
        }
        let num_epochs = self.config.num_epochs;
        let finished = manifest.position.epoch;
        if finished > num_epochs {
            let what = format!("`num_epochs` is {num_epochs}, but the checkpoint has {finished} epochs");
            return refused(format!("{what}: give at least {finished}"));
        }
        let name = state_file_name(rank);
        let verified = match manifest.files.iter().find(|file| file.name == name) {
            Some(file) => file.verify(&folder),
            None => Err(io::Error::new(ErrorKind::NotFound, "the checkpoint has no file of this rank")),
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

/// Returns the lowest rank of this rank's node.
pub(super) fn first_rank(world: &ProcessGroup) -> usize {
    world.rank() - world.cluster().local_rank()
}

/// Refuses checkpoints of another number of ranks. Each rank has a state of its own, which no other number of ranks can
/// continue.
fn check_world_size(dir: &Path, found: &[Found], world_size: usize) -> Result<(), CheckpointError> {
    let other = found.iter().flat_map(|found| found.manifests.values()).find(|other| other.world_size != world_size);
    let Some(other) = other else { return Ok(()) };
    let what = format!(
        "{} holds a checkpoint of {} processes, but this run has {world_size}: start as many processes, or start a new \
         run in another `checkpoint_dir`, from the saved model of that run (`init_from`)",
        dir.display(),
        other.world_size
    );
    Err(CheckpointError::Refused { what })
}

/// The checkpoints of one rank.
#[derive(Default, Serialize, Deserialize)]
struct OfRank {
    complete: BTreeSet<Complete>,
    /// The steps for which the rank has written its file, whether or not its node has completed the checkpoint.
    written: BTreeSet<u64>,
}

/// Returns the checkpoints that are complete on all nodes, in the order of their steps.
///
/// # Errors
/// [`CheckpointError::Refused`] if there is none, although some rank has a complete checkpoint of which another rank has
/// no file: it may run on another node than before. To start anew would remove the checkpoints.
fn agree(dir: &Path, found: &[Found], world: &mut ProcessGroup) -> Result<Vec<Complete>, CheckpointError> {
    let name = state_file_name(world.rank());
    let of_node = |found: &Found| Some((found.steps, found.manifest_of(&name)?.run.clone()));
    let written = found.iter().filter(|found| found.files.contains(&name)).map(|found| found.steps);
    let mine = OfRank { complete: found.iter().filter_map(of_node).collect(), written: written.collect() };
    let bytes = serde_json::to_vec(&mine).unwrap_or_default();
    let all: Vec<OfRank> =
        world.all_gather(&bytes)?.iter().map(|other| serde_json::from_slice(other).unwrap_or_default()).collect();
    let mut common = mine.complete;
    common.retain(|checkpoint| all.iter().all(|rank| rank.complete.contains(checkpoint)));
    if common.is_empty() {
        let mut any = all.iter().flat_map(|rank| &rank.complete);
        let lost = any.find_map(|(steps, _)| Some((steps, all.iter().position(|rank| !rank.written.contains(steps))?)));
        if let Some((steps, rank)) = lost {
            let what = format!(
                "{} has a checkpoint after {steps} steps on some node, but not the file of rank {rank}: start every \
                 rank on the node on which it ran, or remove the folder on all nodes to start anew",
                dir.display()
            );
            return Err(CheckpointError::Refused { what });
        }
    }
    Ok(common.into_iter().collect())
}

/// Returns a random name that rank 0 chooses.
fn random_name(world: &mut ProcessGroup) -> Result<String, CheckpointError> {
    let mut name = format!("{:016x}", RandomState::new().build_hasher().finish()).into_bytes();
    world.broadcast_bytes(&mut name, 0)?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Describes the first setting whose value is not that of the checkpoint.
fn difference(own: &BTreeMap<String, String>, stored: &BTreeMap<String, String>) -> Option<String> {
    let names: BTreeSet<&String> = own.keys().chain(stored.keys()).collect();
    let name = names.into_iter().find(|name| own.get(*name) != stored.get(*name))?;
    let value = |settings: &BTreeMap<String, String>| settings.get(name).cloned().unwrap_or_else(|| "not set".into());
    Some(format!("`{name}` is {}, but it is {}", value(own), value(stored)))
}
