//! Cross entropy of logits and classes.

use cubecl::prelude::*;
use cubecl::server::Handle;

use super::columns::column_sums;
use super::grid::{addresses, threads, unit_number};
use super::matrix::{Element, Matrix, Rows, array, with_element};

/// Computes each row's cross entropy, the logarithm of its sum of exponentials, and whether its class is predicted.
#[cube(launch_unchecked, address_type = "dynamic")]
fn entropy_of_rows<E: Float, N: Size>(
    logits: &Rows<E, N>,
    classes: &Array<i32>,
    judged: &mut Array<f32>,
    log_sums: &mut Array<f32>,
    num_rows: usize,
    num_classes: usize,
) {
    let row = unit_number();
    if row < num_rows {
        let class = classes[row] as usize;
        let mut greatest = logits.get(row, 0)[0];
        let mut at = 0usize;
        for column in 1..num_classes {
            let logit = logits.get(row, column)[0];
            if logit > greatest {
                greatest = logit;
                at = column;
            }
        }
        // The maximum is subtracted so that the exponentials do not overflow.
        let mut total = 0.0f32;
        for column in 0..num_classes {
            total += f32::exp(logits.get(row, column)[0] - greatest);
        }
        let log_sum = greatest + f32::ln(total);
        log_sums[row] = log_sum;
        judged[2 * row] = log_sum - logits.get(row, class)[0];
        judged[2 * row + 1] = select(at == class && !f32::is_nan(log_sum), 1.0, 0.0);
    }
}

/// Computes the gradients of logits: the softmax minus the one-hot class, times the gradient of the loss.
#[cube(launch_unchecked, address_type = "dynamic")]
fn entropy_to_logits<E: Float, G: Float, N: Size>(
    logits: &Rows<E, N>,
    classes: &Array<i32>,
    log_sums: &Array<f32>,
    grad: &Rows<G, N>,
    out: &mut Rows<E, N>,
    num_rows: usize,
    num_classes: usize,
) {
    let unit = unit_number();
    if unit < num_rows * num_classes {
        let row = unit / num_classes;
        let column = unit % num_classes;
        let probability = Vector::exp(logits.get(row, column) - Vector::new(log_sums[row]));
        let target = select(classes[row] as usize == column, 1.0, 0.0);
        out.set(row, column, (probability - Vector::new(target)) * grad.get(0, 0));
    }
}

/// Returns `[1, 2]` in `f32`: the sum of the rows' cross entropies, and the number of correct rows. A row is correct if
/// its largest logit, the first of equal ones, is its class's, and its entropy is not NaN. The second result is saved
/// for the backward pass: one `f32` per row.
///
/// # Shapes
/// - `logits`: `[rows, classes]`
/// - `classes`: `[rows]` `i32`, from 0 to the number of classes minus one
pub fn cross_entropy<R: Runtime>(client: &ComputeClient<R>, logits: &Matrix, classes: &Handle) -> (Matrix, Handle) {
    let Matrix { rows, columns, .. } = *logits;
    let log_sums = client.empty(rows.max(1) * size_of::<f32>());
    if rows == 0 || columns == 0 {
        return (Matrix::zeros(client, [1, 2], Element::F32), log_sums);
    }
    let judged = Matrix::empty(client, [rows, 2], Element::F32);
    let (count, dim) = threads(rows);
    with_element!(logits.element, E => {
        // SAFETY: threads beyond the rows do nothing, and classes are in range.
        unsafe {
            entropy_of_rows::launch_unchecked::<E, R>(
                client, count, dim, addresses(&[logits.span()]), 1,
                logits.arg(1), array(classes, rows), array(&judged.handle, 2 * rows), array(&log_sums, rows), rows, columns,
            );
        }
    });
    (column_sums(client, &judged, Element::F32), log_sums)
}

/// Returns the gradient of `logits`, in their shape and type, from the gradient of the summed entropies, `[1, 1]`.
pub fn cross_entropy_backward<R: Runtime>(
    client: &ComputeClient<R>,
    logits: &Matrix,
    classes: &Handle,
    log_sums: &Handle,
    grad: &Matrix,
) -> Matrix {
    let Matrix { rows, columns, .. } = *logits;
    let out = Matrix::empty(client, [rows, columns], logits.element);
    if rows == 0 || columns == 0 {
        return out;
    }
    let (count, dim) = threads(rows * columns);
    with_element!(logits.element, E => with_element!(grad.element, G => {
        // SAFETY: threads beyond the values do nothing.
        unsafe {
            entropy_to_logits::launch_unchecked::<E, G, R>(
                client, count, dim, addresses(&[logits.span()]), 1,
                logits.arg(1), array(classes, rows), array(log_sums, rows), grad.arg(1), out.arg(1), rows, columns,
            );
        }
    }));
    out
}
