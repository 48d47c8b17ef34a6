//! The fan-out of one hop, and lists of fan-outs as text.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The number of in-neighbors to draw per node in one hop.
///
/// ```
/// use edgecut_dist_sampler::Fanout;
/// assert_eq!("-1".parse(), Ok(Fanout::All));
/// assert_eq!(Fanout::Count(15).to_string(), "15");
/// assert_eq!("0".parse(), Ok(Fanout::Count(0)));
/// assert!("-2".parse::<Fanout>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fanout {
    /// All in-neighbors, each once. Written `-1`.
    All,
    /// At most this many in-neighbors. 0 draws none.
    Count(u32),
}

impl FromStr for Fanout {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse::<i64>() {
            Ok(-1) => Ok(Self::All),
            Ok(count @ 0..=0x7fff_ffff) => Ok(Self::Count(count as u32)),
            _ => Err(format!("fan-out {text:?} must be -1 (all neighbors) or a number from 0 to 2147483647")),
        }
    }
}

impl Fanout {
    /// Returns the number of neighbors, or `None` for [`Fanout::All`].
    pub(crate) fn count(self) -> Option<u32> {
        match self {
            Self::All => None,
            Self::Count(count) => Some(count),
        }
    }
}

impl fmt::Display for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "-1"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

/// Parses a list such as `15,10,5`: one fan-out per hop, starting with the hop nearest to the seeds.
///
/// # Errors
/// A message that names the first invalid entry.
///
/// ```
/// use edgecut_dist_sampler::{Fanout, parse_num_neighbors};
/// assert_eq!(parse_num_neighbors("15,-1")?, [Fanout::Count(15), Fanout::All]);
/// assert!(parse_num_neighbors("15,,5").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn parse_num_neighbors(text: &str) -> Result<Vec<Fanout>, String> {
    text.split(',').map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_fan_outs_that_mean_nothing() {
        for text in ["", "-2", "a", "15,", "1.5", "99999999999"] {
            assert!(parse_num_neighbors(text).is_err(), "{text:?}");
        }
    }
}
