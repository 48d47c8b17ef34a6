//! Settings of a model and of its training.

use crate::batch_input::{BatchOptions, gcn_fault};
use crate::batch_norm_sums::check_sync_batch_norm;
use crate::drop_edges::DropEdges;
use crate::embeddings::check_start;
use crate::error::{ModelError, TrainError};
use crate::fit::FitConfig;
use crate::inference::LayerWiseConfig;
use crate::memory::cpu_cache::CpuCache;
use crate::memory::device_memory::DeviceMemory;
use crate::model_file::NewEmbeddings;
use crate::models::{ConvKind, GraphSchema, NetworkConfig, NetworkOutput, NodeEmbedding, Readout, SageSettings};
use crate::step_options::StepOptions;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DEFAULT_PREFETCH_BYTES, LoaderConfig};
use edgecut_dist_sampler::{Fanout, NodeFields, NumNeighbors, SamplerConfig, TimeAttr};
use edgecut_gnn::nn::RelationAggregation;
use edgecut_gnn::ops::BatchNormSync;
use edgecut_graph::Meta;
use edgecut_settings::{Flag, at_least_1, below_1, not_negative, settings};

/// XORed with the run's seed for evaluation, so that it samples other neighborhoods than training does.
const EVALUATION_SEED: u64 = 0x6576_616c;

settings! {
    /// Settings of a model and of its training.
    #[derive(Clone, Debug)]
    pub struct TrainingConfig {
        /// The kind of model.
        pub kind: ConvKind = ConvKind::Sage(SageSettings::default());
        /// Add the input of each hidden layer to its output. Layers that read features or compute classes are excluded,
        /// since their widths differ
        pub residual: bool = false => Flag::switch();
        /// Apply layer normalization to the input of each layer, except to the features
        pub layer_norm: bool = false => Flag::switch();
        /// Apply batch normalization to the output of each layer, except to classes and numbers. Without --sync-batch-norm,
        /// each process normalizes over its own batches, and running statistics are averaged over the processes before each
        /// evaluation
        pub batch_norm: bool = false => Flag::switch();
        /// With --batch-norm, normalize over the batches of all processes together (SyncBatchNorm). Each layer then exchanges two
        /// numbers per column in the forward pass and in the backward pass
        pub sync_batch_norm: bool = false => Flag::switch().aliases(&["sync-batchnorm"]).training_only();
        /// Add the feed-forward part of a transformer block after each layer, except one that computes classes: layer
        /// normalization, a dense layer to RATIO times --hidden-channels, GELU and a dense layer back, added to the rows
        pub feed_forward: Option<usize> = None => Flag::new("RATIO").checked(at_least_1);
        /// Node representations that the output layer reads [default: last]
        pub readout: Option<Readout> = None => Flag::new("READOUT");
        /// Add a dense layer from the features to --hidden-channels before the first convolution, and a dense layer to the
        /// classes after the last one. Always both for heterogeneous graphs, rgcn, hgt, embedding, nodes with embeddings and
        /// train multi; always the first for train link and edge
        pub encoder_decoder: bool = false => Flag::switch();
        /// Aggregation of the messages that a node receives over different edge types; rgcn always sums
        pub relation_aggregation: RelationAggregation = RelationAggregation::Sum => Flag::new("sum|mean");
        /// Width of the hidden layers
        pub hidden_channels: usize = 256 => Flag::new("N").aliases(&["num-hidden"]).checked(at_least_1);
        /// The sampler of training: a fan-out per layer and edge type, the hop at the seeds first.
        pub sampler: SamplerConfig = SamplerConfig::new([15, 10, 5].map(Fanout::Count).to_vec());
        /// The fan-outs of validation and test.
        pub eval_num_neighbors: NumNeighbors = [15, 10, 5].map(Fanout::Count).to_vec().into();
        /// The limits of a layer-wise evaluation of nodes, which computes each layer over all nodes with all neighbors.
        /// `None` evaluates batches with [`eval_num_neighbors`](Self::eval_num_neighbors).
        pub eval_layer_wise: Option<LayerWiseConfig> = None;
        /// Maximum number of seeds per batch and rank. The seeds of a rank are spread evenly over the steps of an epoch
        pub batch_size: usize = 1024 => Flag::new("N").checked(at_least_1);
        /// The settings of the training loop: epochs, optimizer, seed, checkpoints and so on. The rate on a plateau follows
        /// the validation metric.
        pub fit: FitConfig = FitConfig::default();
        /// Give the nodes of a type learned embeddings of DIM values in addition to their features. The encoder reads both,
        /// side by side. With `:add`, a dense layer maps the features to DIM values, and the embeddings are added [default of
        /// DIM: --hidden-channels. Node types without features always have embeddings]
        pub node_embeddings: Vec<NodeEmbedding> = Vec::new() => Flag::new("TYPE[=DIM][:add]");
        /// Start of the embeddings of nodes that the saved model has no rows for [default: with --load-model mean, with
        /// --init-from random]
        pub new_embeddings: Option<NewEmbeddings> = None => Flag::new("zero|mean|neighbors|random");
        /// Learning rate of the embeddings, which node types without features have. It has the schedule of --lr [default: --lr]
        pub embedding_lr: Option<f64> = None => Flag::new("X").checked(not_negative).training_only();
        /// Dropout probability between layers
        pub dropout: f64 = 0.0 => Flag::new("P").checked(below_1).training_only();
        /// Leave out each edge with this probability in training (DropEdge), in an epoch the same ones in all batches and
        /// layers
        pub drop_edge: Option<f64> = None => Flag::new("P").checked(below_1).training_only();
        /// Dropout probability of the input features
        pub input_dropout: f64 = 0.0 => Flag::new("P").checked(below_1).training_only();
        /// Do not read the features of edges, which all models but gcn and gin read otherwise
        pub no_edge_features: bool = false => Flag::switch();
        /// Multiply the messages over edges by their stored weights. sage and rgcn take weighted means, graphconv sums
        /// weighted messages, and gcn normalises by sums of weights. --weighted draws neighbors by weights instead
        pub edge_weights: bool = false => Flag::switch();
        /// Encode the time between each edge and its seed in DIM values, cos(w t + b) with learned w and b (TGAT), as
        /// further features of edges. Needs --time-attr edge_time
        pub time_encoding: Option<usize> = None => Flag::new("DIM").checked(at_least_1);
        /// Divide each feature row by its sum, or by 1 if the sum is less
        pub normalize_features: bool = false => Flag::switch();
        /// The number of batches that are prefetched concurrently.
        pub concurrency: usize = 4;
        /// The maximum number of bytes of prefetched batches. A single batch may exceed it.
        pub prefetch_bytes: usize = DEFAULT_PREFETCH_BYTES;
        /// The features of other parts to keep in the memory of each machine.
        pub cpu_cache: Option<CpuCache> = None;
        /// The graph data to keep in GPU memory.
        pub device_memory: DeviceMemory = DeviceMemory::default();
        /// The options of each step: the precision of products, and the sum of gradients.
        pub step: StepOptions = StepOptions::default();
    }
}

impl TrainingConfig {
    /// Returns the defaults of the program `train`, but ten epochs without dropout and without early stopping. Evaluation
    /// has the fan-outs of training.
    pub fn new(kind: ConvKind, sampler: SamplerConfig) -> Self {
        Self { kind, eval_num_neighbors: sampler.num_neighbors.clone(), sampler, ..Self::default() }
    }

    /// Returns the options of batches for a model that reads batches with `options`.
    pub(crate) fn batch_options(&self, options: BatchOptions, for_training: bool) -> BatchOptions {
        let drop_edge = self.drop_edge.filter(|_| for_training);
        let drop_edges = drop_edge.map(|probability| DropEdges::new(probability, self.fit.seed));
        BatchOptions { for_training, precision: self.device_memory.precision, drop_edges, ..options }
    }

    /// Returns the exchange between the batch normalizations of all ranks, if a training has it.
    ///
    /// # Errors
    /// [`ModelError::Settings`] without a connection to the other ranks.
    pub(crate) fn batch_norm_sync(&self, world: &ProcessGroup) -> Result<Option<&BatchNormSync>, ModelError> {
        self.step.batch_norm_sync(self.sync_batch_norm, world)
    }

    /// Returns the learning rate of the embeddings.
    pub(crate) fn embedding_lr(&self) -> f64 {
        self.embedding_lr.unwrap_or(self.fit.lr)
    }

    /// Returns the types and features of a graph that the model reads.
    ///
    /// # Errors
    /// [`ModelError`] if an edge type lacks features that the model needs, or for settings that contradict each other.
    pub(crate) fn schema(&self, meta: &Meta) -> Result<GraphSchema, ModelError> {
        let sampler = &self.sampler;
        check_sync_batch_norm(self.sync_batch_norm, self.batch_norm)?;
        check_start(self.new_embeddings, sampler)?;
        let fault = gcn_fault(sampler.temporal.is_some(), sampler.isolated, sampler.weighted);
        if let Some(what) = fault.filter(|_| self.kind.needs_gcn_norm()) {
            return Err(ModelError::Settings { what: what.into() });
        }
        let mut schema = GraphSchema::new(meta)?.with_embeddings(&self.node_embeddings, self.hidden_channels)?;
        let has_convolutions = self.sampler.num_neighbors.num_hops() > 0;
        let without_effect = [("edge_weights", self.edge_weights), ("time_encoding", self.time_encoding.is_some())];
        if let Some((name, _)) = without_effect.into_iter().find(|(_, is_set)| *is_set && !has_convolutions) {
            let what = format!("the model has no convolution, which would read edges (`{name}`): choose another model");
            return Err(ModelError::Settings { what });
        }
        if let Some(dim) = self.time_encoding {
            if self.sampler.temporal.is_none_or(|temporal| temporal.attr != TimeAttr::EdgeTime) {
                let what = "the time between an edge and its seed (`time_encoding`) is known if neighbors are drawn by the \
                            times of edges: sample by time (`temporal` edge_time)";
                return Err(ModelError::Settings { what: what.into() });
            }
            schema = schema.with_edge_times(self.kind, dim, meta)?;
        }
        if self.edge_weights {
            if self.sampler.weighted {
                let what = "neighbors that are drawn in proportion to the weights of edges (`weighted`) are weighted by \
                            that: multiplying their messages by the weights (`edge_weights`) would count weights twice";
                return Err(ModelError::Settings { what: what.into() });
            }
            schema = schema.with_edge_weights(self.kind, meta)?;
        }
        if has_convolutions && !self.no_edge_features {
            schema = schema.with_edge_features(self.kind, meta)?;
        }
        Ok(schema)
    }

    /// Returns this configuration for the evaluation of a saved network, which reads the parts of the graph that it was
    /// trained with.
    pub(crate) fn for_network(&self, saved: &NetworkConfig) -> Self {
        Self {
            kind: saved.kind,
            no_edge_features: !saved.graph.has_edge_features(),
            edge_weights: saved.graph.has_edge_weights(),
            time_encoding: Some(saved.graph.time_dim()).filter(|&dim| dim > 0),
            node_embeddings: saved.graph.node_embeddings(),
            ..self.clone()
        }
    }

    /// Returns the settings of a network with a layer per hop.
    pub(crate) fn network(&self, graph: GraphSchema, outputs: Vec<NetworkOutput>, encoders: bool) -> NetworkConfig {
        NetworkConfig {
            kind: self.kind,
            graph,
            encoders,
            outputs,
            hidden_channels: self.hidden_channels,
            num_layers: self.sampler.num_neighbors.num_hops(),
            relation_aggregation: self.relation_aggregation,
            residual: self.residual,
            layer_norm: self.layer_norm,
            batch_norm: self.batch_norm,
            graph_norm: false,
            virtual_node: false,
            feed_forward: self.feed_forward,
            readout: self.readout.unwrap_or_default(),
            pooling: None,
            dropout: self.dropout,
            input_dropout: self.input_dropout,
            normalize_features: self.normalize_features,
        }
    }

    /// Returns the sampler configuration of validation and test, which draws from the whole graph. A layer-wise evaluation
    /// reads all neighbors over edge types whose fan-outs are not 0.
    pub fn eval_sampler(&self) -> SamplerConfig {
        let num_neighbors = match self.eval_layer_wise {
            Some(_) => self.eval_num_neighbors.exhaustive(),
            None => self.eval_num_neighbors.clone(),
        };
        SamplerConfig { num_neighbors, isolated: false, ..self.sampler.clone() }
    }

    /// Returns the configuration of a layer-wise evaluation, or `None` if batches are evaluated.
    ///
    /// # Errors
    /// [`TrainError::Config`] for a sampler that lets the neighbors of a node depend on the seed.
    pub(crate) fn layer_wise(&self) -> Result<Option<LayerWiseConfig>, TrainError> {
        let Some(limits) = &self.eval_layer_wise else { return Ok(None) };
        if self.sampler.temporal.is_some() {
            let what = "the neighbors of a node depend on the time of the seed, so layers cannot be computed for all \
                        nodes at once: evaluate sampled batches (`eval=sampled`)";
            return Err(TrainError::config(what));
        }
        if self.sampler.weighted {
            let what = "neighbors are drawn by the weights of edges (`weighted`), but layers that are computed for all nodes \
                        average all neighbors equally: evaluate sampled batches (`eval=sampled`)";
            return Err(TrainError::config(what));
        }
        if self.eval_num_neighbors.skips_hops() {
            let what = "fan-outs of an edge type are 0 in some hops only (`num_neighbors`), so layers cannot be computed for \
                        all nodes at once: evaluate sampled batches (`eval=sampled`), or give 0 for all hops of the type";
            return Err(TrainError::config(what));
        }
        Ok(Some(LayerWiseConfig { num_neighbors: Some(self.eval_num_neighbors.clone()), ..limits.clone() }))
    }

    /// Returns the loader configuration of training: seeds are shuffled and spread evenly over the steps.
    pub(crate) fn train_loader(&self, wanted: NodeFields) -> LoaderConfig {
        LoaderConfig {
            even_batches: true,
            shuffle: true,
            seed: self.fit.seed,
            concurrency: self.concurrency,
            prefetch_bytes: self.prefetch_bytes,
            ..LoaderConfig::new(self.batch_size, wanted)
        }
    }

    /// Returns the loader configuration of validation and test: seeds are in order.
    pub(crate) fn eval_loader(&self, wanted: NodeFields) -> LoaderConfig {
        let seed = self.fit.seed ^ EVALUATION_SEED;
        LoaderConfig { even_batches: false, shuffle: false, seed, ..self.train_loader(wanted) }
    }
}
