//! The treatment of overlaps.

use super::Overlaps;
use edgecut_settings::words;
use serde::{Deserialize, Serialize};

/// The treatment of held-out edges that are also training edges, and of nodes in two splits.
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

/// The treatment of the overlaps of a graph.
pub(crate) struct SettledOverlaps {
    /// True if overlaps are to be removed.
    pub(crate) removes: bool,
    /// One sentence for each overlap.
    pub(crate) warnings: Vec<String>,
}

impl OverlapPolicy {
    /// Decides what becomes of overlaps. If `undirected` is true, an edge and its reverse are the same edge.
    ///
    /// # Errors
    /// Describes the overlaps if they are not allowed, with the remedy.
    pub(crate) fn settle(self, overlaps: &Overlaps, undirected: bool) -> Result<SettledOverlaps, String> {
        let leaks = overlaps.leaks(undirected);
        let mut warnings = Vec::new();
        if !leaks.is_empty() {
            let leaks = leaks.join("; ");
            warnings.push(match self {
                Self::Error => {
                    return Err(format!(
                        "{leaks}. The model would be evaluated on its training data. Remove the overlap from the data, or set \
                         `overlap=remove` (drops held-out edges from the training edges, and keeps each node in its last \
                         split) or `overlap=allow`"
                    ));
                }
                Self::Remove => format!("removed overlaps: {leaks}"),
                Self::Allow => format!("allowed overlaps, so metrics will be too high: {leaks}"),
            });
        }
        let removes = self == Self::Remove && !warnings.is_empty();
        warnings.extend(overlaps.remarks(undirected));
        Ok(SettledOverlaps { removes, warnings })
    }
}
