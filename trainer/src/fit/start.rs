//! The start of a training: the weights of a saved model, and frozen parameters.

use super::freeze::{freeze, layers};
use super::observer::Observer;
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::gradients::num_trained_parameters;
use crate::memory::parameter_count::ParameterCount;
use crate::model_file::{ModelSettings, WarmStart};
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::ProcessGroup;

/// Takes over the weights of `warm_start`, freezes the parameters that `frozen` names, and tells the observer. Every rank must call this.
///
/// # Errors
/// [`TrainError::Config`] if nothing of the file fits the model, for unknown names, or if nothing would be trained;
/// [`TrainError::Model`] if a file is missing or damaged.
pub(super) fn prepare<B: AutodiffBackend, M: AutodiffModule<B>, S>(
    mut model: M,
    embeddings: &mut Embeddings,
    settings: &impl ModelSettings,
    (warm_start, frozen): (Option<&WarmStart>, &[String]),
    world: &mut ProcessGroup,
    observer: &mut dyn Observer<S>,
) -> Result<M, TrainError> {
    if let Some(warm_start) = warm_start {
        model = warm(model, embeddings, settings, warm_start, world, observer)?;
    }
    let all = num_trained_parameters(&model) as u64 + embeddings.num_values();
    let model = freeze(model, embeddings, frozen)?;
    let mut count = ParameterCount {
        model: num_trained_parameters(&model) as u64,
        embeddings: embeddings.num_trained_values(),
        frozen: 0,
    };
    count.frozen = all - count.model - count.embeddings;
    observer.started(count);
    Ok(model)
}

/// Takes over the weights of a saved model.
fn warm<B: AutodiffBackend, M: AutodiffModule<B>, S>(
    model: M,
    embeddings: &mut Embeddings,
    settings: &impl ModelSettings,
    warm_start: &WarmStart,
    world: &mut ProcessGroup,
    observer: &mut dyn Observer<S>,
) -> Result<M, TrainError> {
    let (model, mut report, saved) = warm_start.fill(model, settings)?;
    // Other ranks may not read a row before its owner has loaded it, or while it does so.
    if !embeddings.is_empty() {
        world.barrier()?;
    }
    embeddings.load_matching(&saved, &mut report, world)?;
    if !embeddings.is_empty() {
        world.barrier()?;
    }
    if report.is_empty() {
        let has = |layers: Vec<String>| if layers.is_empty() { "none".to_owned() } else { layers.join(", ") };
        let others = report.other_shapes.iter().map(|other| &other.name);
        let of_file = has(layers(report.unused.iter().chain(others.clone())));
        let of_model = has(layers(report.missing.iter().chain(others)));
        let what = format!(
            "`init_from` {}: no tensor of the file has the name and shape of one of the model. The file has the layers \
             {of_file}, and the model {of_model}: choose the `kind` and `hidden_channels` of the saved model, and \
             `encoder_decoder` if `train link` saved it",
            warm_start.path().display()
        );
        return Err(TrainError::Config { what });
    }
    observer.warm_started(&report);
    Ok(model)
}
