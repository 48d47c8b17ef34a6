//! The settings of predictions for edges, and their checks against the graph.

use crate::edge_type_name::{edge_type, reverse_edge_types};
use crate::error::ModelError;
use crate::error::TrainError;
use crate::link::is_pair;
use crate::loss::OutputKind;
use crate::metrics::Metric;
use crate::models::{EdgeModelConfig, GraphSchema, TargetEdges};
use crate::objective::Objective;
use crate::objective::scoring_config::ScoringConfig;
use crate::training_config::TrainingConfig;
use edgecut_gnn::nn::EdgeDecoderKind;
use edgecut_graph::{EdgeTypeId, Meta};
use edgecut_settings::{Flag, settings};

settings! {
    /// The settings of a model for edges and of its training.
    #[derive(Clone, Debug)]
    pub struct EdgeTrainingConfig {
        /// The settings of the encoder and its training.
        pub training: TrainingConfig = TrainingConfig::default();
        /// Edge type whose labels the model learns: SRC__REL__DST, or a relation name [default: the only type with labels]
        pub edge_type: Option<String> = None => Flag::new("TYPE");
        /// Decoder that computes the outputs of an edge from the vectors of both ends and the features of the edge: a
        /// network with one hidden layer (mlp), a weighted product of the vectors (dot), or a matrix per output between
        /// them (bilinear)
        pub decoder: EdgeDecoderKind = EdgeDecoderKind::Mlp => Flag::new("mlp|dot|bilinear");
        /// Messages over the edges of a batch and their reverses: none (exclude), or like other edges (include). A model
        /// that reads the edges which it predicts from the neighborhood relies on what it does not know of new edges
        pub target_edges: TargetEdges = TargetEdges::Exclude => Flag::new("exclude|include");
        /// Pairs of edge types that are the reverse of each other: ONE=OTHER, separated by commas. NAME and rev_NAME are
        /// always paired
        pub reverse_types: Vec<(String, String)> = Vec::new() => Flag::new("LIST").checked(is_pair);
        /// The settings of the scores.
        pub scoring: ScoringConfig = ScoringConfig::default();
    }
}

impl EdgeTrainingConfig {
    /// Returns the metric that selects the best epoch of a training on this graph.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the loss or the metric does not fit the labels of the graph.
    pub fn chosen_metric(&self, meta: &Meta) -> Result<Metric, TrainError> {
        Ok(objective(meta, self)?.metrics.first())
    }
}

/// Returns the edge type that `name` names, or else the only type with labels.
///
/// # Errors
/// [`TrainError::Config`] for an unknown or ambiguous name, for a type without labels, and without a name if not exactly one
/// type has labels.
pub fn labeled_edge_type(meta: &Meta, name: Option<&str>) -> Result<EdgeTypeId, TrainError> {
    let fail = |what: String| Err(TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) });
    let labeled: Vec<usize> = (0..meta.edge_types.len()).filter(|&e| meta.edge_types[e].labels.is_some()).collect();
    let names = || labeled.iter().map(|&e| meta.edge_types[e].full_name()).collect::<Vec<_>>().join(", ");
    if labeled.is_empty() {
        return fail("no edge type has labels, which train edge needs: save edge_label.npy beside edge_index.npy, or give `labels` to a \
                     table of edges"
            .into());
    }
    match (name, &labeled[..]) {
        (Some(name), _) => {
            let found = edge_type(meta, name)?;
            if meta.edge_types[found.index()].labels.is_none() {
                return fail(format!("edge type {name} has no labels: choose one of {} (`edge_type`)", names()));
            }
            Ok(found)
        }
        (None, &[only]) => Ok(EdgeTypeId(only as u16)),
        (None, _) => fail(format!("several edge types have labels: choose one of {} (`edge_type`)", names())),
    }
}

/// Returns the loss and the metric of a configuration, which fit the labels of the edges.
///
/// # Errors
/// [`TrainError::Config`] if they do not, or the graph has no labels of edges.
pub(super) fn objective(meta: &Meta, config: &EdgeTrainingConfig) -> Result<Objective, TrainError> {
    let edges = &meta.edge_types[labeled_edge_type(meta, config.edge_type.as_deref())?.index()];
    let Some(targets) = OutputKind::of_edges(edges) else {
        let what = format!("dataset {}: no edge of type {} has a label", meta.dataset, edges.full_name());
        return Err(TrainError::Config { what });
    };
    Objective::new(config.training.step.loss.as_ref(), &config.scoring, targets, &meta.dataset)
}

/// Returns the model that `config` describes for a graph.
///
/// # Errors
/// [`TrainError::Config`] and [`TrainError::Dataset`] if the graph lacks labels, or settings contradict the graph or each
/// other.
pub fn edge_model_config(meta: &Meta, config: &EdgeTrainingConfig) -> Result<EdgeModelConfig, TrainError> {
    let unfit = |source: ModelError| TrainError::Dataset { dataset: meta.dataset.clone(), source };
    let num_outputs = objective(meta, config)?.num_outputs();
    let edge_type = labeled_edge_type(meta, config.edge_type.as_deref())?;
    let training = &config.training;
    let own_features = if training.no_edge_features { 0 } else { meta.edge_types[edge_type.index()].feature_dim };
    let model = EdgeModelConfig {
        encoder: training.network(training.schema(meta).map_err(unfit)?, Vec::new(), true),
        edge_type,
        edge_decoder: config.decoder,
        edge_feature_dim: own_features,
        num_outputs,
        target_edges: config.target_edges,
        reverse_types: with_declared_reverses(meta, &config.reverse_types)?,
    };
    model.validate().map_err(unfit)?;
    Ok(model)
}

/// Returns pairs of reverse types, and the pairs that the parts declare besides, so that a model reads the same messages on
/// other parts. Declared pairs have full names, since a relation may name several types.
fn with_declared_reverses(meta: &Meta, pairs: &[(String, String)]) -> Result<Vec<(String, String)>, TrainError> {
    let types = reverse_edge_types(meta, pairs)?;
    let mut all = pairs.to_vec();
    for (one, other) in &types[pairs.len()..] {
        all.push((meta.edge_types[one.index()].full_name(), meta.edge_types[other.index()].full_name()));
    }
    Ok(all)
}

/// Returns the first of some pairs of reverse types that neither a model nor the graph knows, so that the model was trained with other
/// messages.
///
/// # Errors
/// [`TrainError::Config`] for a type that the graph does not have.
pub fn unknown_reverse_pair<'a>(
    meta: &Meta,
    model: &EdgeModelConfig,
    pairs: &'a [(String, String)],
) -> Result<Option<&'a (String, String)>, TrainError> {
    let known = reverse_edge_types(meta, &model.reverse_types)?;
    for pair in pairs {
        let one = edge_type(meta, &pair.0)?;
        let other = edge_type(meta, &pair.1)?;
        let [from, to] = [one, other].map(|edge_type| meta.edge_types[edge_type.index()].names());
        let is_known = known.contains(&(one, other)) || known.contains(&(other, one));
        if !is_known && !from.is_reverse_of(&to, &[]) {
            return Ok(Some(pair));
        }
    }
    Ok(None)
}

/// Checks that a saved model fits a graph and the settings of its use.
///
/// # Errors
/// [`TrainError::Config`] with the difference.
pub(super) fn check_fit(meta: &Meta, model: &EdgeModelConfig, num_layers: usize) -> Result<EdgeTypeId, TrainError> {
    let found = GraphSchema::read_by(&model.encoder.graph, meta)?;
    model.encoder.graph.check_graph(&found)?;
    model.encoder.check_hops(num_layers)?;
    let edges = &meta.edge_types[model.edge_type.index()];
    if model.edge_feature_dim > 0 && model.edge_feature_dim != edges.feature_dim {
        return Err(TrainError::config(format!(
            "the model reads {} features of each edge, but edges of type {} have {}",
            model.edge_feature_dim,
            edges.full_name(),
            edges.feature_dim
        )));
    }
    Ok(model.edge_type)
}
