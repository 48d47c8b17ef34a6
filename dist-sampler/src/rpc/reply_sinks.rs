//! The sinks of the replies that a connection waits for.

use crate::payload::PayloadSink;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Weak};

/// The smallest number of sinks among which unused ones are searched for.
const MIN_SEARCHED: usize = 64;

/// The sink of the reply to a request.
#[derive(Debug)]
pub(crate) struct ReplySink {
    pub(crate) request_id: u64,
    pub(crate) sink: Weak<dyn PayloadSink>,
}

/// By request, the sink of its reply. A sink that nobody waits for is gone, also if its request is never answered.
#[derive(Default)]
pub(super) struct ReplySinks {
    sinks: FxHashMap<u64, Weak<dyn PayloadSink>>,
    /// The number of sinks at which unused ones are removed.
    limit: usize,
}

impl ReplySinks {
    pub(super) fn add(&mut self, added: ReplySink) {
        if self.sinks.len() >= self.limit.max(MIN_SEARCHED) {
            self.sinks.retain(|_, sink| sink.strong_count() > 0);
            self.limit = 2 * self.sinks.len();
        }
        self.sinks.insert(added.request_id, added.sink);
    }

    /// Takes the sink of a reply, if it waits for a payload of this size.
    pub(super) fn take(&mut self, request_id: u64, payload_bytes: usize) -> Option<Arc<dyn PayloadSink>> {
        let sink = self.sinks.remove(&request_id)?.upgrade()?;
        (sink.payload_bytes() == payload_bytes).then_some(sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Expecting(usize);

    impl PayloadSink for Expecting {
        fn payload_bytes(&self) -> usize {
            self.0
        }
        fn arrived(&self, _: &[u8]) {}
    }

    fn reply_to(request_id: u64, sink: &Arc<Expecting>) -> ReplySink {
        let sink = Arc::downgrade(sink);
        ReplySink { request_id, sink }
    }

    #[test]
    fn only_the_reply_that_is_waited_for_has_a_sink_once() {
        let mut sinks = ReplySinks::default();
        let sink = Arc::new(Expecting(8));
        for id in [1, 2, 3] {
            sinks.add(reply_to(id, &sink));
        }
        assert!(sinks.take(1, 8).is_some());
        assert!(sinks.take(1, 8).is_none(), "a second reply");
        assert!(sinks.take(2, 9).is_none(), "another size");
        assert!(sinks.take(7, 8).is_none(), "another request");
        drop(sink);
        assert!(sinks.take(3, 8).is_none(), "nobody waits");
    }

    #[test]
    fn requests_without_a_reply_take_bounded_memory() {
        let mut sinks = ReplySinks::default();
        let waiting = Arc::new(Expecting(8));
        for id in 0..10_000 {
            sinks.add(reply_to(id, &Arc::new(Expecting(8))));
            if id < 100 {
                sinks.add(reply_to(10_000 + id, &waiting));
            }
        }
        assert!(sinks.sinks.len() < 500, "{} sinks", sinks.sinks.len());
        assert!((10_000..10_100).all(|id| sinks.take(id, 8).is_some()));
    }
}
