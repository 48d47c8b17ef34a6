//! The task of a saved model.

use super::ModelFileError;
use super::read::open;
use crate::loss::OutputKind;
use crate::metrics::Decision;
use crate::models::ModelError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The key of the metadata of a model file under which the task is stored as JSON.
pub(super) const TASK: &str = "task";

/// The kind of a task, which model files name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskKind {
    /// The name, which is also the name of the command of the program `train`.
    pub name: &'static str,
    /// The items that models of the task predict for, for messages.
    pub items: &'static str,
}

impl TaskKind {
    /// Prediction for nodes by a [`NetworkConfig`](crate::models::NetworkConfig).
    pub const NODE: Self = Self { name: "node", items: "nodes" };
    /// Prediction for whole graphs by a [`NetworkConfig`](crate::models::NetworkConfig) with pooling.
    pub const GRAPH: Self = Self { name: "graph", items: "whole graphs" };
}

/// The loss that a model is trained with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedLoss {
    /// The name.
    pub name: String,
    /// The meaning of the model's outputs; `None` for links.
    pub outputs: Option<OutputKind>,
}

/// The task of a saved model, and its loss.
///
/// ```
/// use edgecut_trainer::loss::OutputKind;
/// use edgecut_trainer::model_file::SavedTask;
/// let task: SavedTask = serde_json::from_str(r#"{"task":"node","loss":"huber","outputs":{"numbers":2}}"#)?;
/// assert_eq!(task.outputs_or_classes(2), OutputKind::Numbers(2));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedTask {
    /// The name of the task.
    pub task: String,
    /// The name of the loss; `None` if the file does not tell it, as files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
    /// The meaning of the model's outputs; `None` for links, and if the file does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<OutputKind>,
    /// The thresholds and the temperature that the validation data has chosen; `None` for the greatest logit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The same for several targets, by the names of those that have chosen some.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub target_decisions: BTreeMap<String, Decision>,
}

impl SavedTask {
    /// Returns the task of a model, from the bytes of its file. `path` is the file for errors. Files of earlier versions
    /// do not name it; their models for nodes and graphs predict classes.
    ///
    /// # Errors
    /// [`ModelFileError`] if the file has another format.
    pub fn of_file(bytes: &[u8], path: &Path) -> Result<Self, ModelFileError> {
        let (file, json) = open(bytes, path)?;
        if let Some(task) = file.task {
            let task: Self = serde_json::from_str(&task).map_err(ModelFileError::config(path))?;
            task.check().map_err(|what| ModelFileError::Model {
                path: path.to_owned(),
                source: ModelError::Settings { what },
            })?;
            return Ok(task);
        }
        let config = serde_json::from_str(&json).map_err(ModelFileError::config(path))?;
        let task = task_of_settings(&config).unwrap_or("node");
        Ok(Self { task: task.to_owned(), loss: None, outputs: None, decision: None, target_decisions: BTreeMap::new() })
    }

    /// Returns the name of the task that a file tells, by its name or by its settings. `path` is the file for errors.
    ///
    /// # Errors
    /// [`ModelFileError`] if the file has another format.
    pub(crate) fn told_by_file(bytes: &[u8], path: &Path) -> Result<Option<String>, ModelFileError> {
        let (file, json) = open(bytes, path)?;
        if file.task.is_some() {
            return Ok(Some(Self::of_file(bytes, path)?.task));
        }
        let config = serde_json::from_str(&json);
        let config = config.map_err(ModelFileError::config(path))?;
        Ok(task_of_settings(&config).map(str::to_owned))
    }

    /// Checks that the decision is one of the model's outputs.
    fn check(&self) -> Result<(), String> {
        match (&self.decision, self.outputs) {
            (None, _) => Ok(()),
            (Some(decision), Some(outputs)) => decision.check(outputs).map_err(|why| format!("the decision: {why}")),
            (Some(_), None) => Err("it has a decision, but does not tell the meaning of the outputs".into()),
        }
    }

    /// Returns the meaning of the model's `num_outputs` outputs: classes if the file does not tell it.
    pub fn outputs_or_classes(&self, num_outputs: usize) -> OutputKind {
        self.outputs.unwrap_or(OutputKind::Classes(num_outputs))
    }
}

/// Returns the task that the settings of a file tell, which a version without names of tasks has written.
fn task_of_settings(config: &serde_json::Value) -> Option<&'static str> {
    if config.get("edge_decoder").is_some() {
        Some("edge")
    } else if config.get("decoder").is_some() {
        Some("link")
    } else if config.get("pooling").is_some_and(|pooling| !pooling.is_null()) {
        Some("graph")
    } else if config.get("kind").or(config.get("conv")).is_some() {
        Some("node")
    } else {
        None
    }
}
