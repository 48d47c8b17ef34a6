//! The values that are written for a node, a graph or a pair.

use super::args::Rows;

/// Values, row by row.
#[derive(Debug, PartialEq)]
pub(super) enum Values {
    /// A class per row; -1 if a logit is NaN.
    Classes(Vec<i64>),
    /// Rows of numbers.
    Numbers(Vec<f32>),
}

impl Values {
    /// Converts rows that the model has computed, `[nodes, width]`.
    pub(super) fn of(rows: Vec<f32>, width: usize, kind: Rows) -> Self {
        match kind {
            Rows::Class => Self::Classes(rows.chunks_exact(width).map(class_of).collect()),
            Rows::Logit | Rows::Embedding | Rows::Score | Rows::TopK | Rows::Table | Rows::Relation => {
                Self::Numbers(rows)
            }
            Rows::Probability => {
                let mut rows = rows;
                rows.chunks_exact_mut(width).for_each(to_probabilities);
                Self::Numbers(rows)
            }
        }
    }
}

/// Returns the class with the greatest logit, the first of equal ones, or -1 if a logit is NaN.
pub(super) fn class_of(logits: &[f32]) -> i64 {
    if logits.iter().any(|logit| logit.is_nan()) {
        return -1;
    }
    let best = (1..logits.len()).fold(0, |best, class| if logits[class] > logits[best] { class } else { best });
    best as i64
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
        assert_eq!(Values::of(logits.clone(), 3, Rows::Class), Values::Classes(vec![1, -1, 0]));
        let Values::Numbers(shares) = Values::of(logits, 3, Rows::Probability) else { panic!("numbers") };
        let e = std::f32::consts::E;
        let expected = [1.0 / (1.0 + 2.0 * e * e), e * e / (1.0 + 2.0 * e * e)];
        assert!((shares[0] - expected[0]).abs() < 1e-6 && (shares[2] - expected[1]).abs() < 1e-6, "{shares:?}");
        assert_eq!(shares[6..], [1.0, 0.0, 0.0]);
    }
}
