//! The list of servers that together hold a graph.

use crate::error::SampleError;
use edgecut_cluster::{ServiceAddress, ServiceConfig};
use edgecut_graph::{Meta, PartitionId};

/// The servers that together hold a graph, the same list on every server and client. With `R` times as many servers as
/// parts, `R` consecutive servers hold each part.
///
/// ```
/// use edgecut_cluster::ServiceConfig;
/// use edgecut_dist_sampler::ServerList;
/// let servers = ServerList::parse("node-1:29600,node-2:29600", ServiceConfig::new(None))?;
/// assert_eq!(servers.addresses()[1].host(), "node-2");
/// # Ok::<(), edgecut_dist_sampler::SampleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServerList {
    addresses: Vec<ServiceAddress>,
    service: ServiceConfig,
}

impl ServerList {
    /// Makes a list.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if it is empty or names an address twice.
    pub fn new(addresses: Vec<ServiceAddress>, service: ServiceConfig) -> Result<Self, SampleError> {
        if addresses.is_empty() {
            return Err(SampleError::Layout { what: "the list of servers is empty: name at least one".into() });
        }
        let twice = (1..addresses.len()).find(|&at| addresses[..at].contains(&addresses[at]));
        if let Some(at) = twice {
            let what = format!("the list of servers names {} twice", addresses[at]);
            return Err(SampleError::Layout { what });
        }
        Ok(Self { addresses, service })
    }

    /// Makes a list from its text, `HOST:PORT` with commas in between.
    ///
    /// # Errors
    /// [`SampleError::Cluster`] for an entry that is not `HOST:PORT`, otherwise as [`ServerList::new`].
    pub fn parse(text: &str, service: ServiceConfig) -> Result<Self, SampleError> {
        let addresses = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Self::new(addresses, service)
    }

    /// Returns the addresses.
    pub fn addresses(&self) -> &[ServiceAddress] {
        &self.addresses
    }

    /// Returns the settings of the connections.
    pub fn service(&self) -> &ServiceConfig {
        &self.service
    }

    /// Returns the number of servers that hold each part of a graph.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if the number of servers is not a multiple of the number of parts.
    pub(crate) fn replicas(&self, num_parts: u32) -> Result<usize, SampleError> {
        let servers = self.addresses.len();
        let parts = num_parts as usize;
        if !servers.is_multiple_of(parts) {
            let what = format!(
                "{parts} parts cannot be shared out evenly over {servers} servers: list a multiple of {parts} servers, \
                 or partition into {servers} parts"
            );
            return Err(SampleError::Layout { what });
        }
        Ok(servers / parts)
    }

    /// Returns the part that the server with this number in the list holds.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if the number of servers is not a multiple of the number of parts.
    pub fn part_of_server(&self, meta: &Meta, server: usize) -> Result<PartitionId, SampleError> {
        Ok(PartitionId((server / self.replicas(meta.num_parts)?) as u32))
    }
}

/// Returns the name under which a part of the data `data` is served.
pub(crate) fn part_name(data: &str, part: u32) -> String {
    format!("{data} part {part}")
}
