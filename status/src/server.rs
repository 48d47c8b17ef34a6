//! The HTTP server.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
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
    /// Status 200, with this text, which may be in Prometheus' format.
    Found(String),
    /// Status 200, with this page of HTML. It may have scripts and styles of its own, and reads only from this server.
    Html(String),
    /// Status 200, with this JSON.
    Json(String),
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
/// An address that cannot be listened on. The error says what to do about a port in use.
pub fn serve_status<S: StatusSource>(addr: SocketAddr, source: Arc<S>) -> io::Result<StatusServer> {
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("status").enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(addr)).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            io::Error::new(error.kind(), "port in use; choose another one or end the process that holds it")
        }
        _ => error,
    })?;
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
                    async move { Ok::<_, Infallible>(respond(source.as_ref(), &request).await) }
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

// Prometheus needs the version of its format.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The policy of pages. Nothing is loaded from elsewhere, even if a name in a page were taken for markup.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

async fn respond<S: StatusSource>(source: &S, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
    let answer = if is_read { source.answer(path).await } else { None };
    let (status, format, text) = match answer {
        _ if !is_read => (StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is allowed\n".into()),
        Some(Answer::Found(text)) => (StatusCode::OK, TEXT, text),
        Some(Answer::Html(page)) => (StatusCode::OK, HTML, page),
        Some(Answer::Json(json)) => (StatusCode::OK, JSON, json),
        Some(Answer::NotReady(why)) => (StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        None => (StatusCode::NOT_FOUND, TEXT, format!("{path} does not exist: ask for {}\n", S::PATHS)),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, format);
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
