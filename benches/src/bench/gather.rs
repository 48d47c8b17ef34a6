//! Sampling with features in memory through the loader, and gathering of features alone.

use crate::args::{BatchArgs, Common};
use crate::bench::gather_ranks;
use crate::limits::{Limit, memory_copy};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::Timing;
use crate::work::local_job::{LocalJob, NODES};
use crate::work::sampled::sample_all;
use crate::work::seed_batches::seed_batches;
use anyhow::{Context, ensure};
use edgecut_cluster::EnvRanks;
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistGraph, NodeFields};
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

pub(crate) fn run(args: &BatchArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let place = EnvRanks::read()?;
    if place.world_size.is_some_and(|ranks| ranks > 1) {
        return gather_ranks::run(&place, args, common, report);
    }
    let mut job = LocalJob::start(&args.data, common.threads())?;
    let dim = job.graph.part().meta().node_types[0].feature_dim;
    ensure!(dim > 0, "{}: the nodes have no features to gather", args.data.display());
    let seeds = seed_batches(job.graph.part(), args.draw.batch_size as usize, args.draw.batches as usize)?;
    let limit = memory_copy(common.array_bytes(), common.threads(), common.reps())?;
    let loading = loading(args, common, &mut job, &seeds, dim)?;
    report.add(&finish(loading, args, common, seeds[0].len(), &limit))?;
    let gathering = gathering(args, common, &job, &seeds, dim)?;
    report.add(&finish(gathering, args, common, seeds[0].len(), &limit))?;
    job.end()
}

/// Times complete batches, as a trainer receives them.
fn loading(
    args: &BatchArgs,
    common: &Common,
    job: &mut LocalJob,
    seeds: &[Vec<u32>],
    dim: usize,
) -> anyhow::Result<Record> {
    let config = LoaderConfig {
        concurrency: common.threads(),
        ..LoaderConfig::new(seeds[0].len(), NodeFields { features: true, ..NodeFields::default() })
    };
    let sampler = job.sampler(&args.draw)?;
    let loader = DistNeighborLoader::new(sampler, NODES, Seeds::Listed(seeds.concat()), config, &mut job.world)?;
    let mut rows = 0;
    let timing = Timing::measure(common.reps(), |stopwatch| {
        rows = stopwatch.time(|| {
            loader.epoch(0).map(|batch| batch.map(|b| b.nodes[0].input_nodes.len())).sum::<Result<usize, _>>()
        })?;
        Ok(())
    })?;
    let rows_per_batch = rows as f64 / seeds.len() as f64;
    let timing = timing.per(seeds.len());
    Ok(Record::new("gather", "sampling + features in memory", "", timing, rows_per_batch * dim as f64 * 4.0, "B/s")
        .detail("rows_per_batch", rows_per_batch)
        .detail("rows_per_s", rows_per_batch / timing.median_s))
}

/// Times the gathering of the rows of batches that are already sampled.
fn gathering(
    args: &BatchArgs,
    common: &Common,
    job: &LocalJob,
    seeds: &[Vec<u32>],
    dim: usize,
) -> anyhow::Result<Record> {
    let sampler = job.sampler(&args.draw)?;
    let ids = sample_all(&sampler, seeds, common.threads(), |mut sampled| std::mem::take(&mut sampled.nodes[0].ids))?;
    let timing = Timing::measure(common.reps(), |stopwatch| {
        let ids = ids.clone();
        stopwatch.time(|| fetch_all(&job.graph, ids, common.threads()))
    })?;
    let rows_per_batch = ids.iter().map(Vec::len).sum::<usize>() as f64 / ids.len() as f64;
    let timing = timing.per(ids.len());
    Ok(Record::new("gather", "features in memory", "", timing, rows_per_batch * dim as f64 * 4.0, "B/s")
        .detail("rows_per_batch", rows_per_batch)
        .detail("rows_per_s", rows_per_batch / timing.median_s))
}

/// Fetches the features of each batch's nodes, `concurrency` batches at the same time. The network threads start the
/// fetches, as a loader's network threads do, so that the calling thread wakes up once.
pub(crate) fn fetch_all(graph: &Arc<DistGraph>, batches: Vec<Vec<u32>>, concurrency: usize) -> anyhow::Result<()> {
    let fetching = graph.handle().spawn(fetch_each(graph.clone(), batches, concurrency));
    let values = graph.handle().block_on(fetching).context("the task that starts fetches ended early")??;
    ensure!(values.iter().all(|&values| values > 0), "a fetch returned no features");
    Ok(())
}

/// Returns the number of values that each fetch has returned.
async fn fetch_each(graph: Arc<DistGraph>, batches: Vec<Vec<u32>>, concurrency: usize) -> anyhow::Result<Vec<usize>> {
    let wanted = NodeFields { features: true, ..NodeFields::default() };
    let fetches = futures::stream::iter(batches).map(|ids| {
        let node_of_task = graph.clone();
        // The task drops the rows as soon as they arrive.
        let task = async move { node_of_task.fetch(NODES, ids, wanted).await.map(|rows| rows.features.len()) };
        let task = graph.handle().spawn(task);
        async move { Ok::<usize, anyhow::Error>(task.await.context("a fetching task ended early")??) }
    });
    fetches.buffered(concurrency.max(1)).try_collect().await
}

fn finish(record: Record, args: &BatchArgs, common: &Common, seeds: usize, limit: &Limit) -> Record {
    let fanouts = args.draw.num_neighbors.text();
    Record { work: format!("batch of {seeds} seeds, {fanouts}"), ..record }
        .against(limit.rate(), limit.name.clone())
        .param("batch_size", seeds)
        .param("num_neighbors", fanouts)
        .param("batches", args.draw.batches)
        .param("threads", common.threads())
}
