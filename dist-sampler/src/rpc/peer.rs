//! The client of a peer: sends requests to the process that serves a part, and checks its replies.

use crate::config::dist_graph_config::DistGraphConfig;
use crate::config::server_list::{ServerList, part_name};
use crate::error::{PeerName, SampleError};
use crate::part::requests::Refusal;
use crate::rpc::connection::{Client, Connection, OpenConnection};
use crate::rpc::dialer::{DialLimits, Dialer, RankTarget, ServerTarget, Target};
use crate::rpc::messages::{ArrayReply, Request};
use crate::rpc::peer_request::{Budget, Class, PeerRequest};
use crate::rpc::silence::Silence;
use crate::rpc::traffic::Traffic;
use crate::timeouts::DEADLINE_EXTRA_TIMEOUT;
use crate::workers::Workers;
use bytes::Bytes;
use edgecut_cluster::{Cluster, ServiceCaller, is_modified, with_causes};
use edgecut_graph::Meta;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tarpc::client::RpcError;
use tokio::sync::Semaphore;

/// The client of one process that serves another part.
///
/// It has two connections, so that the small requests and replies of sampling do not wait behind megabytes of features.
pub(crate) struct Peer {
    part: u32,
    /// The number of the process that holds the part among all processes that hold parts.
    holder: usize,
    name: PeerName,
    cluster: Cluster,
    pub(crate) meta: Arc<Meta>,
    pub(crate) config: DistGraphConfig,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) workers: Arc<Workers>,
    sampling: Connection,
    bulk: Connection,
    /// Feature bytes that may still be requested, in KiB.
    budget: Semaphore,
    /// Gradient bytes that may still be sent, in KiB.
    push_budget: Semaphore,
    pub(crate) silence: Silence,
    /// The time without a sign of life after which a server counts as dead. `None` for ranks, which the job watches.
    longest_silence: Option<Duration>,
}

/// The components of a process that all its peers share.
#[derive(Clone)]
pub(crate) struct PeerContext {
    pub(crate) cluster: Cluster,
    pub(crate) meta: Arc<Meta>,
    pub(crate) config: DistGraphConfig,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) workers: Arc<Workers>,
    /// Permits for the connections that may be opened at the same time.
    pub(crate) dial_slots: Arc<Semaphore>,
    pub(crate) holders: Holders,
}

/// The processes that hold the parts.
#[derive(Clone)]
pub(crate) enum Holders {
    /// The ranks of the job.
    Ranks,
    /// Sampling servers, and the name of each part's data. `built` has the end of each server's name for clients, and is
    /// empty on a server. `caller` is this process.
    Servers { servers: Arc<ServerList>, data: Arc<str>, built: Arc<[String]>, caller: ServiceCaller },
}

impl Holders {
    fn longest_silence(&self) -> Option<Duration> {
        match self {
            Self::Ranks => None,
            Self::Servers { servers, .. } => Some(servers.service().silence_timeout),
        }
    }

    fn target(
        &self,
        part: u32,
        holder: usize,
        context: &PeerContext,
    ) -> Result<(PeerName, Arc<dyn Target>), SampleError> {
        let cluster = context.cluster.clone();
        match self {
            Self::Ranks => {
                let addr = cluster.addr_of(holder)?;
                Ok((PeerName::Rank { rank: holder, addr }, Arc::new(RankTarget { cluster, rank: holder })))
            }
            Self::Servers { servers, data, built, caller } => {
                let address = servers.addresses()[holder].clone();
                let named = PeerName::Server(address.to_string());
                let built = built.get(holder).map_or("", String::as_str);
                let data = Some(part_name(data, part) + built);
                let service = servers.service().clone();
                let target = ServerTarget { address, caller: *caller, server: holder, data, service, cluster };
                Ok((named, Arc::new(target)))
            }
        }
    }
}

/// The outcome of a request that the peer has accepted.
pub(crate) enum Outcome {
    Data(Bytes),
    /// The peer refuses the request, because the reply would be too large.
    TooLarge,
}

impl Peer {
    /// Makes the client of `part` at `holder`. [`Peer::connect`] or the first request opens the connections.
    pub(crate) fn new(part: u32, holder: usize, context: PeerContext) -> Result<Self, SampleError> {
        let (name, target) = context.holders.target(part, holder, &context)?;
        let longest_silence = context.holders.longest_silence();
        let PeerContext { cluster, meta, config, traffic, workers, dial_slots, .. } = context;
        let in_flight_kib = (config.max_bytes_in_flight >> 10).clamp(1, Semaphore::MAX_PERMITS);
        let dialer = Arc::new(Dialer::new(name.clone(), target, DialLimits::new(&config), dial_slots));
        Ok(Self {
            part,
            holder,
            name,
            cluster,
            meta,
            traffic,
            workers,
            sampling: Connection::new(dialer.clone(), config.max_message_bytes),
            bulk: Connection::new(dialer, config.max_message_bytes),
            budget: Semaphore::new(in_flight_kib),
            push_budget: Semaphore::new(in_flight_kib),
            silence: Silence::default(),
            longest_silence,
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

    /// Returns whether both connections are open.
    pub(crate) fn is_connected(&self) -> bool {
        self.sampling.is_open() && self.bulk.is_open()
    }

    pub(crate) fn name(&self) -> &PeerName {
        &self.name
    }

    /// Returns the share of a budget that `bytes` take, in KiB, at most the whole budget. A larger request would never
    /// get its permits.
    fn share_of_budget(&self, bytes: usize) -> u32 {
        let all = (self.config.max_bytes_in_flight >> 10).max(1);
        bytes.div_ceil(1 << 10).clamp(1, all) as u32
    }

    /// Returns the number of the process to which requests are sent: its rank, or its place in the list of servers.
    pub(crate) fn holder(&self) -> usize {
        self.holder
    }

    /// Sends a request and returns the reply, which must have `reply_bytes` bytes if that is given. Waits first for the
    /// bytes in flight that the request's budget allows.
    pub(crate) async fn ask<R: PeerRequest>(
        &self,
        request: R,
        reply_bytes: Option<usize>,
    ) -> Result<Bytes, SampleError> {
        let budget = match R::BUDGET {
            Budget::Unlimited => None,
            Budget::Reply => Some((&self.budget, reply_bytes.unwrap_or(0))),
            Budget::Payload => {
                let message: Request = request.clone().into();
                Some((&self.push_budget, message.payload_bytes()))
            }
        };
        let _permit = match budget {
            Some((budget, bytes)) => Some(budget.acquire_many(self.share_of_budget(bytes)).await),
            None => None,
        };
        let why = match (self.send(&request).await?, reply_bytes) {
            (Outcome::Data(data), Some(expected)) if data.len() != expected => {
                format!("the reply has {} bytes, expected {expected}", data.len())
            }
            (Outcome::Data(data), _) => return Ok(data),
            (Outcome::TooLarge, Some(expected)) => format!("a reply of {expected} bytes exceeds the peer's limit"),
            (Outcome::TooLarge, None) => "the reply exceeds the peer's limit".into(),
        };
        Err(self.failed(&request, why))
    }

    /// Sends a request and waits for the reply. Stops waiting if the job fails.
    pub(crate) async fn send<R: PeerRequest>(&self, request: &R) -> Result<Outcome, SampleError> {
        tokio::select! {
            biased;
            outcome = self.send_running(request) => outcome,
            failure = self.cluster.failed() => Err(self.failed(request, failure.to_string())),
        }
    }

    /// Sends a request. If its connection turns out to be broken, the request is sent once more over a new connection.
    /// This is safe because every request only reads, except for a push, and the owner counts a piece that arrives
    /// twice once. A request whose deadline has passed is not sent again, since the peer may be overloaded. The
    /// exception is a suspension of this process, which must not count against the deadline.
    async fn send_running<R: PeerRequest>(&self, request: &R) -> Result<Outcome, SampleError> {
        let connection = match R::CLASS {
            Class::Sampling => &self.sampling,
            Class::Bulk => &self.bulk,
        };
        let _waiting = self.silence.wait();
        let mut broken: Option<String> = None;
        loop {
            let start = Instant::now();
            let OpenConnection { generation, client } = connection.get().await?;
            let mut context = tarpc::context::current();
            context.deadline = Instant::now() + self.config.rpc_timeout();
            let message: Request = request.clone().into();
            self.traffic.count_request(self.holder, message.payload_bytes());
            let sent = Instant::now();
            // tarpc counts the deadline in the context from the time the request leaves its queue. This timeout counts
            // from now.
            let call = client.call(context, message);
            let answer = tokio::select! {
                biased;
                answer = tokio::time::timeout(self.config.rpc_timeout() + DEADLINE_EXTRA_TIMEOUT, call) => answer,
                why = self.falls_silent(&client) => return Err(self.failed(request, why)),
            };
            if let Ok(Ok(_)) = answer {
                self.silence.end();
            }
            match answer.unwrap_or(Err(RpcError::DeadlineExceeded)).map(|answer| answer.result) {
                Ok(Ok(ArrayReply { data, .. })) => {
                    self.traffic.count_reply(self.holder, data.len(), sent.elapsed());
                    return Ok(Outcome::Data(data.bytes));
                }
                Ok(Err(Refusal::TooLarge)) => return Ok(Outcome::TooLarge),
                Ok(Err(Refusal::Invalid(why))) => return Err(self.failed(request, format!("refused: {why}"))),
                Ok(Err(Refusal::Failed(why))) => return Err(self.failed(request, why)),
                // The requests by which the peer prepares its part have deadlines.
                Ok(Err(Refusal::Preparing)) => {}
                Err(RpcError::DeadlineExceeded) if self.cluster.was_suspended_since(start) => {}
                Err(RpcError::DeadlineExceeded) => {
                    let why = format!("no reply within {} ms", self.config.rpc_timeout_ms);
                    return Err(self.failed(request, why));
                }
                Err(error) if is_modified(&error) => return Err(self.modified(request, with_causes(&error))),
                Err(error @ (RpcError::Shutdown | RpcError::Channel(_)))
                    if broken.is_none() && self.cluster.failure().is_none() =>
                {
                    broken = Some(with_causes(&error));
                    connection.forget(generation).await;
                }
                Err(error) => {
                    let first = broken.map(|first| format!(" (after an earlier failure: {first})")).unwrap_or_default();
                    return Err(self.failed(request, format!("{}{first}", with_causes(&error))));
                }
            }
        }
    }

    /// Waits until the peer is a server that sends nothing for the longest silence, although it is asked for a sign of
    /// life. The kernel of a suspended server keeps its connections, so nothing else shows the suspension.
    async fn falls_silent(&self, client: &Client) -> String {
        let Some(timeout) = self.longest_silence else { return std::future::pending().await };
        let pause = timeout / 4;
        loop {
            let start = Instant::now();
            let before = self.received_bytes();
            tokio::time::sleep(pause).await;
            if self.received_bytes() != before {
                continue;
            }
            let mut context = tarpc::context::current();
            context.deadline = start + timeout;
            let ping = client.call(context, Request::Ping);
            match tokio::time::timeout(timeout - pause, ping).await.unwrap_or(Err(RpcError::DeadlineExceeded)) {
                Err(RpcError::DeadlineExceeded)
                    if self.received_bytes() == before && !self.cluster.was_suspended_since(start) =>
                {
                    return format!("no sign of life for {:.1} s", start.elapsed().as_secs_f64());
                }
                // The request itself fails if the connection is broken.
                _ => {}
            }
        }
    }

    fn received_bytes(&self) -> u64 {
        self.sampling.received_bytes() + self.bulk.received_bytes()
    }

    /// Returns the error of a request whose reply was modified on the way. Reports it to the job if the peer is a rank.
    fn modified<R: PeerRequest>(&self, request: &R, why: String) -> SampleError {
        if let PeerName::Rank { rank, .. } = self.name {
            let cluster = self.cluster.clone();
            let reason = why.clone();
            // The report waits until it was sent.
            tokio::task::spawn_blocking(move || cluster.report_connection(rank, &reason));
        }
        self.failed(request, why)
    }

    /// Returns the error of a request to this peer.
    pub(crate) fn failed<R: PeerRequest>(&self, request: &R, why: String) -> SampleError {
        let operation = request.operation(&self.meta);
        SampleError::Rpc { operation, part: self.part, peer: self.name.clone(), why }
    }
}
