//! Options that let the kernel notice a connection whose peer cannot be reached any more.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

/// Probes that stay without an answer before the kernel gives an idle connection up.
const PROBES: u32 = 5;
/// The kernel counts in seconds.
const SHORTEST: Duration = Duration::from_secs(1);

/// Makes the kernel probe `stream` while it is idle. A connection without an answer ends with an error after about
/// `timeout`.
///
/// The probes see a lost peer machine and a cut cable. They do not see a process that hangs, for its kernel answers.
pub(crate) fn probe_when_idle(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, (timeout / 2).max(SHORTEST))?;
    sockopt::set_tcp_keepintvl(stream, (timeout / (2 * PROBES)).max(SHORTEST))?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(())
}

/// Makes the kernel end `stream` with an error when sent data is not acknowledged for `timeout`.
///
/// This is only for connections that carry little and are always read: the kernel counts the time in which a healthy
/// peer does not read as well, and a rank may keep its neighbors waiting for much longer than `timeout`. Connections
/// that carry data have a pulse beside them instead.
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
