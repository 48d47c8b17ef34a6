//! Progress reports, and cancellation.

/// A phase of partitioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Checking the dataset, grouping its edges, and making the symmetric graph that the method works on.
    Preparing,
    /// Assigning nodes to parts.
    Assigning,
    /// Renumbering nodes and writing files.
    Writing,
}

/// A receiver of a run's progress. All methods have defaults, and `()` is a `Progress` that shows nothing.
pub trait Progress: Sync {
    /// Called when a phase begins. Nothing is on disk before [`Phase::Writing`] begins.
    fn phase(&self, _phase: Phase) {}

    /// Called from several threads when `done` of `total` bytes are written.
    fn written(&self, _done: u64, _total: u64) {}

    /// Called when the run does something other than the options say, for a reason that the text states.
    fn notice(&self, _text: &str) {}

    /// Returns true to stop the run. Called often while writing; METIS itself cannot be stopped.
    fn cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {}
