//! The bytes of a connection that belong to the frame that is being received.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// The most bytes that are received before it is known where they belong. Small frames thus take one system call, which
/// may bring several. A payload is copied from there only if it is smaller, as are the last bytes of a larger one.
const STAGED_BYTES: usize = 4 << 10;
/// The most bytes that one system call receives. Records of checked connections are at most as large, so that they are
/// received where they belong.
const MAX_READ_BYTES: usize = 256 << 10;

/// The bytes that were received and not used yet.
pub(super) struct FrameReader {
    staging: Box<[u8]>,
    staged: Range<usize>,
    /// The bytes received so far.
    pub(super) received: Arc<AtomicU64>,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self { staging: vec![0; STAGED_BYTES].into(), staged: 0..0, received: Arc::default() }
    }
}

impl FrameReader {
    /// Receives until `buffer` is full. Its first `filled` bytes are there already. Returns `Ok(false)` if the stream
    /// ends first. A call after [`Poll::Pending`] must have the same buffer.
    pub(super) fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        filled: &mut usize,
    ) -> Poll<io::Result<bool>> {
        while *filled < buffer.len() {
            if !ready!(self.poll_more(stream, cx, buffer, filled))? {
                return Poll::Ready(Ok(false));
            }
        }
        Poll::Ready(Ok(true))
    }

    /// Receives some of the missing bytes of `buffer`, as [`FrameReader::poll_fill`] does.
    pub(super) fn poll_more<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        filled: &mut usize,
    ) -> Poll<io::Result<bool>> {
        let missing = &mut buffer[*filled..];
        if self.staged.is_empty() {
            let is_direct = missing.len() >= STAGED_BYTES;
            let end = missing.len().min(MAX_READ_BYTES);
            let mut unread = ReadBuf::new(if is_direct { &mut missing[..end] } else { &mut self.staging });
            ready!(Pin::new(stream).poll_read(cx, &mut unread))?;
            let read = unread.filled().len();
            self.received.fetch_add(read as u64, Ordering::Relaxed);
            if is_direct || read == 0 {
                *filled += read;
                return Poll::Ready(Ok(read > 0));
            }
            self.staged = 0..read;
        }
        let count = missing.len().min(self.staged.len());
        let end = self.staged.start + count;
        missing[..count].copy_from_slice(&self.staging[self.staged.start..end]);
        self.staged.start = end;
        *filled += count;
        Poll::Ready(Ok(true))
    }
}
