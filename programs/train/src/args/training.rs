//! The flags of the model and its training.

use crate::args::conv::{ConvArgs, OnNodes};
use crate::args::plan::{Plan, PlanArgs};
use crate::args::sampling::SamplingArgs;
use crate::args::start::StartArgs;
use crate::args::{NumNeighborsArg, num_neighbors, ratio};
use crate::exit::UsageError;
use crate::settings::flags::{Flags, Profile};
use crate::settings::model_settings::Setting;
use anyhow::bail;
use clap::{Args, ValueEnum};
use edgecut_cli::parse_bytes;
use edgecut_dist_sampler::{CacheSize, NumNeighbors};
use edgecut_gnn::nn::RelationAggregation;
use edgecut_graph::Meta;
use edgecut_trainer::inference::LayerWiseConfig;
use edgecut_trainer::models::{NetworkConfig, NodeEmbedding};
use edgecut_trainer::{CpuCache, DeviceMemory, FitConfig, NodeRanking, TrainingConfig};
use serde::Serialize;
use std::collections::BTreeSet;

/// The method of evaluating nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EvalName {
    Sampled,
    LayerWise,
}

/// Flags of the model and its training; equal on all ranks.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Training")]
pub(crate) struct TrainingArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) conv: ConvArgs<OnNodes>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) model: Flags<TrainingConfig, OnNodes>,
    /// Number of layers; must equal the number of fan-outs in --num-neighbors, which is the default
    // Equal to the number of fan-outs, which are compared.
    #[arg(long, value_name = "N")]
    #[serde(skip)]
    pub(crate) num_layers: Option<usize>,
    /// Fan-outs: in-neighbors to sample per node, one number per layer, the hop at the seeds first; -1 takes all
    /// neighbors. Per edge type: "cites=15,10;writes=10,0"; a list without a name is for all other types:
    /// "cites=15,10;5,5"
    #[arg(long, value_name = "LIST", default_value = "15,10,5", value_parser = num_neighbors, allow_hyphen_values = true)]
    pub(crate) num_neighbors: NumNeighborsArg,
    /// Fan-outs of validation and test [default: for train node and multi, all neighbors if this reads at most 20 million
    /// edges, without --weighted, --disjoint, --time-attr and fan-outs by type; otherwise --num-neighbors]
    #[arg(long, value_name = "LIST", value_parser = num_neighbors, allow_hyphen_values = true)]
    pub(crate) eval_num_neighbors: Option<NumNeighborsArg>,
    /// Evaluation: batches with the fan-outs of --eval-num-neighbors (sampled), or each layer over all nodes with all
    /// neighbors, which is exact and computes no row twice (layer-wise). The second takes up to
    /// 512 MiB of memory, and files of two layers in the system's temporary folder (TMPDIR)
    #[arg(long, value_enum, value_name = "sampled|layer-wise", default_value_t = EvalName::Sampled)]
    pub(crate) eval: EvalName,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) fit: Flags<FitConfig, OnNodes>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) start: StartArgs,
    /// Batches to prefetch concurrently, within --prefetch-bytes. 0 makes each batch when it is needed [default: half
    /// of --num-workers, at least 2 and at most 8]
    // This limit and the next one bound the memory of a process and do not change its batches.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1024))]
    #[serde(skip)]
    pub(crate) concurrency: Option<u32>,
    /// Maximum memory of prefetched batches, for example 1GiB or 500MB. A single batch may exceed it
    #[arg(long, alias = "channel-size", value_name = "BYTES", default_value = "1GiB", value_parser = parse_bytes)]
    #[serde(skip)]
    pub(crate) prefetch_bytes: u64,
    /// Memory per machine for features of other parts, shared by its processes, for example 4GiB. Cached features are
    /// not fetched again for each batch
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "cache_ratio")]
    pub(crate) cache_bytes: Option<u64>,
    /// Like --cache-bytes, as a fraction of the feature bytes that other parts own, for example 0.2
    #[arg(long, value_name = "R", value_parser = ratio)]
    pub(crate) cache_ratio: Option<f64>,
    /// Ranking of the nodes to cache: by `partition-graph --hotness` (stored), by their number of batches in the first
    /// epoch, counted in up to 256 batches per rank that are sampled in advance (presample), by their in-degree in the
    /// whole graph (in-degree), or by their next use in the batches that follow (look-ahead) [default: stored if the
    /// parts have a ranking, else presample]
    #[arg(long, value_name = "stored|presample|in-degree|look-ahead")]
    pub(crate) cache_ranking: Option<NodeRanking>,
    /// Batches that --cache-ranking look-ahead samples ahead [default: 16]
    #[arg(long, value_name = "BATCHES", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) look_ahead: Option<u32>,
    /// Train without the edges between the parts of processes, so that the neighborhoods of training nodes need no data of
    /// other machines: only gradients are exchanged. For slow networks; validation and test read the whole graph. Batches
    /// then depend on the partitioning. Needs several parts, and several processes: at most as many as parts, or a multiple. Excludes
    /// --servers
    #[arg(long, conflicts_with = "load_model")]
    pub(crate) isolated: bool,
    /// Print a table of the network traffic by rank and peer at the end, and write it to --metrics as event traffic
    #[arg(long, help_heading = "Output")]
    pub(crate) stats: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) plan: PlanArgs,
}

/// The most edges, counted for each layer and batch, for which validation takes all neighbors by default. A core
/// aggregates some 20 million of them in a second.
const MOST_EVALUATED_EDGES: u64 = 20_000_000;
/// The batches that a cache looks ahead by default.
const DEFAULT_LOOK_AHEAD: u32 = 16;
/// The validations without improvement after which a run without `--num-epochs` ends.
const DEFAULT_PATIENCE: u64 = 20;

impl Profile<TrainingConfig> for OnNodes {
    fn defaults() -> TrainingConfig {
        TrainingConfig { dropout: 0.5, ..TrainingConfig::default() }
    }
}

impl Profile<FitConfig> for OnNodes {
    fn defaults() -> FitConfig {
        FitConfig { num_epochs: 100, ..FitConfig::default() }
    }
}

impl TrainingArgs {
    /// Returns the configuration of the model and its training.
    ///
    /// # Errors
    /// [`UsageError`] if the numbers of fan-outs and layers differ, or the model does not support the sampling flags.
    pub(crate) fn config(
        &self,
        sampling: &SamplingArgs,
        num_workers: usize,
        device_memory: DeviceMemory,
        only_evaluates: bool,
    ) -> anyhow::Result<TrainingConfig> {
        let num_neighbors = match &self.eval_num_neighbors {
            // The number of layers is the model's, which is not the number of default fan-outs.
            Some(given) if only_evaluates && !self.conv.is_embedding() => given.value.clone(),
            _ => self.num_neighbors(),
        };
        self.check_sampling(sampling)?;
        self.check_effects(sampling)?;
        let layers = self.num_layers.unwrap_or(num_neighbors.num_hops());
        if num_neighbors.num_hops() != layers {
            let given = num_neighbors.num_hops();
            bail!(UsageError(format!(
                "--num-neighbors has {given} fan-outs, but --num-layers is {layers}: give one fan-out per layer"
            )));
        }
        if self.eval == EvalName::LayerWise && self.eval_num_neighbors.is_some() {
            let what = "--eval layer-wise reads all neighbors: leave out --eval-num-neighbors";
            bail!(UsageError(what.into()));
        }
        let eval_num_neighbors = match &self.eval_num_neighbors {
            Some(given) if !self.conv.is_embedding() => given.value.clone(),
            _ => num_neighbors.clone(),
        };
        if eval_num_neighbors.num_hops() != layers {
            let given = eval_num_neighbors.num_hops();
            bail!(UsageError(format!(
                "--eval-num-neighbors has {given} fan-outs, but the model has {layers} layers: give one fan-out per \
                 layer"
            )));
        }
        let sampler = sampling.config(num_neighbors)?.with_isolation(self.isolated);
        if device_memory.graph && (sampler.labor.is_some() || sampler.isolated) {
            let flag = if sampler.isolated { "--isolated" } else { "--sampler labor" };
            bail!(UsageError(format!(
                "--graph-on-device has no effect with {flag}, by which only the CPU samples: leave --graph-on-device out"
            )));
        }
        if device_memory.cache_bytes > 0 && self.cache_ranking == Some(NodeRanking::LookAhead) {
            let what = "--cache-ranking look-ahead has no effect with --gpu-cache-bytes, which keeps rows by another \
                        ranking: leave one of them out";
            bail!(UsageError(what.into()));
        }
        let mut fit = self.fit.settings.clone();
        if !self.fit.is_given("num_epochs") {
            fit.patience.get_or_insert(DEFAULT_PATIENCE);
        }
        fit.patience = fit.patience.filter(|validations| *validations > 0);
        fit.check().map_err(UsageError)?;
        Ok(TrainingConfig {
            kind: self.conv.kind(),
            sampler,
            eval_num_neighbors,
            eval_layer_wise: (self.eval == EvalName::LayerWise).then(LayerWiseConfig::default),
            fit,
            // A plan measures batches and steps separately.
            concurrency: if self.plan.plan_cluster { 0 } else { self.batches_ahead(num_workers) },
            prefetch_bytes: usize::try_from(self.prefetch_bytes).unwrap_or(usize::MAX),
            cpu_cache: self.cpu_cache(),
            device_memory,
            ..self.model.settings.clone()
        })
    }

    /// Returns the fan-outs of an evaluation with all neighbors over edge types that --num-neighbors draws, if
    /// `--eval-num-neighbors` leaves the choice and such an evaluation is fast on this graph. It has no error from sampling.
    pub(crate) fn all_neighbors(&self, sampling: &SamplingArgs, meta: &Meta) -> Option<NumNeighbors> {
        let is_layer_wise = self.eval == EvalName::LayerWise;
        let is_chosen =
            self.eval_num_neighbors.is_some() || is_layer_wise || self.num_neighbors.names_types() || sampling.weighted;
        // Each seed of a batch would have a neighborhood of its own.
        let is_disjoint = sampling.disjoint || sampling.time_attr.is_some();
        if is_chosen || is_disjoint || self.conv.is_embedding() {
            return None;
        }
        let num_neighbors = &self.num_neighbors.value;
        let num_edges: u64 = meta.edge_types.iter().map(|edges| edges.num_edges).sum();
        let num_seeds =
            meta.node_types.iter().map(|nodes| nodes.split_sizes[1].max(nodes.split_sizes[2])).max().unwrap_or(0);
        let num_batches = num_seeds.div_ceil(self.model.settings.batch_size as u64);
        let work = num_edges.saturating_mul(num_neighbors.num_hops() as u64).saturating_mul(num_batches);
        if work > MOST_EVALUATED_EDGES {
            return None;
        }
        Some(num_neighbors.exhaustive())
    }

    /// Returns the number of batches that a process with this number of sampling threads makes at the same time.
    fn batches_ahead(&self, num_workers: usize) -> usize {
        self.concurrency.map_or((num_workers / 2).clamp(2, 8), |n| n as usize)
    }

    /// Returns the plan of a cluster if there is to be one.
    pub(crate) fn cluster_plan(&self) -> Option<Plan> {
        self.plan.plan(self.batches_ahead(self.plan.cores() as usize))
    }

    fn cpu_cache(&self) -> Option<CpuCache> {
        let ratio = self.cache_ratio.map(CacheSize::Ratio);
        let size = self.cache_bytes.map(CacheSize::Bytes).or(ratio)?;
        let num_ahead = self.look_ahead.unwrap_or(DEFAULT_LOOK_AHEAD) as usize;
        Some(CpuCache { size, ranking: self.cache_ranking, num_ahead })
    }

    /// Rejects flags that have no effect without another flag.
    fn check_effects(&self, sampling: &SamplingArgs) -> anyhow::Result<()> {
        if self.conv.kind().is_typed() && self.model.settings.relation_aggregation != RelationAggregation::default() {
            let model = self.conv.model();
            bail!(UsageError(format!(
                "--relation-aggregation has no effect on --model {model}, which combines edge types itself: leave it out"
            )));
        }
        let model = &self.model.settings;
        let labor = sampling.sampler.labor(sampling.batch_dependency);
        for (flag, is_given, why) in [
            ("--drop-edge", model.drop_edge.is_some(), "reads no edges"),
            ("--isolated", self.isolated, "reads no edges"),
            ("--sampler labor", labor.is_ok_and(|labor| labor.is_some()), "samples no neighbors"),
            ("--replace", sampling.replace, "samples no neighbors"),
            ("--batch-norm", model.batch_norm, "has no layers"),
            ("--layer-norm", model.layer_norm, "has no layers"),
            ("--residual", model.residual, "has no layers"),
            ("--feed-forward", model.feed_forward.is_some(), "has no layers"),
        ] {
            if is_given && self.conv.is_embedding() {
                bail!(UsageError(format!("{flag} has no effect on --model embedding, which {why}: leave it out")));
            }
        }
        if self.cache_ranking.is_some() && self.cpu_cache().is_none() {
            let what =
                "--cache-ranking has no effect without a cache: give --cache-bytes or --cache-ratio, or leave it out";
            bail!(UsageError(what.into()));
        }
        let looks_ahead = self.cache_ranking == Some(NodeRanking::LookAhead);
        if self.look_ahead.is_some() && !looks_ahead {
            let what = "--look-ahead has no effect without --cache-ranking look-ahead: give both, or leave it out";
            bail!(UsageError(what.into()));
        }
        Ok(())
    }

    /// Rejects temporal, isolated and weighted sampling for models that scale messages by in-degrees of the whole graph, which is
    /// unbiased only for uniformly sampled neighbors.
    fn check_sampling(&self, sampling: &SamplingArgs) -> anyhow::Result<()> {
        if !self.conv.kind().needs_gcn_norm() {
            return Ok(());
        }
        let why = if sampling.time_attr.is_some() {
            "does not support --time-attr: it scales messages by in-degrees of the whole graph, which count edges later \
             than the seed"
        } else if self.isolated {
            "does not support --isolated: it scales messages by in-degrees of the whole graph, which count edges between \
             parts"
        } else if sampling.weighted {
            "does not support --weighted: the sum over sampled neighbors is unbiased only if they are sampled \
             uniformly"
        } else {
            return Ok(());
        };
        let model = self.conv.model();
        bail!(UsageError(format!("--model {model} {why}; choose another --model or leave out the other flag")))
    }

    /// Returns the settings of a saved model that the flags name as well.
    pub(crate) fn settings_of(&self, saved: &NetworkConfig, reads_edge_features: bool) -> Vec<Setting> {
        let mut settings = self.conv.settings_of(saved.kind, saved.num_layers);
        let own = &self.model.settings;
        settings.push(Setting::new("hidden_channels", own.hidden_channels, saved.hidden_channels));
        settings.push(Setting::new("no_edge_features", own.no_edge_features, !reads_edge_features));
        settings.push(Setting::new("edge_weights", own.edge_weights, saved.graph.has_edge_weights()));
        settings.push(Setting::new("time_encoding", own.time_encoding.unwrap_or(0), saved.graph.time_dim()));
        settings.push(Setting::new("residual", own.residual, saved.residual));
        settings.push(Setting::new("layer_norm", own.layer_norm, saved.layer_norm));
        settings.push(Setting::new("batch_norm", own.batch_norm, saved.batch_norm));
        settings.push(Setting::new("feed_forward", own.feed_forward.unwrap_or(0), saved.feed_forward.unwrap_or(0)));
        settings.push(Setting::new("readout", own.readout.unwrap_or_default(), saved.readout));
        let of_model = list_of(&saved.graph.node_embeddings(), saved.hidden_channels);
        settings.push(Setting::new("node_embeddings", list_of(&own.node_embeddings, saved.hidden_channels), of_model));
        if saved.encoders {
            let saved = saved.relation_aggregation;
            settings.push(Setting::new("relation_aggregation", own.relation_aggregation, saved));
        } else {
            settings.push(Setting::new("encoder_decoder", own.encoder_decoder, false));
        }
        settings
    }

    fn num_neighbors(&self) -> NumNeighbors {
        if self.conv.is_embedding() { Vec::new().into() } else { self.num_neighbors.value.clone() }
    }
}

/// Lists embeddings in a fixed order, each with its number of values.
fn list_of(embeddings: &[NodeEmbedding], hidden_channels: usize) -> String {
    let all = embeddings.iter().map(|embedding| {
        let dim = Some(embedding.dim.unwrap_or(hidden_channels));
        NodeEmbedding { dim, ..embedding.clone() }.to_string()
    });
    let all: BTreeSet<String> = all.collect();
    if all.is_empty() { "none".to_owned() } else { all.into_iter().collect::<Vec<_>>().join(",") }
}
