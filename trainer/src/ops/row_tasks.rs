//! Parallel loops over the rows of a CSR, balanced by edges.

use std::ops::Range;

/// Below this many values a task is not split further: about 50 µs of work.
const VALUES_PER_TASK: usize = 1 << 15;

/// A row-major buffer with a fixed number of values per row.
pub(super) struct Rows<'a, T> {
    values: &'a mut [T],
    stride: usize,
}

impl<'a, T> Rows<'a, T> {
    /// # Panics
    /// If `values` is not a whole number of rows; `stride` 0 stands for a buffer that is not there.
    pub(super) fn new(values: &'a mut [T], stride: usize) -> Self {
        assert!(if stride == 0 { values.is_empty() } else { values.len().is_multiple_of(stride) });
        Self { values, stride }
    }

    fn split(self, rows: usize) -> (Self, Self) {
        let (head, tail) = self.values.split_at_mut(rows * self.stride);
        (Self { values: head, stride: self.stride }, Self { values: tail, stride: self.stride })
    }

    fn row(&mut self, row: usize) -> &mut [T] {
        &mut self.values[row * self.stride..(row + 1) * self.stride]
    }
}

/// Calls `compute(row, out_row, aux_row)` once for each row of `indptr`, in parallel.
///
/// Work is split where the number of edges, not of rows, halves, so that skewed degrees do not leave threads idle. Each
/// row is computed by one task alone: results do not depend on the number of threads.
pub(super) fn for_each_row<T, U, F>(indptr: &[u32], out: Rows<'_, T>, aux: Rows<'_, U>, compute: &F)
where
    T: Send,
    U: Send,
    F: Fn(usize, &mut [T], &mut [U]) + Sync,
{
    let num_rows = indptr.len().saturating_sub(1);
    // Columns per edge decide how much work an edge is.
    let grain = VALUES_PER_TASK / out.stride.max(1);
    run(indptr, 0..num_rows, grain, out, aux, compute);
}

fn run<T, U, F>(
    indptr: &[u32],
    rows: Range<usize>,
    grain: usize,
    mut out: Rows<'_, T>,
    mut aux: Rows<'_, U>,
    compute: &F,
) where
    T: Send,
    U: Send,
    F: Fn(usize, &mut [T], &mut [U]) + Sync,
{
    // A row without edges still has to be written, hence one unit of work per row.
    let work_before = |row: usize| indptr[row] as usize + row;
    let (first, last) = (work_before(rows.start), work_before(rows.end));
    if rows.len() <= 1 || last - first <= grain {
        return pulp::Arch::new().dispatch(|| {
            for (position, row) in rows.enumerate() {
                compute(row, out.row(position), aux.row(position));
            }
        });
    }
    let half = first + (last - first) / 2;
    let middle = split_point(rows.start + 1..rows.end - 1, |row| work_before(row) < half);
    let (out_head, out_tail) = out.split(middle - rows.start);
    let (aux_head, aux_tail) = aux.split(middle - rows.start);
    rayon::join(
        || run(indptr, rows.start..middle, grain, out_head, aux_head, compute),
        || run(indptr, middle..rows.end, grain, out_tail, aux_tail, compute),
    );
}

/// The first number of the range for which `before` no longer holds, or its end.
fn split_point(range: Range<usize>, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visits(degrees: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let mut indptr = vec![0];
        for degree in degrees {
            indptr.push(indptr[indptr.len() - 1] + degree);
        }
        let mut out = vec![0u32; degrees.len() * 2];
        let mut aux = vec![0u32; degrees.len()];
        for_each_row(&indptr, Rows::new(&mut out, 2), Rows::new(&mut aux, 1), &|row, out, aux| {
            out[0] += row as u32;
            out[1] += 1;
            aux[0] += degrees[row];
        });
        (out, aux)
    }

    #[test]
    fn visits_each_row_once_whatever_the_skew() {
        let skewed: Vec<u32> = (0..5000).map(|row| if row % 977 == 3 { 100_000 } else { row % 3 }).collect();
        let giants = [400_000, 0, 900_000, 0, 0];
        for degrees in [&skewed[..], &giants, &[0; 100_000], &[7], &[]] {
            let (out, aux) = visits(degrees);
            assert!(out.chunks(2).enumerate().all(|(row, seen)| seen == [row as u32, 1]));
            assert_eq!(aux, degrees);
        }
    }
}
