//! The settings of predictions for whole graphs.

use crate::batch_norm_sums::check_sync_batch_norm;
use crate::error::TrainError;
use crate::fit::{FitConfig, LrSchedule};
use crate::loss::OutputKind;
use crate::metrics::Metric;
use crate::models::{ConvKind, GinSettings, GraphSchema, NetworkConfig, Pooling, Readout};
use crate::objective::Objective;
use crate::objective::scoring_config::ScoringConfig;
use crate::step_options::StepOptions;
use edgecut_dist_loader::{DEFAULT_PREFETCH_BYTES, GraphLoaderConfig, Packing};
use edgecut_gnn::nn::Aggregation;
use edgecut_graph::GraphDataset;
use edgecut_settings::{Flag, at_least_1, below_1, settings};

settings! {
    /// The settings of a model for whole graphs and of its training. The defaults are those of the GIN paper for social
    /// networks.
    #[derive(Clone, Debug)]
    pub struct GraphTrainingConfig {
        /// The convolution.
        pub conv: ConvKind = ConvKind::Gin(GinSettings { mlp_layers: 2, learn_epsilon: false });
        /// Number of convolutions
        pub num_layers: usize = 4 => Flag::new("N").checked(at_least_1);
        /// Width of the hidden layers
        pub hidden_channels: usize = 64 => Flag::new("N").aliases(&["num-hidden"]).checked(at_least_1);
        /// Pooling of the nodes of a graph into one vector
        pub pooling: Aggregation = Aggregation::Sum => Flag::new("sum|mean|max");
        /// Node representations to pool
        pub readout: Readout = Readout::JumpingKnowledge => Flag::new("READOUT");
        /// Do not read the features of edges, which all models but gcn and gin read otherwise
        pub no_edge_features: bool = false => Flag::switch();
        /// Add the input of each layer of the hidden width to its output
        pub residual: bool = false => Flag::switch();
        /// Apply layer normalization to the input of each layer but the first, in place of batch normalization
        pub layer_norm: bool = false => Flag::switch();
        /// Apply graph normalization (GraphNorm) to the output of each layer, in place of batch normalization
        pub graph_norm: bool = false => Flag::switch();
        /// Connect all nodes of a graph by a virtual node: before each layer but the first, it adds an MLP of the sum of their
        /// rows to each of them
        pub virtual_node: bool = false => Flag::switch();
        /// Add the feed-forward part of a transformer block after each layer: layer normalization, a dense layer to RATIO times
        /// --hidden-channels, GELU and a dense layer back, added to the rows
        pub feed_forward: Option<usize> = None => Flag::new("RATIO").checked(at_least_1);
        /// Leave out each edge with this probability in training (DropEdge), in an epoch the same ones in all layers
        pub drop_edge: Option<f64> = None => Flag::new("P").checked(below_1).training_only();
        /// True to apply batch normalization after layers.
        pub batch_norm: bool = true;
        /// Normalize over the batches of all processes together (SyncBatchNorm). Each layer then exchanges two numbers per
        /// column in the forward pass and in the backward pass
        pub sync_batch_norm: bool = false => Flag::switch().aliases(&["sync-batchnorm"]).training_only();
        /// Dropout probability of the pooled vectors
        pub dropout: f64 = 0.5 => Flag::new("P").checked(below_1).training_only();
        /// The size of a rank's batch.
        pub packing: Packing = Packing::Graphs(32);
        /// Skip the last step of an epoch if its batches are not full
        pub drop_last: bool = false => Flag::switch().training_only();
        /// The settings of the training loop: epochs, optimizer, seed, checkpoints and so on.
        pub fit: FitConfig =
            FitConfig { num_epochs: 100, lr: 0.01, lr_schedule: LrSchedule::Step, ..FitConfig::default() };
        /// The settings of the scores.
        pub scoring: ScoringConfig = ScoringConfig::default();
        /// The number of batches to prefetch.
        pub concurrency: usize = 2;
        /// The maximum number of bytes of prefetched batches. A single batch may exceed it.
        pub prefetch_bytes: usize = DEFAULT_PREFETCH_BYTES;
        /// The options of each step: the precision of products, and the sum of gradients.
        pub step: StepOptions = StepOptions::default();
    }
}

impl GraphTrainingConfig {
    /// Returns the default settings with another convolution.
    pub fn new(conv: ConvKind) -> Self {
        Self { conv, ..Self::default() }
    }

    /// Returns the settings of the model for these graphs.
    ///
    /// # Errors
    /// [`TrainError::Config`] and [`TrainError::Dataset`] if the nodes have neither attributes nor labels, or settings
    /// contradict the graphs or each other.
    pub fn model_config(&self, graphs: &GraphDataset) -> Result<NetworkConfig, TrainError> {
        let fail = |what: String| TrainError::Config { what: format!("dataset {}: {what}", graphs.name()) };
        if graphs.feature_dim() == 0 {
            let what =
                "its nodes have neither attributes nor labels: use their degrees as labels (with_degrees_as_labels)";
            return Err(fail(what.into()));
        }
        let outputs = self.objective(graphs)?.num_outputs();
        let unfit = |source| TrainError::Dataset { dataset: graphs.name().to_owned(), source };
        let mut graph = GraphSchema::homogeneous(graphs.feature_dim());
        if !self.no_edge_features {
            graph.set_edge_features(self.conv, &[graphs.edge_dim()]).map_err(unfit)?;
        }
        let model = NetworkConfig {
            graph,
            pooling: Some(Pooling { aggregation: self.pooling, dropout: self.dropout }),
            readout: self.readout,
            residual: self.residual,
            layer_norm: self.layer_norm,
            batch_norm: self.batch_norm && !self.layer_norm && !self.graph_norm,
            graph_norm: self.graph_norm,
            virtual_node: self.virtual_node,
            feed_forward: self.feed_forward,
            ..NetworkConfig::whole_graphs(
                self.conv,
                graphs.feature_dim(),
                self.hidden_channels,
                outputs,
                self.num_layers,
            )
        };
        model.validate().map_err(unfit)?;
        check_sync_batch_norm(self.sync_batch_norm, model.batch_norm).map_err(unfit)?;
        Ok(model)
    }

    /// Returns the metric that selects the best epoch of a training on these graphs.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the loss or the metric does not fit the targets of the graphs.
    pub fn chosen_metric(&self, graphs: &GraphDataset) -> Result<Metric, TrainError> {
        Ok(self.objective(graphs)?.metrics.first())
    }

    /// Returns the loss and the metric, which fit the targets of the graphs.
    pub(super) fn objective(&self, graphs: &GraphDataset) -> Result<Objective, TrainError> {
        let targets = OutputKind::of_graphs(graphs);
        Objective::new(self.step.loss.as_ref(), &self.scoring, targets, graphs.name())
    }

    pub(crate) fn train_loader(&self) -> GraphLoaderConfig {
        GraphLoaderConfig {
            packing: self.packing,
            shuffle: true,
            drop_last: self.drop_last,
            seed: self.fit.seed,
            concurrency: self.concurrency,
            prefetch_bytes: self.prefetch_bytes,
        }
    }

    /// Returns the loader configuration of evaluation: all graphs, in order.
    pub(crate) fn eval_loader(&self) -> GraphLoaderConfig {
        GraphLoaderConfig { shuffle: false, drop_last: false, ..self.train_loader() }
    }
}
