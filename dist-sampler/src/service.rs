//! Serves the part that this process holds to its peers.

use crate::config::SamplingNodeConfig;
use crate::embedding::{Shard, Shards, Update};
use crate::local::LocalPart;
use crate::transport::{BulkTransport, bytes_of, ids_in};
use crate::wire::{
    ArrayReply, FetchEdgesRequest, FetchRequest, FindRequest, HasEdgesRequest, HopRequest, LookUpRequest,
    OriginalsRequest, PullRequest, PushRequest, Refusal, Sampling,
};
use crate::workers::{LINE_BYTES, Workers};
use bytes::Bytes;
use futures::StreamExt;
use std::sync::Arc;
use tarpc::context::Context;
use tarpc::server::{self, Channel};
use tokio::net::TcpStream;

/// Requests of one peer that are worked on at the same time; further ones wait in the socket.
const MAX_REQUESTS_PER_PEER: usize = 16;

/// The service; a clone per request.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) part: LocalPart,
    pub(crate) workers: Arc<Workers>,
    pub(crate) shards: Arc<Shards>,
    pub(crate) max_message_bytes: usize,
}

impl Service {
    /// Answers one peer until it closes the connection.
    pub(crate) async fn serve_peer(self, stream: TcpStream, config: &SamplingNodeConfig) {
        let transport = BulkTransport::new(stream, config.max_message_bytes);
        let channel = server::BaseChannel::new(server::Config::default(), transport);
        channel.execute(self.serve()).for_each_concurrent(MAX_REQUESTS_PER_PEER, |answer| answer).await;
    }

    /// Answers by `work`, which touches about `lines` cache lines.
    async fn answer(
        self,
        lines: usize,
        work: impl FnOnce(&LocalPart, usize) -> Result<Bytes, Refusal> + Send + 'static,
    ) -> Result<ArrayReply, Refusal> {
        let (part, max_bytes) = (self.part, self.max_message_bytes);
        match self.workers.run_sized(lines, move || work(&part, max_bytes)).await {
            Ok(data) => data.map(|data| ArrayReply { data }),
            Err(error) => Err(Refusal::Failed(error.to_string())),
        }
    }
}

impl Service {
    fn shard(&self, table: u16) -> Result<Arc<Shard>, Refusal> {
        self.shards
            .get(table)
            .ok_or_else(|| Refusal::Invalid(format!("this process holds nothing of embedding {table}")))
    }
}

fn check_rows(shard: &Shard, rows: &[u32]) -> Result<(), Refusal> {
    match rows.iter().find(|&&row| row as usize >= shard.num_rows()) {
        Some(row) => Err(Refusal::Invalid(format!("row {row} of an embedding of {} rows", shard.num_rows()))),
        None => Ok(()),
    }
}

impl Sampling for Service {
    async fn sample_hop(self, _: Context, request: HopRequest) -> Result<ArrayReply, Refusal> {
        let lines = self.part.lines_of_hop(&request);
        self.answer(lines, move |part, max_bytes| part.sample_hop(&request, max_bytes, |_, _| ())).await
    }

    async fn fetch(self, _: Context, request: FetchRequest) -> Result<ArrayReply, Refusal> {
        let lines = self.part.lines_of_fetch(&request);
        self.answer(lines, move |part, max_bytes| part.fetch(&request, max_bytes)).await
    }

    async fn find(self, _: Context, request: FindRequest) -> Result<ArrayReply, Refusal> {
        // A binary search reads a line a step.
        let lines = request.originals.len() / size_of::<u32>() * u32::BITS as usize;
        self.answer(lines, move |part, _| part.find(&request)).await
    }

    async fn originals(self, _: Context, request: OriginalsRequest) -> Result<ArrayReply, Refusal> {
        // The range may hold all nodes of the part.
        self.answer(usize::MAX, move |part, max_bytes| part.originals(&request, max_bytes)).await
    }

    async fn look_up(self, _: Context, request: LookUpRequest) -> Result<ArrayReply, Refusal> {
        // A binary search reads a line a step.
        let lines = request.keys.len() / size_of::<u32>() * u32::BITS as usize;
        self.answer(lines, move |part, _| part.look_up(&request)).await
    }

    async fn fetch_edges(self, _: Context, request: FetchEdgesRequest) -> Result<ArrayReply, Refusal> {
        let lines = self.part.lines_of_fetch_edges(&request);
        self.answer(lines, move |part, max_bytes| part.fetch_edges(&request, max_bytes)).await
    }

    async fn has_edges(self, _: Context, request: HasEdgesRequest) -> Result<ArrayReply, Refusal> {
        // How many neighbors are looked through is not known before.
        self.answer(usize::MAX, move |part, _| part.has_edges(&request)).await
    }

    async fn pull(self, _: Context, request: PullRequest) -> Result<ArrayReply, Refusal> {
        let shard = self.shard(request.table)?;
        // tarpc ends this when the deadline of the request has passed.
        shard.wait_for(request.version).await;
        let lines = request.rows.len() / size_of::<u32>() * (shard.dim() * size_of::<f32>()).div_ceil(LINE_BYTES);
        self.answer(lines, move |_, max_bytes| {
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
        let shard = self.shard(request.table)?;
        let lines = request.data.len().div_ceil(LINE_BYTES);
        self.answer(lines, move |_, _| {
            let words = ids_in(&request.data).map_err(Refusal::Invalid)?;
            let num_rows = request.num_rows as usize;
            if words.len() != num_rows.saturating_mul(1 + shard.dim()) {
                let why = format!("{} words are not the gradients of {num_rows} rows", words.len());
                return Err(Refusal::Invalid(why));
            }
            let (rows, gradients) = words.split_at(num_rows);
            check_rows(&shard, rows)?;
            if request.version < shard.version() {
                return Err(Refusal::Invalid(format!("gradients for step {} came late", request.version + 1)));
            }
            let gradients = gradients.iter().map(|&bits| f32::from_bits(bits)).collect();
            shard.push(request.version, (request.rank, request.piece), Update { rows: rows.to_vec(), gradients });
            Ok(Bytes::new())
        })
        .await
    }
}
