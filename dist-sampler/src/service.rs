//! Serves the part that this process holds to its peers.

use crate::config::SamplingNodeConfig;
use crate::local::LocalPart;
use crate::transport::BulkTransport;
use crate::wire::{ArrayReply, FetchRequest, FindRequest, HasEdgesRequest, HopRequest, Refusal, Sampling};
use crate::workers::Workers;
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

impl Sampling for Service {
    async fn sample_hop(self, _: Context, request: HopRequest) -> Result<ArrayReply, Refusal> {
        let lines = self.part.lines_of_hop(&request);
        self.answer(lines, move |part, max_bytes| part.sample_hop(&request, max_bytes)).await
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

    async fn has_edges(self, _: Context, request: HasEdgesRequest) -> Result<ArrayReply, Refusal> {
        // How many neighbors are looked through is not known before.
        self.answer(usize::MAX, move |part, _| part.has_edges(&request)).await
    }
}
