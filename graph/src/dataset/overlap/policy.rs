//! The treatment of overlaps.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The treatment of held-out edges that are also training edges, and of nodes in two splits.
///
/// ```
/// use edgecut_graph::OverlapPolicy;
/// assert_eq!("remove".parse(), Ok(OverlapPolicy::Remove));
/// assert_eq!(OverlapPolicy::default().to_string(), "error");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverlapPolicy {
    /// Loading fails and reports the counts.
    #[default]
    Error,
    /// Drops training edges that are held out, and validation edges that are also test edges. A node stays only in the
    /// last of its splits, in the order training, validation, test.
    Remove,
    /// Keeps everything.
    Allow,
}

impl fmt::Display for OverlapPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Remove => "remove",
            Self::Allow => "allow",
        })
    }
}

impl FromStr for OverlapPolicy {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "error" => Ok(Self::Error),
            "remove" => Ok(Self::Remove),
            "allow" => Ok(Self::Allow),
            _ => Err(format!("{word:?} is not one of error, remove and allow")),
        }
    }
}
