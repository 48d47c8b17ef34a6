//! Reading a model file.

use super::embedding_index::{EmbeddingIndex, INDEX};
use super::embedding_name;
use super::file_header::FileHeader;
use super::saved_task::TASK;
use super::settings::LoadableConfig;
use super::tensor_name::{ModulePath, follows_path};
use super::{EMBEDDINGS, EmbeddingSize, EmbeddingTable, FORMAT, ModelFileError, SavedEmbeddings, TrainedOn, VERSION};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::ops::host_values;
use safetensors::{Dtype, SafeTensors};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// A model, its settings and its embeddings.
pub type Loaded<B, C, E> = (<C as LoadableConfig>::Model<B>, C, E);

/// Reads a model with its settings, and all its embeddings into memory. `C` are the settings: [`NetworkConfig`] of a model
/// for nodes or whole graphs, [`LinkModelConfig`] of a model for links, or your own.
///
/// [`NetworkConfig`]: crate::models::NetworkConfig
/// [`LinkModelConfig`]: crate::models::LinkModelConfig
///
/// # Errors
/// [`ModelFileError`] with the file and the tensor, if the file has another format, or if tensors are missing,
/// unexpected, of another type or shape, or not finite.
pub fn load_model<B: Backend, C: LoadableConfig>(
    path: &Path,
    device: &B::Device,
) -> Result<Loaded<B, C, Vec<EmbeddingTable>>, ModelFileError> {
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
            Some(EmbeddingSize { node_type, num_nodes, dim })
        });
        let index = EmbeddingIndex { tables: tables.collect(), ..EmbeddingIndex::default() };
        if !index.tables.is_empty() {
            let json = serde_json::to_string(&index).map_err(ModelFileError::config(path))?;
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
pub fn parse_model<B: Backend, C: LoadableConfig>(
    bytes: &[u8],
    path: &Path,
    device: &B::Device,
) -> Result<Loaded<B, C, Vec<EmbeddingTable>>, ModelFileError> {
    let (model, config, embeddings) = open_model(bytes, path, device)?;
    Ok((model, config, embeddings.into_tables()?))
}

/// Parses a model as [`parse_model`] does, but leaves the embeddings in their files until they are read.
///
/// # Errors
/// The errors of [`load_model`].
pub fn open_model<B: Backend, C: LoadableConfig>(
    bytes: &[u8],
    path: &Path,
    device: &B::Device,
) -> Result<Loaded<B, C, SavedEmbeddings>, ModelFileError> {
    let (file, json) = open(bytes, path)?;
    let config = C::from_json(&json).map_err(ModelFileError::config(path))?;
    config.validate().map_err(ModelFileError::model(path))?;
    if let Some(expected) = config.num_parameters() {
        check_size(path, &file, expected)?;
    }
    // The initial values are overwritten below. The model provides the names and shapes of the expected tensors.
    let model = config.init::<B>(device).map_err(ModelFileError::model(path))?;
    let (model, embeddings) = filled(model, &config.embedded(), path, &file, device)?;
    Ok((model, config, embeddings))
}

/// Replaces the parameters of `model` by the file's. Also returns the embeddings of the node types `embedded`.
fn filled<B: Backend, M: Module<B>>(
    model: M,
    embedded: &[(&str, usize)],
    path: &Path,
    file: &OpenFile<'_>,
    device: &B::Device,
) -> Result<(M, SavedEmbeddings), ModelFileError> {
    let OpenFile { tensors, index, trained_on, .. } = file;
    let mut fill =
        Fill { place: ModulePath::default(), path, file: tensors, device, used: BTreeSet::new(), error: None };
    let model = model.map(&mut fill);
    let Some(index) = index else {
        let tables = fill.finish(embedded)?;
        return Ok((model, SavedEmbeddings::in_memory(tables).of_data(trained_on.clone())));
    };
    fill.finish(&[])?;
    check_tables(path, index, embedded)?;
    let mut index = index.clone();
    if index.save.is_empty() {
        // The tensors of a model file are not in the order of the graph's node types.
        index.tables.sort_by_key(|table| embedded.iter().position(|(name, _)| *name == table.node_type));
    }
    Ok((model, SavedEmbeddings::in_files(path, index).of_data(trained_on.clone())))
}

/// Checks that the listed tables are exactly the model's.
fn check_tables(path: &Path, index: &EmbeddingIndex, embedded: &[(&str, usize)]) -> Result<(), ModelFileError> {
    for &(node_type, dim) in embedded {
        let tensor = embedding_name(node_type);
        let Some(table) = index.tables.iter().find(|table| table.node_type == node_type) else {
            return Err(ModelFileError::missing_tensor(path, &tensor));
        };
        if table.dim != dim {
            let found = vec![table.num_nodes, table.dim];
            let expected = vec![table.num_nodes, dim];
            return Err(ModelFileError::TensorShape { path: path.to_owned(), tensor, found, expected });
        }
    }
    match index.tables.iter().find(|table| embedded.iter().all(|(name, _)| *name != table.node_type)) {
        Some(table) => Err(ModelFileError::unexpected_tensor(path, &embedding_name(&table.node_type))),
        None => Ok(()),
    }
}

/// The tensors of a model file, and the index of its embeddings, if it has one.
pub(super) struct OpenFile<'a> {
    pub(super) tensors: SafeTensors<'a>,
    pub(super) index: Option<EmbeddingIndex>,
    pub(super) trained_on: Option<TrainedOn>,
    /// The JSON of the task, if the file has it.
    pub(super) task: Option<String>,
}

/// Opens the bytes of a file. Also returns its configuration as JSON.
pub(super) fn open<'a>(bytes: &'a [u8], path: &Path) -> Result<(OpenFile<'a>, String), ModelFileError> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(ModelFileError::format(path))?;
    let metadata = header.metadata().as_ref();
    let config = read_config(path, metadata)?;
    let index = metadata.and_then(|metadata| metadata.get(INDEX));
    let index = index.map(|text| EmbeddingIndex::parse(text, path)).transpose()?;
    let tensors = SafeTensors::deserialize(bytes).map_err(ModelFileError::format(path))?;
    let trained_on = TrainedOn::of_metadata(metadata, path)?;
    let task = metadata.and_then(|metadata| metadata.get(TASK)).cloned();
    Ok((OpenFile { tensors, index, trained_on, task }, config))
}

/// A mapper that replaces all parameters of a module by the file's with the same names. It keeps the first
/// error.
struct Fill<'a, B: Backend> {
    place: ModulePath,
    path: &'a Path,
    file: &'a SafeTensors<'a>,
    device: &'a B::Device,
    /// The names of the tensors that the model has read.
    used: BTreeSet<String>,
    error: Option<ModelFileError>,
}

impl<B: Backend> ModuleMapper<B> for Fill<'_, B> {
    follows_path!(place);

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        if self.error.is_some() {
            return param;
        }
        let name = self.place.name();
        let values = read_tensor(self.path, self.file, &name, param.dims());
        self.used.insert(name);
        match values {
            Ok(values) => with_values(param, values, self.device),
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
    /// The first error of a parameter or a table, or [`ModelFileError::Content`] for other tensors.
    fn finish(mut self, node_types: &[(&str, usize)]) -> Result<Vec<EmbeddingTable>, ModelFileError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut tables = Vec::with_capacity(node_types.len());
        for &(node_type, dim) in node_types {
            let name = embedding_name(node_type);
            let rows = self.file.tensor(&name).ok().and_then(|view| view.shape().first().copied()).unwrap_or(0);
            // `read_tensor` expects matrices transposed, but tables are stored as they are. Hence the reversed shape.
            let values = read_tensor(self.path, self.file, &name, [dim, rows])?;
            self.used.insert(name);
            tables.push(EmbeddingTable { node_type: node_type.to_owned(), dim, values });
        }
        match self.file.names().into_iter().find(|name| !self.used.contains(*name)) {
            Some(name) => Err(ModelFileError::unexpected_tensor(self.path, name)),
            None => Ok(tables),
        }
    }
}

/// Returns a parameter with the values that a file has for it. The file has matrices transposed.
pub(super) fn with_values<B: Backend, const D: usize>(
    param: Param<Tensor<B, D>>,
    values: Vec<f32>,
    device: &B::Device,
) -> Param<Tensor<B, D>> {
    let mut shape = param.dims();
    if D == 2 {
        shape.reverse();
    }
    let stored = Tensor::<B, D>::from_data(TensorData::new(values, shape), device);
    let value = if D == 2 { contiguous(stored.transpose()) } else { stored };
    let is_trained = param.is_require_grad();
    param.map(|_| value.set_require_grad(is_trained))
}

/// Copies a tensor to row-major memory, the layout of a newly initialised parameter.
fn contiguous<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Tensor<B, D> {
    let device = tensor.device();
    let dims = tensor.dims();
    Tensor::from_data(TensorData::new(host_values(tensor), dims), &device)
}

/// Reads and checks a tensor of the file. `dims` is the shape of the parameter; the file has matrices transposed.
pub(super) fn read_tensor<const D: usize>(
    path: &Path,
    file: &SafeTensors<'_>,
    name: &str,
    dims: [usize; D],
) -> Result<Vec<f32>, ModelFileError> {
    let Ok(view) = file.tensor(name) else {
        return Err(ModelFileError::missing_tensor(path, name));
    };
    if view.dtype() != Dtype::F32 {
        let what = format!("tensor {name} has type {:?}, expected F32", view.dtype());
        return Err(ModelFileError::content(path, what));
    }
    let mut expected = dims.to_vec();
    if D == 2 {
        expected.reverse();
    }
    if view.shape() != expected {
        let found = view.shape().to_vec();
        let path = path.to_owned();
        return Err(ModelFileError::TensorShape { path, tensor: name.to_owned(), found, expected });
    }
    let (words, _) = view.data().as_chunks::<4>();
    let values: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
    match values.iter().position(|value| !value.is_finite()) {
        Some(position) => {
            let value = values[position];
            Err(ModelFileError::content(path, format!("tensor {name} holds {value} at element {position}")))
        }
        None => Ok(values),
    }
}

/// Checks the format and version of a file and returns its configuration as JSON.
fn read_config(path: &Path, metadata: Option<&HashMap<String, String>>) -> Result<String, ModelFileError> {
    let entry = |key| metadata.and_then(|metadata| metadata.get(key));
    for (key, expected) in [("format", FORMAT), ("version", VERSION)] {
        match entry(key) {
            Some(found) if found == expected => {}
            Some(found) => return Err(foreign(path, &format!("{key} is {found}, expected {expected}"))),
            None => return Err(foreign(path, &format!("has no {key}, expected {expected}"))),
        }
    }
    let config = entry("config").cloned();
    config.ok_or_else(|| foreign(path, "has no config, expected a model configuration"))
}

/// Returns the error of a file with other metadata than models of this version have.
fn foreign(path: &Path, metadata: &str) -> ModelFileError {
    ModelFileError::content(path, format!("it is not a model of this version: its metadata {metadata}"))
}

/// Checks that the file has as many values as the configuration describes. It runs before the model is made, so that a
/// damaged configuration cannot allocate all memory.
fn check_size(path: &Path, file: &OpenFile<'_>, expected: usize) -> Result<(), ModelFileError> {
    let parameters = file.tensors.iter().filter(|(name, _)| !name.starts_with(EMBEDDINGS));
    let given: usize = parameters.map(|(_, view)| view.shape().iter().product::<usize>()).sum();
    if given == expected {
        return Ok(());
    }
    let what = format!("the file has {given} parameters, its configuration describes {expected}");
    Err(ModelFileError::content(path, what))
}
