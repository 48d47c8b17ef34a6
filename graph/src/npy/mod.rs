//! Arrays in `.npy` files.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

mod checksum;
mod element;
mod features;
mod map;
mod stored_array;
mod writer;

pub use checksum::{FileMeta, checksum};
pub use element::NpyElement;
pub(crate) use features::write_features_with;
pub use features::{map_features, write_features};
pub use map::map_npy;
pub(crate) use stored_array::StoredArray;
pub use stored_array::{npy_shape, read_npy};
pub(crate) use writer::NpyWriter;
pub use writer::{npy_header, write_npy};
