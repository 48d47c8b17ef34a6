//! The state of a run while it trains: for the live display, and over HTTP for Prometheus.

use crate::progress::named_values::NamedValues;
use edgecut_dist_sampler::{DistGraph, PeerTraffic};
use edgecut_status::{Answer, PrometheusText, StatusSource};
use edgecut_trainer::{StepReport, resident_bytes};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The state of a process of a run.
#[derive(Default)]
pub(crate) struct Monitor {
    /// The graph, if the process reads one. Sets of small graphs have no traffic.
    graph: OnceLock<Arc<DistGraph>>,
    training: Mutex<Training>,
}

/// The progress of training.
#[derive(Default)]
struct Training {
    last: Option<StepReport>,
    /// The metrics of the last validation.
    valid: Vec<(String, f64)>,
    num_seeds: u64,
    waited: Duration,
    /// The start of the current epoch, and its seeds.
    epoch_start: Option<Instant>,
    seeds_of_epoch: u64,
    /// The speed up to the last step. It is kept between epochs, so that it does not fall to 0 before the first step of
    /// each.
    seeds_per_second: Option<f64>,
}

impl Monitor {
    /// Sets the graph whose traffic is shown.
    pub(crate) fn watch(&self, graph: Arc<DistGraph>) {
        // A process opens one graph, so the value is set once.
        let _ = self.graph.set(graph);
    }

    /// Notes the start of an epoch.
    pub(crate) fn epoch_begins(&self) {
        let mut training = self.lock();
        training.epoch_start = Some(Instant::now());
        training.seeds_of_epoch = 0;
    }

    /// Notes a step.
    pub(crate) fn step(&self, report: &StepReport) {
        let mut training = self.lock();
        training.num_seeds += report.num_seeds;
        training.seeds_of_epoch += report.num_seeds;
        training.waited += report.waited;
        let elapsed = training.epoch_start.map(|start| start.elapsed().as_secs_f64());
        training.seeds_per_second = elapsed.map(|seconds| training.seeds_of_epoch as f64 / seconds.max(1e-9));
        training.last = Some(*report);
    }

    /// Notes the metrics of a validation. An epoch without validation has no values.
    pub(crate) fn validated(&self, metrics: &NamedValues) {
        let mut found = Vec::new();
        for (metric, value) in metrics.iter() {
            found.extend(value.map(|value| (metric.clone(), value)));
        }
        if !found.is_empty() {
            self.lock().valid = found;
        }
    }

    /// Returns the bytes that this process has received from others for its batches, if it reads a graph of several
    /// parts.
    pub(crate) fn received_bytes(&self) -> Option<u64> {
        let graph = self.graph.get().filter(|graph| graph.part().meta().num_parts > 1)?;
        Some(graph.traffic().count().remote_bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Training> {
        self.training.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state in Prometheus' text format.
    fn metrics(&self) -> String {
        let mut text = PrometheusText::new();
        let training = self.lock();
        if let Some(last) = &training.last {
            text.gauge("epoch", "The current epoch, counted from 1.", last.epoch);
            text.gauge("step", "The last finished step of the epoch, counted from 1.", last.step);
            text.gauge("steps_per_epoch", "The number of steps of an epoch.", last.num_steps);
            if let Some(loss) = last.loss {
                text.gauge("loss", "Mean training loss over the seeds of the last step, of all ranks.", loss);
            }
        }
        if let Some(rate) = training.seeds_per_second {
            text.gauge("seeds_per_second", "Training seeds of all ranks per second, up to the last step.", rate);
        }
        if !training.valid.is_empty() {
            let values = training.valid.iter().map(|(metric, value)| (metric, value));
            text.labeled("valid_metric", "gauge", "Scores of the last validation.", "metric", values);
        }
        text.counter("seeds_total", "Training seeds of all ranks.", training.num_seeds);
        let waited = training.waited.as_secs_f64();
        text.counter("batch_wait_seconds_total", "Seconds for which this rank waited for batches.", waited);
        drop(training);
        if let Some(bytes) = resident_bytes() {
            text.gauge("memory_bytes", "Resident memory of this process.", bytes);
        }
        let Some(graph) = self.graph.get() else { return text.finish() };
        let traffic = graph.traffic();
        let count = traffic.count();
        text.counter("remote_nodes_total", "Nodes whose features came over the network.", count.remote_nodes);
        text.counter(
            "shared_nodes_total",
            "Nodes whose features came with the reply to another batch.",
            count.shared_nodes,
        );
        text.counter("cached_nodes_total", "Nodes whose features came from the cache.", count.cached_nodes);
        text.counter("cached_bytes_total", "Bytes of features from the cache.", count.cached_bytes);
        if let Some(depth) = count.queue_depth() {
            text.gauge("queue_depth", "Mean number of finished batches that waited when one was taken.", depth);
        }
        let peers = traffic.by_peer();
        type Value = fn(&PeerTraffic) -> String;
        let by_peer: [(&str, &str, Value); 4] = [
            ("peer_requests_total", "Requests to other processes.", |peer| peer.requests.to_string()),
            ("peer_sent_bytes_total", "Bytes of payload sent in requests.", |peer| peer.sent_bytes.to_string()),
            ("peer_received_bytes_total", "Bytes of payload received in replies.", |peer| {
                peer.received_bytes.to_string()
            }),
            ("peer_wait_seconds_total", "Seconds between requests and their replies.", |peer| {
                peer.wait_seconds.to_string()
            }),
        ];
        for (name, help, value) in by_peer {
            text.labeled(name, "counter", help, "peer", peers.iter().map(|peer| (peer.peer, value(peer))));
        }
        text.finish()
    }
}

impl StatusSource for Monitor {
    const PATHS: &'static str = "/healthz or /metrics";

    async fn answer(&self, path: &str) -> Option<Answer> {
        match path {
            "/healthz" => Some(Answer::Found("ok\n".into())),
            "/metrics" => Some(Answer::Found(self.metrics())),
            _ => None,
        }
    }
}
