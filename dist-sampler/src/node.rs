//! The membership of one process in distributed sampling.

use crate::SampleError;
use crate::config::SamplingNodeConfig;
use crate::embedding::Shards;
use crate::local::LocalPart;
use crate::peer::{Peer, PeerContext};
use crate::relabel::Relabel;
use crate::service::Service;
use crate::traffic::Traffic;
use crate::workers::Workers;
use edgecut_cluster::Cluster;
use edgecut_graph::{HopKernel, Meta, NodeTypeId, Part, PartitionId};
use futures::{StreamExt, TryStreamExt};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

/// The part that this process holds, the service that answers its peers, and the connections to its peers.
///
/// If the world size is `R` times the number of parts, `R` consecutive ranks hold each part. They share its mapped
/// files and split its seeds.
pub struct SamplingNode {
    pub(crate) part: LocalPart,
    pub(crate) peers: Vec<Option<Arc<Peer>>>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) config: SamplingNodeConfig,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) shards: Arc<Shards>,
    cluster: Cluster,
    context: PeerContext,
    /// Number maps of finished batches, kept for reuse. Their number is the number of batches sampled at once.
    idle: Mutex<Vec<Vec<Relabel>>>,
    runtime: Option<Runtime>,
}

impl SamplingNode {
    /// Returns the part that `rank` of `world_size` holds.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if the world size is not a multiple of the number of parts.
    pub fn part_of_rank(meta: &Meta, rank: usize, world_size: usize) -> Result<PartitionId, SampleError> {
        let parts = meta.num_parts as usize;
        if world_size == 0 || !world_size.is_multiple_of(parts) {
            let what = format!(
                "{parts} parts cannot be shared out evenly over {world_size} ranks: start a multiple of {parts} \
                 processes, or partition into {world_size} parts"
            );
            return Err(SampleError::Layout { what });
        }
        Ok(PartitionId((rank / (world_size / parts)) as u32))
    }

    /// Starts the service and begins to connect to the peers. [`SamplingNode::wait_until_connected`] waits for the
    /// connections.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if `part` is not the part of this rank, [`SampleError::Internal`] if threads cannot be
    /// started.
    pub fn start(part: Arc<Part>, cluster: Cluster, config: SamplingNodeConfig) -> Result<Arc<Self>, SampleError> {
        let rank = cluster.rank();
        let world_size = cluster.world_size();
        let own = Self::part_of_rank(part.meta(), rank, world_size)?;
        if own != part.id() {
            let what = format!("rank {rank} of {world_size} must hold part {own}, but was given part {}", part.id());
            return Err(SampleError::Layout { what });
        }
        let internal = |what: &str, e: std::io::Error| SampleError::Internal { what: format!("{what}: {e}") };
        let runtime = Builder::new_multi_thread()
            .worker_threads(config.num_network_threads.max(1))
            .thread_name("network")
            .enable_all()
            .build()
            .map_err(|e| internal("start network threads", e))?;
        let workers = Arc::new(Workers::new(config.num_workers)?);
        let traffic = Arc::new(Traffic::default());
        let sharers = world_size / part.meta().num_parts as usize;
        let context = PeerContext {
            cluster: cluster.clone(),
            meta: part.meta().clone(),
            config: config.clone(),
            traffic: traffic.clone(),
            workers: workers.clone(),
            dial_slots: Arc::new(Semaphore::new(config.max_connecting.clamp(1, Semaphore::MAX_PERMITS))),
        };
        let peer = |p: u32| {
            // Ranks that share this part spread their requests over the ranks that share the other part.
            let serving = p as usize * sharers + rank % sharers;
            let new = || Peer::new(p, serving, context.clone()).map(Arc::new);
            (PartitionId(p) != own).then(new).transpose()
        };
        let peers = (0..part.meta().num_parts).map(peer).collect::<Result<_, _>>()?;
        let part = LocalPart::new(part, config.max_hub_index_bytes);
        let shards = Arc::new(Shards::default());
        let service = Service {
            part: part.clone(),
            workers: workers.clone(),
            shards: shards.clone(),
            max_message_bytes: config.max_message_bytes,
        };
        let idle = Mutex::default();
        let runtime = Some(runtime);
        let node = Self { part, peers, workers, config, traffic, shards, cluster, idle, runtime, context };
        node.accept_peers(service)?;
        node.connect_in_background();
        Ok(Arc::new(node))
    }

    /// Waits until this process is connected to all ranks that it sends requests to. The connections are opened from
    /// [`SamplingNode::start`] on. A request that is made earlier waits for its connection.
    ///
    /// # Errors
    /// [`SampleError::Connect`] for the first rank that cannot be reached within `connect_budget_ms`.
    pub async fn wait_until_connected(&self) -> Result<(), SampleError> {
        connect_all(self.peers_from_own(), self.config.max_connecting).await
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

    fn accept_peers(&self, service: Service) -> Result<(), SampleError> {
        let Some(mut incoming) = self.cluster.take_rpc_incoming() else {
            return Err(SampleError::Internal { what: "this cluster handle already serves a part".into() });
        };
        let config = self.config.clone();
        self.handle().spawn(async move {
            while let Some((_rank, stream)) = incoming.recv().await {
                let service = service.clone();
                let config = config.clone();
                if let Ok(stream) = TcpStream::from_std(stream) {
                    tokio::spawn(async move { service.serve_peer(stream, &config).await });
                }
            }
        });
        Ok(())
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
        if let Some(peer) = self.peers[part as usize].as_ref().filter(|peer| peer.rank() == rank) {
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

    /// Returns the number of ranks that share each part, and the index of this rank among them.
    pub fn sharers(&self) -> (usize, usize) {
        let sharers = self.cluster.world_size() / self.part().meta().num_parts as usize;
        (sharers, self.cluster.rank() % sharers)
    }

    /// Returns empty number maps, one per node type.
    pub(crate) fn take_relabels(&self) -> Vec<Relabel> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let types = self.part().meta().node_types.len() as u16;
        let new = || (0..types).map(|t| Relabel::new(self.part().owned(NodeTypeId(t)))).collect();
        let mut relabels = idle.unwrap_or_else(new);
        relabels.iter_mut().for_each(Relabel::reset);
        relabels
    }

    /// Returns number maps to the pool for the next batch.
    pub(crate) fn keep_relabels(&self, relabels: Vec<Relabel>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(relabels);
    }
}

/// Connects to `peers`, at most `at_once` at the same time. Stops at the first error.
async fn connect_all(peers: Vec<Arc<Peer>>, at_once: usize) -> Result<(), SampleError> {
    let connecting = futures::stream::iter(peers).map(|peer| async move { peer.connect().await });
    connecting.buffer_unordered(at_once.max(1)).try_collect().await
}

impl Drop for SamplingNode {
    fn drop(&mut self) {
        // Dropping a runtime waits for its threads, which panics on one of these threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
