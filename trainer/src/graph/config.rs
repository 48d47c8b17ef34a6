//! What graph classification trains.

use crate::metrics::Metric;
use crate::models::{GraphConvKind, GraphNetConfig, Readout};
use crate::nn::Aggregation;
use crate::train_error::TrainError;
use edgecut_dist_loader::{DEFAULT_PREFETCH_BYTES, GraphLoaderConfig, Packing};
use edgecut_graph::GraphDataset;

/// What graph classification trains, and how.
#[derive(Clone, Debug)]
pub struct GraphTrainingConfig {
    /// Which convolution.
    pub conv: GraphConvKind,
    /// Number of convolutions.
    pub num_layers: usize,
    /// Width of the hidden layers.
    pub hidden_channels: usize,
    /// How the nodes of a graph become one row.
    pub pooling: Aggregation,
    /// What is pooled.
    pub readout: Readout,
    /// Whether layers are followed by batch normalisation.
    pub batch_norm: bool,
    /// Dropout on what was pooled.
    pub dropout: f64,
    /// How many graphs make a batch, per rank.
    pub packing: Packing,
    /// Whether graphs that do not fill the last step of an epoch are left out of it.
    pub drop_last: bool,
    /// Epochs.
    pub num_epochs: u64,
    /// Adam's learning rate.
    pub lr: f64,
    /// Epochs after which the learning rate is multiplied by `lr_gamma`, again and again; 0 for never.
    pub lr_step: u64,
    /// See `lr_step`.
    pub lr_gamma: f64,
    /// L2 penalty on all parameters.
    pub weight_decay: f64,
    /// What chooses the epoch.
    pub metric: Metric,
    /// The seed of everything random.
    pub seed: u64,
    /// Batches that are made ahead of the trainer.
    pub concurrency: usize,
    /// The most bytes of batches that are made ahead of the trainer; a larger batch passes alone.
    pub prefetch_bytes: usize,
}

impl GraphTrainingConfig {
    /// The settings of the GIN paper for social networks, the defaults of the program `train`: four layers of 64 channels, sums,
    /// dropout 0.5, batches of 32, Adam with 0.01 that is halved every 50 epochs.
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

    /// The model that is trained on these graphs.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the graphs have neither features nor labels of nodes, or settings fit neither them nor each other.
    pub fn model_config(&self, graphs: &GraphDataset) -> Result<GraphNetConfig, TrainError> {
        let fail = |what: String| TrainError::Config { what: format!("dataset {}: {what}", graphs.name()) };
        if graphs.feature_dim() == 0 {
            let what = "its nodes have neither attributes nor labels: take their degrees (with_degrees_as_labels)";
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

    /// The learning rate of an epoch, counted from 0.
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

    /// In order, and nothing left out.
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
