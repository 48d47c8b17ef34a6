//! Scores of node pairs.

use super::args::{PredictArgs, Rows};
use super::done::{Done, in_graph};
use super::files::Columns;
use super::links::{Encoded, EndNames, OF_LINKS, encode, relation};
use super::model::open;
use super::ordered_rows::OrderedRows;
use super::progress::Progress;
use super::request::{DATA, PARTS, Request, WHOLE, on_backend};
use super::scratch_dir;
use crate::job::process_role::Rank;
use crate::node_ids::{IdFileForm, NodeIdFile};
use crate::tasks::link::LINKS;
use anyhow::{Context, bail};
use clap::Args;
use edgecut_cluster::ReduceOp;
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::metrics::Decision;
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// The largest number of pairs that are scored at once.
const MAX_BLOCK: usize = 1 << 16;

/// The flags of scores.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct PairFlags {
    /// --output score: CSV or Parquet file with the columns src and dst, or .npy file, [2, n]: ids of the tables, or row
    /// numbers of other graphs
    // Ranks may have different paths. `PredictFlags` compares the contents.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pairs: Option<PathBuf>,
}

/// Scores of node pairs.
pub(super) const REQUEST: Request = Request {
    reads: &[DATA, PARTS, WHOLE, OF_LINKS, &["pairs"]],
    stem: "scores",
    check: |args| match args.own.pairs.pairs {
        Some(_) => Ok(()),
        None => Err("--pairs is missing: --output score needs a file of sources and destinations"),
    },
    ..Request::new(LINKS, "--output score", |args| args.output == Rows::Score, on_backend!(run))
};

fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let path = args.own.pairs.pairs.as_deref().context("--pairs is missing")?;
    let file = NodeIdFile::read("--pairs", path, IdFileForm::Pairs, args.row_numbers)?;
    let scratch_dir = scratch_dir(args)?;
    in_graph(args, rank, Some(file.checksum()), |job| {
        let start = Instant::now();
        let opened = open::<B>(args, Some(job.graph.part().meta()), job.world, device)?;
        let relation = relation(&opened, job.graph.part())?;
        let root = args.part.dataset_root_dir.as_deref();
        let ends = file.find(&relation.ends, root, &job.graph, job.world)?;
        let [sources, destinations] = &ends[..] else { bail!("--pairs {}: it has no pairs", path.display()) };
        let progress = Progress::new(&args.job, job.world.rank());
        let Encoded { model, ends: rows_of_ends, .. } =
            encode(&opened, relation.edge_type, scratch_dir, &progress, job, device)?;
        progress.finish();
        // A pair holds the rows of both nodes, as they arrive and as tensors, the query and a product.
        let of_pair = 6 * rows_of_ends.dim() * size_of::<f32>();
        let mut block = [(args.memory_bytes as usize / of_pair).clamp(1, MAX_BLOCK) as u64];
        job.world.all_reduce(&mut block, ReduceOp::Min)?;
        let names = EndNames::open(args, &relation, job)?;
        let found = names.of([sources.clone(), destinations.clone()], job.world)?;
        let output = OrderedRows {
            args,
            stem: REQUEST.stem,
            columns: Columns::of_scores(&["src_id", "dst_id"]),
            decision: Decision::default(),
            num_rows: sources.len(),
            width: 1,
            block: block[0] as usize,
            ids: &|rows| vec![sources[rows.clone()].to_vec(), destinations[rows].to_vec()],
            named: names.named(),
            more: &|ids| found.columns([&ids[0], &ids[1]]),
            classes: None,
        };
        output.write(job.world, |rows| {
            Ok(B::score_pairs(&rows_of_ends, model, &sources[rows.clone()], &destinations[rows], device)?)
        })?;
        let pairs = sources.len();
        Ok(Done::new(format!("scores of {pairs} pairs"), json!({ "pairs": pairs }), Some(start.elapsed())))
    })
}
