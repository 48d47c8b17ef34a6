//! The inputs that the score of a node, an edge or a whole graph rests on.
//!
//! Contributions are integrated gradients (Sundararajan, Taly and Yan, "Axiomatic attribution for deep networks", ICML
//! 2017): an input `x` contributes `x ∫ ∂F(a X) / ∂x da` for `a` from 0 to 1, where `F` is the score and `X` are all
//! inputs. Inputs are the features of nodes and edges of the neighborhood, and learned embeddings. The contributions add up
//! to the score without its value for zeros. Gradients alone do not add up to anything that is known.
//!
//! Invariant: an explanation of a node or an edge does not depend on parts, processes or batches. Each target has a neighborhood of
//! its own, which is drawn by the target. Graphs are batched by process: the last bits of their
//! contributions, and the ranks of equal contributions, depend on the number of processes.

mod graphs;
mod integrated_gradients;
mod neighborhood;
mod nodes;
mod ranked;

pub use graphs::explain_graphs;
pub(crate) use integrated_gradients::Inputs;
pub(crate) use neighborhood::Neighborhood;
pub use nodes::explain_nodes;
pub(crate) use nodes::options;

use crate::batch_input::BatchOptions;
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::inference::{InferenceProgress, InferenceStep, PredictionJob};
use crate::metrics::Decision;
use crate::models::Mode;
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{BatchIter, LoaderConfig};
use edgecut_dist_sampler::{NodeFields, SamplerConfig};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use integrated_gradients::integrated_gradients;
use serde::{Deserialize, Serialize};

/// A request for explanations.
#[derive(Clone, Debug)]
pub struct ExplanationConfig {
    /// The fan-outs, the hop at the targets first, and the rules of the draws. Neighborhoods are always disjoint.
    pub sampler: SamplerConfig,
    /// In temporal sampling, the time of all nodes. `None` takes the own time of each node.
    pub time: Option<i64>,
    /// The output to explain. `None` is the predicted class of each target, or the greatest output.
    pub output: Option<usize>,
    /// The choice of the class from the outputs.
    pub decision: Decision,
    /// The number of points at which gradients are computed.
    pub steps: usize,
    /// The most contributions of a kind that are kept for a target.
    pub top: usize,
    /// The number of targets of a batch.
    pub batch_size: usize,
    /// The random seed of sampling.
    pub seed: u64,
    /// The most bytes of batches that wait.
    pub prefetch_bytes: usize,
}

impl ExplanationConfig {
    /// Makes a request for the ten greatest contributions of each kind, from 50 points.
    pub fn new(sampler: SamplerConfig) -> Self {
        let sampler = sampler.with_disjoint(true);
        Self {
            sampler,
            time: None,
            output: None,
            decision: Decision::default(),
            steps: 50,
            top: 10,
            batch_size: 64,
            seed: 0,
            prefetch_bytes: 512 << 20,
        }
    }
}

impl ExplanationConfig {
    /// Checks that a model has the output to explain.
    ///
    /// # Errors
    /// [`TrainError::Config`] if it does not.
    pub(crate) fn check_output(&self, num_outputs: usize) -> Result<(), TrainError> {
        match self.output {
            Some(output) if output >= num_outputs => {
                let what =
                    format!("there is no output {output}: the model has {num_outputs}, counted from 0 (`output`)");
                Err(TrainError::Config { what })
            }
            _ => Ok(()),
        }
    }

    /// Returns the configuration of the loader of targets.
    pub(crate) fn loader(&self, options: BatchOptions) -> LoaderConfig {
        let wanted = NodeFields { original_ids: true, ..options.wanted() };
        LoaderConfig {
            seed: self.seed,
            prefetch_bytes: self.prefetch_bytes,
            ..LoaderConfig::new(self.batch_size, wanted)
        }
    }
}

/// The explanation of a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The original id of the node, the original ids of the source and the destination of the edge, or the number of the graph.
    pub target: Vec<u32>,
    /// For an edge, the global id of its destination and its position among the in-edges of this node.
    pub edge: Option<[u32; 2]>,
    /// The output that is explained.
    pub output: usize,
    /// Its value.
    pub score: f32,
    /// Its value if all inputs are zero.
    pub baseline: f32,
    /// The sum of all contributions, also of those that are not kept. It differs from `score - baseline` by the error of the
    /// numerical integration.
    pub sum: f64,
    /// The greatest contributions of each kind, by their absolute values, kind after kind. Contributions of 0 are left out.
    pub contributions: Vec<Contribution>,
}

/// The contribution of an input to a score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contribution {
    /// The input.
    pub input: ExplainedInput,
    /// The column of the features; the number of columns stands for the learned embedding. `None` for all together.
    pub column: Option<u32>,
    /// The rank among the contributions of the same kind, from 1.
    pub rank: u32,
    /// The value of the feature as the model reads it. NaN for several values together.
    pub value: f32,
    /// The contribution.
    pub contribution: f32,
}

/// A node or an edge that a score rests on, by original ids, or by the numbers of nodes in a small graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ExplainedInput {
    /// A node of the neighborhood.
    Node(NodeTypeId, u32),
    /// An edge from a source to a destination, of the neighborhood or the target itself.
    Edge(EdgeTypeId, u32, u32),
}

/// The job that computes explanations.
pub struct ExplanationRun<'a, 'b, B: Backend> {
    /// All ranks.
    pub world: &'b mut ProcessGroup,
    /// The device of this rank.
    pub device: &'a B::Device,
    /// The receiver of the progress.
    pub progress: &'a dyn InferenceProgress,
}

impl<'a, 'b, B: Backend> From<PredictionJob<'a, 'b, B>> for ExplanationRun<'a, 'b, B> {
    fn from(job: PredictionJob<'a, 'b, B>) -> Self {
        Self { world: job.world, device: job.device, progress: job.progress }
    }
}

/// The receiver of explanations. Every rank calls it with the explanations of all ranks, so it may use collectives.
pub type ExplanationVisitor<'a> = dyn FnMut(Vec<Explanation>, &mut ProcessGroup) -> Result<(), TrainError> + 'a;

/// A batch of targets, whose outputs models of type `M` compute.
pub(crate) trait ExplainedBatch<B: Backend, M>: Sized {
    /// Fills in the embeddings of nodes without features.
    fn filled(self, embeddings: &Embeddings, device: &B::Device) -> Result<Self, TrainError>;

    /// Takes the inputs of the model; `None` for a batch without targets.
    fn take_inputs(&mut self) -> Option<Inputs<B>>;

    /// Computes the outputs of the targets from the inputs.
    fn outputs(&self, inputs: Inputs<B>, model: &M, mode: Mode) -> Result<Tensor<B, 2>, TrainError>;
}

/// Explains the outputs for batches of targets, and passes them to `visit` batch by batch. Every rank must call this.
pub(crate) fn explain_batches<B, M, T>(
    batches: BatchIter<Result<(Neighborhood, T), TrainError>>,
    model: &M,
    embeddings: &Embeddings,
    config: &ExplanationConfig,
    run: ExplanationRun<'_, '_, B::InnerBackend>,
    visit: &mut ExplanationVisitor<'_>,
) -> Result<(), TrainError>
where
    B: AutodiffBackend,
    B::InnerBackend: Backend<Device = B::Device>,
    T: ExplainedBatch<B, M> + 'static,
{
    let ExplanationRun { world, device, progress } = run;
    let num_steps = batches.size_hint().1.unwrap_or(0);
    for (step, prepared) in (1..).zip(batches) {
        let (neighborhood, batch) = prepared??;
        let mut batch = batch.filled(embeddings, device)?;
        let mut own = Vec::new();
        if let Some(inputs) = batch.take_inputs() {
            let found = integrated_gradients(&inputs, config, &|inputs| batch.outputs(inputs, model, Mode::Eval))?;
            own = neighborhood.explain(&found, config.top);
        }
        visit_all(&own, visit, world)?;
        progress.step(InferenceStep { pass: 1, num_passes: 1, step, num_steps });
    }
    Ok(())
}

/// Passes the explanations of all ranks to `visit`, in the order of the ranks. Every rank must call this.
fn visit_all(
    own: &[Explanation],
    visit: &mut ExplanationVisitor<'_>,
    world: &mut ProcessGroup,
) -> Result<(), TrainError> {
    let bytes = bincode::serialize(own).map_err(TrainError::batch)?;
    let mut all = Vec::new();
    for of_rank in world.all_gather(&bytes)? {
        all.extend(bincode::deserialize::<Vec<Explanation>>(&of_rank).map_err(TrainError::batch)?);
    }
    visit(all, world)
}
