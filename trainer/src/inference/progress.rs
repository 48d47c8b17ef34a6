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

/// A receiver of the progress of an inference. `()` ignores it.
pub trait InferenceProgress {
    /// Called after each step of this rank.
    fn step(&self, step: InferenceStep);
}

impl InferenceProgress for () {
    fn step(&self, _: InferenceStep) {}
}
