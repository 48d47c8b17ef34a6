//! Decoding of received messages with untrusted deadlines.

use crate::payload::Payload;
use crate::rpc::messages::Request;
use crate::rpc::reply_sinks::ReplySink;
use crate::rpc::transport::CarriesPayload;
use crate::timeouts::MAX_RPC_TIMEOUT;
use bytes::Bytes;
use serde::Deserialize;
use std::time::{Duration, Instant};
use tarpc::{ClientMessage, trace};

/// The encoding of [`ClientMessage`], with the deadline as the duration that is on the wire.
///
/// While decoding, tarpc adds that duration to the current time and panics if the sum is out of range. Decoding to this
/// type first avoids the panic.
#[derive(Deserialize)]
enum ReceivedMessage {
    Request(ReceivedRequest),
    Cancel { trace_context: trace::Context, request_id: u64 },
}

#[derive(Deserialize)]
struct ReceivedRequest {
    context: ReceivedContext,
    id: u64,
    message: Request,
}

#[derive(Deserialize)]
struct ReceivedContext {
    deadline: Duration,
    trace_context: trace::Context,
}

impl From<ReceivedMessage> for ClientMessage<Request> {
    /// Converts the message. Shortens a deadline that is more than [`MAX_RPC_TIMEOUT`] from now to that limit.
    fn from(message: ReceivedMessage) -> Self {
        match message {
            ReceivedMessage::Cancel { trace_context, request_id } => Self::Cancel { trace_context, request_id },
            ReceivedMessage::Request(ReceivedRequest { context: received, id, message }) => {
                let mut context = tarpc::context::current();
                context.deadline = Instant::now() + received.deadline.min(MAX_RPC_TIMEOUT);
                context.trace_context = received.trace_context;
                Self::Request(tarpc::Request { context, id, message })
            }
        }
    }
}

impl CarriesPayload for ClientMessage<Request> {
    fn take_payload(&mut self) -> Payload {
        match self {
            Self::Request(request) => request.message.take_payload(),
            _ => Payload::default(),
        }
    }
    fn put_payload(&mut self, payload: Bytes) {
        if let Self::Request(request) = self {
            request.message.put_payload(payload);
        }
    }
    fn take_sink(&mut self) -> Option<ReplySink> {
        let Self::Request(request) = self else { return None };
        let Request::Fetch(fetch) = &mut request.message else { return None };
        Some(ReplySink { request_id: request.id, sink: fetch.sink.take()? })
    }
    fn from_head(head: &[u8]) -> bincode::Result<Self> {
        bincode::deserialize::<ReceivedMessage>(head).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::requests::FindRequest;
    use edgecut_graph::NodeTypeId;

    fn request() -> ClientMessage<Request> {
        let mut context = tarpc::context::current();
        context.deadline = Instant::now() + Duration::from_secs(20);
        let request = FindRequest { node_type: NodeTypeId(3), originals: Bytes::new() };
        ClientMessage::Request(tarpc::Request { context, id: 77, message: Request::Find(request) })
    }

    fn received(head: &[u8]) -> tarpc::Request<Request> {
        match ClientMessage::from_head(head).expect("a message") {
            ClientMessage::Request(request) => request,
            _ => panic!("not a request"),
        }
    }

    #[test]
    fn a_request_arrives_as_tarpc_encodes_it() {
        let sent = request();
        let head = bincode::serialize(&sent).unwrap();
        let tarpc::Request { context, id, message } = received(&head);
        let ClientMessage::Request(sent) = sent else { panic!("not a request") };
        assert_eq!(id, 77);
        assert_eq!(context.trace_context, sent.context.trace_context);
        assert!(context.deadline <= Instant::now() + Duration::from_secs(20));
        assert!(context.deadline > Instant::now());
        assert!(matches!(message, Request::Find(request) if request.node_type == NodeTypeId(3)));
    }

    #[test]
    fn a_cancellation_arrives_as_tarpc_encodes_it() {
        let trace_context = trace::Context::default();
        let sent: ClientMessage<Request> = ClientMessage::Cancel { trace_context, request_id: 9 };
        let head = bincode::serialize(&sent).unwrap();
        let message = ClientMessage::<Request>::from_head(&head).unwrap();
        assert!(matches!(message, ClientMessage::Cancel { request_id: 9, .. }));
    }

    #[test]
    fn no_deadline_leaves_the_range_of_the_clock() {
        let head = bincode::serialize(&request()).unwrap();
        for (seconds, nanoseconds) in [(u64::MAX, 0), (u64::MAX, 999_999_999), (1 << 62, 0), (0, 0)] {
            let mut head = head.clone();
            // The first four bytes encode the variant of the message.
            head[4..12].copy_from_slice(&u64::to_le_bytes(seconds));
            head[12..16].copy_from_slice(&u32::to_le_bytes(nanoseconds));
            let deadline = received(&head).context.deadline;
            assert!(deadline <= Instant::now() + MAX_RPC_TIMEOUT);
        }
        let mut head = head;
        head[4..16].fill(0xff);
        assert!(ClientMessage::<Request>::from_head(&head).is_err(), "a duration above the largest");
    }
}
