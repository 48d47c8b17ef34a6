//! Learned vectors of a saved model: an embedding table, or the relation vectors of a decoder.

use super::args::{Format, PredictArgs, Rows};
use super::done::{Done, in_job};
use super::files::{Columns, NamedColumns, USER_ID, create_rows};
use super::model::open;
use super::request::{Request, on_backend};
use super::values::Values;
use crate::id_map_file::UserColumn;
use crate::job::Job;
use crate::job::process_role::Rank;
use crate::tasks::link::{ForLinks, LINKS};
use crate::tasks::node::NODES;
use anyhow::{Context, bail};
use edgecut_cluster::ProcessGroup;
use edgecut_graph::TableIds;
use edgecut_output::write_output;
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::model_file::{EmbeddingSize, SavedEmbeddings, TableBlock};
use edgecut_trainer::models::GraphSchema;
use serde_json::json;
use std::path::Path;

/// The names of edge types beside their relation vectors.
const RELATION_NAMES: &str = "relation_names.json";
/// The number of rows of a table that are written at once.
const BLOCK: usize = 1 << 16;

/// A learned embedding table.
pub(super) const TABLE: Request = Request {
    reads: &[&["node_type"]],
    ..Request::new(NODES, "--output table", |args| args.output == Rows::Table, on_backend!(run))
};

/// The relation vectors of a decoder.
pub(super) const RELATIONS: Request = Request {
    beside: &[RELATION_NAMES],
    ..Request::new(LINKS, "--output relation", |args| args.output == Rows::Relation, on_backend!(run))
};

/// Writes a table or the relations. They need no graph. Rank 0 reads the files of the model and writes.
fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    in_job(args, rank, "saved model".into(), None, |Job { world, .. }| {
        let rows = match args.output {
            Rows::Relation => write_relations::<B>(args, world, device)?,
            _ => write_table::<B>(args, world, device)?,
        };
        world.barrier()?;
        Ok(Done::new(format!("{rows} rows"), json!({ "rows": rows }), None))
    })
}

/// Writes the embeddings of a node type in the order of its nodes. Returns their number.
fn write_table<B: TrainingBackend>(
    args: &PredictArgs,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> anyhow::Result<usize> {
    let model = open::<B>(args, None, world, device)?.model;
    let embeddings = &model.embeddings;
    let size = table_of(args, embeddings)?;
    let columns = Columns::of_numbers(&["node_id"], "embedding", size.dim);
    let mut writing = None;
    if world.rank() == 0 {
        let blocks = embeddings.blocks(&size, args.format != Format::Npy).context("--load-model")?;
        let named: NamedColumns = blocks.no_ids().map(|empty| (USER_ID, user_column(empty))).into_iter().collect();
        let file = create_rows("predictions", args, &columns, named, size.num_nodes)?;
        writing = Some((blocks, file));
    }
    for _ in (0..size.num_nodes).step_by(BLOCK) {
        if let Some((blocks, file)) = &mut writing
            && let Some(TableBlock { nodes, values, ids }) = blocks.next_block(BLOCK).context("--load-model")?
        {
            let nodes: Vec<u32> = nodes.collect();
            let ids: Vec<UserColumn> = ids.map(user_column).into_iter().collect();
            file.push(&[&nodes], &ids, &Values::Numbers(values))?;
        }
        // Meeting at every block bounds the wait for rank 0 to the time of one block.
        world.barrier()?;
    }
    if let Some((mut blocks, file)) = writing {
        // The last call checks that no row is left.
        blocks.next_block(BLOCK).context("--load-model")?;
        file.commit()?;
    }
    Ok(size.num_nodes)
}

fn user_column(ids: TableIds) -> UserColumn {
    match ids {
        TableIds::Numbers(numbers) => UserColumn::Numbers(numbers),
        TableIds::Texts(texts) => {
            UserColumn::Texts((0..texts.num_texts()).map(|at| texts.get(at).to_vec().into()).collect())
        }
    }
}

/// Returns the table of `--node-type`, or the only one.
fn table_of(args: &PredictArgs, embeddings: &SavedEmbeddings) -> anyhow::Result<EmbeddingSize> {
    let model = args.load_model.display();
    let mut sizes = embeddings.sizes();
    let names = sizes.iter().map(|size| size.node_type.as_str()).collect::<Vec<_>>().join(", ");
    if sizes.is_empty() {
        bail!("--output table: {model} has no embedding tables, because all of its nodes have features");
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
    let opened = open::<B>(args, None, world, device)?;
    let (model, config) = opened.predictor::<ForLinks<B>>()?;
    let schema = &config.encoder.graph;
    let num_types = schema.edge_types.len();
    let Some(values) = B::relation_values(model) else {
        bail!(
            "--output relation: the decoder of {} is {}, which has no relation vectors",
            args.load_model.display(),
            config.decoder
        );
    };
    if world.rank() != 0 {
        return Ok(num_types);
    }
    let columns = Columns::of_numbers(&["edge_type_id"], "relation", values.len() / num_types.max(1));
    let mut file = create_rows("predictions", args, &columns, Vec::new(), num_types)?;
    let ids: Vec<u32> = (0..num_types as u32).collect();
    file.push(&[&ids], &[], &Values::Numbers(values))?;
    write_names(&args.out.join(RELATION_NAMES), schema)?;
    file.commit()?;
    Ok(num_types)
}

/// Writes the names of edge types as a list in JSON.
fn write_names(path: &Path, schema: &GraphSchema) -> anyhow::Result<()> {
    let mut names = Vec::new();
    for edges in &schema.edge_types {
        let [src, dst] = [edges.src, edges.dst].map(|end| &schema.node_types[end.index()].name);
        names.push(format!("{src}__{}__{dst}", edges.relation));
    }
    let names = serde_json::to_vec(&names).context("write names as JSON")?;
    write_output(path, &names).with_context(|| format!("--out: write {}", path.display()))
}
