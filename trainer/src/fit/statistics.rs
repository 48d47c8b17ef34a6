//! The running statistics of batch normalization over all ranks.

use crate::error::TrainError;
use crate::gradients::{flatten_statistics, load_statistics};
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::{ProcessGroup, ReduceOp};

/// Returns the model with the weighted mean of the running statistics of all ranks, so that all ranks have the same
/// again. The weight of a rank is `batches`, the number of batches that have updated its statistics since the last
/// call: the outdated statistics of a rank without batches do not count. Frozen parameters must be equal on all ranks.
///
/// # Errors
/// A failure of the job.
pub fn average_statistics<B: AutodiffBackend, M: AutodiffModule<B>>(
    model: M,
    batches: u64,
    world: &mut ProcessGroup,
) -> Result<M, TrainError> {
    let own = flatten_statistics(&model);
    if world.size() == 1 || own.is_empty() {
        return Ok(model);
    }
    // In `f64`, products and sums of equal values are exact. Frozen parameters, which are among these values and equal on
    // all ranks, therefore keep every bit.
    let weight = batches as f64;
    let mut sums: Vec<f64> = own.iter().map(|&value| f64::from(value) * weight).collect();
    sums.push(weight);
    world.all_reduce(&mut sums, ReduceOp::Sum)?;
    match sums.pop() {
        Some(total) if total > 0.0 => {
            let averages: Vec<f32> = sums.iter().map(|sum| (sum / total) as f32).collect();
            Ok(load_statistics(model, &averages)?)
        }
        _ => Ok(model),
    }
}
