//! Sums, means and weighted sums over the edges of each row, and their backward passes, including that of the maximum.
//!
//! A few adjacent threads sum one row, one vector of columns each, in the order of its edges, so results do not depend
//! on the device. Rows with very many edges are cut into tasks, whose sums are added in order.

use cubecl::prelude::*;
use cubecl::server::Handle;

use super::edges::{DeviceEdges, Edges, HubTasks};
use super::grid::{addresses, row_number, rows};
use super::matrix::{Element, Matrix, Rows, array, vector_size, with_element};

/// The factor of the row at the other end of an edge.
#[derive(Clone, Copy, Debug)]
pub enum Factor<'a> {
    /// One.
    One,
    /// The weight of the edge, `[num_edges]` `f32`.
    Weight(&'a Handle),
    /// One over the number of edges of the other end, whose CSR this is: for the backward pass of a mean.
    InverseDegree(&'a DeviceEdges),
    /// One if the edge is the winner of the element, `[rows of x, columns]` `u32`, else zero: for the backward pass of
    /// a maximum.
    Won(&'a Handle),
}

/// The contribution of a row's own values to its sum. Only the first `num_own` rows have own values.
#[derive(Clone, Copy, Debug)]
pub enum Own<'a> {
    /// None.
    Nothing,
    /// The own values times a weight per row, `[rows]` `f32`.
    Weighted(&'a Handle),
}

/// A sum over the edges of each row.
#[derive(Clone, Copy, Debug)]
pub struct Aggregation<'a> {
    /// The edges, by the rows to compute.
    pub edges: &'a DeviceEdges,
    /// The number of rows to compute: the first of the CSR.
    pub num_rows: usize,
    /// The number of columns to sum: the first of `x`.
    pub width: usize,
    /// The factor of each edge.
    pub factor: Factor<'a>,
    /// True to divide sums by their number of edges.
    pub mean: bool,
    /// The contribution of the row's own values.
    pub own: Own<'a>,
    /// The number of rows with own values. Those of row `r` are in row `r` of `x`.
    pub num_own: usize,
    /// The treatment of own values besides the sum: a forward pass copies them to the output's columns from `width` on.
    /// A backward pass, whose `x` has twice as many columns, adds the columns from `width` on.
    pub appended: Appended,
}

/// The treatment of own values that are not part of the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Appended {
    /// There are none.
    No,
    /// They are written to the columns after the sum.
    Write,
    /// They are read from the columns after those that are summed, and added to the sum.
    Read,
}

/// The factors that a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    One,
    Weight,
    InverseDegree,
    Won,
}

/// The inputs of a sum besides `x` and the edges.
#[derive(CubeType, CubeLaunch)]
struct Terms {
    /// The weight of each edge.
    weights: Array<f32>,
    /// The CSR of the other ends, for their degrees.
    degrees: Array<u32>,
    /// The winning edge of each element of `x`.
    winners: Array<u32>,
    /// The weight of each row's own values.
    own_weights: Array<f32>,
    num_own: usize,
    /// The number of vectors in a row.
    lanes: usize,
    #[cube(comptime)]
    kind: Kind,
    #[cube(comptime)]
    mean: bool,
    #[cube(comptime)]
    weighted_own: bool,
    #[cube(comptime)]
    appended: Appended,
}

/// Returns the term that the edge at `at` adds to a vector of its row.
#[cube]
fn term<E: Float, N: Size>(x: &Rows<E, N>, edges: &Edges, terms: &Terms, at: usize, lane: usize) -> Vector<f32, N> {
    let other = edges.other(at);
    let value = x.get(other, lane);
    match comptime!(terms.kind) {
        Kind::One => value,
        Kind::Weight => value * Vector::new(terms.weights[edges.number(at)]),
        Kind::InverseDegree => {
            value * Vector::new(1.0 / f32::cast_from(terms.degrees[other + 1] - terms.degrees[other]))
        }
        Kind::Won => {
            let mut won = value;
            let edge = edges.number(at) as u32;
            let size = N::value();
            let first = (other * terms.lanes + lane) * size;
            #[unroll]
            for i in 0..size {
                if terms.winners[first + i] != edge {
                    won[i] = 0.0;
                }
            }
            won
        }
    }
}

/// Returns the sum of the edges from `start` to `end`, in order. It reads four at a time, so that their loads overlap.
#[cube]
fn sum<E: Float, N: Size>(
    x: &Rows<E, N>,
    edges: &Edges,
    terms: &Terms,
    start: usize,
    end: usize,
    lane: usize,
) -> Vector<f32, N> {
    let mut total = Vector::<f32, N>::new(0.0);
    let mut at = start;
    while at + 4 <= end {
        let a = term(x, edges, terms, at, lane);
        let b = term(x, edges, terms, at + 1, lane);
        let c = term(x, edges, terms, at + 2, lane);
        let d = term(x, edges, terms, at + 3, lane);
        total = total + a + b + c + d;
        at += 4;
    }
    while at < end {
        total += term(x, edges, terms, at, lane);
        at += 1;
    }
    total
}

/// Completes the sum of a row's edges, and writes it.
#[cube]
fn finish<E: Float, N: Size>(
    x: &Rows<E, N>,
    edges: &Edges,
    terms: &Terms,
    row: usize,
    lane: usize,
    total: Vector<f32, N>,
    out: &mut Rows<E, N>,
) {
    let mut total = total;
    if comptime!(terms.mean) {
        // The mean of one edge is its sum, and a row without edges stays zero.
        let degree = edges.degree(row);
        if degree > 1 {
            total *= Vector::new(1.0 / f32::cast_from(degree));
        }
    }
    if row < terms.num_own {
        if comptime!(terms.weighted_own) {
            total += x.get(row, lane) * Vector::new(terms.own_weights[row]);
        }
        if comptime!(terms.appended == Appended::Read) {
            total += x.get(row, terms.lanes + lane);
        }
        if comptime!(terms.appended == Appended::Write) {
            out.set(row, terms.lanes + lane, x.get(row, lane));
        }
    }
    out.set(row, lane, total);
}

/// Sums the rows that are one task. Rows with more edges are left to the kernels of hubs.
#[cube(launch_unchecked, address_type = "dynamic")]
fn sum_rows<E: Float, N: Size>(x: &Rows<E, N>, edges: &Edges, terms: &Terms, out: &mut Rows<E, N>, num_rows: usize) {
    let row = row_number();
    if row < num_rows {
        if edges.is_one_task(row) {
            let start = edges.start(row);
            let end = edges.start(row + 1);
            let mut lane = UNIT_POS_X as usize;
            while lane < terms.lanes {
                let total = sum(x, edges, terms, start, end, lane);
                finish(x, edges, terms, row, lane, total, out);
                lane += CUBE_DIM_X as usize;
            }
        }
    }
}

/// Sums each task of a hub: a stretch of its edges.
#[cube(launch_unchecked, address_type = "dynamic")]
fn sum_tasks<E: Float, N: Size>(
    x: &Rows<E, N>,
    edges: &Edges,
    terms: &Terms,
    hubs: &HubTasks,
    partial: &mut Rows<f32, N>,
) {
    let task = row_number();
    if task < hubs.num_tasks {
        let mut lane = UNIT_POS_X as usize;
        while lane < terms.lanes {
            partial.set(task, lane, sum(x, edges, terms, hubs.start(task), hubs.end(task), lane));
            lane += CUBE_DIM_X as usize;
        }
    }
}

/// Adds the sums of each hub's tasks, in the order of its edges.
#[cube(launch_unchecked, address_type = "dynamic")]
fn sum_hubs<E: Float, N: Size>(
    x: &Rows<E, N>,
    edges: &Edges,
    terms: &Terms,
    hubs: &HubTasks,
    partial: &Rows<f32, N>,
    out: &mut Rows<E, N>,
) {
    let hub = row_number();
    if hub < hubs.num_hubs {
        let row = hubs.row_of_hub(hub);
        let mut lane = UNIT_POS_X as usize;
        while lane < terms.lanes {
            let mut total = Vector::<f32, N>::new(0.0);
            for task in hubs.first_task(hub)..hubs.first_task(hub + 1) {
                total += partial.get(task, lane);
            }
            finish(x, edges, terms, row, lane, total, out);
            lane += CUBE_DIM_X as usize;
        }
    }
}

impl Aggregation<'_> {
    /// Sums rows of `x`, of any element type, in `f32`. The result has the type of `x`.
    ///
    /// # Shapes
    /// - `x`: `[others, columns]`
    /// - output: `[num_rows, width]`, or twice as many columns for [`Appended::Write`]
    ///
    /// # Panics
    /// Panics if `x` has fewer columns than are read.
    pub fn run<R: Runtime>(&self, client: &ComputeClient<R>, x: &Matrix) -> Matrix {
        let Self { edges, num_rows, width, num_own, appended, .. } = *self;
        let read = if appended == Appended::Read { 2 * width } else { width };
        assert!(x.columns >= read, "an aggregation of {read} columns among {}", x.columns);
        let columns = if appended == Appended::Write { 2 * width } else { width };
        let out = Matrix::empty(client, [num_rows, columns], x.element);
        if num_rows == 0 || width == 0 {
            return out;
        }
        let summed = Matrix { columns: width, ..x.clone() };
        let vector = vector_size(&[&summed, &out, &Matrix { columns: width, ..out.clone() }]);
        let lanes = width / vector;
        let none = &edges.indptr;
        let mut weights = none;
        let mut degrees = none;
        let mut winners = none;
        let kind = match self.factor {
            Factor::One => Kind::One,
            Factor::Weight(by_edge) => {
                weights = by_edge;
                Kind::Weight
            }
            Factor::InverseDegree(of_others) => {
                degrees = &of_others.indptr;
                Kind::InverseDegree
            }
            Factor::Won(by_element) => {
                winners = by_element;
                Kind::Won
            }
        };
        let (own_weights, weighted_own) = match self.own {
            Own::Nothing => (none, false),
            Own::Weighted(by_row) => (by_row, true),
        };
        // Arrays that the kernel does not read can be any array.
        let terms = || {
            TermsLaunch::new(
                array(weights, edges.num_edges()),
                array(degrees, x.rows + 1),
                array(winners, x.rows * width),
                array(own_weights, num_own),
                num_own,
                lanes,
                kind,
                self.mean,
                weighted_own,
                appended,
            )
        };
        let addresses = addresses(&[x.span(), out.span(), edges.num_edges()]);
        let (count, dim) = rows(num_rows, lanes);
        with_element!(x.element, E => {
            // SAFETY: threads beyond the rows and lanes do nothing, and edges are in range.
            unsafe {
                sum_rows::launch_unchecked::<E, R>(
                    client, count, dim, addresses, vector,
                    x.arg(vector), edges.arg(), terms(), out.arg(vector), num_rows,
                );
            }
            if let Some(hubs) = edges.hubs(num_rows) {
                let partial = Matrix::empty(client, [hubs.num_tasks, width], Element::F32);
                let (count, dim) = rows(hubs.num_tasks, lanes);
                // SAFETY: as above.
                unsafe {
                    sum_tasks::launch_unchecked::<E, R>(
                        client, count, dim, addresses, vector,
                        x.arg(vector), edges.arg(), terms(), hubs.arg(), partial.arg(vector),
                    );
                }
                let (count, dim) = rows(hubs.num_hubs, lanes);
                // SAFETY: as above.
                unsafe {
                    sum_hubs::launch_unchecked::<E, R>(
                        client, count, dim, addresses, vector,
                        x.arg(vector), edges.arg(), terms(), hubs.arg(), partial.arg(vector), out.arg(vector),
                    );
                }
            }
        });
        out
    }
}
