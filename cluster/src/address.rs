//! Which addresses to listen on and to connect to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::ClusterConfig;
use crate::error::ClusterError;

/// All ranks of a large job may connect at the same moment.
const ACCEPT_BACKLOG: i32 = 1024;

/// Checks that `addr` may be used: without a secret only loopback is.
pub(crate) fn check_allowed(
    config: &ClusterConfig,
    action: &'static str,
    addr: SocketAddr,
) -> Result<(), ClusterError> {
    if config.token.is_some() || is_loopback(addr.ip()) {
        return Ok(());
    }
    Err(ClusterError::TokenRequired { action, addr })
}

/// Checks an address that another process gives as a rank's: it must be one to connect to, and allowed.
pub(crate) fn check_given(config: &ClusterConfig, addr: SocketAddr) -> Result<(), String> {
    if addr.port() == 0 || addr.ip().to_canonical().is_unspecified() {
        return Err(format!("nobody can connect to {addr}"));
    }
    check_allowed(config, "connect to", addr).map_err(|error| error.to_string())
}

/// Whether an address never leaves the machine, also in its IPv4-mapped form.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// The addresses of rank 0.
pub(crate) fn resolve_master(config: &ClusterConfig, deadline: Instant) -> Result<Vec<SocketAddr>, ClusterError> {
    let (host, port) = (config.master_addr.as_str(), config.master_port);
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let failed = |cause: String| ClusterError::Resolve { host: format!("{host}:{port}"), cause };
    let name = host.to_owned();
    let look_up = move || (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    let found = by_deadline(deadline, look_up).and_then(|found| found);
    let addrs = found.map_err(|error| failed(error.to_string()))?;
    if addrs.is_empty() { Err(failed("it has no address".to_owned())) } else { Ok(addrs) }
}

/// Waits for `work` until a deadline. It runs on a thread of its own, for a name server that does not answer can hold
/// it for longer than any wait of this crate; it is then left to end by itself.
fn by_deadline<T: Send + 'static>(deadline: Instant, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, result) = std::sync::mpsc::sync_channel(1);
    // Nobody takes the result after the deadline.
    let run = move || drop(sender.send(work()));
    std::thread::Builder::new().name("edgecut-resolve".to_owned()).spawn(run)?;
    result.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|error| match error {
        RecvTimeoutError::Timeout => io::Error::new(io::ErrorKind::TimedOut, "no answer before the deadline"),
        RecvTimeoutError::Disconnected => io::Error::other("the thread ended without an answer"),
    })
}

/// Opens the listening socket of rank 0.
pub(crate) fn listen_as_master(config: &ClusterConfig) -> Result<TcpListener, ClusterError> {
    if config.world_size == 1 {
        // Nobody will come, so a job of one process needs neither the master's port nor its address.
        return listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), "--master-port");
    }
    if config.master_port == 0 {
        return Err(ClusterError::Config("the master port must not be 0: the other ranks have to know it".to_owned()));
    }
    let candidates = match config.listen_addr {
        Some(ip) => vec![SocketAddr::new(ip, config.master_port)],
        None => reachable(config, resolve_master(config, Instant::now() + config.rendezvous_timeout())?),
    };
    let mut first_error = None;
    for addr in candidates {
        match check_allowed(config, "listen on", addr).and_then(|()| listen(addr, "--master-port")) {
            Ok(listener) => return Ok(listener),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| ClusterError::Config("no address to listen on".to_owned())))
}

/// Some distributions resolve a machine's own name to a loopback address, on which nodes elsewhere cannot reach it.
/// Where such nodes are expected, rank 0 then listens on all its addresses.
fn reachable(config: &ClusterConfig, resolved: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let host = config.master_addr.as_str();
    let is_own_name = host != "localhost" && host.parse::<IpAddr>().is_err();
    let has_other_nodes = config.local_world_size < config.world_size;
    if config.token.is_none() || !is_own_name || !has_other_nodes || !resolved.iter().all(|a| is_loopback(a.ip())) {
        return resolved;
    }
    vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, config.master_port))]
}

/// Opens the listening socket of another rank, which the others must be able to reach like `local_ip`, the address
/// from which it reaches rank 0. Returns the address for the roster as well.
pub(crate) fn listen_as_member(
    config: &ClusterConfig,
    local_ip: IpAddr,
) -> Result<(TcpListener, SocketAddr), ClusterError> {
    let addr = SocketAddr::new(config.listen_addr.unwrap_or(local_ip), config.listen_port);
    check_allowed(config, "listen on", addr)?;
    let listener = listen(addr, "--listen-port")?;
    let mut own = local_addr(&listener)?;
    if own.ip().is_unspecified() {
        own.set_ip(local_ip);
    }
    Ok((listener, own))
}

/// The address that a listener is bound to.
pub(crate) fn local_addr(listener: &TcpListener) -> Result<SocketAddr, ClusterError> {
    listener.local_addr().map_err(crate::error::system("ask for the own listening address"))
}

/// The address under which rank 0 names itself.
pub(crate) fn master_own_addr(listener: &TcpListener) -> Result<SocketAddr, ClusterError> {
    let mut addr = local_addr(listener)?;
    if addr.ip().is_unspecified() {
        let loopback: IpAddr = if addr.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        addr.set_ip(loopback);
    }
    Ok(addr)
}

fn listen(addr: SocketAddr, flag: &'static str) -> Result<TcpListener, ClusterError> {
    open(addr).map_err(|cause| match cause.kind() {
        io::ErrorKind::AddrInUse => ClusterError::PortInUse { addr, flag },
        io::ErrorKind::AddrNotAvailable => ClusterError::Listen {
            addr,
            cause: io::Error::new(cause.kind(), "this host has no such address; does the rank run on the right node?"),
        },
        _ => ClusterError::Listen { addr, cause: crate::descriptors::explain(cause) },
    })
}

fn open(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A port stays reserved for a while after its last job; no other listener can be displaced by this.
    socket.set_reuse_address(true)?;
    socket.bind(&addr.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(check(&config, "203.0.113.5:80").unwrap_err().contains("without a shared secret"));
        config.token = Some(crate::Token::random().unwrap());
        check(&config, "203.0.113.5:80").unwrap();
        for nowhere in ["127.0.0.1:0", "0.0.0.0:5", "[::]:5", "[::ffff:0.0.0.0]:5"] {
            assert_eq!(check(&config, nowhere).unwrap_err(), format!("nobody can connect to {nowhere}"));
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
        let error = listen(addr, "--master-port").unwrap_err().to_string();
        assert!(error.contains("192.0.2.1:0") && error.contains("right node"), "{error}");
    }
}
