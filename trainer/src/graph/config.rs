//! The settings of graph classification.

use crate::metrics::Metric;
use crate::models::{GraphConvKind, GraphNetConfig, Readout};
use crate::nn::Aggregation;
use crate::train_error::TrainError;
use edgecut_dist_loader::{DEFAULT_PREFETCH_BYTES, GraphLoaderConfig, Packing};
use edgecut_graph::GraphDataset;

/// The settings of a graph classifier and its training.
#[derive(Clone, Debug)]
pub struct GraphTrainingConfig {
    /// The convolution.
    pub conv: GraphConvKind,
    /// The number of convolutions.
    pub num_layers: usize,
    /// The width of the hidden layers.
    pub hidden_channels: usize,
    /// The pooling of the nodes of a graph into one row.
    pub pooling: Aggregation,
    /// The node representations to pool.
    pub readout: Readout,
    /// True to apply batch normalization after layers.
    pub batch_norm: bool,
    /// The dropout probability of the pooled rows.
    pub dropout: f64,
    /// The size of a rank's batch.
    pub packing: Packing,
    /// True to skip the last step of an epoch if its batches are not full.
    pub drop_last: bool,
    /// The number of epochs.
    pub num_epochs: u64,
    /// The initial learning rate of Adam.
    pub lr: f64,
    /// The number of epochs after which the learning rate is multiplied by `lr_gamma`, repeatedly; 0 keeps it constant.
    pub lr_step: u64,
    /// The factor of the learning rate decay, see `lr_step`.
    pub lr_gamma: f64,
    /// The L2 penalty on all parameters.
    pub weight_decay: f64,
    /// The metric that selects the best epoch.
    pub metric: Metric,
    /// The random seed of the run.
    pub seed: u64,
    /// The number of batches to prefetch.
    pub concurrency: usize,
    /// The maximum number of bytes of prefetched batches. A single batch may exceed it.
    pub prefetch_bytes: usize,
}

impl GraphTrainingConfig {
    /// Returns the settings of the GIN paper for social networks, which are the defaults of the program `train`: four
    /// layers of 64 channels, sum pooling, dropout 0.5, batches of 32 graphs, Adam with a learning rate of 0.01 that is
    /// halved every 50 epochs.
    pub fn new(conv: GraphConvKind) -> Self {
        Self {
            conv,
            num_layers: 4,
            hidden_channels: 64,
            pooling: Aggregation::Sum,
            readout: Readout::JumpingKnowledge,
            batch_norm: true,
            dropout: 0.5,
            packing: Packing::Graphs(32),
            drop_last: false,
            num_epochs: 100,
            lr: 0.01,
            lr_step: 50,
            lr_gamma: 0.5,
            weight_decay: 0.0,
            metric: Metric::Accuracy,
            seed: 0,
            concurrency: 2,
            prefetch_bytes: DEFAULT_PREFETCH_BYTES,
        }
    }

    /// Returns the settings of the model for these graphs.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the nodes have neither attributes nor labels, or settings contradict the graphs or
    /// each other.
    pub fn model_config(&self, graphs: &GraphDataset) -> Result<GraphNetConfig, TrainError> {
        let fail = |what: String| TrainError::Config { what: format!("dataset {}: {what}", graphs.name()) };
        if graphs.feature_dim() == 0 {
            let what =
                "its nodes have neither attributes nor labels: use their degrees as labels (with_degrees_as_labels)";
            return Err(fail(what.into()));
        }
        let classes = graphs.classes().len();
        let model = GraphNetConfig {
            pooling: self.pooling,
            readout: self.readout,
            batch_norm: self.batch_norm,
            dropout: self.dropout,
            ..GraphNetConfig::new(self.conv, graphs.feature_dim(), self.hidden_channels, classes, self.num_layers)
        };
        model.validate().map_err(|e| fail(e.to_string()))?;
        match self.metric.problem(classes) {
            Some(what) => Err(fail(what)),
            None => Ok(model),
        }
    }

    /// Returns the learning rate of an epoch, counted from 0.
    pub(crate) fn lr_of(&self, epoch: u64) -> f64 {
        let steps = epoch.checked_div(self.lr_step).unwrap_or(0);
        self.lr * self.lr_gamma.powi(i32::try_from(steps).unwrap_or(i32::MAX))
    }

    pub(crate) fn train_loader(&self) -> GraphLoaderConfig {
        GraphLoaderConfig {
            packing: self.packing,
            shuffle: true,
            drop_last: self.drop_last,
            seed: self.seed,
            concurrency: self.concurrency,
            prefetch_bytes: self.prefetch_bytes,
        }
    }

    /// Returns the loader configuration of evaluation: all graphs, in order.
    pub(crate) fn eval_loader(&self) -> GraphLoaderConfig {
        GraphLoaderConfig { shuffle: false, drop_last: false, ..self.train_loader() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_falls_in_steps() {
        let config = GraphTrainingConfig::new(GraphConvKind::Gcn);
        assert_eq!([0, 49, 50, 149].map(|epoch| config.lr_of(epoch)), [0.01, 0.01, 0.005, 0.0025]);
        let constant = GraphTrainingConfig { lr_step: 0, ..config };
        assert_eq!(constant.lr_of(1000), 0.01);
    }
}
