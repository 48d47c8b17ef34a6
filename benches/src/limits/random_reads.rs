//! Random reads of memory that do not wait for each other: what limits sampling.

use super::on_threads::on_threads;
use super::{Limit, plural};
use crate::timing::Timing;
use anyhow::Context;
use edgecut_graph::prefetch;
use edgecut_graph::rng::CounterRng;
use memmap2::{Advice, MmapMut};

/// Reads of a thread in a repetition.
const READS: usize = 4 << 20;
/// Reads that are asked for before the first of them is used; more than a core can have under way.
const AHEAD: usize = 64;

/// How the array is mapped. A mapped file has pages of 4 KiB, and each read of another page may need a second one for
/// its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    Small,
    Huge,
}

/// An array that does not fit the caches.
pub(crate) struct RandomReads {
    array: MmapMut,
    pages: Pages,
}

impl RandomReads {
    /// An array of so many bytes.
    pub(crate) fn new(bytes: usize, pages: Pages) -> anyhow::Result<Self> {
        let mut array = MmapMut::map_anon(bytes).context("map the array of the random reads")?;
        let advice = if pages == Pages::Huge { Advice::HugePage } else { Advice::NoHugePage };
        // A kernel without huge pages refuses the advice, and then has small ones either way.
        let _ = array.advise(advice);
        for (i, value) in bytemuck::cast_slice_mut::<u8, u64>(&mut array).iter_mut().enumerate() {
            *value = i as u64;
        }
        Ok(Self { array, pages })
    }

    /// Times reads of 8 bytes on so many threads.
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
