//! Matrices whose memory is written only once, by the threads that compute the values.
//!
//! `vec![0.0; n]` would first write all of the memory on one thread. For the tens of megabytes of a batch's features or
//! a layer's output, this takes as long as some of the operations themselves.

use crate::parallel;
use bytemuck::Zeroable;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Returns a row-major matrix that `fill(first_row, memory)` writes in parallel, `chunk_rows` rows per call.
///
/// # Safety
/// `fill` must write every element of the memory that it receives.
pub unsafe fn vec_from_rows<T: Zeroable + Copy + Send>(
    rows: usize,
    columns: usize,
    chunk_rows: usize,
    fill: impl Fn(usize, &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    let fill_all = |memory: &mut [MaybeUninit<T>]| {
        // `first` is a multiple of the length of a chunk.
        let chunk = (chunk_rows * columns).max(1);
        parallel::for_each_chunk(memory, chunk, &|first, memory| fill(first / chunk * chunk_rows, memory));
    };
    // SAFETY: The chunks cover all of the memory, and the caller guarantees that `fill` writes each of them.
    unsafe { vec_from(rows * columns, fill_all) }
}

/// Returns a row-major matrix that consists of the rows of all `jobs`, end to end. `fill(rows, state, memory)` writes
/// the rows of one job. All jobs run in parallel.
///
/// # Safety
/// `fill` must write every element of the memory that it receives.
pub unsafe fn vec_from_groups<T: Zeroable + Copy + Send, S: Send>(
    columns: usize,
    jobs: Vec<(Range<usize>, S)>,
    fill: impl Fn(Range<usize>, S, &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    let len = jobs.iter().map(|(rows, _)| rows.len() * columns).sum();
    let fill_all = |memory: &mut [MaybeUninit<T>]| {
        let mut rest = memory;
        let mut tasks = Vec::with_capacity(jobs.len());
        for (rows, state) in jobs {
            let (mine, others) = rest.split_at_mut(rows.len() * columns);
            tasks.push((rows, state, mine));
            rest = others;
        }
        parallel::consume(tasks, &|(rows, state, memory)| fill(rows, state, memory));
    };
    // SAFETY: The jobs together cover all of the memory, and the caller guarantees that `fill` writes each job's share.
    unsafe { vec_from(len, fill_all) }
}

/// Returns a vector of `len` elements that `fill` writes.
///
/// # Safety
/// `fill` must write every element.
pub unsafe fn vec_from<T: Zeroable + Copy + Send>(len: usize, fill: impl FnOnce(&mut [MaybeUninit<T>])) -> Vec<T> {
    let mut values = Vec::with_capacity(len);
    fill(&mut values.spare_capacity_mut()[..len]);
    // SAFETY: The capacity is at least `len`, and the caller guarantees that `fill` writes all elements.
    unsafe { values.set_len(len) };
    values
}

/// Fills `memory` with zeros. If it is used right afterwards, this costs a pass over the cache, not over main memory.
pub fn zeroed<T: Zeroable + Copy + Send>(memory: &mut [MaybeUninit<T>]) -> &mut [T] {
    memory.fill(MaybeUninit::new(T::zeroed()));
    // SAFETY: All elements have just been written.
    unsafe { memory.assume_init_mut() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_written_by_the_task_of_its_row() {
        for (rows, columns) in [(0, 3), (1, 3), (7, 1), (8, 3), (9, 3), (5, 0)] {
            // SAFETY: `zeroed` writes all of its argument.
            let values = unsafe {
                vec_from_rows::<f32>(rows, columns, 4, |first, memory| {
                    for (position, value) in zeroed(memory).iter_mut().enumerate() {
                        *value += (first * columns + position) as f32;
                    }
                })
            };
            let expected: Vec<f32> = (0..rows * columns).map(|v| v as f32).collect();
            assert_eq!(values, expected);
            let jobs = vec![(0..rows / 2, 1.0), (rows / 2..rows, 2.0)];
            // SAFETY: As above.
            let values = unsafe {
                vec_from_groups::<f64, f64>(columns, jobs, |rows, state, memory| {
                    zeroed(memory).iter_mut().for_each(|value| *value += rows.start as f64 + state);
                })
            };
            let expected = |v: usize| if v < rows / 2 * columns { 1.0 } else { (rows / 2) as f64 + 2.0 };
            assert_eq!(values, (0..rows * columns).map(expected).collect::<Vec<f64>>());
        }
    }
}
