//! The execution of recursive doubling on the connections of a group.

use crate::timeouts::RECORDED_WAIT;
use std::ops::Range;
use std::time::Duration;

use crate::collectives::doubling::{Step, plan};
use crate::collectives::doubling_exchange::{Endpoint, Exchange, run_step};
use crate::collectives::header::Header;
use crate::collectives::header_exchange::HeaderExchange;
use crate::collectives::ring_connection::{GroupConnections, RingConnection};
use crate::collectives::transfer::{Merge, RingStreams};
use crate::error::ClusterError;
use crate::failure::job_state::Waiting;

/// The data of a collective that the steps of a plan work on.
pub(crate) trait Work {
    /// Returns the data that a step sends, and the memory for the data that it receives.
    fn buffers(&mut self, step: &Step) -> Buffers<'_>;
    /// Processes the data that a step has received.
    fn on_received(&mut self, step: &Step);
}

/// The data that a step sends and receives; `None` if it sends or receives nothing.
pub(crate) struct Buffers<'a> {
    pub(crate) outgoing: Option<&'a [u8]>,
    pub(crate) incoming: Option<&'a mut [u8]>,
}

/// An all-reduce: a vector that is combined with those of all ranks.
pub(crate) struct Sum<'a> {
    pub(crate) rank: usize,
    pub(crate) world: usize,
    pub(crate) data: &'a mut [u8],
    /// Memory for received vectors, as long as `data`.
    pub(crate) scratch: &'a mut [u8],
    pub(crate) merge: &'a mut dyn Merge,
}

impl Work for Sum<'_> {
    fn buffers(&mut self, step: &Step) -> Buffers<'_> {
        if step.replaces(self.world) {
            return Buffers { outgoing: None, incoming: Some(self.data) };
        }
        let outgoing = (!step.sends.is_empty()).then_some(&*self.data);
        let incoming = (!step.receives.is_empty()).then_some(&mut *self.scratch);
        Buffers { outgoing, incoming }
    }

    fn on_received(&mut self, step: &Step) {
        if step.receives.is_empty() || step.replaces(self.world) {
            return;
        }
        let is_last = step.completes(self.world);
        // Both ranks of a step combine the vector of the lower ranks with that of the higher ranks, in this order. So
        // both get the same bits, even where the order matters (payloads of NaN, signs of zero).
        if step.receives.start < self.rank {
            self.merge.merge(self.scratch, self.data, is_last);
            self.data.copy_from_slice(self.scratch);
        } else {
            self.merge.merge(self.data, self.scratch, is_last);
        }
    }
}

/// An all-gather: one block per rank, in rank order.
pub(crate) struct Blocks<'a> {
    pub(crate) data: &'a mut [u8],
    /// The range of each block. The ranges are consecutive.
    pub(crate) ranges: &'a [Range<usize>],
}

impl Blocks<'_> {
    /// Returns the range of the blocks of consecutive ranks.
    fn bytes(&self, ranks: &Range<usize>) -> Range<usize> {
        match (self.ranges.get(ranks.start), ranks.end.checked_sub(1).and_then(|last| self.ranges.get(last))) {
            (Some(first), Some(last)) if !ranks.is_empty() => first.start..last.end,
            _ => 0..0,
        }
    }
}

impl Work for Blocks<'_> {
    fn buffers(&mut self, step: &Step) -> Buffers<'_> {
        let sends = self.bytes(&step.sends);
        let receives = self.bytes(&step.receives);
        if step.receives.is_empty() {
            return Buffers { outgoing: Some(&self.data[sends]), incoming: None };
        }
        if step.sends.is_empty() {
            return Buffers { outgoing: None, incoming: Some(&mut self.data[receives]) };
        }
        // The two ranges do not overlap: a rank receives the blocks directly below or above those that it sends. The
        // ranks are compared rather than the bytes, because blocks may be empty.
        if step.sends.start < step.receives.start {
            let (low, high) = self.data.split_at_mut(receives.start);
            Buffers { outgoing: Some(&low[sends]), incoming: Some(&mut high[..receives.len()]) }
        } else {
            let (low, high) = self.data.split_at_mut(sends.start);
            Buffers { outgoing: Some(&high[..sends.len()]), incoming: Some(&mut low[receives]) }
        }
    }

    fn on_received(&mut self, _step: &Step) {}
}

impl RingConnection {
    /// Runs the steps of recursive doubling. The first steps of a collective also exchange the header on the ring.
    /// After an error the group cannot be used any more.
    pub(crate) fn run_doubling(
        &mut self,
        header: &Header,
        is_first: bool,
        work: &mut dyn Work,
    ) -> Result<(), ClusterError> {
        let Some(mut connections) = self.take_connections() else { return Ok(()) };
        // After an error, the connections are dropped.
        self.run_steps(&mut connections, header, is_first, work)?;
        self.put_back(connections);
        Ok(())
    }

    fn run_steps(
        &self,
        connections: &mut GroupConnections,
        header: &Header,
        is_first: bool,
        work: &mut dyn Work,
    ) -> Result<(), ClusterError> {
        let GroupConnections { transfer, doubling_peers } = connections;
        let mut streams = transfer.streams();
        let encoded = header.encode();
        let mut headers = HeaderExchange::new(if is_first { &encoded } else { &[] });
        let world = self.members.len();
        for step in plan(self.position, world) {
            let Buffers { outgoing, incoming } = work.buffers(&step);
            let Some(mut exchange) = doubling_peers.exchange(step.peer, &encoded, outgoing, incoming) else {
                let missing = format!("group {:?} has no connection to its rank {}", self.name, step.peer);
                return Err(ClusterError::Config(missing));
            };
            self.run_watched(header, Some((step.peer, &mut exchange)), &mut headers, &mut streams)?;
            work.on_received(&step);
        }
        self.run_watched(header, None, &mut headers, &mut streams)
    }

    /// Runs one exchange, or the rest of the header exchange. Watches for failures of the job meanwhile, and lets other
    /// ranks ask which rank this one waits for.
    fn run_watched(
        &self,
        header: &Header,
        exchange: Option<(usize, &mut Exchange<'_>)>,
        headers: &mut HeaderExchange<'_>,
        streams: &mut RingStreams<'_>,
    ) -> Result<(), ClusterError> {
        let (peer, mut exchange) = match exchange {
            Some((peer, exchange)) => (Some(peer), Some(exchange)),
            None => (None, None),
        };
        let rank_at = |at| match (at, peer) {
            (Endpoint::Peer, Some(peer)) => self.members[peer],
            (Endpoint::Peer, None) => self.cluster.rank(),
            (Endpoint::Neighbor(side), _) => self.neighbor(side),
        };
        let job_state = self.cluster.job_state();
        let mut waiting: Option<Waiting<'_>> = None;
        let job_failed = |at, quiet: Duration| {
            // Only long waits are recorded. The new record is made before the previous one is dropped, so there is no
            // moment at which this rank seems not to wait.
            waiting = (quiet >= RECORDED_WAIT).then(|| job_state.wait_for_rank(rank_at(at)));
            job_state.has_failed()
        };
        let patience = self.cluster.config().collective_timeout();
        let outcome = run_step(exchange.as_deref_mut(), headers, streams, patience, job_failed);
        let outcome = outcome.map_err(|error| {
            let progress = exchange.as_deref().map_or_else(|| "after all data".to_owned(), progress);
            self.explain(header, error.at(rank_at), progress)
        });
        // The record lasts until the error is explained, so that this rank is not blamed itself.
        drop(waiting);
        outcome
    }
}

fn progress(exchange: &Exchange<'_>) -> String {
    let (received, to_receive) = exchange.received();
    let (sent, to_send) = exchange.sent();
    format!("received {received} of {to_receive} bytes, sent {sent} of {to_send}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ranges of one block per rank, of different lengths.
    fn ranges(world: usize) -> Vec<Range<usize>> {
        let mut end = 0;
        let block = |rank: usize| {
            let start = end;
            end += rank % 3;
            start..end
        };
        (0..world).map(block).collect()
    }

    #[test]
    fn blocks_that_are_sent_and_received_lie_where_the_plan_says() {
        for world in 2..=17 {
            let ranges = ranges(world);
            let mut data: Vec<u8> =
                ranges.iter().enumerate().flat_map(|(r, range)| vec![r as u8; range.len()]).collect();
            for rank in 0..world {
                for step in plan(rank, world) {
                    let mut blocks = Blocks { data: &mut data, ranges: &ranges };
                    let Buffers { outgoing, incoming } = blocks.buffers(&step);
                    let expected = |ranks: &Range<usize>| -> Vec<u8> {
                        ranks.clone().flat_map(|r| vec![r as u8; ranges[r].len()]).collect()
                    };
                    assert_eq!(outgoing.is_some(), !step.sends.is_empty());
                    assert_eq!(incoming.is_some(), !step.receives.is_empty());
                    assert_eq!(outgoing.unwrap_or_default(), expected(&step.sends));
                    assert_eq!(incoming.unwrap_or_default(), expected(&step.receives));
                }
            }
        }
    }
}
