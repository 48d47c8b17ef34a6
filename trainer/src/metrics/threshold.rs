//! The threshold of the positive one of two classes, and of labels.

use super::gathered_scores::GatheredScores;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The probability above which a label applies, or a seed has the positive one of two classes.
///
/// ```
/// use edgecut_trainer::metrics::Threshold;
/// assert_eq!("best-f1".parse(), Ok(Threshold::BestF1));
/// assert_eq!("0.3".parse(), Ok(Threshold::Given(0.3)));
/// assert!("1".parse::<Threshold>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// The probability with the highest F1 on the validation data. Each of several labels has its own.
    BestF1,
    /// A probability between 0 and 1.
    Given(f64),
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BestF1 => f.write_str("best-f1"),
            Self::Given(probability) => write!(f, "{probability}"),
        }
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse::<f64>()) {
            ("best-f1", _) => Ok(Self::BestF1),
            (_, Ok(probability)) if probability > 0.0 && probability < 1.0 => Ok(Self::Given(probability)),
            _ => Err(format!("{text:?} is neither best-f1 nor a probability between 0 and 1")),
        }
    }
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the logit above which positives have the highest F1, the highest of equal ones; `None` without positives.
///
/// It is in the middle between two scores, so that roundings of other batches do not move a seed over it.
pub(crate) fn best_f1(scores: &GatheredScores) -> Option<f64> {
    let num_positives = scores.positives().len();
    if num_positives == 0 {
        return None;
    }
    // Positives and negatives are in ascending order. From the highest score down, each distinct score is predicted too.
    let mut positives = num_positives;
    let mut negatives = scores.negatives().len();
    let mut best = Candidate { correct: 0, both: 1, lowest: f32::INFINITY, next: None };
    while positives + negatives > 0 {
        let highest = last_of(scores.positives(), positives).max(last_of(scores.negatives(), negatives));
        positives = scores.positives()[..positives].partition_point(|&score| score < highest);
        negatives = scores.negatives()[..negatives].partition_point(|&score| score < highest);
        let predicted = scores.positives().len() + scores.negatives().len() - positives - negatives;
        let next = last_of(scores.positives(), positives).max(last_of(scores.negatives(), negatives));
        let candidate = Candidate {
            correct: num_positives - positives,
            both: num_positives + predicted,
            lowest: highest,
            next: (positives + negatives > 0).then_some(next),
        };
        if candidate.is_better_than(&best) {
            best = candidate;
        }
    }
    Some(best.threshold())
}

/// Returns the last of the first `len` scores.
fn last_of(scores: &[f32], len: usize) -> f32 {
    if len == 0 { f32::NEG_INFINITY } else { scores[len - 1] }
}

/// The positives from a score on.
struct Candidate {
    /// The number of true positives.
    correct: usize,
    /// The number of predicted positives and of actual ones. F1 is twice the true positives over it.
    both: usize,
    /// The lowest predicted score, and the next lower score.
    lowest: f32,
    next: Option<f32>,
}

impl Candidate {
    fn is_better_than(&self, other: &Self) -> bool {
        self.correct as u128 * other.both as u128 > other.correct as u128 * self.both as u128
    }

    fn threshold(&self) -> f64 {
        let lowest = finite(self.lowest);
        match self.next {
            Some(next) => lowest.midpoint(finite(next)),
            None => (lowest - 1.0).max(f64::from(f32::MIN)),
        }
    }
}

/// Returns a score within the range of finite ones, which alone a file contains.
fn finite(score: f32) -> f64 {
    f64::from(score.clamp(f32::MIN, f32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::ScoredLabels;

    fn best_of(positives: &[f32], negatives: &[f32]) -> Option<f64> {
        let scored = ScoredLabels { positives: positives.to_vec(), negatives: negatives.to_vec() };
        best_f1(&GatheredScores::of_one_rank(scored))
    }

    #[test]
    fn the_threshold_has_the_highest_f1() {
        assert_eq!(best_of(&[2.0, 3.0], &[0.0, 1.0]), Some(1.5));
        // Predicting 3 alone has an F1 of 2/3, and all down to 1 has 4/5.
        assert_eq!(best_of(&[1.0, 3.0], &[2.0, 0.0]), Some(0.5));
        assert_eq!(best_of(&[1.0, 1.0], &[]), Some(0.0), "all are positive");
        assert_eq!(best_of(&[], &[1.0]), None);
        let threshold = best_of(&[f32::INFINITY], &[f32::NEG_INFINITY]).expect("a positive");
        assert!(threshold.is_finite());
        // Equal scores of both kinds are predicted together.
        assert_eq!(best_of(&[1.0, 0.0], &[1.0, -1.0, -1.0, -1.0]), Some(-0.5));
        assert_eq!(best_of(&[0.0], &[-0.0, -2.0]), Some(-1.0), "zeros of both signs are equal");
    }
}
