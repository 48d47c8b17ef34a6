//! The list of servers that together hold a graph.

use crate::error::SampleError;
use edgecut_cluster::{ServiceAddress, ServiceConfig};
use edgecut_graph::{FeaturesChecksum, checksum};

/// The servers that together hold a graph, the same list on every server and client. Any number of servers can hold any
/// number of parts, see [`PartLayout`](edgecut_cluster::PartLayout).
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
}

/// Returns the end of the name under which a part is served to clients, which fetch its features; empty without features
/// that were built after the parts. Servers do not fetch features from each other, and do not know the end.
pub(crate) fn features_name(built: &[FeaturesChecksum]) -> String {
    if built.is_empty() { String::new() } else { format!(" features {}", checksum(format!("{built:?}").as_bytes())) }
}

/// Returns the name under which a part of the data `data` is served.
pub(crate) fn part_name(data: &str, part: u32) -> String {
    format!("{data} part {part}")
}
