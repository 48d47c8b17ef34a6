//! The native module of the Python package `edgecut`: graphs, loaders and partitioning. The package's Python files give
//! them the interfaces of PyG.

mod batch;
mod errors;
mod graph;
mod links;
mod loader;
mod partition;

use pyo3::prelude::*;

#[pymodule]
fn _edgecut(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("EdgecutError", module.py().get_type::<errors::EdgecutError>())?;
    module.add_class::<graph::Graph>()?;
    module.add_class::<loader::Loader>()?;
    module.add_class::<loader::Batches>()?;
    module.add_function(wrap_pyfunction!(partition::partition, module)?)
}
