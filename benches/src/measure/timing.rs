//! Wall-clock and CPU times of repeated work.

use crate::measure::process_memory::{ProcessMemory, reset_peak};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Returns the CPU time of all threads of this process so far.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A stopwatch that sums the time of the measured sections of a repetition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopwatch {
    wall: Duration,
    cpu: Duration,
}

impl Stopwatch {
    /// Runs `work` and adds its time. The time between two calls does not count.
    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let cpu = cpu_time();
        let value = work();
        self.wall += start.elapsed();
        self.cpu += cpu_time() - cpu;
        value
    }

    /// Adds a time that was measured elsewhere.
    pub(crate) fn add(&mut self, wall: Duration, cpu: Duration) {
        self.wall += wall;
        self.cpu += cpu;
    }
}

/// A repetition of a work, which times its sections.
pub(crate) type Work<'a> = Box<dyn FnMut(&mut Stopwatch) -> anyhow::Result<()> + 'a>;

/// The times of a unit of work over all repetitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) median_s: f64,
    pub(crate) min_s: f64,
    /// The median of the CPU times.
    pub(crate) cpu_s: f64,
    /// The largest resident set of the process during the repetitions.
    pub(crate) peak_rss_bytes: Option<u64>,
}

impl Timing {
    /// Times `reps` repetitions of `work` after one warm-up repetition, which fills caches and grows buffers.
    pub(crate) fn measure(
        reps: usize,
        mut work: impl FnMut(&mut Stopwatch) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        work(&mut Stopwatch::default())?;
        Self::measure_cold(reps, work)
    }

    /// Times works in turns, so that a change of the machine's load affects all of them. Each work has a warm-up.
    pub(crate) fn measure_in_turns(reps: usize, works: &mut [Work<'_>]) -> anyhow::Result<Vec<Self>> {
        let mut laps = vec![Vec::with_capacity(reps); works.len()];
        for rep in 0..=reps.max(1) {
            for (work, laps) in works.iter_mut().zip(&mut laps) {
                let mut stopwatch = Stopwatch::default();
                work(&mut stopwatch)?;
                if rep > 0 {
                    laps.push(stopwatch);
                }
            }
        }
        Ok(laps.iter().map(|laps| Self::of_laps(laps)).collect())
    }

    fn of_laps(laps: &[Stopwatch]) -> Self {
        let wall_s: Vec<f64> = laps.iter().map(|lap| lap.wall.as_secs_f64()).collect();
        let cpu_s: Vec<f64> = laps.iter().map(|lap| lap.cpu.as_secs_f64()).collect();
        Self::of(&wall_s, &cpu_s)
    }

    /// Like [`Timing::measure`], but without a warm-up.
    pub(crate) fn measure_cold(
        reps: usize,
        mut work: impl FnMut(&mut Stopwatch) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        reset_peak();
        let mut laps = Vec::with_capacity(reps);
        for _ in 0..reps.max(1) {
            let mut stopwatch = Stopwatch::default();
            work(&mut stopwatch)?;
            laps.push(stopwatch);
        }
        let mut timing = Self::of_laps(&laps);
        timing.peak_rss_bytes = ProcessMemory::own().map(|memory| memory.peak_bytes);
        Ok(timing)
    }

    /// Summarizes the times of repetitions that were measured elsewhere.
    pub(crate) fn of(wall_s: &[f64], cpu_s: &[f64]) -> Self {
        let min_s = wall_s.iter().copied().fold(f64::INFINITY, f64::min);
        Self { median_s: median(wall_s), min_s, cpu_s: median(cpu_s), peak_rss_bytes: None }
    }

    /// Returns the times of one of `units` equal units of the work.
    pub(crate) fn per(self, units: usize) -> Self {
        let units = units.max(1) as f64;
        Self { median_s: self.median_s / units, min_s: self.min_s / units, cpu_s: self.cpu_s / units, ..self }
    }
}

/// Returns the median, which is the mean of the two middle values for an even number of values; NaN without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_warm_up_does_not_count() {
        let mut calls = 0_u64;
        let timing = Timing::measure(3, |stopwatch| {
            calls += 1;
            stopwatch.add(Duration::from_secs(calls * 10), Duration::from_secs(1));
            Ok(())
        });
        let timing = timing.expect("the work does not fail").per(10);
        assert_eq!((calls, timing.min_s, timing.median_s, timing.cpu_s), (4, 2.0, 3.0, 0.1));
    }
}
