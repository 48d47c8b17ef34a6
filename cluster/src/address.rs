//! The choice of addresses to listen on and to connect to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::ClusterConfig;
use crate::error::{ClusterError, system};
use crate::io_error::explain;

/// The length of the accept queue. All ranks of a large job may connect at the same time.
const ACCEPT_BACKLOG: i32 = 1024;

impl ClusterConfig {
    /// Opens the socket that rank 0 of this job listens on, for [`Cluster::join_on`](crate::Cluster::join_on), or to
    /// check that it is available.
    ///
    /// # Errors
    /// A port in use, an address of another machine, or a missing secret for an address that is not loopback.
    pub fn listen(&self) -> Result<TcpListener, ClusterError> {
        listen_as_master(self)
    }
}

/// Checks that `addr` may be used. Without a secret only loopback addresses are allowed.
pub(crate) fn check_allowed(
    config: &ClusterConfig,
    action: &'static str,
    addr: SocketAddr,
) -> Result<(), ClusterError> {
    if config.token.is_some() || is_loopback(addr.ip()) {
        return Ok(());
    }
    Err(ClusterError::Secret(format!(
        "{action} {addr} without a shared secret: only loopback addresses work without one; set EDGECUT_TOKEN (or \
         EDGECUT_TOKEN_FILE) to the same secret on every rank"
    )))
}

/// Checks the address of a rank that another process has sent: it must have a port, be specific and be allowed.
pub(crate) fn check_given(config: &ClusterConfig, addr: SocketAddr) -> Result<(), ClusterError> {
    if addr.port() == 0 || addr.ip().to_canonical().is_unspecified() {
        return Err(ClusterError::NoDestination { addr });
    }
    check_allowed(config, "connect to", addr)
}

/// Returns whether an address is a loopback address, also in its IPv4-mapped form.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Resolves the addresses of rank 0; at least one.
pub(crate) fn resolve_master(config: &ClusterConfig, deadline: Instant) -> Result<Vec<SocketAddr>, ClusterError> {
    resolve(&config.master_addr, config.master_port, deadline)
}

/// Resolves the addresses of a host; at least one.
pub(crate) fn resolve(host: &str, port: u16, deadline: Instant) -> Result<Vec<SocketAddr>, ClusterError> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let failed = |cause| ClusterError::Resolve { host: format!("{host}:{port}"), cause };
    let name = host.to_owned();
    let found = by_deadline(deadline, move || (name.as_str(), port).to_socket_addrs());
    let addrs: Vec<SocketAddr> = found.and_then(|found| found).map_err(failed)?.collect();
    if addrs.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address")));
    }
    Ok(addrs)
}

/// Runs `work` on a thread of its own and waits for its result until a deadline. After the deadline the thread is left
/// to end by itself: a name server that does not answer can block it longer than any timeout of this crate.
fn by_deadline<T: Send + 'static>(deadline: Instant, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, result) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("edgecut-resolve".to_owned());
    // After the deadline the receiver is gone, and the result is dropped.
    thread.spawn(move || drop(sender.send(work())))?;
    result.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|error| match error {
        RecvTimeoutError::Timeout => io::Error::new(io::ErrorKind::TimedOut, "no answer before the deadline"),
        RecvTimeoutError::Disconnected => io::Error::other("the thread ended without an answer"),
    })
}

/// Opens the listening socket of rank 0.
pub(crate) fn listen_as_master(config: &ClusterConfig) -> Result<TcpListener, ClusterError> {
    if config.world_size == 1 {
        // No other rank connects, so a job of one process needs neither the master's port nor its address.
        return listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), "master_port");
    }
    if config.master_port == 0 {
        return Err(ClusterError::Config(
            "the master port must not be 0: the other ranks need to know it in advance".to_owned(),
        ));
    }
    let candidates = match config.listen_addr {
        Some(ip) => vec![SocketAddr::new(ip, config.master_port)],
        None => reachable(config, resolve_master(config, Instant::now() + config.rendezvous_timeout())?),
    };
    let mut first_error = None;
    for addr in candidates {
        match check_allowed(config, "listen on", addr).and_then(|()| listen(addr, "master_port")) {
            Ok(listener) => return Ok(listener),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| ClusterError::Config("no address to listen on".to_owned())))
}

/// Replaces resolved addresses that other nodes cannot reach. Some distributions resolve a machine's own name to a
/// loopback address. If the job has other nodes, rank 0 then listens on all of its addresses.
fn reachable(config: &ClusterConfig, resolved: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let host = config.master_addr.as_str();
    let is_own_name = host != "localhost" && host.parse::<IpAddr>().is_err();
    let has_other_nodes = config.local_world_size < config.world_size;
    if config.token.is_none() || !is_own_name || !has_other_nodes || !resolved.iter().all(|a| is_loopback(a.ip())) {
        return resolved;
    }
    vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, config.master_port))]
}

/// Opens the listening socket of a rank other than 0. Returns it with its address for the roster. `local_ip` is the
/// local address of the connection to rank 0, and the default to listen on.
pub(crate) fn listen_as_member(
    config: &ClusterConfig,
    local_ip: IpAddr,
) -> Result<(TcpListener, SocketAddr), ClusterError> {
    let addr = SocketAddr::new(config.listen_addr.unwrap_or(local_ip), config.listen_port);
    check_allowed(config, "listen on", addr)?;
    let listener = listen(addr, "listen_port")?;
    let mut own = local_addr(&listener)?;
    if own.ip().is_unspecified() {
        own.set_ip(local_ip);
    }
    Ok((listener, own))
}

/// Returns the address that a listener is bound to.
pub(crate) fn local_addr(listener: &TcpListener) -> Result<SocketAddr, ClusterError> {
    listener.local_addr().map_err(system("ask for the own listening address"))
}

/// Returns the address of rank 0 in its own roster; loopback if it listens on all addresses. The other ranks replace
/// this entry by the address at which they reach rank 0.
pub(crate) fn master_own_addr(listener: &TcpListener) -> Result<SocketAddr, ClusterError> {
    let mut addr = local_addr(listener)?;
    if addr.ip().is_unspecified() {
        let loopback: IpAddr = if addr.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        addr.set_ip(loopback);
    }
    Ok(addr)
}

pub(crate) fn listen(addr: SocketAddr, setting: &'static str) -> Result<TcpListener, ClusterError> {
    open(addr).map_err(|cause| match cause.kind() {
        io::ErrorKind::AddrInUse => ClusterError::PortInUse { addr, setting },
        io::ErrorKind::AddrNotAvailable => ClusterError::Listen {
            addr,
            cause: io::Error::new(cause.kind(), "this host has no such address; does the rank run on the right node?"),
        },
        _ => ClusterError::Listen { addr, cause: explain(cause) },
    })
}

fn open(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // The kernel keeps a port reserved for a while after its last connection (TIME_WAIT). This option lifts that, and
    // on Linux it does not allow two listeners on one port.
    socket.set_reuse_address(true)?;
    socket.bind(&addr.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    #[test]
    fn mapped_loopback_is_loopback() {
        assert!(is_loopback("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!is_loopback("::ffff:10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn addresses_that_others_give_are_checked() {
        let mut config = ClusterConfig::new(0, 2, "localhost", 29500);
        let check = |config: &ClusterConfig, addr: &str| check_given(config, addr.parse().unwrap());
        check(&config, "127.0.0.1:5").unwrap();
        assert!(check(&config, "203.0.113.5:80").unwrap_err().to_string().contains("without a shared secret"));
        config.token = Some(crate::Token::random().unwrap());
        check(&config, "203.0.113.5:80").unwrap();
        for nowhere in ["127.0.0.1:0", "0.0.0.0:5", "[::]:5", "[::ffff:0.0.0.0]:5"] {
            assert_eq!(
                check(&config, nowhere).unwrap_err().to_string(),
                format!("{nowhere} is not an address to connect to")
            );
        }
    }

    #[test]
    fn work_that_takes_too_long_is_left_alone() {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let held = by_deadline(Instant::now(), move || released.recv());
        assert_eq!(held.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(release);
        assert_eq!(by_deadline(Instant::now() + std::time::Duration::from_secs(60), || 7).unwrap(), 7);
    }

    #[test]
    fn a_name_that_resolves_to_loopback_is_opened_to_other_nodes_only_with_a_token() {
        let mut config = ClusterConfig::new(0, 2, "node-1", 29500);
        let loopback = vec![SocketAddr::from(([127, 0, 1, 1], 29500))];
        assert_eq!(reachable(&config, loopback.clone()), loopback);
        config.token = Some(crate::Token::random().unwrap());
        assert_eq!(reachable(&config, loopback.clone()), [SocketAddr::from(([0, 0, 0, 0], 29500))]);
        config.local_world_size = 2;
        assert_eq!(reachable(&config, loopback.clone()), loopback);
    }

    #[test]
    fn an_address_of_another_host_is_explained() {
        let addr = SocketAddr::from(([192, 0, 2, 1], 0));
        assert_has(format!("{:#}", listen(addr, "master_port").unwrap_err()), &["192.0.2.1:0", "right node"]);
    }
}
