//! Answers to HTTP requests for the health, readiness and counters of a server.

use anyhow::Context;
use bytes::Bytes;
use edgecut_cluster::with_causes;
use edgecut_dist_sampler::DistGraph;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// The most connections that are answered at the same time. Further ones wait.
const MAX_CONNECTIONS: usize = 64;
/// The longest that a connection may take.
const LONGEST_CONNECTION: Duration = Duration::from_secs(10);
/// The longest that readiness waits for answers of the other servers.
const LONGEST_LOOK: Duration = Duration::from_millis(900);

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
        let reached = tokio::time::timeout(LONGEST_LOOK, graph.reach_peers());
        match reached.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(with_causes(&error)),
            Err(_) => Some("waiting for the other servers".into()),
        }
    }

    /// Returns the counters in Prometheus' text format.
    fn metrics(&self) -> String {
        let mut text = String::new();
        let Some(graph) = self.graph.get() else { return text };
        let served = graph.served();
        let mut counter = |name: &str, kind: &str, help: &str, value: u64| {
            let name = format!("edgecut_{name}");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        };
        counter("connections", "gauge", "Open connections of trainers and servers.", served.connections);
        counter("requests_in_progress", "gauge", "Requests that run or wait.", served.in_progress);
        counter("requests_total", "counter", "Requests that were answered or refused.", served.requests);
        counter("batches_total", "counter", "Batches that were sampled for trainers.", served.batches);
        counter("refused_total", "counter", "Requests that were refused.", served.refused);
        counter("received_bytes_total", "counter", "Bytes of payload received in requests.", served.received_bytes);
        counter("sent_bytes_total", "counter", "Bytes of payload sent in replies.", served.sent_bytes);
        let mut by_server = |name: &str, help: &str, value: &dyn Fn(usize) -> Option<String>| {
            let _ = write!(text, "# HELP edgecut_{name} {help}\n# TYPE edgecut_{name} counter\n");
            for server in 0..graph.num_holders() {
                if let Some(value) = value(server) {
                    let _ = writeln!(text, "edgecut_{name}{{server=\"{server}\"}} {value}");
                }
            }
        };
        let peers = graph.traffic().by_peer();
        let of = |server: usize| peers.iter().find(|peer| peer.peer == server);
        by_server("peer_requests_total", "Requests to other servers.", &|s| Some(of(s)?.requests.to_string()));
        by_server("peer_sent_bytes_total", "Bytes of payload sent to other servers.", &|s| {
            Some(of(s)?.sent_bytes.to_string())
        });
        by_server("peer_received_bytes_total", "Bytes of payload received from other servers.", &|s| {
            Some(of(s)?.received_bytes.to_string())
        });
        by_server("peer_wait_seconds_total", "Seconds between requests to other servers and their replies.", &|s| {
            Some(of(s)?.wait_seconds.to_string())
        });
        text
    }

    async fn answer(&self, request: &Request<Incoming>) -> (StatusCode, String) {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return (StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n".into());
        }
        match request.uri().path() {
            "/healthz" => (StatusCode::OK, "ok\n".into()),
            "/readyz" => match self.not_ready().await {
                None => (StatusCode::OK, "ready\n".into()),
                Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
            },
            "/metrics" => (StatusCode::OK, self.metrics()),
            path => (StatusCode::NOT_FOUND, format!("{path} does not exist: ask for /healthz, /readyz or /metrics\n")),
        }
    }
}

/// The thread that answers HTTP requests. Dropping it closes the socket.
pub(crate) struct StatusServer {
    addr: SocketAddr,
    _runtime: Runtime,
}

impl StatusServer {
    /// Returns the address that the socket is bound to.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// Starts to answer HTTP requests at `addr`.
///
/// # Errors
/// An address that cannot be listened on.
pub(crate) fn serve_status(addr: SocketAddr, state: Arc<State>) -> anyhow::Result<StatusServer> {
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("status").enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(addr)).with_context(|| format!("--status-addr {addr}"))?;
    let addr = listener.local_addr()?;
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    runtime.spawn(async move {
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // For example, no file descriptor is free.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let state = state.clone();
            tokio::spawn(async move {
                let _slot = slot;
                let service = service_fn(|request: Request<Incoming>| {
                    let state = state.clone();
                    async move {
                        let (status, text) = state.answer(&request).await;
                        let mut response = Response::new(Full::new(Bytes::from(text)));
                        *response.status_mut() = status;
                        Ok::<_, Infallible>(response)
                    }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).keep_alive(false);
                let connection = http.serve_connection(TokioIo::new(stream), service);
                // A client that breaks the connection, or is too slow, gets no answer.
                let _ = tokio::time::timeout(LONGEST_CONNECTION, connection).await;
            });
        }
    });
    Ok(StatusServer { addr, _runtime: runtime })
}
