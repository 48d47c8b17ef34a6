//! Answers to HTTP requests for the state of a process: health, readiness, and counters for Prometheus.
//!
//! ```
//! use edgecut_status::{Answer, PrometheusText, StatusSource, serve_status};
//! use std::io::{Read, Write};
//! use std::sync::Arc;
//! struct Steps(u64);
//! impl StatusSource for Steps {
//!     const PATHS: &'static str = "/metrics";
//!     async fn answer(&self, path: &str) -> Option<Answer> {
//!         let mut text = PrometheusText::new();
//!         text.counter("steps_total", "Steps of training.", self.0);
//!         (path == "/metrics").then(|| Answer::Found(text.finish()))
//!     }
//! }
//! let server = serve_status(([127, 0, 0, 1], 0).into(), Arc::new(Steps(7)))?;
//! let mut stream = std::net::TcpStream::connect(server.addr())?;
//! stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
//! let mut text = String::new();
//! stream.read_to_string(&mut text)?;
//! assert!(text.ends_with("edgecut_steps_total 7\n"));
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod prometheus;
mod server;

pub use prometheus::PrometheusText;
pub use server::{Answer, StatusServer, StatusSource, serve_status};
