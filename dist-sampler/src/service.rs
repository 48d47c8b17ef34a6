//! The server side: answers requests of peers for the part that this process holds.

use crate::config::SamplingNodeConfig;
use crate::embedding::{Shard, Shards, Update};
use crate::local::LocalPart;
use crate::transport::{BulkTransport, bytes_of, ids_in};
use crate::wire::{
    ArrayReply, FetchEdgesRequest, FetchRequest, FindRequest, HasEdgesRequest, HopRequest, LookUpRequest,
    OriginalsRequest, PullRequest, PushRequest, Refusal, Sampling, SamplingRequest, SamplingResponse,
};
use crate::workers::{LINE_BYTES, ON_POOL, Workers};
use bytes::Bytes;
use futures::StreamExt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tarpc::ServerError;
use tarpc::context::Context;
use tarpc::server::{self, Channel, Serve};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// The service. Each request has a clone.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) part: LocalPart,
    pub(crate) workers: Arc<Workers>,
    pub(crate) shards: Arc<Shards>,
    pub(crate) max_message_bytes: usize,
}

impl Service {
    /// Answers one peer until it closes the connection.
    ///
    /// Every request runs in its own task, so that waiting requests do not delay further requests, cancellations,
    /// deadlines and replies.
    pub(crate) async fn serve_peer(self, stream: TcpStream, config: &SamplingNodeConfig) {
        let transport = BulkTransport::new(stream, config.max_message_bytes);
        let channel = server::BaseChannel::new(server::Config::default(), transport);
        let connection = ServedConnection {
            service: self,
            turns: Arc::new(Semaphore::new(config.max_working_requests.clamp(1, Semaphore::MAX_PERMITS))),
        };
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let mut requests = pin!(channel.requests());
        // An error ends the connection. The peer reports the cause.
        while let Some(Ok(request)) = requests.next().await {
            let held = HeldBytes::new(&waiting_bytes, request.get().message.payload_bytes());
            let num_requests = requests.channel().in_flight_requests();
            // Waiting requests keep their payloads in memory, so requests beyond the limits are refused at once.
            if num_requests > config.max_waiting_requests || held.total > config.max_waiting_request_bytes {
                let why = format!(
                    "busy: {num_requests} requests of {} bytes wait on this connection, the limits are {} and {}",
                    held.total, config.max_waiting_requests, config.max_waiting_request_bytes
                );
                tokio::spawn(request.execute(Refusing(Refusal::Failed(why))));
                continue;
            }
            let connection = connection.clone();
            tokio::spawn(async move {
                request.execute(connection.serve()).await;
                drop(held);
            });
        }
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
    type Req = SamplingRequest;
    type Resp = SamplingResponse;

    async fn serve(self, _: Context, request: SamplingRequest) -> Result<SamplingResponse, ServerError> {
        Ok(request.refused(self.0))
    }
}

/// The service of one connection. Each request has a clone.
#[derive(Clone)]
struct ServedConnection {
    service: Service,
    /// Permits for requests that run or whose replies wait to be sent.
    turns: Arc<Semaphore>,
}

/// The work for a request, measured as the approximate number of cache lines that it touches.
#[derive(Clone, Copy)]
enum Load {
    /// A hop or a lookup, for which a batch waits.
    Sampling(usize),
    /// Rows to gather, possibly many.
    Gather(usize),
}

impl ServedConnection {
    /// Waits for a permit, then runs `work`. tarpc ends the wait when the deadline of the request passes.
    async fn answer(
        self,
        load: Load,
        work: impl FnOnce(&LocalPart, usize) -> Result<Bytes, Refusal> + Send + 'static,
    ) -> Result<ArrayReply, Refusal> {
        let Self { service: Service { part, workers, max_message_bytes, .. }, turns } = self;
        let turn = turns.acquire_owned().await;
        let permit = turn.map_err(|_| Refusal::Failed("the connection is closed".into()))?;
        // The work owns the permit, since it continues if this future is dropped.
        let work = move || work(&part, max_message_bytes).map(|data| ArrayReply { data, _permit: Some(permit) });
        let done = match load {
            Load::Sampling(lines) => workers.run_sized(lines, work).await,
            Load::Gather(lines) => workers.run_gather(lines, work).await,
        };
        done.unwrap_or_else(|error| Err(Refusal::Failed(error.to_string())))
    }
}

impl Service {
    fn shard(&self, table: u16) -> Result<Arc<Shard>, Refusal> {
        self.shards
            .get(table)
            .ok_or_else(|| Refusal::Invalid(format!("this process holds no rows of embedding {table}")))
    }
}

fn check_rows(shard: &Shard, rows: &[u32]) -> Result<(), Refusal> {
    match rows.iter().find(|&&row| row as usize >= shard.num_rows()) {
        Some(row) => Err(Refusal::Invalid(format!(
            "row {row} was requested, but the embedding has {} rows here",
            shard.num_rows()
        ))),
        None => Ok(()),
    }
}

impl Sampling for ServedConnection {
    async fn sample_hop(self, _: Context, request: HopRequest) -> Result<ArrayReply, Refusal> {
        let load = Load::Sampling(self.service.part.lines_of_hop(&request));
        self.answer(load, move |part, max_bytes| part.sample_hop(&request, max_bytes, |_, _| ())).await
    }

    async fn fetch(self, _: Context, request: FetchRequest) -> Result<ArrayReply, Refusal> {
        let num_rows = request.rows.len() / size_of::<u32>();
        let load = Load::Gather(self.service.part.lines_of_fetch(request.node_type, request.wanted, num_rows));
        self.answer(load, move |part, max_bytes| part.fetch(&request, max_bytes)).await
    }

    async fn find(self, _: Context, request: FindRequest) -> Result<ArrayReply, Refusal> {
        let num_ids = request.originals.len() / size_of::<u32>();
        let load = Load::Sampling(self.service.part.lines_of_find(request.node_type, num_ids));
        self.answer(load, move |part, _| part.find(&request)).await
    }

    async fn originals(self, _: Context, request: OriginalsRequest) -> Result<ArrayReply, Refusal> {
        // The range may include all nodes of the part.
        self.answer(Load::Gather(usize::MAX), move |part, max_bytes| part.originals(&request, max_bytes)).await
    }

    async fn look_up(self, _: Context, request: LookUpRequest) -> Result<ArrayReply, Refusal> {
        let lines = self.service.part.lines_of_look_up(&request);
        self.answer(Load::Sampling(lines), move |part, _| part.look_up(&request)).await
    }

    async fn fetch_edges(self, _: Context, request: FetchEdgesRequest) -> Result<ArrayReply, Refusal> {
        let load = Load::Gather(self.service.part.lines_of_fetch_edges(&request));
        self.answer(load, move |part, max_bytes| part.fetch_edges(&request, max_bytes)).await
    }

    async fn has_edges(self, _: Context, request: HasEdgesRequest) -> Result<ArrayReply, Refusal> {
        // The number of neighbors to search is not known in advance.
        self.answer(Load::Sampling(ON_POOL), move |part, _| part.has_edges(&request)).await
    }

    async fn pull(self, _: Context, request: PullRequest) -> Result<ArrayReply, Refusal> {
        let shard = self.service.shard(request.table)?;
        // Waits without a permit, so that any number of pulls may wait. tarpc ends the wait at the deadline of the
        // request.
        shard.wait_for(request.version).await;
        let lines = request.rows.len() / size_of::<u32>() * (shard.dim() * size_of::<f32>()).div_ceil(LINE_BYTES);
        self.answer(Load::Gather(lines), move |_, max_bytes| {
            let rows = ids_in(&request.rows).map_err(Refusal::Invalid)?;
            check_rows(&shard, rows)?;
            if rows.len().saturating_mul(shard.dim() * size_of::<f32>()) > max_bytes {
                return Err(Refusal::TooLarge);
            }
            Ok(bytes_of(shard.read(rows)))
        })
        .await
    }

    async fn push(self, _: Context, request: PushRequest) -> Result<ArrayReply, Refusal> {
        let shard = self.service.shard(request.table)?;
        let lines = request.data.len().div_ceil(LINE_BYTES);
        self.answer(Load::Gather(lines), move |_, _| {
            let words = ids_in(&request.data).map_err(Refusal::Invalid)?;
            let num_rows = request.num_rows as usize;
            if words.len() != num_rows.saturating_mul(1 + shard.dim()) {
                let why = format!("{} words are not {num_rows} rows with their gradients", words.len());
                return Err(Refusal::Invalid(why));
            }
            let (rows, gradients) = words.split_at(num_rows);
            check_rows(&shard, rows)?;
            let gradients = gradients.iter().map(|&bits| f32::from_bits(bits)).collect();
            let update = Update { rows: rows.to_vec(), gradients };
            shard.push(request.version, (request.rank, request.piece), update).map_err(Refusal::Invalid)?;
            Ok(Bytes::new())
        })
        .await
    }
}
