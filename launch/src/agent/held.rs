//! The master's port, held from the check until the start.

use edgecut_cluster::{ClusterConfig, Token};
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the connection to the master's port may take.
const PROBE: Duration = Duration::from_secs(4);
/// How often who has come is let go.
const LOOK: Duration = Duration::from_millis(20);

/// A held port: who connects is let in and forgotten. Dropping it frees the port.
pub(super) struct Held {
    free: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Held {
    /// Takes the port as rank 0 will take it.
    pub(super) fn take(host: &str, port: u16, listen_addr: Option<IpAddr>) -> Result<Self, String> {
        // More than one node, and a secret: the place that rank 0 of such a job listens at.
        let mut config = ClusterConfig::new(0, 2, host, port);
        config.listen_addr = listen_addr;
        config.token = Some(Token::random().map_err(|error| error.to_string())?);
        let listener = config.listen().map_err(|error| match error.to_string() {
            text if text.contains("has no such address") => {
                format!("{host} is no address of this node, which is to be the master: give --master-addr")
            }
            text => text,
        })?;
        listener.set_nonblocking(true).map_err(|error| format!("hold the master's port: {error}"))?;
        let free = Arc::new(AtomicBool::new(false));
        let freed = free.clone();
        let thread = std::thread::spawn(move || let_in(&listener, &freed));
        Ok(Self { free, thread: Some(thread) })
    }
}

fn let_in(listener: &TcpListener, freed: &AtomicBool) {
    while !freed.load(Ordering::SeqCst) {
        if listener.accept().is_err() {
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.free.store(true, Ordering::SeqCst);
        // A thread that has panicked has let go of the port.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Connects to the master's port.
pub(super) fn probe(host: &str, port: u16) -> Result<(), String> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| format!("look up {host}: {error}"))?;
    let mut last = format!("{host} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, PROBE) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.to_string(),
        }
    }
    Err(format!(
        "cannot reach the master's port, {host}:{port} ({last}): open it in the firewall between the nodes, or give \
         another --master-port or --master-addr"
    ))
}
