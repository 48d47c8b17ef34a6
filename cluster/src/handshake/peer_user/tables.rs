//! Finds the owner of a socket in `/proc/net/tcp` and `/proc/net/tcp6`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The tables of the calling thread's network namespace.
const TABLES: [&str; 2] = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
/// The state of an open connection. The tables name user 0 as the owner of most others.
const ESTABLISHED: &str = "01";
/// The number of times that the tables are read. One reading may miss a socket while others are opened and closed.
const ATTEMPTS: usize = 3;

/// Returns the user id of the owner of the established socket with these addresses.
///
/// # Errors
/// The tables cannot be read, or do not list the connection, which may have been closed (`NotFound`).
pub(super) fn owner(local: SocketAddr, remote: SocketAddr) -> io::Result<u32> {
    for _ in 0..ATTEMPTS {
        for path in TABLES {
            let table = match File::open(path) {
                Ok(table) => BufReader::new(table),
                // Systems without IPv6 have no second table.
                Err(error) if error.kind() == io::ErrorKind::NotFound && path != TABLES[0] => continue,
                Err(error) => return Err(io::Error::new(error.kind(), format!("read {path}: {error}"))),
            };
            if let Some(user) = owner_in(table, local, remote)? {
                return Ok(user);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("{} has no connection from {local} to {remote}", TABLES[0])))
}

/// Returns the owner of the established socket with these addresses; `None` if the table does not list it.
fn owner_in(table: impl BufRead, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u32>> {
    // The first line names the columns.
    for line in table.lines().skip(1) {
        if let Some(row) = Row::parse(&line?)
            && row.is_established
            && row.local == local
            && row.remote == remote
        {
            return Ok(Some(row.user));
        }
    }
    Ok(None)
}

/// A row of a table.
struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    is_established: bool,
    user: u32,
}

impl Row {
    /// Parses `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid …`.
    fn parse(line: &str) -> Option<Self> {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let local = parse_addr(columns.next()?)?;
        let remote = parse_addr(columns.next()?)?;
        let is_established = columns.next()? == ESTABLISHED;
        let user = columns.nth(3)?.parse().ok()?;
        Some(Self { local, remote, is_established, user })
    }
}

/// Parses an address: words of 32 bits in the byte order of this machine, then the port, all hexadecimal.
fn parse_addr(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = [0; 16];
    let words = ip.as_bytes().chunks(8);
    let count = words.len();
    for (place, word) in bytes.chunks_mut(4).zip(words) {
        // The kernel prints the memory of the address as integers, so native byte order restores its bytes.
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        place.copy_from_slice(&word.to_ne_bytes());
    }
    let ip = match count {
        1 => IpAddr::from(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        4 => IpAddr::from(Ipv6Addr::from(bytes)).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_tables_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 0100007F:9C40 06 00000000:00000000 03:00001389 00000000     0        0 0 3 0\n\
            1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 7 1 0\n\
            2: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000001000000:9C40 01 0:0 0:0 0  33  0 9 1\n";
        let find = |local: &str, remote: &str| {
            owner_in(table.as_bytes(), local.parse().unwrap(), remote.parse().unwrap()).unwrap()
        };
        assert_eq!(find("127.0.0.1:8080", "127.0.0.1:40000"), Some(1000), "a closed one does not count");
        assert_eq!(find("127.0.0.1:8080", "[::1]:40000"), Some(33), "a mapped address is the same address");
        assert_eq!(find("127.0.0.1:40000", "127.0.0.1:8080"), None, "the other direction is another socket");
    }
}
