//! Ranks from the environment, under the names that torchrun and its kin set.

use std::ffi::OsString;
use std::str::FromStr;

use crate::error::ClusterError;

/// What the environment says about this process's place in a job; `None` where a variable is not set.
///
/// A command-line flag wins over the environment, so a caller takes `flag.or(env.rank)`.
///
/// ```
/// use edgecut_cluster::EnvRanks;
///
/// let env = EnvRanks::read_from(|name| match name {
///     "RANK" => Some("2".into()),
///     _ => None,
/// })?;
/// assert_eq!((env.rank, env.world_size), (Some(2), None));
/// # Ok::<(), edgecut_cluster::ClusterError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvRanks {
    /// `MASTER_ADDR`: host name or IP address of rank 0.
    pub master_addr: Option<String>,
    /// `MASTER_PORT`
    pub master_port: Option<u16>,
    /// `RANK`
    pub rank: Option<usize>,
    /// `WORLD_SIZE`
    pub world_size: Option<usize>,
    /// `LOCAL_RANK`
    pub local_rank: Option<usize>,
    /// `LOCAL_WORLD_SIZE`
    pub local_world_size: Option<usize>,
}

impl EnvRanks {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// A variable whose value is not what it should be; the error names it.
    pub fn read() -> Result<Self, ClusterError> {
        Self::read_from(|name| std::env::var_os(name))
    }

    /// Reads variables from `lookup` instead of the environment.
    ///
    /// # Errors
    /// As [`EnvRanks::read`].
    pub fn read_from(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, ClusterError> {
        Ok(Self {
            master_addr: parse(&lookup, "MASTER_ADDR", "a host name or an IP address")?,
            master_port: parse(&lookup, "MASTER_PORT", "a port from 0 to 65535")?,
            rank: parse(&lookup, "RANK", "a whole number")?,
            world_size: parse(&lookup, "WORLD_SIZE", "a whole number")?,
            local_rank: parse(&lookup, "LOCAL_RANK", "a whole number")?,
            local_world_size: parse(&lookup, "LOCAL_WORLD_SIZE", "a whole number")?,
        })
    }
}

fn parse<T: FromStr>(
    lookup: impl Fn(&str) -> Option<OsString>,
    variable: &str,
    wanted: &str,
) -> Result<Option<T>, ClusterError> {
    let Some(value) = lookup(variable) else { return Ok(None) };
    match value.to_str().map(str::trim).filter(|text| !text.is_empty()).map(str::parse) {
        Some(Ok(parsed)) => Ok(Some(parsed)),
        _ => Err(ClusterError::Env { variable: variable.to_owned(), reason: format!("{value:?} is not {wanted}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variable: &'static str, value: &'static str) -> Result<EnvRanks, ClusterError> {
        EnvRanks::read_from(move |name| (name == variable).then(|| value.into()))
    }

    #[test]
    fn reads_what_torchrun_sets() {
        assert_eq!(with("MASTER_ADDR", "node-1").unwrap().master_addr.as_deref(), Some("node-1"));
        assert_eq!(with("MASTER_PORT", "29500").unwrap().master_port, Some(29500));
        assert_eq!(with("LOCAL_WORLD_SIZE", "4").unwrap().local_world_size, Some(4));
        assert_eq!(with("UNRELATED", "x").unwrap(), EnvRanks::default());
    }

    #[test]
    fn a_bad_value_names_its_variable() {
        for (variable, value) in [("RANK", "-1"), ("WORLD_SIZE", "four"), ("MASTER_PORT", "70000"), ("MASTER_ADDR", "")]
        {
            let error = with(variable, value).unwrap_err().to_string();
            assert!(error.contains(variable) && error.contains(value), "{error}");
        }
    }
}
