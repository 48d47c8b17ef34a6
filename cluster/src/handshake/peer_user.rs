//! The user of the process at the other end of a loopback connection.
//!
//! TCP has no peer credentials. But Linux knows the owner of every socket of a network namespace, and both ends of a
//! loopback connection are in the same namespace. So jobs on one machine are protected from other users without a
//! secret that launchers would have to pass on.

mod sock_diag;
mod tables;

use std::io;
use std::net::{SocketAddr, TcpStream};

/// Returns the user id of the process at the other end of a loopback connection.
///
/// # Errors
/// The kernel does not know the connection, which may have been closed (`NotFound`), or its tables cannot be read.
pub(crate) fn peer_user(stream: &TcpStream) -> io::Result<u32> {
    let theirs = canonical(stream.peer_addr()?);
    let ours = canonical(stream.local_addr()?);
    // A lookup takes microseconds. A table takes milliseconds once there are thousands of connections, and a job opens
    // thousands when it starts. But sandboxes often forbid the lookup.
    match sock_diag::owner(theirs, ours) {
        Ok(user) => Ok(user),
        Err(_) => tables::owner(theirs, ours),
    }
}

/// Returns the address with an IPv4 address that is mapped into IPv6 as IPv4.
fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, TcpListener};

    #[test]
    fn both_ends_of_an_own_connection_belong_to_this_user() {
        let own = rustix::process::geteuid().as_raw();
        for ip in ["127.0.0.1", "::1"] {
            let Ok(listener) = TcpListener::bind((ip.parse::<IpAddr>().unwrap(), 0)) else {
                edgecut_testing::skip(edgecut_testing::Need::Ipv6, "peer_user", format!("this machine has no {ip}"));
                continue;
            };
            let connector = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let acceptor = listener.accept().unwrap().0;
            for stream in [&acceptor, &connector] {
                assert_eq!(peer_user(stream).unwrap(), own);
                let theirs = stream.peer_addr().unwrap();
                let ours = stream.local_addr().unwrap();
                assert_eq!(tables::owner(theirs, ours).unwrap(), own);
                match sock_diag::owner(theirs, ours) {
                    Ok(user) => assert_eq!(user, own),
                    Err(error) => edgecut_testing::skip(edgecut_testing::Need::Sockets, "peer_user", error),
                }
            }
        }
    }

    #[test]
    fn a_connection_that_was_closed_is_not_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = listener.local_addr().unwrap();
        let unused = "127.0.0.1:1".parse().unwrap();
        assert_eq!(tables::owner(unused, ours).unwrap_err().kind(), io::ErrorKind::NotFound);
        // A listening socket is not one end of a connection.
        assert!(sock_diag::owner(ours, unused).is_err());
    }
}
