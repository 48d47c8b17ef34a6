//! All-reduce and fetching of features over connections of every protection, in turn in one run.
//!
//! Both ranks are in this process, so the CPU time is the sum of both. The limit is the throughput without protection.

use crate::args::{Common, ProtectionArgs};
use crate::bench::gather::fetch_all;
use crate::bench::rpc::{generated_parts, remote_rows};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::{Timing, cpu_time};
use crate::peer::serving_node;
use crate::work::local_job::NODES;
use anyhow::{Context, anyhow};
use edgecut_cluster::{Cluster, ProcessGroup, Protection, ReduceOp, Token};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::Meta;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const PROTECTIONS: [Protection; 3] = [Protection::Unprotected, Protection::Checked, Protection::Encrypted];
/// The bytes that are reduced between two readings of the clock.
const BYTES_PER_LAP: usize = 20_000_000;
const MAX_CALLS_PER_LAP: usize = 200;

pub(crate) fn run(args: &ProtectionArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    for &bytes in &args.bytes {
        let laps = all_reduces(bytes, common.reps())?;
        let work = format!("{bytes} B, 2 ranks");
        report_all(report, "all-reduce of f32", &work, bytes, &laps)?;
    }
    let generated = args.data.is_none().then(generated_parts).transpose()?;
    let dir = args.data.as_deref().or(generated.as_ref().map(|parts| parts.path()));
    let dir = dir.context("there is a folder, given or generated")?;
    let row_bytes = Meta::read(dir)?.node_types[NODES.index()].feature_bytes();
    for &rows in &args.rows {
        let laps = fetches(dir, rows, row_bytes, common)?;
        report_all(report, "features from a peer", &format!("{rows} rows"), rows * row_bytes, &laps)?;
    }
    Ok(())
}

/// The wall-clock and CPU times of a unit of work in each repetition, for one protection.
#[derive(Clone, Default)]
struct Laps {
    wall_s: Vec<f64>,
    cpu_s: Vec<f64>,
}

impl Laps {
    /// Times `work`, which does `units` units.
    fn time(&mut self, units: usize, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let cpu = cpu_time();
        let start = Instant::now();
        work()?;
        self.wall_s.push(start.elapsed().as_secs_f64() / units as f64);
        self.cpu_s.push((cpu_time() - cpu).as_secs_f64() / units as f64);
        Ok(())
    }
}

fn report_all(report: &mut Report, name: &str, work: &str, bytes: usize, laps: &[Laps]) -> anyhow::Result<()> {
    let timings: Vec<Timing> = laps.iter().map(|laps| Timing::of(&laps.wall_s, &laps.cpu_s)).collect();
    let plain = timings[0];
    for (protection, timing) in PROTECTIONS.iter().zip(timings) {
        let name = format!("{name}, {protection:?}");
        let record = Record::new("protection", name, work, timing, bytes as f64, "B/s")
            .against(bytes as f64 / plain.median_s, "without protection")
            .param("protection", format!("{protection:?}"))
            .param("bytes", bytes)
            .detail("min_time_ratio", timing.min_s / plain.min_s)
            .detail("cpu_ratio", timing.cpu_s / plain.cpu_s);
        report.add(&record)?;
    }
    Ok(())
}

fn join(protection: Protection, fingerprint: &str) -> anyhow::Result<Vec<Cluster>> {
    let token = Token::random()?;
    Ok(Cluster::join_local(2, |config| {
        config.protection = protection;
        config.token = Some(token.clone());
        config.fingerprint = fingerprint.to_owned();
    })?)
}

fn shut_down(ranks: Vec<Cluster>) -> anyhow::Result<()> {
    let outcomes = on_each(ranks, |cluster| Ok(cluster.shutdown()?));
    outcomes?;
    Ok(())
}

/// Runs `work` for each rank on a thread of its own.
fn on_each<R: Send, T: Send>(ranks: Vec<R>, work: impl Fn(R) -> anyhow::Result<T> + Sync) -> anyhow::Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a rank panicked"))?).collect()
    })
}

/// Times all-reduces for each protection.
fn all_reduces(bytes: usize, reps: usize) -> anyhow::Result<Vec<Laps>> {
    let jobs = PROTECTIONS.map(|protection| join(protection, ""));
    let jobs = jobs.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let by_rank = (0..2).map(|rank| jobs.iter().map(|job| job[rank].clone()).collect::<Vec<_>>()).collect();
    let laps = on_each(by_rank, |clusters: Vec<Cluster>| {
        let worlds = clusters.iter().map(Cluster::world).collect::<Result<Vec<ProcessGroup>, _>>();
        time_all_reduces(&mut worlds?, bytes, reps)
    })?;
    jobs.into_iter().try_for_each(shut_down)?;
    laps.into_iter().next().context("rank 0 has measured")
}

fn time_all_reduces(worlds: &mut [ProcessGroup], bytes: usize, reps: usize) -> anyhow::Result<Vec<Laps>> {
    let calls = (BYTES_PER_LAP / bytes.max(1)).clamp(1, MAX_CALLS_PER_LAP);
    let mut laps = vec![Laps::default(); worlds.len()];
    let mut gradients = vec![0.0_f32; bytes / 4];
    // The first repetition grows buffers and does not count.
    for rep in 0..reps + 1 {
        for (world, laps) in worlds.iter_mut().zip(&mut laps) {
            world.barrier()?;
            let mut untimed = Laps::default();
            let laps = if rep == 0 { &mut untimed } else { laps };
            laps.time(calls, || (0..calls).try_for_each(|_| Ok(world.all_reduce(&mut gradients, ReduceOp::Sum)?)))?;
        }
    }
    Ok(laps)
}

/// Times fetches of `rows` rows for each protection.
fn fetches(dir: &Path, rows: usize, row_bytes: usize, common: &Common) -> anyhow::Result<Vec<Laps>> {
    let meta = Meta::read(dir)?;
    let batches = remote_rows(&meta, rows, row_bytes)?;
    let mut jobs = Vec::new();
    for protection in PROTECTIONS {
        let ranks = join(protection, &meta.fingerprint())?;
        let nodes = on_each(ranks.clone(), |cluster| serving_node(dir, &cluster, common.threads()))?;
        let nodes: Vec<Arc<DistGraph>> = nodes.into_iter().map(|(node, _)| node).collect();
        jobs.push((ranks, nodes));
    }
    let mut laps = vec![Laps::default(); PROTECTIONS.len()];
    for rep in 0..common.reps() + 1 {
        for ((_, nodes), laps) in jobs.iter().zip(&mut laps) {
            let mut untimed = Laps::default();
            let laps = if rep == 0 { &mut untimed } else { laps };
            let batches = batches.clone();
            laps.time(batches.len(), || fetch_all(&nodes[0], batches, 1))?;
        }
    }
    for (ranks, nodes) in jobs {
        shut_down(ranks)?;
        drop(nodes);
    }
    Ok(laps)
}
