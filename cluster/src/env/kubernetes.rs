//! The variables of a Kubernetes Job with `completionMode: Indexed`.

use super::env_ranks::EnvRanks;
use super::launcher::Launcher;
use super::variables::Variables;
use crate::error::ClusterError;

/// Reads the rank of a pod. Kubernetes sets only the index; the manifest must set `WORLD_SIZE`. Without `WORLD_SIZE`,
/// the pods of a Job are independent of each other, and this returns `None`.
pub(super) fn ranks(variables: &Variables<'_>) -> Result<Option<EnvRanks>, ClusterError> {
    let Some(world_size) = variables.number("WORLD_SIZE")?.filter(|&size| size > 1) else { return Ok(None) };
    let Some(rank) = variables.number("JOB_COMPLETION_INDEX")? else { return Ok(None) };
    Ok(Some(EnvRanks {
        launcher: Some(Launcher::Kubernetes),
        rank: Some(rank),
        world_size: Some(world_size),
        ..EnvRanks::default()
    }))
}

#[cfg(test)]
mod tests {
    use crate::env::tests::{error, read};

    #[test]
    fn an_index_is_a_rank_where_the_manifest_says_of_how_many() {
        let pod =
            read(&[("JOB_COMPLETION_INDEX", "3"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "train-0.train")]).unwrap();
        assert_eq!((pod.rank, pod.world_size, pod.master_addr.as_deref()), (Some(3), Some(4), Some("train-0.train")));
        assert_eq!(read(&[("JOB_COMPLETION_INDEX", "3")]).unwrap().rank, None);
        error(&[("JOB_COMPLETION_INDEX", "x"), ("WORLD_SIZE", "4")], "JOB_COMPLETION_INDEX", "x");
    }
}
