//! The limits of the machine for an all-reduce: plain sockets and plain memory, without collectives.

use anyhow::Context;
use edgecut_cluster::{Cluster, SecureStream};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, ErrorKind, Read, Write};

/// The maximum number of bytes per read or write call.
const SEGMENT_BYTES: usize = 256 * 1024;

/// A connection between ranks 0 and 1, and buffers to send, receive and copy.
pub(crate) struct AllReduceLimits {
    rank: usize,
    // `None` on ranks 2 and above. Its bytes are sent as they are.
    stream: Option<SecureStream>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl AllReduceLimits {
    pub(crate) fn new(cluster: &Cluster) -> anyhow::Result<Self> {
        let rank = cluster.rank();
        let stream = match rank {
            0 => {
                cluster.take_rpc_incoming().and_then(|mut incoming| incoming.blocking_recv()).map(|(_, stream)| stream)
            }
            1 => Some(cluster.connect_rpc(0)?),
            _ => None,
        };
        Ok(Self { rank, stream, outgoing: Vec::new(), incoming: Vec::new() })
    }

    /// Sends and receives `bytes` between ranks 0 and 1 at the same time.
    pub(crate) fn exchange(&mut self, bytes: usize) -> anyhow::Result<()> {
        self.resize(bytes);
        let Some(stream) = &mut self.stream else { return Ok(()) };
        exchange(stream, &self.outgoing, &mut self.incoming).context("exchange bytes over a plain socket")
    }

    /// Sends `bytes` from rank 0 to rank 1, which sends them back after it has received all of them.
    pub(crate) fn there_and_back(&mut self, bytes: usize) -> anyhow::Result<()> {
        self.resize(bytes);
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut run = || {
            stream.set_nonblocking(false)?;
            if self.rank == 0 {
                stream.write_all(&self.outgoing)?;
                stream.read_exact(&mut self.incoming)?;
            } else {
                stream.read_exact(&mut self.incoming)?;
                stream.write_all(&self.outgoing)?;
            }
            stream.set_nonblocking(true)
        };
        run().context("send bytes there and back over a plain socket")
    }

    /// Copies `bytes` in memory.
    pub(crate) fn copy(&mut self, bytes: usize) {
        self.resize(bytes);
        self.incoming.copy_from_slice(&self.outgoing);
        std::hint::black_box(&mut self.incoming);
    }

    fn resize(&mut self, bytes: usize) {
        self.outgoing.resize(bytes, 1);
        self.incoming.resize(bytes, 0);
    }
}

/// Sends and receives at the same time on a non-blocking socket, and polls when neither direction makes progress.
/// Blocking writes on both ends would deadlock as soon as the socket buffers are full.
fn exchange(stream: &mut SecureStream, outgoing: &[u8], incoming: &mut [u8]) -> io::Result<()> {
    let mut sent = 0;
    let mut received = 0;
    while sent < outgoing.len() || received < incoming.len() {
        let mut moved = 0;
        if sent < outgoing.len() {
            let end = outgoing.len().min(sent + SEGMENT_BYTES);
            moved += unless_blocked(stream.write(&outgoing[sent..end]))?;
            sent += moved;
        }
        if received < incoming.len() {
            let end = incoming.len().min(received + SEGMENT_BYTES);
            let count = unless_blocked(read_some(stream, &mut incoming[received..end]))?;
            received += count;
            moved += count;
        }
        if moved == 0 {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, received < incoming.len());
            flags.set(PollFlags::OUT, sent < outgoing.len());
            poll(&mut [PollFd::new(&*stream, flags)], None)?;
        }
    }
    Ok(())
}

/// Reads at least one byte. The end of the connection is an error: otherwise the caller would loop forever.
fn read_some(stream: &mut SecureStream, into: &mut [u8]) -> io::Result<usize> {
    match stream.read(into)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}

fn unless_blocked(moved: io::Result<usize>) -> io::Result<usize> {
    match moved {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        moved => moved,
    }
}
