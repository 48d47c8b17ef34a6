//! The HTTP server.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// The most connections that are answered at the same time. Further ones wait.
const MAX_CONNECTIONS: usize = 64;
/// The longest that a connection may take.
const LONGEST_CONNECTION: Duration = Duration::from_secs(10);

/// A source of answers to requests.
pub trait StatusSource: Send + Sync + 'static {
    /// The paths that exist, for the answer to a request for another one.
    const PATHS: &'static str;

    /// Answers a request for `path`. Returns `None` if the path does not exist.
    fn answer(&self, path: &str) -> impl Future<Output = Option<Answer>> + Send;
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Status 200, with this text.
    Found(String),
    /// Status 503: the process is not ready, for this reason.
    NotReady(String),
}

/// The thread that answers requests. Dropping it closes the socket.
#[derive(Debug)]
pub struct StatusServer {
    addr: SocketAddr,
    _runtime: Runtime,
}

impl StatusServer {
    /// Returns the address that the socket is bound to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// Starts to answer HTTP requests at `addr`, on a thread of its own.
///
/// # Errors
/// An address that cannot be listened on.
pub fn serve_status<S: StatusSource>(addr: SocketAddr, source: Arc<S>) -> io::Result<StatusServer> {
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("status").enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(addr))?;
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
            let source = source.clone();
            tokio::spawn(async move {
                let _slot = slot;
                let service = service_fn(|request: Request<Incoming>| {
                    let source = source.clone();
                    async move {
                        let (status, text) = respond(source.as_ref(), &request).await;
                        let mut response = Response::new(Full::new(Bytes::from(text)));
                        *response.status_mut() = status;
                        // Prometheus needs the version of its format.
                        let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                        response.headers_mut().insert(CONTENT_TYPE, format);
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

async fn respond<S: StatusSource>(source: &S, request: &Request<Incoming>) -> (StatusCode, String) {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return (StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n".into());
    }
    let path = request.uri().path();
    match source.answer(path).await {
        Some(Answer::Found(text)) => (StatusCode::OK, text),
        Some(Answer::NotReady(why)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        None => (StatusCode::NOT_FOUND, format!("{path} does not exist: ask for {}\n", S::PATHS)),
    }
}
