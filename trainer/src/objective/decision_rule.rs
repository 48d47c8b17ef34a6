//! The choice of a decision on validation data.

use crate::loss::{OutputKind, Target};
use crate::metrics::{
    Decision, GatheredScores, OutputRows, Threshold, add_scores, best_f1, fit_temperature, no_scores,
};
use edgecut_cluster::{ClusterError, ProcessGroup};

/// The outputs and targets of the validation seeds of this rank.
#[derive(Default)]
pub(super) struct ValidationRows {
    /// Row by row.
    pub(super) outputs: Vec<f32>,
    pub(super) target: Option<Target>,
}

impl ValidationRows {
    /// Adds a batch.
    pub(super) fn add(&mut self, outputs: &[f32], target: Target) {
        self.outputs.extend_from_slice(outputs);
        match &mut self.target {
            Some(all) => all.append(target),
            None => self.target = Some(target),
        }
    }
}

/// The rule by which validation data chooses the decision. No other data has an influence on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecisionRule {
    pub(super) threshold: Option<Threshold>,
    pub(super) calibrate: bool,
    /// The positive one of two classes, if it is given.
    pub(super) positive_class: Option<usize>,
    /// The decision before the choice, which has the positive class.
    pub(super) start: Decision,
}

impl DecisionRule {
    /// Returns the reason if the rule does not apply to outputs of a kind.
    pub(super) fn problem(&self, outputs: OutputKind) -> Option<String> {
        if self.threshold.is_some() && !matches!(outputs, OutputKind::Classes(2) | OutputKind::Labels(_)) {
            let what = format!("a threshold is for two classes or labels, but {outputs}: leave `threshold` out");
            return Some(what);
        }
        match self.positive_class {
            Some(_) if outputs != OutputKind::Classes(2) => {
                return Some(format!("one of two classes is positive, but {outputs}: leave `positive_class` out"));
            }
            Some(class @ 2..) => return Some(format!("the positive class is 0 or 1, and not {class}")),
            _ => {}
        }
        if self.calibrate && matches!(outputs, OutputKind::Numbers(_)) {
            return Some(format!("numbers have no probabilities to calibrate, and {outputs}: leave `calibrate` out"));
        }
        None
    }

    /// Returns true if saved models contain a decision.
    pub(crate) fn decides(&self) -> bool {
        self.threshold.is_some() || self.calibrate || self.start != Decision::default()
    }

    /// Returns true if the choice needs the outputs for the validation data.
    pub(crate) fn reads_data(&self) -> bool {
        self.calibrate || self.threshold == Some(Threshold::BestF1)
    }

    /// Returns the decision that needs no data.
    pub(super) fn without_data(&self, outputs: OutputKind) -> Decision {
        match self.threshold {
            Some(Threshold::Given(probability)) => {
                let logit = (probability / (1.0 - probability)).ln();
                let num_thresholds = if let OutputKind::Labels(labels) = outputs { labels } else { 1 };
                self.start.clone().with_thresholds(vec![logit; num_thresholds])
            }
            _ => self.start.clone(),
        }
    }

    /// Chooses the decision on the validation rows of all ranks. Every rank must call this.
    pub(super) fn choose(
        &self,
        rows: &ValidationRows,
        outputs: OutputKind,
        columns: usize,
        world: &mut ProcessGroup,
    ) -> Result<Decision, ClusterError> {
        let no_target = Target::default();
        let target = rows.target.as_ref().unwrap_or(&no_target);
        let mut decision = self.without_data(outputs);
        if self.calibrate {
            let before = decision.temperature();
            let temperature = fit_temperature(&rows.outputs, columns, target, world)?;
            if self.threshold.is_none() {
                // The decisions of a saved model stay the same.
                let thresholds = decision.logit_thresholds().iter().map(|logit| logit * before / temperature).collect();
                decision = decision.with_thresholds(thresholds);
            }
            decision = decision.with_temperature(temperature);
        }
        if self.threshold == Some(Threshold::BestF1) {
            let mut scores = no_scores(outputs);
            add_scores(&mut scores, &OutputRows::new(&rows.outputs, columns).decided_by(&decision), target);
            let mut thresholds = Vec::with_capacity(scores.len());
            for mut scored in scores {
                scored.remove_nan();
                // A label without positives keeps the probability of one half.
                let logit = best_f1(&GatheredScores::of_all_ranks(&scored, world)?).unwrap_or(0.0);
                thresholds.push(logit / decision.temperature());
            }
            decision = decision.with_thresholds(thresholds);
        }
        Ok(decision)
    }
}
