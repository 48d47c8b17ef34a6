//! Memory copies: the limit of gathering rows.

use super::on_threads::on_threads;
use super::{Limit, plural};
use crate::measure::timing::Timing;

/// Times a copy of `bytes` bytes, divided over `threads` threads. Each byte counts once, although it is read and
/// written.
pub(crate) fn memory_copy(bytes: usize, threads: usize, reps: usize) -> anyhow::Result<Limit> {
    let from = vec![1_u8; bytes];
    let mut to = vec![0_u8; bytes];
    let stretch = bytes.div_ceil(threads).max(1);
    let timing = Timing::measure(reps, |stopwatch| {
        let pairs = from.chunks(stretch).zip(to.chunks_mut(stretch)).collect();
        let (wall, cpu) = on_threads(pairs, |(from, to): (&[u8], &mut [u8])| to.copy_from_slice(from));
        stopwatch.add(wall, cpu);
        std::hint::black_box(&mut to);
        Ok(())
    })?;
    Ok(Limit { timing, amount: bytes as f64, name: format!("memcpy, {}", plural(threads)) })
}
