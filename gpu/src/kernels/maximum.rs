//! The maximum over the edges of each row, and the edge that attains it. As in torch, NaN counts as greater than any
//! number, so a row with a NaN has NaN as its maximum.

use cubecl::prelude::*;
use cubecl::server::Handle;

use super::edges::{DeviceEdges, Edges, HubTasks};
use super::grid::{addresses, row_number, rows};
use super::matrix::{Element, Matrix, Rows, array, with_element};

/// Maxima and their edges. Vectors have size one: comparisons of longer ones are no faster when loads are scattered.
#[derive(CubeType, CubeLaunch)]
struct Greatest<E: Float, N: Size> {
    values: Rows<E, N>,
    winners: Array<u32>,
    columns: usize,
}

#[cube]
impl<E: Float, N: Size> Greatest<E, N> {
    fn set(&mut self, row: usize, column: usize, value: Vector<f32, N>, edge: u32) {
        self.values.set(row, column, value);
        self.winners[row * self.columns + column] = edge;
    }
}

fn greatest_arg<E: Float, N: Size, R: Runtime>(values: &Matrix, winners: &Handle) -> GreatestLaunch<E, N, R> {
    GreatestLaunch::new(values.arg(1), array(winners, values.rows * values.columns), values.columns)
}

/// Returns true if `value` replaces the maximum so far. A NaN does, and stays, since no value is greater than NaN.
#[cube]
fn wins<N: Size>(value: Vector<f32, N>, greatest: Vector<f32, N>) -> bool {
    value[0] > greatest[0] || f32::is_nan(value[0])
}

/// Returns the first maximum from `start` to `end`, or the last NaN, and its edge. The range must not be empty.
#[cube]
fn greatest<E: Float, N: Size>(
    x: &Rows<E, N>,
    edges: &Edges,
    start: usize,
    end: usize,
    column: usize,
) -> (Vector<f32, N>, u32) {
    let mut value = x.get(edges.other(start), column);
    let mut edge = start as u32;
    for at in start + 1..end {
        let candidate = x.get(edges.other(at), column);
        if wins(candidate, value) {
            value = candidate;
            edge = at as u32;
        }
    }
    (value, edge)
}

/// Reduces the rows that are one task. Rows with more edges are left to the kernels of hubs.
#[cube(launch_unchecked, address_type = "dynamic")]
fn greatest_of_rows<E: Float, N: Size>(x: &Rows<E, N>, edges: &Edges, out: &mut Greatest<E, N>, num_rows: usize) {
    let row = row_number();
    if row < num_rows {
        if edges.is_one_task(row) {
            let start = edges.start(row);
            let end = edges.start(row + 1);
            let mut column = UNIT_POS_X as usize;
            while column < out.columns {
                if start == end {
                    out.set(row, column, Vector::new(0.0), u32::MAX);
                } else {
                    let (value, edge) = greatest(x, edges, start, end, column);
                    out.set(row, column, value, edge);
                }
                column += CUBE_DIM_X as usize;
            }
        }
    }
}

/// Reduces each task of a hub: a stretch of its edges.
#[cube(launch_unchecked, address_type = "dynamic")]
fn greatest_of_tasks<E: Float, N: Size>(
    x: &Rows<E, N>,
    edges: &Edges,
    hubs: &HubTasks,
    partial: &mut Greatest<f32, N>,
) {
    let task = row_number();
    if task < hubs.num_tasks {
        let mut column = UNIT_POS_X as usize;
        while column < partial.columns {
            let (value, edge) = greatest(x, edges, hubs.start(task), hubs.end(task), column);
            partial.set(task, column, value, edge);
            column += CUBE_DIM_X as usize;
        }
    }
}

/// Reduces the tasks of each hub, in the order of their edges.
#[cube(launch_unchecked, address_type = "dynamic")]
fn greatest_of_hubs<E: Float, N: Size>(partial: &Greatest<f32, N>, hubs: &HubTasks, out: &mut Greatest<E, N>) {
    let hub = row_number();
    if hub < hubs.num_hubs {
        let row = hubs.row_of_hub(hub);
        let first = hubs.first_task(hub);
        let mut column = UNIT_POS_X as usize;
        while column < out.columns {
            let mut value = partial.values.get(first, column);
            let mut edge = partial.winners[first * partial.columns + column];
            for task in first + 1..hubs.first_task(hub + 1) {
                let candidate = partial.values.get(task, column);
                if wins(candidate, value) {
                    value = candidate;
                    edge = partial.winners[task * partial.columns + column];
                }
            }
            out.set(row, column, value, edge);
            column += CUBE_DIM_X as usize;
        }
    }
}

/// Computes the maximum of the first `width` columns of `x` over the edges of each of the first `num_rows` rows, and
/// the first edge that attains it. A row without edges gets zero and `u32::MAX`. A column with a NaN gets NaN and the
/// last edge with one.
///
/// # Shapes
/// - `x`: `[others, columns]`
/// - output: `[num_rows, width]`, and as many `u32`
///
/// # Panics
/// Panics if `x` has fewer columns than `width`.
pub fn maximum<R: Runtime>(
    client: &ComputeClient<R>,
    x: &Matrix,
    edges: &DeviceEdges,
    num_rows: usize,
    width: usize,
) -> (Matrix, Handle) {
    assert!(x.columns >= width, "a maximum of {width} columns among {}", x.columns);
    let out = Matrix::empty(client, [num_rows, width], x.element);
    let winners = client.empty((num_rows * width).max(1) * size_of::<u32>());
    if num_rows == 0 || width == 0 {
        return (out, winners);
    }
    let addresses = addresses(&[x.span(), out.span(), edges.num_edges()]);
    let (count, dim) = rows(num_rows, width);
    with_element!(x.element, E => {
        // SAFETY: threads beyond the rows and width do nothing, and edges are in range.
        unsafe {
            greatest_of_rows::launch_unchecked::<E, R>(
                client, count, dim, addresses, 1, x.arg(1), edges.arg(), greatest_arg(&out, &winners), num_rows,
            );
        }
        if let Some(hubs) = edges.hubs(num_rows) {
            let values = Matrix::empty(client, [hubs.num_tasks, width], Element::F32);
            let won = client.empty(hubs.num_tasks * width * size_of::<u32>());
            let (count, dim) = rows(hubs.num_tasks, width);
            // SAFETY: as above.
            unsafe {
                let partial = greatest_arg(&values, &won);
                greatest_of_tasks::launch_unchecked::<E, R>(
                    client, count, dim, addresses, 1,
                    x.arg(1), edges.arg(), hubs.arg(), partial,
                );
            }
            let (count, dim) = rows(hubs.num_hubs, width);
            // SAFETY: as above.
            unsafe {
                let partial = greatest_arg(&values, &won);
                greatest_of_hubs::launch_unchecked::<E, R>(
                    client, count, dim, addresses, 1, partial, hubs.arg(), greatest_arg(&out, &winners),
                );
            }
        }
    });
    (out, winners)
}
