//! Loops over all threads that compile fast.
//!
//! Each distinct chain of rayon's iterators compiles some sixty functions. The loops of this crate therefore share the
//! chains of this module: the body of a loop is called through a reference, once per chunk of work and never per
//! element. Work is divided by its size alone, so that results do not depend on the number of threads.

use rayon::prelude::*;
use std::ops::Range;
use std::slice;

/// The number of elements per chunk of the loops that do little work per element.
const CHUNK: usize = 1 << 14;

/// Calls `work` for all numbers below `len`.
pub(crate) fn for_each_index(len: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..len).into_par_iter().for_each(work);
}

/// Calls `work` for the ranges of `chunk` numbers that `0..len` consists of. The last range may be shorter.
pub(crate) fn for_each_range(len: usize, chunk: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    for_each_index(len.div_ceil(chunk), &|index| work(index * chunk..len.min((index + 1) * chunk)));
}

/// Calls `work` with each chunk of `chunk` values, and the position of its first value. The last chunk may be shorter.
pub(crate) fn for_each_chunk<T: Send>(values: &mut [T], chunk: usize, work: &(dyn Fn(usize, &mut [T]) + Sync)) {
    let start = Start(values.as_mut_ptr());
    for_each_range(values.len(), chunk, &|range| {
        // SAFETY: The ranges lie within `values` and do not overlap, and `values` stays borrowed until all are done.
        let values = unsafe { slice::from_raw_parts_mut(start.at(range.start), range.len()) };
        work(range.start, values);
    });
}

/// The start of an array, of which each thread changes other elements.
struct Start<T>(*mut T);

// SAFETY: Threads receive disjoint parts of the array, so sharing its start gives each thread access to its own values
// alone. That is allowed for values that can be sent to other threads.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// Returns the address of the value at `index`, which is within the array or one past its end.
    fn at(&self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}

/// Returns the results of `work` for all numbers below `len`, in order. Each call is a task of its own.
pub(crate) fn collect<T: Send>(len: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    let mut results: Vec<Option<T>> = (0..len).map(|_| None).collect();
    for_each_chunk(&mut results, 1, &|index, result| result[0] = Some(work(index)));
    results.into_iter().flatten().collect()
}

/// Like [`collect`], for work that can fail. Returns the error of the smallest number, so that the reported error does
/// not depend on the order in which tasks finish.
pub(crate) fn try_collect<T: Send, E: Send>(
    len: usize,
    work: &(dyn Fn(usize) -> Result<T, E> + Sync),
) -> Result<Vec<T>, E> {
    collect(len, work).into_iter().collect()
}

/// Calls `work` with each of `tasks`.
pub(crate) fn consume<T: Send>(tasks: Vec<T>, work: &(dyn Fn(T) + Sync)) {
    let mut tasks: Vec<Option<T>> = tasks.into_iter().map(Some).collect();
    for_each_chunk(&mut tasks, 1, &|_, task| {
        if let Some(task) = task[0].take() {
            work(task);
        }
    });
}

/// Returns `value(index)` for all numbers below `len`.
pub(crate) fn map_indices<T: Copy + Default + Send>(len: usize, value: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut values = vec![T::default(); len];
    for_each_chunk(&mut values, CHUNK, &|first, values| {
        values.iter_mut().enumerate().for_each(|(offset, out)| *out = value(first + offset));
    });
    values
}

/// Returns `value(item)` for all `items`.
pub(crate) fn map<A: Sync, T: Copy + Default + Send>(items: &[A], value: impl Fn(&A) -> T + Sync) -> Vec<T> {
    let mut values = vec![T::default(); items.len()];
    for_each_chunk(&mut values, CHUNK, &|first, values| {
        values.iter_mut().zip(&items[first..]).for_each(|(out, item)| *out = value(item));
    });
    values
}

/// Returns the values other than `None` that `value` has for the numbers below `len`, in order.
pub(crate) fn filter_map<T: Copy + Send>(len: usize, value: impl Fn(usize) -> Option<T> + Sync) -> Vec<T> {
    let chunks = collect(len.div_ceil(CHUNK), &|chunk| {
        let range = chunk * CHUNK..len.min((chunk + 1) * CHUNK);
        range.filter_map(&value).collect::<Vec<T>>()
    });
    let mut all = Vec::with_capacity(chunks.iter().map(Vec::len).sum());
    // Each chunk is freed once it is copied, so that the values are not in memory twice.
    chunks.into_iter().for_each(|chunk| all.extend_from_slice(&chunk));
    all
}

/// Returns the number of numbers below `len` that `is_counted` accepts.
pub(crate) fn count(len: usize, is_counted: impl Fn(usize) -> bool + Sync) -> usize {
    let counts = map_chunks(len, &|range| range.filter(|&index| is_counted(index)).count());
    counts.into_iter().sum()
}

/// Returns the largest of `values`, if any.
pub(crate) fn max<T: Copy + Ord + Send + Sync>(values: &[T]) -> Option<T> {
    let largest = map_chunks(values.len(), &|range| values[range].iter().copied().max());
    largest.into_iter().flatten().max()
}

/// Returns the results of `work` for the chunks of `0..len`, in order.
fn map_chunks<T: Send>(len: usize, work: &(dyn Fn(Range<usize>) -> T + Sync)) -> Vec<T> {
    collect(len.div_ceil(CHUNK), &|chunk| work(chunk * CHUNK..len.min((chunk + 1) * CHUNK)))
}

/// Returns the first number below `len` that `is_wanted` accepts.
pub(crate) fn find_first(len: usize, is_wanted: &(dyn Fn(usize) -> bool + Sync)) -> Option<usize> {
    (0..len).into_par_iter().position_first(is_wanted)
}

/// Runs two tasks at the same time, and returns their results.
pub(crate) fn join<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
    let mut one = Some(one);
    let mut other = Some(other);
    let mut first = None;
    let mut second = None;
    join_each(&mut || first = one.take().map(|task| task()), &mut || second = other.take().map(|task| task()));
    match (first, second) {
        (Some(first), Some(second)) => (first, second),
        _ => unreachable!("both tasks have run"),
    }
}

fn join_each(one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send)) {
    rayon::join(one, other);
}

/// Sorts numbers in ascending order.
pub(crate) fn sort(values: &mut [u64]) {
    values.par_sort_unstable();
}

/// Sorts pairs by their first numbers, and pairs with equal first numbers by their second ones.
pub(crate) fn sort_pairs(pairs: &mut [(u64, u64)]) {
    pairs.par_sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Lengths below, at and above the ends of chunks.
    const LENGTHS: [usize; 6] = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7];

    #[test]
    fn every_element_is_visited_once_and_results_are_in_order() {
        for len in LENGTHS {
            let mut values = vec![0_usize; len];
            for_each_chunk(&mut values, 1000, &|first, chunk| {
                assert!(chunk.len() == 1000 || first + chunk.len() == len);
                chunk.iter_mut().zip(first..).for_each(|(value, index)| *value += index);
            });
            let expected: Vec<usize> = (0..len).collect();
            assert_eq!(values, expected);
            assert_eq!(map_indices(len, |index| index), expected);
            assert_eq!(map(&expected, |&index| index + 1).last().copied(), (len > 0).then_some(len));
            assert_eq!(filter_map(len, |index| (index % 3 == 1).then_some(index)), {
                expected.iter().copied().filter(|index| index % 3 == 1).collect::<Vec<usize>>()
            });
            assert_eq!(count(len, |index| index % 3 == 1), (len + 1) / 3);
            assert_eq!(max(&expected), len.checked_sub(1));
            assert_eq!(find_first(len, &|index| index >= 5), (len > 5).then_some(5));
        }
    }

    #[test]
    fn tasks_are_consumed_and_the_first_error_is_returned() {
        let sum = AtomicUsize::new(0);
        consume((0..100).map(Box::new).collect(), &|task: Box<usize>| {
            sum.fetch_add(*task, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 4950);
        assert_eq!(collect(50, &|index| index.to_string())[49], "49");
        let failing = |index: usize| if index % 7 == 3 { Err(index) } else { Ok(index) };
        assert_eq!(try_collect(50, &failing), Err(3));
        assert_eq!(try_collect(3, &failing), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn both_tasks_run() {
        assert_eq!(join(|| 1, || "two"), (1, "two"));
    }
}
