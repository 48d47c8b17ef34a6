//! Arrays that are owned or memory-mapped, feature matrices, and the tools that read and write them fast.

mod buffer;
mod external_features;
mod feature_dtype;
mod features;
mod gathered_rows;
mod growing_array;
mod mapped_file;
mod mapped_ranges;
mod prefetch;
mod scratch_file;
mod shown_bytes;
mod streaming;
pub mod uninit;
mod workspace;

pub use buffer::Buffer;
pub use feature_dtype::{FeatureDtype, FeatureDtypes};
pub(crate) use features::select_rows;
pub use features::{Features, OutOfRange};
pub use gathered_rows::GatheredRows;
pub use growing_array::GrowingArray;
pub(crate) use mapped_file::MappedFile;
pub use mapped_ranges::end_on_unreadable_pages;
pub use prefetch::{prefetch, prefetch_all};
pub use shown_bytes::shown_bytes;
pub(crate) use workspace::Scratch;
pub use workspace::{WorkObserver, Workspace};
