//! A hold on the master's port from the check until the start.

use crate::timeouts::{HELD_PORT_INTERVAL, PORT_PROBE_TIMEOUT};
use anyhow::{Context, anyhow};
use edgecut_cluster::{ClusterConfig, ClusterError, Token};
use std::io;
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A held port. Connections to it are accepted and closed. Dropping it frees the port.
pub(super) struct Held {
    free: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Held {
    /// Listens on the port in the same way as rank 0 will.
    pub(super) fn take(host: &str, port: u16, listen_addr: Option<IpAddr>) -> anyhow::Result<Self> {
        // Two nodes and a secret, so that it listens on the address that rank 0 of a job over several nodes uses.
        let mut config = ClusterConfig::new(0, 2, host, port);
        config.listen_addr = listen_addr;
        config.token = Some(Token::random()?);
        let listener = config.listen().map_err(|error| match error {
            ClusterError::Listen { cause, .. } if cause.kind() == io::ErrorKind::AddrNotAvailable => {
                anyhow!("{host} is no address of this node, which is to be the master: give --master-addr")
            }
            ClusterError::PortInUse { addr, .. } => {
                anyhow!("listen on {addr}: port in use; choose another --master-port or end the process that holds it")
            }
            error => error.into(),
        })?;
        listener.set_nonblocking(true).context("hold the master's port")?;
        let free = Arc::new(AtomicBool::new(false));
        let freed = free.clone();
        let thread = std::thread::spawn(move || let_in(&listener, &freed));
        Ok(Self { free, thread: Some(thread) })
    }
}

/// Accepts and drops connections until the port is freed.
fn let_in(listener: &TcpListener, freed: &AtomicBool) {
    while !freed.load(Ordering::SeqCst) {
        if listener.accept().is_err() {
            std::thread::sleep(HELD_PORT_INTERVAL);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.free.store(true, Ordering::SeqCst);
        // If the thread has panicked, the port is free already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Checks that the master's port accepts connections.
pub(super) fn probe(host: &str, port: u16) -> anyhow::Result<()> {
    let addresses = (host, port).to_socket_addrs().with_context(|| format!("look up {host}"))?;
    let mut last = anyhow!("{host} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, PORT_PROBE_TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.into(),
        }
    }
    Err(last.context(format!(
        "cannot reach the master's port, {host}:{port} (open it in the firewall between the nodes, or give another \
         --master-port or --master-addr)"
    )))
}
