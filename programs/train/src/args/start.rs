//! The flags of the start of a training.

use crate::saved_model::read_on_rank_0;
use crate::settings::shared_flags::is_given;
use anyhow::Context;
use clap::Args;
use edgecut_cluster::ProcessGroup;
use edgecut_trainer::WarmStart;
use serde::Serialize;
use std::path::PathBuf;

/// Flags of the start of a training.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Training")]
pub(crate) struct StartArgs {
    /// Start from the weights of this saved model, which may be of another task. Tensors are matched by name and shape;
    /// those that do not match keep their initial values and are listed
    // Ranks may have different paths, but all of them start from the model that rank 0 reads.
    #[arg(long, value_name = "FILE", conflicts_with = "load_model")]
    #[serde(serialize_with = "is_given")]
    pub(crate) init_from: Option<PathBuf>,
}

impl StartArgs {
    /// Reads the model to start from on rank 0 and sends it to the others. Every rank calls this.
    ///
    /// # Errors
    /// A file that cannot be read, or a failure of the job.
    pub(crate) fn warm_start(&self, world: &mut ProcessGroup) -> anyhow::Result<Option<WarmStart>> {
        let Some(path) = &self.init_from else { return Ok(None) };
        let bytes = read_on_rank_0(path, world).context("--init-from")?;
        Ok(Some(WarmStart::new(path, bytes)))
    }
}
