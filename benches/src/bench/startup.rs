//! The time from the start to the first batch, with the part's files in the page cache.

use crate::args::{BatchArgs, Common};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::Timing;
use crate::work::local_job::{LocalJob, NODES};
use crate::work::seed_batches::seed_batches;
use anyhow::{Context, ensure};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_graph::{DiskPartId, Meta, Part};
use edgecut_trainer::BatchOptions;

pub(crate) fn run(args: &BatchArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let meta = Meta::read(&args.data)?;
    let bytes: u64 = meta.files.values().map(|file| file.bytes).sum();
    let record = |name: &str, timing: Timing, amount: f64, unit: &'static str| {
        let work = format!("{:.1} MB of files in page cache", bytes as f64 / 1e6);
        Record::new("startup", name, work, timing, amount, unit)
            .param("dataset", meta.dataset.clone())
            .param("bytes", bytes)
            .param("threads", common.threads())
    };
    for (name, verify) in [("Part::open", false), ("Part::open, checksums compared", true)] {
        let timing = Timing::measure(common.reps(), |stopwatch| {
            stopwatch.time(|| Part::open(&args.data, DiskPartId(0), verify)).map(drop)?;
            Ok(())
        })?;
        report.add(&record(name, timing, bytes as f64, "B/s"))?;
    }
    let timing = Timing::measure(common.reps(), |stopwatch| {
        let job = stopwatch.time(|| first_batch(args, common))?;
        job.end()
    })?;
    let fanouts = args.draw.num_neighbors.text();
    let record = record("to the first batch", timing, 1.0, "starts/s");
    report.add(&record.param("batch_size", args.draw.batch_size).param("num_neighbors", fanouts))
}

/// Opens the part, joins the job, serves the part, and waits for a batch.
fn first_batch(args: &BatchArgs, common: &Common) -> anyhow::Result<LocalJob> {
    let mut job = LocalJob::start(&args.data, common.threads())?;
    let seeds = seed_batches(job.graph.part(), args.draw.batch_size as usize, 1)?;
    let config = LoaderConfig { concurrency: 1, ..LoaderConfig::new(seeds[0].len(), BatchOptions::default().wanted()) };
    let sampler = job.sampler(&args.draw)?;
    let loader = DistNeighborLoader::new(sampler, NODES, Seeds::Listed(seeds.concat()), config, &mut job.world)?;
    let batch = loader.epoch(0).next().context("the epoch has no batch")??;
    ensure!(batch.num_seeds == seeds[0].len(), "the first batch lacks seeds");
    Ok(job)
}
