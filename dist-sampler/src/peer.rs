//! The client of a peer: sends requests to the process that serves a part, and checks its replies.

use crate::SampleError;
use crate::config::SamplingNodeConfig;
use crate::connection::{Connection, OpenConnection};
use crate::dialer::{Dialer, RankTarget};
use crate::embedding::Update;
use crate::local::bytes_per_row;
use crate::reply::{HopReply, check_hop};
use crate::traffic::Traffic;
use crate::transport::{bytes_of, ids_in};
use crate::wire::{
    ArrayReply, FetchEdgesRequest, FetchRequest, FindRequest, HasEdgesRequest, HopRequest, LookUpBy, LookUpRequest,
    OriginalsRequest, PullRequest, PushRequest, Refusal, SamplingClient, Wanted, WantedOfEdges,
};
use crate::workers::{LINE_BYTES, Workers};
use bytes::Bytes;
use edgecut_cluster::Cluster;
use edgecut_graph::{EdgeTypeId, Meta, NodeTypeId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tarpc::client::RpcError;
use tarpc::context::Context;
use tokio::sync::Semaphore;

/// The client of one rank that serves another part.
///
/// It has two connections, so that the small requests and replies of sampling do not wait behind megabytes of features.
pub(crate) struct Peer {
    part: u32,
    rank: usize,
    addr: SocketAddr,
    cluster: Cluster,
    meta: Arc<Meta>,
    config: SamplingNodeConfig,
    traffic: Arc<Traffic>,
    workers: Arc<Workers>,
    sampling: Connection,
    bulk: Connection,
    /// Feature bytes that may still be requested, in KiB.
    budget: Semaphore,
    /// Gradient bytes that may still be sent, in KiB.
    push_budget: Semaphore,
}

/// The components of a process that all its peers share.
#[derive(Clone)]
pub(crate) struct PeerContext {
    pub(crate) cluster: Cluster,
    pub(crate) meta: Arc<Meta>,
    pub(crate) config: SamplingNodeConfig,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) workers: Arc<Workers>,
    /// Permits for the connections that may be opened at the same time.
    pub(crate) dial_slots: Arc<Semaphore>,
}

/// The class of a request, which decides its connection.
#[derive(Clone, Copy)]
enum Class {
    /// Hops and lookups, for whose replies sampling waits.
    Sampling,
    /// Features and embeddings, with replies and requests of megabytes.
    Bulk,
}

/// The extra wait after a request's deadline, so that tarpc's own deadline error comes first.
const DEADLINE_SLACK: Duration = Duration::from_secs(1);

type Reply = Result<Result<ArrayReply, Refusal>, RpcError>;

/// The reply to a request: data, or a refusal because the reply would be too large.
enum Answer {
    Data(Bytes),
    TooLarge,
}

impl Peer {
    /// Makes the client of `part` at `rank`. [`Peer::connect`] or the first request opens the connections.
    pub(crate) fn new(part: u32, rank: usize, context: PeerContext) -> Result<Self, SampleError> {
        let PeerContext { cluster, meta, config, traffic, workers, dial_slots } = context;
        let addr = cluster.addr_of(rank).map_err(|source| SampleError::Connect {
            rank,
            attempts: 0,
            source: Arc::new(source),
        })?;
        let in_flight_kib = (config.max_bytes_in_flight >> 10).clamp(1, Semaphore::MAX_PERMITS);
        let target = Arc::new(RankTarget { cluster: cluster.clone(), rank });
        let dialer = Arc::new(Dialer::new(rank, target, config.dial_limits(), dial_slots));
        Ok(Self {
            part,
            rank,
            addr,
            cluster,
            meta,
            traffic,
            workers,
            sampling: Connection::new(dialer.clone(), config.max_message_bytes),
            bulk: Connection::new(dialer, config.max_message_bytes),
            budget: Semaphore::new(in_flight_kib),
            push_budget: Semaphore::new(in_flight_kib),
            config,
        })
    }

    /// Opens both connections unless they are open already.
    ///
    /// # Errors
    /// [`SampleError::Connect`] if the peer cannot be reached within the time budget.
    pub(crate) async fn connect(&self) -> Result<(), SampleError> {
        self.sampling.get().await?;
        self.bulk.get().await?;
        Ok(())
    }

    /// Returns the share of a budget that `bytes` take, in KiB, at most the whole budget. A larger request would never
    /// get its permits.
    fn share_of_budget(&self, bytes: usize) -> u32 {
        let all = (self.config.max_bytes_in_flight >> 10).max(1);
        bytes.div_ceil(1 << 10).clamp(1, all) as u32
    }

    /// Returns the rank to which requests are sent.
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Expands a hop. Returns the reply to `sample_hop`, whose lengths and ids are checked. A hop with too large a
    /// request or reply is requested in halves.
    pub(crate) async fn sample_hop(&self, request: HopRequest) -> Result<Bytes, SampleError> {
        if request.rows.len() > self.config.max_message_bytes {
            return self.sample_hop_in_halves(request).await;
        }
        let operation = || format!("sample {} rows", request.rows.len() / 4 / request.words_per_row());
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.sample_hop(context, request).await }
        };
        match self.ask(Class::Sampling, &operation, send).await? {
            Answer::Data(data) => {
                let meta = self.meta.clone();
                let reply = data.clone();
                let asked = request.clone();
                let lines = data.len().div_ceil(LINE_BYTES);
                let checked = self.workers.run_sized(lines, move || check_hop(&meta, &asked, &reply)).await?;
                checked.map(|()| data).map_err(|why| self.failed(operation(), why))
            }
            Answer::TooLarge => self.sample_hop_in_halves(request).await,
        }
    }

    async fn sample_hop_in_halves(&self, request: HopRequest) -> Result<Bytes, SampleError> {
        let rows = ids_in(&request.rows).map_err(|why| self.failed("sample".into(), why))?;
        let mut halves = [Vec::new(), Vec::new()];
        let mut sections = [request.sections.clone(), request.sections.clone()];
        let width = request.words_per_row();
        let num_rows = rows.len() / width;
        let mut start = 0;
        // The rows of all sections are split at one point. Splitting each section would not end once every section has
        // one row.
        let middle = num_rows / 2;
        for (i, section) in request.sections.iter().enumerate() {
            let end = start + section.num_rows as usize;
            let middle = middle.clamp(start, end);
            for (half, range) in [(0, start..middle), (1, middle..end)] {
                sections[half][i].num_rows = range.len() as u32;
                halves[half].extend_from_slice(&rows[range.start * width..range.end * width]);
            }
            start = end;
        }
        // A hop of one row has an empty first half and cannot be split further.
        if halves[0].is_empty() {
            let why = format!(
                "the neighbors of one node exceed {} bytes: set a fan-out, or raise max_message_bytes",
                self.config.max_message_bytes
            );
            return Err(self.failed(format!("sample {num_rows} rows"), why));
        }
        let mut asked = Vec::with_capacity(2);
        let mut replies = Vec::with_capacity(2);
        for (sections, rows) in sections.into_iter().zip(halves) {
            let half = HopRequest { sections, rows: bytes_of(rows), ..request.clone() };
            asked.push(half.clone());
            replies.push(Box::pin(self.sample_hop(half)).await?);
        }
        let views = [0, 1].map(|half| HopReply::new(&asked[half], &replies[half]));
        // Section by section, since a reply lists the counts, neighbors and positions of each section end to end.
        let mut joined: Vec<u32> = Vec::new();
        for section in 0..request.sections.len() {
            let first = views[0].section(section);
            let second = views[1].section(section);
            for (first, second) in [
                (first.counts, second.counts),
                (first.neighbors, second.neighbors),
                (first.positions, second.positions),
            ] {
                joined.extend_from_slice(first);
                joined.extend_from_slice(second);
            }
        }
        Ok(bytes_of(joined))
    }

    /// Fetches attributes of `rows` in one request. The caller limits the reply to about `fetch_chunk_bytes`.
    pub(crate) async fn fetch(
        &self,
        node_type: NodeTypeId,
        wanted: Wanted,
        rows: Vec<u32>,
    ) -> Result<Bytes, SampleError> {
        let t = &self.meta.node_types[node_type.index()];
        let expected = bytes_per_row(wanted, t.feature_dim * t.feature_dtype.size()) * rows.len();
        let _permit = self.budget.acquire_many(self.share_of_budget(expected)).await;
        let operation = || format!("fetch {} rows of {}", rows.len(), t.name);
        let request = FetchRequest { node_type, wanted, rows: bytes_of(rows.clone()) };
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.fetch(context, request).await }
        };
        match self.ask(Class::Bulk, &operation, send).await? {
            Answer::Data(data) if data.len() == expected => Ok(data),
            Answer::Data(data) => {
                Err(self.failed(operation(), format!("the reply has {} bytes, expected {expected}", data.len())))
            }
            Answer::TooLarge => {
                Err(self.failed(operation(), format!("a reply of {expected} bytes exceeds the peer's limit")))
            }
        }
    }

    /// Returns the global ids of original ids, `u32::MAX` for nodes that the part does not own.
    pub(crate) async fn find(&self, node_type: NodeTypeId, originals: &Bytes) -> Result<Bytes, SampleError> {
        let operation = || format!("find {} original ids", originals.len() / 4);
        let request = FindRequest { node_type, originals: originals.clone() };
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.find(context, request).await }
        };
        match self.ask(Class::Sampling, &operation, send).await? {
            Answer::Data(data) if data.len() == originals.len() => Ok(data),
            _ => Err(self.failed(operation(), "the reply has another length than requested".into())),
        }
    }

    /// Returns one page of the original ids in a range that the part owns.
    pub(crate) async fn originals(&self, request: &OriginalsRequest) -> Result<Bytes, SampleError> {
        let operation = || format!("list original ids from {} to {}", request.start, request.end);
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.originals(context, request).await }
        };
        match self.ask(Class::Bulk, &operation, send).await? {
            Answer::Data(data) => Ok(data),
            Answer::TooLarge => Err(self.failed(operation(), "the reply exceeds the peer's limit".into())),
        }
    }

    /// Returns the global ids of keys in the part's share of the directory.
    pub(crate) async fn look_up(
        &self,
        node_type: NodeTypeId,
        by: LookUpBy,
        keys: Vec<u32>,
    ) -> Result<Bytes, SampleError> {
        let num_keys = keys.len() / by.words_per_key();
        let operation = || format!("look up {num_keys} nodes");
        let request = LookUpRequest { node_type, by, keys: bytes_of(keys) };
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.look_up(context, request).await }
        };
        match self.ask(Class::Sampling, &operation, send).await? {
            Answer::Data(data) if data.len() == num_keys * size_of::<u32>() => Ok(data),
            _ => Err(self.failed(operation(), "the reply has another length than requested".into())),
        }
    }

    /// Fetches attributes of edges, each given as the destination's row and the edge's position among its in-edges.
    pub(crate) async fn fetch_edges(
        &self,
        edge_type: EdgeTypeId,
        wanted: WantedOfEdges,
        edges: Vec<u32>,
        expected: usize,
    ) -> Result<Bytes, SampleError> {
        let operation = || format!("fetch attributes of {} edges", edges.len() / 2);
        let request = FetchEdgesRequest { edge_type, wanted, edges: bytes_of(edges.clone()) };
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.fetch_edges(context, request).await }
        };
        match self.ask(Class::Bulk, &operation, send).await? {
            Answer::Data(data) if data.len() == expected => Ok(data),
            _ => Err(self.failed(operation(), "the reply has another length than requested".into())),
        }
    }

    /// Returns one byte per pair (row of the destination, global id of the source): 1 if the pair is an edge, else 0.
    pub(crate) async fn has_edges(
        &self,
        edge_type: EdgeTypeId,
        held_out: bool,
        pairs: Vec<u32>,
    ) -> Result<Bytes, SampleError> {
        let num_pairs = pairs.len() / 2;
        let operation = || format!("look for {num_pairs} edges");
        let request = HasEdgesRequest { edge_type, held_out, pairs: bytes_of(pairs) };
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.has_edges(context, request).await }
        };
        match self.ask(Class::Sampling, &operation, send).await? {
            Answer::Data(data) if data.len() == num_pairs => Ok(data),
            _ => Err(self.failed(operation(), "the reply has another length than requested".into())),
        }
    }

    /// Returns rows of an embedding with `dim` values each, once they have taken `version` steps.
    pub(crate) async fn pull(
        &self,
        table: u16,
        version: u64,
        rows: Vec<u32>,
        dim: usize,
    ) -> Result<Bytes, SampleError> {
        let expected = rows.len() * dim * size_of::<f32>();
        let operation = || format!("pull {} rows of an embedding", rows.len());
        let request = PullRequest { table, version, rows: bytes_of(rows.clone()) };
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.pull(context, request).await }
        };
        match self.ask(Class::Bulk, &operation, send).await? {
            Answer::Data(data) if data.len() == expected => Ok(data),
            _ => Err(self.failed(operation(), "the reply has another length than requested".into())),
        }
    }

    /// Sends gradients of rows of an embedding, as one of the pieces that a rank sends for a step.
    pub(crate) async fn push(
        &self,
        table: u16,
        version: u64,
        (rank, piece): (u32, u32),
        update: Update,
    ) -> Result<(), SampleError> {
        let Update { mut rows, gradients } = update;
        let num_rows = rows.len() as u32;
        let bytes = size_of_val(&rows[..]) + size_of_val(&gradients[..]);
        let _permit = self.push_budget.acquire_many(self.share_of_budget(bytes)).await;
        let operation = || format!("push {num_rows} gradients of an embedding");
        rows.extend(gradients.iter().map(|gradient| gradient.to_bits()));
        let request = PushRequest { table, version, rank, piece, num_rows, data: bytes_of(rows) };
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.push(context, request).await }
        };
        match self.ask(Class::Bulk, &operation, send).await? {
            Answer::Data(_) => Ok(()),
            Answer::TooLarge => Err(self.failed(operation(), "the gradients exceed the peer's limit".into())),
        }
    }

    /// Sends a request and waits for the reply. Stops waiting if the job fails.
    async fn ask<F: Future<Output = Reply>>(
        &self,
        class: Class,
        operation: &impl Fn() -> String,
        send: impl Fn(SamplingClient, Context) -> F,
    ) -> Result<Answer, SampleError> {
        tokio::select! {
            biased;
            answer = self.ask_running(class, operation, send) => answer,
            failure = self.cluster.failed() => Err(self.failed(operation(), failure.to_string())),
        }
    }

    /// Sends a request. If its connection turns out to be broken, the request is sent once more over a new connection.
    /// This is safe because every request only reads, except for a push, and the owner counts a piece that arrives
    /// twice once. A request whose deadline has passed is not sent again, since the peer may be overloaded. The
    /// exception is a suspension of this process, which must not count against the deadline.
    async fn ask_running<F: Future<Output = Reply>>(
        &self,
        class: Class,
        operation: &impl Fn() -> String,
        send: impl Fn(SamplingClient, Context) -> F,
    ) -> Result<Answer, SampleError> {
        let connection = match class {
            Class::Sampling => &self.sampling,
            Class::Bulk => &self.bulk,
        };
        let mut broken: Option<String> = None;
        loop {
            let start = Instant::now();
            let OpenConnection { generation, client } = connection.get().await?;
            let mut context = tarpc::context::current();
            context.deadline = Instant::now() + self.config.rpc_timeout();
            self.traffic.requests.fetch_add(1, Ordering::Relaxed);
            // tarpc counts the deadline in the context from the time the request leaves its queue. This timeout counts
            // from now.
            let reply = tokio::time::timeout(self.config.rpc_timeout() + DEADLINE_SLACK, send(client, context)).await;
            match reply.unwrap_or(Err(RpcError::DeadlineExceeded)) {
                Ok(Ok(ArrayReply { data, .. })) => {
                    self.traffic.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                    return Ok(Answer::Data(data));
                }
                Ok(Err(Refusal::TooLarge)) => return Ok(Answer::TooLarge),
                Ok(Err(Refusal::Invalid(why))) => return Err(self.failed(operation(), format!("refused: {why}"))),
                Ok(Err(Refusal::Failed(why))) => return Err(self.failed(operation(), why)),
                Err(RpcError::DeadlineExceeded) if self.cluster.was_suspended_since(start) => {}
                Err(RpcError::DeadlineExceeded) => {
                    let why = format!("no reply within {} ms", self.config.rpc_timeout_ms);
                    return Err(self.failed(operation(), why));
                }
                Err(error @ (RpcError::Shutdown | RpcError::Channel(_)))
                    if broken.is_none() && self.cluster.failure().is_none() =>
                {
                    broken = Some(chain(&error));
                    connection.forget(generation).await;
                }
                Err(error) => {
                    let first = broken.map(|first| format!(" (after an earlier failure: {first})")).unwrap_or_default();
                    return Err(self.failed(operation(), format!("{}{first}", chain(&error))));
                }
            }
        }
    }

    fn failed(&self, operation: String, why: String) -> SampleError {
        SampleError::Rpc { operation, part: self.part, rank: self.rank, addr: self.addr, why }
    }
}

/// Formats an error and its causes, since tarpc's messages do not name their causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
