//! The sums of batch normalizations over the ranks.

use crate::error::{ModelError, TrainError};
use crate::step_options::StepOptions;
use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};
use edgecut_gnn::ops::{BatchNormSync, RowSums, RowSumsError};
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A process group for batch normalizations only, so that their collectives need no common order with the others.
#[derive(Debug)]
struct GroupSums(Mutex<ProcessGroup>);

impl RowSums for GroupSums {
    fn sum(&self, values: &mut [f64]) -> Result<(), RowSumsError> {
        let mut group = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        group.all_reduce(values, ReduceOp::Sum).map_err(RowSumsError::from)
    }
}

impl StepOptions {
    /// Connects the ranks for a training with `sync_batch_norm`. A single rank needs no connection. Every rank must call
    /// this.
    ///
    /// The connections close when the last clone of these options and the models of the training are dropped. The options
    /// must outlive the report of a failure to the other ranks, as the process group of all ranks must.
    ///
    /// # Errors
    /// [`TrainError::Config`] if several ranks are threads of one process; a failure of the job.
    pub fn join_batch_norm(&mut self, world: &mut ProcessGroup) -> Result<(), TrainError> {
        if world.size() == 1 {
            return Ok(());
        }
        // Ranks that are threads of one process take turns in their forward and backward passes (`AutodiffTurn`), so they
        // cannot wait for each other there.
        let processes = world.all_gather(&process_number().to_le_bytes())?;
        if processes.iter().collect::<HashSet<_>>().len() < processes.len() {
            let what = "`sync_batch_norm` needs a process per rank, but several ranks are threads of one process: start \
                        processes, or leave it out";
            return Err(TrainError::config(what));
        }
        let group = world.cluster().group("batch norm", world.members())?;
        self.batch_norm = Some(BatchNormSync::new(GroupSums(Mutex::new(group))));
        Ok(())
    }

    /// Returns the exchange for a model in training, if its settings ask for it (`is_wanted`) and there are other ranks.
    ///
    /// # Errors
    /// [`ModelError::Settings`] without a connection to the other ranks.
    pub(crate) fn batch_norm_sync(
        &self,
        is_wanted: bool,
        world: &ProcessGroup,
    ) -> Result<Option<&BatchNormSync>, ModelError> {
        if !is_wanted || world.size() == 1 {
            return Ok(None);
        }
        match &self.batch_norm {
            Some(sync) => Ok(Some(sync)),
            None => {
                let what =
                    "`sync_batch_norm` needs a connection to the other ranks: call `StepOptions::join_batch_norm`";
                Err(ModelError::Settings { what: what.into() })
            }
        }
    }

    /// Ends the forward pass of a step.
    pub(crate) fn end_forward(&self) -> Result<(), TrainError> {
        match &self.batch_norm {
            Some(sync) => sync.end_forward().map_err(error_of),
            None => Ok(()),
        }
    }

    /// Ends the backward pass of a step, also on a rank that had none.
    pub(crate) fn end_backward(&self) -> Result<(), TrainError> {
        match &self.batch_norm {
            Some(sync) => sync.end_backward().map_err(error_of),
            None => Ok(()),
        }
    }
}

/// Checks that models with these settings have batch normalizations to synchronize.
///
/// # Errors
/// [`ModelError::Settings`] if they have none.
pub(crate) fn check_sync_batch_norm(is_wanted: bool, batch_norm: bool) -> Result<(), ModelError> {
    if is_wanted && !batch_norm {
        let what = "`sync_batch_norm` has no effect without batch normalization, which the model does not have: leave it \
                    out, or choose batch normalization";
        return Err(ModelError::Settings { what: what.into() });
    }
    Ok(())
}

/// Returns a random number of this process.
fn process_number() -> u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    *NUMBER.get_or_init(|| RandomState::new().hash_one(0_u64))
}

fn error_of(error: RowSumsError) -> TrainError {
    match error.downcast::<ClusterError>() {
        Ok(error) => TrainError::Cluster(*error),
        Err(error) => TrainError::batch(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_cluster::Cluster;

    #[test]
    fn threads_of_a_process_are_refused_and_one_rank_needs_no_connection() {
        let mut one = Cluster::join_local(1, |_| {}).expect("join").remove(0).world().expect("a group");
        let mut options = StepOptions::default();
        options.join_batch_norm(&mut one).expect("one rank");
        assert!(options.batch_norm.is_none());
        assert!(options.batch_norm_sync(true, &one).expect("one rank").is_none());
        let ranks = Cluster::join_local(2, |_| {}).expect("join");
        std::thread::scope(|scope| {
            for cluster in ranks {
                scope.spawn(move || {
                    let mut world = cluster.world().expect("a group");
                    let mut options = StepOptions::default();
                    let error = options.join_batch_norm(&mut world).expect_err("threads of one process").to_string();
                    assert!(error.contains("needs a process per rank"), "{error}");
                    let error = options.batch_norm_sync(true, &world).expect_err("no connection").to_string();
                    assert!(error.contains("join_batch_norm"), "{error}");
                    assert!(options.batch_norm_sync(false, &world).expect("not wanted").is_none());
                    cluster.shutdown().expect("both ranks are done");
                });
            }
        });
    }

    #[test]
    fn a_flag_without_effect_is_refused() {
        assert!(check_sync_batch_norm(true, false).is_err());
        for (is_wanted, batch_norm) in [(true, true), (false, true), (false, false)] {
            assert_eq!(check_sync_batch_norm(is_wanted, batch_norm), Ok(()));
        }
    }
}
