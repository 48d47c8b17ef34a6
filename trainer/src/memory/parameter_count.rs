//! The number of values that a run trains, and the memory that they need.

use crate::error::TrainError;
use crate::memory::available_memory::available_memory_bytes;
use crate::models::{GraphSchema, NetworkConfig};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{GnnBackend, GnnKernels};
use edgecut_graph::shown_bytes;
use serde::Serialize;
use std::fmt;

/// The number of copies of a model's parameter in training: the value, its gradient, and Adam's two moments.
const MODEL_COPIES: u64 = 4;
/// The number of copies in host memory if a device with its own memory computes: the gradients to be sent to other
/// ranks.
const HOST_COPIES: u64 = 1;
/// The number of copies of an embedding's value: the value, and the two moments of sparse Adam. An average is another one.
const EMBEDDING_COPIES: u64 = 3;

/// The number of values that a run trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ParameterCount {
    /// The number of trained parameters of the model.
    pub model: u64,
    /// The number of trained values in the embeddings of all nodes of the types without features.
    pub embeddings: u64,
    /// The number of frozen values in the model and the embeddings.
    pub frozen: u64,
}

impl fmt::Display for ParameterCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} parameters", grouped(self.model))?;
        if self.embeddings > 0 {
            write!(f, ", and {} in embeddings", grouped(self.embeddings))?;
        }
        if self.frozen > 0 {
            write!(f, "; {} are frozen", grouped(self.frozen))?;
        }
        Ok(())
    }
}

/// Formats a number with commas as thousands separators.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the number of values in the embeddings of a graph's nodes.
pub(crate) fn num_embedding_values(graph: &DistGraph, schema: &GraphSchema, dim: usize) -> u64 {
    num_values_of(graph, schema, dim, |_| true)
}

/// Returns the number of values in the embeddings of the node types that `is_counted` accepts.
fn num_values_of(graph: &DistGraph, schema: &GraphSchema, dim: usize, is_counted: impl Fn(&str) -> bool) -> u64 {
    let mut values = 0_u64;
    for (nodes, of_type) in graph.part().meta().node_types.iter().zip(&schema.node_types) {
        if is_counted(&nodes.name) {
            let width = of_type.embedding_width(dim) as u64;
            values = values.saturating_add((nodes.book.num_nodes() as u64).saturating_mul(width));
        }
    }
    values
}

/// Checks that the processes of this node have enough memory to train a model with this number of parameters, and its
/// embeddings. Without this check a failing allocation would abort the process. Every rank must call this before it
/// allocates any of them.
///
/// # Errors
/// [`TrainError::Config`] with the number of values and both sizes, or a failure of the job.
pub(crate) fn check_model_memory<B: GnnBackend>(
    num_parameters: Option<usize>,
    embedded: Option<EmbeddedNodes<'_>>,
    world: &mut ProcessGroup,
) -> Result<(), TrainError> {
    // `None` means that the number overflows. The model's own validation reports that error, so it passes here.
    let parameters = num_parameters.unwrap_or(0) as u64;
    let copies = if B::Kernels::HAS_OWN_MEMORY { HOST_COPIES } else { MODEL_COPIES };
    let processes = world.cluster().local_world_size() as u64;
    let model = check(&format!("the model has {} parameters", grouped(parameters)), parameters, copies, processes);
    let verdict = model.and_then(|()| embedded.map_or(Ok(()), |embedded| check_embedding_memory(&embedded)));
    // No process may allocate before all processes of this node have measured the available memory.
    world.barrier()?;
    verdict
}

/// The learned embeddings of a graph's nodes.
pub(crate) struct EmbeddedNodes<'a> {
    pub(crate) graph: &'a DistGraph,
    pub(crate) schema: &'a GraphSchema,
    pub(crate) dim: usize,
    /// The number of values that the training averages.
    pub(crate) num_averaged: u64,
}

impl<'a> EmbeddedNodes<'a> {
    /// Returns the nodes with embeddings of the graph that a network reads, without averages.
    pub(crate) fn of(graph: &'a DistGraph, network: &'a NetworkConfig) -> Self {
        Self { graph, schema: &network.graph, dim: network.hidden_channels, num_averaged: 0 }
    }

    /// Adds the averages of the embeddings of the node types that `is_averaged` accepts.
    pub(crate) fn with_averages(self, is_averaged: impl Fn(&str) -> bool) -> Self {
        let num_averaged = num_values_of(self.graph, self.schema, self.dim, is_averaged);
        Self { num_averaged, ..self }
    }
}

/// Checks that the processes of this node have enough memory for their shares of a graph's embeddings.
///
/// # Errors
/// [`TrainError::Config`] with the number of values and both sizes.
fn check_embedding_memory(embedded: &EmbeddedNodes<'_>) -> Result<(), TrainError> {
    let EmbeddedNodes { graph, schema, dim, num_averaged } = *embedded;
    let values = num_embedding_values(graph, schema, dim);
    if values == 0 {
        return Ok(());
    }
    // The values are spread over the parts. Each process of this node holds one part, except that `sharers` processes
    // share a part.
    let parts = u64::from(graph.part().meta().num_parts.max(1));
    let (sharers, _) = graph.replicas();
    let parts_of_node = (graph.cluster().local_world_size() / sharers.max(1)).max(1) as u64;
    let with_copies = values.saturating_mul(EMBEDDING_COPIES).saturating_add(num_averaged);
    let what = format!("the embeddings of nodes have {} values", grouped(values));
    check(&what, with_copies / parts, 1, parts_of_node)
}

fn check(what: &str, values: u64, copies: u64, processes: u64) -> Result<(), TrainError> {
    let bytes = values.saturating_mul(size_of::<f32>() as u64).saturating_mul(copies).saturating_mul(processes);
    match available_memory_bytes() {
        Some(available) if bytes > available => {
            let available = shown_bytes(available);
            Err(TrainError::Config {
                what: format!(
                    "{what}, which take {} with gradients and optimizer on this node ({processes} processes), and \
                     {available} are available: lower `hidden_channels`, or train on a machine with more memory",
                    shown_bytes(bytes)
                ),
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_with_commas() {
        let text = |model, embeddings, frozen| ParameterCount { model, embeddings, frozen }.to_string();
        assert_eq!(text(999, 0, 0), "999 parameters");
        assert_eq!(text(206_895, 0, 0), "206,895 parameters");
        assert_eq!(text(1_000, 12_345_678, 0), "1,000 parameters, and 12,345,678 in embeddings");
        assert_eq!(text(1_000, 0, 2_000), "1,000 parameters; 2,000 are frozen");
    }

    #[test]
    fn more_than_memory_is_refused() {
        assert!(check("a model", 1_000, 4, 2).is_ok());
        // More bytes than 64 bits can count are refused too.
        for values in [1_000_000_000_000_000, u64::MAX] {
            let error = check("a model", values, 4, 2).expect_err("petabytes").to_string();
            assert!(error.starts_with("a model, which take ") && error.contains("`hidden_channels`"), "{error}");
        }
    }
}
