//! Fetching of feature rows from a part in another process, compared with plain replies of the same size.

use crate::args::{Common, RpcArgs};
use crate::bench::gather::fetch_all;
use crate::limits::RawTcp;
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::Timing;
use crate::peer::{Peers, serving_node};
use crate::work::local_job::NODES;
use crate::work::synthetic::GeneratedParts;
use anyhow::{Context, ensure};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::rng::CounterRng;
use edgecut_graph::{Meta, PartitionId};
use std::path::Path;
use std::sync::Arc;

/// The generated graph has 40 MB of features in each part.
const GENERATED_NODES: usize = 200_000;
const GENERATED_CHANNELS: usize = 100;
const GENERATED_DEGREE: f64 = 2.0;
/// The bytes that a repetition fetches, within the limits on the number of fetches.
const BYTES_PER_REP: usize = 64 << 20;
const MIN_FETCHES: usize = 16;
const MAX_FETCHES: usize = 500;

pub(crate) fn run(args: &RpcArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    match &args.data {
        Some(dir) => run_on(dir, args, common, report),
        None => {
            let parts = generated_parts()?;
            run_on(parts.path(), args, common, report)
        }
    }
}

/// Generates two parts with features.
pub(crate) fn generated_parts() -> anyhow::Result<GeneratedParts> {
    GeneratedParts::of(2, GENERATED_NODES, GENERATED_CHANNELS, GENERATED_DEGREE)
}

fn run_on(dir: &Path, args: &RpcArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let meta = Meta::read(dir)?;
    ensure!(
        meta.num_parts == 2,
        "{}: the graph has {} parts, but this benchmark needs two parts: partition with --num-partitions 2",
        dir.display(),
        meta.num_parts
    );
    let dim = meta.node_types[0].feature_dim;
    ensure!(dim > 0, "{}: the nodes have no features to fetch", dir.display());
    let mut peer_args = vec![format!("--data={}", dir.display())];
    peer_args.extend(common.as_args());
    let (cluster, mut peers) = Peers::join(2, &meta.fingerprint(), &peer_args)?;
    let (graph, world) = serving_node(dir, &cluster, common.threads())?;
    let mut tcp = RawTcp::connect()?;
    let row_bytes = meta.node_types[0].feature_bytes();
    for &rows in &args.rows {
        let batches = remote_rows(&meta, rows, row_bytes)?;
        for &in_flight in &args.in_flight {
            let (timing, server_cpu_s) = fetch(&graph, &mut peers, &batches, in_flight, common.reps())?;
            let rows = batches[0].len();
            let bytes = rows * row_bytes;
            let limit = tcp.measure(bytes, in_flight, common.reps())?;
            let work = format!("{rows} rows of {dim}, {in_flight} in flight");
            let record = Record::new("rpc", "features from a peer", work, timing, bytes as f64, "B/s")
                .against(limit.rate(), limit.name.clone())
                .param("rows", rows)
                .param("feature_dim", dim)
                .param("in_flight", in_flight)
                .param("threads", common.threads())
                .detail("server_cpu_ms", server_cpu_s * 1e3)
                .detail("client_cpu_ms", timing.cpu_s * 1e3)
                .detail("raw_tcp_cpu_ms", limit.timing.cpu_s * 1e3);
            report.add(&record)?;
        }
    }
    drop((graph, world));
    peers.end(cluster)
}

/// Returns the nodes of each fetch in a repetition: nodes of the other part in random order.
pub(crate) fn remote_rows(meta: &Meta, rows: usize, row_bytes: usize) -> anyhow::Result<Vec<Vec<u32>>> {
    let mut ids: Vec<u32> = meta.node_types[0].book.range(PartitionId(1)).collect();
    ensure!(!ids.is_empty(), "part 1 has no {} nodes to fetch", meta.node_types[NODES.index()].name);
    let rows = rows.clamp(1, ids.len());
    let fetches = (BYTES_PER_REP / (rows * row_bytes)).clamp(MIN_FETCHES, MAX_FETCHES);
    let mut batches = Vec::with_capacity(fetches);
    for pass in 0.. {
        CounterRng::new(pass).shuffle(&mut ids);
        batches.extend(ids.chunks_exact(rows).map(<[u32]>::to_vec).take(fetches - batches.len()));
        if batches.len() == fetches {
            break;
        }
    }
    Ok(batches)
}

/// Times a fetch. Also returns the peer's CPU seconds per fetch.
fn fetch(
    graph: &Arc<DistGraph>,
    peers: &mut Peers,
    batches: &[Vec<u32>],
    in_flight: usize,
    reps: usize,
) -> anyhow::Result<(Timing, f64)> {
    let mut server_cpu_s = 0.0;
    let timing = Timing::measure(reps, |stopwatch| {
        let batches = batches.to_vec();
        let before = peers.usage()?;
        stopwatch.time(|| fetch_all(graph, batches, in_flight)).context("fetch from the peer")?;
        server_cpu_s = (peers.usage()? - before).cpu_s;
        Ok(())
    })?;
    // The peer's CPU time is from the last repetition, which represents all of them.
    Ok((timing.per(batches.len()), server_cpu_s / batches.len() as f64))
}
