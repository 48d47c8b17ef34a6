//! Replies whose feature rows are gathered while they are sent.

use crate::arrays::ids_in;
use crate::config::node_fields::NodeFields;
use crate::part::disk_waits::WatchedRead;
use crate::part::local_part::LocalPart;
use crate::part::requests::{FetchRequest, Refusal};
use crate::payload::{PIECE_BYTES, Payload, PieceSource};
use crate::timeouts::MAX_NETWORK_GATHER_TIMEOUT;
use crate::workers::{LINE_BYTES, ON_POOL, Workers};
use bytes::{Bytes, BytesMut};
use edgecut_graph::{Features, NodeTypeId};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// The rows that the network thread gathers between two looks at the clock. Each may wait for the disk.
const ROWS_PER_LOOK: usize = 16;

/// The feature rows of a reply, as stored, end to end.
///
/// The network thread gathers a piece and sends it from its cache, so that the receiver places the first rows while the
/// next ones are gathered, and no other thread has to wake up. A gather that waits for the disk ends its piece early, and
/// a worker gathers the next pieces. Each is sent before the next one is gathered: the reply blocks those behind it, and a
/// client takes a server that sends nothing for suspended.
pub(crate) struct FeaturePieces {
    part: LocalPart,
    workers: Arc<Workers>,
    node_type: NodeTypeId,
    row_bytes: usize,
    /// The rows that are not gathered, `u32` each.
    rows: Bytes,
    /// The gather of the next piece by a worker.
    by_worker: Option<BoxFuture<'static, io::Result<Bytes>>>,
}

impl FeaturePieces {
    /// Answers a request for features, and maybe other attributes. Only these are gathered now.
    pub(crate) fn answer(
        part: &LocalPart,
        workers: Arc<Workers>,
        request: &FetchRequest,
        max_bytes: usize,
    ) -> Result<Payload, Refusal> {
        let num_rows = request.rows.len() / size_of::<u32>();
        let others = NodeFields { features: false, ..request.wanted };
        let bytes = part.watch_fetch(request.node_type, others, num_rows, || part.gather_others(request, max_bytes))?;
        let features = part.features(request.node_type)?;
        let pieces = Self {
            part: part.clone(),
            workers,
            node_type: request.node_type,
            row_bytes: features.dtype().row_bytes(features.dim()),
            rows: request.rows.clone(),
            by_worker: None,
        };
        Ok(Payload { bytes: bytes.into(), pieces: Some(Box::new(pieces)) })
    }

    /// Returns the bytes of `rows` that tell the rows of the next piece. Their features are about [`PIECE_BYTES`], or
    /// fewer if rows are narrow: each row takes a cache line, and may be in a page that is not in memory anymore.
    fn next_len(&self) -> usize {
        let num_rows = (PIECE_BYTES / self.row_bytes.max(LINE_BYTES)).max(1);
        self.rows.len().min(num_rows * size_of::<u32>())
    }

    /// Starts to gather the next piece on a worker.
    fn start_worker(&self) -> BoxFuture<'static, io::Result<Bytes>> {
        let part = self.part.clone();
        let workers = self.workers.clone();
        let rows = self.rows.slice(..self.next_len());
        let request = FetchRequest::new(self.node_type, NodeFields::FEATURES, rows);
        let gather = async move {
            let gathered = workers.run_gather(ON_POOL, move || part.fetch(&request, usize::MAX)).await;
            gathered.and_then(|bytes| bytes.map_err(Refusal::by_own_part)).map_err(io::Error::other)
        };
        gather.boxed()
    }

    /// Gathers the next piece.
    fn gather(&mut self, memory: &mut BytesMut) -> io::Result<Bytes> {
        let rows = self.rows.slice(..self.next_len());
        let rows = ids_in(&rows).map_err(io::Error::other)?;
        let features = self.part.features(self.node_type).map_err(|refusal| io::Error::other(refusal.by_own_part()))?;
        memory.reserve(rows.len() * self.row_bytes);
        let num_gathered = if self.part.fetch_may_wait_for_disk(self.node_type, NodeFields::FEATURES) {
            let watched = WatchedRead::start();
            let start = Instant::now();
            let num_gathered = gather_until(features, rows, memory, || {
                start.elapsed() >= MAX_NETWORK_GATHER_TIMEOUT && watched.has_waited()
            });
            self.part.disk_waits.record(watched.has_waited());
            num_gathered
        } else {
            gather_until(features, rows, memory, || false)
        };
        let _ = self.rows.split_to(num_gathered * size_of::<u32>());
        Ok(memory.split().freeze())
    }
}

/// Appends `rows` to `memory`, the first ones if `must_end` returns true between two of them. Returns their number.
fn gather_until(features: &Features, rows: &[u32], memory: &mut BytesMut, must_end: impl Fn() -> bool) -> usize {
    for (row, num_gathered) in features.stored_rows(rows).zip(1..) {
        memory.extend_from_slice(row);
        if num_gathered % ROWS_PER_LOOK == 0 && must_end() {
            return num_gathered;
        }
    }
    rows.len()
}

impl PieceSource for FeaturePieces {
    fn bytes_left(&self) -> usize {
        self.rows.len() / size_of::<u32>() * self.row_bytes
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, memory: &mut BytesMut) -> Poll<io::Result<Bytes>> {
        if self.by_worker.is_none() && self.part.lines_of_fetch(self.node_type, NodeFields::FEATURES, 1) == ON_POOL {
            self.by_worker = Some(self.start_worker());
        }
        if let Some(gather) = &mut self.by_worker {
            let gathered = ready!(gather.poll_unpin(cx));
            self.by_worker = None;
            let _ = self.rows.split_to(self.next_len());
            return Poll::Ready(gathered);
        }
        Poll::Ready(self.gather(memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::bytes_of;
    use edgecut_graph::{Dataset, DiskPartId, NodeData, Part};
    use edgecut_partition::{Method, PartitionOptions, partition};
    use std::cell::Cell;

    const NODES: NodeTypeId = NodeTypeId(0);
    const DIM: usize = 3;
    const NUM_NODES: usize = 50;

    fn part() -> (tempfile::TempDir, LocalPart) {
        let values: Vec<f32> = (0..NUM_NODES * DIM).map(|value| value as f32).collect();
        let nodes = NodeData {
            name: "node".into(),
            num_nodes: NUM_NODES,
            features: Some(Features::F32 { values: values.into(), dim: DIM }),
            labels: Some((0..NUM_NODES as i64).collect::<Vec<_>>().into()),
            num_classes: NUM_NODES,
            ..NodeData::default()
        };
        let dataset = Dataset::homogeneous("pair", nodes, vec![0_u32].into(), vec![1_u32].into());
        let dir = tempfile::tempdir().unwrap();
        let options = PartitionOptions { method: Method::Random, ..PartitionOptions::new(1) };
        partition(&dataset, &options, dir.path(), &()).unwrap();
        let part = Part::open(dir.path(), DiskPartId(0), true).unwrap();
        (dir, LocalPart::new(Arc::new(part), 0))
    }

    /// Returns a payload and the number of its pieces.
    async fn all(payload: Payload) -> (Vec<u8>, usize) {
        let mut bytes = payload.bytes.to_vec();
        let mut pieces = payload.pieces.unwrap();
        let mut memory = BytesMut::new();
        let mut count = 0;
        while pieces.bytes_left() > 0 {
            let piece = std::future::poll_fn(|cx| pieces.poll_piece(cx, &mut memory)).await.unwrap();
            assert!((1..=PIECE_BYTES).contains(&piece.len()));
            bytes.extend_from_slice(&piece);
            count += 1;
        }
        (bytes, count)
    }

    #[tokio::test]
    async fn pieces_are_the_same_bytes_from_a_worker_and_from_the_network_thread() {
        let (_dir, part) = part();
        let workers = Arc::new(Workers::new(1).unwrap());
        let rows: Vec<u32> = (0..40_000).map(|at| at * 7 % NUM_NODES as u32).collect();
        for wanted in [NodeFields::FEATURES, NodeFields { labels: true, ..NodeFields::FEATURES }] {
            let request = FetchRequest::new(NODES, wanted, bytes_of(rows.clone()));
            for is_quick in [false, true] {
                let part = LocalPart { disk_waits: Arc::default(), ..part.clone() };
                let expected = part.fetch(&request, usize::MAX).unwrap();
                if is_quick {
                    for _ in 0..100 {
                        part.fetch(&request, usize::MAX).unwrap();
                    }
                }
                let answer = FeaturePieces::answer(&part, workers.clone(), &request, usize::MAX).unwrap();
                assert_eq!(answer.len(), expected.len());
                let (bytes, count) = all(answer).await;
                assert!(bytes == expected, "{wanted:?}, {is_quick}");
                assert_eq!(count, rows.len().div_ceil(PIECE_BYTES / LINE_BYTES));
            }
            let refused = FeaturePieces::answer(&part, workers.clone(), &request, 1000);
            assert!(matches!(refused, Err(Refusal::TooLarge)));
        }
    }

    #[test]
    fn a_gather_ends_early_with_whole_rows() {
        let values: Vec<f32> = (0..NUM_NODES * DIM).map(|value| value as f32).collect();
        let features = Features::F32 { values: values.into(), dim: DIM };
        let rows: Vec<u32> = (0..3 * ROWS_PER_LOOK + 5).map(|at| (at * 7 % NUM_NODES) as u32).collect();
        for (looks, expected) in [(1, ROWS_PER_LOOK), (3, 3 * ROWS_PER_LOOK), (4, rows.len())] {
            let left = Cell::new(looks);
            let mut memory = BytesMut::new();
            let gathered = gather_until(&features, &rows, &mut memory, || {
                left.set(left.get() - 1);
                left.get() == 0
            });
            assert_eq!(gathered, expected);
            let mut whole = Vec::new();
            features.append_rows(&rows[..gathered], &mut whole);
            assert_eq!(memory, whole);
        }
    }

    #[tokio::test]
    async fn a_worker_gathers_one_piece_at_a_time_while_reads_may_wait_for_the_disk() {
        let (_dir, part) = part();
        let workers = Arc::new(Workers::new(1).unwrap());
        let (release, released) = std::sync::mpsc::channel::<()>();
        let busy = {
            let workers = workers.clone();
            tokio::spawn(async move { workers.run(move || released.recv()).await })
        };
        tokio::task::yield_now().await;
        let request = FetchRequest::new(NODES, NodeFields::FEATURES, bytes_of(vec![1_u32; 40_000]));
        let answer = FeaturePieces::answer(&part, workers.clone(), &request, usize::MAX).unwrap();
        let num_bytes = answer.len();
        let mut pieces = answer.pieces.unwrap();
        let mut memory = BytesMut::new();
        let waits = std::future::poll_fn(|cx| Poll::Ready(pieces.poll_piece(cx, &mut memory).is_pending())).await;
        assert!(waits, "the only worker is busy");
        assert_eq!(pieces.bytes_left(), num_bytes);
        release.send(()).unwrap();
        let piece = std::future::poll_fn(|cx| pieces.poll_piece(cx, &mut memory)).await.unwrap();
        assert!((1..=PIECE_BYTES).contains(&piece.len()));
        assert_eq!(pieces.bytes_left(), num_bytes - piece.len());
        busy.await.unwrap().unwrap().unwrap();
    }

    #[test]
    fn requests_that_cannot_be_answered_are_refused_before_a_piece_is_made() {
        let (_dir, part) = part();
        let workers = Arc::new(Workers::new(1).unwrap());
        for (node_type, row) in [(NODES, NUM_NODES as u32), (NodeTypeId(1), 0)] {
            let request = FetchRequest::new(node_type, NodeFields::FEATURES, bytes_of(vec![0, row]));
            let refused = FeaturePieces::answer(&part, workers.clone(), &request, usize::MAX);
            assert!(matches!(refused, Err(Refusal::Invalid(_))));
        }
    }
}
