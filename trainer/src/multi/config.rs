//! The settings of a model for several targets, and their checks against the graph.

use super::model_config::{MultiModelConfig, SavedTarget};
use crate::error::{ModelError, TrainError};
use crate::loss::AnyLoss;
use crate::metrics::Metric;
use crate::models::NetworkOutput;
use crate::multi::head::Head;
use crate::multi::target_label::TargetLabel;
use crate::objective::Objective;
use crate::objective::scoring_config::ScoringConfig;
use crate::training_config::TrainingConfig;
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::Meta;

/// The settings of a model for several targets and of its training. The parts of the graph have the labels of the targets
/// together ([`Part::with_labels_together`](edgecut_graph::Part::with_labels_together)), in the same order.
#[derive(Clone, Debug, Default)]
pub struct MultiTrainingConfig {
    /// The settings of the model and its training.
    pub training: TrainingConfig,
    /// The targets. The first one selects the best epoch.
    pub targets: Vec<TargetConfig>,
}

/// The settings of a target.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// The name of the label: `TYPE:LABEL`, a label that one node type alone has, or a node type with one label.
    pub name: String,
    /// The factor of its mean loss in the sum over all targets.
    pub weight: f64,
    /// The loss; `None` for the default loss of the label.
    pub loss: Option<AnyLoss>,
    /// The metrics, the threshold and the calibration of its scores, as for a model of one label.
    pub scoring: ScoringConfig,
}

impl TargetConfig {
    /// Returns a target of weight 1, with the default loss and metric.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), weight: 1.0, loss: None, scoring: ScoringConfig::default() }
    }
}

impl MultiTrainingConfig {
    /// Returns the metric that selects the best epoch of a training on this graph.
    ///
    /// # Errors
    /// The errors of the settings.
    pub fn chosen_metric(&self, meta: &Meta) -> Result<Option<Metric>, TrainError> {
        Ok(heads(meta, self)?.first().map(|head| head.objective.metrics.first()))
    }

    /// Returns the full names of the targets in a graph.
    ///
    /// # Errors
    /// The errors of the settings.
    pub fn names(&self, meta: &Meta) -> Result<Vec<String>, TrainError> {
        Ok(heads(meta, self)?.into_iter().map(|head| head.label.name).collect())
    }
}

/// Returns the error of settings that do not fit the labels of a graph.
fn fail(meta: &Meta, what: String) -> TrainError {
    TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) }
}

/// Returns the error of a model that does not fit a graph.
fn unfit(meta: &Meta, source: ModelError) -> TrainError {
    TrainError::Dataset { dataset: meta.dataset.clone(), source }
}

/// Returns the heads of the model, one for each target.
///
/// # Errors
/// [`TrainError::Config`] for a target that the graph does not have, that is given twice, or that does not fit its loss and
/// metrics.
pub(super) fn heads(meta: &Meta, config: &MultiTrainingConfig) -> Result<Vec<Head>, TrainError> {
    if config.targets.is_empty() {
        return Err(fail(meta, "no target is given: give the labels to predict (`target`)".into()));
    }
    let labels = TargetLabel::all(meta);
    let mut heads: Vec<Head> = Vec::with_capacity(config.targets.len());
    for target in &config.targets {
        let found: Vec<&TargetLabel> = match labels.iter().find(|label| label.name == target.name) {
            Some(exact) => vec![exact],
            None => labels.iter().filter(|label| label.is_named(&target.name)).collect(),
        };
        let [label] = found[..] else {
            let names: Vec<&str> = labels.iter().map(|label| label.name.as_str()).collect();
            return Err(fail(
                meta,
                format!("the target {} is not one of its labels {}", target.name, names.join(", ")),
            ));
        };
        let name = &label.name;
        if heads.iter().any(|head| head.name() == name) {
            return Err(fail(meta, format!("the target {name} is given twice: leave one out")));
        }
        if !(target.weight.is_finite() && target.weight > 0.0) {
            return Err(fail(meta, format!("the weight {} of the target {name} is not above 0", target.weight)));
        }
        let Some(kind) = label.outputs() else {
            return Err(fail(meta, format!("the target {name} has no classes and no numbers")));
        };
        let of_target = format!("{}, target {name}", meta.dataset);
        let objective = Objective::new(target.loss.as_ref(), &target.scoring, kind, &of_target).map_err(of_flags)?;
        let [_, num_valid, _] = label.meta.split_sizes;
        objective.check_validation(num_valid as usize).map_err(|error| match of_flags(error) {
            TrainError::Config { what } => fail(meta, format!("target {name}: {what}")),
            error => error,
        })?;
        let before = heads.iter().filter(|head| head.node_type() == label.node_type);
        let first_output: usize = before.map(|head| head.outputs.len()).sum();
        heads.push(Head {
            label: label.clone(),
            weight: target.weight,
            outputs: first_output..first_output + objective.num_outputs(),
            objective,
        });
    }
    Ok(heads)
}

/// Returns the error with the names of the settings of targets in the place of the settings of a model for one label.
fn of_flags(error: TrainError) -> TrainError {
    let TrainError::Config { mut what } = error else { return error };
    for setting in ["threshold", "calibrate", "positive_class"] {
        what = what.replace(&format!("`{setting}"), &format!("`target_{setting}"));
    }
    TrainError::Config { what }
}

/// Checks that a training has nodes for each target.
///
/// # Errors
/// [`TrainError::Config`] with the name of a target without training nodes.
pub(super) fn check_training_nodes(meta: &Meta, heads: &[Head]) -> Result<(), TrainError> {
    match heads.iter().find(|head| head.label.meta.split_sizes[0] == 0) {
        Some(head) => Err(fail(
            meta,
            format!(
                "the target {} has no training nodes: give its label `split_pct`, and partition again",
                head.name()
            ),
        )),
        None => Ok(()),
    }
}

/// Returns the model that `config` describes for the graph of `graph`: one network with an output layer per node type, whose
/// columns are the outputs of the targets.
///
/// # Errors
/// [`TrainError::Config`] and [`TrainError::Dataset`] if the graph lacks labels, or settings contradict the graph or each
/// other.
pub fn multi_model_config(graph: &DistGraph, config: &MultiTrainingConfig) -> Result<MultiModelConfig, TrainError> {
    let meta = graph.part().meta();
    let training = &config.training;
    if training.eval_layer_wise.is_some() {
        let what = "a model for several targets evaluates sampled batches (`eval=sampled`): give fan-outs by \
                    `eval_num_neighbors`";
        return Err(TrainError::config(what));
    }
    let heads = heads(meta, config)?;
    let schema = training.schema(meta).map_err(|source| unfit(meta, source))?;
    let mut outputs: Vec<NetworkOutput> = Vec::new();
    for head in &heads {
        match outputs.iter_mut().find(|output| output.node_type == head.node_type()) {
            Some(output) => output.channels += head.outputs.len(),
            None => outputs.push(NetworkOutput { node_type: head.node_type(), channels: head.outputs.len() }),
        }
    }
    let network = training.network(schema, outputs, true);
    network.validate().map_err(|source| unfit(meta, source))?;
    Ok(MultiModelConfig { network, targets: heads.iter().map(SavedTarget::of).collect() })
}

/// Checks that a saved model matches this graph and these fan-outs.
pub(super) fn check_fit(
    graph: &DistGraph,
    config: &MultiTrainingConfig,
    model: &MultiModelConfig,
) -> Result<(), TrainError> {
    let network = &model.network;
    // The saved model's own settings apply, not the flags.
    let training = TrainingConfig {
        hidden_channels: network.hidden_channels,
        residual: false,
        layer_norm: false,
        batch_norm: false,
        feed_forward: None,
        readout: None,
        ..config.training.for_network(network)
    };
    let expected = multi_model_config(graph, &MultiTrainingConfig { training, targets: config.targets.clone() })?;
    network.graph.check_graph(&expected.network.graph)?;
    network.check_hops(expected.network.num_layers)?;
    if model.targets != expected.targets {
        let what = "the labels of the graph have other classes or numbers than the targets of the model: use the graph that it \
                    was trained on, or train a model on this one";
        return Err(TrainError::config(what));
    }
    Ok(())
}
