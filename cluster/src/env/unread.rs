//! The ranks of launchers whose variables do not tell the processes of a node.

use super::variables::Variables;

/// The variables of the rank and of the number of processes, as Flux and other programs with the process management interface of MPI
/// set them.
const NAMES: [[&str; 2]; 2] = [["PMI_RANK", "PMI_SIZE"], ["FLUX_TASK_RANK", "FLUX_JOB_SIZE"]];

/// Describes the rank of this process among several, if one of these launchers has started it.
/// Values that are no numbers are no errors, since only this description depends on them.
pub(super) fn rank(variables: &Variables<'_>) -> Option<String> {
    for [rank, size] in NAMES {
        if let (Ok(Some(number)), Ok(Some(count @ 2..))) = (variables.number(rank), variables.number(size)) {
            return Some(format!("{rank} is {number} and {size} is {count}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::env::tests::read;

    #[test]
    fn a_rank_without_the_processes_of_its_node_is_described() {
        let flux = [("FLUX_TASK_RANK", "1"), ("FLUX_JOB_SIZE", "4")];
        let found = read(&flux).unwrap();
        assert_eq!((found.rank, found.unread.as_deref()), (None, Some("FLUX_TASK_RANK is 1 and FLUX_JOB_SIZE is 4")));
        assert_eq!(read(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]).unwrap().unread, None);
        assert_eq!(read(&[("FLUX_TASK_RANK", ""), ("FLUX_JOB_SIZE", "4")]).unwrap().unread, None);
        // Complete variables of another launcher.
        let both = [&flux[..], &[("RANK", "1"), ("WORLD_SIZE", "4")]].concat();
        assert_eq!((read(&both).unwrap().rank, read(&both).unwrap().unread), (Some(1), None));
    }
}
