//! Sums over the rows of a matrix.

use cubecl::prelude::*;

use super::grid::{addresses, row_number, rows};
use super::matrix::{Element, Matrix, Rows, vector_size, with_element};

/// Rows that one task adds up.
const ROWS_PER_TASK: usize = 64;

/// What is added of a row `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// The row.
    Row,
    /// `(a - mean)²`.
    SquaredDeviation,
    /// `a * (b - mean)`.
    TimesDeviation,
}

/// What rows are compared with; the first row of the statistics are means.
#[derive(CubeType, CubeLaunch)]
struct Compared<E: Float, N: Size> {
    b: Rows<E, N>,
    statistics: Rows<f32, N>,
    lanes: usize,
    #[cube(comptime)]
    kind: Kind,
}

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

/// The sum of the rows of `a`, in `f32` and in an order that depends on their number alone; the result is of type `element`.
///
/// # Shapes
/// - output: `[1, columns]`
pub fn column_sums<R: Runtime>(client: &ComputeClient<R>, a: &Matrix, element: Element) -> Matrix {
    reduce(client, a, None, Kind::Row, element)
}

/// The sum of the squares of what rows are from their mean, the first row of `statistics`; `[1, columns]`.
pub(crate) fn squared_deviations<R: Runtime>(client: &ComputeClient<R>, a: &Matrix, statistics: &Matrix) -> Matrix {
    reduce(client, a, Some((a, statistics)), Kind::SquaredDeviation, Element::F32)
}

/// The sum of rows of `a` times what those of `b` are from their mean, the first row of `statistics`; `[1, columns]`.
pub(crate) fn deviation_products<R: Runtime>(
    client: &ComputeClient<R>,
    a: &Matrix,
    b: &Matrix,
    statistics: &Matrix,
) -> Matrix {
    reduce(client, a, Some((b, statistics)), Kind::TimesDeviation, Element::F32)
}

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
    // What is not read is any matrix.
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
