//! A hold on the master's port from the check until the start.

use crate::timeouts::{ACCEPT_RETRY_INTERVAL, PORT_PROBE_TIMEOUT};
use anyhow::{Context, anyhow};
use edgecut_cluster::{ClusterConfig, ClusterError, Token};
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A held port. Connections to it are accepted and closed. Dropping it frees the port.
pub(super) struct Held {
    listener: Arc<TcpListener>,
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
        let listener = Arc::new(listener);
        let free = Arc::new(AtomicBool::new(false));
        let freed = free.clone();
        let listening = listener.clone();
        let thread = std::thread::spawn(move || let_in(&listening, &freed));
        Ok(Self { listener, free, thread: Some(thread) })
    }
}

/// Accepts and drops connections until the port is freed.
fn let_in(listener: &TcpListener, freed: &AtomicBool) {
    while !freed.load(Ordering::SeqCst) {
        if listener.accept().is_err() && !freed.load(Ordering::SeqCst) {
            std::thread::sleep(ACCEPT_RETRY_INTERVAL);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.free.store(true, Ordering::SeqCst);
        // Linux ends a wait for connections when the listening socket is shut down. The ranks start right after this.
        let _ = shutdown(&*self.listener, Shutdown::Both);
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

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::free_ports;

    #[test]
    fn a_held_port_lets_connections_in_and_is_free_after_that() {
        let port = free_ports(1)[0];
        let held = Held::take("127.0.0.1", port, None).unwrap();
        probe("127.0.0.1", port).unwrap();
        let again = Held::take("127.0.0.1", port, None).err().map(|error| error.to_string());
        assert!(again.is_some_and(|why| why.contains("port in use")));
        drop(held);
        assert!(probe("127.0.0.1", port).is_err());
        drop(Held::take("127.0.0.1", port, None).unwrap());
    }
}
