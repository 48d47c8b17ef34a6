//! The outputs of a model as plain numbers.

use super::decision::Decision;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_gnn::ops::host_values;

/// The outputs of a model for some seeds, `[num_seeds, columns]`, row by row.
#[derive(Clone, Copy, Debug)]
pub struct OutputRows<'a> {
    values: &'a [f32],
    columns: usize,
    decision: &'a Decision,
}

/// The decision of rows that name none.
static GREATEST_LOGIT: Decision = Decision::GREATEST_LOGIT;

impl<'a> OutputRows<'a> {
    /// Takes the values of rows with this number of columns.
    pub fn new(values: &'a [f32], columns: usize) -> Self {
        Self { values, columns: columns.max(1), decision: &GREATEST_LOGIT }
    }

    /// Decides by other thresholds than the greatest logit.
    pub fn decided_by(self, decision: &'a Decision) -> Self {
        Self { decision, ..self }
    }

    /// Returns the decision, of which the classes, labels and probabilities are.
    pub fn decision(&self) -> &'a Decision {
        self.decision
    }

    /// Returns all values, row by row.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// Returns the rows.
    pub fn rows(&self) -> impl Iterator<Item = &'a [f32]> {
        self.values.chunks_exact(self.columns)
    }

    /// Returns the class of each row, see [`Decision::class_of`].
    pub fn classes(&self) -> impl Iterator<Item = Option<i64>> {
        let decision = self.decision;
        self.rows().map(|row| decision.class_of(row))
    }

    /// Returns true for each value that is the logit of a label which applies, see [`Decision::applies`].
    pub fn labels(&self) -> impl Iterator<Item = bool> {
        let decision = self.decision;
        let columns = self.columns;
        self.values.iter().enumerate().map(move |(at, &logit)| decision.applies(at % columns, logit))
    }
}

/// Returns the class with the greatest logit, the first of equal ones, or `None` if a logit is NaN.
pub fn class_of(logits: &[f32]) -> Option<i64> {
    let mut best = 0;
    for (class, &logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return None;
        }
        if logit > logits[best] {
            best = class;
        }
    }
    Some(best as i64)
}

/// Copies the outputs of a model from its device.
pub(crate) fn host_rows<B: Backend>(outputs: &Tensor<B, 2>) -> Vec<f32> {
    host_values(outputs.clone())
}
