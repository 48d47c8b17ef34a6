//! The list of servers that together hold a graph.

use crate::error::SampleError;
use crate::node::dist_graph::DistGraph;
use edgecut_cluster::{ServiceAddress, ServiceConfig};
use edgecut_graph::{GraphError, Part};
use std::path::Path;

/// The servers that together hold a graph, the same list on every server and client. Any number of servers can hold any
/// number of parts, see [`PartLayout`](edgecut_cluster::PartLayout).
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

    /// Opens the part that the server with this number in the list holds of the partitioned graph in `dir`, the `N-parts`
    /// folder, see [`DistGraph::open_part`].
    ///
    /// # Errors
    /// The errors of [`Part::open`].
    ///
    /// # Panics
    /// If `server` is not below the number of servers.
    pub fn open_part(&self, dir: &Path, server: usize, verify: bool) -> Result<Part, GraphError> {
        DistGraph::open_part(dir, server, self.addresses.len(), verify)
    }
}

/// Returns the name under which a part of the data `data` is served.
pub(crate) fn part_name(data: &str, part: u32) -> String {
    format!("{data} part {part}")
}
