//! The client side: asks the process that serves a part, and checks what comes back.

use crate::SampleError;
use crate::config::SamplingNodeConfig;
use crate::kernel::Draw;
use crate::local::RowLayout;
use crate::traffic::Traffic;
use crate::transport::{BulkTransport, bytes_of, ids_in};
use crate::wire::{ArrayReply, FetchRequest, FindRequest, HopRequest, HopSection, Refusal, SamplingClient, Wanted};
use bytes::Bytes;
use edgecut_cluster::Cluster;
use edgecut_graph::{Meta, NodeTypeId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tarpc::client::RpcError;
use tarpc::context::Context;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore};

/// The process that serves one other part to this one.
pub(crate) struct Peer {
    part: u32,
    rank: usize,
    addr: SocketAddr,
    cluster: Cluster,
    meta: Arc<Meta>,
    config: SamplingNodeConfig,
    traffic: Arc<Traffic>,
    client: Mutex<Option<SamplingClient>>,
    /// Feature bytes that may still be asked for, in KiB.
    budget: Semaphore,
}

type Reply = Result<Result<ArrayReply, Refusal>, RpcError>;

/// A request that was answered, or refused as too large.
enum Answer {
    Data(Bytes),
    TooLarge,
}

impl Peer {
    /// The client of `part`, which `rank` serves; it connects when it is first used.
    pub(crate) fn new(
        part: u32,
        rank: usize,
        cluster: Cluster,
        meta: Arc<Meta>,
        config: SamplingNodeConfig,
        traffic: Arc<Traffic>,
    ) -> Result<Self, SampleError> {
        let addr = cluster.addr_of(rank).map_err(|source| SampleError::Connect { rank, source })?;
        let budget = Semaphore::new((config.max_bytes_in_flight >> 10).clamp(1, Semaphore::MAX_PERMITS));
        Ok(Self { part, rank, addr, cluster, meta, config, traffic, client: Mutex::new(None), budget })
    }

    /// Expands a hop: per section the counts of the rows, then their neighbors. A reply that would be too large is
    /// asked for in halves.
    pub(crate) async fn sample_hop(&self, request: HopRequest) -> Result<Bytes, SampleError> {
        let operation = || format!("sample {} rows", request.rows.len() / 4);
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.sample_hop(context, request).await }
        };
        match self.ask(&operation, send).await? {
            Answer::Data(data) => {
                self.check_hop(&request, &data).map_err(|why| self.failed(operation(), why))?;
                Ok(data)
            }
            Answer::TooLarge => self.sample_hop_in_halves(request).await,
        }
    }

    async fn sample_hop_in_halves(&self, request: HopRequest) -> Result<Bytes, SampleError> {
        let rows = ids_in(&request.rows).map_err(|why| self.failed("sample".into(), why))?;
        let mut halves = [Vec::new(), Vec::new()];
        let mut sections = [request.sections.clone(), request.sections.clone()];
        let mut start = 0;
        for (i, section) in request.sections.iter().enumerate() {
            let end = start + section.num_rows as usize;
            let middle = start + section.num_rows as usize / 2;
            for (half, range) in [(0, start..middle), (1, middle..end)] {
                sections[half][i].num_rows = range.len() as u32;
                halves[half].extend_from_slice(&rows[range]);
            }
            start = end;
        }
        // With at most one row left in each section the first half is empty, and the second is the whole.
        if halves[0].is_empty() {
            let why = format!("one node's neighbors exceed {} bytes: give a fan-out", self.config.max_message_bytes);
            return Err(self.failed(format!("sample {} rows", rows.len()), why));
        }
        let mut replies = Vec::with_capacity(2);
        for (sections, rows) in sections.iter().zip(halves) {
            let half = HopRequest { sections: sections.clone(), rows: bytes_of(rows), ..request.clone() };
            replies.push(Box::pin(self.sample_hop(half)).await?);
        }
        let views = [0, 1].map(|half| HopReply::new(&sections[half], &replies[half]));
        let mut joined: Vec<u32> = Vec::new();
        for section in 0..request.sections.len() {
            let (first, second) = (views[0].section(section), views[1].section(section));
            for values in [first.counts, second.counts, first.neighbors, second.neighbors] {
                joined.extend_from_slice(values);
            }
        }
        Ok(bytes_of(joined))
    }

    /// Attributes of `rows`, one request; the caller keeps it at about `fetch_chunk_bytes`.
    pub(crate) async fn fetch(
        &self,
        node_type: NodeTypeId,
        wanted: Wanted,
        rows: Vec<u32>,
    ) -> Result<Bytes, SampleError> {
        let t = &self.meta.node_types[node_type.index()];
        let expected = RowLayout::new(wanted, t.feature_dim * t.feature_dtype.size()).bytes_per_row * rows.len();
        let all = (self.config.max_bytes_in_flight >> 10).max(1);
        let share = expected.div_ceil(1 << 10).clamp(1, all) as u32;
        let _permit = self.budget.acquire_many(share).await;
        let operation = || format!("fetch {} rows of {}", rows.len(), t.name);
        let request = FetchRequest { node_type, wanted, rows: bytes_of(rows.clone()) };
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.fetch(context, request).await }
        };
        match self.ask(&operation, send).await? {
            Answer::Data(data) if data.len() == expected => Ok(data),
            Answer::Data(data) => {
                Err(self.failed(operation(), format!("the reply has {} bytes, expected {expected}", data.len())))
            }
            Answer::TooLarge => {
                Err(self.failed(operation(), format!("{expected} bytes are more than the peer sends at once")))
            }
        }
    }

    /// Global ids of original ids, `u32::MAX` for each that the part does not own.
    pub(crate) async fn find(&self, node_type: NodeTypeId, originals: &Bytes) -> Result<Bytes, SampleError> {
        let operation = || format!("find {} original ids", originals.len() / 4);
        let request = FindRequest { node_type, originals: originals.clone() };
        let send = |client: SamplingClient, context| {
            let request = request.clone();
            async move { client.find(context, request).await }
        };
        match self.ask(&operation, send).await? {
            Answer::Data(data) if data.len() == originals.len() => Ok(data),
            _ => Err(self.failed(operation(), "the reply is not of the length asked for".into())),
        }
    }

    /// Sends a request. Every request only reads, so one that finds its connection broken is sent once more over a new
    /// one; one whose deadline passed is not, since the peer may be overloaded.
    async fn ask<F: Future<Output = Reply>>(
        &self,
        operation: &impl Fn() -> String,
        send: impl Fn(SamplingClient, Context) -> F,
    ) -> Result<Answer, SampleError> {
        let mut retried = false;
        loop {
            let client = self.client().await?;
            let mut context = tarpc::context::current();
            context.deadline = Instant::now() + self.config.rpc_timeout();
            self.traffic.requests.fetch_add(1, Ordering::Relaxed);
            match send(client, context).await {
                Ok(Ok(ArrayReply { data })) => {
                    self.traffic.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                    return Ok(Answer::Data(data));
                }
                Ok(Err(Refusal::TooLarge)) => return Ok(Answer::TooLarge),
                Ok(Err(Refusal::Invalid(why))) => return Err(self.failed(operation(), format!("refused: {why}"))),
                Ok(Err(Refusal::Failed(why))) => return Err(self.failed(operation(), why)),
                Err(RpcError::DeadlineExceeded) => {
                    let why = format!("no reply within {} ms", self.config.rpc_timeout_ms);
                    return Err(self.failed(operation(), why));
                }
                Err(RpcError::Server(error)) => return Err(self.failed(operation(), error.to_string())),
                Err(error) if retried || self.cluster.failure().is_some() => {
                    return Err(self.failed(operation(), format!("the connection broke: {error}")));
                }
                Err(_) => {
                    retried = true;
                    *self.client.lock().await = None;
                }
            }
        }
    }

    async fn client(&self) -> Result<SamplingClient, SampleError> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let (cluster, rank) = (self.cluster.clone(), self.rank);
        let stream = tokio::task::spawn_blocking(move || cluster.connect_rpc(rank))
            .await
            .map_err(|e| SampleError::Internal { what: format!("connect to rank {rank}: {e}") })?
            .map_err(|source| SampleError::Connect { rank, source })?;
        let stream = TcpStream::from_std(stream)
            .map_err(|e| SampleError::Internal { what: format!("connection to rank {rank}: {e}") })?;
        let transport = BulkTransport::new(stream, self.config.max_message_bytes);
        let new = SamplingClient::new(tarpc::client::Config::default(), transport).spawn();
        *client = Some(new.clone());
        Ok(new)
    }

    fn failed(&self, operation: String, why: String) -> SampleError {
        SampleError::Rpc { operation, part: self.part, rank: self.rank, addr: self.addr, why }
    }

    /// Checks lengths, counts and id ranges of a reply, so that it is safe to use.
    fn check_hop(&self, request: &HopRequest, data: &Bytes) -> Result<(), String> {
        let mut rest = ids_in(data)?;
        for section in &request.sections {
            let edge_type = &self.meta.edge_types[section.edge_type.index()];
            let source = self.meta.node_types.iter().find(|t| t.name == edge_type.src_type);
            let num_sources = source.map_or(0, |t| t.book.num_nodes());
            let cut = || format!("the reply of {} bytes is shorter than its counts say", data.len());
            let (counts, others) = rest.split_at_checked(section.num_rows as usize).ok_or_else(cut)?;
            let draw = Draw { fanout: section.fanout(), replace: section.replace, key: 0 };
            if let Some(count) = counts.iter().find(|&&count| count as usize > draw.count(u32::MAX as usize)) {
                return Err(format!(
                    "the reply has {count} neighbors for a node, above the fan-out {}",
                    section.fanout()
                ));
            }
            let edges: usize = counts.iter().map(|&count| count as usize).sum();
            let (neighbors, others) = others.split_at_checked(edges).ok_or_else(cut)?;
            if let Some(id) = neighbors.iter().find(|&&id| id as usize >= num_sources) {
                return Err(format!("the reply names node {id}, but the graph has {num_sources}"));
            }
            rest = others;
        }
        if rest.is_empty() { Ok(()) } else { Err(format!("the reply has {} bytes too many", rest.len() * 4)) }
    }
}

/// A reply to `sample_hop`, checked or our own, cut into sections.
pub(crate) struct HopReply<'a> {
    sections: Vec<SectionReply<'a>>,
}

/// What one section of a hop drew.
#[derive(Clone, Copy)]
pub(crate) struct SectionReply<'a> {
    /// Neighbors drawn for each row.
    pub(crate) counts: &'a [u32],
    /// Global ids, end to end.
    pub(crate) neighbors: &'a [u32],
}

impl<'a> HopReply<'a> {
    /// Cuts a reply whose lengths were checked.
    pub(crate) fn new(sections: &[HopSection], data: &'a Bytes) -> Self {
        let mut rest = ids_in(data).unwrap_or_default();
        let cut = |section: &HopSection| {
            let (counts, others) = rest.split_at(section.num_rows as usize);
            let (neighbors, others) = others.split_at(counts.iter().map(|&count| count as usize).sum());
            rest = others;
            SectionReply { counts, neighbors }
        };
        Self { sections: sections.iter().map(cut).collect() }
    }

    pub(crate) fn section(&self, index: usize) -> SectionReply<'a> {
        self.sections[index]
    }
}

impl<'a> SectionReply<'a> {
    /// The neighbors of the next row.
    pub(crate) fn next_row(&mut self) -> &'a [u32] {
        let Some((&count, counts)) = self.counts.split_first() else { return &[] };
        let (mine, rest) = self.neighbors.split_at(count as usize);
        (self.counts, self.neighbors) = (counts, rest);
        mine
    }
}
