//! The number of values that a run trains, and the memory that they take.

use crate::available_memory::available_memory_bytes;
use crate::models::GraphSchema;
use crate::ops::GnnBackend;
use crate::train_error::TrainError;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::SamplingNode;
use serde::Serialize;
use std::fmt;

/// Copies of a model's parameter in training: the value, its gradient, and Adam's two moments.
const MODEL_COPIES: u64 = 4;
/// Copies in the memory of the host where a device computes: gradients on their way to other ranks.
const HOST_COPIES: u64 = 1;
/// Copies of an embedding's value: itself, and the two moments of sparse Adam.
const EMBEDDING_COPIES: u64 = 3;

/// The number of values that a run trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ParameterCount {
    /// Trained parameters of the model.
    pub model: u64,
    /// Values of the embeddings of all nodes of the types without features.
    pub embeddings: u64,
}

impl fmt::Display for ParameterCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} parameters", grouped(self.model))?;
        if self.embeddings > 0 {
            write!(f, ", and {} in embeddings", grouped(self.embeddings))?;
        }
        Ok(())
    }
}

/// Returns a number with a comma between thousands.
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
pub(crate) fn num_embedding_values(node: &SamplingNode, schema: &GraphSchema, dim: usize) -> u64 {
    let types = node.part().meta().node_types.iter().zip(&schema.node_types);
    let embedded = types.filter(|(_, nodes)| nodes.feature_dim == 0);
    embedded.map(|(nodes, _)| (nodes.book.num_nodes() as u64).saturating_mul(dim as u64)).fold(0, u64::saturating_add)
}

/// Fails if a model of so many parameters, or its embeddings, cannot be trained in the memory that is available to the
/// processes of this node. Without this check the allocation would abort the process. Every rank has to call this before it
/// allocates any of them.
///
/// # Errors
/// [`TrainError::Config`] with the number of values and both sizes, or a failure of the job.
pub(crate) fn check_model_memory<B: GnnBackend>(
    num_parameters: Option<usize>,
    embedded: Option<EmbeddedNodes<'_>>,
    world: &mut ProcessGroup,
) -> Result<(), TrainError> {
    // More than can be counted is an error of the settings, which the model's own checks name.
    let parameters = num_parameters.unwrap_or(0) as u64;
    let copies = if B::HAS_OWN_MEMORY { HOST_COPIES } else { MODEL_COPIES };
    let processes = world.cluster().local_world_size() as u64;
    let model = check(&format!("the model has {} parameters", grouped(parameters)), parameters, copies, processes);
    let verdict = model.and_then(|()| embedded.map_or(Ok(()), |embedded| check_embedding_memory(&embedded)));
    // No process allocates before all of this node have measured what is available.
    world.barrier()?;
    verdict
}

/// The embeddings of the nodes of a graph whose types have no features.
pub(crate) struct EmbeddedNodes<'a> {
    pub(crate) node: &'a SamplingNode,
    pub(crate) schema: &'a GraphSchema,
    pub(crate) dim: usize,
}

/// Fails if this process cannot hold its share of a graph's embeddings.
///
/// # Errors
/// [`TrainError::Config`] with the number of values and both sizes.
fn check_embedding_memory(embedded: &EmbeddedNodes<'_>) -> Result<(), TrainError> {
    let EmbeddedNodes { node, schema, dim } = *embedded;
    let values = num_embedding_values(node, schema, dim);
    if values == 0 {
        return Ok(());
    }
    // The values are spread over the parts, of which the processes of a node hold as many as they are, unless they share one.
    let parts = u64::from(node.part().meta().num_parts.max(1));
    let (sharers, _) = node.sharers();
    let parts_of_node = (node.cluster().local_world_size() / sharers.max(1)).max(1) as u64;
    let of_part = values / parts;
    let what = format!("the embeddings of nodes without features have {} values", grouped(values));
    check(&what, of_part, EMBEDDING_COPIES, parts_of_node)
}

fn check(what: &str, values: u64, copies: u64, processes: u64) -> Result<(), TrainError> {
    let bytes = values.saturating_mul(size_of::<f32>() as u64).saturating_mul(copies).saturating_mul(processes);
    match available_memory_bytes() {
        Some(available) if bytes > available => {
            let (needed, available) = (gigabytes(bytes), gigabytes(available));
            Err(TrainError::Config {
                what: format!(
                    "{what}, which take {needed} GB with gradients and optimizer on this node ({processes} processes), and \
                     {available} GB are available: lower --hidden-channels, or train on a machine with more memory"
                ),
            })
        }
        _ => Ok(()),
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_with_commas() {
        let text = |model, embeddings| ParameterCount { model, embeddings }.to_string();
        assert_eq!(text(999, 0), "999 parameters");
        assert_eq!(text(206_895, 0), "206,895 parameters");
        assert_eq!(text(1_000, 12_345_678), "1,000 parameters, and 12,345,678 in embeddings");
    }

    #[test]
    fn more_than_memory_is_refused() {
        assert!(check("a model", 1_000, 4, 2).is_ok());
        // More bytes than 64 bits can count are refused too.
        for values in [1_000_000_000_000_000, u64::MAX] {
            let error = check("a model", values, 4, 2).expect_err("petabytes").to_string();
            assert!(error.starts_with("a model, which take ") && error.contains("--hidden-channels"), "{error}");
        }
    }
}
