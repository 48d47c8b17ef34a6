//! A partitioned graph as one process of a job sees it, and requests over all parts.

mod attribute_draft;
pub(crate) mod built_features;
mod cache_features;
pub(crate) mod edge_attributes;
mod edge_ids;
pub(crate) mod edge_lookups;
pub(crate) mod look_ahead;
pub(crate) mod node_attributes;
pub(crate) mod original_ids;
mod part_request;
mod placement;
pub(crate) mod routing;
pub(crate) mod rows_in_flight;
mod seed_edges;
mod source_ids;
mod split_nodes;
mod table_ids;

use crate::cache::cached_features::CachedFeatures;
use crate::config::dist_graph_config::DistGraphConfig;
use crate::dist_graph::look_ahead::LookAheadCache;
use crate::dist_graph::rows_in_flight::RowsInFlight;
use crate::error::SampleError;
use crate::numbering::shared::Relabel;
use crate::part::embedding_shards::Shards;
use crate::part::local_part::LocalPart;
use crate::rpc::peer::{Holders, Peer, PeerContext};
use crate::rpc::served::{Served, ServedCount};
use crate::rpc::service::Service;
use crate::rpc::traffic::Traffic;
use crate::workers::Workers;
use bytes::Bytes;
use edgecut_cluster::{Cluster, PartLayout, SecureStream, ServiceListener};
use edgecut_graph::{FeaturesChecksum, GraphError, HopKernel, Meta, NodeTypeId, Part, PartitionId, TableIdSource};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, mpsc};

/// A partitioned graph as one process of a job sees it: the part that the process holds, the service that answers its
/// peers, and the connections to its peers.
///
/// Any number of ranks can hold any number of parts, see [`PartLayout`]. Several ranks that hold one part share its
/// mapped files and split its seeds. A rank that holds several parts treats them as one.
///
/// ```
/// use edgecut_cluster::Cluster;
/// use edgecut_dist_sampler::{DistGraph, DistGraphConfig, share_dataset};
/// use edgecut_graph::readers::{FakeOptions, fake};
/// use std::sync::Arc;
/// // A job of one process, and a graph of one part.
/// let cluster = Cluster::join_local(1, |_| {})?.remove(0);
/// let part = share_dataset(&cluster, || fake(&FakeOptions::default()))?;
/// let graph = DistGraph::start(Arc::new(part), cluster, DistGraphConfig::default())?;
/// graph.handle().block_on(graph.wait_until_connected())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DistGraph {
    pub(crate) part: LocalPart,
    pub(crate) peers: Vec<Option<Arc<Peer>>>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) config: DistGraphConfig,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) shards: Arc<Shards>,
    pub(crate) served: Arc<Served>,
    layout: PartLayout,
    /// By node type, the rows of features that batches wait for.
    pub(crate) rows_in_flight: Vec<RowsInFlight>,
    /// The features of other parts' nodes that this machine keeps.
    pub(crate) cached: OnceLock<CachedFeatures>,
    /// The cache that follows the batches to come.
    look_ahead: OnceLock<LookAheadCache>,
    /// Held while the original ids of the sources of edges are fetched.
    finding_sources: tokio::sync::Mutex<()>,
    /// The reader of the ids of nodes in their tables.
    table_ids: OnceLock<Arc<dyn TableIdSource>>,
    /// The clients of all ranks, made when rows of layers are first read.
    rank_peers: OnceLock<Vec<Option<Arc<Peer>>>>,
    pub(crate) role: Role,
    cluster: Cluster,
    context: PeerContext,
    /// Number maps of finished batches, kept for reuse. Their number is the number of batches sampled at once.
    idle: Mutex<Vec<Vec<Relabel>>>,
    runtime: Option<Runtime>,
}

/// The role of a process.
pub(crate) enum Role {
    /// A rank of a job whose ranks hold the parts.
    Rank,
    /// A server. The listener accepts connections as long as the graph is served.
    Server { description: Bytes, listener: Mutex<ServiceListener> },
    /// A process without a part. Its own empty part comes after the `num_parts` parts of the graph. `features` were built
    /// after the parts.
    Client { num_parts: u32, features: Vec<FeaturesChecksum> },
}

/// The components of a [`DistGraph`].
pub(crate) struct Assembly {
    pub(crate) part: Arc<Part>,
    pub(crate) cluster: Cluster,
    pub(crate) config: DistGraphConfig,
    pub(crate) holders: Holders,
    /// The processes that hold each part.
    pub(crate) layout: PartLayout,
    pub(crate) role: Role,
    /// A number that differs between processes that hold the same part or share its seeds, to spread their requests.
    pub(crate) spread: usize,
}

/// The seeds that a process takes in an epoch: every `sharers`-th of the seeds of some parts, from number `mine` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedShare {
    /// The parts whose seeds are taken.
    pub parts: Range<u32>,
    /// The number of processes that share these seeds.
    pub sharers: usize,
    /// The number of this process among them.
    pub mine: usize,
}

/// Incoming connections, each with the number of the process that opened it.
type IncomingStreams = mpsc::Receiver<(usize, SecureStream)>;

/// Starts the threads for network work.
pub(crate) fn network_threads(config: &DistGraphConfig) -> Result<Runtime, SampleError> {
    Builder::new_multi_thread()
        .worker_threads(config.num_network_threads.max(1))
        .thread_name("network")
        .enable_all()
        .build()
        .map_err(|source| SampleError::process("start network threads", source))
}

impl DistGraph {
    /// Opens the part that `rank` of `world_size` ranks holds of the partitioned graph in `dir`, the `N-parts` folder. With
    /// fewer ranks than parts, this is a group of consecutive parts, copied to the memory of this process. If `verify` is
    /// true, the checksums of features are compared too.
    ///
    /// # Errors
    /// The errors of [`Part::open`].
    ///
    /// # Panics
    /// If `rank` is not below `world_size`.
    pub fn open_part(dir: &Path, rank: usize, world_size: usize, verify: bool) -> Result<Part, GraphError> {
        let layout = PartLayout::new(Meta::read(dir)?.num_parts as usize, world_size);
        Part::open_group(dir, &layout.starts(), PartitionId(layout.group_of(rank) as u32), verify)
    }

    /// Starts the service and begins to connect to the peers. [`DistGraph::wait_until_connected`] waits for the
    /// connections.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if `part` is not what [`DistGraph::open_part`] opens for this rank, [`SampleError::Process`] if threads cannot be
    /// started.
    pub fn start(part: Arc<Part>, cluster: Cluster, config: DistGraphConfig) -> Result<Arc<Self>, SampleError> {
        let rank = cluster.rank();
        let world_size = cluster.world_size();
        let layout = layout_of(&part, world_size, rank, "rank")?;
        let Some(incoming) = cluster.take_rpc_incoming() else {
            return Err(SampleError::Internal { what: "this cluster handle already serves a part".into() });
        };
        let runtime = network_threads(&config)?;
        let assembly =
            Assembly { part, cluster, config, holders: Holders::Ranks, layout, role: Role::Rank, spread: rank };
        Self::assemble(assembly, runtime, Some(incoming))
    }

    /// Starts to serve `incoming` connections and begins to connect to the holders of other parts.
    pub(crate) fn assemble(
        assembly: Assembly,
        runtime: Runtime,
        incoming: Option<IncomingStreams>,
    ) -> Result<Arc<Self>, SampleError> {
        let Assembly { part, cluster, config, holders, layout, role, spread } = assembly;
        let own = part.id();
        let workers = Arc::new(Workers::new(config.num_workers)?);
        let num_node_types = part.meta().node_types.len();
        let num_edge_types = part.meta().edge_types.len();
        let traffic = Arc::new(Traffic::new(layout.num_processes(), num_node_types, num_edge_types));
        let context = PeerContext {
            cluster: cluster.clone(),
            meta: part.meta().clone(),
            config: config.clone(),
            traffic: traffic.clone(),
            workers: workers.clone(),
            dial_slots: Arc::new(Semaphore::new(config.max_connecting.clamp(1, Semaphore::MAX_PERMITS))),
            holders,
        };
        let mut peers = Vec::new();
        for p in 0..part.meta().num_parts {
            if PartitionId(p) == own {
                peers.push(None);
                continue;
            }
            // Processes that share a part, or its seeds, spread their requests over the holders of another part.
            let holders = layout.processes_of(p as usize);
            let holder = holders.start + spread % holders.len();
            peers.push(Some(Arc::new(Peer::new(p, holder, context.clone())?)));
        }
        let part = LocalPart::new(part, config.max_hub_index_bytes);
        let shards = Arc::new(Shards::default());
        let served = Arc::new(Served::default());
        let idle = Mutex::default();
        let cached = OnceLock::new();
        let runtime = Some(runtime);
        let graph = Arc::new(Self {
            part,
            peers,
            workers,
            config,
            traffic,
            shards,
            served,
            layout,
            rows_in_flight: (0..num_node_types).map(|_| RowsInFlight::default()).collect(),
            cached,
            look_ahead: OnceLock::new(),
            finding_sources: tokio::sync::Mutex::default(),
            table_ids: OnceLock::new(),
            rank_peers: OnceLock::new(),
            role,
            cluster,
            idle,
            runtime,
            context,
        });
        if let Some(incoming) = incoming {
            graph.accept_peers(graph.service(), incoming);
        }
        graph.connect_in_background();
        Ok(graph)
    }

    /// Waits until this process is connected to all ranks that it sends requests to. The connections are opened from
    /// [`DistGraph::start`] on. A request that is made earlier waits for its connection.
    ///
    /// # Errors
    /// [`SampleError::Connect`] for the first rank that cannot be reached within `connect_budget_ms`.
    pub fn wait_until_connected(&self) -> BoxFuture<'_, Result<(), SampleError>> {
        Box::pin(connect_all(self.peers_from_own(), self.config.max_connecting))
    }

    /// Returns the names of the processes to which this one is not connected, separated by commas.
    pub(crate) fn missing_peers(&self) -> String {
        let mut missing: Vec<String> = self
            .peers_from_own()
            .iter()
            .filter(|peer| !peer.is_connected())
            .map(|peer| peer.name().to_string())
            .collect();
        missing.dedup();
        missing.join(", ")
    }

    /// Returns the reason why this process has not finished a client's request: the processes that have not answered it
    /// for `silence`.
    pub(crate) fn why_late(&self, silence: Duration) -> String {
        let peers = self.peers_from_own();
        let mut silent: Vec<String> = peers
            .iter()
            .filter(|peer| peer.silence.duration() >= silence)
            .map(|peer| peer.name().to_string())
            .collect();
        silent.dedup();
        if silent.is_empty() {
            return "it is too busy to reply in time".into();
        }
        format!("it waits for {}, without a reply for more than {:.1} s", silent.join(", "), silence.as_secs_f64())
    }

    /// Opens the connections. A failure is remembered and fails the requests to that rank.
    fn connect_in_background(&self) {
        let peers = self.peers_from_own();
        let at_once = self.config.max_connecting;
        self.handle().spawn(async move {
            let _ = connect_all(peers, at_once).await;
        });
    }

    /// Returns all peers in order, starting with the part after this process's, so that ranks do not all start with the
    /// same one.
    fn peers_from_own(&self) -> Vec<Arc<Peer>> {
        let own = self.part().id().index();
        let (before, after) = self.peers.split_at(own);
        after.iter().chain(before).flatten().cloned().collect()
    }

    /// Returns the service that answers requests for the part of this process.
    pub(crate) fn service(self: &Arc<Self>) -> Service {
        let host = Arc::downgrade(self);
        Service {
            part: self.part.clone(),
            workers: self.workers.clone(),
            shards: self.shards.clone(),
            max_message_bytes: self.config.max_message_bytes,
            served: self.served.clone(),
            host,
        }
    }

    fn accept_peers(&self, service: Service, mut incoming: IncomingStreams) {
        let config = self.config.clone();
        self.handle().spawn(async move {
            while let Some((from, stream)) = incoming.recv().await {
                let service = service.clone();
                let config = config.clone();
                if let Ok(stream) = stream.into_async() {
                    tokio::spawn(async move { service.serve_peer(from, stream, &config).await });
                }
            }
        });
    }

    /// Sets a kernel that draws the hops of this process's part that it accepts, for this process's batches and for its
    /// peers' requests. It is used for plain hops: shared neighborhoods, without weights, times and edge attributes.
    /// The kernel must draw the same neighbors as the CPU. A failure of the kernel fails the batch that needs the hop.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if a kernel is already set.
    pub fn draw_with(&self, kernel: Arc<dyn HopKernel>) -> Result<(), SampleError> {
        if self.part.draw_with(kernel) {
            Ok(())
        } else {
            Err(SampleError::Layout { what: "this process already has a kernel that draws hops on a device".into() })
        }
    }

    /// Returns the client of a part at one of the ranks that hold it.
    pub(crate) fn peer_of(&self, part: u32, rank: usize) -> Result<Arc<Peer>, SampleError> {
        if let Some(peer) = self.peers[part as usize].as_ref().filter(|peer| peer.holder() == rank) {
            return Ok(peer.clone());
        }
        Peer::new(part, rank, self.context.clone()).map(Arc::new)
    }

    /// Returns the handle of the runtime that does network work.
    pub fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("the runtime is taken only on drop").handle()
    }

    /// Runs CPU work on the threads that sample and gather, and waits for it.
    ///
    /// # Errors
    /// [`SampleError::Internal`] if `work` panics.
    pub async fn run_on_workers<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SampleError> {
        self.workers.run(work).await
    }

    /// Returns the part that this process holds.
    pub fn part(&self) -> &Arc<Part> {
        &self.part.part
    }

    /// Returns the job to which this process belongs.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the traffic of this process's batches.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Returns the number of processes that hold parts.
    pub fn num_holders(&self) -> usize {
        self.layout.num_processes()
    }

    /// Returns the requests that this process has answered.
    pub fn served(&self) -> ServedCount {
        self.served.count()
    }

    /// Returns the number of processes that hold this process's part, and the index of this one among them.
    pub fn replicas(&self) -> (usize, usize) {
        match self.role {
            Role::Rank => {
                let holders = self.layout.processes_of(self.part().id().index());
                (holders.len(), self.cluster.rank() - holders.start)
            }
            // Only one process holds the empty part of a client. A server answers as if it were alone.
            Role::Server { .. } | Role::Client { .. } => (1, 0),
        }
    }

    /// Returns the first process that holds a part.
    pub(crate) fn first_holder(&self, part: u32) -> usize {
        self.layout.processes_of(part as usize).start
    }

    /// Returns the client of each rank, `None` for this process. All tables of rows share them.
    pub(crate) fn rank_peers(&self) -> Result<&[Option<Arc<Peer>>], SampleError> {
        if let Some(peers) = self.rank_peers.get() {
            return Ok(peers);
        }
        let mut peers = Vec::new();
        for rank in 0..self.cluster.world_size() {
            if rank == self.cluster.rank() {
                peers.push(None);
            } else {
                peers.push(Some(self.peer_of(self.layout.group_of(rank) as u32, rank)?));
            }
        }
        Ok(self.rank_peers.get_or_init(|| peers))
    }

    /// Returns the processes that hold a part.
    pub(crate) fn holders_of(&self, part: usize) -> Range<usize> {
        self.layout.processes_of(part)
    }

    /// Returns true if the same number of processes holds each part.
    pub fn is_even(&self) -> bool {
        self.layout.is_even()
    }

    /// Returns the seeds that this process takes. If the same number of ranks holds each part, these divide the seeds of
    /// their part. Otherwise all ranks share the seeds of all parts, so that each gets the same number. If the number of
    /// clients is a multiple of the number of parts, clients divide the seeds as the same number of ranks with parts
    /// would, and otherwise share those of all parts.
    pub fn seed_share(&self) -> SeedShare {
        let rank = self.cluster.rank();
        let world_size = self.cluster.world_size();
        let own = self.part().id().0;
        let num_parts = match self.role {
            // A server has no seeds; it answers as if it were alone.
            Role::Server { .. } => return SeedShare { parts: own..own + 1, sharers: 1, mine: 0 },
            Role::Rank => self.part().meta().num_parts,
            Role::Client { num_parts, .. } => num_parts,
        };
        if !world_size.is_multiple_of(num_parts as usize) {
            return SeedShare { parts: 0..num_parts, sharers: world_size, mine: rank };
        }
        let sharers = world_size / num_parts as usize;
        let part = (rank / sharers) as u32;
        SeedShare { parts: part..part + 1, sharers, mine: rank % sharers }
    }

    /// Returns true if this process is the first of those that hold its part. Client processes hold none.
    pub fn holds_first_copy(&self) -> bool {
        !self.is_client() && self.replicas().1 == 0
    }

    /// Returns the number of groups of parts whose seeds are divided: as many as processes hold, or as servers serve.
    pub fn num_seed_groups(&self) -> usize {
        match self.role {
            Role::Client { num_parts, .. } => num_parts as usize,
            _ => self.part().meta().num_parts as usize,
        }
    }

    /// Returns the number of parts on disk. A process may hold several. On a client, it is [`Self::num_seed_groups`].
    pub fn num_parts(&self) -> usize {
        match self.role {
            Role::Client { num_parts, .. } => num_parts as usize,
            _ => self.part().meta().num_parts_on_disk(),
        }
    }

    /// Returns empty number maps, one per node type.
    pub(crate) fn take_relabels(&self) -> Vec<Relabel> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(mut relabels) = idle {
            relabels.iter_mut().for_each(Relabel::reset);
            return relabels;
        }
        let types = self.part().meta().node_types.len() as u16;
        (0..types).map(|t| Relabel::new(self.part().owned(NodeTypeId(t)))).collect()
    }

    /// Returns number maps to the pool for the next batch.
    pub(crate) fn keep_relabels(&self, relabels: Vec<Relabel>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(relabels);
    }
}

/// Returns the layout of the parts over processes, and checks that `part` is the one of a process.
///
/// # Errors
/// [`SampleError::Layout`] if it is not.
pub(crate) fn layout_of(
    part: &Part,
    num_processes: usize,
    process: usize,
    name: &str,
) -> Result<PartLayout, SampleError> {
    let num_parts = part.meta().num_parts as usize;
    if num_processes == 0 || num_parts > num_processes {
        let what = format!(
            "this part is one of {num_parts}, more than {num_processes} processes hold: open parts with `open_part`, \
             which joins them to {num_processes} groups"
        );
        return Err(SampleError::Layout { what });
    }
    let layout = PartLayout::new(num_parts, num_processes);
    let expected = layout.group_of(process);
    if expected != part.id().index() {
        let given = part.id();
        let what = format!("{name} {process} of {num_processes} must hold part {expected}, but was given part {given}");
        return Err(SampleError::Layout { what });
    }
    Ok(layout)
}

/// Connects to `peers`, at most `at_once` at the same time. Stops at the first error.
async fn connect_all(peers: Vec<Arc<Peer>>, at_once: usize) -> Result<(), SampleError> {
    let connecting = futures::stream::iter(peers).map(|peer| async move { peer.connect().await });
    connecting.buffer_unordered(at_once.max(1)).try_collect().await
}

impl Drop for DistGraph {
    fn drop(&mut self) {
        // Dropping a runtime waits for its threads, which panics on one of these threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
