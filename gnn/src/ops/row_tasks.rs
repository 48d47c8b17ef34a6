//! Parallel loops over the rows of a CSR, balanced by the number of edges.

use std::ops::Range;

/// The size at which a task is not split further: about 50 µs of work.
const VALUES_PER_TASK: usize = 1 << 15;

/// A buffer that holds one contiguous range per row of a CSR, in row order.
pub(super) trait PerRow: Sized + Send {
    /// The type of the buffer's values.
    type Value;

    /// Splits the buffer into the first `rows` rows and the others.
    fn split(self, rows: usize) -> (Self, Self);

    /// Returns the values of a row. Rows count from the first row of this buffer.
    fn row(&mut self, row: usize) -> &mut [Self::Value];
}

/// A row-major buffer with a fixed number of values per row.
pub(super) struct Rows<'a, T> {
    values: &'a mut [T],
    stride: usize,
}

impl<'a, T> Rows<'a, T> {
    /// Takes a buffer with `stride` values per row. A stride of 0 with no values stands for an absent buffer.
    ///
    /// # Panics
    /// If `values` is not a whole number of rows.
    pub(super) fn new(values: &'a mut [T], stride: usize) -> Self {
        assert!(if stride == 0 { values.is_empty() } else { values.len().is_multiple_of(stride) });
        Self { values, stride }
    }
}

impl<T: Send> PerRow for Rows<'_, T> {
    type Value = T;

    fn split(self, rows: usize) -> (Self, Self) {
        let (head, tail) = self.values.split_at_mut(rows * self.stride);
        (Self { values: head, stride: self.stride }, Self { values: tail, stride: self.stride })
    }

    #[inline]
    fn row(&mut self, row: usize) -> &mut [T] {
        &mut self.values[row * self.stride..(row + 1) * self.stride]
    }
}

/// A buffer with `stride` values per entry. The entries of a row are its edges, then `own` more entries.
pub(super) struct EntryRows<'a, T> {
    indptr: &'a [u32],
    values: &'a mut [T],
    stride: usize,
    own: usize,
}

impl<'a, T> EntryRows<'a, T> {
    /// Takes a buffer with `stride` values per entry of the rows of `indptr`.
    ///
    /// # Panics
    /// If the number of values does not match the number of entries.
    pub(super) fn new(indptr: &'a [u32], values: &'a mut [T], stride: usize, own: usize) -> Self {
        let this = Self { indptr, values, stride, own };
        assert_eq!(
            this.start(indptr.len() - 1),
            this.values.len(),
            "row tasks: values of all rows against length of the buffer"
        );
        this
    }

    /// Returns the position of the row's first value. After a split, `indptr[0]` is not 0.
    fn start(&self, row: usize) -> usize {
        ((self.indptr[row] - self.indptr[0]) as usize + self.own * row) * self.stride
    }
}

impl<T: Send> PerRow for EntryRows<'_, T> {
    type Value = T;

    fn split(self, rows: usize) -> (Self, Self) {
        let start = self.start(rows);
        let Self { indptr, values, stride, own } = self;
        let (head, tail) = values.split_at_mut(start);
        (
            Self { indptr: &indptr[..=rows], values: head, stride, own },
            Self { indptr: &indptr[rows..], values: tail, stride, own },
        )
    }

    #[inline]
    fn row(&mut self, row: usize) -> &mut [T] {
        let start = self.start(row);
        let end = self.start(row + 1);
        &mut self.values[start..end]
    }
}

/// Calls `compute(row, out_row, aux_row)` once for each row of `indptr`, in parallel.
///
/// Work is split in halves by the number of edges instead of rows, so that skewed degrees do not leave threads idle.
/// Each row is computed by exactly one task, so results do not depend on the number of threads.
pub(super) fn for_each_row<T, A, F>(indptr: &[u32], out: Rows<'_, T>, aux: A, compute: &F)
where
    T: Send,
    A: PerRow,
    F: Fn(usize, &mut [T], &mut [A::Value]) + Sync,
{
    // The work of an edge is proportional to the columns of the output.
    let values_per_edge = out.stride;
    let compute = |row: usize, out: &mut [T], aux: &mut [A::Value], (): &mut ()| compute(row, out, aux);
    sum_over_rows(indptr, values_per_edge, out, aux, &Sum { zero: || (), add: |(), ()| (), compute });
}

/// The functions of [`sum_over_rows`].
pub(super) struct Sum<Z, M, F> {
    /// Makes the sum of no rows.
    pub(super) zero: Z,
    /// Adds the sums of two adjacent ranges of rows.
    pub(super) add: M,
    /// Computes a row, given its number, its values in both buffers and the sum to add to.
    pub(super) compute: F,
}

/// Computes each row as [`for_each_row`] does, and returns the sum over the rows.
///
/// The splits, and therefore the order of the additions, depend on the shape only. `values_per_edge` is the work per
/// edge.
pub(super) fn sum_over_rows<T, A, S, Z, M, F>(
    indptr: &[u32],
    values_per_edge: usize,
    out: Rows<'_, T>,
    aux: A,
    sum: &Sum<Z, M, F>,
) -> S
where
    T: Send,
    A: PerRow,
    S: Send,
    Z: Fn() -> S + Sync,
    M: Fn(S, S) -> S + Sync,
    F: Fn(usize, &mut [T], &mut [A::Value], &mut S) + Sync,
{
    let num_rows = indptr.len().saturating_sub(1);
    run(indptr, 0..num_rows, VALUES_PER_TASK / values_per_edge.max(1), out, aux, sum)
}

fn run<T, A, S, Z, M, F>(
    indptr: &[u32],
    rows: Range<usize>,
    grain: usize,
    mut out: Rows<'_, T>,
    mut aux: A,
    sum: &Sum<Z, M, F>,
) -> S
where
    T: Send,
    A: PerRow,
    S: Send,
    Z: Fn() -> S + Sync,
    M: Fn(S, S) -> S + Sync,
    F: Fn(usize, &mut [T], &mut [A::Value], &mut S) + Sync,
{
    // A row without edges must be written too, hence one unit of work per row in addition to its edges.
    let work_before = |row: usize| indptr[row] as usize + row;
    let first = work_before(rows.start);
    let last = work_before(rows.end);
    if rows.len() <= 1 || last - first <= grain {
        let mut total = (sum.zero)();
        pulp::Arch::new().dispatch(|| {
            for (position, row) in rows.enumerate() {
                (sum.compute)(row, out.row(position), aux.row(position), &mut total);
            }
        });
        return total;
    }
    // Both halves get at least one row, so that the recursion ends even if one row has most of the work.
    let half = first + (last - first) / 2;
    let middle = split_point(rows.start + 1..rows.end - 1, |row| work_before(row) < half);
    let (out_head, out_tail) = out.split(middle - rows.start);
    let (aux_head, aux_tail) = aux.split(middle - rows.start);
    let (head, tail) = rayon::join(
        || run(indptr, rows.start..middle, grain, out_head, aux_head, sum),
        || run(indptr, middle..rows.end, grain, out_tail, aux_tail, sum),
    );
    (sum.add)(head, tail)
}

/// Returns the first number of the range for which `before` is false, or the end of the range, by binary search.
fn split_point(range: Range<usize>, before: impl Fn(usize) -> bool) -> usize {
    let mut low = range.start;
    let mut high = range.end;
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
    #[test]
    fn sums_and_entries_are_those_of_the_rows_on_any_number_of_threads() {
        let degrees: Vec<u32> = (0..3000).map(|row| if row % 501 == 7 { 9000 } else { row % 4 }).collect();
        let mut indptr = vec![0];
        degrees.iter().for_each(|degree| indptr.push(indptr[indptr.len() - 1] + degree));
        let num_edges = indptr[degrees.len()] as usize;
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let mut entries = vec![0u32; 2 * (num_edges + degrees.len())];
            let aux = EntryRows::new(&indptr, &mut entries, 2, 1);
            let compute = |row: usize, _: &mut [()], entries: &mut [u32], total: &mut f32| {
                assert_eq!(entries.len(), 2 * (degrees[row] as usize + 1));
                entries.fill(row as u32 + 1);
                *total += (row as f32).sqrt();
            };
            let sum = Sum { zero: || 0.0f32, add: |head, tail| head + tail, compute };
            let total = pool.install(|| sum_over_rows(&indptr, 64, Rows::new(&mut [(); 0], 0), aux, &sum));
            (total.to_bits(), entries)
        };
        let (total, entries) = run(1);
        let expected: f64 = (0..3000).map(|row| f64::from(row).sqrt()).sum();
        assert!((f64::from(f32::from_bits(total)) / expected - 1.0).abs() < 1e-5);
        let rows = degrees.iter().zip(1..).flat_map(|(&degree, row)| std::iter::repeat_n(row, 2 * degree as usize + 2));
        assert!(entries.iter().copied().eq(rows));
        assert!((total, entries) == run(4));
    }
}
