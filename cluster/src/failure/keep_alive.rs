//! Socket options that make the kernel detect unreachable peers.

use crate::timeouts::MIN_PROBE_INTERVAL;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

/// The number of unanswered probes after which the kernel ends an idle connection.
const PROBES: u32 = 5;

/// Makes the kernel probe `stream` while it is idle. If the peer does not answer, the connection ends with an error
/// after about `timeout`.
///
/// The probes detect a lost machine and a cut cable. They do not detect a process that hangs, because its kernel
/// answers.
pub(crate) fn probe_when_idle(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, (timeout / 2).max(MIN_PROBE_INTERVAL))?;
    sockopt::set_tcp_keepintvl(stream, (timeout / (2 * PROBES)).max(MIN_PROBE_INTERVAL))?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(())
}

/// Makes the kernel end `stream` with an error if sent data is not acknowledged for `timeout`.
///
/// Use this only for connections that carry little data and are always read. The kernel also counts the time in which a
/// healthy peer does not read, and a rank may keep its neighbors waiting for much longer than `timeout`. Connections
/// that carry bulk data between ranks are watched through a pulse instead. Clients of servers have none: they always
/// read, and one that is suspended for longer opens new connections.
pub(crate) fn end_when_unacknowledged(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    let millis = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(stream, millis)?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_options_reach_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        probe_when_idle(&stream, Duration::from_secs(10)).unwrap();
        end_when_unacknowledged(&stream, Duration::from_millis(20_000)).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(5));
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), Duration::from_secs(1));
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 20_000);
        probe_when_idle(&stream, Duration::from_millis(100)).unwrap();
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(1));
    }
}
