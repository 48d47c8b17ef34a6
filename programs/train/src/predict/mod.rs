//! The command `train predict`: predictions, embeddings and scores of a saved model, in files. A file per request, and their
//! list at the end of this module.

pub(crate) mod args;
mod checks;
mod class_names;
mod done;
mod edge_names;
mod edges;
mod explain;
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
use crate::job::device::of_rank;
use crate::job::process_role::Rank;
use anyhow::bail;
use args::PredictArgs;
use checks::check;
use clap::Args;
use edgecut_cluster::Termination;
pub(crate) use files::is_output;
use request::Request;
use serde::Serialize;
use std::path::PathBuf;

impl JobCommand for PredictArgs {
    fn flags(&self) -> JobFlags<'_> {
        let part = request_of(self).reads_parts().then_some(&self.part);
        JobFlags { job: &self.job, part, device: Some(&self.device), training: None }
    }

    fn check(&self) -> anyhow::Result<()> {
        refuse_verbose(&self.job)?;
        check(self)
    }

    fn run(&self, mut rank: Rank, _termination: Option<&Termination>) -> anyhow::Result<()> {
        let device = of_rank(&self.device, self.job.stores.cache_dir.as_deref(), &mut rank)?;
        (request_of(self).run)(self, &rank, device)
    }
}

/// Returns true if a process of the job reads the ids of the nodes of all parts. `is_first` is true for rank 0.
pub(crate) fn needs_all_ids(args: &PredictArgs, is_first: bool) -> bool {
    (request_of(args).needs_all_ids)(args, is_first)
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

macro_rules! requests {
    ($($request:path $(, $name:ident: $flags:ty)?;)*) => {
        /// The flags that single requests declare.
        #[derive(Clone, Debug, Args, Serialize)]
        pub(crate) struct RequestFlags {
            $($(
                #[command(flatten)]
                #[serde(flatten)]
                pub(crate) $name: $flags,
            )?)*
        }

        /// All requests.
        const REQUESTS: &[Request] = &[$($request),*];
    };
}

// Each request, and its flags if it has some. Later requests take precedence, and the first one needs no flag.
requests! {
    nodes::REQUEST;
    edges::REQUEST, edges: edges::EdgeFlags;
    graphs::REQUEST, graphs: graphs::GraphFlags;
    pairs::REQUEST, pairs: pairs::PairFlags;
    top_k::REQUEST, top_k: top_k::TopKFlags;
    tables::TABLE;
    tables::RELATIONS;
    explain::REQUEST, explain: explain::ExplainFlags;
    edges::EXPLAINED_EDGES;
    graphs::EXPLAINED_GRAPHS;
}

/// Returns the request that the flags make.
fn request_of(args: &PredictArgs) -> &'static Request {
    REQUESTS.iter().rfind(|request| (request.is_made)(args)).unwrap_or(&REQUESTS[0])
}
