//! How a caller watches and stops a run.

/// What partitioning is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Checking the dataset, grouping its edges, and making the symmetric graph that the method works on.
    Preparing,
    /// Assigning nodes to parts.
    Assigning,
    /// Renumbering, and writing files.
    Writing,
}

/// A caller's view of a run. All methods have defaults, and `()` is a `Progress` that shows nothing.
pub trait Progress: Sync {
    /// A phase begins. Before [`Phase::Writing`] begins nothing is on disk.
    fn phase(&self, _phase: Phase) {}

    /// Of `total` bytes `done` are written. Called from several threads.
    fn written(&self, _done: u64, _total: u64) {}

    /// Whether to stop. Asked often while writing; METIS itself cannot be stopped.
    fn cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {}
