//! The client's side: a graph without a part of its own.

use crate::config::dist_graph_config::DistGraphConfig;
use crate::config::server_list::{ServerList, features_name};
use crate::dist_graph::built_features::merged;
use crate::dist_graph::{Assembly, DistGraph, Role, network_threads};
use crate::error::SampleError;
use crate::rpc::peer::Holders;
use crate::servers::description::{Described, describe_all};
use edgecut_cluster::{Cluster, PartLayout, ServiceCaller};
use edgecut_graph::Part;
use std::sync::Arc;
use std::time::Duration;

impl DistGraph {
    /// Connects to servers that hold all parts, as a process that holds none. Samplers and loaders work as on a rank
    /// with a part, and make the same batches. Waits for up to `patience` for servers that do not listen yet. The job of
    /// `cluster` is that of the clients that work together; all of them must name the same servers. Must not be called
    /// from async code.
    ///
    /// A batch is sampled by one server, and the features of its nodes come from their owners directly, so each row
    /// crosses the network once.
    ///
    /// A neighborhood that is too large for one reply is sampled by single hops instead.
    ///
    /// # Errors
    /// [`SampleError::Connect`] for a server that cannot be reached, [`SampleError::Layout`] for servers that do not hold
    /// one graph in the order of the list.
    pub fn connect(
        servers: ServerList,
        cluster: Cluster,
        config: DistGraphConfig,
        patience: Duration,
    ) -> Result<Arc<Self>, SampleError> {
        let runtime = network_threads(&config)?;
        let described = runtime.block_on(describe_all(&servers, &cluster, &config, patience));
        let Described { meta, fingerprint, features } = match described {
            Ok(described) => described,
            Err(error) => {
                // Dropping a runtime waits for attempts to connect, which may take as long as `patience`.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let num_parts = meta.num_parts;
        let built: Arc<[String]> = features.iter().map(|of_server| features_name(of_server)).collect();
        let mut of_servers = Vec::new();
        for (address, of_server) in servers.addresses().iter().zip(features) {
            of_servers.push((format!("server {address}"), of_server));
        }
        let features = merged(of_servers)?;
        let layout = PartLayout::new(num_parts as usize, servers.addresses().len());
        let caller = ServiceCaller::Client(cluster.rank());
        let holders = Holders::Servers { servers: Arc::new(servers), data: fingerprint.into(), built, caller };
        let role = Role::Client { num_parts, features };
        let spread = cluster.rank();
        let part = Arc::new(
            Part::without_nodes(meta)
                .map_err(|error| SampleError::process("read the description of the graph", error))?,
        );
        let assembly = Assembly { part, cluster, config, holders, layout, role, spread };
        Self::assemble(assembly, runtime, None)
    }

    /// Returns whether this process holds no part, and servers sample its batches.
    pub fn is_client(&self) -> bool {
        matches!(self.role, Role::Client { .. })
    }
}
