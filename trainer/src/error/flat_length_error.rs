//! The error of gradients and parameters of another size.

use thiserror::Error;

/// The error for a flat vector whose length differs from the number of parameters.
///
/// ```
/// use edgecut_trainer::Cpu;
/// use edgecut_trainer::gradients::{FlatLengthError, load_parameters};
/// use edgecut_gnn::nn::{Dense, WeightInit};
/// let layer = Dense::<Cpu>::new(2, 1, &mut WeightInit::new(0), &Default::default());
/// let error = load_parameters(layer, &[1.0, 2.0]).err();
/// assert_eq!(error, Some(FlatLengthError { given: 2, expected: 3 }));
/// ```
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{given} values for a model with {expected} parameters")]
pub struct FlatLengthError {
    /// The length of the vector.
    pub given: usize,
    /// The number of parameters.
    pub expected: usize,
}
