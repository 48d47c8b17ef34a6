//! The rule of a split as `transforms.json` records it, so that an update divides its rows by the rule of the parts.

use super::{GivenKeys, Label, SplitBy, SplitFiles, SplitRule};
use edgecut_graph::{Share, TimeUnit};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The rule that divided the rows of a type, or the edges of a relation, into training, validation and test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedSplit {
    task: SplitTask,
    /// The shares of training, validation and test; `None` if files list the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    split_pct: Option<[f64; 3]>,
    by: SplitBy,
    /// The unit of the times by which labeled rows are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<TimeUnit>,
    /// The seed of random choices.
    pub(crate) seed: u64,
}

/// The purpose of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SplitTask {
    /// Rows with labels are divided.
    Labels,
    /// Edges are held out.
    LinkPrediction,
}

impl SavedSplit {
    /// Returns the rule of a label. `unit` is the unit of the times that it divides rows by.
    pub(crate) fn new(label: &Label, seed: u64, unit: Option<TimeUnit>) -> Self {
        let task = if label.column.is_some() { SplitTask::Labels } else { SplitTask::LinkPrediction };
        match &label.split {
            SplitRule::Shares { shares, by } => {
                Self { task, split_pct: Some(shares.map(Share::to_f64)), by: by.clone(), unit, seed }
            }
            SplitRule::Files(_) => Self { task, split_pct: None, by: SplitBy::Random, unit: None, seed },
        }
    }

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
        self.task == SplitTask::LinkPrediction && self.split_pct.is_some()
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

    /// Returns the entry of `labels` that holds out edges of the table `at` by this rule.
    pub(crate) fn held_out(&self, at: &str) -> Label {
        let at = format!("{at}.labels");
        Label { at, column: None, split: self.rule(), given: GivenKeys::default() }
    }

    fn rule(&self) -> SplitRule {
        match self.split_pct {
            Some(shares) => {
                let shares = shares.map(|share| Share::new(share).unwrap_or_default());
                SplitRule::Shares { shares, by: self.by.clone() }
            }
            None => SplitRule::Files(SplitFiles::default()),
        }
    }

    /// Returns true if both rules divide by the same column. Held-out edges have one column of times.
    fn has_order_of(&self, other: &Self) -> bool {
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

impl Label {
    /// Replaces the keys of the split that are not given by the keys of the rule of the parts. Lists of ids may come beside any
    /// rule but groups, because they name the split of each row.
    ///
    /// # Errors
    /// Describes a given rule that is not the rule of the parts.
    pub(crate) fn settle(&mut self, recorded: &SavedSplit) -> Result<(), String> {
        let given = SavedSplit::new(self, recorded.seed, None);
        let is_same = given.task == recorded.task
            && match (given.split_pct, recorded.split_pct) {
                (Some(shares), Some(of_parts)) => {
                    (!self.given.shares || shares == of_parts) && (!self.given.by || given.has_order_of(recorded))
                }
                (Some(_), None) => !self.given.shares && !self.given.by,
                (None, _) => !matches!(recorded.by, SplitBy::Group(_)),
            };
        if !is_same {
            return Err(format!(
                "{}: the rule of its split is {given}, but the parts were divided by {recorded}, and rows of both rules would mix \
                 training and test data: leave the keys of the split out, which keeps the rule of the parts, or partition all \
                 tables together by the new rule",
                self.at
            ));
        }
        match (&mut self.split, recorded.rule()) {
            (SplitRule::Shares { shares, by }, SplitRule::Shares { shares: of_parts, by: by_of_parts }) => {
                *shares = of_parts;
                if !self.given.by {
                    *by = by_of_parts;
                }
            }
            (SplitRule::Shares { .. }, lists) => self.split = lists,
            (SplitRule::Files(_), _) => {}
        }
        Ok(())
    }
}
