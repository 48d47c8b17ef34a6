//! A model and its optimizer, trained as in `train node`.

use crate::work::local_job::LocalJob;
use crate::work::synthetic::Grad;
use anyhow::Context;
use burn::optim::Optimizer;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{BatchIter, DistNeighborLoader, MiniBatch};
use edgecut_dist_sampler::{Fanout, SamplerConfig};
use edgecut_gnn::nn::Aggregation;
use edgecut_gnn::ops::{DropoutKey, Precision};
use edgecut_trainer::models::{ConvKind, GraphSchema, Mode, Network, NetworkConfig, SageSettings};
use edgecut_trainer::{
    BatchOptions, NodeTrainingConfig, TensorBatch, TrainError, TrainingConfig, adam, model_config, step_gradients,
    tensor_batches,
};
use std::sync::Arc;

/// A GraphSAGE model in training.
pub(crate) struct Trainee<O> {
    config: NetworkConfig,
    schema: Arc<GraphSchema>,
    // `None` only while the optimizer updates the model: moving it out avoids a copy.
    model: Option<Network<Grad>>,
    optimizer: O,
    lr: f64,
}

/// Returns the defaults of `train node`, but without dropout, since the models of the compared systems have none.
fn training_config(num_neighbors: &[Fanout], hidden_channels: usize, batch_size: usize) -> NodeTrainingConfig {
    let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    let sampler = SamplerConfig::new(num_neighbors.to_vec());
    let training = TrainingConfig { hidden_channels, batch_size, ..TrainingConfig::new(kind, sampler) };
    NodeTrainingConfig { training, ..NodeTrainingConfig::default() }
}

/// Creates a model for the graph of `job`.
pub(crate) fn trainee(
    job: &LocalJob,
    num_neighbors: &[Fanout],
    hidden_channels: usize,
    batch_size: usize,
) -> anyhow::Result<Trainee<impl Optimizer<Network<Grad>, Grad> + use<>>> {
    let training = training_config(num_neighbors, hidden_channels, batch_size);
    let config = model_config(&job.graph, &training)?;
    let training = training.training;
    let model = config.init::<Grad>(training.fit.seed, &Default::default())?;
    let optimizer = adam::<Grad, Network<Grad>>(training.fit.weight_decay);
    let schema = Arc::new(config.graph.clone());
    Ok(Trainee { config, schema, model: Some(model), optimizer, lr: training.fit.lr })
}

impl<O: Optimizer<Network<Grad>, Grad>> Trainee<O> {
    /// Sets the type in which the model multiplies.
    pub(crate) fn with_precision(mut self, precision: Precision) -> Self {
        if let Some(model) = &mut self.model {
            model.set_precision(precision);
        }
        self
    }

    /// Converts a batch to the model's input.
    pub(crate) fn tensors(&self, batch: MiniBatch) -> anyhow::Result<TensorBatch<Grad>> {
        Ok(TensorBatch::new(batch, &self.schema, self.options(), &Default::default())?)
    }

    /// Returns the batches of an epoch as model inputs. The loader's threads convert them.
    pub(crate) fn epoch(&self, loader: &DistNeighborLoader) -> BatchIter<Result<TensorBatch<Grad>, TrainError>> {
        tensor_batches(loader, 0, &self.schema, self.options(), &Default::default())
    }

    fn options(&self) -> BatchOptions {
        BatchOptions::of_model(&self.config, true)
    }

    /// Runs one training step: forward, backward, all-reduce over `world`, and optimizer.
    pub(crate) fn step(&mut self, batch: TensorBatch<Grad>, step: u64, world: &mut ProcessGroup) -> anyhow::Result<()> {
        let model = self.model.take().context("the model was lost in a step that failed")?;
        let mode = Mode::Train(DropoutKey::new(0, 0, step));
        let gradients = step_gradients(&model, batch, mode, world)?.of_model(&model)?;
        self.model = Some(self.optimizer.step(self.lr, model, gradients));
        Ok(())
    }
}
