//! The nodes of generated graphs.

use super::options::{FakeOptions, Stream};
use super::weighted_nodes::fractional_power;
use crate::dataset::{Split, Splits};
use crate::memory::{Features, Workspace};
use crate::{GraphError, parallel};

/// The number of rows that one task generates.
const ROWS_PER_TASK: usize = 256;

/// Draws a class for each node.
pub(super) fn classes(options: &FakeOptions) -> Vec<u32> {
    parallel::map_indices(options.avg_num_nodes, |node| {
        options.rng(Stream::Class, node).below(options.num_classes as u64) as u32
    })
}

/// Draws a weight for each node, at least 1, from a Pareto distribution. Weights are capped at the square root of the
/// number of nodes, above which two hubs would share more than one edge on average.
pub(super) fn weights(options: &FakeOptions) -> Vec<f64> {
    // Inverse transform sampling: the probability of a weight above `w` is `w^(1 - degree_exponent)`.
    let exponent = 1.0 / (options.degree_exponent - 1.0);
    let cap = (options.avg_num_nodes as f64).sqrt();
    let weight = |node| (1.0 / fractional_power(1.0 - options.rng(Stream::Weight, node).unit(), exponent)).min(cap);
    parallel::map_indices(options.avg_num_nodes, weight)
}

/// Draws the features of each node, if nodes have features.
pub(super) fn features(
    space: &Workspace,
    options: &FakeOptions,
    classes: &[u32],
) -> Result<Option<Features>, GraphError> {
    let dim = options.num_channels;
    if dim == 0 {
        return Ok(None);
    }
    let means = class_means(options);
    let values = space.build_rows(classes.len(), dim, "generating features", |range| {
        let mut values = vec![0.0_f32; range.len() * dim];
        parallel::for_each_chunk(&mut values, ROWS_PER_TASK * dim, &|first, rows| {
            for (offset, row) in rows.chunks_exact_mut(dim).enumerate() {
                let node = range.start + first / dim + offset;
                let mut draws = options.rng(Stream::Noise, node);
                let mean = &means[classes[node] as usize * dim..][..dim];
                for (value, mean) in row.iter_mut().zip(mean) {
                    *value = mean + draws.gaussian();
                }
            }
        });
        Ok(values)
    })?;
    Ok(Some(Features::F32 { values, dim }))
}

/// Returns a random vector of length `feature_signal` for each class, end to end.
fn class_means(options: &FakeOptions) -> Vec<f32> {
    let mean = |class| {
        let mut draws = options.rng(Stream::ClassMean, class);
        let direction: Vec<f32> = (0..options.num_channels).map(|_| draws.gaussian()).collect();
        let length = direction.iter().map(|v| v * v).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        direction.into_iter().map(move |v| v / length * options.feature_signal as f32)
    };
    (0..options.num_classes).flat_map(mean).collect()
}

/// Splits the nodes at random.
pub(super) fn splits(options: &FakeOptions) -> Splits {
    let num_nodes = options.avg_num_nodes;
    // Sorting by random keys shuffles the nodes in parallel.
    let mut order: Vec<(u64, u64)> =
        parallel::map_indices(num_nodes, |node| (options.rng(Stream::Split, node).next_u64(), node as u64));
    parallel::sort_pairs(&mut order);
    let at = |fraction: f64| ((num_nodes as f64 * fraction).round() as usize).min(num_nodes);
    let train_end = at(options.train_fraction);
    let valid_end = at(options.train_fraction + options.valid_fraction).max(train_end);
    let mut splits = Splits::default();
    for (split, range) in
        [(Split::Train, 0..train_end), (Split::Valid, train_end..valid_end), (Split::Test, valid_end..num_nodes)]
    {
        let mut ids: Vec<u64> = order[range].iter().map(|&(_, node)| node).collect();
        parallel::sort(&mut ids);
        splits.set(split, parallel::map(&ids, |&id| id as u32).into());
    }
    splits
}
