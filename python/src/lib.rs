//! The native module of the Python package `edgecut`: graphs, loaders and partitioning. The package's Python files give
//! them the interfaces of PyG.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod at_exit;
mod attributes;
mod batch;
mod batches;
mod errors;
mod fan_outs;
mod fork_guard;
mod graph;
mod graph_loader;
mod graph_set;
mod in_memory;
mod job;
mod links;
mod loader;
mod partition;
mod sampler;
mod seeds;
mod signals;

use pyo3::prelude::*;

#[pymodule]
fn _edgecut(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("EdgecutError", module.py().get_type::<errors::EdgecutError>())?;
    module.add_class::<graph::Graph>()?;
    module.add_class::<loader::Loader>()?;
    module.add_class::<sampler::Sampler>()?;
    module.add_class::<batches::Batches>()?;
    module.add_class::<graph_set::GraphSet>()?;
    module.add_class::<graph_loader::GraphLoader>()?;
    module.add_class::<job::MasterSocket>()?;
    module.add_function(wrap_pyfunction!(attributes::node_attribute, module)?)?;
    module.add_function(wrap_pyfunction!(attributes::split_nodes, module)?)?;
    module.add_function(wrap_pyfunction!(attributes::whole_edges, module)?)?;
    module.add_function(wrap_pyfunction!(links::are_reverses, module)?)?;
    module.add_function(wrap_pyfunction!(partition::partition, module)?)
}
