//! What node classification trains, and on what.

use crate::batch_input::WEIGHTED_GCN;
use crate::metrics::Metric;
use crate::models::{GraphSchema, ModelConfig, ModelKind, NodeModelConfig, RelationalConfig, RelationalOutput};
use crate::train_error::TrainError;
use crate::training_config::TrainingConfig;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::SamplingNode;
use edgecut_graph::{Meta, NodeTypeId, count_distinct_labels, max_classes};

/// What node classification trains, and by what it is judged.
#[derive(Clone, Debug)]
pub struct NodeTrainingConfig {
    /// The model, and how it is trained.
    pub training: TrainingConfig,
    /// What chooses the epoch.
    pub metric: Metric,
}

/// Why a GCN takes no neighbors that are drawn by time.
const TEMPORAL_GCN: &str = "a GCN scales messages by in-degrees of the whole graph, which count edges that are later than the seed: leave \
    out the times (--time-attr), or take another model (--model sage, gat or gatv2)";

/// The type of the seeds: the only one with training nodes, or else with labels.
///
/// # Errors
/// [`TrainError::Config`] if no node type has labels, or several have.
pub fn seed_type(meta: &Meta) -> Result<NodeTypeId, TrainError> {
    let labelled = meta.node_types.iter().enumerate().filter(|(_, nodes)| nodes.has_labels && nodes.num_classes > 0);
    let labelled: Vec<_> = labelled.map(|(t, nodes)| (NodeTypeId(t as u16), nodes)).collect();
    let trained: Vec<_> = labelled.iter().filter(|(_, nodes)| nodes.split_sizes[0] > 0).collect();
    let what = match (&trained[..], &labelled[..]) {
        ([(only, _)], _) | ([], [(only, _)]) => return Ok(*only),
        (_, []) => "its nodes have no labels to train on".to_owned(),
        (_, several) => {
            let names = several.iter().map(|(_, nodes)| nodes.name.as_str()).collect::<Vec<_>>().join(", ");
            format!("its node types {names} have labels, train node takes graphs where one type has")
        }
    };
    Err(TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) })
}

/// Checks that the seeds' type has not many more classes than different labels: a model has outputs for each class. A part
/// knows its own labels only, so that the ranks count together.
///
/// # Errors
/// [`TrainError::Config`] with the number of classes and the bound; [`TrainError::Cluster`] if the ranks cannot count.
pub(crate) fn check_num_classes(node: &SamplingNode, world: &mut ProcessGroup) -> Result<(), TrainError> {
    let part = node.part();
    let meta = part.meta();
    let node_type = seed_type(meta)?;
    let nodes = &meta.node_types[node_type.index()];
    if nodes.num_classes <= max_classes(0) {
        return Ok(());
    }
    // One of the ranks that share a part counts for all of them. A label that several parts have is counted in each.
    let (_, mine) = node.sharers();
    let labels = part.nodes(node_type).labels.as_deref().filter(|_| mine == 0).unwrap_or_default();
    let mut distinct = [count_distinct_labels(labels) as u64];
    world.all_reduce(&mut distinct, ReduceOp::Sum)?;
    let most = max_classes(distinct[0] as usize);
    if nodes.num_classes <= most {
        return Ok(());
    }
    Err(TrainError::Config {
        what: format!(
            "dataset {}: node type {} has {} classes, but its labels have at most {} different values, which allow at most \
             {most} classes: partition the graph again with its classes numbered 0, 1, 2 and so on",
            meta.dataset, nodes.name, nodes.num_classes, distinct[0]
        ),
    })
}

/// Returns the model that `config` describes for the graph of `node`: a stack of convolutions for a homogeneous graph with
/// features, unless it has an encoder and a decoder, no hops, or is an R-GCN; else a network over typed edges.
///
/// # Errors
/// [`TrainError::Config`] if the graph lacks features or labels, or settings fit neither it nor each other.
pub fn model_config(node: &SamplingNode, config: &NodeTrainingConfig) -> Result<ModelConfig, TrainError> {
    let NodeTrainingConfig { training: config, metric } = config;
    let meta = node.part().meta();
    let fail = |what: String| TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) };
    let graph = GraphSchema::new(meta).map_err(|e| fail(e.to_string()))?;
    let is_relational = config.encoder_decoder
        || matches!(config.kind, ModelKind::Rgcn { .. })
        || config.sampler.num_neighbors.num_hops() == 0
        || !graph.embedded_types().is_empty();
    let (layers, hidden) = (config.sampler.num_neighbors.num_hops(), config.hidden_channels);
    let node_type = seed_type(meta)?;
    let classes = meta.node_types[node_type.index()].num_classes;
    let model: ModelConfig = if graph.is_homogeneous() && !is_relational {
        NodeModelConfig::new(config.kind, graph.node_types[0].feature_dim, hidden, classes, layers)
            .with_dropout(config.dropout)
            .with_input_dropout(config.input_dropout)
            .with_normalize_features(config.normalize_features)
            .with_residual(config.residual)
            .with_layer_norm(config.layer_norm)
            .into()
    } else {
        let output = RelationalOutput { node_type, channels: classes };
        RelationalConfig {
            relation_aggregation: config.relation_aggregation,
            residual: config.residual,
            layer_norm: config.layer_norm,
            dropout: config.dropout,
            input_dropout: config.input_dropout,
            normalize_features: config.normalize_features,
            ..RelationalConfig::new(config.kind, graph, output, hidden, layers)
        }
        .into()
    };
    model.validate().map_err(|e| fail(e.to_string()))?;
    if config.kind == ModelKind::Gcn && config.sampler.temporal.is_some() {
        return Err(TrainError::Config { what: TEMPORAL_GCN.into() });
    }
    if config.kind == ModelKind::Gcn && config.sampler.weighted {
        return Err(TrainError::Config { what: WEIGHTED_GCN.into() });
    }
    match metric.problem(classes) {
        Some(what) => Err(fail(what)),
        None => Ok(model),
    }
}

/// Fails unless a saved model is one for this graph and these fan-outs.
pub(crate) fn check_fit(
    node: &SamplingNode,
    config: &NodeTrainingConfig,
    model: &ModelConfig,
) -> Result<(), TrainError> {
    let fail = |what: String| Err(TrainError::Config { what });
    // What the model was made with counts, not what is asked for now.
    let (hidden_channels, encoder_decoder) = match model {
        ModelConfig::Stack(model) => (model.hidden_channels, false),
        ModelConfig::Relational(model) => (model.hidden_channels, true),
    };
    let training = TrainingConfig {
        kind: model.kind(),
        hidden_channels,
        encoder_decoder,
        residual: false,
        layer_norm: false,
        ..config.training.clone()
    };
    let asked = NodeTrainingConfig { training, metric: config.metric };
    match (self::model_config(node, &asked)?, model) {
        (ModelConfig::Stack(expected), ModelConfig::Stack(model)) => {
            let fit = |c: &NodeModelConfig| (c.in_channels, c.num_classes, c.num_layers);
            if fit(&expected) == fit(model) {
                return Ok(());
            }
            fail(format!(
                "the model takes {} features to {} classes in {} layers, but the graph and the fan-outs have {}, {} and {}",
                model.in_channels,
                model.num_classes,
                model.num_layers,
                expected.in_channels,
                expected.num_classes,
                expected.num_layers
            ))
        }
        (ModelConfig::Relational(expected), ModelConfig::Relational(model)) => {
            if let Some(what) = model.graph.difference(&expected.graph) {
                return fail(format!("the model is for another graph: this one has {what}"));
            }
            if (&model.outputs[..], model.num_layers) == (&expected.outputs[..], expected.num_layers) {
                return Ok(());
            }
            fail(format!(
                "the model computes {:?} in {} layers, but the graph and the fan-outs have {:?} and {}",
                model.outputs, model.num_layers, expected.outputs, expected.num_layers
            ))
        }
        _ => fail(
            "the model takes graphs of one node type with features and one edge type, and this graph is another".into(),
        ),
    }
}
