//! Which part each node goes to.

use crate::constraints::Constraints;
use crate::joined::JoinedIds;
use crate::repair::fill_empty_parts;
use crate::{Method, PartitionError, PartitionOptions, Phase, Progress, ldg, multilevel, random};
use edgecut_graph::{Dataset, GraphError};

/// A part for every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Per node type, the part of each node by its original id.
    pub parts: Vec<Vec<u32>>,
}

impl Assignment {
    /// Checks that the assignment has a part below `num_parts` for every node of `dataset`.
    pub(crate) fn check(&self, dataset: &Dataset, num_parts: u32) -> Result<(), PartitionError> {
        let fail = |why: String| Err(PartitionError::Assignment { why });
        if num_parts == 0 {
            return Err(PartitionError::NoParts);
        }
        if self.parts.len() != dataset.node_types.len() {
            return fail(format!("{} node types, but the dataset has {}", self.parts.len(), dataset.node_types.len()));
        }
        for (parts, nodes) in self.parts.iter().zip(&dataset.node_types) {
            if parts.len() != nodes.num_nodes {
                return fail(format!("{} nodes of type {}, expected {}", parts.len(), nodes.name, nodes.num_nodes));
            }
            if let Some(node) = parts.iter().position(|&part| part >= num_parts) {
                return fail(format!("node {node} of type {} goes to part {}", nodes.name, parts[node]));
            }
        }
        Ok(())
    }
}

/// Assigns the nodes of `dataset` by `options`; no part stays empty.
///
/// METIS and LDG work on one graph over all node and edge types, made symmetric, without duplicates and self loops.
///
/// # Errors
/// A dataset that [`Dataset::validate`] rejects, no part or more parts than nodes, or a failure of METIS.
pub fn assign(dataset: &Dataset, options: &PartitionOptions) -> Result<Assignment, PartitionError> {
    assign_with(dataset, options, &())
}

pub(crate) fn assign_with(
    dataset: &Dataset,
    options: &PartitionOptions,
    progress: &dyn Progress,
) -> Result<Assignment, PartitionError> {
    progress.phase(Phase::Preparing);
    validate(dataset)?;
    let ids = JoinedIds::new(dataset)?;
    let num_parts = options.num_parts;
    if num_parts == 0 {
        return Err(PartitionError::NoParts);
    }
    if num_parts as usize > ids.num_nodes() {
        return Err(PartitionError::TooManyParts { num_parts, num_nodes: ids.num_nodes() });
    }
    let parts = match options.method {
        _ if num_parts == 1 => vec![0; ids.num_nodes()],
        Method::Random => {
            progress.phase(Phase::Assigning);
            random::deal(ids.ends(), num_parts, options.seed)
        }
        Method::Ldg | Method::Metis { .. } => {
            let graph = ids.symmetric(dataset);
            let constraints = Constraints::new(dataset, &ids, options);
            progress.phase(Phase::Assigning);
            let mut parts = match options.method {
                Method::Metis { recursive } => {
                    multilevel::split(&graph, &constraints, num_parts, recursive, options.seed)?
                }
                _ => ldg::split(&graph, &constraints, num_parts, options.seed),
            };
            fill_empty_parts(&mut parts, num_parts, &graph);
            parts
        }
    };
    Ok(Assignment { parts: ids.split(&parts) })
}

/// What [`Dataset::validate`] checks, and what it relies on.
pub(crate) fn validate(dataset: &Dataset) -> Result<(), PartitionError> {
    if let Some(nodes) = dataset.node_types.iter().find(|t| t.features.as_ref().is_some_and(|f| f.dim() == 0)) {
        let why = format!("node type {}: its features have no column", nodes.name);
        return Err(GraphError::Dataset { dataset: dataset.name.clone(), why }.into());
    }
    Ok(dataset.validate()?)
}
