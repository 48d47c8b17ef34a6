//! The kernels of attention.

use cubecl::prelude::*;

use super::Scoring;
use crate::kernels::dropout::Draws;
use crate::kernels::edges::{Edges, HubTasks};
use crate::kernels::grid::{row_number, unit_number};
use crate::kernels::matrix::{Rows, total_of};

/// The terms of a sum over a row's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// The rows of `x` times the weights of entries.
    Weighted,
    /// `Weighted`, plus the gradients that flow through the scores of [`Scoring::Dynamic`] to their sources.
    ToSource,
    /// The gradients that flow through these scores to their destinations.
    ToDestination,
    /// The gradients that flow through them to the vector.
    ToVector,
    /// The values of entries.
    Values,
    /// The values of entries times their weights.
    WeightedValues,
}

/// The data of entries, by entry and head, and the parameters of an attention that kernels need.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Entries<E: Float, N: Size> {
    weights: Array<f32>,
    values: Array<f32>,
    z_src: Rows<E, N>,
    z_dst: Rows<E, N>,
    vector: Rows<E, N>,
    /// The CSR of the destinations, even where a kernel also reads transposed edges.
    indptr: Array<u32>,
    draws: Draws,
    num_rows: usize,
    heads: usize,
    /// The number of vectors in a row that is summed.
    lanes: usize,
    lanes_per_head: usize,
    negative_slope: f32,
    #[cube(comptime)]
    self_edges: bool,
}

/// Returns the derivative of LeakyReLU. The argument times it is also the value of LeakyReLU.
#[cube]
fn slope(argument: f32, negative_slope: f32) -> f32 {
    select(argument > 0.0, 1.0, negative_slope)
}

/// Returns the derivative of LeakyReLU for each value of a vector.
#[cube]
fn slopes<N: Size>(arguments: Vector<f32, N>, negative_slope: f32) -> Vector<f32, N> {
    let mut slopes = Vector::<f32, N>::new(1.0);
    let size = N::value();
    #[unroll]
    for i in 0..size {
        slopes[i] = slope(arguments[i], negative_slope);
    }
    slopes
}

#[cube]
impl<E: Float, N: Size> Entries<E, N> {
    /// Returns the first entry of a destination.
    fn first(&self, row: usize) -> usize {
        let mut first = self.indptr[row] as usize;
        if comptime!(self.self_edges) {
            first += row;
        }
        first
    }

    /// Returns the entry of the edge with the given number, which leads to `row`.
    fn of_edge(&self, number: usize, row: usize) -> usize {
        let mut entry = number;
        if comptime!(self.self_edges) {
            entry += row;
        }
        entry
    }

    /// Returns the self edge of a destination, which is its last entry.
    fn own(&self, row: usize) -> usize {
        self.indptr[row + 1] as usize + row
    }

    /// Returns the destination of an entry, by bisection.
    fn row_of(&self, entry: usize) -> usize {
        let mut low = 0usize;
        let mut high = self.num_rows;
        while low < high {
            let middle = (low + high) / 2;
            if self.first(middle + 1) <= entry {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the source of an entry of `row`.
    fn source_of(&self, edges: &Edges, row: usize, entry: usize) -> usize {
        let at = self.indptr[row] as usize + entry - self.first(row);
        let mut source = row;
        if at < self.indptr[row + 1] as usize {
            source = edges.other(at);
        }
        source
    }

    /// Returns the factor of the rows of an entry: its weight after dropout.
    fn factor(&self, entry: usize, head: usize) -> f32 {
        let at = entry * self.heads + head;
        self.weights[at] * self.draws.factor(at)
    }
}

/// Returns the term that an entry from `source` to `destination` adds to one vector of a row's sum; `x_row` is the row
/// of `x` that it reads.
#[cube]
fn term<E: Float, N: Size>(
    x: &Rows<E, N>,
    entries: &Entries<E, N>,
    entry: usize,
    source: usize,
    destination: usize,
    x_row: usize,
    lane: usize,
    #[comptime] kind: Kind,
) -> Vector<f32, N> {
    match kind {
        Kind::Weighted => x.get(x_row, lane) * Vector::new(entries.factor(entry, lane / entries.lanes_per_head)),
        Kind::ToSource => {
            let head = lane / entries.lanes_per_head;
            let value = Vector::<f32, N>::new(entries.values[entry * entries.heads + head]);
            let argument = entries.z_src.get(source, lane) + entries.z_dst.get(destination, lane);
            let through = value * slopes(argument, entries.negative_slope) * entries.vector.get(0, lane);
            x.get(x_row, lane) * Vector::new(entries.factor(entry, head)) + through
        }
        Kind::ToDestination => {
            let value = Vector::<f32, N>::new(entries.values[entry * entries.heads + lane / entries.lanes_per_head]);
            let argument = entries.z_src.get(source, lane) + entries.z_dst.get(destination, lane);
            value * slopes(argument, entries.negative_slope) * entries.vector.get(0, lane)
        }
        Kind::ToVector => {
            let value = Vector::<f32, N>::new(entries.values[entry * entries.heads + lane / entries.lanes_per_head]);
            let argument = entries.z_src.get(source, lane) + entries.z_dst.get(destination, lane);
            value * slopes(argument, entries.negative_slope) * argument
        }
        // In these kinds a lane is a head.
        Kind::Values => Vector::new(entries.values[entry * entries.heads + lane]),
        Kind::WeightedValues => {
            let at = entry * entries.heads + lane;
            Vector::new(entries.values[at] * entries.weights[at])
        }
    }
}

/// Returns the sum over the edges from `start` to `end` of `row`, which is a destination or, for transposed edges, a
/// source.
#[cube]
fn sum<E: Float, N: Size>(
    x: &Rows<E, N>,
    edges: &Edges,
    entries: &Entries<E, N>,
    row: usize,
    start: usize,
    end: usize,
    lane: usize,
    #[comptime] kind: Kind,
) -> Vector<f32, N> {
    let mut total = Vector::<f32, N>::new(0.0);
    for at in start..end {
        let other = edges.other(at);
        let (source, destination) = edges.ends(row, other);
        let entry = entries.of_edge(edges.number(at), destination);
        total += term(x, entries, entry, source, destination, other, lane, kind);
    }
    total
}

/// Returns the sum of a row's edges with the term of its self edge, if it has one.
#[cube]
fn with_own<E: Float, N: Size>(
    x: &Rows<E, N>,
    entries: &Entries<E, N>,
    row: usize,
    lane: usize,
    total: Vector<f32, N>,
    #[comptime] kind: Kind,
) -> Vector<f32, N> {
    let mut total = total;
    if comptime!(entries.self_edges) {
        // Sources that are no destinations have no self edge.
        if row < entries.num_rows {
            total += term(x, entries, entries.own(row), row, row, row, lane, kind);
        }
    }
    total
}

/// Sums the rows that are one task. Rows with more edges are left to the kernels of hubs.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn sum_rows<E: Float, O: Float, N: Size>(
    x: &Rows<E, N>,
    edges: &Edges,
    entries: &Entries<E, N>,
    out: &mut Rows<O, N>,
    num_rows: usize,
    #[comptime] kind: Kind,
) {
    let row = row_number();
    if row < num_rows {
        if edges.is_one_task(row) {
            let start = edges.start(row);
            let end = edges.start(row + 1);
            let mut lane = UNIT_POS_X as usize;
            while lane < entries.lanes {
                let total = sum(x, edges, entries, row, start, end, lane, kind);
                out.set(row, lane, with_own(x, entries, row, lane, total, kind));
                lane += CUBE_DIM_X as usize;
            }
        }
    }
}

/// Sums each task of a hub: a stretch of its edges.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn sum_tasks<E: Float, N: Size>(
    x: &Rows<E, N>,
    edges: &Edges,
    entries: &Entries<E, N>,
    hubs: &HubTasks,
    partial: &mut Rows<f32, N>,
    #[comptime] kind: Kind,
) {
    let task = row_number();
    if task < hubs.num_tasks {
        let row = hubs.row(task);
        let mut lane = UNIT_POS_X as usize;
        while lane < entries.lanes {
            let total = sum(x, edges, entries, row, hubs.start(task), hubs.end(task), lane, kind);
            partial.set(task, lane, total);
            lane += CUBE_DIM_X as usize;
        }
    }
}

/// Adds the sums of each hub's tasks, in the order of its edges.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn sum_hubs<E: Float, O: Float, N: Size>(
    x: &Rows<E, N>,
    entries: &Entries<E, N>,
    hubs: &HubTasks,
    partial: &Rows<f32, N>,
    out: &mut Rows<O, N>,
    #[comptime] kind: Kind,
) {
    let hub = row_number();
    if hub < hubs.num_hubs {
        let row = hubs.row_of_hub(hub);
        let mut lane = UNIT_POS_X as usize;
        while lane < entries.lanes {
            let mut total = Vector::<f32, N>::new(0.0);
            for task in hubs.first_task(hub)..hubs.first_task(hub + 1) {
                total += partial.get(task, lane);
            }
            out.set(row, lane, with_own(x, entries, row, lane, total, kind));
            lane += CUBE_DIM_X as usize;
        }
    }
}

/// Computes the score of each entry and head.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn score_entries<E: Float, N: Size>(
    edges: &Edges,
    entries: &Entries<E, N>,
    scores: &mut Array<f32>,
    num_entries: usize,
    #[comptime] scoring: Scoring,
) {
    let unit = unit_number();
    if unit < num_entries * entries.heads {
        let entry = unit / entries.heads;
        let head = unit % entries.heads;
        let row = entries.row_of(entry);
        let source = entries.source_of(edges, row, entry);
        if comptime!(scoring == Scoring::Additive) {
            let argument = entries.z_src.get(source, head)[0] + entries.z_dst.get(row, head)[0];
            scores[unit] = argument * slope(argument, entries.negative_slope);
        } else {
            let mut score = Vector::<f32, N>::new(0.0);
            let first = head * entries.lanes_per_head;
            for lane in first..first + entries.lanes_per_head {
                let argument = entries.z_src.get(source, lane) + entries.z_dst.get(row, lane);
                score += entries.vector.get(0, lane) * argument * slopes(argument, entries.negative_slope);
            }
            scores[unit] = total_of(score);
        }
    }
}

/// Returns the maximum of the scores from `start` to `end` of a row, and the sum of `exp(score - maximum)` over them.
/// Subtracting the maximum keeps the exponentials from overflowing.
#[cube]
fn exponentials<E: Float, N: Size>(
    entries: &Entries<E, N>,
    row: usize,
    start: usize,
    end: usize,
    head: usize,
) -> (f32, f32) {
    let mut greatest = f32::min_value();
    for at in start..end {
        let score = entries.values[entries.of_edge(at, row) * entries.heads + head];
        greatest = select(score > greatest, score, greatest);
    }
    let mut total = 0.0f32;
    for at in start..end {
        total += f32::exp(entries.values[entries.of_edge(at, row) * entries.heads + head] - greatest);
    }
    (greatest, total)
}

/// Combines the pairs of two stretches into that of their union.
#[cube]
fn joined(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
    let greatest = select(b.0 > a.0, b.0, a.0);
    (greatest, a.1 * f32::exp(a.0 - greatest) + b.1 * f32::exp(b.0 - greatest))
}

/// Adds the self edge, and writes the maximum and the sum.
#[cube]
fn finish_softmax<E: Float, N: Size>(
    entries: &Entries<E, N>,
    row: usize,
    head: usize,
    pair: (f32, f32),
    out: &mut Array<f32>,
) {
    let mut pair = pair;
    if comptime!(entries.self_edges) {
        pair = joined(pair, (entries.values[entries.own(row) * entries.heads + head], 1.0f32));
    }
    let at = 2 * (row * entries.heads + head);
    out[at] = pair.0;
    out[at + 1] = pair.1;
}

/// Computes the pairs of the rows that are one task.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn softmax_rows<E: Float, N: Size>(edges: &Edges, entries: &Entries<E, N>, out: &mut Array<f32>) {
    let row = row_number();
    if row < entries.num_rows {
        if edges.is_one_task(row) {
            let mut head = UNIT_POS_X as usize;
            while head < entries.heads {
                let pair = exponentials(entries, row, edges.start(row), edges.start(row + 1), head);
                finish_softmax(entries, row, head, pair, out);
                head += CUBE_DIM_X as usize;
            }
        }
    }
}

/// Computes the pair of each task of a hub.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn softmax_tasks<E: Float, N: Size>(entries: &Entries<E, N>, hubs: &HubTasks, partial: &mut Array<f32>) {
    let task = row_number();
    if task < hubs.num_tasks {
        let mut head = UNIT_POS_X as usize;
        while head < entries.heads {
            let pair = exponentials(entries, hubs.row(task), hubs.start(task), hubs.end(task), head);
            let at = 2 * (task * entries.heads + head);
            partial[at] = pair.0;
            partial[at + 1] = pair.1;
            head += CUBE_DIM_X as usize;
        }
    }
}

/// Combines the pairs of each hub's tasks.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn softmax_hubs<E: Float, N: Size>(
    entries: &Entries<E, N>,
    hubs: &HubTasks,
    partial: &Array<f32>,
    out: &mut Array<f32>,
) {
    let hub = row_number();
    if hub < hubs.num_hubs {
        let mut head = UNIT_POS_X as usize;
        while head < entries.heads {
            let mut pair = (f32::min_value(), 0.0f32);
            for task in hubs.first_task(hub)..hubs.first_task(hub + 1) {
                let at = 2 * (task * entries.heads + head);
                pair = joined(pair, (partial[at], partial[at + 1]));
            }
            finish_softmax(entries, hubs.row_of_hub(hub), head, pair, out);
            head += CUBE_DIM_X as usize;
        }
    }
}

/// Turns scores into weights.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn normalize<E: Float, N: Size>(
    entries: &Entries<E, N>,
    softmax: &Array<f32>,
    weights: &mut Array<f32>,
    num_entries: usize,
) {
    let unit = unit_number();
    if unit < num_entries * entries.heads {
        let entry = unit / entries.heads;
        let head = unit % entries.heads;
        let at = 2 * (entries.row_of(entry) * entries.heads + head);
        weights[unit] = f32::exp(entries.values[unit] - softmax[at]) / softmax[at + 1];
    }
}

/// Computes the gradients of weights: the product of the output's gradient with the row that was summed, per head.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn to_weights<E: Float, N: Size>(
    grad: &Rows<E, N>,
    edges: &Edges,
    entries: &Entries<E, N>,
    of_weights: &mut Array<f32>,
    num_entries: usize,
) {
    let unit = unit_number();
    if unit < num_entries * entries.heads {
        let entry = unit / entries.heads;
        let head = unit % entries.heads;
        let row = entries.row_of(entry);
        let source = entries.source_of(edges, row, entry);
        let mut product = Vector::<f32, N>::new(0.0);
        let first = head * entries.lanes_per_head;
        for lane in first..first + entries.lanes_per_head {
            product += grad.get(row, lane) * entries.z_src.get(source, lane);
        }
        of_weights[unit] = total_of(product) * entries.draws.factor(unit);
    }
}

/// Computes the gradients of scores from those of weights. For additive scoring it goes on to the argument of
/// LeakyReLU.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn to_scores<E: Float, N: Size>(
    edges: &Edges,
    entries: &Entries<E, N>,
    means: &Array<f32>,
    of_scores: &mut Array<f32>,
    num_entries: usize,
    #[comptime] scoring: Scoring,
) {
    let unit = unit_number();
    if unit < num_entries * entries.heads {
        let entry = unit / entries.heads;
        let head = unit % entries.heads;
        let row = entries.row_of(entry);
        let mut of_score = entries.weights[unit] * (entries.values[unit] - means[row * entries.heads + head]);
        if comptime!(scoring == Scoring::Additive) {
            let source = entries.source_of(edges, row, entry);
            let argument = entries.z_src.get(source, head)[0] + entries.z_dst.get(row, head)[0];
            of_score *= slope(argument, entries.negative_slope);
        }
        of_scores[unit] = of_score;
    }
}
