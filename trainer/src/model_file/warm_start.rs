//! Starting from the weights of a saved model.

use super::embedding_index::EmbeddingIndex;
use super::new_embeddings::NewEmbeddings;
use super::read::{open, read_tensor, with_values};
use super::saved_embeddings::SavedEmbeddings;
use super::tensor_name::{ModulePath, follows_path, tensor_names};
use super::warm_start_report::{OtherShape, WarmStartReport};
use super::{ModelFileError, ReadData, TrainedOn};
use crate::models::GraphSchema;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use safetensors::SafeTensors;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The prefix of the names of a link model's encoder, which is the network of other tasks.
const ENCODER: &str = "encoder.";

/// A saved model to start a training from.
///
/// Tensors are matched by name and shape. The model may be of another task: a tensor `encoder.NAME` of a model for links
/// matches `NAME` of a model for nodes. A model may match a part of the file, and the file a part of the model.
///
/// All ranks need the same bytes: one rank reads them with [`read_network`](super::read_network) and sends them to the
/// others.
#[derive(Clone)]
pub struct WarmStart {
    path: PathBuf,
    bytes: Arc<[u8]>,
    new_embeddings: Option<NewEmbeddings>,
    other_classes: Option<String>,
}

impl fmt::Debug for WarmStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarmStart").field("path", &self.path).finish_non_exhaustive()
    }
}

impl WarmStart {
    /// Makes a start from the bytes that [`read_network`](super::read_network) returned for the file `path`.
    pub fn new(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), bytes: bytes.into(), new_embeddings: None, other_classes: None }
    }

    /// Sets the start of the embeddings of nodes that the file has no rows for. With `None`, they keep their initial values.
    pub fn with_new_embeddings(self, new_embeddings: Option<NewEmbeddings>) -> Self {
        Self { new_embeddings, ..self }
    }

    /// Compares the classes that a model reads with the classes of the file's training, for [`WarmStartReport::other_classes`].
    ///
    /// # Errors
    /// [`ModelFileError`] if the file is damaged.
    pub fn for_data(self, data: &TrainedOn, reads: ReadData) -> Result<Self, ModelFileError> {
        let trained_on = TrainedOn::of_file(&self.bytes, &self.path)?;
        let other_classes = trained_on.and_then(|trained_on| trained_on.other_classes(data, reads));
        Ok(Self { other_classes, ..self })
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the tensors of a model by the tensors of the file that match. Also returns the embeddings of the file.
    ///
    /// # Errors
    /// [`ModelFileError`] if the file is damaged, or if a tensor that matches has another type or is not finite.
    pub(crate) fn fill<B: Backend, M: Module<B>>(
        &self,
        model: M,
        settings: &impl Serialize,
    ) -> Result<(M, WarmStartReport, SavedEmbeddings), ModelFileError> {
        let (file, json) = open(&self.bytes, &self.path)?;
        let of_model = tensor_names(&model).into_iter().map(|tensor| tensor.name).collect();
        let mut fill = FillMatching {
            place: ModulePath::default(),
            path: &self.path,
            file: &file.tensors,
            of_model,
            used: BTreeSet::new(),
            report: WarmStartReport { path: self.path.clone(), ..WarmStartReport::default() },
            error: None,
        };
        let model = model.map(&mut fill);
        let mut report = fill.finish()?;
        report.other_graph = other_graph(&json, settings);
        report.other_classes = self.other_classes.clone();
        let index = file.index.unwrap_or_else(EmbeddingIndex::default);
        let saved = SavedEmbeddings::in_files(&self.path, index).of_data(file.trained_on);
        Ok((model, report, saved.with_new_embeddings(self.new_embeddings)))
    }
}

/// A mapper that replaces the tensors of a module by the tensors of the file that match. It keeps the first error.
struct FillMatching<'a> {
    place: ModulePath,
    path: &'a Path,
    file: &'a SafeTensors<'a>,
    /// The names of all tensors of the model.
    of_model: BTreeSet<String>,
    /// The names of the tensors of the file that match tensors of the model.
    used: BTreeSet<String>,
    report: WarmStartReport,
    error: Option<ModelFileError>,
}

impl FillMatching<'_> {
    /// Returns the name in the file of a tensor of the model.
    fn name_in_file(&self, name: &str) -> Option<String> {
        let is_in_file = |name: &str| self.file.tensor(name).is_ok();
        if is_in_file(name) {
            return Some(name.to_owned());
        }
        let of_encoder = format!("{ENCODER}{name}");
        let other = name.strip_prefix(ENCODER).unwrap_or(&of_encoder);
        // A model of one's own may have both names. Each then matches itself only.
        (is_in_file(other) && !self.of_model.contains(other)).then(|| other.to_owned())
    }

    /// # Errors
    /// The first error of a tensor.
    fn finish(mut self) -> Result<WarmStartReport, ModelFileError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let unused = self.file.names().into_iter().filter(|name| !self.used.contains(*name));
        self.report.unused = unused.map(str::to_owned).collect();
        self.report.unused.sort_unstable();
        Ok(self.report)
    }
}

impl<B: Backend> ModuleMapper<B> for FillMatching<'_> {
    follows_path!(place);

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let name = self.place.name();
        let Some(in_file) = self.name_in_file(&name) else {
            self.report.missing.push(name);
            return param;
        };
        let values = read_tensor(self.path, self.file, &in_file, param.dims());
        self.used.insert(in_file);
        match values {
            Ok(values) => {
                self.report.taken.push(name);
                let device = param.device();
                with_values(param, values, &device)
            }
            Err(ModelFileError::TensorShape { found, expected, .. }) => {
                self.report.other_shapes.push(OtherShape { name, in_file: found, in_model: expected });
                param
            }
            Err(error) => {
                self.error.get_or_insert(error);
                param
            }
        }
    }
}

/// Describes the first difference between the graphs of the file's model and of this model, or returns `None` if one
/// of them has no schema.
fn other_graph(json: &str, settings: &impl Serialize) -> Option<String> {
    let of_file = schema(serde_json::from_str(json).ok()?)?;
    let of_model = schema(serde_json::to_value(settings).ok()?)?;
    of_file.difference(&of_model)
}

/// Returns the schema in the settings of a model for nodes or links.
fn schema(mut settings: Value) -> Option<GraphSchema> {
    let of_encoder = settings.get_mut("encoder").map(Value::take);
    let graph = of_encoder.unwrap_or(settings).get_mut("graph")?.take();
    serde_json::from_value(graph).ok()
}
