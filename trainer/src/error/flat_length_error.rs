//! The error of gradients and parameters of another size.

use thiserror::Error;

/// The error for a flat vector whose length differs from the number of parameters.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{given} values for a model with {expected} parameters")]
pub struct FlatLengthError {
    /// The length of the vector.
    pub given: usize,
    /// The number of parameters.
    pub expected: usize,
}
