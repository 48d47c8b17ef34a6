//! The server's side: a part that is served to clients, and batches that are sampled for them.

use crate::batch::encoding::{decode_seeds, encode_subgraph};
use crate::batch::sampler::DistNeighborSampler;
use crate::config::dist_graph_config::DistGraphConfig;
use crate::config::server_list::{ServerList, features_name, part_name};
use crate::dist_graph::{Assembly, DistGraph, Role, layout_of, network_threads};
use crate::error::SampleError;
use crate::part::requests::{Refusal, SplitRequest};
use crate::rpc::peer::Holders;
use crate::rpc::server_requests::{DescribeRequest, SampleRequest};
use crate::rpc::service::Host;
use crate::servers::description::Description;
use crate::timeouts::{BLAME_LEAD_TIMEOUT, SERVER_CONNECT_TIMEOUT};
use bytes::Bytes;
use edgecut_cluster::{Cluster, ServiceCaller, ServiceListener, say, with_causes};
use edgecut_graph::{GraphError, Meta, NodeTypeId, Part, Split};
use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest that a server treats another server as unreachable without trying again, in milliseconds. A server that
/// was restarted is thus found soon.
const LONGEST_SERVER_MEMORY_MS: u64 = 1_000;

impl DistGraph {
    /// Serves a part to clients, as number `server` of `servers`. The other servers may start later, and each may end
    /// and start again: until then, requests that need its part fail with an error that names it.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if this server must hold another part, [`SampleError::Process`] if threads cannot be
    /// started.
    pub fn serve(
        part: Arc<Part>,
        servers: ServerList,
        server: usize,
        mut listener: ServiceListener,
        mut config: DistGraphConfig,
    ) -> Result<Arc<Self>, SampleError> {
        let meta = part.meta();
        let layout = layout_of(&part, servers.addresses().len(), server, "server")?;
        let Some(incoming) = listener.take_incoming() else {
            return Err(SampleError::Internal { what: "this listener already serves a part".into() });
        };
        config.failed_peer_memory_ms = config.failed_peer_memory_ms.min(LONGEST_SERVER_MEMORY_MS);
        let as_json = |source| SampleError::process("describe the graph", source);
        let fingerprint = meta.fingerprint();
        // Clients need no files.
        let mut without_files = Meta::clone(meta);
        without_files.files.clear();
        let text = serde_json::to_string(&without_files).map_err(as_json)?;
        let description = Description {
            server,
            num_servers: layout.num_processes(),
            fingerprint: fingerprint.clone(),
            features: part.built_features().to_vec(),
            meta: text,
        };
        let description = serde_json::to_vec(&description).map_err(as_json)?;
        let name = part_name(&fingerprint, part.id().0);
        let for_clients = name.clone() + &features_name(part.built_features());
        let caller = ServiceCaller::Server(server);
        let holders =
            Holders::Servers { servers: Arc::new(servers), data: fingerprint.into(), built: Arc::new([]), caller };
        let runtime = network_threads(&config)?;
        // A server is in no job with others, so that it outlives them.
        let cluster = Cluster::join_local(1, |_| {})?.remove(0);
        let role = Role::Server { description: description.into(), listener: Mutex::new(listener) };
        let assembly = Assembly { part, cluster, config, holders, layout, role, spread: server };
        let graph = Self::assemble(assembly, runtime, Some(incoming))?;
        if let Role::Server { listener, .. } = &graph.role {
            let mut listener = listener.lock().unwrap_or_else(PoisonError::into_inner);
            listener.name_for_clients(for_clients);
            listener.serve(server, &name)?;
        }
        Ok(graph)
    }

    /// Closes the socket of a server, and refuses new requests. Requests in progress are answered.
    pub fn stop_accepting(&self) {
        self.served.end();
        if let Role::Server { listener, .. } = &self.role {
            listener.lock().unwrap_or_else(PoisonError::into_inner).close();
        }
    }

    /// Waits until all holders of other parts have answered a request.
    ///
    /// # Errors
    /// An error of the first one that does not answer.
    pub fn reach_peers(&self) -> BoxFuture<'_, Result<(), SampleError>> {
        Box::pin(async move {
            // A request for no nodes, which needs no work.
            let request = SplitRequest { node_type: NodeTypeId(0), split: Split::Train, start: u64::MAX };
            let asked = self.peers.iter().flatten().map(|peer| peer.ask(request, Some(size_of::<u32>())));
            try_join_all(asked).await.map(drop)
        })
    }

    /// Returns the description that clients get.
    fn description(&self) -> Result<Bytes, Refusal> {
        match &self.role {
            Role::Server { description, .. } => Ok(description.clone()),
            Role::Rank | Role::Client { .. } => {
                Err(Refusal::Invalid("this process is a rank of a job, not a server".into()))
            }
        }
    }

    async fn sample_in_turn(
        self: &Arc<Self>,
        request: SampleRequest,
        max_bytes: usize,
        turns: Arc<Semaphore>,
    ) -> Result<(Bytes, OwnedSemaphorePermit), Refusal> {
        let turn = turns.acquire_owned().await;
        let turn = turn.map_err(|_| Refusal::Failed("the connection is closed".into()))?;
        let seeds = decode_seeds(&request.lengths, &request.seeds).map_err(Refusal::Invalid)?;
        let sampler = DistNeighborSampler::from_wire(self.clone(), request.sampler).map_err(refuse)?;
        let subgraph = Arc::new(sampler).sample(seeds, request.key).await.map_err(refuse)?;
        let encode = move || encode_subgraph(&subgraph, max_bytes);
        let data = self.workers.run(encode).await.map_err(refuse)?.ok_or(Refusal::TooLarge)?;
        Ok((data, turn))
    }
}

impl Host for DistGraph {
    /// Ends the job of a rank. A server reports the end of the connection, and its clients open a new one.
    fn report_modified(&self, from: usize, reason: &str) {
        match self.role {
            Role::Server { .. } => say(&format!("a connection has ended: {reason}")),
            Role::Rank | Role::Client { .. } => {
                let cluster = self.cluster().clone();
                let reason = reason.to_owned();
                // The report waits until it was sent.
                tokio::task::spawn_blocking(move || cluster.report_connection(from, &reason));
            }
        }
    }

    fn describe(self: Arc<Self>, request: DescribeRequest) -> BoxFuture<'static, Result<Bytes, Refusal>> {
        async move {
            let description = self.description()?;
            if request.when_connected {
                match tokio::time::timeout(SERVER_CONNECT_TIMEOUT, self.wait_until_connected()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return Err(Refusal::Failed(with_causes(&error))),
                    Err(_) => return Err(Refusal::Failed(format!("it waits for {}", self.missing_peers()))),
                }
            }
            Ok(description)
        }
        .boxed()
    }

    fn find_sources(self: Arc<Self>) -> BoxFuture<'static, Result<(), Refusal>> {
        async move { Self::find_sources(&self).await.map_err(refuse) }.boxed()
    }

    /// Waits for a turn, then samples. Shortly before the deadline, names the servers that have not answered. tarpc ends
    /// the work when the client disappears.
    fn sample(
        self: Arc<Self>,
        request: SampleRequest,
        deadline: Instant,
        max_bytes: usize,
        turns: Arc<Semaphore>,
    ) -> BoxFuture<'static, Result<(Bytes, OwnedSemaphorePermit), Refusal>> {
        async move {
            self.description()?;
            let start = Instant::now();
            let time = deadline.saturating_duration_since(start);
            let mut sampling = pin!(self.sample_in_turn(request, max_bytes, turns));
            match tokio::time::timeout(time - BLAME_LEAD_TIMEOUT.min(time / 4), &mut sampling).await {
                Ok(reply) => reply,
                // The other servers may have answered during the suspension.
                Err(_) if self.cluster().was_suspended_since(start) => sampling.await,
                Err(_) => Err(Refusal::Failed(self.why_late(time / 2))),
            }
        }
        .boxed()
    }
}

impl ServerList {
    /// Opens the part that the server with this number in the list holds of the partitioned graph in `dir`, the `N-parts`
    /// folder, see [`DistGraph::open_part`].
    ///
    /// # Errors
    /// The errors of [`Part::open`].
    ///
    /// # Panics
    /// If `server` is not below the number of servers.
    pub fn open_part(&self, dir: &Path, server: usize, verify: bool) -> Result<Part, GraphError> {
        DistGraph::open_part(dir, server, self.addresses().len(), verify)
    }
}

/// Converts an error of sampling to the reason that the client is told.
fn refuse(error: SampleError) -> Refusal {
    match error {
        SampleError::BatchTooLarge { .. } => Refusal::TooLarge,
        SampleError::NoSuchNode { what } | SampleError::Layout { what } => Refusal::Invalid(what),
        error => Refusal::Failed(with_causes(&error)),
    }
}
