//! The settings of a model for several targets, which its file stores.

use super::MultiPrediction;
use super::head::Head;
use crate::error::ModelError;
use crate::loss::OutputKind;
use crate::model_file::{LoadableConfig, ModelSettings, TaskKind};
use crate::models::{Network, NetworkConfig};
use crate::seed_task::SeedTask;
use burn::tensor::backend::Backend;
use edgecut_graph::NodeTypeId;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The settings of a model for several targets: a network with an output layer per node type, and the targets in the columns
/// of the outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiModelConfig {
    /// The network.
    pub network: NetworkConfig,
    /// The targets. The targets of a node type have consecutive columns of its outputs, in their order.
    pub targets: Vec<SavedTarget>,
}

/// A target of a saved model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedTarget {
    /// The full name of the label.
    pub name: String,
    /// The node type.
    pub node_type: NodeTypeId,
    /// The name of the loss.
    pub loss: String,
    /// The meaning of the outputs.
    pub outputs: OutputKind,
    /// The number of the outputs.
    pub num_outputs: usize,
}

impl SavedTarget {
    pub(super) fn of(head: &Head) -> Self {
        Self {
            name: head.name().to_owned(),
            node_type: head.node_type(),
            loss: head.objective.loss.name().to_owned(),
            outputs: head.objective.outputs,
            num_outputs: head.outputs.len(),
        }
    }
}

impl MultiModelConfig {
    /// Returns the columns of a target, counted from 0, in the outputs for its node type.
    pub fn columns(&self, target: usize) -> Range<usize> {
        let of_target = &self.targets[target];
        let before = self.targets[..target].iter().filter(|other| other.node_type == of_target.node_type);
        let first: usize = before.map(|other| other.num_outputs).sum();
        first..first + of_target.num_outputs
    }
}

impl ModelSettings for MultiModelConfig {
    fn num_parameters(&self) -> Option<usize> {
        Some(self.network.num_parameters().unwrap_or(usize::MAX))
    }

    fn task(&self) -> Option<TaskKind> {
        Some(MultiPrediction::KIND)
    }

    fn network(&self) -> Option<&NetworkConfig> {
        Some(&self.network)
    }
}

impl LoadableConfig for MultiModelConfig {
    type Model<B: Backend> = Network<B>;

    fn validate(&self) -> Result<(), ModelError> {
        self.network.validate()?;
        if self.targets.is_empty() || self.network.pooling.is_some() || !self.network.encoders {
            return Err(wrong("a model for several targets has targets, encoders, and no pooling"));
        }
        let mut channels = vec![0_usize; self.network.graph.node_types.len()];
        for target in &self.targets {
            let Some(of_type) = channels.get_mut(target.node_type.index()) else {
                return Err(wrong("a target of the model is of a node type that does not exist"));
            };
            if target.num_outputs == 0 || target.outputs.width() > target.num_outputs {
                return Err(wrong("a target of the model has fewer outputs than classes, labels or numbers"));
            }
            *of_type = of_type.saturating_add(target.num_outputs);
        }
        for (t, channels) in channels.into_iter().enumerate() {
            let output = self.network.outputs.iter().find(|output| output.node_type.index() == t);
            if output.map_or(0, |output| output.channels) != channels {
                return Err(wrong("the outputs of the targets are not the outputs of the network"));
            }
        }
        Ok(())
    }

    fn init<B: Backend>(&self, device: &B::Device) -> Result<Network<B>, ModelError> {
        self.validate()?;
        self.network.init(0, device)
    }
}

/// Returns the error of settings that contradict each other.
fn wrong(what: &str) -> ModelError {
    ModelError::Settings { what: what.into() }
}
