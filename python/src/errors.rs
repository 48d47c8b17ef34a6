//! Python exceptions.

use edgecut_cluster::{Blame, Cluster, with_causes};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::{PyErr, create_exception};
use std::error::Error;

create_exception!(edgecut, EdgecutError, PyRuntimeError, "A graph that cannot be read, or a job that has failed.");

/// Converts an error with its causes.
pub(crate) fn failed(error: &(dyn Error + 'static)) -> PyErr {
    EdgecutError::new_err(with_causes(error))
}

/// Converts an error of a job. If another rank has caused it, the exception names that rank.
pub(crate) fn failed_in(cluster: &Cluster, error: &(dyn Error + 'static)) -> PyErr {
    match cluster.blame(with_causes(error)) {
        Blame::Own(why) => EdgecutError::new_err(why),
        Blame::Other(why) => EdgecutError::new_err(format!("another rank failed: {why}")),
    }
}

/// Rejects an argument.
pub(crate) fn invalid(why: impl Into<String>) -> PyErr {
    PyValueError::new_err(why.into())
}
