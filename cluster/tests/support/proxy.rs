//! A TCP proxy that records the bytes between two processes. On request it modifies one of them, or connects to another
//! process.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The direction of bytes through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the process that has connected.
    FromConnector,
    /// To the process that has connected.
    ToConnector,
}

/// A proxy in front of a listening address.
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    recorded: Mutex<Vec<u8>>,
    // The next chunk with this many bytes in this direction is modified, on a connection with this number or a later
    // one.
    target: Mutex<Option<(Direction, usize, usize)>>,
    connections: Mutex<usize>,
    // Connections with this number or a later one go to another address.
    redirection: Mutex<Option<(usize, SocketAddr)>>,
}

impl Proxy {
    /// Starts a proxy that connects to `to`.
    pub(crate) fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("a bound socket");
        let shared = Arc::new(Shared::default());
        let of_threads = Arc::clone(&shared);
        thread::spawn(move || {
            for connector in listener.incoming().map_while(Result::ok) {
                let number = {
                    let mut connections = of_threads.connections.lock().unwrap();
                    *connections += 1;
                    *connections - 1
                };
                let redirection = *of_threads.redirection.lock().unwrap();
                let redirected = redirection.filter(|&(first, _)| number >= first).map(|(_, to)| to);
                let Ok(acceptor) = TcpStream::connect(redirected.unwrap_or(to)) else { continue };
                for direction in [Direction::FromConnector, Direction::ToConnector] {
                    let mut ends = [connector.try_clone().unwrap(), acceptor.try_clone().unwrap()];
                    if direction == Direction::ToConnector {
                        ends.reverse();
                    }
                    let shared = Arc::clone(&of_threads);
                    thread::spawn(move || forward(&shared, number, direction, ends));
                }
            }
        });
        Self { addr, shared }
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        *self.shared.connections.lock().unwrap()
    }

    /// Connects to another process from the connection with this number on.
    pub(crate) fn redirect(&self, first: usize, to: SocketAddr) {
        *self.shared.redirection.lock().unwrap() = Some((first, to));
    }

    /// Connects to the own process again.
    pub(crate) fn end_redirection(&self) {
        *self.shared.redirection.lock().unwrap() = None;
    }

    /// Modifies one bit of the next chunk of `least_bytes` or more, on a connection with at least this number.
    pub(crate) fn modify_next(&self, direction: Direction, connection: usize, least_bytes: usize) {
        *self.shared.target.lock().unwrap() = Some((direction, connection, least_bytes));
    }

    /// Returns whether `pattern` was among the bytes of any connection.
    pub(crate) fn has_seen(&self, pattern: &[u8]) -> bool {
        self.shared.recorded.lock().unwrap().windows(pattern.len()).any(|window| window == pattern)
    }

    /// Returns the number of bytes so far, over all connections.
    pub(crate) fn num_bytes(&self) -> usize {
        self.shared.recorded.lock().unwrap().len()
    }
}

fn forward(shared: &Shared, number: usize, direction: Direction, [mut from, mut to]: [TcpStream; 2]) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            break;
        }
        let chunk = &mut buffer[..count];
        {
            let mut target = shared.target.lock().unwrap();
            if target.is_some_and(|(at, first, least)| at == direction && number >= first && count >= least) {
                *target = None;
                chunk[count / 2] ^= 4;
            }
            shared.recorded.lock().unwrap().extend_from_slice(chunk);
        }
        if to.write_all(chunk).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
