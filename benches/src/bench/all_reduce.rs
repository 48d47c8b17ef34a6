//! The ring all-reduce between processes, compared with a plain exchange of the same bytes.
//!
//! Rank 0 times every call after a barrier. The CPU time is the sum over all ranks. The limits are measured between
//! ranks 0 and 1 while the other ranks wait.

use crate::args::{AllReduceArgs, Common, PeerArgs};
use crate::limits::all_reduce::AllReduceLimits;
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::{Timing, cpu_time};
use crate::peer::{self, Peers};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use std::time::Instant;

/// The bytes that a repetition moves: a small size is repeated in several calls.
const BYTES_PER_REP: usize = 20_000_000;
const MAX_CALLS_PER_REP: usize = 200;
/// The number of first calls that are not timed: they grow the socket buffers.
const WARM_UP: usize = 3;

pub(crate) fn run(args: &AllReduceArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let ranks = args.ranks as usize;
    let bytes = args.bytes.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let mut peer_args = vec![format!("--bytes={bytes}")];
    peer_args.extend(common.as_args());
    let (cluster, peers) = Peers::join(ranks, "", &peer_args)?;
    let mut world = cluster.world()?;
    let mut limits = AllReduceLimits::new(&cluster)?;
    take_part(&mut world, &mut limits, &args.bytes, common.reps(), |measured| {
        report.add(&record(measured, ranks).param("ranks", ranks))
    })?;
    drop((world, limits));
    peers.end(cluster)
}

/// Runs as a peer: takes part in all-reduces until rank 0 is done.
pub(crate) fn run_peer(args: &PeerArgs, common: &Common) -> anyhow::Result<()> {
    let cluster = peer::join(args, "")?;
    let mut world = cluster.world()?;
    let mut limits = AllReduceLimits::new(&cluster)?;
    take_part(&mut world, &mut limits, &args.bytes, common.reps(), |_| Ok(()))?;
    drop((world, limits));
    Ok(cluster.shutdown()?)
}

/// The measurements of a barrier, or of an all-reduce of one size and its limits.
enum Measured {
    Barrier(Timing),
    AllReduce { bytes: usize, all_reduce: Timing, exchange: Timing, there_and_back: Timing, copy: Timing },
}

/// Measures all sizes. All ranks call this with the same sizes and repetitions.
fn take_part(
    world: &mut ProcessGroup,
    limits: &mut AllReduceLimits,
    sizes: &[usize],
    reps: usize,
    mut then: impl FnMut(Measured) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let barrier = time_calls(reps * MAX_CALLS_PER_REP, world, |world| Ok(world.barrier()?))?;
    then(Measured::Barrier(barrier))?;
    for &bytes in sizes {
        let calls = reps * (BYTES_PER_REP / bytes.max(1)).clamp(1, MAX_CALLS_PER_REP);
        // Zeros: their sums stay finite in any number of repetitions.
        let mut gradients = vec![0.0_f32; bytes / 4];
        let all_reduce = time_calls(calls, world, |world| Ok(world.all_reduce(&mut gradients, ReduceOp::Sum)?))?;
        let exchange = time_calls(calls, world, |world| limits.exchange(wire_bytes(bytes, world.size())))?;
        let there_and_back = time_calls(calls, world, |_| limits.there_and_back(bytes))?;
        let copy = time_calls(calls, world, |_| {
            limits.copy(bytes);
            Ok(())
        })?;
        then(Measured::AllReduce { bytes, all_reduce, exchange, there_and_back, copy })?;
    }
    Ok(())
}

/// Returns the bytes that a rank sends, and receives, in a ring all-reduce: all blocks but one, twice.
fn wire_bytes(bytes: usize, ranks: usize) -> usize {
    2 * (ranks - 1) * bytes / ranks
}

fn time_calls(
    calls: usize,
    world: &mut ProcessGroup,
    mut call: impl FnMut(&mut ProcessGroup) -> anyhow::Result<()>,
) -> anyhow::Result<Timing> {
    let mut walls = Vec::with_capacity(calls);
    let mut cpu_s = 0.0;
    for number in 0..WARM_UP + calls {
        world.barrier()?;
        let start = Instant::now();
        let cpu = cpu_time();
        call(world)?;
        if number >= WARM_UP {
            walls.push(start.elapsed().as_secs_f64());
            cpu_s += (cpu_time() - cpu).as_secs_f64();
        }
    }
    let mut all = [cpu_s];
    world.all_reduce(&mut all, ReduceOp::Sum)?;
    Ok(Timing::of(&walls, &[all[0] / calls as f64]))
}

fn record(measured: Measured, ranks: usize) -> Record {
    let work = format!("{ranks} ranks");
    match measured {
        Measured::Barrier(timing) => Record::new("all-reduce", "barrier", work, timing, 1.0, "calls/s"),
        Measured::AllReduce { bytes, all_reduce, exchange, there_and_back, copy } => {
            let work = format!("{bytes} B, {work}");
            Record::new("all-reduce", "all-reduce of f32", work, all_reduce, bytes as f64, "B/s")
                .against(bytes as f64 / exchange.median_s, "raw socket, full duplex")
                .param("bytes", bytes)
                .detail("exchange_ms", exchange.median_s * 1e3)
                .detail("exchange_cpu_ms", exchange.cpu_s * 1e3)
                .detail("there_and_back_ms", there_and_back.median_s * 1e3)
                .detail("memcpy_ms", copy.median_s * 1e3)
                .detail("ratio_to_memcpy", copy.median_s / all_reduce.median_s)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::wire_bytes;

    #[test]
    fn two_ranks_send_as_much_as_they_hold() {
        assert_eq!(wire_bytes(4096, 2), 4096);
        assert_eq!(wire_bytes(4000, 4), 6000);
    }
}
