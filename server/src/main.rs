//! `sampling-server`: holds parts of a graph, and samples batches for trainers on other machines.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod status;
mod timeouts;

use crate::timeouts::{LAST_REPLIES_TIMEOUT, SHUTDOWN_CHECK_INTERVAL};
use anyhow::Context;
use args::{Args, Settings, UsageError, located};
use clap::CommandFactory;
use edgecut_cli::allocator::{MiMalloc, keep_memory};
use edgecut_cli::{CommandLine, Dialect, FlagNames, message, parse_command_line, with_near_argument};
use edgecut_cluster::{ServiceListener, on_interrupt, with_causes};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::end_on_unreadable_pages;
use edgecut_status::serve_status;
use status::State;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The flags that `-h` shows.
const ESSENTIAL: &[&str] =
    &["dataset_root_dir", "servers", "server_rank", "token_file", "status_addr", "max_client_batches", "feature_dtype"];

fn main() -> ExitCode {
    keep_memory();
    let dialect = Dialect { essential: ESSENTIAL, urls: &["dataset_root_dir"], ..Dialect::default() };
    match run(parse_command_line::<Args>(&dialect)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The libraries name settings. The port of a server is in its list.
            let flags = FlagNames::new(Args::command(), &[("listen_port", "servers")]);
            let text = with_near_argument(flags.written_into(&with_causes(error.as_ref())));
            message!("error: {text}");
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}

fn run(line: CommandLine<Args>) -> anyhow::Result<()> {
    end_on_unreadable_pages().context("handle SIGBUS")?;
    let (args, _copies) = located(line)?;
    let (signal, ended) = mpsc::channel();
    let is_serving = Arc::new(AtomicBool::new(false));
    let is_orderly = is_serving.clone();
    on_interrupt(move || {
        // Nothing is lost before the part is served. A second signal ends the wait for requests.
        if !is_orderly.swap(false, Ordering::AcqRel) || signal.send(()).is_err() {
            std::process::exit(0);
        }
    })?;
    let settings = args.settings()?;
    let Settings { server, ref servers, grace_period, .. } = settings;
    let address = &servers.addresses()[server];
    // The port is taken first, so that a port in use is reported before files are read.
    let listener = ServiceListener::bind(settings.listen_addr, address.port(), servers.service())?;
    let listening = listener.addr();
    let state = Arc::new(State::default());
    let status =
        args.status_addr.map(|addr| serve_status(addr, state.clone()).with_context(|| format!("--status-addr {addr}")));
    let status = status.transpose()?;
    let graph = serve(&settings, listener)?;
    let meta = graph.part().meta();
    let part = graph.part().id();
    state.serve(graph.clone());
    is_serving.store(true, Ordering::Release);
    let num_servers = servers.addresses().len();
    message!("server {server} of {num_servers}: part {part} of dataset {}, listening on {listening}", meta.dataset);
    if let Some(status) = &status {
        message!("server {server}: status at http://{}/readyz", status.addr());
    }
    // The handler holds the sender as long as the process runs.
    let _ = ended.recv();
    state.is_ending.store(true, Ordering::Release);
    message!("server {server}: ending after the requests in progress");
    graph.stop_accepting();
    let deadline = Instant::now() + grace_period;
    while graph.served().in_progress > 0 && Instant::now() < deadline {
        std::thread::sleep(SHUTDOWN_CHECK_INTERVAL);
    }
    // The last replies may still be in the queues of their connections.
    std::thread::sleep(LAST_REPLIES_TIMEOUT);
    Ok(())
}

/// Opens the part of this server and serves it.
fn serve(settings: &Settings, listener: ServiceListener) -> anyhow::Result<Arc<DistGraph>> {
    let dir = &settings.dataset_root_dir;
    let part = settings.servers.open_part(dir, settings.server, settings.verify)?;
    let part = if settings.map_edges { part } else { part.with_edges_in_memory() };
    let part = part.with_feature_dtypes(&settings.feature_dtype)?;
    Ok(DistGraph::serve(Arc::new(part), settings.servers.clone(), settings.server, listener, settings.config.clone())?)
}
