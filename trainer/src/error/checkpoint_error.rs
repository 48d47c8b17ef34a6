//! The error type of checkpoints.

use edgecut_cluster::ClusterError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A failure to write a checkpoint or to continue from one.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// A file or folder that cannot be written.
    #[error("write the checkpoint {}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file or folder that cannot be read.
    #[error("read the checkpoint {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file whose content is not the content that was written.
    #[error("{} is damaged: {remedy}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The remedy.
        remedy: String,
        /// The damage.
        source: io::Error,
    },
    /// A checkpoint of a run with other settings, ranks or data, or one that the run may not overwrite.
    #[error("{what}")]
    Refused {
        /// The problem and its remedy.
        what: String,
    },
    /// A failure of the job while its ranks agree on a checkpoint.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}
