//! The evaluation of models for several targets.

use super::head::Head;
use super::outputs_of_type;
use crate::batch_input::{BatchOptions, TensorBatch, tensor_batches};
use crate::error::TrainError;
use crate::fit::{Evaluation, Evaluator, SeedTotals, Selection};
use crate::metrics::Decision;
use crate::models::{GraphSchema, Mode, Network};
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::{ScoreState, SeedScores};
use crate::training_config::TrainingConfig;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistNeighborLoader, Seeds};
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::{NodeTypeId, Split};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The scores of a model on the nodes of a split, by target.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MultiScores {
    /// The scores of each target, with its name. The first one selects the best epoch.
    pub targets: Vec<(String, SeedScores)>,
}

/// The result of a training or evaluation of a model for several targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MultiResult {
    /// The first epoch with the best metric of the first target on its validation nodes, counted from 1.
    pub best_epoch: u64,
    /// The result of each target.
    pub targets: Vec<TargetResult>,
}

/// The result of one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetResult {
    /// The name of the target.
    pub target: String,
    /// The name of the positive one of its two classes, if these have names, which only programs know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positive_class: Option<String>,
    /// The scores of the selected model.
    #[serde(flatten)]
    pub result: SeedResult,
}

/// The evaluation of models on the validation and test nodes of all targets.
pub struct MultiEvaluator<B: Backend> {
    heads: Arc<[Head]>,
    schema: Arc<GraphSchema>,
    options: BatchOptions,
    loaders: Vec<TypeLoaders>,
    device: B::Device,
}

/// The loaders of the nodes of one type.
struct TypeLoaders {
    node_type: NodeTypeId,
    valid: DistNeighborLoader,
    test: DistNeighborLoader,
}

/// The targets of a model in a graph.
#[derive(Clone)]
pub(super) struct GraphTargets {
    pub(super) graph: Arc<DistGraph>,
    pub(super) schema: Arc<GraphSchema>,
    pub(super) heads: Arc<[Head]>,
}

impl GraphTargets {
    /// Returns the loader of the nodes of a type in a validation or test split. Every rank must call this.
    fn loader(
        &self,
        node_type: NodeTypeId,
        split: Split,
        training: &TrainingConfig,
        options: BatchOptions,
        world: &mut ProcessGroup,
    ) -> Result<DistNeighborLoader, TrainError> {
        let sampler = self.schema.sampler(&self.graph, training.eval_sampler())?;
        let loader = training.eval_loader(options.wanted());
        Ok(DistNeighborLoader::new(sampler, node_type, Seeds::Split(split), loader, world)?)
    }
}

impl<B: GnnBackend> MultiEvaluator<B> {
    /// Creates the loaders of the validation and test nodes. Every rank must call this.
    pub(super) fn new(
        targets: GraphTargets,
        training: &TrainingConfig,
        options: BatchOptions,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let options = training.batch_options(options, false);
        let mut loaders = Vec::new();
        for node_type in node_types(&targets.heads) {
            let valid = targets.loader(node_type, Split::Valid, training, options, world)?;
            let test = targets.loader(node_type, Split::Test, training, options, world)?;
            loaders.push(TypeLoaders { node_type, valid, test });
        }
        let GraphTargets { schema, heads, .. } = targets;
        Ok(Self { heads, schema, options, loaders, device: device.clone() })
    }
}

impl<B: GnnBackend> MultiEvaluator<B> {
    /// Computes the scores on a split, by the decisions of the scores on the validation data if there are any.
    fn scores(
        &self,
        split: Split,
        valid: &MultiScores,
        run: &mut Evaluation<'_, Network<B>>,
    ) -> Result<MultiScores, TrainError> {
        let mut states: Vec<ScoreState<'_>> = Vec::with_capacity(self.heads.len());
        for (at, head) in self.heads.iter().enumerate() {
            let chosen = valid.targets.get(at).and_then(|(_, scores)| scores.decision.as_ref());
            states.push(ScoreState::new(split, chosen, &head.objective, run.progress));
        }
        for TypeLoaders { node_type, valid, test } in &self.loaders {
            let loader = if split == Split::Test { test } else { valid };
            for batch in tensor_batches::<B>(loader, 0, &self.schema, self.options, &self.device) {
                let batch = run.embeddings.fill(batch??, &self.device)?;
                if let TensorBatch { input: Some(input), target, .. } = batch {
                    let outputs = outputs_of_type(run.model, *node_type, input, Mode::Eval)?;
                    let of_heads = self.heads.iter().zip(&mut states);
                    for (head, state) in of_heads.filter(|(head, _)| head.node_type() == *node_type) {
                        let known = head.label.known(&target, split);
                        state.add(known.map(|known| head.outputs(outputs.clone(), known)));
                    }
                }
                // Meeting at each batch bounds the wait for a slow rank.
                run.world.barrier()?;
            }
        }
        let mut targets = Vec::with_capacity(states.len());
        for (head, state) in self.heads.iter().zip(states) {
            targets.push((head.name().to_owned(), state.scores(run.world)?));
        }
        Ok(MultiScores { targets })
    }
}

/// Returns the node types of targets, in the order of their first targets.
pub(super) fn node_types(heads: &[Head]) -> Vec<NodeTypeId> {
    let mut types = Vec::new();
    for head in heads {
        if !types.contains(&head.node_type()) {
            types.push(head.node_type());
        }
    }
    types
}

impl<B: GnnBackend> Evaluator<B, Network<B>> for MultiEvaluator<B> {
    type Scores = MultiScores;
    type Result = MultiResult;

    fn selection(&self) -> Selection {
        let first = &self.heads[0];
        let Selection { metric, higher_is_better } = first.objective.selection();
        Selection { metric: format!("{} {metric}", first.name()), higher_is_better }
    }

    fn metric_value(&self, scores: &MultiScores) -> Option<f64> {
        scores.targets.first().and_then(|(_, scores)| scores.metrics.first())
    }

    fn train_accuracy(&self, _totals: &SeedTotals) -> Option<f64> {
        None
    }

    fn target_decisions(&self, valid: &MultiScores) -> BTreeMap<String, Decision> {
        let mut decisions = BTreeMap::new();
        for (name, scores) in &valid.targets {
            decisions.extend(scores.decision.clone().map(|decision| (name.clone(), decision)));
        }
        decisions
    }

    fn decides(&self) -> bool {
        self.heads.iter().any(|head| head.objective.rule.decides())
    }

    fn evaluate(&self, split: Split, run: &mut Evaluation<'_, Network<B>>) -> Result<MultiScores, TrainError> {
        self.scores(split, &MultiScores::default(), run)
    }

    fn evaluate_test(
        &self,
        valid: &MultiScores,
        run: &mut Evaluation<'_, Network<B>>,
    ) -> Result<MultiScores, TrainError> {
        self.scores(Split::Test, valid, run)
    }

    fn result(&self, best_epoch: u64, valid: MultiScores, test: MultiScores) -> MultiResult {
        let mut targets = Vec::with_capacity(self.heads.len());
        // There are no scores on the validation data if nothing was trained.
        let mut valid = valid.targets.into_iter();
        for (head, (_, test)) in self.heads.iter().zip(test.targets) {
            let (_, valid) = valid.next().unwrap_or_default();
            let result = SeedResult::new(best_epoch, head.objective.metrics.first(), valid, test);
            targets.push(TargetResult { target: head.name().to_owned(), positive_class: None, result });
        }
        MultiResult { best_epoch, targets }
    }
}
