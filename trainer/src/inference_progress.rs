//! The progress of an inference.

/// A step of an inference: a block of nodes whose rows are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InferenceStep {
    /// The pass over the nodes, counted from 1.
    pub pass: usize,
    /// The number of passes.
    pub num_passes: usize,
    /// The step, counted from 1. A pass has the steps of each node type one after the other.
    pub step: usize,
    /// The number of steps for the nodes of this type.
    pub num_steps: usize,
}

impl InferenceStep {
    /// Returns the state before the first of the steps of an inference in one pass.
    pub(crate) fn before_first<I: Iterator>(steps: &I) -> Self {
        let (_, num_steps) = steps.size_hint();
        Self { pass: 1, num_passes: 1, step: 0, num_steps: num_steps.unwrap_or(0) }
    }
}

/// A receiver of the progress of an inference. `()` ignores it.
pub trait InferenceProgress {
    /// Called after each step of this rank.
    fn step(&self, step: InferenceStep);
}

impl InferenceProgress for () {
    fn step(&self, _: InferenceStep) {}
}
