//! Requests and replies over loopback with plain threads and sockets: the limit of fetching from a peer.

use super::Limit;
use crate::measure::timing::Timing;
use anyhow::Context;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// The bytes that a repetition receives, within the limits on the number of replies.
const BYTES: usize = 64 << 20;
const MIN_REPLIES: usize = 16;
const MAX_REPLIES: usize = 2000;
/// A request: the requested number of bytes, little-endian.
type Request = [u8; 8];
/// The timeout of reads and writes, longer than any transfer over loopback takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to a thread that answers each request with the requested number of bytes.
pub(crate) struct RawTcp {
    stream: Option<TcpStream>,
    server: Option<JoinHandle<io::Result<()>>>,
}

impl RawTcp {
    pub(crate) fn connect() -> anyhow::Result<Self> {
        let connect = || -> io::Result<Self> {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let stream = TcpStream::connect(listener.local_addr()?)?;
            let (served, _) = listener.accept()?;
            for end in [&stream, &served] {
                end.set_nodelay(true)?;
                end.set_read_timeout(Some(TIMEOUT))?;
                end.set_write_timeout(Some(TIMEOUT))?;
            }
            let server = std::thread::Builder::new().name("raw-tcp".into()).spawn(move || serve(served))?;
            Ok(Self { stream: Some(stream), server: Some(server) })
        };
        connect().context("connect over loopback")
    }

    /// Times replies of `reply_bytes` bytes with `in_flight` requests in flight.
    pub(crate) fn measure(&mut self, reply_bytes: usize, in_flight: usize, reps: usize) -> anyhow::Result<Limit> {
        let stream = self.stream.as_mut().context("the connection is closed")?;
        let replies = (BYTES / reply_bytes.max(1)).clamp(MIN_REPLIES, MAX_REPLIES).max(in_flight);
        let mut reply = vec![0_u8; reply_bytes];
        let timing = Timing::measure(reps, |stopwatch| {
            stopwatch
                .time(|| ask(stream, &mut reply, replies, in_flight))
                .with_context(|| format!("exchange {replies} replies of {reply_bytes} bytes over loopback"))
        })?;
        let name = format!("raw TCP, {reply_bytes} B replies, {in_flight} in flight");
        Ok(Limit { timing: timing.per(replies), amount: reply_bytes as f64, name })
    }
}

impl Drop for RawTcp {
    fn drop(&mut self) {
        // Closing the connection ends the server thread.
        self.stream = None;
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn ask(stream: &mut TcpStream, reply: &mut [u8], replies: usize, in_flight: usize) -> io::Result<()> {
    let request: Request = (reply.len() as u64).to_le_bytes();
    for _ in 0..in_flight {
        stream.write_all(&request)?;
    }
    for received in 0..replies {
        stream.read_exact(reply)?;
        if received + in_flight < replies {
            stream.write_all(&request)?;
        }
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut request: Request = [0; 8];
    let mut reply = Vec::new();
    loop {
        match stream.read_exact(&mut request) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            outcome => outcome?,
        }
        let wanted = u64::from_le_bytes(request) as usize;
        reply.resize(wanted.max(reply.len()), 1);
        stream.write_all(&reply[..wanted])?;
    }
}
