//! The rules of splits in a configuration beside the rules that parts record.

use super::{GivenKeys, Label, SplitFiles, SplitRule};
use crate::saved_split::{SavedSplit, SplitBy, SplitTask};
use edgecut_graph::{Share, TimeUnit};

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
