//! Checkpoints: the complete state of a training, from which another run continues with the same bits.
//!
//! Batches, dropout and the order of seeds are functions of the seed, the epoch and the step. The state of a rank is
//! therefore the parameters, the optimizer, the rows of embeddings and some counters. Whatever the training loop keeps
//! from one step to the next belongs to the state. Scores of the best epoch are computed again.
//! `trainer/tests/checkpoints` kills runs at many moments.
//!
//! A checkpoint is a folder `step-XXXXXXXX` with a file per rank. Each node completes it with a manifest, which it writes
//! after all ranks have written their files. Without the manifests of all nodes, a checkpoint does not exist.
//!
//! ```
//! use edgecut_cluster::Cluster;
//! use edgecut_trainer::checkpoint::{Cadence, CheckpointConfig, Checkpoints, DataIdentity};
//! # let dir = tempfile::tempdir()?;
//! let cluster = Cluster::join_local(1, |_| {})?.remove(0);
//! let config = CheckpointConfig {
//!     dir: dir.path().join("checkpoints"),
//!     every: Cadence::Epochs(1),
//!     keep: 2,
//!     resume: true,
//!     num_epochs: 10,
//!     settings: [("lr".to_owned(), "0.01".to_owned())].into(),
//!     data: DataIdentity { dataset: "fake".to_owned(), ..DataIdentity::default() },
//!     termination: None,
//!     mirror: None,
//! };
//! let checkpoints = Checkpoints::open(config, &mut cluster.world()?)?;
//! assert_eq!(checkpoints.resumed(), None, "the folder is empty");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

mod cadence;
mod checkpointer;
mod checkpoints;
mod continuation;
mod data_identity;
mod floats;
mod manifest;
mod merge;
mod mirror;
mod rank_state;
mod state_file;

pub use crate::error::CheckpointError;
pub use cadence::Cadence;
pub(crate) use checkpointer::{Checkpointer, StepPlace};
pub use checkpoints::{CheckpointConfig, Checkpoints};
pub use data_identity::DataIdentity;
pub(crate) use floats::Floats;
pub use mirror::CheckpointMirror;
pub use rank_state::Position;
pub(crate) use rank_state::{Plateau, RankState, StoredBest, StoredGradients, StoredModel, StoredShard};
