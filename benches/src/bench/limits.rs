//! The limits of the machine by themselves.

use crate::args::Common;
use crate::limits::{Limit, Pages, RandomReads, RawTcp, memory_copy, sgemm};
use crate::measure::record::Record;
use crate::measure::report::Report;

/// The sizes of replies with 1000 and with 10 000 rows of 100 numbers.
const REPLY_BYTES: [usize; 2] = [400_000, 4_000_000];
const IN_FLIGHT: usize = 4;

pub(crate) fn run(common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let reps = common.reps();
    let bytes = common.array_bytes();
    for pages in [Pages::Small, Pages::Huge] {
        let reads = RandomReads::new(bytes, pages)?;
        for threads in thread_counts(common) {
            let limit = reads.measure(threads, reps)?;
            let work = format!("{} reads of 8 B, {} MiB", limit.amount, bytes >> 20);
            report.add(&record(limit, work, "reads/s").param("threads", threads).param("array_bytes", bytes))?;
        }
    }
    for threads in thread_counts(common) {
        let limit = memory_copy(bytes, threads, reps)?;
        let record = record(limit, format!("copy of {} MiB", bytes >> 20), "B/s");
        report.add(&record.param("threads", threads).param("array_bytes", bytes))?;
    }
    let mut tcp = RawTcp::connect()?;
    for reply_bytes in REPLY_BYTES {
        let record = record(tcp.measure(reply_bytes, IN_FLIGHT, reps)?, "a reply over loopback".into(), "B/s");
        report.add(&record.param("reply_bytes", reply_bytes).param("in_flight", IN_FLIGHT))?;
    }
    for threads in thread_counts(common) {
        let record = record(sgemm(threads, reps)?, "a product per thread".into(), "FLOP/s");
        report.add(&record.param("threads", threads))?;
    }
    Ok(())
}

/// Returns the numbers of threads to measure: one, and all if that is another number.
fn thread_counts(common: &Common) -> Vec<usize> {
    let all = common.threads();
    if all == 1 { vec![1] } else { vec![1, all] }
}

fn record(limit: Limit, work: String, unit: &'static str) -> Record {
    Record::new("limits", limit.name, work, limit.timing, limit.amount, unit)
}
