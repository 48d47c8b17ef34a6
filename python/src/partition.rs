//! Partitioning of a dataset.

use crate::errors::{failed, invalid};
use crate::fork_guard::enter;
use edgecut_cluster::{end_with_parent, say};
use edgecut_graph::readers::{DatasetSource, Loaded, load_with_warnings, read_assignment};
use edgecut_partition::{Assignment, Inputs, Method, PartitionOptions, partition_loaded};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// The settings of partitioning.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PartitionSettings {
    method: String,
    seed: u64,
    to_undirected: bool,
    add_reverse_edges: bool,
    edge_ids: bool,
    split: Option<String>,
    assignment: Option<PathBuf>,
    overwrite: bool,
}

/// Splits the dataset in `path` and writes the parts to `output_dir`. Returns the description as the JSON text of
/// META.json. The caller is a process of its own, in which SIGTERM is blocked.
#[pyfunction]
pub(crate) fn partition(
    py: Python<'_>,
    path: PathBuf,
    num_parts: u32,
    output_dir: PathBuf,
    settings: PartitionSettings,
) -> PyResult<String> {
    enter()?;
    let PartitionSettings { method, seed, to_undirected, add_reverse_edges, edge_ids, split, assignment, overwrite } =
        settings;
    end_with_parent().map_err(|error| failed(&error))?;
    let method = match method.as_str() {
        "metis" => Method::Metis { recursive: false },
        "semi-external" => Method::SemiExternal,
        "ldg" => Method::Ldg,
        "random" => Method::Random,
        _ => return Err(invalid(format!("`method` is {method:?}: choose from metis, semi-external, ldg and random"))),
    };
    let mut source = DatasetSource::of_folder(path);
    source.to_undirected = to_undirected;
    source.add_reverse_edges = add_reverse_edges;
    source.edge_ids = edge_ids;
    source.split.clone_from(&split);
    let options = PartitionOptions {
        method,
        seed,
        split,
        to_undirected,
        add_reverse_edges,
        edge_ids,
        overwrite,
        ..PartitionOptions::new(num_parts)
    };
    py.detach(|| run(&source, assignment.as_deref(), &options, &output_dir))
}

fn run(
    source: &DatasetSource,
    assignment: Option<&Path>,
    options: &PartitionOptions,
    output_dir: &Path,
) -> PyResult<String> {
    let Loaded { dataset, warnings } = load_with_warnings(source).map_err(|error| failed(&error))?;
    warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    let read = |file: &Path| read_assignment(file, &dataset.node_types, options.num_parts);
    let given = assignment.map(read).transpose().map_err(|error| failed(&error))?.map(|parts| Assignment { parts });
    let meta = partition_loaded(dataset, Inputs { given, ..Inputs::default() }, options, output_dir, &());
    serde_json::to_string(&meta.map_err(|error| failed(&error))?).map_err(|error| failed(&error))
}
