//! Sums over the rows of a matrix.

use cubecl::prelude::*;

use super::grid::{addresses, row_number, rows};
use super::matrix::{Element, Matrix, Rows, vector_size, with_element};

/// The number of rows that one task sums.
const ROWS_PER_TASK: usize = 64;

/// The summand of a row `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// `a`.
    Row,
    /// `(a - mean)²`.
    SquaredDeviation,
    /// `a * (b - mean)`.
    TimesDeviation,
}

/// The inputs of a summand besides `a`. The first row of the statistics holds means.
#[derive(CubeType, CubeLaunch)]
struct Compared<E: Float, N: Size> {
    b: Rows<E, N>,
    statistics: Rows<f32, N>,
    lanes: usize,
    #[cube(comptime)]
    kind: Kind,
}

/// Sums the rows of each task. A task is a fixed number of rows, so that results do not depend on the device.
#[cube(launch_unchecked, address_type = "dynamic")]
fn sum_tasks<E: Float, O: Float, N: Size>(
    a: &Rows<E, N>,
    compared: &Compared<E, N>,
    out: &mut Rows<O, N>,
    num_rows: usize,
    num_tasks: usize,
    rows_per_task: usize,
) {
    let task = row_number();
    if task < num_tasks {
        let start = task * rows_per_task;
        let mut end = start + rows_per_task;
        if end > num_rows {
            end = num_rows;
        }
        let mut lane = UNIT_POS_X as usize;
        while lane < compared.lanes {
            let mut total = Vector::<f32, N>::new(0.0);
            for row in start..end {
                let value = a.get(row, lane);
                match comptime!(compared.kind) {
                    Kind::Row => {
                        total += value;
                    }
                    Kind::SquaredDeviation => {
                        let deviation = value - compared.statistics.get(0, lane);
                        total += deviation * deviation;
                    }
                    Kind::TimesDeviation => {
                        total += value * (compared.b.get(row, lane) - compared.statistics.get(0, lane));
                    }
                }
            }
            out.set(task, lane, total);
            lane += CUBE_DIM_X as usize;
        }
    }
}

/// Returns the sum of the rows of `a`, in `f32` and in an order that depends only on their number. The result has the
/// type `element`.
///
/// # Shapes
/// - output: `[1, columns]`
pub fn column_sums<R: Runtime>(client: &ComputeClient<R>, a: &Matrix, element: Element) -> Matrix {
    reduce(client, a, None, Kind::Row, element)
}

/// Returns the sum of squared deviations from the mean, which is the first row of `statistics`: `[1, columns]`.
pub(crate) fn squared_deviations<R: Runtime>(client: &ComputeClient<R>, a: &Matrix, statistics: &Matrix) -> Matrix {
    reduce(client, a, Some((a, statistics)), Kind::SquaredDeviation, Element::F32)
}

/// Returns the sum of `a` times the deviation of `b` from its mean, the first row of `statistics`: `[1, columns]`.
pub(crate) fn deviation_products<R: Runtime>(
    client: &ComputeClient<R>,
    a: &Matrix,
    b: &Matrix,
    statistics: &Matrix,
) -> Matrix {
    reduce(client, a, Some((b, statistics)), Kind::TimesDeviation, Element::F32)
}

/// Sums rows in rounds: each turns the rows of a task into one row, until one is left.
fn reduce<R: Runtime>(
    client: &ComputeClient<R>,
    a: &Matrix,
    compared: Option<(&Matrix, &Matrix)>,
    kind: Kind,
    element: Element,
) -> Matrix {
    if a.rows == 0 || a.columns == 0 {
        return Matrix::zeros(client, [1, a.columns], element);
    }
    let num_tasks = a.rows.div_ceil(ROWS_PER_TASK);
    let of_out = if num_tasks == 1 { element } else { Element::F32 };
    let out = Matrix::empty(client, [num_tasks, a.columns], of_out);
    // Inputs that the kernel does not read can be any matrix.
    let (b, statistics) = compared.unwrap_or((a, a));
    let vector = vector_size(&[a, b, statistics, &out]);
    let lanes = a.columns / vector;
    let (count, dim) = rows(num_tasks, lanes);
    let addresses = addresses(&[a.span(), b.span()]);
    with_element!(a.element, E => with_element!(of_out, O => {
        let compared = ComparedLaunch::new(b.arg(vector), statistics.arg(vector), lanes, kind);
        // SAFETY: threads beyond the tasks and lanes do nothing, and tasks end with the rows.
        unsafe {
            sum_tasks::launch_unchecked::<E, O, R>(
                client, count, dim, addresses, vector,
                a.arg(vector), compared, out.arg(vector), a.rows, num_tasks, ROWS_PER_TASK,
            );
        }
    }));
    if num_tasks == 1 { out } else { reduce(client, &out, None, Kind::Row, element) }
}
