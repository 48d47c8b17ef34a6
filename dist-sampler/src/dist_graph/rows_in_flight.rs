//! Feature rows that several batches need at the same time. They are requested once.
//!
//! Replies are not kept: later batches request a row again that has arrived, so the memory does not grow.

use crate::dist_graph::routing::Elsewhere;
use crate::error::SampleError;
use crate::numbering::row_index::RowIndex;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The number of batches whose requests a new batch searches for its rows, the latest first.
const BATCHES_SEARCHED: usize = 4;

/// A reply that several batches wait for.
pub(crate) type Delivery = Shared<BoxFuture<'static, Result<Bytes, Arc<SampleError>>>>;

type WeakDelivery = WeakShared<BoxFuture<'static, Result<Bytes, Arc<SampleError>>>>;

/// Makes a delivery of the reply that `receive` waits for.
pub(crate) fn deliver(receive: impl Future<Output = Result<Bytes, SampleError>> + Send + 'static) -> Delivery {
    receive.map(|reply| reply.map_err(Arc::new)).boxed().shared()
}

/// The requests for rows of one node type whose batches are not complete.
#[derive(Default)]
pub(crate) struct RowsInFlight {
    batches: Mutex<VecDeque<Arc<Requested>>>,
}

/// The rows that one batch has requested.
pub(crate) struct Requested {
    /// By part, the requested rows.
    rows: Arc<Vec<Elsewhere>>,
    /// The number of rows of each request but the last to a part.
    per_piece: usize,
    /// By part, the replies. They are not kept for later batches: a reply that all batches have taken is gone.
    pieces: Vec<Vec<Option<WeakDelivery>>>,
    /// By part, the position of each requested row. Only made if another batch searches for it.
    index: OnceLock<Vec<RowIndex>>,
}

/// Rows of a reply to another batch.
pub(crate) struct SharedRows {
    pub(crate) delivery: Delivery,
    /// Pairs of a position in this batch and a row of the reply.
    pub(crate) rows: Vec<(u32, u32)>,
}

/// The registration of a batch, which ends when this is dropped.
pub(crate) struct Registration<'a> {
    in_flight: &'a RowsInFlight,
    requested: Arc<Requested>,
}

impl RowsInFlight {
    /// Returns the latest batches that are not complete, the latest first.
    pub(crate) fn batches(&self) -> Vec<Arc<Requested>> {
        self.lock().iter().rev().take(BATCHES_SEARCHED).cloned().collect()
    }

    /// Lets later batches share the rows of a batch.
    pub(crate) fn register(&self, requested: Requested) -> Registration<'_> {
        let requested = Arc::new(requested);
        self.lock().push_back(requested.clone());
        Registration { in_flight: self, requested }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Requested>>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.in_flight.lock().retain(|other| !Arc::ptr_eq(other, &self.requested));
    }
}

impl Requested {
    pub(crate) fn new(rows: Arc<Vec<Elsewhere>>, per_piece: usize, deliveries: &[Vec<Delivery>]) -> Self {
        let pieces = deliveries.iter().map(|of_part| of_part.iter().map(Delivery::downgrade).collect()).collect();
        Self { rows, per_piece, pieces, index: OnceLock::new() }
    }

    fn index(&self) -> &[RowIndex] {
        self.index.get_or_init(|| self.rows.iter().map(|of_part| RowIndex::new(&of_part.rows)).collect())
    }
}

/// The rows of a part that an earlier batch has requested.
struct EarlierRows<'a> {
    index: &'a RowIndex,
    /// The number of rows of each request but the last.
    per_piece: usize,
    /// The reply to each request, `None` if all batches have taken it. Replies are held until this batch has its rows.
    replies: Vec<Option<SharedRows>>,
}

impl<'a> EarlierRows<'a> {
    /// Returns the rows of `part` that `batch` has requested, or `None` if it waits for none of them.
    fn new(batch: &'a Requested, part: usize) -> Option<Self> {
        let deliveries = batch.pieces[part].iter().map(|piece| piece.as_ref()?.upgrade());
        let replies: Vec<Option<SharedRows>> =
            deliveries.map(|delivery| Some(SharedRows { delivery: delivery?, rows: Vec::new() })).collect();
        let is_awaited = replies.iter().any(Option::is_some);
        is_awaited.then(|| Self { index: &batch.index()[part], per_piece: batch.per_piece, replies })
    }

    /// Shares a row with the earlier batch, if it waits for that row. `position` is the row's position in this batch.
    fn share(&mut self, row: u32, position: u32) -> bool {
        let Some(at) = self.index.get(row) else { return false };
        let at = at as usize;
        let Some(Some(reply)) = self.replies.get_mut(at / self.per_piece) else { return false };
        reply.rows.push((position, (at % self.per_piece) as u32));
        true
    }
}

/// Divides the rows of a batch into those to request and those that come with the replies to `others`.
pub(crate) fn divide(rows: &[Elsewhere], others: &[Arc<Requested>]) -> (Vec<Elsewhere>, Vec<SharedRows>) {
    let mut shared = Vec::new();
    let mut left = Vec::with_capacity(rows.len());
    for (part, wanted) in rows.iter().enumerate() {
        let mut fresh = Elsewhere::default();
        if !wanted.rows.is_empty() {
            let mut earlier: Vec<EarlierRows> =
                others.iter().filter_map(|other| EarlierRows::new(other, part)).collect();
            fresh.rows.reserve(wanted.rows.len());
            fresh.positions.reserve(wanted.rows.len());
            for (&row, &position) in wanted.rows.iter().zip(&wanted.positions) {
                if !earlier.iter_mut().any(|earlier| earlier.share(row, position)) {
                    fresh.rows.push(row);
                    fresh.positions.push(position);
                }
            }
            let replies = earlier.into_iter().flat_map(|earlier| earlier.replies).flatten();
            shared.extend(replies.filter(|reply| !reply.rows.is_empty()));
        }
        left.push(fresh);
    }
    (left, shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the rows that a batch wants of part 1 of 2. The position of a row is 10 times the row.
    fn wants(rows: &[u32]) -> Arc<Vec<Elsewhere>> {
        let positions = rows.iter().map(|row| 10 * row).collect();
        Arc::new(vec![Elsewhere::default(), Elsewhere { rows: rows.to_vec(), positions }])
    }

    /// Makes a batch that waits for rows of part 1, two per request.
    fn requests(rows: &[u32]) -> (Requested, Vec<Delivery>) {
        let pieces: Vec<Delivery> =
            rows.chunks(2).map(|rows| deliver(std::future::ready(Ok(Bytes::from(vec![rows[0] as u8]))))).collect();
        let deliveries = [Vec::new(), pieces.clone()];
        (Requested::new(wants(rows), 2, &deliveries), pieces)
    }

    #[test]
    fn rows_are_found_in_replies_that_are_still_awaited() {
        let in_flight = RowsInFlight::default();
        let (first, mut of_first) = requests(&[7, 3, 9, 4, 5]);
        let (second, of_second) = requests(&[8, 3]);
        let first = in_flight.register(first);
        let second = in_flight.register(second);
        // The reply with rows 9 and 4 has been taken by all.
        drop(of_first.remove(1));
        let (left, shared) = divide(&wants(&[3, 4, 5, 6, 7]), &in_flight.batches());
        assert_eq!((&left[1].rows[..], &left[1].positions[..]), (&[4, 6][..], &[40, 60][..]));
        let found: Vec<(u8, Vec<(u32, u32)>)> =
            shared.into_iter().map(|rows| (rows.delivery.now_or_never().unwrap().unwrap()[0], rows.rows)).collect();
        // Row 3 comes from the later batch.
        assert_eq!(found, [(8, vec![(30, 1)]), (7, vec![(70, 0)]), (5, vec![(50, 0)])]);
        drop(second);
        assert_eq!(in_flight.batches().len(), 1);
        drop((first, of_second));
        assert!(in_flight.batches().is_empty());
    }
}
