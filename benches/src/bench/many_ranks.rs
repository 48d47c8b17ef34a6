//! Batches of one rank whose nodes are spread over many ranks with tiny parts, each in its own process.
//!
//! Rank 0 samples and fetches one batch after another, and the other ranks only answer. Their processes spend CPU time and
//! wait for the requests, and for the heartbeats in the meantime.

use crate::args::{Common, ManyRanksArgs};
use crate::bench::gather::fetch_all;
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::{Stopwatch, Timing};
use crate::peer::{Peers, Usage, serving_node};
use crate::work::sampled::sample_all;
use crate::work::seed_batches::seed_batches;
use crate::work::synthetic::GeneratedParts;
use edgecut_dist_sampler::{DistGraph, DistNeighborSampler, Fanout, SamplerConfig, TrafficCount};
use edgecut_graph::Meta;
use std::sync::Arc;

const NODES_PER_RANK: usize = 1000;
const CHANNELS: usize = 100;
const DEGREE: f64 = 10.0;
const FANOUTS: [Fanout; 2] = [Fanout::Count(10), Fanout::Count(5)];
/// The batches of a repetition.
const BATCHES: usize = 20;
/// The repetitions that are not timed. Small requests of mapped rows are answered faster once enough of them have found
/// the rows in memory.
const WARM_UP: usize = 5;

/// The cost of the requests of a repetition.
#[derive(Clone, Copy, Default)]
struct Cost {
    traffic: TrafficCount,
    of_rank: Usage,
    of_peers: Usage,
}

pub(crate) fn run(args: &ManyRanksArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let ranks = args.ranks as usize;
    let parts = GeneratedParts::of(args.ranks, ranks * NODES_PER_RANK, CHANNELS, DEGREE)?;
    let dir = parts.path();
    let meta = Meta::read(dir)?;
    // All ranks share the cores of this machine.
    let peer_args = [format!("--data={}", dir.display()), "--threads=1".into()];
    let (cluster, mut peers) = Peers::join(ranks, &meta.fingerprint(), &peer_args)?;
    let (graph, world) = serving_node(dir, &cluster, common.threads())?;
    graph.handle().block_on(graph.wait_until_connected())?;
    let seeds = seed_batches(graph.part(), args.batch_size as usize, BATCHES)?;
    let sampler = DistNeighborSampler::new(graph.clone(), SamplerConfig::new(FANOUTS.to_vec()))?;
    let sampler = Arc::new(sampler);
    let mut nodes = Vec::new();
    let (timing, cost) = measure(&graph, &mut peers, common.reps(), |stopwatch| {
        nodes =
            stopwatch.time(|| sample_all(&sampler, &seeds, 1, |mut batch| std::mem::take(&mut batch.nodes[0].ids)))?;
        Ok(())
    })?;
    report.add(&record("sampling over many ranks", args, timing, &cost))?;
    let (timing, cost) = measure(&graph, &mut peers, common.reps(), |stopwatch| {
        let nodes = nodes.clone();
        stopwatch.time(|| fetch_all(&graph, nodes, 1))
    })?;
    report.add(&record("features from many ranks", args, timing, &cost))?;
    drop((sampler, graph, world));
    peers.end(cluster)
}

/// Times repetitions. Also returns the cost of the last one, which represents all of them.
fn measure(
    graph: &Arc<DistGraph>,
    peers: &mut Peers,
    reps: usize,
    mut work: impl FnMut(&mut Stopwatch) -> anyhow::Result<()>,
) -> anyhow::Result<(Timing, Cost)> {
    for _ in 0..WARM_UP {
        work(&mut Stopwatch::default())?;
    }
    let mut cost = Cost::default();
    let timing = Timing::measure(reps, |stopwatch| {
        let traffic = graph.traffic().count();
        let before = peers.usage()?;
        let own = Usage::own()?;
        work(stopwatch)?;
        let of_rank = Usage::own()? - own;
        cost = Cost { of_rank, of_peers: peers.usage()? - before, traffic: graph.traffic().count() - traffic };
        Ok(())
    })?;
    Ok((timing.per(BATCHES), cost))
}

fn record(name: &str, args: &ManyRanksArgs, timing: Timing, cost: &Cost) -> Record {
    let batches = BATCHES as f64;
    let requests = cost.traffic.requests as f64;
    let work = format!("batch of {} seeds, {} ranks", args.batch_size, args.ranks);
    Record::new("many-ranks", name, work, timing, cost.traffic.remote_bytes as f64 / batches, "B/s")
        .param("ranks", args.ranks)
        .param("batch_size", args.batch_size)
        .detail("requests_per_batch", requests / batches)
        .detail("rank_waits_per_batch", cost.of_rank.waits / batches)
        .detail("peers_cpu_ms", cost.of_peers.cpu_s / batches * 1e3)
        .detail("peers_waits_per_request", cost.of_peers.waits / requests.max(1.0))
}
