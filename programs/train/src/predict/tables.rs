//! Learned vectors of a saved model: an embedding table, or the relation vectors of a decoder.

use super::args::{Format, PredictArgs, Rows};
use super::files::{Columns, NpyFile, RELATION_NAMES, Table};
use super::model::{Data, Model, open, open_link};
use super::values::Values;
use super::{PredictFlags, prepare_out};
use crate::job::process_role::Rank;
use crate::job::{self, Job};
use anyhow::{Context, bail};
use edgecut_cli::result;
use edgecut_cluster::ProcessGroup;
use edgecut_output::OutputFile;
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::model_file::{EmbeddingSize, SavedEmbeddings};
use edgecut_trainer::models::GraphSchema;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// The number of rows of a table that are written at once.
const BLOCK: usize = 1 << 16;

/// The result that `--json` prints.
#[derive(Serialize)]
struct TableResult<'a> {
    out: &'a Path,
    rows: usize,
}

/// Writes a table or the relations. They need no graph. Rank 0 reads the files of the model and writes.
pub(super) fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let old = prepare_out(args, rank)?;
    let flags = PredictFlags { args, listed: None };
    job::run(&args.job, rank, "saved model".into(), &flags, |Job { world, .. }| {
        let rows = match args.output {
            Rows::Relation => write_relations::<B>(args, world, device)?,
            _ => write_table::<B>(args, world, device)?,
        };
        world.barrier()?;
        if rank.rank == 0 {
            let result = TableResult { out: &args.out, rows };
            if args.json {
                result!("{}", serde_json::to_string(&result).context("write the result as JSON")?)?;
            } else {
                result!("{rows} rows in {}", args.out.display())?;
            }
        }
        Ok(())
    })?;
    old.remove()
}

/// Writes the embeddings of a node type in the order of its nodes. Returns their number.
fn write_table<B: TrainingBackend>(
    args: &PredictArgs,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> anyhow::Result<usize> {
    let embeddings = match open::<B>(args, Data::None, world, device)?.model {
        Model::Node(_, _, embeddings, _) | Model::Link(_, _, embeddings) => embeddings,
        Model::Edge(opened) => opened.embeddings,
        Model::Graph(..) => bail!(
            "--output table: {} is a model for whole graphs, which has no embedding tables",
            args.load_model.display()
        ),
    };
    let size = table_of(args, &embeddings)?;
    let columns = Columns::of_numbers(&["node_id"], "embedding", size.dim);
    let mut file = (world.rank() == 0).then(|| RowsFile::create(args, columns, size.num_nodes)).transpose()?;
    for first in (0..size.num_nodes).step_by(BLOCK) {
        if let Some(file) = &mut file {
            let nodes: Vec<u32> = (first as u32..(first + BLOCK).min(size.num_nodes) as u32).collect();
            let values = embeddings.rows(&size, &nodes).context("--load-model")?;
            file.push(&nodes, Values::Numbers(values))?;
        }
        // Meeting at every block bounds the wait for rank 0 to the time of one block.
        world.barrier()?;
    }
    if let Some(file) = file {
        file.commit()?;
    }
    Ok(size.num_nodes)
}

/// Returns the table of `--node-type`, or the only one.
fn table_of(args: &PredictArgs, embeddings: &SavedEmbeddings) -> anyhow::Result<EmbeddingSize> {
    let model = args.load_model.display();
    let mut sizes = embeddings.sizes();
    let names = sizes.iter().map(|size| size.node_type.as_str()).collect::<Vec<_>>().join(", ");
    if sizes.is_empty() {
        bail!("--output table: {model} has no embedding tables, because all of its node types have features");
    }
    match &args.node_type {
        Some(name) => match sizes.iter().position(|size| size.node_type == *name) {
            Some(at) => Ok(sizes.swap_remove(at)),
            None => bail!("--node-type {name}: {model} has no table of this type: choose one of {names}"),
        },
        None if sizes.len() == 1 => Ok(sizes.swap_remove(0)),
        None => bail!("--output table: {model} has several tables: choose one of {names} with --node-type"),
    }
}

/// Writes the relation vectors, and the names of the edge types in their order. Returns the number of edge types.
fn write_relations<B: TrainingBackend>(
    args: &PredictArgs,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> anyhow::Result<usize> {
    let (model, config, _) = open_link::<B>(args, "--output relation", Data::None, world, device)?;
    let schema = &config.encoder.graph;
    let num_types = schema.edge_types.len();
    let types: Vec<u16> = (0..num_types).map(|edge_type| edge_type as u16).collect();
    let Some(rows) = model.decoder.relation_rows(&types) else {
        bail!(
            "--output relation: the decoder of {} is {}, which has no relation vectors",
            args.load_model.display(),
            config.decoder
        );
    };
    if world.rank() != 0 {
        return Ok(num_types);
    }
    let [_, width] = rows.dims();
    let columns = Columns::of_numbers(&["edge_type_id"], "relation", width);
    let mut file = RowsFile::create(args, columns, num_types)?;
    let ids: Vec<u32> = types.iter().map(|&edge_type| u32::from(edge_type)).collect();
    file.push(&ids, Values::Numbers(rows.into_data().iter::<f32>().collect()))?;
    write_names(&args.out.join(RELATION_NAMES), schema)?;
    file.commit()?;
    Ok(num_types)
}

/// Writes the names of edge types as a list in JSON.
fn write_names(path: &Path, schema: &GraphSchema) -> anyhow::Result<()> {
    let name = |node_type: edgecut_graph::NodeTypeId| &schema.node_types[node_type.index()].name;
    let names: Vec<String> = schema
        .edge_types
        .iter()
        .map(|edges| format!("{}__{}__{}", name(edges.src), edges.relation, name(edges.dst)))
        .collect();
    let write = || {
        let output = OutputFile::create(path)?;
        output.file().write_all(&serde_json::to_vec(&names)?)?;
        output.commit()
    };
    write().with_context(|| format!("--out: write {}", path.display()))
}

/// The only file of a table.
enum RowsFile {
    Array(NpyFile),
    Table(Table),
}

impl RowsFile {
    fn create(args: &PredictArgs, columns: Columns, num_rows: usize) -> anyhow::Result<Self> {
        if args.format == Format::Npy {
            let path = args.out.join("predictions.npy");
            return Ok(Self::Array(NpyFile::of_values(&path, columns.shape, num_rows)?));
        }
        Ok(Self::Table(Table::create("predictions", args, columns)?))
    }

    fn push(&mut self, ids: &[u32], values: Values) -> anyhow::Result<()> {
        match self {
            Self::Array(file) => file.push(&values),
            Self::Table(file) => file.push(&[ids], &values),
        }
    }

    fn commit(self) -> anyhow::Result<()> {
        match self {
            Self::Array(file) => file.commit(),
            Self::Table(file) => file.commit(),
        }
    }
}
