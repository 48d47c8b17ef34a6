//! Agreement of all ranks on what a loader is made of.

use crate::error::LoaderError;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use rustc_hash::FxBuildHasher;
use std::hash::{BuildHasher, Hash};

/// A value that must be equal on all ranks of a job, which compare its hash.
///
/// ```
/// use edgecut_cluster::Cluster;
/// use edgecut_dist_loader::SharedValue;
///
/// let ranks = Cluster::join_local(2, |_| {})?;
/// std::thread::scope(|scope| {
///     for cluster in ranks {
///         scope.spawn(move || {
///             let mut world = cluster.world().expect("the group is made");
///             let values = [SharedValue::new("batch size", 16), SharedValue::new("seed", cluster.rank())];
///             let error = SharedValue::check(&values, &mut world).expect_err("each rank has its own seed");
///             assert!(error.to_string().contains("(seed)"));
///             cluster.shutdown().expect("both ranks are done");
///         });
///     }
/// });
/// # Ok::<(), edgecut_cluster::ClusterError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SharedValue {
    name: &'static str,
    hash: u64,
}

impl SharedValue {
    /// Describes a value by its name in errors.
    pub fn new(name: &'static str, value: impl Hash) -> Self {
        Self { name, hash: FxBuildHasher.hash_one(value) }
    }

    /// Checks that all ranks have the same values. All ranks must call this with the same number of them, and get the same
    /// result.
    ///
    /// # Errors
    /// [`LoaderError::Config`] that names the values that differ, [`LoaderError::Agree`] if a rank cannot be reached.
    pub fn check(values: &[Self], world: &mut ProcessGroup) -> Result<(), LoaderError> {
        // The largest complement belongs to the smallest hash.
        let mut bounds: Vec<u64> = values.iter().flat_map(|value| [value.hash, !value.hash]).collect();
        world.all_reduce(&mut bounds, ReduceOp::Max)?;
        let mut different = Vec::new();
        for (value, bounds) in values.iter().zip(bounds.chunks(2)) {
            if bounds[0] != !bounds[1] {
                different.push(value.name);
            }
        }
        if different.is_empty() {
            return Ok(());
        }
        let what = format!(
            "the processes of this job make a loader from different values ({}), so it would skip some inputs and load others \
             twice: pass the same values in every process, and whole lists, since the loader divides them over the processes",
            different.join(", ")
        );
        Err(LoaderError::Config { what })
    }
}
