//! The settings of predictions for nodes, and their checks against the graph.

use crate::error::ModelError;
use crate::error::TrainError;
use crate::loss::OutputKind;
use crate::metrics::Metric;
use crate::models::{NetworkConfig, NetworkOutput};
use crate::objective::Objective;
use crate::objective::scoring_config::ScoringConfig;
use crate::training_config::TrainingConfig;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{LabelId, Meta, NodeTypeId, count_distinct_labels, max_classes};

/// The settings of a model for nodes and of its training.
#[derive(Clone, Debug, Default)]
pub struct NodeTrainingConfig {
    /// The settings of the model and its training.
    pub training: TrainingConfig,
    /// The settings of the scores.
    pub scoring: ScoringConfig,
}

impl NodeTrainingConfig {
    /// Returns the metric that selects the best epoch of a training on this graph.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the loss or the metric does not fit the targets of the graph.
    pub fn chosen_metric(&self, meta: &Meta) -> Result<Metric, TrainError> {
        Ok(objective(meta, self)?.metrics.first())
    }
}

/// Returns the node type of the seeds: the only type with classes or other targets and with training nodes, or else the
/// only type with targets.
///
/// # Errors
/// [`TrainError::Config`] if no node type has targets, if several candidates have, or if the type has several labels
/// ([`Part::with_label`](edgecut_graph::Part::with_label) chooses one).
pub fn seed_type(meta: &Meta) -> Result<NodeTypeId, TrainError> {
    let labelled = meta.node_types.iter().enumerate().filter(|(_, nodes)| OutputKind::of_nodes(nodes).is_some());
    let labelled: Vec<_> = labelled.map(|(t, nodes)| (NodeTypeId(t as u16), nodes)).collect();
    let trained: Vec<_> = labelled.iter().filter(|(_, nodes)| nodes.split_sizes[0] > 0).collect();
    let what = match (&trained[..], &labelled[..]) {
        ([(only, nodes)], _) | ([], [(only, nodes)]) if nodes.more_labels.is_empty() => return Ok(*only),
        (_, []) => "no node type has labels, which train node needs".to_owned(),
        (_, several) => {
            let mut names = Vec::new();
            for (node_type, nodes) in several {
                let labels = (0..=nodes.more_labels.len()).map(|label| LabelId { node_type: *node_type, label });
                names.extend(labels.map(|label| format!("`target={}`", meta.label_name(label))));
            }
            format!("nodes have several labels: choose one by {}", names.join(" or "))
        }
    };
    Err(TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) })
}

/// Returns the loss and the metric of a configuration, which fit the targets of the seeds.
///
/// # Errors
/// [`TrainError::Config`] if they do not, or the graph has no targets.
pub(crate) fn objective(meta: &Meta, config: &NodeTrainingConfig) -> Result<Objective, TrainError> {
    let nodes = &meta.node_types[seed_type(meta)?.index()];
    // The type of the seeds has targets.
    let targets = OutputKind::of_nodes(nodes).unwrap_or(OutputKind::Classes(nodes.num_classes));
    Objective::new(config.training.step.loss.as_ref(), &config.scoring, targets, &meta.dataset)
}

/// Checks that the number of classes does not far exceed the number of distinct labels, since a model has one output
/// per class. A part knows only its own labels, so the ranks count together.
///
/// # Errors
/// [`TrainError::Config`] with the number of classes and the bound; [`TrainError::Cluster`] on a failure of the job.
pub(crate) fn check_num_classes(graph: &DistGraph, world: &mut ProcessGroup) -> Result<(), TrainError> {
    let part = graph.part();
    let meta = part.meta();
    let node_type = seed_type(meta)?;
    let nodes = &meta.node_types[node_type.index()];
    // A client has no labels to count.
    if nodes.num_classes <= max_classes(0) || graph.is_client() {
        return Ok(());
    }
    // One of the ranks that share a part counts for all of them. A label in several parts counts once per part, so the
    // sum is an upper bound.
    let (_, mine) = graph.replicas();
    let labels = part.nodes(node_type).labels.as_deref().filter(|_| mine == 0).unwrap_or_default();
    let mut distinct = [count_distinct_labels(labels) as u64];
    world.all_reduce(&mut distinct, ReduceOp::Sum)?;
    let most = max_classes(distinct[0] as usize);
    if nodes.num_classes <= most {
        return Ok(());
    }
    Err(TrainError::Config {
        what: format!(
            "dataset {}: node type {} has {} classes, but its labels have at most {} different values, which allow at \
             most {most} classes: partition the graph again with its classes numbered 0, 1, 2 and so on",
            meta.dataset, nodes.name, nodes.num_classes, distinct[0]
        ),
    })
}

/// Returns the model that `config` describes for the graph of `node`. It has encoders, unless the graph is homogeneous and
/// has features, and the model has convolutions that read them.
///
/// # Errors
/// [`TrainError::Config`] and [`TrainError::Dataset`] if the graph lacks labels, or settings contradict the graph or
/// each other.
pub fn model_config(graph: &DistGraph, config: &NodeTrainingConfig) -> Result<NetworkConfig, TrainError> {
    let meta = graph.part().meta();
    let outputs = objective(meta, config)?.num_outputs();
    let config = &config.training;
    let unfit = |source: ModelError| TrainError::Dataset { dataset: meta.dataset.clone(), source };
    let graph = config.schema(meta).map_err(unfit)?;
    let encoders = config.encoder_decoder
        || config.kind.is_typed()
        || config.sampler.num_neighbors.num_hops() == 0
        || !graph.is_homogeneous()
        || !graph.embedded_types().is_empty();
    let output = NetworkOutput { node_type: seed_type(meta)?, channels: outputs };
    let model = config.network(graph, vec![output], encoders);
    model.validate().map_err(unfit)?;
    Ok(model)
}

/// Checks that a saved model matches this graph and these fan-outs.
pub(crate) fn check_fit(
    graph: &DistGraph,
    config: &NodeTrainingConfig,
    model: &NetworkConfig,
) -> Result<(), TrainError> {
    // The saved model's own settings apply, not the flags. Residuals and normalization do not change the
    // shapes that are compared below.
    let training = TrainingConfig {
        hidden_channels: model.hidden_channels,
        encoder_decoder: model.encoders,
        residual: false,
        layer_norm: false,
        batch_norm: false,
        feed_forward: None,
        readout: None,
        ..config.training.for_network(model)
    };
    let asked = NodeTrainingConfig { training, scoring: config.scoring.clone() };
    let expected = self::model_config(graph, &asked)?;
    model.graph.check_graph(&expected.graph)?;
    model.check_hops(expected.num_layers)?;
    if model.outputs == expected.outputs {
        return Ok(());
    }
    Err(TrainError::config(format!(
        "the model has {} outputs, but the graph has {}: use the graph that it was trained on, or train a model on this one",
        model.num_outputs(),
        expected.num_outputs()
    )))
}
