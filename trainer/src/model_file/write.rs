//! Writing a model file.

use super::EmbeddingTable;
use super::embedding_index::{EmbeddingIndex, INDEX};
use super::file_header::with_ordered_header;
use super::model_origin::{ModelOrigin, ORIGIN};
use super::saved_task::{SavedLoss, SavedTask, TASK, TaskKind};
use super::settings::ModelSettings;
use super::tensor_name::{ModulePath, follows_path};
use super::trained_on::{TRAINED_ON, TrainedOn};
use super::{FORMAT, ModelFileError, VERSION, embedding_name};
use crate::metrics::Decision;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_gnn::nn::PygLayer;
use edgecut_gnn::ops::host_values;
use edgecut_output::write_output;
use safetensors::tensor::{TensorView, serialize};
use safetensors::{Dtype, SafeTensorError};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Writes a model as one file, with embeddings that are in memory. Use [`ModelSaver`](super::ModelSaver) if several
/// processes hold the embeddings.
///
/// # Errors
/// [`ModelFileError`] if `settings` do not describe the model, or if the file cannot be written. An older file at
/// `path` is kept then.
pub fn save_model<B: Backend, M: Module<B>>(
    path: &Path,
    model: &M,
    settings: &impl ModelSettings,
    embeddings: &[EmbeddingTable],
) -> Result<(), ModelFileError> {
    let bytes = model_bytes(path, &ModelView::new(model, settings), embeddings, Notes::default())?;
    write_output(path, &bytes).map_err(ModelFileError::write(path))
}

/// A model and its settings, of any type, to be saved.
pub struct ModelView<'a> {
    tensors: Box<dyn Fn() -> BTreeMap<String, StoredTensor> + 'a>,
    settings: Box<dyn Fn() -> serde_json::Result<String> + 'a>,
    num_parameters: Option<usize>,
    task: Option<TaskKind>,
    pyg_layers: Vec<PygLayer>,
}

impl<'a> ModelView<'a> {
    /// Returns a view of a model and of the settings to store with it.
    pub fn new<B: Backend, M: Module<B>>(model: &'a M, settings: &'a impl ModelSettings) -> Self {
        Self {
            tensors: Box::new(move || {
                let mut collect = Collect { place: ModulePath::default(), tensors: BTreeMap::new() };
                model.visit(&mut collect);
                collect.tensors
            }),
            settings: Box::new(move || serde_json::to_string(settings)),
            num_parameters: settings.num_parameters(),
            task: settings.task(),
            pyg_layers: settings.pyg_layers(),
        }
    }
}

/// The entry of the metadata with the layers of PyG.
const PYG_LAYERS: &str = "pyg_layers";

/// The optional metadata of a model file.
#[derive(Default)]
pub(super) struct Notes<'a> {
    pub(super) origin: Option<&'a ModelOrigin>,
    pub(super) trained_on: Option<&'a TrainedOn>,
    pub(super) index: Option<&'a EmbeddingIndex>,
    pub(super) loss: Option<&'a SavedLoss>,
    pub(super) decision: Option<&'a Decision>,
    pub(super) target_decisions: Option<&'a BTreeMap<String, Decision>>,
}

/// Makes the bytes of a model file.
pub(super) fn model_bytes(
    path: &Path,
    model: &ModelView<'_>,
    embeddings: &[EmbeddingTable],
    notes: Notes<'_>,
) -> Result<Vec<u8>, ModelFileError> {
    let mut tensors = (model.tensors)();
    let held = tensors.values().map(|tensor| tensor.values.len()).sum::<usize>();
    if let Some(expected) = model.num_parameters
        && expected != held
    {
        return Err(ModelFileError::ForeignConfig { path: path.to_owned(), held, expected });
    }
    for EmbeddingTable { node_type, dim, values } in embeddings {
        let shape = vec![values.len() / (*dim).max(1), *dim];
        let tensor = StoredTensor { shape, values: values.clone() };
        tensors.insert(embedding_name(node_type), tensor);
    }
    let mut metadata = HashMap::from([
        ("format".to_owned(), FORMAT.to_owned()),
        ("version".to_owned(), VERSION.to_owned()),
        ("config".to_owned(), (model.settings)().map_err(ModelFileError::config(path))?),
    ]);
    if let Some(task) = model.task {
        let task = SavedTask {
            task: task.name.to_owned(),
            loss: notes.loss.map(|loss| loss.name.clone()),
            outputs: notes.loss.and_then(|loss| loss.outputs),
            decision: notes.decision.cloned(),
            target_decisions: notes.target_decisions.cloned().unwrap_or_default(),
        };
        metadata.insert(TASK.to_owned(), json(path, &task)?);
    }
    if !model.pyg_layers.is_empty() {
        metadata.insert(PYG_LAYERS.to_owned(), json(path, &model.pyg_layers)?);
    }
    if let Some(origin) = notes.origin {
        metadata.insert(ORIGIN.to_owned(), json(path, origin)?);
    }
    if let Some(trained_on) = notes.trained_on {
        metadata.insert(TRAINED_ON.to_owned(), json(path, trained_on)?);
    }
    if let Some(index) = notes.index {
        metadata.insert(INDEX.to_owned(), json(path, index)?);
    }
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, tensor)| (name, tensor.shape, tensor.values.iter().flat_map(|v| v.to_le_bytes()).collect()))
        .collect();
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>, SafeTensorError>>()
        .map_err(ModelFileError::format(path))?;
    serialize(views, Some(metadata)).and_then(with_ordered_header).map_err(ModelFileError::format(path))
}

fn json(path: &Path, value: &impl Serialize) -> Result<String, ModelFileError> {
    serde_json::to_string(value).map_err(ModelFileError::config(path))
}

/// A parameter in the layout of the file.
struct StoredTensor {
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// A visitor that collects all parameters of a module by name.
struct Collect {
    place: ModulePath,
    tensors: BTreeMap<String, StoredTensor>,
}

impl<B: Backend> ModuleVisitor<B> for Collect {
    follows_path!(place);

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        // Matrices are `[in_channels, out_channels]` in memory. The file has them transposed, as PyTorch does.
        let tensor = if D == 2 { param.val().transpose() } else { param.val() };
        let shape = tensor.dims().to_vec();
        let values = host_values(tensor);
        self.tensors.insert(self.place.name(), StoredTensor { shape, values });
    }
}
