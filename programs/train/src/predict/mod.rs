//! The command `train predict`: predictions, embeddings and scores of a saved model, in files.

pub(crate) mod args;
mod checks;
mod class_names;
mod done;
mod edge_names;
mod edges;
mod explain;
mod explain_graphs;
mod failure;
mod feature_names;
mod files;
mod graphs;
mod ids;
mod links;
mod model;
mod node_names;
mod nodes;
mod ordered_rows;
mod pairs;
mod parquet_file;
mod progress;
mod request;
mod selection;
mod submission;
mod tables;
mod top_k;
mod values;

use crate::job::command::{JobCommand, JobFlags, refuse_verbose};
use crate::job::device::{of_rank, on_device};
use crate::job::process_role::Rank;
use anyhow::bail;
use args::{Format, PredictArgs};
use checks::check;
use edgecut_cluster::Termination;
use edgecut_gnn::ops::Precision;
use edgecut_trainer::TrainingBackend;
pub(crate) use files::is_output;
use request::Request;
use serde::Serialize;
use std::path::PathBuf;

impl JobCommand for PredictArgs {
    fn flags(&self) -> JobFlags<'_> {
        let part = Request::of(self).reads_parts().then_some(&self.part);
        JobFlags { job: &self.job, part, device: Some(&self.device), training: None }
    }

    fn check(&self) -> anyhow::Result<()> {
        refuse_verbose(&self.job)?;
        check(self)
    }

    fn run(&self, mut rank: Rank, _termination: Option<&Termination>) -> anyhow::Result<()> {
        on_device!(of_rank(&self.device, self.job.stores.cache_dir.as_deref(), &mut rank)?, |B, device| run::<B>(
            self, &rank, device
        ))
    }
}

fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    args.device.check_types::<B>(Precision::F32, device)?;
    match Request::of(args) {
        Request::Nodes => nodes::run::<B>(args, rank, device),
        Request::Edges => edges::run::<B>(args, rank, device),
        Request::Explanations => explain::run::<B>(args, rank, device),
        Request::GraphExplanations => explain_graphs::run::<B>(args, rank, device),
        Request::Pairs => pairs::run::<B>(args, rank, device),
        Request::TopK => top_k::run::<B>(args, rank, device),
        Request::Graphs => graphs::run::<B>(args, rank, device),
        Request::Table | Request::Relations => tables::run::<B>(args, rank, device),
    }
}

/// Returns true if a process of the job reads the ids of the nodes of all parts. `is_first` is true for rank 0.
pub(crate) fn needs_all_ids(args: &PredictArgs, is_first: bool) -> bool {
    match Request::of(args) {
        Request::Edges => true,
        Request::Nodes => is_first && args.gather && args.format != Format::Npy,
        _ => false,
    }
}

/// The flags of `train predict` that must be equal on all ranks.
#[derive(Serialize)]
struct PredictFlags<'a> {
    #[serde(flatten)]
    args: &'a PredictArgs,
    /// The checksum of the ids in the files that the flags name.
    listed: Option<String>,
}

/// Returns the folder of the outputs of layers, which must exist.
fn scratch_dir(args: &PredictArgs) -> anyhow::Result<PathBuf> {
    let dir = args.scratch_dir.clone().unwrap_or_else(std::env::temp_dir);
    if !dir.is_dir() {
        bail!("--scratch-dir {}: it is not a folder: create it, or choose another", dir.display());
    }
    Ok(dir)
}
