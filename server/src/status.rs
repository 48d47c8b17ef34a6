//! The health, readiness and counters of a server, over HTTP.

use crate::timeouts::READINESS_TIMEOUT;
use edgecut_cluster::with_causes;
use edgecut_dist_sampler::{DistGraph, PeerTraffic};
use edgecut_status::{Answer, PrometheusText, StatusSource};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The state of a server.
#[derive(Default)]
pub(crate) struct State {
    graph: OnceLock<Arc<DistGraph>>,
    /// True once a signal has asked the process to end.
    pub(crate) is_ending: AtomicBool,
}

impl State {
    /// Sets the graph once it is served.
    pub(crate) fn serve(&self, graph: Arc<DistGraph>) {
        // A server serves one graph, so the value is set once.
        let _ = self.graph.set(graph);
    }

    /// Returns why the server is not ready, if it is not.
    async fn not_ready(&self) -> Option<String> {
        if self.is_ending.load(Ordering::Acquire) {
            return Some("the server is ending".into());
        }
        let Some(graph) = self.graph.get().cloned() else { return Some("the part is being read".into()) };
        let reached = tokio::time::timeout(READINESS_TIMEOUT, graph.reach_peers());
        match reached.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(with_causes(&error)),
            Err(_) => Some("waiting for the other servers".into()),
        }
    }

    /// Returns the counters in Prometheus' text format.
    fn metrics(&self) -> String {
        let mut text = PrometheusText::new();
        let Some(graph) = self.graph.get() else { return text.finish() };
        let served = graph.served();
        text.gauge("connections", "Open connections of trainers and servers.", served.connections);
        text.gauge("requests_in_progress", "Requests that run or wait.", served.in_progress);
        text.counter("requests_total", "Requests that were answered or refused.", served.requests);
        text.counter("batches_total", "Batches that were sampled for trainers.", served.batches);
        text.counter("refused_total", "Requests that were refused.", served.refused);
        text.counter("received_bytes_total", "Bytes of payload received in requests.", served.received_bytes);
        text.counter("sent_bytes_total", "Bytes of payload sent in replies.", served.sent_bytes);
        let peers = graph.traffic().by_peer();
        let mut by_server = |name: &str, help: &str, value: &dyn Fn(&PeerTraffic) -> String| {
            text.labeled(name, "counter", help, "server", peers.iter().map(|peer| (peer.peer, value(peer))));
        };
        by_server("peer_requests_total", "Requests to other servers.", &|peer| peer.requests.to_string());
        by_server("peer_sent_bytes_total", "Bytes of payload sent to other servers.", &|peer| {
            peer.sent_bytes.to_string()
        });
        by_server("peer_received_bytes_total", "Bytes of payload received from other servers.", &|peer| {
            peer.received_bytes.to_string()
        });
        by_server("peer_wait_seconds_total", "Seconds between requests to other servers and their replies.", &|peer| {
            peer.wait_seconds.to_string()
        });
        text.finish()
    }
}

impl StatusSource for State {
    const PATHS: &'static str = "/healthz, /readyz or /metrics";

    async fn answer(&self, path: &str) -> Option<Answer> {
        match path {
            "/healthz" => Some(Answer::Found("ok\n".into())),
            "/readyz" => Some(match self.not_ready().await {
                None => Answer::Found("ready\n".into()),
                Some(why) => Answer::NotReady(why),
            }),
            "/metrics" => Some(Answer::Found(self.metrics())),
            _ => None,
        }
    }
}
