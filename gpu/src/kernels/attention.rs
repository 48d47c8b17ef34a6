//! Attention over the in-edges of each destination, in two versions, with its backward pass.
//!
//! Whatever is per edge and head is one thread each, so that hubs are balanced by themselves; sums over a row's edges are cut
//! into tasks as those of an aggregation. Entries of a row are its edges and then, if there is one, its self edge.

use cubecl::prelude::*;
use cubecl::server::Handle;

use super::columns::column_sums;
use super::dropout::{Draws, Mask};
use super::edges::{DeviceEdges, Edges, HubTasks};
use super::grid::{addresses, row_number, rows, threads, unit_number};
use super::matrix::{Element, Matrix, Rows, array, total_of, vector_size, with_element};

/// How an edge is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scoring {
    /// `LeakyReLU(score_dst + score_src)`.
    Additive,
    /// `vector · LeakyReLU(z_dst + z_src)`.
    Dynamic,
}

/// One attention: everything but the matrices.
#[derive(Clone, Copy, Debug)]
pub struct EdgeAttention<'a> {
    /// The in-edges of destinations.
    pub edges: &'a DeviceEdges,
    /// Destinations: the first rows of `edges`.
    pub num_rows: usize,
    /// Edges of these rows.
    pub num_edges: usize,
    /// Heads, each with its share of the columns.
    pub heads: usize,
    /// How edges are scored.
    pub scoring: Scoring,
    /// Whether each destination, then the first of the sources, has an edge to itself besides.
    pub self_edges: bool,
    /// What negative arguments of the LeakyReLU are multiplied by.
    pub negative_slope: f32,
    /// Of weights after the softmax, by entry and head.
    pub dropout: Mask,
}

/// What a sum over a row's entries adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// Rows of `x` times their weights.
    Weighted,
    /// As above, and what comes back through the scores of [`Scoring::Dynamic`] to their sources.
    ToSource,
    /// What comes back through those scores to their destinations.
    ToDestination,
    /// What comes back through them to the vector.
    ToVector,
    /// Values of entries.
    Values,
    /// Values of entries times their weights.
    WeightedValues,
}

/// What is known of entries, by entry and head, and what kernels need of an attention.
#[derive(CubeType, CubeLaunch)]
struct Entries<E: Float, N: Size> {
    weights: Array<f32>,
    values: Array<f32>,
    z_src: Rows<E, N>,
    z_dst: Rows<E, N>,
    vector: Rows<E, N>,
    /// The CSR of the destinations, transposed or not.
    indptr: Array<u32>,
    draws: Draws,
    num_rows: usize,
    heads: usize,
    /// Vectors of a row that is summed.
    lanes: usize,
    lanes_per_head: usize,
    negative_slope: f32,
    #[cube(comptime)]
    self_edges: bool,
}

/// The derivative of LeakyReLU, by which its argument is multiplied as well.
#[cube]
fn slope(argument: f32, negative_slope: f32) -> f32 {
    select(argument > 0.0, 1.0, negative_slope)
}

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
    /// The first entry of a destination.
    fn first(&self, row: usize) -> usize {
        let mut first = self.indptr[row] as usize;
        if comptime!(self.self_edges) {
            first += row;
        }
        first
    }

    /// The entry of the edge with the given number, into `row`.
    fn of_edge(&self, number: usize, row: usize) -> usize {
        let mut entry = number;
        if comptime!(self.self_edges) {
            entry += row;
        }
        entry
    }

    /// The self edge of a destination: its last entry.
    fn own(&self, row: usize) -> usize {
        self.indptr[row + 1] as usize + row
    }

    /// The destination of an entry, by bisection.
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

    /// The source of an entry of `row`.
    fn source_of(&self, edges: &Edges, row: usize, entry: usize) -> usize {
        let at = self.indptr[row] as usize + entry - self.first(row);
        let mut source = row;
        if at < self.indptr[row + 1] as usize {
            source = edges.other(at);
        }
        source
    }

    /// What the rows of an entry are multiplied by.
    fn factor(&self, entry: usize, head: usize) -> f32 {
        let at = entry * self.heads + head;
        self.weights[at] * self.draws.factor(at)
    }
}

/// What an entry from `source` to `destination` adds to a vector of a row's sum; `x_row` is the row of `x` that it reads.
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
        // Of these a lane is a head.
        Kind::Values => Vector::new(entries.values[entry * entries.heads + lane]),
        Kind::WeightedValues => {
            let at = entry * entries.heads + lane;
            Vector::new(entries.values[at] * entries.weights[at])
        }
    }
}

/// The sum over the edges from `start` to `end` of `row`, a destination or, of transposed edges, a source.
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

/// The sum of a row's edges, and its self edge if it has one.
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
        if row < entries.num_rows {
            total += term(x, entries, entries.own(row), row, row, row, lane, kind);
        }
    }
    total
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn sum_rows<E: Float, O: Float, N: Size>(
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
            let (start, end) = (edges.start(row), edges.start(row + 1));
            let mut lane = UNIT_POS_X as usize;
            while lane < entries.lanes {
                let total = sum(x, edges, entries, row, start, end, lane, kind);
                out.set(row, lane, with_own(x, entries, row, lane, total, kind));
                lane += CUBE_DIM_X as usize;
            }
        }
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn sum_tasks<E: Float, N: Size>(
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

#[cube(launch_unchecked, address_type = "dynamic")]
fn sum_hubs<E: Float, O: Float, N: Size>(
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

/// A score for each entry and head.
#[cube(launch_unchecked, address_type = "dynamic")]
fn score_entries<E: Float, N: Size>(
    edges: &Edges,
    entries: &Entries<E, N>,
    scores: &mut Array<f32>,
    num_entries: usize,
    #[comptime] scoring: Scoring,
) {
    let unit = unit_number();
    if unit < num_entries * entries.heads {
        let (entry, head) = (unit / entries.heads, unit % entries.heads);
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

/// The greatest score from `start` to `end` of a row, and the sum of the exponentials of the others less it.
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

/// Two such pairs as one.
#[cube]
fn joined(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
    let greatest = select(b.0 > a.0, b.0, a.0);
    (greatest, a.1 * f32::exp(a.0 - greatest) + b.1 * f32::exp(b.0 - greatest))
}

/// Adds the self edge, and writes the greatest score and the total.
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

#[cube(launch_unchecked, address_type = "dynamic")]
fn softmax_rows<E: Float, N: Size>(edges: &Edges, entries: &Entries<E, N>, out: &mut Array<f32>) {
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

#[cube(launch_unchecked, address_type = "dynamic")]
fn softmax_tasks<E: Float, N: Size>(entries: &Entries<E, N>, hubs: &HubTasks, partial: &mut Array<f32>) {
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

#[cube(launch_unchecked, address_type = "dynamic")]
fn softmax_hubs<E: Float, N: Size>(
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

/// Makes weights of scores.
#[cube(launch_unchecked, address_type = "dynamic")]
fn normalize<E: Float, N: Size>(
    entries: &Entries<E, N>,
    softmax: &Array<f32>,
    weights: &mut Array<f32>,
    num_entries: usize,
) {
    let unit = unit_number();
    if unit < num_entries * entries.heads {
        let (entry, head) = (unit / entries.heads, unit % entries.heads);
        let at = 2 * (entries.row_of(entry) * entries.heads + head);
        weights[unit] = f32::exp(entries.values[unit] - softmax[at]) / softmax[at + 1];
    }
}

/// The gradients of weights: what a row of the output's gradient has to do with the rows that were summed.
#[cube(launch_unchecked, address_type = "dynamic")]
fn to_weights<E: Float, N: Size>(
    grad: &Rows<E, N>,
    edges: &Edges,
    entries: &Entries<E, N>,
    of_weights: &mut Array<f32>,
    num_entries: usize,
) {
    let unit = unit_number();
    if unit < num_entries * entries.heads {
        let (entry, head) = (unit / entries.heads, unit % entries.heads);
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

/// The gradients of scores for those of weights, and of the sum within LeakyReLU for additive ones.
#[cube(launch_unchecked, address_type = "dynamic")]
fn to_scores<E: Float, N: Size>(
    edges: &Edges,
    entries: &Entries<E, N>,
    means: &Array<f32>,
    of_scores: &mut Array<f32>,
    num_entries: usize,
    #[comptime] scoring: Scoring,
) {
    let unit = unit_number();
    if unit < num_entries * entries.heads {
        let (entry, head) = (unit / entries.heads, unit % entries.heads);
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

/// What the forward pass reads, of the element type of the first.
///
/// # Shapes
/// - [`Scoring::Additive`]: `[num_src, heads * channels]`, `[num_src, heads]`, `[num_rows, heads]`
/// - [`Scoring::Dynamic`]: `[num_src, heads * channels]`, `[num_rows, heads * channels]`, `[1, heads * channels]`
pub type AttentionInputs<'a> = [&'a Matrix; 3];

/// The arrays of entries that a kernel reads; what it does not is any other.
#[derive(Clone, Copy)]
struct Arrays<'a> {
    weights: &'a Handle,
    values: &'a Handle,
}

/// The matrices by which entries are scored, as a kernel reads them.
#[derive(Clone, Copy)]
struct Ends<'a> {
    z_src: &'a Matrix,
    z_dst: &'a Matrix,
    vector: &'a Matrix,
}

impl EdgeAttention<'_> {
    /// Entries of all rows.
    fn num_entries(&self) -> usize {
        self.num_edges + if self.self_edges { self.num_rows } else { 0 }
    }

    /// Room for a value by entry and head.
    fn room<R: Runtime>(&self, client: &ComputeClient<R>) -> Handle {
        client.empty((self.num_entries() * self.heads).max(1) * size_of::<f32>())
    }

    fn entries<E: Float, N: Size, R: Runtime>(
        &self,
        arrays: Arrays<'_>,
        ends: Ends<'_>,
        vector: usize,
        lanes: usize,
    ) -> EntriesLaunch<E, N, R> {
        let values = self.num_entries() * self.heads;
        EntriesLaunch::new(
            array(arrays.weights, values),
            array(arrays.values, values),
            ends.z_src.arg(vector),
            ends.z_dst.arg(vector),
            ends.vector.arg(vector),
            array(&self.edges.indptr, self.edges.num_rows() + 1),
            self.dropout.arg(),
            self.num_rows,
            self.heads,
            lanes,
            (lanes / self.heads).max(1),
            self.negative_slope,
            self.self_edges,
        )
    }

    /// The matrices that scores are made of, the length of vectors that they are read in, and vectors in a row.
    fn scored<'a>(&self, [z, second, third]: AttentionInputs<'a>) -> (Ends<'a>, usize, usize) {
        match self.scoring {
            Scoring::Additive => (Ends { z_src: second, z_dst: third, vector: third }, 1, self.heads),
            Scoring::Dynamic => {
                let vector = self.vector_size(&[z, second, third]);
                (Ends { z_src: z, z_dst: second, vector: third }, vector, z.columns / vector)
            }
        }
    }

    /// Vectors that stay within a head.
    fn vector_size(&self, matrices: &[&Matrix]) -> usize {
        let head = Matrix { columns: matrices[0].columns / self.heads, ..matrices[0].clone() };
        vector_size(&[matrices, &[&head]].concat())
    }

    fn addresses(&self, matrices: &[&Matrix]) -> AddressType {
        let spans = matrices.iter().map(|matrix| matrix.span());
        addresses(&spans.chain([2 * self.num_entries() * self.heads]).collect::<Vec<_>>())
    }

    /// Sums the rows of `z` by weights; also the weights before dropout, `f32` by entry and head.
    ///
    /// # Shapes
    /// - output: `[num_rows, heads * channels]`, of the element type of `z`, and `[entries, heads]`
    ///
    /// # Panics
    /// If the matrices are not of one element type.
    pub fn forward<R: Runtime>(&self, client: &ComputeClient<R>, inputs: AttentionInputs<'_>) -> (Matrix, Handle) {
        let z = inputs[0];
        assert!(inputs.iter().all(|matrix| matrix.element == z.element), "an attention's element types");
        let (scores, weights) = (self.room(client), self.room(client));
        let out = Matrix::empty(client, [self.num_rows, z.columns], z.element);
        if self.num_rows == 0 || z.columns == 0 {
            return (out, weights);
        }
        let softmax = client.empty(2 * self.num_rows * self.heads * size_of::<f32>());
        let pairs = |rows: usize| 2 * rows * self.heads;
        let (ends, vector, lanes) = self.scored(inputs);
        let addresses = self.addresses(&inputs);
        let num_entries = self.num_entries();
        let unread = Arrays { weights: &softmax, values: &softmax };
        let scored = Arrays { weights: &softmax, values: &scores };
        let scored_again = Arrays { weights: &self.edges.indptr, values: &scores };
        let by_entry = threads(num_entries * self.heads);
        let by_row = rows(self.num_rows, self.heads);
        with_element!(z.element, E => {
            // SAFETY: in all launches threads beyond the entries, rows and heads do nothing, and edges are in range.
            unsafe {
                score_entries::launch_unchecked::<E, R>(
                    client, by_entry.0, by_entry.1, addresses, vector,
                    self.edges.arg(), self.entries(unread, ends, vector, lanes), array(&scores, num_entries * self.heads),
                    num_entries, self.scoring,
                );
                softmax_rows::launch_unchecked::<E, R>(
                    client, by_row.0, by_row.1, addresses, vector,
                    self.edges.arg(), self.entries(scored_again, ends, vector, lanes), array(&softmax, pairs(self.num_rows)),
                );
                if let Some(hubs) = self.edges.hubs(self.num_rows) {
                    let partial = client.empty(pairs(hubs.num_tasks) * size_of::<f32>());
                    let by_task = rows(hubs.num_tasks, self.heads);
                    softmax_tasks::launch_unchecked::<E, R>(
                        client, by_task.0, by_task.1, addresses, vector,
                        self.entries(scored_again, ends, vector, lanes), hubs.arg(), array(&partial, pairs(hubs.num_tasks)),
                    );
                    let by_hub = rows(hubs.num_hubs, self.heads);
                    softmax_hubs::launch_unchecked::<E, R>(
                        client, by_hub.0, by_hub.1, addresses, vector,
                        self.entries(scored_again, ends, vector, lanes), hubs.arg(), array(&partial, pairs(hubs.num_tasks)),
                        array(&softmax, pairs(self.num_rows)),
                    );
                }
                let by_entry = threads(num_entries * self.heads);
                normalize::launch_unchecked::<E, R>(
                    client, by_entry.0, by_entry.1, addresses, vector,
                    self.entries(scored, ends, vector, lanes), array(&softmax, pairs(self.num_rows)),
                    array(&weights, num_entries * self.heads), num_entries,
                );
            }
        });
        let weighted = Arrays { weights: &weights, values: &weights };
        self.sum(client, z, self.edges, weighted, inputs, Kind::Weighted, &out);
        (out, weights)
    }

    /// The gradients of the inputs, of their shapes and element types, for that of the output, `[num_rows, heads * channels]`.
    /// `transposed` are the edges by source, one row for each row of `z`.
    ///
    /// # Panics
    /// If `transposed` has other rows.
    pub fn backward<R: Runtime>(
        &self,
        client: &ComputeClient<R>,
        inputs: AttentionInputs<'_>,
        weights: &Handle,
        grad: &Matrix,
        transposed: &DeviceEdges,
    ) -> [Matrix; 3] {
        let [z, second, third] = inputs;
        assert_eq!(transposed.num_rows(), z.rows, "rows of an attention's transposed edges");
        let element = z.element;
        let gradient = |like: &Matrix| Matrix::empty(client, [like.rows, like.columns], element);
        let of_z = gradient(z);
        let num_entries = self.num_entries();
        let values = num_entries * self.heads;
        if z.columns == 0 || self.num_rows == 0 || num_entries == 0 {
            let zeros = |like: &Matrix| Matrix::zeros(client, [like.rows, like.columns], element);
            return [zeros(z), zeros(second), zeros(third)];
        }
        let (of_weights, of_scores) = (self.room(client), self.room(client));
        let addresses = self.addresses(&[z, second, third, grad]);
        let by_entry = || threads(values);
        let vector = self.vector_size(&[z, grad]);
        let lanes = z.columns / vector;
        with_element!(element, E => {
            let ends = Ends { z_src: z, z_dst: grad, vector: grad };
            let arrays = Arrays { weights, values: weights };
            let (count, dim) = by_entry();
            // SAFETY: threads beyond the entries do nothing, and edges are in range.
            unsafe {
                to_weights::launch_unchecked::<E, R>(
                    client, count, dim, addresses, vector,
                    grad.arg(vector), self.edges.arg(), self.entries(arrays, ends, vector, lanes), array(&of_weights, values),
                    num_entries,
                );
            }
        });
        let means = Matrix::empty(client, [self.num_rows, self.heads], Element::F32);
        let arrays = Arrays { weights, values: &of_weights };
        self.sum(client, grad, self.edges, arrays, inputs, Kind::WeightedValues, &means);
        let (ends, scored_vector, scored_lanes) = self.scored(inputs);
        with_element!(element, E => {
            let (count, dim) = by_entry();
            // SAFETY: as above.
            unsafe {
                to_scores::launch_unchecked::<E, R>(
                    client, count, dim, addresses, scored_vector,
                    self.edges.arg(), self.entries(arrays, ends, scored_vector, scored_lanes),
                    array(&means.handle, self.num_rows * self.heads), array(&of_scores, values), num_entries, self.scoring,
                );
            }
        });
        let arrays = Arrays { weights, values: &of_scores };
        let sum = |x: &Matrix, edges: &DeviceEdges, kind: Kind, out: &Matrix| {
            self.sum(client, x, edges, arrays, inputs, kind, out);
        };
        match self.scoring {
            Scoring::Additive => {
                sum(grad, transposed, Kind::Weighted, &of_z);
                let (of_src, of_dst) = (gradient(second), gradient(third));
                sum(grad, transposed, Kind::Values, &of_src);
                sum(grad, self.edges, Kind::Values, &of_dst);
                [of_z, of_src, of_dst]
            }
            Scoring::Dynamic => {
                sum(grad, transposed, Kind::ToSource, &of_z);
                let of_dst = gradient(second);
                sum(grad, self.edges, Kind::ToDestination, &of_dst);
                let by_row = Matrix::empty(client, [self.num_rows, z.columns], Element::F32);
                sum(grad, self.edges, Kind::ToVector, &by_row);
                [of_z, of_dst, column_sums(client, &by_row, element)]
            }
        }
    }

    /// Sums over the entries of the rows of `edges` into `out`.
    #[allow(clippy::too_many_arguments)]
    fn sum<R: Runtime>(
        &self,
        client: &ComputeClient<R>,
        x: &Matrix,
        edges: &DeviceEdges,
        arrays: Arrays<'_>,
        inputs: AttentionInputs<'_>,
        kind: Kind,
        out: &Matrix,
    ) {
        if out.rows == 0 {
            return;
        }
        let by_head = matches!(kind, Kind::Values | Kind::WeightedValues);
        let through_scores = self.scoring == Scoring::Dynamic && !by_head;
        let (ends, vector) = match (by_head, through_scores) {
            (true, _) => (Ends { z_src: x, z_dst: x, vector: x }, 1),
            (_, true) => (self.scored(inputs).0, self.vector_size(&[x, out, inputs[0], inputs[1], inputs[2]])),
            _ => (Ends { z_src: x, z_dst: x, vector: x }, self.vector_size(&[x, out])),
        };
        let lanes = out.columns / vector;
        let num_rows = out.rows;
        let addresses = self.addresses(&[x, out, ends.z_src, ends.z_dst]);
        with_element!(x.element, E => with_element!(out.element, O => {
            let (count, dim) = rows(num_rows, lanes);
            // SAFETY: threads beyond the rows and lanes do nothing, and edges are in range.
            unsafe {
                sum_rows::launch_unchecked::<E, O, R>(
                    client, count, dim, addresses, vector,
                    x.arg(vector), edges.arg(), self.entries(arrays, ends, vector, lanes), out.arg(vector), num_rows, kind,
                );
            }
            if let Some(hubs) = edges.hubs(num_rows) {
                let partial = Matrix::empty(client, [hubs.num_tasks, out.columns], Element::F32);
                let (count, dim) = rows(hubs.num_tasks, lanes);
                // SAFETY: as above.
                unsafe {
                    sum_tasks::launch_unchecked::<E, R>(
                        client, count, dim, addresses, vector,
                        x.arg(vector), edges.arg(), self.entries(arrays, ends, vector, lanes), hubs.arg(),
                        partial.arg(vector), kind,
                    );
                }
                let (count, dim) = rows(hubs.num_hubs, lanes);
                // SAFETY: as above.
                unsafe {
                    sum_hubs::launch_unchecked::<E, O, R>(
                        client, count, dim, addresses, vector,
                        x.arg(vector), self.entries(arrays, ends, vector, lanes), hubs.arg(), partial.arg(vector),
                        out.arg(vector), kind,
                    );
                }
            }
        }));
    }
}
