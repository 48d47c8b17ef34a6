//! Checkpoints: the complete state of a training, from which another run continues with the same bits.
//!
//! Batches, dropout and the order of seeds are functions of the seed, the epoch and the step. The state of a rank is
//! therefore the parameters, the optimizer, the rows of embeddings and some counters. Whatever the training loop keeps
//! from one step to the next belongs to the state. Scores of the best epoch are computed again.
//! `programs/train/tests/checkpoints` kills runs at many moments.
//!
//! A checkpoint is a folder `step-XXXXXXXX` with a file per rank. Each node completes it with a manifest, which it writes
//! after all ranks have written their files. Without the manifests of all nodes, a checkpoint does not exist.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

mod cadence;
mod checkpointer;
mod checkpoints;
mod continuation;
mod data_identity;
mod manifest;
mod merge;
mod mirror;
mod rank_state;
mod state_file;

pub use crate::error::CheckpointError;
pub(crate) use crate::floats::Floats;
pub use cadence::Cadence;
pub(crate) use checkpointer::{Checkpointer, StepPlace};
pub use checkpoints::{CheckpointConfig, Checkpoints};
pub use data_identity::DataIdentity;
pub use mirror::CheckpointMirror;
pub use rank_state::Position;
pub(crate) use rank_state::{Plateau, RankState, StoredBest, StoredGradients, StoredModel, StoredShard};
