//! The number of neighbors to sample in one hop.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The number of in-neighbors to draw per node in one hop.
///
/// ```
/// use edgecut_graph::Fanout;
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

impl fmt::Display for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "-1"),
            Self::Count(count) => count.fmt(f),
        }
    }
}
