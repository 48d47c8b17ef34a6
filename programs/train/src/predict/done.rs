//! The job of a request, from the folder of the files to the printed result.

use super::args::PredictArgs;
use super::{PredictFlags, is_output, request_of};
use crate::job::graph_session::{self, GraphSession};
use crate::job::labels::WantedLabels;
use crate::job::process_role::Rank;
use crate::job::{self, Job};
use crate::sample::output_folder::{OldOutputs, reserve};
use anyhow::Context;
use edgecut_cli::{message, result};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// The result of a request.
pub(super) struct Done<R> {
    /// The content of the files.
    what: String,
    /// The fields of the result with `--json`.
    fields: R,
    /// The time of the computation; `None` if there was none.
    time: Option<Duration>,
    /// The end of the name of the folder in the printed result.
    pub(super) details: String,
    /// Further lines of the printed result.
    pub(super) lines: Vec<String>,
    /// Notes on the result.
    pub(super) notes: Vec<String>,
}

/// The result that `--json` prints.
#[derive(Serialize)]
struct Report<'a, R> {
    out: &'a Path,
    #[serde(flatten)]
    fields: &'a R,
    #[serde(skip_serializing_if = "Option::is_none")]
    compute_seconds: Option<f64>,
}

impl<R: Serialize> Done<R> {
    pub(super) fn new(what: String, fields: R, time: Option<Duration>) -> Self {
        Self { what, fields, time, details: String::new(), lines: Vec::new(), notes: Vec::new() }
    }

    /// Prints the result: as JSON with `--json`, else as text.
    fn print(&self, args: &PredictArgs) -> anyhow::Result<()> {
        for note in &self.notes {
            message!("note: {note}");
        }
        let out = args.job.stores.given("out", &args.out);
        let compute_seconds = self.time.map(|time| time.as_secs_f64());
        if args.json {
            let report = Report { out, fields: &self.fields, compute_seconds };
            result!("{}", serde_json::to_string(&report).context("write the result as JSON")?)?;
            return Ok(());
        }
        let mut text = format!("{} in {}{}", self.what, out.display(), self.details);
        if let Some(seconds) = compute_seconds {
            text += &format!(", computed in {seconds:.2} s");
        }
        for line in &self.lines {
            text += &format!("\n{line}");
        }
        Ok(result!("{text}")?)
    }
}

/// Joins a job with a part of the graph, and does a request, whose result rank 0 prints. `listed` is the checksum of the ids
/// in the files that the flags name.
pub(super) fn in_graph<R: Serialize>(
    args: &PredictArgs,
    rank: &Rank,
    listed: Option<String>,
    work: impl FnOnce(&mut GraphSession<'_>) -> anyhow::Result<Done<R>>,
) -> anyhow::Result<()> {
    let mut labels = WantedLabels::First;
    if request_of(args).reads("target") {
        labels = WantedLabels::OfPrediction { targets: &args.target, model: &args.load_model };
    }
    let old = prepare_out(args, rank)?;
    let flags = PredictFlags { args, listed };
    graph_session::run(&args.job, &args.part, rank, labels, &flags, |job| printed(work(job)?, args, rank))?;
    old.remove()
}

/// Joins a job without a graph in parts, as [`in_graph`] does. `data` identifies the data.
pub(super) fn in_job<R: Serialize>(
    args: &PredictArgs,
    rank: &Rank,
    data: String,
    listed: Option<String>,
    work: impl FnOnce(&mut Job<'_>) -> anyhow::Result<Done<R>>,
) -> anyhow::Result<()> {
    let old = prepare_out(args, rank)?;
    let flags = PredictFlags { args, listed };
    job::run(&args.job, rank, data, &flags, |job| printed(work(job)?, args, rank))?;
    old.remove()
}

/// Prints a result on rank 0.
fn printed<R: Serialize>(done: Done<R>, args: &PredictArgs, rank: &Rank) -> anyhow::Result<()> {
    if rank.rank == 0 { done.print(args) } else { Ok(()) }
}

/// Creates the folder of the files, and returns the files of an earlier run in it, to be removed when all ranks are done.
/// The first process of each node does it.
fn prepare_out(args: &PredictArgs, rank: &Rank) -> anyhow::Result<OldOutputs> {
    if rank.local_rank > 0 {
        return Ok(OldOutputs::default());
    }
    reserve(&args.out, "predictions", is_output, args.overwrite, rank.rank == 0)
}
