//! Model files: trained models on disk, as safetensors.
//!
//! # The file
//! - One `F32` tensor per parameter, named by its path in the model. GraphSAGE: `layers.0.weight_neighbors`,
//!   `layers.0.weight_self`, `layers.0.bias`. GCN: `layers.0.weight`, `layers.0.bias`. GAT: `layers.0.weight_src`,
//!   `layers.0.attention_src`. A network over typed edges: `encoders.0.weight` (by node type),
//!   `layers.0.conv.weights.1` (by edge type), `layers.0.conv.own.0.weight`, `outputs.0.weight`. A network for whole
//!   graphs: `layers.0.mlp.layers.0.weight`, `norms.0.gamma`, `norms.0.running_mean`, `output.weight`.
//! - One embedding table per node type without features. [`ModelSaver`] writes the tables of a model
//!   `model.safetensors` to the folder `model.safetensors.embeddings`, in one file per process,
//!   `SAVE.rank_0-of-2.safetensors`. A file has the rows that the process holds, `embeddings.author`,
//!   `[num_rows, channels]`, and their nodes, `original_ids.author`, `U32`, ascending. [`save_model`] writes the tables
//!   to the model file itself, `embeddings.author`: `[num_nodes, channels]`, by original id. Both forms can be read.
//! - Parameters of two dimensions have PyTorch's orientation, `[out_channels, in_channels]`, so that renamed tensors
//!   can be loaded into a PyG model with `load_state_dict`. Of a `SAGEConv`, `weight_neighbors` is `lin_l.weight`,
//!   `weight_self` is `lin_r.weight` and `bias` is `lin_l.bias`. Of a `GCNConv`, `weight` is `lin.weight` and `bias` is
//!   `bias`. Of a `GATv2Conv`, `weight_src`, `weight_dst`, `bias_src` and `bias_dst` are `lin_l.weight`,
//!   `lin_r.weight`, `lin_l.bias` and `lin_r.bias`.
//! - Metadata: `format` is `edgecut-model`, `version` is `1`. `config` is the [`ModelConfig`] as JSON
//!   ([`LinkModelConfig`] of a model for links, [`GraphNetConfig`] of a model for graphs), so that loading needs no
//!   further settings. `origin` is a [`ModelOrigin`] as JSON. `embeddings` lists the tables and their files as JSON.
//!
//! A file is written under a temporary name, synced and renamed, and the model file is written last. A reader of the
//! path therefore sees the complete old model or the complete new model.

mod embedding_index;
mod error;
mod file_header;
mod model_origin;
mod model_saver;
mod saved_embeddings;
mod shard_writer;

pub use error::ModelFileError;
pub use model_origin::ModelOrigin;
pub use model_saver::ModelSaver;
pub use saved_embeddings::SavedEmbeddings;
pub(crate) use saved_embeddings::WantedRows;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use safetensors::tensor::{TensorView, serialize};
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::Serialize;

use crate::embeddings::EmbeddingTable;
use crate::models::{GraphNet, GraphNetConfig, LinkModel, LinkModelConfig, ModelConfig, NodeModel};
use edgecut_output::write_output;
use embedding_index::{EmbeddingIndex, INDEX, TableEntry};
use file_header::FileHeader;
use model_origin::ORIGIN;

const FORMAT: &str = "edgecut-model";
const VERSION: &str = "1";
/// The prefix of the names of embedding tensors.
const EMBEDDINGS: &str = "embeddings.";
/// The prefix of the names of the tensors with the original ids of embeddings' nodes.
const ORIGINAL_IDS: &str = "original_ids.";

/// The settings of a model that its file stores.
pub trait ModelSettings: Serialize {
    /// Returns the number of parameters of the model, or `None` if their bytes cannot be addressed.
    fn num_parameters(&self) -> Option<usize>;
}

impl ModelSettings for ModelConfig {
    fn num_parameters(&self) -> Option<usize> {
        self.num_parameters()
    }
}

impl ModelSettings for LinkModelConfig {
    fn num_parameters(&self) -> Option<usize> {
        self.num_parameters()
    }
}

impl ModelSettings for GraphNetConfig {
    fn num_parameters(&self) -> Option<usize> {
        self.num_parameters()
    }
}

/// Writes a model as one file, with embeddings that are in memory. Use [`ModelSaver`] if several processes hold the
/// embeddings.
///
/// # Errors
/// [`ModelFileError`] if `config` does not describe the model, or if the file cannot be written. An older file at
/// `path` is kept then.
pub fn save_model<B: Backend>(
    path: &Path,
    model: &NodeModel<B>,
    config: &ModelConfig,
    embeddings: &[EmbeddingTable],
) -> Result<(), ModelFileError> {
    save(path, model, config, embeddings)
}

/// Writes a model for links as one file, see [`save_model`].
///
/// # Errors
/// The errors of [`save_model`].
pub fn save_link_model<B: Backend>(
    path: &Path,
    model: &LinkModel<B>,
    config: &LinkModelConfig,
    embeddings: &[EmbeddingTable],
) -> Result<(), ModelFileError> {
    save(path, model, config, embeddings)
}

/// Writes a model for whole graphs as one file, see [`save_model`].
///
/// # Errors
/// The errors of [`save_model`].
pub fn save_graph_model<B: Backend>(
    path: &Path,
    model: &GraphNet<B>,
    config: &GraphNetConfig,
) -> Result<(), ModelFileError> {
    save(path, model, config, &[])
}

fn save<B: Backend>(
    path: &Path,
    model: &impl Module<B>,
    config: &impl ModelSettings,
    embeddings: &[EmbeddingTable],
) -> Result<(), ModelFileError> {
    let bytes = model_bytes(path, model, config, embeddings, Notes::default())?;
    write_output(path, &bytes).map_err(|source| ModelFileError::Write { path: path.to_owned(), source })
}

/// The optional metadata of a model file.
#[derive(Default)]
struct Notes<'a> {
    origin: Option<&'a ModelOrigin>,
    index: Option<&'a EmbeddingIndex>,
}

/// Makes the bytes of a model file.
fn model_bytes<B: Backend>(
    path: &Path,
    model: &impl Module<B>,
    config: &impl ModelSettings,
    embeddings: &[EmbeddingTable],
    notes: Notes<'_>,
) -> Result<Vec<u8>, ModelFileError> {
    let expected = config.num_parameters();
    let mut collect = Collect { place: Vec::new(), tensors: BTreeMap::new() };
    model.visit(&mut collect);
    let held = collect.tensors.values().map(|tensor| tensor.values.len()).sum::<usize>();
    if expected != Some(held) {
        return Err(ModelFileError::ForeignConfig { path: path.to_owned(), held, expected });
    }
    for EmbeddingTable { node_type, dim, values } in embeddings {
        let shape = vec![values.len() / (*dim).max(1), *dim];
        let tensor = StoredTensor { shape, values: values.clone() };
        collect.tensors.insert(embedding_name(node_type), tensor);
    }
    let json_error = |source| ModelFileError::Config { path: path.to_owned(), source };
    let mut metadata = HashMap::from([
        ("format".to_owned(), FORMAT.to_owned()),
        ("version".to_owned(), VERSION.to_owned()),
        ("config".to_owned(), serde_json::to_string(config).map_err(json_error)?),
    ]);
    if let Some(origin) = notes.origin {
        metadata.insert(ORIGIN.to_owned(), serde_json::to_string(origin).map_err(json_error)?);
    }
    if let Some(index) = notes.index {
        metadata.insert(INDEX.to_owned(), serde_json::to_string(index).map_err(json_error)?);
    }
    let format_error = |source| ModelFileError::Format { path: path.to_owned(), source };
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = collect
        .tensors
        .into_iter()
        .map(|(name, tensor)| (name, tensor.shape, tensor.values.iter().flat_map(|v| v.to_le_bytes()).collect()))
        .collect();
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>, SafeTensorError>>()
        .map_err(format_error)?;
    serialize(views, Some(metadata)).map_err(format_error)
}

/// Reads a model with its settings, and all its embeddings into memory.
///
/// # Errors
/// [`ModelFileError`] with the file and the tensor, if the file has another format, or if tensors are missing,
/// unexpected, of another type or shape, or not finite.
pub fn load_model<B: Backend>(
    path: &Path,
    device: &B::Device,
) -> Result<(NodeModel<B>, ModelConfig, Vec<EmbeddingTable>), ModelFileError> {
    parse_model(&read_network(path)?, path, device)
}

/// Reads a model file without its embeddings. The result lists the files that hold them.
///
/// One rank reads this and sends it to the others.
///
/// # Errors
/// [`ModelFileError::Read`] if the file cannot be read, [`ModelFileError::Format`] if it is damaged.
pub fn read_network(path: &Path) -> Result<Vec<u8>, ModelFileError> {
    let header = FileHeader::read(path)?;
    let mut metadata = header.metadata();
    // A file that holds its tables itself gets an index without shards, so that each rank finds them in that file.
    if !metadata.contains_key(INDEX) {
        let tables = header.names().into_iter().filter_map(|name| {
            let node_type = name.strip_prefix(EMBEDDINGS)?.to_owned();
            let &[num_nodes, dim] = &header.tensor(&name)?.shape[..] else { return None };
            Some(TableEntry { node_type, num_nodes, dim })
        });
        let index = EmbeddingIndex { tables: tables.collect(), ..EmbeddingIndex::default() };
        if !index.tables.is_empty() {
            let json = serde_json::to_string(&index)
                .map_err(|source| ModelFileError::Config { path: path.to_owned(), source })?;
            metadata.insert(INDEX.to_owned(), json);
        }
    }
    header.extract(|name| !name.starts_with(EMBEDDINGS), metadata)
}

/// Parses a model from the bytes of a file, or from the bytes that [`read_network`] returns. `path` is the file for
/// errors and for its embeddings.
///
/// # Errors
/// The errors of [`load_model`].
pub fn parse_model<B: Backend>(
    bytes: &[u8],
    path: &Path,
    device: &B::Device,
) -> Result<(NodeModel<B>, ModelConfig, Vec<EmbeddingTable>), ModelFileError> {
    let (model, config, embeddings) = open_model(bytes, path, device)?;
    Ok((model, config, embeddings.into_tables()?))
}

/// Parses a model as [`parse_model`] does, but leaves the embeddings in their files until they are read.
///
/// # Errors
/// The errors of [`load_model`].
pub fn open_model<B: Backend>(
    bytes: &[u8],
    path: &Path,
    device: &B::Device,
) -> Result<(NodeModel<B>, ModelConfig, SavedEmbeddings), ModelFileError> {
    let (file, json) = open(bytes, path)?;
    let config =
        ModelConfig::from_json(&json).map_err(|source| ModelFileError::Config { path: path.to_owned(), source })?;
    let model_error = |source| ModelFileError::Model { path: path.to_owned(), source };
    config.validate().map_err(model_error)?;
    check_size(path, &file, config.num_parameters())?;
    // The initial values are overwritten below. The model provides the names and shapes of the expected tensors.
    let model = config.init::<B>(0, device).map_err(model_error)?;
    let (embedded, dim) = match &config {
        ModelConfig::Stack(_) => (Vec::new(), 0),
        ModelConfig::Relational(config) => (config.graph.embedded_types(), config.hidden_channels),
    };
    let (model, embeddings) = filled(model, &embedded, dim, path, &file, device)?;
    Ok((model, config, embeddings))
}

/// Parses a model for links, see [`parse_model`].
///
/// # Errors
/// The errors of [`load_model`].
pub fn parse_link_model<B: Backend>(
    bytes: &[u8],
    path: &Path,
    device: &B::Device,
) -> Result<(LinkModel<B>, LinkModelConfig, Vec<EmbeddingTable>), ModelFileError> {
    let (model, config, embeddings) = open_link_model(bytes, path, device)?;
    Ok((model, config, embeddings.into_tables()?))
}

/// Parses a model for links and leaves the embeddings in their files, see [`open_model`].
///
/// # Errors
/// The errors of [`load_model`].
pub fn open_link_model<B: Backend>(
    bytes: &[u8],
    path: &Path,
    device: &B::Device,
) -> Result<(LinkModel<B>, LinkModelConfig, SavedEmbeddings), ModelFileError> {
    let (file, json) = open(bytes, path)?;
    let config =
        LinkModelConfig::from_json(&json).map_err(|source| ModelFileError::Config { path: path.to_owned(), source })?;
    let model_error = |source| ModelFileError::Model { path: path.to_owned(), source };
    config.validate().map_err(model_error)?;
    check_size(path, &file, config.num_parameters())?;
    let model = config.init::<B>(0, device).map_err(model_error)?;
    let embedded = config.encoder.graph.embedded_types();
    let dim = config.encoder.hidden_channels;
    let (model, embeddings) = filled(model, &embedded, dim, path, &file, device)?;
    Ok((model, config, embeddings))
}

/// Parses a model for whole graphs, see [`parse_model`].
///
/// # Errors
/// The errors of [`load_model`].
pub fn parse_graph_model<B: Backend>(
    bytes: &[u8],
    path: &Path,
    device: &B::Device,
) -> Result<(GraphNet<B>, GraphNetConfig), ModelFileError> {
    let (file, json) = open(bytes, path)?;
    let config: GraphNetConfig =
        serde_json::from_str(&json).map_err(|source| ModelFileError::Config { path: path.to_owned(), source })?;
    let model_error = |source| ModelFileError::Model { path: path.to_owned(), source };
    config.validate().map_err(model_error)?;
    check_size(path, &file, config.num_parameters())?;
    let model = config.init::<B>(0, device).map_err(model_error)?;
    let (model, _) = filled(model, &[], 0, path, &file, device)?;
    Ok((model, config))
}

/// Replaces the parameters of `model` by those of the file. Also returns the embeddings of the node types `embedded`.
fn filled<B: Backend, M: Module<B>>(
    model: M,
    embedded: &[&str],
    dim: usize,
    path: &Path,
    file: &OpenFile<'_>,
    device: &B::Device,
) -> Result<(M, SavedEmbeddings), ModelFileError> {
    let OpenFile { tensors, index } = file;
    let mut fill = Fill { place: Vec::new(), path, file: tensors, device, used: BTreeSet::new(), error: None };
    let model = model.map(&mut fill);
    let Some(index) = index else {
        return Ok((model, SavedEmbeddings::in_memory(fill.finish(embedded, dim)?)));
    };
    fill.finish(&[], dim)?;
    check_tables(path, index, embedded, dim)?;
    let mut index = index.clone();
    if index.save.is_empty() {
        // The tensors of a model file are not in the order of the graph's node types.
        index.tables.sort_by_key(|table| embedded.iter().position(|name| *name == table.node_type));
    }
    Ok((model, SavedEmbeddings::in_files(path, index)))
}

/// Checks that the listed tables are exactly those of the model.
fn check_tables(path: &Path, index: &EmbeddingIndex, embedded: &[&str], dim: usize) -> Result<(), ModelFileError> {
    for &node_type in embedded {
        let tensor = embedding_name(node_type);
        let Some(table) = index.tables.iter().find(|table| table.node_type == node_type) else {
            return Err(ModelFileError::MissingTensor { path: path.to_owned(), tensor });
        };
        if table.dim != dim {
            let found = vec![table.num_nodes, table.dim];
            let expected = vec![table.num_nodes, dim];
            return Err(ModelFileError::TensorShape { path: path.to_owned(), tensor, found, expected });
        }
    }
    match index.tables.iter().find(|table| !embedded.contains(&table.node_type.as_str())) {
        Some(table) => {
            let tensor = embedding_name(&table.node_type);
            Err(ModelFileError::UnexpectedTensor { path: path.to_owned(), tensor })
        }
        None => Ok(()),
    }
}

/// The tensors of a model file, and the index of its embeddings, if it has one.
struct OpenFile<'a> {
    tensors: SafeTensors<'a>,
    index: Option<EmbeddingIndex>,
}

/// Opens the bytes of a file. Also returns its configuration as JSON.
fn open<'a>(bytes: &'a [u8], path: &Path) -> Result<(OpenFile<'a>, String), ModelFileError> {
    let format_error = |source| ModelFileError::Format { path: path.to_owned(), source };
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(format_error)?;
    let metadata = header.metadata().as_ref();
    let config = read_config(path, metadata)?;
    let index = metadata.and_then(|metadata| metadata.get(INDEX));
    let index = index.map(|text| EmbeddingIndex::parse(text, path)).transpose()?;
    let tensors = SafeTensors::deserialize(bytes).map_err(format_error)?;
    Ok((OpenFile { tensors, index }, config))
}

/// A parameter in the layout of the file.
struct StoredTensor {
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// A visitor that collects all parameters of a module by name.
struct Collect {
    place: Vec<String>,
    tensors: BTreeMap<String, StoredTensor>,
}

impl<B: Backend> ModuleVisitor<B> for Collect {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        if is_named(container_type) {
            self.place.push(name.to_owned());
        }
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        if is_named(container_type) {
            self.place.pop();
        }
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        // Matrices are `[in_channels, out_channels]` in memory. The file has them transposed, as PyTorch does.
        let tensor = if D == 2 { param.val().transpose() } else { param.val() };
        let shape = tensor.dims().to_vec();
        let values = tensor.into_data().iter::<f32>().collect();
        self.tensors.insert(self.place.join("."), StoredTensor { shape, values });
    }
}

/// Returns whether a container contributes to the names of tensors. Enums do not, because the configuration determines
/// their variant.
fn is_named(container_type: &str) -> bool {
    !container_type.starts_with("Enum:")
}

/// A mapper that replaces all parameters of a module by those of the file with the same names. It keeps the first
/// error.
struct Fill<'a, B: Backend> {
    place: Vec<String>,
    path: &'a Path,
    file: &'a SafeTensors<'a>,
    device: &'a B::Device,
    /// The names of the tensors that the model has read.
    used: BTreeSet<String>,
    error: Option<ModelFileError>,
}

impl<B: Backend> ModuleMapper<B> for Fill<'_, B> {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        if is_named(container_type) {
            self.place.push(name.to_owned());
        }
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        if is_named(container_type) {
            self.place.pop();
        }
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        if self.error.is_some() {
            return param;
        }
        let name = self.place.join(".");
        let values = read_tensor(self.path, self.file, &name, param.dims());
        self.used.insert(name);
        match values {
            Ok(values) => {
                let mut shape = param.dims();
                if D == 2 {
                    shape.reverse();
                }
                let stored = Tensor::<B, D>::from_data(TensorData::new(values, shape), self.device);
                let value = if D == 2 { contiguous(stored.transpose()) } else { stored };
                let is_trained = param.is_require_grad();
                param.map(|_| value.set_require_grad(is_trained))
            }
            Err(error) => {
                self.error = Some(error);
                param
            }
        }
    }
}

impl<B: Backend> Fill<'_, B> {
    /// Reads the embeddings of `node_types`, and checks that all tensors of the file were used.
    ///
    /// # Errors
    /// The first error of a parameter or a table, or [`ModelFileError::UnexpectedTensor`].
    fn finish(mut self, node_types: &[&str], dim: usize) -> Result<Vec<EmbeddingTable>, ModelFileError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut tables = Vec::with_capacity(node_types.len());
        for &node_type in node_types {
            let name = embedding_name(node_type);
            let rows = self.file.tensor(&name).ok().and_then(|view| view.shape().first().copied()).unwrap_or(0);
            // `read_tensor` expects matrices transposed, but tables are stored as they are. Hence the reversed shape.
            let values = read_tensor(self.path, self.file, &name, [dim, rows])?;
            self.used.insert(name);
            tables.push(EmbeddingTable { node_type: node_type.to_owned(), dim, values });
        }
        match self.file.names().into_iter().find(|name| !self.used.contains(*name)) {
            Some(name) => Err(ModelFileError::UnexpectedTensor { path: self.path.to_owned(), tensor: name.to_owned() }),
            None => Ok(tables),
        }
    }
}

/// Returns the name of the tensor with a node type's embeddings.
fn embedding_name(node_type: &str) -> String {
    format!("{EMBEDDINGS}{node_type}")
}

/// Returns the name of the tensor with the original ids of a node type's embeddings.
fn original_ids_name(node_type: &str) -> String {
    format!("{ORIGINAL_IDS}{node_type}")
}

/// Copies a tensor to row-major memory, the layout of a newly initialised parameter.
fn contiguous<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Tensor<B, D> {
    let device = tensor.device();
    Tensor::from_data(tensor.into_data(), &device)
}

/// Reads and checks a tensor of the file. `dims` is the shape of the parameter; the file has matrices transposed.
fn read_tensor<const D: usize>(
    path: &Path,
    file: &SafeTensors<'_>,
    name: &str,
    dims: [usize; D],
) -> Result<Vec<f32>, ModelFileError> {
    let path = || path.to_owned();
    let tensor = || name.to_owned();
    let Ok(view) = file.tensor(name) else {
        return Err(ModelFileError::MissingTensor { path: path(), tensor: tensor() });
    };
    if view.dtype() != Dtype::F32 {
        return Err(ModelFileError::TensorType { path: path(), tensor: tensor(), found: view.dtype() });
    }
    let mut expected = dims.to_vec();
    if D == 2 {
        expected.reverse();
    }
    if view.shape() != expected {
        let found = view.shape().to_vec();
        return Err(ModelFileError::TensorShape { path: path(), tensor: tensor(), found, expected });
    }
    let (words, _) = view.data().as_chunks::<4>();
    let values: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
    match values.iter().position(|value| !value.is_finite()) {
        Some(position) => {
            let value = values[position];
            Err(ModelFileError::NotFinite { path: path(), tensor: tensor(), position, value })
        }
        None => Ok(values),
    }
}

/// Checks the format and version of a file and returns its configuration as JSON.
fn read_config(path: &Path, metadata: Option<&HashMap<String, String>>) -> Result<String, ModelFileError> {
    let entry = |key| metadata.and_then(|metadata| metadata.get(key));
    for (key, expected) in [("format", FORMAT), ("version", VERSION)] {
        let found = entry(key);
        if found.map(String::as_str) != Some(expected) {
            return Err(ModelFileError::Metadata { path: path.to_owned(), key, found: found.cloned(), expected });
        }
    }
    let Some(json) = entry("config") else {
        let expected = "a model configuration";
        return Err(ModelFileError::Metadata { path: path.to_owned(), key: "config", found: None, expected });
    };
    Ok(json.clone())
}

/// Checks that the file has as many values as the configuration describes. It runs before the model is made, so that a
/// damaged configuration cannot allocate all memory.
fn check_size(path: &Path, file: &OpenFile<'_>, expected: Option<usize>) -> Result<(), ModelFileError> {
    let parameters = file.tensors.iter().filter(|(name, _)| !name.starts_with(EMBEDDINGS));
    let given = parameters.map(|(_, view)| view.shape().iter().product::<usize>()).sum();
    let expected = expected.unwrap_or(usize::MAX);
    if given == expected {
        Ok(())
    } else {
        Err(ModelFileError::ParameterCount { path: path.to_owned(), given, expected })
    }
}
