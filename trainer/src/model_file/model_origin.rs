//! The origin of a model file: the training run that saved it.

use super::ModelFileError;
use super::file_header::FileHeader;
use crate::metrics::Selection;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;

/// The key of the metadata of a model file under which the origin is stored as JSON.
pub(super) const ORIGIN: &str = "origin";

/// The training run that saved a model, and the quality of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelOrigin {
    /// The name of the run, which all its attempts share, if it has a name.
    pub run: Option<String>,
    /// A digest of the settings of the run, if it has a name and the program has told them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    /// The number of restarts before the attempt that saved the model.
    pub attempt: u64,
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The metric that selected the epoch.
    pub metric: String,
    /// The value of the metric on the validation data; `None` without validation data.
    pub valid_metric: Option<f64>,
}

impl ModelOrigin {
    /// Reads the origin of a model file; `None` if the file has none.
    ///
    /// # Errors
    /// [`ModelFileError::Read`] if the file cannot be read, [`ModelFileError::Format`] if it is damaged.
    pub fn read(path: &Path) -> Result<Option<Self>, ModelFileError> {
        Ok(Self::from_metadata(&FileHeader::read(path)?.metadata()))
    }

    pub(super) fn from_metadata(metadata: &HashMap<String, String>) -> Option<Self> {
        metadata.get(ORIGIN).and_then(|text| serde_json::from_str(text).ok())
    }

    /// Returns whether this model is of the same run, settings and metric as another model, and at least as good.
    pub(super) fn is_as_good_as(&self, other: &Self, selection: &Selection) -> bool {
        let is_better = match (other.valid_metric, self.valid_metric) {
            (Some(other), Some(own)) => selection.is_better(other, own),
            (other, own) => other.is_some() && own.is_none(),
        };
        let is_of_same_run = self.run.is_some() && self.run == other.run && self.settings == other.settings;
        is_of_same_run && self.metric == other.metric && !is_better
    }
}
