//! The server side: answers requests of peers for the part that this process holds.
//!
//! Requests of a connection take turns by a semaphore. A request that only waits does not hold it.

use crate::config::dist_graph_config::DistGraphConfig;
use crate::config::node_fields::NodeFields;
use crate::config::sampling_policy::SamplingPolicy;
use crate::part::embedding_shards::{Held, Shards, absent};
use crate::part::local_part::LocalPart;
use crate::part::requests::Refusal;
use crate::payload::Payload;
use crate::rpc::feature_pieces::FeaturePieces;
use crate::rpc::messages::{Answer, ArrayReply, Method, Request};
use crate::rpc::served::Served;
use crate::rpc::server_requests::{DescribeRequest, SampleRequest};
use crate::rpc::transport::BulkTransport;
use crate::workers::{LINE_BYTES, ON_POOL, Workers};
use bytes::Bytes;
use edgecut_cluster::{AsyncSecureStream, is_modified, with_causes};
use futures::StreamExt;
use futures::future::BoxFuture;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;
use tarpc::ServerError;
use tarpc::context::Context;
use tarpc::server::{self, Channel, Serve};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The service. Each request has a clone.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) part: LocalPart,
    pub(crate) workers: Arc<Workers>,
    pub(crate) shards: Arc<Shards>,
    pub(crate) max_message_bytes: usize,
    pub(crate) served: Arc<Served>,
    /// The process, which the service must not keep alive.
    pub(crate) host: Weak<dyn Host>,
}

/// The process that serves a part, for everything that concerns more than the part.
pub(crate) trait Host: Send + Sync {
    /// Reports that a request of `from` was modified on the way.
    fn report_modified(&self, from: usize, reason: &str);

    /// Describes the graph to a client.
    fn describe(self: Arc<Self>, request: DescribeRequest) -> BoxFuture<'static, Result<Bytes, Refusal>>;

    /// Makes the original ids of the sources of the part's edges known.
    fn find_sources(self: Arc<Self>) -> BoxFuture<'static, Result<(), Refusal>>;

    /// Samples a batch of at most `max_bytes` for a client. It holds one of the client's `turns` until the reply is sent.
    fn sample(
        self: Arc<Self>,
        request: SampleRequest,
        deadline: Instant,
        max_bytes: usize,
        turns: Arc<Semaphore>,
    ) -> BoxFuture<'static, Result<(Bytes, OwnedSemaphorePermit), Refusal>>;
}

impl Service {
    /// Answers one peer until it closes the connection.
    ///
    /// Every request runs in its own task, so that waiting requests do not delay further requests, cancellations,
    /// deadlines and replies.
    pub(crate) async fn serve_peer(self, from: usize, stream: AsyncSecureStream, config: &DistGraphConfig) {
        let _connection = self.served.connection();
        // The end of the stream is an error here, so that the requests of a client that is gone are canceled.
        let transport = BulkTransport::new(stream, config.max_message_bytes).with_end_as_error();
        let channel = server::BaseChannel::new(server::Config::default(), transport);
        let connection = ServedConnection::new(self, from, config);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let mut requests = pin!(channel.requests());
        // An error ends the connection. The peer reports the cause, unless only this end can know it.
        while let Some(request) = requests.next().await {
            let request = match request {
                Ok(request) => request,
                Err(error) if is_modified(&error) => {
                    if let Some(host) = connection.service.host.upgrade() {
                        host.report_modified(from, &with_causes(&error));
                    }
                    return;
                }
                Err(_) => return,
            };
            let held = HeldBytes::new(&waiting_bytes, request.get().message.payload_bytes());
            let num_requests = requests.channel().in_flight_requests();
            // Waiting requests keep their payloads in memory, so requests beyond the limits are refused at once.
            if num_requests > config.max_waiting_requests || held.total > config.max_waiting_request_bytes {
                let why = format!(
                    "busy: {num_requests} requests of {} bytes wait on this connection, the limits are {} and {}",
                    held.total, config.max_waiting_requests, config.max_waiting_request_bytes
                );
                connection.service.served.refused();
                tokio::spawn(request.execute(Refusing(Refusal::Failed(why))));
                continue;
            }
            let connection = connection.clone();
            tokio::spawn(async move {
                request.execute(connection).await;
                drop(held);
            });
        }
    }

    /// Answers one request, as if it were the only one of a connection of rank 0.
    #[cfg(feature = "fuzzing")]
    pub(crate) async fn answer_alone(self, request: Request, config: &DistGraphConfig) -> Result<ArrayReply, Refusal> {
        ServedConnection::new(self, 0, config).answer(request, Instant::now() + config.rpc_timeout()).await
    }
}

/// The payload bytes of a request, counted against the connection's limit as long as the process holds the request.
struct HeldBytes {
    all: Arc<AtomicUsize>,
    bytes: usize,
    /// The bytes of all requests of the connection, including this one.
    total: usize,
}

impl HeldBytes {
    fn new(all: &Arc<AtomicUsize>, bytes: usize) -> Self {
        let total = all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        Self { all: all.clone(), bytes, total }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A service that refuses every request.
struct Refusing(Refusal);

impl Serve for Refusing {
    type Req = Request;
    type Resp = Answer;

    async fn serve(self, _: Context, request: Request) -> Result<Answer, ServerError> {
        Ok(Answer { method: request.method(), result: Err(self.0) })
    }
}

/// The service of one connection. Each request has a clone.
#[derive(Clone)]
struct ServedConnection {
    service: Service,
    /// The rank that has opened the connection, which the handshake has verified.
    from: usize,
    /// Permits for requests that run or whose replies wait to be sent.
    turns: Arc<Semaphore>,
    /// Permits for batches that are sampled for the client or whose replies wait to be sent. Hops of other servers have
    /// turns of their own, so that batches never wait for batches.
    batch_turns: Arc<Semaphore>,
}

/// The work for a request, measured as the approximate number of cache lines that it touches.
#[derive(Clone, Copy)]
enum Load {
    /// A hop or a lookup, for which a batch waits.
    Sampling(usize),
    /// Rows to gather, possibly many.
    Gather(usize),
}

impl Serve for ServedConnection {
    type Req = Request;
    type Resp = Answer;

    async fn serve(self, context: Context, request: Request) -> Result<Answer, ServerError> {
        let method = request.method();
        let served = self.service.served.clone();
        let in_progress = served.request(request.payload_bytes());
        let is_ending = served.is_ending();
        let mut result = if is_ending {
            Err(Refusal::Failed("the server is ending".into()))
        } else {
            self.answer(request, context.deadline).await
        };
        match &mut result {
            Ok(reply) => {
                served.answered(reply.data.len(), method == Method::Sample);
                reply.count_in_progress(in_progress);
            }
            Err(_) => served.refused(),
        }
        Ok(Answer { method, result })
    }
}

impl ServedConnection {
    fn new(service: Service, from: usize, config: &DistGraphConfig) -> Self {
        Self {
            service,
            from,
            turns: Arc::new(Semaphore::new(config.max_working_requests.clamp(1, Semaphore::MAX_PERMITS))),
            batch_turns: Arc::new(Semaphore::new(config.max_client_batches.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    async fn answer(self, request: Request, deadline: Instant) -> Result<ArrayReply, Refusal> {
        let part = &self.service.part;
        match request {
            Request::SampleHop(request) => {
                self.find_sources_for(request.rule, deadline).await?;
                let load = Load::Sampling(part.lines_of_hop(&request));
                self.run(load, move |part, max_bytes| part.sample_hop(&request, max_bytes, |_, _| ())).await
            }
            Request::Fetch(request) => {
                let num_rows = request.rows.len() / size_of::<u32>();
                let lines = part.lines_of_fetch(request.node_type, request.wanted, num_rows);
                if request.wanted.features && lines != ON_POOL {
                    let others = NodeFields { features: false, ..request.wanted };
                    let lines = part.lines_of_fetch(request.node_type, others, num_rows);
                    let workers = self.service.workers.clone();
                    // The rows themselves are checked, a few bytes each.
                    let load = Load::Gather(lines.saturating_add(request.rows.len().div_ceil(LINE_BYTES)));
                    return self
                        .run(load, move |part, max_bytes| FeaturePieces::answer(part, workers, &request, max_bytes))
                        .await;
                }
                let load = Load::Gather(lines);
                self.run(load, move |part, max_bytes| part.fetch(&request, max_bytes)).await
            }
            Request::Find(request) => {
                let num_ids = request.originals.len() / size_of::<u32>();
                let load = Load::Sampling(part.lines_of_find(request.node_type, num_ids));
                self.run(load, move |part, _| part.find(&request)).await
            }
            Request::Originals(request) => {
                // The range may include all nodes of the part.
                self.run(Load::Gather(usize::MAX), move |part, max_bytes| part.originals(&request, max_bytes)).await
            }
            Request::LookUp(request) => {
                let load = Load::Sampling(part.lines_of_look_up(&request));
                self.run(load, move |part, _| part.look_up(&request)).await
            }
            Request::FetchEdges(request) => {
                let load = Load::Gather(part.lines_of_fetch_edges(&request));
                self.run(load, move |part, max_bytes| part.fetch_edges(&request, max_bytes)).await
            }
            Request::HasEdges(request) => {
                // The number of neighbors to search is not known in advance.
                self.run(Load::Sampling(ON_POOL), move |part, _| part.has_edges(&request)).await
            }
            Request::Pull(request) => {
                let num_rows = request.rows.len() / size_of::<u32>();
                let lines = |dim: usize| Load::Gather(num_rows * (dim * size_of::<f32>()).div_ceil(LINE_BYTES));
                let shard = match self.service.shards.held(request.table) {
                    Held::Nothing => return Err(absent(request.table)),
                    Held::Rows(rows) => {
                        let load = lines(rows.dim());
                        return self.run(load, move |_, max_bytes| rows.answer_pull(&request, max_bytes)).await;
                    }
                    Held::Embedding(shard) => shard,
                };
                // Waits without a permit, so that any number of pulls may wait. tarpc ends the wait at the deadline of
                // the request.
                shard.wait_for(request.version).await;
                self.run(lines(shard.dim()), move |_, max_bytes| shard.answer_pull(&request, max_bytes)).await
            }
            Request::Push(request) => {
                let shard = self.service.shards.embedding(request.table)?;
                let load = Load::Gather(request.data.len().div_ceil(LINE_BYTES));
                let from = self.from as u32;
                self.run(load, move |_, _| shard.answer_push(from, &request)).await
            }
            Request::Describe(request) => {
                let data = self.host()?.describe(request).await?;
                let fits = data.len() <= self.service.max_message_bytes;
                if fits { Ok(ArrayReply::new(data)) } else { Err(Refusal::TooLarge) }
            }
            Request::Split(request) => {
                self.run(Load::Gather(usize::MAX), move |part, max_bytes| part.split(&request, max_bytes)).await
            }
            Request::Sample(request) => {
                self.find_sources_for(request.sampler.rule, deadline).await?;
                let max_bytes = self.service.max_message_bytes;
                let sampling = self.host()?.sample(request, deadline, max_bytes, self.batch_turns);
                let (data, turn) = sampling.await?;
                Ok(ArrayReply { _permit: Some(turn), ..ArrayReply::new(data) })
            }
            Request::Ping => Ok(ArrayReply::new(Bytes::new())),
            Request::EdgeIds(request) => {
                // Ids are mapped, so reading may wait for the disk.
                self.run(Load::Sampling(ON_POOL), move |part, max_bytes| part.edge_ids(&request, max_bytes)).await
            }
            Request::SeedEdges(request) => {
                // Held-out edges are mapped, so reading may wait for the disk.
                self.run(Load::Sampling(ON_POOL), move |part, max_bytes| part.seed_edges(&request, max_bytes)).await
            }
        }
    }

    /// Waits for what layer-neighbor sampling needs, half of the time of the request at most. Takes no permit, since the
    /// ids come from peers, whose own hops may wait for ids of this part.
    async fn find_sources_for(&self, rule: SamplingPolicy, deadline: Instant) -> Result<(), Refusal> {
        if rule.labor.is_none() || self.service.part.knows_sources() {
            return Ok(());
        }
        let time = deadline.saturating_duration_since(Instant::now()) / 2;
        match tokio::time::timeout(time, self.host()?.find_sources()).await {
            Ok(found) => found,
            Err(_) => Err(Refusal::Preparing),
        }
    }

    fn host(&self) -> Result<Arc<dyn Host>, Refusal> {
        self.service.host.upgrade().ok_or_else(|| Refusal::Failed("the process is ending".into()))
    }

    /// Waits for a permit, then runs `work`. tarpc ends the wait when the deadline of the request passes.
    async fn run<Reply: Into<Payload>>(
        self,
        load: Load,
        work: impl FnOnce(&LocalPart, usize) -> Result<Reply, Refusal> + Send + 'static,
    ) -> Result<ArrayReply, Refusal> {
        let Self { service: Service { part, workers, max_message_bytes, .. }, turns, .. } = self;
        let turn = turns.acquire_owned().await;
        let permit = turn.map_err(|_| Refusal::Failed("the connection is closed".into()))?;
        // The work owns the permit, since it continues if this future is dropped.
        let work = move || {
            work(&part, max_message_bytes).map(|data| ArrayReply { _permit: Some(permit), ..ArrayReply::new(data) })
        };
        let done = match load {
            Load::Sampling(lines) => workers.run_sized(lines, work).await,
            Load::Gather(lines) => workers.run_gather(lines, work).await,
        };
        done.unwrap_or_else(|error| Err(Refusal::Failed(with_causes(&error))))
    }
}
