//! The restart count and the identity of a run, from environment variables of the programs that restart it.

use super::slurm;
use super::variables::Variables;
use crate::error::ClusterError;
use std::ffi::OsString;

/// The variables that count restarts of a whole job: by `launch`, by torchrun, and by Slurm after a requeue.
const RESTART_COUNTS: [&str; 3] = ["EDGECUT_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"];

/// An attempt at a run. A run that fails may be restarted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// The number of restarts before this attempt, 0 for the first one: the sum of `EDGECUT_RESTART_COUNT`,
    /// `TORCHELASTIC_RESTART_COUNT` and `SLURM_RESTART_COUNT`.
    pub number: u64,
    /// The identity of the run, the same in all of its attempts: `EDGECUT_RUN_ID`, else `TORCHELASTIC_RUN_ID` unless it is
    /// torchrun's default, else `SLURM_JOB_ID` and `SLURM_STEP_ID`.
    pub run: Option<String>,
}

impl Attempt {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// A variable with an invalid value; the error names it.
    pub fn read() -> Result<Self, ClusterError> {
        Self::read_from(|name| std::env::var_os(name))
    }

    /// Reads variables from `lookup` instead of the environment.
    ///
    /// # Errors
    /// As [`Attempt::read`].
    pub fn read_from(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, ClusterError> {
        let variables = Variables(&lookup);
        let mut number = 0_u64;
        for name in RESTART_COUNTS {
            number = number.saturating_add(variables.number(name)?.unwrap_or(0) as u64);
        }
        let mut run = variables.text("EDGECUT_RUN_ID")?;
        if run.is_none() {
            run = torchrun_name(&variables)?;
        }
        if run.is_none() {
            run = slurm::step_name(&variables)?;
        }
        Ok(Self { number, run })
    }

    /// Returns whether an earlier attempt at the run may have left results.
    pub fn is_restart(&self) -> bool {
        self.number > 0
    }
}

/// Returns the name of a run of torchrun; `None` for a run without a name, which torchrun calls "none".
pub(super) fn torchrun_name(variables: &Variables<'_>) -> Result<Option<String>, ClusterError> {
    Ok(variables.text("TORCHELASTIC_RUN_ID")?.filter(|name| name != "none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Attempt, ClusterError> {
        Attempt::read_from(|name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn restarts_of_all_launchers_count_and_the_inner_one_names_the_run() {
        assert_eq!(read(&[]).unwrap(), Attempt::default());
        assert!(!read(&[("EDGECUT_RESTART_COUNT", "0")]).unwrap().is_restart());
        let slurm = [("SLURM_RESTART_COUNT", "1"), ("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0")];
        let attempt = read(&slurm).unwrap();
        assert_eq!((attempt.number, attempt.run.as_deref()), (1, Some("slurm-7.0")));
        let elastic = [("TORCHELASTIC_RESTART_COUNT", "2"), ("TORCHELASTIC_RUN_ID", "a")];
        let attempt = read(&[&slurm[..], &elastic].concat()).unwrap();
        assert_eq!((attempt.number, attempt.run.as_deref()), (3, Some("a")));
        let unnamed = [("TORCHELASTIC_RESTART_COUNT", "1"), ("TORCHELASTIC_RUN_ID", "none")];
        assert_eq!(read(&unnamed).unwrap(), Attempt { number: 1, run: None });
        let named = [("EDGECUT_RUN_ID", "mine")];
        assert_eq!(read(&[&elastic[..], &named].concat()).unwrap().run.as_deref(), Some("mine"));
    }

    #[test]
    fn a_count_that_is_no_number_is_an_error_that_names_the_variable() {
        let error = read(&[("TORCHELASTIC_RESTART_COUNT", "many")]).unwrap_err().to_string();
        assert!(error.contains("TORCHELASTIC_RESTART_COUNT"), "{error}");
    }
}
