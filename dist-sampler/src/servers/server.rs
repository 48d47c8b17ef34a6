//! The server's side: a part that is served to clients, and batches that are sampled for them.

use crate::batch::sampler::DistNeighborSampler;
use crate::config::dist_graph_config::DistGraphConfig;
use crate::error::SampleError;
use crate::node::dist_graph::{Assembly, DistGraph, Role, layout_of, network_threads};
use crate::part::requests::Refusal;
use crate::rpc::peer::Holders;
use crate::servers::description::Description;
use crate::servers::requests::{SampleRequest, SplitRequest};
use crate::servers::sampled::{decode_seeds, encode_subgraph};
use crate::servers::server_list::{ServerList, part_name};
use bytes::Bytes;
use edgecut_cluster::{Cluster, ServiceCaller, ServiceListener, with_causes};
use edgecut_graph::{Meta, NodeTypeId, Part, Split};
use futures::future::try_join_all;
use std::sync::{Arc, Mutex, PoisonError};

/// The longest that a server treats another server as unreachable without trying again, in milliseconds. A server that
/// was restarted is thus found soon.
const LONGEST_SERVER_MEMORY_MS: u64 = 1_000;

impl DistGraph {
    /// Serves a part to clients, as number `server` of `servers`. The other servers may start later, and each may end
    /// and start again: until then, requests that need its part fail with an error that names it.
    ///
    /// ```
    /// use edgecut_cluster::{Cluster, ServiceConfig, ServiceListener};
    /// use edgecut_dist_sampler::{DistGraph, DistGraphConfig, ServerList};
    /// # use edgecut_graph::part_writer::write_one_part;
    /// # use edgecut_graph::readers::{FakeOptions, fake};
    /// use edgecut_graph::{NodeTypeId, Split};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// # write_one_part(fake(&FakeOptions::default())?, dir)?;
    /// let service = ServiceConfig::new(None);
    /// let listener = ServiceListener::bind("127.0.0.1".parse()?, 0, &service)?;
    /// let servers = ServerList::parse(&listener.addr().to_string(), service)?;
    /// let part = Arc::new(servers.open_part(dir, 0, false)?);
    /// let server = DistGraph::serve(part, servers.clone(), 0, listener, DistGraphConfig::default())?;
    ///
    /// // A trainer, here in the same process, holds no part.
    /// let trainers = Cluster::join_local(1, |_| {})?.remove(0);
    /// let patience = Duration::from_secs(10);
    /// let client = DistGraph::connect(servers, trainers, DistGraphConfig::default(), patience)?;
    /// let (node_type, split) = (NodeTypeId(0), Split::Train);
    /// assert_eq!(client.split_nodes(node_type, split)?, server.split_nodes(node_type, split)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
        let description =
            Description { server, num_servers: layout.num_processes(), fingerprint: fingerprint.clone(), meta: text };
        let description = serde_json::to_vec(&description).map_err(as_json)?;
        let name = part_name(&fingerprint, part.id().0);
        let caller = ServiceCaller::Server(server);
        let holders = Holders::Servers { servers: Arc::new(servers), data: fingerprint.into(), caller };
        let runtime = network_threads(&config)?;
        // A server is in no job with others, so that it outlives them.
        let cluster = Cluster::join_local(1, |_| {})?.remove(0);
        let role = Role::Server { description: description.into(), listener: Mutex::new(listener) };
        let assembly = Assembly { part, cluster, config, holders, layout, role, spread: server };
        let node = Self::assemble(assembly, runtime, Some(incoming))?;
        if let Role::Server { listener, .. } = &node.role {
            listener.lock().unwrap_or_else(PoisonError::into_inner).serve(server, &name)?;
        }
        Ok(node)
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
    pub async fn reach_peers(&self) -> Result<(), SampleError> {
        // A request for no nodes, which needs no work.
        let request = SplitRequest { node_type: NodeTypeId(0), split: Split::Train, start: u64::MAX };
        let asked = self.peers.iter().flatten().map(|peer| peer.ask(request, Some(size_of::<u32>())));
        try_join_all(asked).await.map(drop)
    }

    /// Returns the description that clients get, empty if this process is no server.
    pub(crate) fn description(&self) -> Bytes {
        match &self.role {
            Role::Server { description, .. } => description.clone(),
            Role::Rank | Role::Client { .. } => Bytes::new(),
        }
    }

    /// Samples a batch for a client.
    pub(crate) async fn sample_for_client(
        self: &Arc<Self>,
        request: SampleRequest,
        max_bytes: usize,
    ) -> Result<Bytes, Refusal> {
        let seeds = decode_seeds(&request.lengths, &request.seeds).map_err(Refusal::Invalid)?;
        let sampler = DistNeighborSampler::from_wire(self.clone(), request.sampler).map_err(refuse)?;
        let subgraph = Arc::new(sampler).sample(seeds, request.key).await.map_err(refuse)?;
        let encode = move || encode_subgraph(&subgraph, max_bytes);
        self.workers.run(encode).await.map_err(refuse)?.ok_or(Refusal::TooLarge)
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
