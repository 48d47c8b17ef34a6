//! Explanations of predictions of nodes.

use super::{ExplanationConfig, ExplanationVisitor, Inputs, Neighborhood, integrated_gradients, visit_all};
use crate::batch_input::{BatchOptions, TensorBatch};
use crate::embeddings::EmbeddingSource;
use crate::error::TrainError;
use crate::gradients::{flatten_parameters, load_parameters};
use crate::inference::InferenceStep;
use crate::inference::predict::{PredictionJob, Trained, WantedRows};
use crate::models::{GraphSchema, Mode, Network, NetworkConfig, NodeClassifier};
use burn::module::Module;
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, MiniBatch, Seeds};
use edgecut_dist_sampler::NodeFields;
use edgecut_gnn::ops::GnnBackend;
use std::sync::Arc;

/// Explains the predictions of a node classifier for `nodes`, which are global ids in an order that does not depend on the
/// parts. Every rank must call this with the same arguments, and visits all explanations in the order of the nodes.
///
/// # Errors
/// A model that does not match the graph or the settings, an error of `visit`, or a failure of the job.
pub fn explain_nodes<'s, B>(
    job: PredictionJob<'_, '_, B::InnerBackend>,
    model: (&Network<B::InnerBackend>, &NetworkConfig),
    saved: impl Into<EmbeddingSource<'s>>,
    nodes: Vec<u32>,
    config: &ExplanationConfig,
    visit: &mut ExplanationVisitor<'_>,
) -> Result<(), TrainError>
where
    B: AutodiffBackend + GnnBackend,
    B::InnerBackend: GnnBackend + Backend<Device = B::Device>,
{
    let PredictionJob { graph, world, device, progress } = job;
    let (model, model_config) = model;
    let model = load_parameters(model_config.init::<B>(0, device)?, &flatten_parameters(model))?.no_grad();
    let trained = Trained::new(&model, model_config);
    let embeddings = trained.embeddings(graph, saved, world)?;
    let node_type = trained.node_type(graph, None)?;
    trained.check_classified(graph, node_type, &WantedRows::Logits)?;
    trained.check_hops(config.sampler.num_neighbors.num_hops())?;
    check_output(config.output, model_config.num_outputs())?;
    let schema = Arc::new(GraphSchema::read_by(&model_config.graph, graph.part().meta())?);
    let sampler = schema.sampler(graph, config.sampler.clone().with_disjoint(true))?;
    let options = options(BatchOptions::of_model(model_config, false));
    let seeds = match config.time {
        None => Seeds::Listed(nodes),
        Some(time) => Seeds::Timed(nodes.into_iter().map(|node| (node, time)).collect()),
    };
    let loader = DistNeighborLoader::new(sampler, node_type, seeds, loader_config(config, options), world)?;
    let of_device = device.clone();
    let num_steps = loader.num_steps();
    let batches = loader.epoch_map(0, move |batch: MiniBatch| {
        let num_seeds = batch.num_seeds;
        let neighborhood = Neighborhood::of(&batch, &schema).with_target_nodes(node_type, num_seeds);
        Ok::<_, TrainError>((neighborhood, TensorBatch::<B>::new(batch, &schema, options, &of_device)?))
    });
    for (step, prepared) in (1..).zip(batches) {
        let (neighborhood, batch) = prepared??;
        let mut own = Vec::new();
        if let Some(graph) = embeddings.fill(batch, device)?.take_input() {
            let inputs = Inputs { graph, of_targets: None };
            let found = integrated_gradients(&inputs, config, &|inputs: Inputs<B>| {
                NodeClassifier::forward(&model, inputs.graph, Mode::Eval).map_err(TrainError::batch)
            })?;
            own = neighborhood.explain(&found, config.top);
        }
        visit_all(&own, visit, world)?;
        progress.step(InferenceStep { pass: 1, num_passes: 1, step, num_steps });
    }
    Ok(())
}

/// Checks that a model has the output to explain.
///
/// # Errors
/// [`TrainError::Config`] if it does not.
pub(crate) fn check_output(output: Option<usize>, num_outputs: usize) -> Result<(), TrainError> {
    match output {
        Some(output) if output >= num_outputs => {
            let what = format!("there is no output {output}: the model has {num_outputs}, counted from 0 (`output`)");
            Err(TrainError::Config { what })
        }
        _ => Ok(()),
    }
}

/// Returns the options of batches whose features have gradients.
pub(crate) fn options(of_model: BatchOptions) -> BatchOptions {
    BatchOptions { labels: false, for_training: true, maps_features: true, ..of_model }
}

/// Returns the configuration of the loader of targets.
pub(crate) fn loader_config(config: &ExplanationConfig, options: BatchOptions) -> LoaderConfig {
    LoaderConfig {
        batch_size: config.batch_size,
        even_batches: false,
        shuffle: false,
        seed: config.seed,
        concurrency: 2,
        prefetch_bytes: config.prefetch_bytes,
        wanted: NodeFields { original_ids: true, ..options.wanted() },
        cache: None,
    }
}
