//! The writer of checkpoints during a training.

use super::cadence::Cadence;
use super::checkpoints::{Checkpoints, first_rank};
use super::manifest::{Manifest, check_new, folder_of, remove};
use super::rank_state::{Position, RankState};
use super::state_file::{StateFile, write_state};
use crate::error::CheckpointError;
use edgecut_cluster::{DeferredTermination, ProcessGroup, ReduceOp, panic_text};
use edgecut_output::sync_folder;
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The writer of a run's checkpoints.
///
/// A checkpoint is copied in memory and written by a thread while the training goes on. Once all ranks have written
/// their files, which they notice together after a step, one rank of each node writes the manifest.
pub(crate) struct Checkpointer {
    checkpoints: Checkpoints,
    /// The checkpoint that is being written, the same on all ranks.
    pending: Option<Pending>,
    /// The position of the last checkpoint.
    last: Position,
    last_time: Instant,
    /// The time that this rank has spent since it was last asked.
    spent: Duration,
    /// Keeps SIGTERM from ending the process during the training.
    deferred: Option<DeferredTermination>,
}

struct Pending {
    position: Position,
    writing: Writing,
}

enum Writing {
    Running(JoinHandle<io::Result<StateFile>>),
    Done(StateFile),
}

/// The file that a rank has written, and the ranks whose files the manifest of its node lists.
#[derive(Serialize, Deserialize)]
struct Written {
    file: StateFile,
    listed: Range<usize>,
    /// True for the rank that writes the manifest.
    writes_manifest: bool,
}

/// The place of a step in its epoch.
#[derive(Clone, Copy)]
pub(crate) struct StepPlace {
    /// True for the last step of the epoch.
    pub(crate) is_last: bool,
    /// True if a run can continue within the epoch.
    pub(crate) resumes: bool,
}

/// Numbers that ranks add up after each step.
#[derive(Clone, Copy)]
struct Sums {
    /// The number of ranks that are asked to end.
    asked: u64,
    /// 1 if rank 0 finds that the time for a checkpoint has come.
    due: u64,
}

impl Checkpointer {
    pub(crate) fn new(checkpoints: Checkpoints) -> Self {
        Self {
            last: checkpoints.resumed().unwrap_or_default(),
            last_time: Instant::now(),
            pending: None,
            spent: Duration::ZERO,
            deferred: checkpoints.config.termination.as_ref().map(|termination| termination.defer()),
            checkpoints,
        }
    }

    /// Writes a checkpoint if one is due after a step. Returns its folder if the run is to end. Every rank must call this
    /// after each step. At the last step of an epoch, checkpoints wait for the validation. A run that cannot continue within the
    /// epoch ends with its last checkpoint, or after the epoch if there is none.
    ///
    /// # Errors
    /// A file that cannot be written, or a failure of the job.
    pub(crate) fn after_step(
        &mut self,
        position: Position,
        place: StepPlace,
        state: impl FnOnce() -> RankState,
        world: &mut ProcessGroup,
    ) -> Result<Option<PathBuf>, CheckpointError> {
        let start = Instant::now();
        let sums = self.agree(world)?;
        let result = if place.resumes {
            let is_due = !place.is_last && self.is_due(position, sums);
            self.write_if(is_due, sums, position, state, world)
        } else if sums.asked > 0 && self.last.steps > 0 {
            self.end(world).map(Some)
        } else {
            Ok(None)
        };
        self.spent += start.elapsed();
        result
    }

    /// Writes a checkpoint if one is due after an epoch and its validation, or if the training ends with it. Returns its
    /// folder if the run is to end. Every rank must call this after each epoch.
    ///
    /// # Errors
    /// As [`after_step`](Self::after_step).
    pub(crate) fn after_epoch(
        &mut self,
        position: Position,
        is_end: bool,
        state: impl FnOnce() -> RankState,
        world: &mut ProcessGroup,
    ) -> Result<Option<PathBuf>, CheckpointError> {
        let start = Instant::now();
        let sums = self.agree(world)?;
        let is_due = is_end || self.is_due(position, sums);
        let result = self.write_if(is_due, sums, position, state, world);
        self.spent += start.elapsed();
        result
    }

    /// Waits for the checkpoint that is being written. Every rank must call this at the end of the training.
    ///
    /// # Errors
    /// As [`after_step`](Self::after_step).
    pub(crate) fn finish(&mut self, world: &mut ProcessGroup) -> Result<(), CheckpointError> {
        self.commit(world)
    }

    /// Returns the time that this rank has spent on checkpoints since the last call, except on threads.
    pub(crate) fn take_spent(&mut self) -> Duration {
        std::mem::take(&mut self.spent)
    }

    /// Exchanges the requests to end and the progress of writing. Completes a checkpoint that all ranks have written.
    fn agree(&mut self, world: &mut ProcessGroup) -> Result<Sums, CheckpointError> {
        let config = &self.checkpoints.config;
        let is_asked = config.termination.as_ref().is_some_and(|termination| termination.is_requested());
        let is_due = match config.every {
            Cadence::Time(time) => world.rank() == 0 && self.last_time.elapsed() >= time,
            _ => false,
        };
        let is_written = self.has_written()?;
        let mut sums = [is_asked, is_due, is_written].map(u64::from);
        world.all_reduce(&mut sums, ReduceOp::Sum)?;
        let [asked, due, written] = sums;
        if written == world.size() as u64 {
            self.commit(world)?;
        }
        Ok(Sums { asked, due })
    }

    fn is_due(&self, position: Position, sums: Sums) -> bool {
        match self.checkpoints.config.every {
            Cadence::Epochs(every) => position.step == 0 && position.epoch / every > self.last.epoch / every,
            Cadence::Steps(every) => position.steps / every > self.last.steps / every,
            Cadence::Time(_) => sums.due > 0,
        }
    }

    fn write_if(
        &mut self,
        is_due: bool,
        sums: Sums,
        position: Position,
        state: impl FnOnce() -> RankState,
        world: &mut ProcessGroup,
    ) -> Result<Option<PathBuf>, CheckpointError> {
        let ends = sums.asked > 0;
        // The checkpoint of a step is written once: replacing a complete one would not be atomic.
        if (is_due || ends) && position.steps > self.last.steps {
            self.write(position, state, world)?;
        }
        if !ends {
            return Ok(None);
        }
        self.end(world).map(Some)
    }

    /// Completes the last checkpoint, and returns its folder. Every rank must call this.
    fn end(&mut self, world: &mut ProcessGroup) -> Result<PathBuf, CheckpointError> {
        self.commit(world)?;
        // The signal may come again, from the parent process and from a scheduler.
        if let Some(deferred) = self.deferred.take() {
            deferred.keep();
        }
        Ok(folder_of(&self.checkpoints.config.dir, self.last.steps))
    }

    /// Copies the state, and starts to write it.
    fn write(
        &mut self,
        position: Position,
        state: impl FnOnce() -> RankState,
        world: &mut ProcessGroup,
    ) -> Result<(), CheckpointError> {
        // At most one checkpoint is written at a time, which bounds the memory of the copies.
        self.commit(world)?;
        let folder = folder_of(&self.checkpoints.config.dir, position.steps);
        let state = state();
        let rank = world.rank();
        let first = first_rank(world);
        let mirror = self.checkpoints.config.mirror.clone();
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(move || {
            check_new(&folder, first, mirror.as_deref())?;
            let file = write_state(&folder, rank, &state)?;
            if let Some(mirror) = mirror {
                mirror.put(&Path::new(folder.file_name().unwrap_or_default()).join(&file.name))?;
            }
            Ok(file)
        });
        let thread = thread.map_err(|source| self.write_error(position, source))?;
        self.pending = Some(Pending { position, writing: Writing::Running(thread) });
        self.last = position;
        self.last_time = Instant::now();
        Ok(())
    }

    /// Returns true if this rank has written its file of the pending checkpoint.
    fn has_written(&mut self) -> Result<bool, CheckpointError> {
        match &self.pending {
            Some(Pending { writing: Writing::Running(thread), .. }) if !thread.is_finished() => Ok(false),
            None => Ok(false),
            Some(_) => self.written().map(|file| file.is_some()),
        }
    }

    /// Waits until this rank has written its file of the pending checkpoint, and returns its description.
    fn written(&mut self) -> Result<Option<(Position, StateFile)>, CheckpointError> {
        let Some(Pending { position, writing }) = self.pending.take() else { return Ok(None) };
        let file = match writing {
            Writing::Done(file) => file,
            Writing::Running(thread) => match thread.join() {
                Ok(file) => file.map_err(|source| self.write_error(position, source))?,
                Err(panic) => return Err(self.write_error(position, io::Error::other(panic_text(&*panic)))),
            },
        };
        self.pending = Some(Pending { position, writing: Writing::Done(file.clone()) });
        Ok(Some((position, file)))
    }

    /// Completes the pending checkpoint, if there is one, and removes old ones. Every rank must call this.
    fn commit(&mut self, world: &mut ProcessGroup) -> Result<(), CheckpointError> {
        let Some((position, file)) = self.written()? else { return Ok(()) };
        let cluster = world.cluster();
        let local = first_rank(world)..first_rank(world) + cluster.local_world_size();
        let is_first = cluster.local_rank() == 0;
        let own = Written { file, listed: local.clone(), writes_manifest: is_first };
        let own = serde_json::to_vec(&own).map_err(|error| self.write_error(position, error.into()))?;
        // Also the barrier between the files of all ranks and the manifests.
        let all = world.all_gather(&own)?;
        let written: Result<Vec<Written>, _> = all.iter().map(|rank| serde_json::from_slice(rank)).collect();
        let written = written.map_err(|error| self.write_error(position, error.into()))?;
        if let Some(rank) = unlisted(&written) {
            let what = format!(
                "no manifest would list the file of rank {rank} in the checkpoint {}, which could not be continued: give the \
                 ranks of each node consecutive numbers",
                folder_of(&self.checkpoints.config.dir, position.steps).display()
            );
            return Err(CheckpointError::Refused { what });
        }
        let Checkpoints { config, run, complete, .. } = &mut self.checkpoints;
        if is_first {
            let folder = folder_of(&config.dir, position.steps);
            let listed = written.get(local.clone()).unwrap_or_default().iter();
            let manifest = Manifest {
                dataset: config.data.dataset.clone(),
                parts: config.data.parts.clone(),
                features: config.data.features.clone(),
                num_groups: config.data.num_groups,
                settings: config.settings.clone(),
                files: listed.map(|of_rank| of_rank.file.clone()).collect(),
                ..Manifest::new(run.clone(), position, world.size())
            };
            manifest.write(&folder, local.start, config.mirror.as_deref())?;
            sync_folder(&config.dir).map_err(|source| CheckpointError::Write { path: config.dir.clone(), source })?;
        }
        // An old checkpoint is removed only when the new one is complete on all nodes.
        world.barrier()?;
        complete.push(position.steps);
        let num_old = complete.len().saturating_sub(config.keep.max(1));
        for steps in complete.drain(..num_old) {
            if is_first {
                remove(&folder_of(&config.dir, steps), config.mirror.as_deref());
            }
        }
        self.pending = None;
        Ok(())
    }

    fn write_error(&self, position: Position, source: io::Error) -> CheckpointError {
        CheckpointError::Write { path: folder_of(&self.checkpoints.config.dir, position.steps), source }
    }
}

/// Returns the first rank whose file no manifest lists. `written` is in the order of the ranks.
fn unlisted(written: &[Written]) -> Option<usize> {
    (0..written.len()).find(|rank| !written.iter().any(|node| node.writes_manifest && node.listed.contains(rank)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what ranks with these local ranks, on nodes of these sizes, have written.
    fn written(seats: &[[usize; 2]]) -> Vec<Written> {
        let mut written = Vec::new();
        for (rank, &[local_rank, local_world_size]) in seats.iter().enumerate() {
            let first = rank - local_rank;
            let file = StateFile { name: String::new(), bytes: 0, xxh3: String::new() };
            written.push(Written { file, listed: first..first + local_world_size, writes_manifest: local_rank == 0 });
        }
        written
    }

    #[test]
    fn a_rank_whose_file_no_manifest_lists_is_found() {
        assert_eq!(unlisted(&written(&[[0, 2], [1, 2], [0, 1]])), None);
        // Ranks that take turns over two nodes.
        assert_eq!(unlisted(&written(&[[0, 2], [0, 2], [1, 2], [1, 2]])), Some(3));
        // A node without a first rank.
        assert_eq!(unlisted(&written(&[[0, 1], [1, 2]])), Some(1));
    }
}
