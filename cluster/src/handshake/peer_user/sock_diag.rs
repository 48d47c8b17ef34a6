//! Looks up the owner of one socket with the kernel's `sock_diag` interface (man 7 sock_diag).

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The length of `struct nlmsghdr`, which each message starts with.
const HEADER: usize = 16;
/// The length of the header and `struct inet_diag_req_v2`.
const REQUEST: usize = HEADER + 56;
/// The length of the header and `struct inet_diag_msg`.
const REPLY: usize = HEADER + 72;
/// The message type of both.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
const TCP_ESTABLISHED: u8 = 1;

/// Returns the user id of the owner of the established socket with these addresses, in the network namespace of the
/// calling thread.
///
/// # Errors
/// There is no such socket, or the system does not answer the question.
pub(super) fn owner(local: SocketAddr, remote: SocketAddr) -> io::Result<u32> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    // Port 0 is the kernel.
    sendto(&socket, &request(local, remote), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut reply = [0; 1024];
    // The kernel has answered when `sendto` returns, so there is nothing to wait for.
    let (_, length) = recv(&socket, &mut reply, RecvFlags::DONTWAIT)?;
    let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("no connection from {local} to {remote}"));
    owner_in(reply.get(..length).ok_or_else(unknown)?, local, remote).ok_or_else(unknown)
}

fn request(local: SocketAddr, remote: SocketAddr) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    request[0..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    let body = &mut request[HEADER..];
    body[0] = family(local).as_raw() as u8;
    body[1] = IPPROTO_TCP;
    // Sockets in every state are looked up; the state is in the reply.
    body[4..8].fill(0xff);
    body[8..44].copy_from_slice(&addresses(local, remote));
    // `INET_DIAG_NOCOOKIE`: the socket is identified by its addresses alone.
    body[48..56].fill(0xff);
    request
}

/// Returns the owner in a reply, if it is about the established socket with these addresses.
fn owner_in(reply: &[u8], local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    // An error has another type.
    let is_reply = reply.get(4..6)? == SOCK_DIAG_BY_FAMILY.to_ne_bytes();
    let body = reply.get(HEADER..REPLY)?;
    // Where there is no connection, the kernel may find a listening socket.
    let is_connection = body[1] == TCP_ESTABLISHED && body[4..40] == addresses(local, remote);
    let user = body.get(64..68)?.try_into().ok()?;
    (is_reply && is_connection).then(|| u32::from_ne_bytes(user))
}

/// Returns the ports and addresses as in `struct inet_diag_sockid`, in network byte order.
fn addresses(local: SocketAddr, remote: SocketAddr) -> [u8; 36] {
    let mut bytes = [0; 36];
    bytes[0..2].copy_from_slice(&local.port().to_be_bytes());
    bytes[2..4].copy_from_slice(&remote.port().to_be_bytes());
    put_ip(&mut bytes[4..20], local.ip());
    put_ip(&mut bytes[20..36], remote.ip());
    bytes
}

fn put_ip(bytes: &mut [u8], ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes.copy_from_slice(&ip.octets()),
    }
}

fn family(addr: SocketAddr) -> AddressFamily {
    if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}
