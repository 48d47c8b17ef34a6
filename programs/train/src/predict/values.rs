//! The values that are written for a node, a graph or a pair.

use super::args::Rows;
use crate::exit::UsageError;
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::metrics::Decision;

/// Values, row by row.
#[derive(Debug, PartialEq)]
pub(super) enum Values {
    /// A class per row; -1 if a logit is NaN.
    Classes(Vec<i64>),
    /// Rows of numbers.
    Numbers(Vec<f32>),
}

/// The conversion of outputs into the values to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The class that the decision of the model selects.
    Class,
    /// 1 for each label whose logit is above its threshold, else 0.
    Labels,
    /// The probabilities of classes (softmax).
    ClassProbabilities,
    /// The probability of each label (logistic function).
    LabelProbabilities,
    /// The numbers themselves.
    Numbers,
}

impl Form {
    /// Returns the conversion of outputs with a meaning, for `--output`.
    ///
    /// # Errors
    /// [`UsageError`] if such outputs have no such rows.
    pub(super) fn new(rows: Rows, outputs: OutputKind) -> Result<Self, UsageError> {
        use OutputKind::{Classes, Labels, Numbers};
        match (rows, outputs) {
            (Rows::Prediction | Rows::Class, Classes(_)) => Ok(Self::Class),
            (Rows::Prediction, Labels(_)) => Ok(Self::Labels),
            (Rows::Probability, Classes(_)) => Ok(Self::ClassProbabilities),
            (Rows::Probability, Labels(_)) => Ok(Self::LabelProbabilities),
            (Rows::Class, Labels(_)) => Err(no_such_rows("class", "several labels")),
            (Rows::Class, Numbers(_)) => Err(no_such_rows("class", "numbers")),
            (Rows::Probability, Numbers(_)) => Err(no_such_rows("probability", "numbers")),
            (Rows::Logit, Numbers(_)) => Err(no_such_rows("logit", "numbers")),
            _ => Ok(Self::Numbers),
        }
    }
}

fn no_such_rows(name: &str, what: &str) -> UsageError {
    UsageError(format!("--output {name}: the model predicts {what}: use --output prediction or embedding"))
}

impl Values {
    /// Converts rows that the model has computed, `[nodes, width]`.
    pub(super) fn of(mut rows: Vec<f32>, width: usize, form: Form, decision: &Decision) -> Self {
        match form {
            Form::Class => {
                return Self::Classes(rows.chunks_exact(width).map(|row| class_or_none(row, decision)).collect());
            }
            Form::Labels => {
                for (at, logit) in rows.iter_mut().enumerate().filter(|(_, logit)| !logit.is_nan()) {
                    *logit = f32::from(u8::from(decision.applies(at % width, *logit)));
                }
            }
            Form::ClassProbabilities => {
                rows.iter_mut().for_each(|logit| *logit = decision.divided(*logit) as f32);
                rows.chunks_exact_mut(width).for_each(to_probabilities);
            }
            Form::LabelProbabilities => {
                rows.iter_mut().for_each(|logit| *logit = decision.divided(*logit) as f32);
                rows.iter_mut().for_each(|logit| *logit = 1.0 / (1.0 + (-*logit).exp()));
            }
            Form::Numbers => {}
        }
        Self::Numbers(rows)
    }
}

/// Returns the class of a row of logits, or -1 if a logit is NaN.
pub(super) fn class_or_none(logits: &[f32], decision: &Decision) -> i64 {
    decision.class_of(logits).unwrap_or(-1)
}

/// Replaces logits by probabilities (softmax).
fn to_probabilities(logits: &mut [f32]) {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter_mut().for_each(|logit| *logit = (*logit - greatest).exp());
    let sum: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|value| *value /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_become_classes_and_probabilities() {
        let logits = vec![1.0, 3.0, 3.0, f32::NAN, 0.0, 0.0, 1e30, -1e30, 0.0];
        assert_eq!(Values::of(logits.clone(), 3, Form::Class, &Decision::default()), Values::Classes(vec![1, -1, 0]));
        let Values::Numbers(shares) = Values::of(logits, 3, Form::ClassProbabilities, &Decision::default()) else {
            panic!("numbers")
        };
        let e = std::f32::consts::E;
        let expected = [1.0 / (1.0 + 2.0 * e * e), e * e / (1.0 + 2.0 * e * e)];
        assert!((shares[0] - expected[0]).abs() < 1e-6 && (shares[2] - expected[1]).abs() < 1e-6, "{shares:?}");
        assert_eq!(shares[6..], [1.0, 0.0, 0.0]);
    }

    #[test]
    fn thresholds_decide_and_temperatures_change_probabilities() {
        let decision = Decision::default().with_temperature(2.0).with_thresholds(vec![-1.0]);
        let logits = vec![1.0, 0.0, 3.0, 0.0];
        assert_eq!(Values::of(logits.clone(), 2, Form::Class, &decision), Values::Classes(vec![1, 0]));
        let Values::Numbers(shares) = Values::of(logits, 2, Form::ClassProbabilities, &decision) else {
            panic!("numbers")
        };
        assert!((shares[0] - 1.0 / (1.0 + (-0.5_f32).exp())).abs() < 1e-6, "{shares:?}");
        let labels = Decision::default().with_thresholds(vec![1.0, -1.0]);
        assert_eq!(Values::of(vec![0.5, -0.5], 2, Form::Labels, &labels), Values::Numbers(vec![0.0, 1.0]));
    }

    #[test]
    fn logits_of_labels_become_labels_and_probabilities() {
        let logits = vec![-1.0, 0.0, 3.0, f32::NAN];
        let Values::Numbers(labels) = Values::of(logits.clone(), 2, Form::Labels, &Decision::default()) else {
            panic!("numbers")
        };
        assert_eq!(labels[..3], [0.0, 0.0, 1.0]);
        let Values::Numbers(shares) = Values::of(logits, 2, Form::LabelProbabilities, &Decision::default()) else {
            panic!("numbers")
        };
        assert!(
            (shares[0] - 0.268_941_43).abs() < 1e-6 && shares[1] == 0.5 && labels[3].is_nan() && shares[3].is_nan()
        );
        let error = Form::new(Rows::Class, OutputKind::Labels(2)).expect_err("no classes").to_string();
        assert!(error.contains("predicts several labels: use --output prediction"), "{error}");
        assert_eq!(Form::new(Rows::Prediction, OutputKind::Numbers(1)).ok(), Some(Form::Numbers));
    }
}
