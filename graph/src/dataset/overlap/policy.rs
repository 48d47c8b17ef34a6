//! The treatment of overlaps.

use edgecut_settings::words;
use serde::{Deserialize, Serialize};

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

words!(OverlapPolicy, "policy for overlaps", Error = "error", Remove = "remove", Allow = "allow");
