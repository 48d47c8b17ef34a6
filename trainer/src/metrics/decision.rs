//! The decision of a classifier: the way from logits to classes and probabilities.

use super::output_rows::class_of;
use super::temperature::is_at_limit;
use crate::loss::OutputKind;
use serde::{Deserialize, Serialize};

/// The way from the logits of a classifier to classes, labels and probabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The number that logits are divided by, for probabilities (Guo et al., "On calibration of modern neural networks",
    /// ICML 2017).
    temperature: f64,
    /// The divided logit above which a label applies, or the positive one of two classes, whose logit is its output minus the
    /// other one. Empty if the greatest logit decides, and labels apply above 0.
    logit_thresholds: Vec<f64>,
    /// The one of two classes that thresholds, scores and curves are about.
    #[serde(default = "second_class", skip_serializing_if = "is_second_class")]
    positive_class: usize,
}

fn second_class() -> usize {
    1
}

fn is_second_class(class: &usize) -> bool {
    *class == second_class()
}

impl Default for Decision {
    /// Returns the decision by the greatest logit, or by a probability above one half.
    fn default() -> Self {
        Self::GREATEST_LOGIT
    }
}

impl Decision {
    /// The decision by the greatest logit, or by a probability above one half.
    pub(super) const GREATEST_LOGIT: Self = Self { temperature: 1.0, logit_thresholds: Vec::new(), positive_class: 1 };

    /// Replaces the temperature. Thresholds are of logits that are divided by it.
    pub fn with_temperature(self, temperature: f64) -> Self {
        Self { temperature, ..self }
    }

    /// Replaces the thresholds: none, one for two classes, or one per label.
    pub fn with_thresholds(self, logit_thresholds: Vec<f64>) -> Self {
        Self { logit_thresholds, ..self }
    }

    /// Replaces the positive one of two classes. The threshold stays where it is: it becomes one of the other class.
    pub fn with_positive_class(mut self, class: usize) -> Self {
        if class != self.positive_class {
            for threshold in &mut self.logit_thresholds {
                *threshold = -*threshold;
            }
            self.positive_class = class;
        }
        self
    }

    /// Returns the one of two classes that thresholds, scores and curves are about.
    pub fn positive_class(&self) -> usize {
        self.positive_class
    }

    /// Returns the score of the positive one of two classes, which grows with its probability: its logit minus the other one.
    pub fn score_of(&self, logits: &[f32]) -> f32 {
        match logits {
            &[first, second] if self.positive_class == 0 => first - second,
            [first, .., last] => last - first,
            _ => 0.0,
        }
    }

    /// Returns the number that logits are divided by.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// Returns true if the temperature is the least or the greatest one that validation data can choose. A higher likelihood may be
    /// beyond it, as for a model that separates all validation data.
    pub fn has_limiting_temperature(&self) -> bool {
        is_at_limit(self.temperature)
    }

    /// Returns the thresholds of divided logits, as in [`with_thresholds`](Self::with_thresholds).
    pub fn logit_thresholds(&self) -> &[f64] {
        &self.logit_thresholds
    }

    /// Returns the thresholds as probabilities.
    pub fn thresholds(&self) -> Vec<f64> {
        self.logit_thresholds.iter().map(|&logit| logistic(logit)).collect()
    }

    /// Returns the class of a row of logits, or `None` if a logit is NaN.
    pub fn class_of(&self, logits: &[f32]) -> Option<i64> {
        match (&self.logit_thresholds[..], logits) {
            (&[threshold], [_, _]) => {
                let score = self.score_of(logits);
                if score.is_nan() {
                    return class_of(logits);
                }
                let is_positive = self.divided(score) > threshold;
                Some(if is_positive { self.positive_class } else { 1 - self.positive_class } as i64)
            }
            _ => class_of(logits),
        }
    }

    /// Returns true if a label applies whose logit is in this column. A NaN does not.
    pub fn applies(&self, column: usize, logit: f32) -> bool {
        let threshold = self.logit_thresholds.get(column).copied().unwrap_or(0.0);
        self.divided(logit) > threshold
    }

    /// Divides a logit by the temperature.
    pub fn divided(&self, logit: f32) -> f64 {
        f64::from(logit) / self.temperature
    }

    /// Returns the logarithm of the probability of a class; minus infinity for a class that has no logit.
    pub fn log_probability(&self, logits: &[f32], class: usize) -> f64 {
        let Some(&own) = logits.get(class) else { return f64::NEG_INFINITY };
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for &logit in logits {
            // Distances from the highest logit do not overflow.
            sum += (self.divided(logit) - self.divided(highest)).exp();
        }
        self.divided(own) - self.divided(highest) - sum.ln()
    }

    /// Checks a decision that a file contains.
    ///
    /// # Errors
    /// Values that no model with such outputs has.
    pub fn check(&self, outputs: OutputKind) -> Result<(), String> {
        let fits = match (self.logit_thresholds.len(), outputs) {
            (0, OutputKind::Classes(_) | OutputKind::Labels(_)) | (1, OutputKind::Classes(2)) => true,
            (thresholds, OutputKind::Labels(labels)) => thresholds == labels,
            _ => false,
        };
        if !fits {
            return Err(format!("it has {} thresholds, but {outputs}", self.logit_thresholds.len()));
        }
        if self.positive_class != second_class() && (self.positive_class > 1 || outputs != OutputKind::Classes(2)) {
            return Err(format!("its positive class is {}, but {outputs}", self.positive_class));
        }
        if !(self.temperature.is_finite() && self.temperature > 0.0) {
            return Err(format!("its temperature {} is not a number above 0", self.temperature));
        }
        match self.logit_thresholds.iter().find(|threshold| !threshold.is_finite()) {
            Some(threshold) => Err(format!("its threshold {threshold} is not a finite number")),
            None => Ok(()),
        }
    }
}

/// Returns the probability of a logit.
pub(crate) fn logistic(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_and_a_temperature_decide_together() {
        let decision = Decision::default().with_temperature(2.0).with_thresholds(vec![0.5]);
        assert_eq!([0.9, 1.1].map(|score| decision.class_of(&[0.0, score])), [Some(0), Some(1)]);
        assert_eq!(decision.class_of(&[f32::NAN, 0.0]), None);
        assert_eq!(decision.class_of(&[f32::INFINITY, f32::INFINITY]), Some(0));
        let labels = Decision::default().with_thresholds(vec![-1.0, 1.0]);
        assert!(labels.applies(0, -0.5) && !labels.applies(1, 0.5) && !labels.applies(0, f32::NAN));
        assert!(Decision::default().applies(7, 0.1) && !Decision::default().applies(7, 0.0));
    }

    #[test]
    fn either_of_two_classes_can_be_positive() {
        let second = Decision::default().with_thresholds(vec![0.5]);
        let first = second.clone().with_positive_class(0);
        assert_eq!((first.logit_thresholds(), first.score_of(&[3.0, 1.0])), (&[-0.5][..], 2.0));
        for logits in [[0.0, 0.4], [0.0, 0.6], [2.0, 0.0], [f32::NAN, 0.0]] {
            assert_eq!(first.class_of(&logits), second.class_of(&logits), "{logits:?}");
        }
        let strict = first.with_thresholds(vec![1.0]);
        assert_eq!([[2.0, 0.5], [1.5, 0.75]].map(|logits| strict.class_of(&logits)), [Some(0), Some(1)]);
        let json = serde_json::to_string(&strict).expect("JSON");
        assert!(json.contains("\"positive_class\":0"), "{json}");
        assert_eq!(serde_json::from_str::<Decision>(&json).expect("a decision"), strict);
        let json = serde_json::to_string(&second).expect("JSON");
        assert!(!json.contains("positive"), "{json}");
        assert_eq!(serde_json::from_str::<Decision>(&json).expect("a decision"), second);
    }

    #[test]
    fn decisions_of_other_outputs_are_refused() {
        let one = Decision::default().with_thresholds(vec![0.5]);
        assert_eq!(one.check(OutputKind::Classes(2)), Ok(()));
        assert_eq!(one.check(OutputKind::Labels(1)), Ok(()));
        for outputs in [OutputKind::Classes(3), OutputKind::Labels(2), OutputKind::Numbers(1)] {
            assert!(one.check(outputs).is_err(), "{outputs:?}");
        }
        for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let wrong = Decision::default().with_temperature(temperature);
            assert!(wrong.check(OutputKind::Classes(9)).is_err(), "{temperature}");
        }
        assert!(Decision::default().with_thresholds(vec![f64::NAN]).check(OutputKind::Classes(2)).is_err());
        assert_eq!(Decision::default().with_positive_class(0).check(OutputKind::Classes(2)), Ok(()));
        for (class, outputs) in [(2, OutputKind::Classes(2)), (0, OutputKind::Classes(3)), (0, OutputKind::Labels(1))] {
            assert!(Decision::default().with_positive_class(class).check(outputs).is_err(), "{class} {outputs:?}");
        }
    }
}
