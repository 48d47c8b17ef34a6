//! Link prediction as a training task.

use super::batch::{LinkTensorBatch, NegativeChoice};
use super::config::{LinkTrainingConfig, negative_pair_types, target_edge_types};
use super::evaluator::LinkEvaluator;
use super::popularity::Popularity;
use super::ranked_negatives::RankedNegatives;
use super::step::step;
use crate::batch_input::BatchOptions;
use crate::edge_type_name::{edge_type, reverse_edge_types};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{StepGradients, Task, TrainingEpoch};
use crate::memory::feature_cache::FeatureCache;
use crate::models::{GraphSchema, LinkModel, LinkModelConfig, Mode};
use crate::seed_task::{task_fields, task_loader};
use crate::training_loader::TrainingLoader;
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_loader::{
    ChangingNegatives, DistLinkNeighborLoader, EdgeSeeds, LinkConfig, NegativeSources, SharedNegatives,
};
use edgecut_dist_sampler::{DistGraph, NodeFields};
use edgecut_gnn::ops::AutodiffGnnBackend;
use edgecut_graph::Split;
use std::sync::Arc;

/// Link prediction: a model learns to distinguish the training edges from negative pairs.
pub struct LinkTask<B: AutodiffBackend> {
    config: LinkTrainingConfig,
    schema: Arc<GraphSchema>,
    loader: TrainingLoader<DistLinkNeighborLoader>,
    cache: Option<FeatureCache<B>>,
    options: BatchOptions,
    embeddings: Embeddings,
    choice: NegativeChoice,
    ranked: Option<RankedNegatives>,
    /// The number of edges that the batches of this rank have left out since the last report.
    num_left_out: u64,
    evaluator: LinkEvaluator<B::InnerBackend>,
    device: B::Device,
}

impl<B: AutodiffGnnBackend> LinkTask<B> {
    /// Creates the loaders of all splits, and the embeddings of nodes without features. Every rank must call this.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the graph has no training edges or settings contradict it; an error from a peer.
    pub fn new(
        graph: &Arc<DistGraph>,
        config: &LinkTrainingConfig,
        model_config: &LinkModelConfig,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let training = &config.training;
        if config.in_batch_negatives && (training.sampler.disjoint || training.sampler.temporal.is_some()) {
            let what = "in-batch negatives cannot be combined with disjoint or temporal sampling, where each edge has \
                 its own neighborhood: leave out `in_batch_negatives`, or `disjoint` and `temporal`";
            return Err(TrainError::config(what));
        }
        let schema = Arc::new(model_config.encoder.graph.clone());
        let embeddings = Embeddings::new(graph, &schema, model_config.encoder.hidden_channels, training.fit.seed)?
            .with_lr(training.embedding_lr());
        let options = training.batch_options(BatchOptions::of_encoder(&model_config.encoder, true), true);
        let evaluation_options = BatchOptions::of_encoder(&model_config.encoder, false);
        let ranked = RankedNegatives::new(graph, &schema, evaluation_options, config, world)?;
        let changing = ranked.as_ref().map(RankedNegatives::negatives);
        let loader = training_loader((graph, &schema), config, options, changing, world)?;
        let (loader, cache) = TrainingLoader::new::<B>(loader, training, false, options.normalize_features, device)?;
        if loader.whole().total_seeds() == 0 {
            return Err(TrainError::config(format!(
                "dataset {} has no edges to train on: choose edge types with edges (`edge_types`), or hold out fewer of them \
                 (partition-graph --hold-out-edges) and partition again",
                graph.part().meta().dataset
            )));
        }
        let popularity = Popularity::new(graph, config, world)?;
        Ok(Self {
            evaluator: LinkEvaluator::new(graph, &schema, evaluation_options, config, device, world)?,
            config: config.clone(),
            schema,
            loader,
            cache,
            options,
            embeddings,
            choice: NegativeChoice {
                pairs: SharedNegatives {
                    in_batch: config.in_batch_negatives,
                    self_pairs: config.decoder.is_relational(),
                },
                popularity,
            },
            ranked,
            num_left_out: 0,
            device: device.clone(),
        })
    }
}

impl<B: AutodiffGnnBackend> Task<B, LinkModel<B>> for LinkTask<B> {
    type Batch = LinkTensorBatch<B>;
    type Evaluator = LinkEvaluator<B::InnerBackend>;

    task_fields!();
    task_loader!();

    fn prepare_epoch(&mut self, epoch: u64, model: &LinkModel<B>, world: &mut ProcessGroup) -> Result<(), TrainError> {
        match &self.ranked {
            Some(ranked) if epoch > 0 => ranked.rank(epoch, &model.valid(), &self.embeddings, world, &self.device),
            _ => Ok(()),
        }
    }

    fn resumes_within(&self, epoch: u64) -> bool {
        // The ranks come from the model at the start of the epoch, which a checkpoint within it lacks.
        self.ranked.is_none() || epoch == 0
    }

    fn epoch(
        &self,
        epoch: u64,
        first_step: usize,
        _world: &ProcessGroup,
    ) -> Result<TrainingEpoch<LinkTensorBatch<B>>, TrainError> {
        let device = self.device.clone();
        let schema = Arc::clone(&self.schema);
        let cache = self.cache.clone();
        let options = self.options;
        let choice = self.choice.clone();
        let loader = self.loader.of_epoch(epoch);
        let batches = loader.epoch_map_from(epoch, first_step, move |batch| {
            LinkTensorBatch::<B>::new(batch, &schema, options, &choice, cache.as_ref(), &device)
        });
        Ok(TrainingEpoch { num_steps: loader.num_steps(), batches: Box::new(batches) })
    }

    fn step(
        &mut self,
        model: &LinkModel<B>,
        batch: LinkTensorBatch<B>,
        mode: Mode,
        world: &mut ProcessGroup,
    ) -> Result<StepGradients, TrainError> {
        self.num_left_out += batch.num_left_out as u64;
        step(model, &mut self.embeddings, batch, &self.config, mode, &self.device, world)
    }

    fn num_left_out(&self) -> u64 {
        self.num_left_out
    }

    fn restore_left_out(&mut self, num_left_out: u64) {
        self.num_left_out = num_left_out;
    }

    fn take_left_out(&mut self, world: &mut ProcessGroup) -> Result<u64, TrainError> {
        let mut left_out = [std::mem::take(&mut self.num_left_out)];
        world.all_reduce(&mut left_out, ReduceOp::Sum)?;
        Ok(left_out[0])
    }
}

fn training_loader(
    (node, schema): (&Arc<DistGraph>, &GraphSchema),
    config: &LinkTrainingConfig,
    options: BatchOptions,
    changing: Option<ChangingNegatives>,
    world: &mut ProcessGroup,
) -> Result<DistLinkNeighborLoader, TrainError> {
    let training = &config.training;
    let meta = node.part().meta();
    let sampler = schema.sampler(node, training.sampler.clone())?;
    let wanted = options.wanted();
    let wanted = NodeFields { degrees: wanted.degrees || config.log_q_correction, ..wanted };
    let loader_config = training.train_loader(wanted);
    let reverse_types = reverse_edge_types(meta, &config.reverse_types)?;
    let edge_types = target_edge_types(meta, config)?;
    let mut listed = Vec::new();
    if let Some(pairs) = &config.negative_pairs {
        negative_pair_types(meta, config)?;
        listed.extend(edge_types.iter().map(|&edge_type| (edge_type, pairs.clone())));
    }
    let link = LinkConfig {
        negatives: config.negative_sampling(),
        exclude_seed_edges: true,
        reverse_types,
        weights: config.weighted_loss,
        given_negatives: NegativeSources {
            edge_types: config.train_negatives.iter().map(|name| edge_type(meta, name)).collect::<Result<_, _>>()?,
            listed,
            changing,
            max_per_edge: config.max_given_negatives,
            of_held_out: false,
        },
    };
    let seeds = EdgeSeeds::Split(Split::Train, edge_types);
    Ok(DistLinkNeighborLoader::new(sampler, seeds, loader_config, link, world)?)
}

#[cfg(test)]
mod tests {
    use super::super::batch::{NegativeRows, SharedRows};
    use super::super::config::{LinkEvaluation, link_model_config};
    use super::super::loss::{LinkLoss, Softmax};
    use super::*;
    use crate::models::{ConvKind, SageSettings};
    use crate::training_config::TrainingConfig;
    use burn::backend::Autodiff;
    use edgecut_cluster::Cluster;
    use edgecut_dist_sampler::{DistGraphConfig, Fanout, SamplerConfig, share_dataset};
    use edgecut_gnn::nn::{Aggregation, DecoderKind, DistMult, Dot};
    use edgecut_graph::readers::{FakeOptions, fake};
    use edgecut_graph::{EdgeTypeId, HoldOut};

    type Cpu = Autodiff<crate::Cpu>;

    const NUM_NEGATIVES: usize = 8;

    /// Calls `visit` with the graph and the batches of an epoch with shared and in-batch negatives.
    fn in_batches(
        decoder: DecoderKind,
        log_q_correction: bool,
        mut visit: impl FnMut(&DistGraph, &LinkTensorBatch<Cpu>),
    ) {
        let cluster = Cluster::join_local(1, |_| {}).expect("a job of one").remove(0);
        let part = share_dataset(&cluster, || {
            let mut graph = fake(&FakeOptions { avg_num_nodes: 200, num_channels: 0, ..FakeOptions::default() })?;
            if log_q_correction {
                // In-degrees are in proportion to the ends of edges only if each edge has its reverse.
                graph.to_undirected();
            }
            graph.hold_out_edges(&[EdgeTypeId(0)], &HoldOut::random(0.1, 0.1, 1))?;
            Ok::<_, edgecut_graph::GraphError>(graph)
        });
        let mut world = cluster.world().expect("a group of one");
        let graph = Arc::new(part.expect("a graph"));
        let graph = DistGraph::start(graph, cluster, DistGraphConfig::default()).expect("a graph of one part");
        let sampler = SamplerConfig::new(Vec::<Fanout>::new());
        let config = LinkTrainingConfig {
            training: TrainingConfig::new(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }), sampler),
            decoder,
            num_negatives: NUM_NEGATIVES,
            shared_negatives: true,
            in_batch_negatives: true,
            log_q_correction,
            loss: LinkLoss::Softmax(Softmax {}),
            eval_negatives: LinkEvaluation::Filtered,
            ..LinkTrainingConfig::default()
        };
        let model_config = link_model_config(graph.part().meta(), &config).expect("a model");
        let task = LinkTask::<Cpu>::new(&graph, &config, &model_config, &Default::default(), &mut world);
        let task = task.expect("a task");
        let epoch = Task::<Cpu, LinkModel<Cpu>>::epoch(&task, 0, 0, &world).expect("an epoch");
        for batch in epoch.batches {
            visit(&graph, &batch.expect("a batch").expect("tensors"));
        }
    }

    fn groups(batch: &LinkTensorBatch<Cpu>) -> &[SharedRows] {
        let NegativeRows::Shared(groups) = &batch.negatives else { panic!("shared negatives were requested") };
        groups
    }

    /// Returns the number of edges of an epoch, and the number of their own sources among the negatives.
    fn own_sources(decoder: DecoderKind) -> (usize, usize) {
        let mut found = (0, 0);
        in_batches(decoder, false, |_, batch| {
            for group in groups(batch) {
                assert!(group.log_probabilities.is_none());
                found.0 += group.edges.len();
                for (edge, &position) in group.edges.iter().enumerate() {
                    let own = |row: &u32| *row == batch.src[position as usize];
                    let source = group.rows.iter().position(own).expect("all ends of the batch are candidates");
                    found.1 += usize::from(!group.masked.contains(&(edge as u32, source as u32)));
                }
            }
        });
        found
    }

    /// The probabilities follow the model in the documentation of `Popularity`, and their sum over all nodes is about
    /// the number of nodes in a batch.
    #[test]
    fn candidates_have_the_probability_to_be_in_the_batch() {
        let mut num_batches = 0;
        in_batches(DecoderKind::Dot(Dot {}), true, |graph, batch| {
            let csc = &graph.part().edges(EdgeTypeId(0)).csc;
            let num_nodes = csc.num_rows();
            let mut probabilities = Vec::new();
            for row in 0..num_nodes {
                let share = csc.degree(row).max(1) as f64 / csc.num_edges() as f64;
                let num_ends = 2.0 * batch.src.len() as f64;
                probabilities.push(1.0 - (-(num_ends * share + NUM_NEGATIVES as f64 / num_nodes as f64)).exp());
            }
            let [group] = groups(batch) else { panic!("one type") };
            let found = group.log_probabilities.as_ref().expect("corrected scores");
            assert_eq!(found.len(), group.rows.len());
            for &found in found {
                assert!(probabilities.iter().any(|allowed| (f64::from(found) - allowed.ln()).abs() < 1e-5), "{found}");
            }
            let expected: f64 = probabilities.iter().sum();
            let actual = group.rows.len() as f64;
            assert!((0.8..1.25).contains(&(actual / expected)), "{actual} candidates, {expected} expected");
            num_batches += 1;
        });
        assert!(num_batches > 0);
    }

    /// A ranking against all nodes contains the edge's own source. A relation has to learn how to score it, while a dot
    /// product of a node with itself is never low.
    #[test]
    fn own_sources_are_negatives_of_relations_alone() {
        let (edges, sources) = own_sources(DecoderKind::DistMult(DistMult {}));
        assert!(edges > 500 && sources == edges, "{sources} of {edges}");
        assert_eq!(own_sources(DecoderKind::Dot(Dot {})), (edges, 0));
    }
}
