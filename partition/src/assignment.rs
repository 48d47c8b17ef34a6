//! The assignment of nodes to parts.

use crate::methods::constraints::Constraints;
use crate::methods::joined::JoinedIds;
use crate::methods::repair::fill_empty_parts;
use crate::methods::symmetric::{symmetric, symmetric_in_edges};
use crate::{
    Method, PartitionError, PartitionOptions, Phase, Progress, estimate, methods::ldg, methods::metis, methods::random,
    methods::semi_external,
};
use edgecut_graph::part_writer::{Grouped, check_assignment};
use edgecut_graph::{Dataset, NodeData, Workspace};
use edgecut_output::{OwnEntries, TemporaryFolder};
use std::path::Path;

/// The part of every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The part of each node by its original id, per node type.
    pub parts: Vec<Vec<u32>>,
}

impl Assignment {
    /// Checks that the assignment has a part below `num_parts` for every node of the dataset.
    pub(crate) fn check(&self, node_types: &[NodeData], num_parts: u32) -> Result<(), PartitionError> {
        if num_parts == 0 {
            return Err(PartitionError::NoParts);
        }
        check_assignment(&self.parts, node_types, num_parts).map_err(|why| PartitionError::Assignment { why })
    }
}

/// Assigns the nodes of `dataset` to parts by `options`. No part stays empty.
///
/// All methods but the random one work on one undirected graph over all node and edge types, without duplicates and self loops.
///
/// # Errors
/// Fails on a dataset that [`Dataset::validate`] rejects, on 0 parts or more parts than nodes, and if METIS fails.
pub fn assign(dataset: &Dataset, options: &PartitionOptions) -> Result<Assignment, PartitionError> {
    validate(dataset)?;
    let ids = joined_ids(&dataset.node_types, options.num_parts)?;
    let dataset = Grouped::new_in(&Workspace::default(), dataset.clone())?;
    assign_grouped(&dataset, &ids, options, &()).map(|(assignment, _)| assignment)
}

/// Numbers the nodes of all types, and checks that there are at least as many as parts.
pub(crate) fn joined_ids(node_types: &[NodeData], num_parts: u32) -> Result<JoinedIds, PartitionError> {
    let ids = JoinedIds::new(node_types)?;
    if num_parts == 0 {
        return Err(PartitionError::NoParts);
    }
    if num_parts as usize > ids.num_nodes() {
        return Err(PartitionError::TooManyParts { num_parts, num_nodes: ids.num_nodes() });
    }
    Ok(ids)
}

/// Like [`assign`], for a dataset that is known to be valid; `ids` are its [`joined_ids`]. Also returns the method, which
/// is another one if METIS does not fit into the limit of memory.
pub(crate) fn assign_grouped(
    dataset: &Grouped,
    ids: &JoinedIds,
    options: &PartitionOptions,
    progress: &dyn Progress,
) -> Result<(Assignment, Method), PartitionError> {
    let num_parts = options.num_parts;
    let mut used = options.method;
    let parts = match options.method {
        _ if num_parts == 1 => vec![0; ids.num_nodes()],
        Method::Random => {
            progress.phase(Phase::Assigning);
            random::deal(ids.ends(), num_parts, options.seed)
        }
        Method::Ldg | Method::Metis { .. } | Method::SemiExternal => {
            let made;
            let graph = match symmetric_in_edges(dataset) {
                Some(in_edges) => in_edges,
                None => {
                    made = symmetric(ids, dataset)?;
                    &made
                }
            };
            used = fitting_method(options, ids.num_nodes(), graph.values.len(), progress)?;
            let options = &PartitionOptions { method: used, ..options.clone() };
            let constraints = Constraints::new(dataset, ids, options);
            progress.phase(Phase::Assigning);
            let mut parts = match used {
                Method::Metis { recursive } => {
                    // Removed when dropped, and by the next run if this process is killed. A run with a limit of memory
                    // leaves nothing even then, so METIS writes no files there.
                    let dir = options.scratch_dir.as_ref().filter(|_| options.memory_limit.is_none());
                    let levels = dir.map(|dir| level_folder(dir)).transpose()?;
                    let scratch_dir = levels.as_ref().map(TemporaryFolder::dir);
                    metis::split(graph.into(), &constraints, num_parts, recursive, options.seed, scratch_dir)?
                }
                Method::SemiExternal => semi_external::split(graph, &constraints, num_parts, options.seed)?,
                _ => ldg::split(graph, &constraints, num_parts, options.seed),
            };
            fill_empty_parts(&mut parts, num_parts, graph);
            parts
        }
    };
    Ok((Assignment { parts: ids.split(&parts) }, used))
}

/// Creates a folder in `dir` for the graphs that METIS writes while it coarsens.
fn level_folder(dir: &Path) -> Result<TemporaryFolder, PartitionError> {
    let created = std::fs::create_dir_all(dir)
        .and_then(|()| TemporaryFolder::create(dir, ".metis", 0o700, OwnEntries::forms(&["metis#.#"])));
    created.map_err(|source| PartitionError::Io { doing: "create a folder in", path: dir.into(), source })
}

/// Returns the method of `options`, or another one if it is METIS, does not fit into the limit of memory and may be
/// replaced.
fn fitting_method(
    options: &PartitionOptions,
    num_nodes: usize,
    num_neighbors: usize,
    progress: &dyn Progress,
) -> Result<Method, PartitionError> {
    let (Method::Metis { .. }, Some(limit)) = (options.method, options.memory_limit) else {
        return Ok(options.method);
    };
    let needed = estimate::BASE_BYTES + estimate::metis_bytes(num_nodes as u64, num_neighbors as u64);
    if needed <= limit.bytes {
        return Ok(options.method);
    }
    let error = PartitionError::MetisMemory { needed, limit: limit.bytes };
    if !limit.replaces_metis {
        return Err(error);
    }
    let other = estimate::beyond_metis(num_nodes as u64, num_neighbors as u64, options.num_parts, limit.bytes);
    progress.notice(&format!("{error}. Nodes are assigned by {other} instead"));
    Ok(other)
}

/// Calls [`Dataset::validate`].
pub(crate) fn validate(dataset: &Dataset) -> Result<(), PartitionError> {
    Ok(dataset.validate()?)
}

/// Calls [`Dataset::validate_structure`].
pub(crate) fn validate_structure(dataset: &Dataset) -> Result<(), PartitionError> {
    Ok(dataset.validate_structure()?)
}
