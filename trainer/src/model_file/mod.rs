//! Model files: trained models on disk, as safetensors.
//!
//! # The file
//! - One `F32` tensor per parameter, named by its path in the model. GraphSAGE: `layers.0.weight_neighbors`,
//!   `layers.0.weight_self`, `layers.0.bias`. GCN: `layers.0.weight`, `layers.0.bias`. GAT: `layers.0.weight_src`,
//!   `layers.0.attention_src`. A network over typed edges: `encoders.0.weight` (by node type),
//!   `layers.0.conv.weights.1` (by edge type), `layers.0.conv.own.0.weight`, `outputs.0.weight`. A network for whole
//!   graphs: `layers.0.mlp.layers.0.weight`, `norms.0.gamma`, `norms.0.running_mean`, `output.weight`.
//! - One embedding table per node type with learned embeddings. [`ModelSaver`] writes the tables of a model
//!   `model.safetensors` to the folder `model.safetensors.embeddings`, in one file per process,
//!   `SAVE.rank_0-of-2.safetensors`. A file has the rows that the process holds, `embeddings.author`,
//!   `[num_rows, channels]`, and their nodes, `original_ids.author`, `U32`, ascending. If the nodes have ids in a table,
//!   the file has these too: numbers, `table_ids.author`, `I64`, or texts, as the `U8` tensor `table_ids.author` of all
//!   bytes and the `U64` tensor `table_id_ends.author` with the end of each text. [`save_model`] writes the tables
//!   to the model file itself, `embeddings.author`: `[num_nodes, channels]`, by original id. Both forms can be read.
//! - Parameters of two dimensions have PyTorch's orientation, `[out_channels, in_channels]`, so that renamed tensors
//!   can be loaded into a PyG model with `load_state_dict`. Of a `SAGEConv`, `weight_neighbors` is `lin_l.weight`,
//!   `weight_self` is `lin_r.weight` and `bias` is `lin_l.bias`. Of a `GCNConv`, `weight` is `lin.weight` and `bias` is
//!   `bias`. Of a `GATv2Conv`, `weight_src`, `weight_dst`, `bias_src` and `bias_dst` are `lin_l.weight`,
//!   `lin_r.weight`, `lin_l.bias` and `lin_r.bias`.
//! - Metadata: `format` is `edgecut-model`, `version` is `1`. `config` is the [`NetworkConfig`] as JSON
//!   ([`LinkModelConfig`] of a model for links, [`EdgeModelConfig`] of a model for edges), so that loading needs no
//!   further settings. `task` is a [`SavedTask`] as JSON; without it, the configuration tells the task, and the model
//!   predicts classes or links. `pyg_layers` describes layers that the Python package does
//!   not know ([`PygLayer`] as JSON). `origin` is a [`ModelOrigin`] as JSON. `trained_on` is a [`TrainedOn`] as JSON. `embeddings` lists the tables
//!   and their files as JSON.
//!
//! A file is written under a temporary name, synced and renamed, and the model file is written last. A reader of the
//! path therefore sees the complete old model or the complete new model.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

mod best_model;
mod embedding_index;
mod embedding_table;
mod file_header;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod model_origin;
mod model_saver;
mod new_embeddings;
mod read;
mod row_ids;
mod row_reader;
mod saved_embeddings;
mod saved_task;
mod settings;
mod shard_files;
mod shard_writer;
mod table_blocks;
mod tensor_name;
mod trained_on;
mod wanted_rows;
mod warm_start;
mod warm_start_report;
mod write;

pub use crate::error::ModelFileError;
pub use best_model::{BestModel, NamedTable};
pub use embedding_index::{embedding_files, is_embedding_file};
pub use embedding_table::EmbeddingTable;
pub use model_origin::ModelOrigin;
pub use model_saver::ModelSaver;
pub use new_embeddings::{MatchedRows, NewEmbeddings};
pub use read::{Loaded, load_model, open_model, parse_model, read_network};
pub(crate) use row_ids::positions_by_id;
pub use saved_embeddings::{EmbeddingSize, SavedEmbeddings};
pub use saved_task::{SavedLoss, SavedTask, TaskKind};
pub(crate) use settings::encoder_settings;
pub use settings::{LoadableConfig, ModelSettings};
pub use table_blocks::{TableBlock, TableBlocks};
pub(crate) use tensor_name::{ModulePath, follows_path, tensor_names};
pub use trained_on::{OtherData, ReadData, TrainedOn};
pub(crate) use wanted_rows::WantedRows;
pub use warm_start::WarmStart;
pub use warm_start_report::{FreshTable, OtherShape, WarmStartReport};
pub use write::{ModelView, save_model};

#[cfg(doc)]
use crate::models::{EdgeModelConfig, LinkModelConfig, NetworkConfig};
#[cfg(doc)]
use edgecut_gnn::nn::PygLayer;

const FORMAT: &str = "edgecut-model";
const VERSION: &str = "1";
/// The prefix of the names of embedding tensors.
const EMBEDDINGS: &str = "embeddings.";
/// The prefix of the names of the tensors with the original ids of embeddings' nodes.
const ORIGINAL_IDS: &str = "original_ids.";

/// The prefix of the names of the tensors with the ids of embeddings' nodes in their tables.
const TABLE_IDS: &str = "table_ids.";
/// The prefix of the names of the tensors with the ends of ids that are texts.
const TABLE_ID_ENDS: &str = "table_id_ends.";

/// Returns the name of the tensor with a node type's embeddings.
fn embedding_name(node_type: &str) -> String {
    format!("{EMBEDDINGS}{node_type}")
}

/// Returns the name of the tensor with the original ids of a node type's embeddings.
fn original_ids_name(node_type: &str) -> String {
    format!("{ORIGINAL_IDS}{node_type}")
}

/// Returns the name of the tensor with the ids of the nodes of a type in their table.
fn table_ids_name(node_type: &str) -> String {
    format!("{TABLE_IDS}{node_type}")
}

/// Returns the name of the tensor with the ends of the ids of the nodes of a type, if they are texts.
fn table_id_ends_name(node_type: &str) -> String {
    format!("{TABLE_ID_ENDS}{node_type}")
}
