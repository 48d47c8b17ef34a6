//! The errors of the trainer. This module uses no other module of the crate.

mod checkpoint_error;
mod flat_length_error;
mod model_error;
mod model_file_error;
mod train_error;

pub use checkpoint_error::CheckpointError;
pub use flat_length_error::FlatLengthError;
pub use model_error::ModelError;
pub use model_file_error::ModelFileError;
pub use train_error::TrainError;
