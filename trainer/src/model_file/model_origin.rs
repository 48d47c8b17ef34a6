//! The training that a model file comes from.

use super::ModelFileError;
use super::file_header::FileHeader;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;

/// The entry of a model file's metadata that holds the origin as JSON.
pub(super) const ORIGIN: &str = "origin";

/// The quality of a saved model, and the training that it comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelOrigin {
    /// The run, in all of its attempts, where it has a name.
    pub run: Option<String>,
    /// Restarts of the run before the attempt that saved the model.
    pub attempt: u64,
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The metric that chose the epoch.
    pub metric: String,
    /// This metric on the validation data; `None` without any.
    pub valid_metric: Option<f64>,
}

impl ModelOrigin {
    /// Reads the origin of a model file; `None` if the file says nothing about it.
    ///
    /// # Errors
    /// [`ModelFileError::Read`] or [`ModelFileError::Format`].
    pub fn read(path: &Path) -> Result<Option<Self>, ModelFileError> {
        Ok(Self::from_metadata(&FileHeader::read(path)?.metadata()))
    }

    fn from_metadata(metadata: &HashMap<String, String>) -> Option<Self> {
        metadata.get(ORIGIN).and_then(|text| serde_json::from_str(text).ok())
    }

    /// Returns whether this model is at least as good as another one of the same run.
    pub(super) fn is_as_good_as(&self, other: &Self) -> bool {
        self.run.is_some()
            && self.run == other.run
            && self.metric == other.metric
            && self.valid_metric >= other.valid_metric
    }
}
