//! The rule of a split as `transforms.json` records it, so that an update divides its rows by the rule of the parts.

use crate::table::TimeColumn;
use edgecut_graph::{Share, TimeUnit};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The rule that divided the rows of a type, or the edges of a relation, into training, validation and test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedSplit {
    pub(crate) task: SplitTask,
    /// The shares of training, validation and test; `None` if files list the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) split_pct: Option<[f64; 3]>,
    pub(crate) by: SplitBy,
    /// The unit of the times by which labeled rows are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<TimeUnit>,
    /// The seed of random choices.
    pub(crate) seed: u64,
}

/// The purpose of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SplitTask {
    /// Rows with labels are divided.
    Labels,
    /// Edges are held out.
    LinkPrediction,
}

/// The order in which nodes or edges are divided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SplitBy {
    /// At random.
    Random,
    /// By times: the earliest are in the training split.
    Time(TimeColumn),
    /// At random, with all rows of a group in one split.
    Group(String),
}

impl SavedSplit {
    /// Checks the shares of a file.
    ///
    /// # Errors
    /// Describes shares that are not possible.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(shares) = self.split_pct else { return Ok(()) };
        for share in shares {
            Share::new(share)?;
        }
        if shares.iter().sum::<f64>() > 1.0 + 1e-9 {
            Err(format!("the shares {shares:?} are more than 1"))
        } else {
            Ok(())
        }
    }

    /// Returns true if the rule holds out edges.
    pub(crate) fn holds_out(&self) -> bool {
        self.task == SplitTask::LinkPrediction
    }

    /// Checks that the times of an update have the unit of the recorded times.
    ///
    /// # Errors
    /// Describes different units.
    pub(crate) fn check_unit(&self, found: Option<TimeUnit>) -> Result<(), String> {
        match (self.unit, found) {
            (Some(unit), Some(found)) if unit != found => Err(format!(
                "split_by: its times are in {found}, but the parts were divided by times in {unit}: write the times in the same \
                 form"
            )),
            _ => Ok(()),
        }
    }

    /// Returns true if both rules divide by the same column. Held-out edges have one column of times.
    pub(crate) fn has_order_of(&self, other: &Self) -> bool {
        match (&self.by, &other.by) {
            (SplitBy::Time(ours), SplitBy::Time(theirs)) => {
                ours.name == theirs.name || self.task == SplitTask::LinkPrediction
            }
            (ours, theirs) => ours == theirs,
        }
    }
}

impl fmt::Display for SavedSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.task == SplitTask::LinkPrediction {
            f.write_str("link_prediction with ")?;
        }
        let Some(shares) = self.split_pct else { return f.write_str("custom_split_filenames") };
        write!(f, "split_pct {shares:?}")?;
        match &self.by {
            SplitBy::Random => f.write_str(" at random"),
            SplitBy::Time(time) => write!(f, " and split_by {}", time.name),
            SplitBy::Group(column) => write!(f, " and split_by_group {column}"),
        }
    }
}
