//! Entry points for fuzzing: frames of peers, and arbitrary requests to a part. Not for other use.

use crate::batch_key::BatchKey;
use crate::config::fan_out::Fanout;
use crate::config::labor::Labor;
use crate::config::node_fields::{EdgeFields, NodeFields};
use crate::config::sampling_policy::{SamplingPolicy, Temporal, TemporalStrategy, TimeAttr};
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::part::local_part::LocalPart;
use crate::part::requests::{
    EdgeIdsRequest, FetchEdgesRequest, FetchRequest, FindRequest, HasEdgesRequest, HopRequest, HopSection, LookUpBy,
    LookUpRequest, OriginalsRequest, PullRequest, PushRequest, Refusal, SeedEdgesRequest, SplitRequest,
};
use crate::rpc::messages::{Answer, ArrayReply, Request};
use crate::rpc::server_requests::{DescribeRequest, SampleRequest, SeedLengths, WireSampler};
use crate::rpc::service::Service;
use crate::rpc::transport::{BulkTransport, CarriesPayload};
use bytes::Bytes;
use edgecut_graph::{EdgeTypeId, NodeTypeId, Part, SeedEdgeSet, Split};
use futures::executor::block_on;
use futures::{SinkExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tarpc::{ClientMessage, Response};
use tokio::io::{AsyncRead, AsyncWrite};

/// The largest payload and the largest reply. An announced payload takes that much memory.
pub const MAX_MESSAGE_BYTES: usize = 1 << 16;
/// The longest wait for an answer. A `pull` waits for a version that may never come.
const PATIENCE: Duration = Duration::from_millis(20);
/// Memory for sorted copies of hubs.
const HUB_INDEX_BYTES: usize = 1 << 20;

/// Reads the frames of a client's connection. Returns the number of messages and the error that ended them.
pub fn read_requests(bytes: &[u8]) -> (usize, Option<String>) {
    read_frames::<ClientMessage<Request>>(bytes)
}

/// Reads the frames of a server's connection.
pub fn read_answers(bytes: &[u8]) -> (usize, Option<String>) {
    read_frames::<Response<Answer>>(bytes)
}

fn read_frames<In: DeserializeOwned + CarriesPayload + Unpin>(bytes: &[u8]) -> (usize, Option<String>) {
    let mut transport = BulkTransport::<_, In, Request>::new(receiving(bytes), MAX_MESSAGE_BYTES);
    let mut count = 0;
    loop {
        match block_on(transport.next()) {
            Some(Ok(_)) => count += 1,
            Some(Err(error)) => return (count, Some(error.to_string())),
            None => return (count, None),
        }
    }
}

/// Returns a connection that receives `bytes`.
fn receiving(bytes: &[u8]) -> impl AsyncRead + AsyncWrite + Unpin {
    tokio::io::join(bytes, tokio::io::sink())
}

fn frame<M: Serialize + CarriesPayload + Unpin>(message: M) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut transport = BulkTransport::<_, Request, M>::new(&mut bytes, MAX_MESSAGE_BYTES);
    block_on(transport.send(message)).expect("a small message");
    drop(transport);
    bytes
}

fn request_of_tarpc(message: Request) -> ClientMessage<Request> {
    let mut context = tarpc::context::current();
    context.deadline = Instant::now() + Duration::from_secs(10);
    ClientMessage::Request(tarpc::Request { context, id: 7, message })
}

/// Returns frames of a connection in both directions, which [`read_requests`] and [`read_answers`] accept.
pub fn frames(part: &Part) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = requests_to(part).into_iter().map(|m| frame(request_of_tarpc(m))).collect();
    let cancel = ClientMessage::<Request>::Cancel { trace_context: tarpc::trace::Context::default(), request_id: 7 };
    frames.push(frame(cancel));
    for request in requests_to(part) {
        let method = request.method();
        let data = Bytes::from_static(&[5; 16]);
        for result in [Ok(ArrayReply::new(data)), Err(Refusal::TooLarge), Err(Refusal::Invalid("no row".into()))] {
            frames.push(frame(Response { request_id: 7, message: Ok(Answer { method, result }) }));
        }
    }
    frames
}

/// Returns frames of plain requests that [`PartService::answer`] answers.
pub fn request_frames(part: &Part) -> Vec<Vec<u8>> {
    requests_to(part).into_iter().map(frame).collect()
}

/// A server of a part, which answers any request.
pub struct PartService {
    graph: Arc<DistGraph>,
    service: Service,
}

impl PartService {
    /// Takes a server of a single part.
    pub fn new(graph: Arc<DistGraph>) -> Self {
        let service = Service { max_message_bytes: MAX_MESSAGE_BYTES, ..graph.service() };
        Self { graph, service }
    }

    /// Decodes requests and answers them. Returns the number of requests that were answered, refused and too slow.
    ///
    /// # Errors
    /// The error of bytes that are no frames.
    pub fn answer(&self, frames: &[u8]) -> io::Result<[usize; 3]> {
        let mut transport = BulkTransport::<_, Request, Request>::new(receiving(frames), MAX_MESSAGE_BYTES);
        let mut counts = [0; 3];
        while let Some(request) = block_on(transport.next()) {
            let answer = self.service.clone().answer_alone(request?, &self.graph.config);
            let answer = async { tokio::time::timeout(PATIENCE, answer).await };
            let outcome = match self.graph.handle().block_on(answer) {
                Ok(Ok(reply)) => {
                    assert!(reply.data.len() <= MAX_MESSAGE_BYTES, "a reply of {} bytes", reply.data.len());
                    0
                }
                Ok(Err(_)) => 1,
                Err(_) => 2,
            };
            counts[outcome] += 1;
        }
        Ok(counts)
    }
}

/// Reads all arrays of a part as requests of peers and batches do. Returns a checksum of the replies.
///
/// # Errors
/// [`SampleError::Internal`] with the refusal of a request.
pub fn read_part(part: Arc<Part>) -> Result<u64, SampleError> {
    let requests = requests_to(&part);
    let local = LocalPart::new(part, HUB_INDEX_BYTES);
    let mut sum = 0;
    for request in requests {
        let reply = match &request {
            Request::SampleHop(request) => local.sample_hop(request, MAX_MESSAGE_BYTES, |_, _| ()),
            Request::Fetch(request) => local.fetch(request, MAX_MESSAGE_BYTES),
            Request::Find(request) => local.find(request),
            Request::Originals(request) => local.originals(request, MAX_MESSAGE_BYTES),
            Request::FetchEdges(request) => local.fetch_edges(request, MAX_MESSAGE_BYTES),
            Request::HasEdges(request) => local.has_edges(request),
            Request::Split(request) => local.split(request, MAX_MESSAGE_BYTES),
            Request::SeedEdges(request) => local.seed_edges(request, MAX_MESSAGE_BYTES),
            Request::EdgeIds(request) => local.edge_ids(request, MAX_MESSAGE_BYTES),
            // These need a process with other parts, an embedding or a directory.
            _ => continue,
        };
        let reply = match reply {
            Err(Refusal::TooLarge) => continue,
            reply => reply.map_err(Refusal::by_own_part)?,
        };
        sum = reply.iter().fold(sum, |sum: u64, &byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    }
    Ok(sum)
}

fn words(values: &[u32]) -> Bytes {
    Bytes::copy_from_slice(bytemuck::cast_slice(values))
}

/// Returns requests of all methods that fit the part, for all its types.
fn requests_to(part: &Part) -> Vec<Request> {
    let mut requests = vec![
        Request::Describe(DescribeRequest { when_connected: false }),
        Request::Pull(PullRequest { table: 0, version: 0, rows: words(&[0]) }),
        Request::Push(PushRequest { table: 0, version: 0, piece: 0, num_rows: 1, data: words(&[0; 3]) }),
        sample_request(part),
    ];
    for (t, of_type) in part.meta().node_types.iter().enumerate() {
        let node_type = NodeTypeId(t as u16);
        let num_rows = part.owned(node_type).len() as u32;
        let rows: Vec<u32> = (0..num_rows.min(40)).collect();
        let wanted = NodeFields {
            labels: of_type.is_labeled(),
            times: of_type.has_times,
            original_ids: true,
            degrees: true,
            in_weights: true,
            features: of_type.feature_dim > 0,
        };
        requests.push(Request::Fetch(FetchRequest::new(node_type, wanted, words(&rows))));
        requests.push(Request::Find(FindRequest { node_type, originals: words(&rows) }));
        let all = OriginalsRequest { node_type, start: 0, end: u32::MAX, max_rows: 1000, degrees: true };
        requests.push(Request::Originals(all));
        let by = LookUpBy::OriginalId;
        requests.push(Request::LookUp(LookUpRequest { node_type, by, keys: words(&[0]) }));
        requests.extend(Split::ALL.map(|split| Request::Split(SplitRequest { node_type, split, start: 0 })));
    }
    part.edge_type_ids().for_each(|edge_type| requests.extend(requests_for_edges(part, edge_type)));
    requests
}

fn requests_for_edges(part: &Part, edge_type: EdgeTypeId) -> Vec<Request> {
    let edges = part.edges(edge_type);
    let num_rows = edges.csc.num_rows().min(40) as u32;
    let rows: Vec<u32> = (0..num_rows).collect();
    let with_edges = rows.iter().filter(|&&row| edges.csc.degree(row as usize) > 0);
    let first_edges: Vec<u32> = with_edges.flat_map(|&row| [row, 0]).collect();
    let pairs: Vec<u32> = rows.iter().flat_map(|&row| [row, row]).collect();
    let wanted = EdgeFields::all_of(&part.meta().edge_types[edge_type.index()]);
    let temporal = |attr, strategy| Some(Temporal { attr, strategy });
    let mut rules = vec![
        SamplingPolicy::default(),
        SamplingPolicy { replace: true, ..SamplingPolicy::default() },
        SamplingPolicy { isolated: true, ..SamplingPolicy::default() },
    ];
    if wanted.weights {
        rules.push(SamplingPolicy { weighted: true, ..SamplingPolicy::default() });
    }
    if wanted.times {
        rules.push(SamplingPolicy {
            temporal: temporal(TimeAttr::EdgeTime, TemporalStrategy::Last),
            ..SamplingPolicy::default()
        });
    }
    if edges.src_times.is_some() {
        rules.push(SamplingPolicy {
            temporal: temporal(TimeAttr::NodeTime, TemporalStrategy::Uniform),
            ..SamplingPolicy::default()
        });
    }
    // In other parts, layer-neighbor sampling needs ids of other processes.
    if part.has_original_order(edges.src_type) {
        for rule in rules.clone() {
            let rule = SamplingPolicy { labor: Some(Labor::default()), ..rule };
            rules.extend(rule.check_labor().is_ok().then_some(rule));
        }
    }
    let key = BatchKey { seed: 1, epoch: 0, batch: 5 };
    let hop = |rule: SamplingPolicy| {
        let disjoint = rule.weighted;
        let extra = usize::from(disjoint) + if rule.temporal.is_some() { 2 } else { 0 };
        let time = [0, i32::MAX as u32];
        let of_row = |&row: &u32| {
            let rest = if extra == 2 { time.to_vec() } else { vec![0; extra] };
            [vec![row], rest].concat()
        };
        let sections = vec![HopSection { edge_type, fanout: Fanout::Count(3), num_rows }];
        let rows = words(&rows.iter().flat_map(of_row).collect::<Vec<u32>>());
        Request::SampleHop(HopRequest { key, hop: 0, rule, disjoint, positions: true, sections, rows })
    };
    let mut requests: Vec<Request> = rules.into_iter().map(hop).collect();
    let all = vec![HopSection { edge_type, fanout: Fanout::All, num_rows }];
    requests.push(Request::SampleHop(HopRequest {
        key,
        hop: 1,
        rule: SamplingPolicy::default(),
        disjoint: false,
        positions: false,
        sections: all,
        rows: words(&rows),
    }));
    if edges.attributes.ids.is_some() {
        requests.push(Request::EdgeIds(EdgeIdsRequest { edge_type, edges: words(&first_edges) }));
    }
    requests.push(Request::FetchEdges(FetchEdgesRequest { edge_type, wanted, edges: words(&first_edges) }));
    requests.push(Request::HasEdges(HasEdgesRequest { edge_type, held_out: true, pairs: words(&pairs) }));
    for split in Split::ALL {
        for set in [SeedEdgeSet::Links(split), SeedEdgeSet::Labeled(split), SeedEdgeSet::Negatives(split)] {
            let count = part.num_seed_edges(edge_type, set);
            let positions = words(&(0..count.min(10) as u32).collect::<Vec<u32>>());
            requests.push(Request::SeedEdges(SeedEdgesRequest { edge_type, set, positions }));
        }
    }
    requests
}

/// Returns a request for a batch of two hops around a node of each type.
fn sample_request(part: &Part) -> Request {
    let num_node_types = part.meta().node_types.len();
    let num_edge_types = part.meta().edge_types.len();
    let nodes: Vec<u32> = part.meta().node_types.iter().map(|t| u32::from(t.book.num_nodes() > 0)).collect();
    let seeds = words(&vec![0; nodes.iter().sum::<u32>() as usize]);
    let lengths = SeedLengths { nodes, batch: vec![0; num_node_types], times: 0, excluded: vec![0; num_edge_types] };
    let fanouts = vec![vec![Fanout::Count(2); num_edge_types]; 2];
    let sampler = WireSampler { fanouts, rule: SamplingPolicy::default(), disjoint: false, positions: true };
    Request::Sample(SampleRequest { key: BatchKey { seed: 1, epoch: 0, batch: 2 }, sampler, lengths, seeds })
}
