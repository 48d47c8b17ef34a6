//! Independent random memory reads: the limit of sampling.

use super::on_threads::on_threads;
use super::{Limit, plural};
use crate::measure::timing::Timing;
use anyhow::Context;
use edgecut_graph::prefetch;
use edgecut_graph::rng::CounterRng;
use memmap2::{Advice, MmapMut};

/// The number of reads per thread and repetition.
const READS: usize = 4 << 20;
/// The number of reads that are prefetched before the first of them is used: more than a core can have in flight.
const AHEAD: usize = 64;

/// The page size of the array. A mapped file has pages of 4 KiB, and a read from another page may need a second read
/// for its address translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    Small,
    Huge,
}

/// An array that exceeds the caches.
pub(crate) struct RandomReads {
    array: MmapMut,
    pages: Pages,
}

impl RandomReads {
    /// Allocates and fills an array of `bytes` bytes.
    pub(crate) fn new(bytes: usize, pages: Pages) -> anyhow::Result<Self> {
        let mut array = MmapMut::map_anon(bytes).context("map the array of the random reads")?;
        let advice = if pages == Pages::Huge { Advice::HugePage } else { Advice::NoHugePage };
        // A kernel without huge pages rejects the advice and uses small pages in both cases.
        let _ = array.advise(advice);
        for (i, value) in bytemuck::cast_slice_mut::<u8, u64>(&mut array).iter_mut().enumerate() {
            *value = i as u64;
        }
        Ok(Self { array, pages })
    }

    /// Times reads of 8 bytes on `threads` threads.
    pub(crate) fn measure(&self, threads: usize, reps: usize) -> anyhow::Result<Limit> {
        let values: &[u64] = bytemuck::cast_slice(&self.array);
        let timing = Timing::measure(reps, |stopwatch| {
            let seeds = (0..threads as u64).collect();
            let (wall, cpu) = on_threads(seeds, |seed| {
                std::hint::black_box(sum_at_random(values, CounterRng::new(seed << 32), READS));
            });
            stopwatch.add(wall, cpu);
            Ok(())
        })?;
        let pages = if self.pages == Pages::Huge { "huge" } else { "4 KiB" };
        let name = format!("random reads, {}, {pages} pages", plural(threads));
        Ok(Limit { timing, amount: (READS * threads) as f64, name })
    }
}

fn sum_at_random(values: &[u64], mut rng: CounterRng, reads: usize) -> u64 {
    let mut draw = || {
        let mut places = [0_usize; AHEAD];
        for place in &mut places {
            *place = rng.below(values.len() as u64) as usize;
            prefetch(values, *place);
        }
        places
    };
    let mut sum = 0_u64;
    // The next group of positions is prefetched while the current group is summed.
    let mut places = draw();
    for _ in 0..reads / AHEAD {
        let next = draw();
        for place in places {
            sum = sum.wrapping_add(values[place]);
        }
        places = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_spread_over_the_array() {
        let values = vec![1_u64; 1000];
        assert_eq!(sum_at_random(&values, CounterRng::new(1), 6400), 6400);
        let upper_half: Vec<u64> = (0..1000).map(|i| u64::from(i >= 500)).collect();
        let hits = sum_at_random(&upper_half, CounterRng::new(1), 6400);
        assert!((2900..3500).contains(&hits), "{hits}");
    }
}
