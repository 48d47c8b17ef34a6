//! The description that a server gives of itself and its graph.

use crate::config::dist_graph_config::DistGraphConfig;
use crate::config::server_list::ServerList;
use crate::error::{PeerName, SampleError};
use crate::part::requests::Refusal;
use crate::rpc::connection::{Connection, OpenConnection};
use crate::rpc::dialer::{DialLimits, Dialer, ServerTarget};
use crate::rpc::messages::Request;
use crate::rpc::server_requests::DescribeRequest;
use crate::timeouts::{DESCRIPTION_RETRY_INTERVAL, MIN_DESCRIPTION_TIMEOUT};
use edgecut_cluster::{Cluster, ServiceAddress, ServiceCaller, with_causes};
use edgecut_graph::{FeaturesChecksum, Meta};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The description that a server gives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    /// The number of the server in its list of servers.
    pub(crate) server: usize,
    /// The length of that list.
    pub(crate) num_servers: usize,
    /// The fingerprint of the partitioning.
    pub(crate) fingerprint: String,
    /// The features of the server's part that were built after the parts.
    pub(crate) features: Vec<FeaturesChecksum>,
    /// The contents of `META.json` without the list of files. A server of several parts describes them as one part.
    pub(crate) meta: String,
}

/// The graph that all servers describe.
pub(crate) struct Described {
    pub(crate) meta: Meta,
    pub(crate) fingerprint: String,
    /// The features that were built after the parts, by server.
    pub(crate) features: Vec<Vec<FeaturesChecksum>>,
}

/// Asks all servers for their descriptions, and checks that they hold one graph in the order of the list. Waits for up
/// to `patience` for servers that do not listen yet, that do not answer, or that do not reach each other yet.
pub(crate) async fn describe_all(
    servers: &ServerList,
    cluster: &Cluster,
    config: &DistGraphConfig,
    patience: Duration,
) -> Result<Described, SampleError> {
    let slots = Arc::new(Semaphore::new(config.max_connecting.clamp(1, Semaphore::MAX_PERMITS)));
    let deadline = Instant::now() + patience;
    let asked = |(server, address): (usize, &ServiceAddress)| {
        let target = ServerTarget {
            address: address.clone(),
            caller: ServiceCaller::Client(cluster.rank()),
            server,
            data: None,
            service: servers.service().clone(),
            cluster: cluster.clone(),
        };
        let limits = DialLimits { budget: patience, failure_memory: Duration::ZERO };
        let name = PeerName::Server(address.to_string());
        let dialer = Dialer::new(name.clone(), Arc::new(target), limits, slots.clone());
        let connection = Connection::new(Arc::new(dialer), config.max_message_bytes);
        AskedServer { connection, name, timeout: config.rpc_timeout(), deadline }
    };
    let asked: Vec<AskedServer> = servers.addresses().iter().enumerate().map(asked).collect();
    // Servers of different graphs never reach each other, so the descriptions are compared before the wait for that.
    let described = try_join_all(asked.iter().map(|server| server.describe(false))).await?;
    let data = &described[0].fingerprint;
    for (number, (address, description)) in servers.addresses().iter().zip(&described).enumerate() {
        let Description { server, num_servers, fingerprint, .. } = description;
        let expected = servers.addresses().len();
        if *num_servers != expected || *server != number {
            return Err(SampleError::Layout {
                what: format!(
                    "server {address} is number {server} of {num_servers} servers, but number {number} of {expected} \
                     in this list: give all servers and clients the same list"
                ),
            });
        }
        if fingerprint != data {
            let first = &servers.addresses()[0];
            let what = format!(
                "servers {first} and {address} hold parts of different partitionings, or their features in different \
                 types: start all servers with the same ones"
            );
            return Err(SampleError::Layout { what });
        }
    }
    // A client may sample from any server, which then needs the other servers.
    try_join_all(asked.iter().map(|server| server.describe(true))).await?;
    let address = &servers.addresses()[0];
    let origin = format!("the description of server {address}");
    let meta = Meta::parse_description(Path::new(&origin), described[0].meta.as_bytes());
    let meta = meta.map_err(|source| SampleError::process("read the description of the graph", source))?;
    let fingerprint = data.clone();
    let features = described.into_iter().map(|description| description.features).collect();
    Ok(Described { meta, fingerprint, features })
}

/// A server that is asked for its description.
struct AskedServer {
    connection: Connection,
    name: PeerName,
    /// The longest wait for one reply.
    timeout: Duration,
    /// The end of all attempts.
    deadline: Instant,
}

impl AskedServer {
    /// Returns the deadline of a request that is sent `now`. A server that has accepted the connection and is then
    /// suspended is awaited no longer than one that has not started, except that a reply has time to arrive.
    fn reply_deadline(&self, now: Instant) -> Instant {
        (now + self.timeout).min(self.deadline.max(now + MIN_DESCRIPTION_TIMEOUT))
    }

    /// Asks for the description. With `when_connected`, waits until the server reaches all other servers.
    async fn describe(&self, when_connected: bool) -> Result<Description, SampleError> {
        let name = &self.name;
        let failed = |why: String| SampleError::Layout { what: format!("{name} did not describe its graph: {why}") };
        let OpenConnection { client, .. } = self.connection.get().await?;
        loop {
            let mut context = tarpc::context::current();
            context.deadline = self.reply_deadline(Instant::now());
            let answer = client.call(context, Request::Describe(DescribeRequest { when_connected })).await;
            match answer.map(|answer| answer.result) {
                Ok(Ok(reply)) => {
                    let text = format!("read the description of {name}");
                    return serde_json::from_slice(&reply.data.bytes)
                        .map_err(|source| SampleError::process(text, source));
                }
                Ok(Err(Refusal::Failed(_) | Refusal::Preparing))
                    if Instant::now() + DESCRIPTION_RETRY_INTERVAL < self.deadline =>
                {
                    tokio::time::sleep(DESCRIPTION_RETRY_INTERVAL).await;
                }
                Ok(Err(Refusal::TooLarge)) => {
                    return Err(failed("the description exceeds `max_message_bytes`".into()));
                }
                Ok(Err(Refusal::Preparing)) => return Err(failed("it still prepares its part".into())),
                Ok(Err(Refusal::Invalid(why) | Refusal::Failed(why))) => return Err(failed(why)),
                Err(error) => return Err(failed(with_causes(&error))),
            }
        }
    }
}
