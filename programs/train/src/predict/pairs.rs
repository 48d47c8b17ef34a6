//! Scores of node pairs.

use super::args::PredictArgs;
use super::files::Columns;
use super::ids::{Pairs, check_ids};
use super::links::{edge_type, encode};
use super::ordered_rows::OrderedRows;
use super::progress::Progress;
use super::{PredictFlags, prepare_out, print, scratch_dir};
use crate::job::graph_session;
use crate::job::process_role::Rank;
use anyhow::Context;
use edgecut_cluster::ReduceOp;
use edgecut_trainer::TrainingBackend;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// The largest number of pairs that are scored at once.
const MAX_BLOCK: usize = 1 << 16;

/// The result that `--json` prints.
#[derive(Serialize)]
struct PairsResult<'a> {
    out: &'a Path,
    pairs: usize,
    compute_seconds: f64,
}

pub(super) fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let path = args.pairs.as_deref().context("--pairs is missing")?;
    let pairs = Pairs::read(path)?;
    let scratch_dir = scratch_dir(args)?;
    let old = prepare_out(args, rank)?;
    let flags = PredictFlags { args, listed: Some(pairs.checksum()) };
    graph_session::run(&args.job, &args.part, rank, &flags, |job| {
        let start = Instant::now();
        let (edge_type, num_nodes) = edge_type(args, job.graph.part())?;
        let what = format!("--pairs {}", path.display());
        check_ids(&what, &pairs.sources, "source", num_nodes[0])?;
        check_ids(&what, &pairs.destinations, "destination", num_nodes[1])?;
        let progress = Progress::new(&args.job, job.world.rank());
        let (model, ends) = encode::<B>(args, edge_type, scratch_dir, &progress, job, device)?;
        progress.finish();
        // A pair holds the rows of both nodes, as they arrive and as tensors, the query and a product.
        let of_pair = 6 * ends.dim() * size_of::<f32>();
        let mut block = [(args.memory_bytes as usize / of_pair).clamp(1, MAX_BLOCK) as u64];
        job.world.all_reduce(&mut block, ReduceOp::Min)?;
        let output = OrderedRows {
            args,
            stem: "scores",
            columns: Columns::of_scores(&["src", "dst"]),
            num_rows: pairs.sources.len(),
            width: 1,
            block: block[0] as usize,
            ids: &|rows| vec![pairs.sources[rows.clone()].to_vec(), pairs.destinations[rows].to_vec()],
        };
        output.write(job.world, |rows| {
            let sources = &pairs.sources[rows.clone()];
            Ok(B::score_pairs(&ends, &model, sources, &pairs.destinations[rows], device)?)
        })?;
        if job.world.rank() == 0 {
            let compute_seconds = start.elapsed().as_secs_f64();
            let result = PairsResult { out: &args.out, pairs: pairs.sources.len(), compute_seconds };
            let out = args.out.display();
            let text = format!("scores of {} pairs in {out}, computed in {compute_seconds:.2} s", result.pairs);
            print(args, &result, &text)?;
        }
        Ok(())
    })?;
    old.remove()
}
