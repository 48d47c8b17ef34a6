//! Multi-hop sampling on one part, compared with random memory reads.

use crate::args::{BatchArgs, Common};
use crate::limits::{Pages, RandomReads};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::Timing;
use crate::work::local_job::LocalJob;
use crate::work::sampled::{BatchSize, sample_all};
use crate::work::seed_batches::seed_batches;

pub(crate) fn run(args: &BatchArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let threads = common.threads();
    let batches = args.draw.batches as usize;
    let job = LocalJob::start(&args.data, threads)?;
    let sampler = job.sampler(&args.draw)?;
    let seeds = seed_batches(job.graph.part(), args.draw.batch_size as usize, batches)?;
    let mut sizes = Vec::new();
    let timing = Timing::measure(common.reps(), |stopwatch| {
        sizes = stopwatch.time(|| sample_all(&sampler, &seeds, threads, BatchSize::of))?;
        Ok(())
    })?;
    drop(sampler);
    let dataset = job.graph.part().meta().dataset.clone();
    job.end()?;
    // The part's files are mapped in pages of 4 KiB, so the limit is measured with small pages.
    let reads = RandomReads::new(common.array_bytes(), Pages::Small)?.measure(threads, common.reps())?;
    let total = BatchSize::total(&sizes);
    let seeds = seeds[0].len();
    let fanouts = args.draw.num_neighbors.text();
    let edges = total.edges as f64 / batches as f64;
    let work = format!("batch of {seeds} seeds, {fanouts}");
    let record = Record::new("sampling", "sampling in memory", work, timing.per(batches), edges, "edges/s")
        .against(reads.rate(), reads.name.clone())
        .param("dataset", dataset)
        .param("batch_size", seeds)
        .param("num_neighbors", fanouts)
        .param("batches", batches)
        .param("threads", threads)
        .detail("edges_per_batch", edges)
        .detail("input_nodes_per_batch", total.input_nodes as f64 / batches as f64);
    report.add(&record)
}
