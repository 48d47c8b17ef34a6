//! An error of this process, together with the failure of the job that may have caused it.

use std::error::Error;
use std::fmt;

use crate::error::Failure;

/// An error of this process, and the failure of the job that explains it, if there is one.
///
/// Example: rank 1 dies, rank 3 notices and closes its connections, and rank 2 only sees that rank 3 closed one. The
/// `Display` form of the verdict on rank 2 names rank 1.
#[derive(Debug)]
pub struct Verdict<E> {
    /// The first failure of the job.
    pub failure: Option<Failure>,
    /// The error of this process.
    pub own: E,
}

impl<E: fmt::Display> fmt::Display for Verdict<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = format!("{:#}", self.own);
        match &self.failure {
            // The own error already names the failed rank. The reason is not repeated: that rank has printed it.
            Some(failure) if own.contains(&failure.head()) => f.write_str(&own),
            // Ranks that check the same files find the same problem.
            Some(failure) if failure.reason.contains(&own) => write!(f, "{failure}"),
            Some(failure) => write!(f, "{failure} (noticed here as: {own})"),
            None => f.write_str(&own),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for Verdict<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_culprit_comes_first_and_only_once() {
        let failure = Failure {
            rank: 1,
            addr: ([10, 0, 0, 1], 5).into(),
            reason: "died".to_owned(),
            link_to: None,
            is_own: false,
        };
        let verdict = Verdict { failure: Some(failure.clone()), own: "lost rank 2" };
        assert_eq!(verdict.to_string(), "rank 1 at 10.0.0.1:5 failed: died (noticed here as: lost rank 2)");
        let verdict = Verdict { failure: Some(failure.clone()), own: format!("training: {failure}") };
        assert_eq!(verdict.to_string(), "training: rank 1 at 10.0.0.1:5 failed: died");
        let verdict = Verdict { failure: Some(failure.clone()), own: "rank 1 at 10.0.0.1:5 failed while it read" };
        assert_eq!(verdict.to_string(), "rank 1 at 10.0.0.1:5 failed while it read");
        let same = Verdict { failure: Some(failure), own: "died" };
        assert_eq!(same.to_string(), "rank 1 at 10.0.0.1:5 failed: died");
        assert_eq!(Verdict { failure: None, own: "disk full" }.to_string(), "disk full");
    }
}
