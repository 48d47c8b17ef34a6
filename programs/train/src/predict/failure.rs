//! The error of a callback that the library calls.

use edgecut_trainer::TrainError;

/// The first error of a callback. The library passes on only errors of its own.
#[derive(Debug, Default)]
pub(super) struct Failure(Option<anyhow::Error>);

impl Failure {
    /// Returns the result in the form of the library, and keeps its error.
    pub(super) fn keep(&mut self, result: anyhow::Result<()>) -> Result<(), TrainError> {
        let Err(error) = result else { return Ok(()) };
        let what = error.to_string();
        self.0 = Some(error);
        Err(TrainError::Config { what })
    }

    /// Returns the result of the library, with the error of the callback if it has failed.
    pub(super) fn or(self, done: Result<(), TrainError>) -> anyhow::Result<()> {
        match self.0 {
            Some(error) => Err(error),
            None => Ok(done?),
        }
    }
}
