//! Connections between processes that are not ranks of one job: servers, and clients that come and go.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::address::{check_allowed, listen, local_addr, resolve};
use crate::config::{ClusterConfig, check_secret};
use crate::error::{ClusterError, system};
use crate::failure::keep_alive::end_when_unacknowledged;
use crate::handshake::identity::{Binding, Identity, JobId, Party, Purpose};
use crate::io_error::explain;
use crate::join::acceptor::{AcceptThread, Acceptor, AcceptorSettings, HandshakeLimits, RpcStream};
use crate::join::connector::{self, ConnectorSettings, Target};
use crate::secure::protection::Protection;
use crate::secure::stream::SecureStream;
use crate::token::Token;

/// The default port of the first server on a node.
pub const DEFAULT_SERVER_PORT: u16 = 29600;

/// The settings of connections between servers and clients.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The shared secret. Without one, only loopback addresses and processes of one user work.
    pub token: Option<Token>,
    /// The protection of the bytes on all connections, the same on all servers and clients. Default
    /// [`Protection::Unprotected`].
    pub protection: Protection,
    /// The time after which a connection ends when the other machine does not answer. A process that is suspended for
    /// longer loses its connections and opens new ones. Default: 10 s.
    pub silence_timeout: Duration,
}

impl ServiceConfig {
    /// Makes the settings with the default timeout.
    pub fn new(token: Option<Token>) -> Self {
        Self { token, protection: Protection::default(), silence_timeout: Duration::from_secs(10) }
    }

    /// Returns the settings that the code of ranks reads.
    fn as_cluster_config(&self) -> ClusterConfig {
        ClusterConfig { token: self.token.clone(), protection: self.protection, ..ClusterConfig::new(0, 1, "", 0) }
    }
}

/// A process that connects to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceCaller {
    /// A client, with its rank among the clients that work together.
    Client(usize),
    /// A server, with its number in the list of servers.
    Server(usize),
}

/// The ends of a connection to a server. The server refuses the connection unless it is the one that is meant, and so
/// does the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTarget<'a> {
    /// The process that opens the connection.
    pub from: ServiceCaller,
    /// The number of the server in the list of servers.
    pub server: usize,
    /// The data that the server must serve, see [`ServiceListener::serve`]. With `None` it may serve any.
    pub data: Option<&'a str>,
}

impl ServiceTarget<'_> {
    fn binding(&self) -> Binding {
        let from = match self.from {
            ServiceCaller::Client(rank) => Party::client(rank),
            ServiceCaller::Server(server) => Party::server(server),
        };
        let to = Identity { party: Party::server(self.server), job: self.data.map_or(JobId::UNKNOWN, JobId::of) };
        Binding { purpose: Purpose::Service, from, to }
    }
}

/// A listening socket that accepts authenticated connections of clients. Dropping it closes the socket.
pub struct ServiceListener {
    addr: SocketAddr,
    config: ServiceConfig,
    // `None` once clients are accepted.
    waiting: Option<(TcpListener, mpsc::Sender<RpcStream>)>,
    accept_thread: Option<AcceptThread>,
    incoming: Option<mpsc::Receiver<RpcStream>>,
    name_for_clients: Option<String>,
}

impl ServiceListener {
    /// Opens the socket. Clients can connect, but are not answered before [`ServiceListener::serve`].
    ///
    /// # Errors
    /// A port in use, an address of another machine, or a missing secret for an address that is not loopback.
    pub fn bind(ip: IpAddr, port: u16, config: &ServiceConfig) -> Result<Self, ClusterError> {
        let as_rank = config.as_cluster_config();
        let addr = SocketAddr::new(ip, port);
        check_allowed(&as_rank, "listen on", addr)?;
        check_secret(config.protection, config.token.as_ref())?;
        let listener = listen(addr, "listen_port")?;
        let addr = local_addr(&listener)?;
        let (rpc, incoming) = mpsc::channel(as_rank.rpc_backlog);
        Ok(Self {
            addr,
            config: config.clone(),
            waiting: Some((listener, rpc)),
            accept_thread: None,
            incoming: Some(incoming),
            name_for_clients: None,
        })
    }

    /// Returns the address that the socket is bound to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets another name of the data for clients, before [`ServiceListener::serve`]. Other servers may read a part of the
    /// data only, and know the name of that part.
    pub fn name_for_clients(&mut self, name: String) {
        self.name_for_clients = Some(name);
    }

    /// Begins to accept clients, as the server with this number in the list of servers. `name` identifies the data that
    /// this process serves. A client that expects another server, or other data, is refused.
    ///
    /// # Errors
    /// [`ClusterError::Config`] if this listener accepts clients already, or a thread that cannot be started.
    pub fn serve(&mut self, server: usize, name: &str) -> Result<(), ClusterError> {
        let Some((listener, rpc)) = self.waiting.take() else {
            return Err(ClusterError::Config("this listener accepts clients already".to_owned()));
        };
        let as_rank = self.config.as_cluster_config();
        let acceptor = Arc::new(Acceptor::new(AcceptorSettings {
            party: Party::server(server),
            job: Some(name.to_owned()),
            world_size: 0,
            keep_alive: self.config.silence_timeout,
            limits: HandshakeLimits::of(&as_rank),
            notice: as_rank.notice,
            arrivals: None,
            rpc,
            pulses: std::sync::mpsc::sync_channel(1).0,
            token: as_rank.token,
            protection: as_rank.protection,
        }));
        if let Some(name) = self.name_for_clients.take() {
            acceptor.name_for_clients(name);
        }
        self.accept_thread = Some(acceptor.start(listener)?);
        Ok(())
    }

    /// Closes the socket. Accepted connections stay open.
    pub fn close(&mut self) {
        self.accept_thread = None;
        self.waiting = None;
    }

    /// Takes the receiver of the authenticated connections, ready for [`SecureStream::into_async`]. It ends when
    /// the listener is dropped. The first call returns the receiver, later calls return `None`.
    pub fn take_incoming(&mut self) -> Option<mpsc::Receiver<(usize, SecureStream)>> {
        self.incoming.take()
    }
}

/// The address of a server, as `HOST:PORT`. An IPv6 address is in brackets.
///
/// ```
/// use edgecut_cluster::ServiceAddress;
///
/// assert_eq!("node-1:29600".parse::<ServiceAddress>()?.to_string(), "node-1:29600");
/// assert_eq!("[::1]:29600".parse::<ServiceAddress>()?.host(), "::1");
/// assert!("node-1".parse::<ServiceAddress>().is_err());
/// # Ok::<(), edgecut_cluster::ClusterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceAddress {
    host: String,
    port: u16,
}

impl ServiceAddress {
    pub(crate) fn new(host: String, port: u16) -> Self {
        Self { host, port }
    }

    /// Returns the host name or IP address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Tries once to open an authenticated connection, within `timeout`. The stream is non-blocking.
    ///
    /// # Errors
    /// A server that cannot be reached, or has another secret or another version; another server than `target` means,
    /// or one that serves other data.
    pub fn connect(
        &self,
        target: &ServiceTarget<'_>,
        config: &ServiceConfig,
        timeout: Duration,
    ) -> Result<SecureStream, ClusterError> {
        let deadline = Instant::now() + timeout;
        check_secret(config.protection, config.token.as_ref())?;
        let as_rank = config.as_cluster_config();
        let binding = target.binding();
        let mut last = None;
        let addrs = resolve(&self.host, self.port, deadline)?;
        for (number, &addr) in addrs.iter().enumerate() {
            check_allowed(&as_rank, "connect to", addr)?;
            let target = Target { binding, ring: None, peer: format!("server {self}"), addr };
            // An address that does not answer leaves time for the others.
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = left / (addrs.len() - number) as u32;
            let settings = ConnectorSettings {
                token: config.token.as_ref(),
                protection: config.protection,
                keep_alive: config.silence_timeout,
            };
            match connector::open_for(&target, settings, timeout) {
                Ok(stream) => {
                    end_when_unacknowledged(stream.socket(), config.silence_timeout)
                        .map_err(system("set a timeout of a connection"))?;
                    return Ok(stream);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| ClusterError::Connect {
            peer: format!("server {self}"),
            cause: explain(io::ErrorKind::NotFound.into()),
        }))
    }

    /// Returns the address to listen on as this server: all IPv4 addresses of this machine if there is a secret, and
    /// loopback otherwise.
    pub fn default_listen_addr(&self, config: &ServiceConfig) -> IpAddr {
        match self.host.parse::<IpAddr>() {
            Ok(ip) => ip,
            Err(_) if config.token.is_some() => Ipv4Addr::UNSPECIFIED.into(),
            Err(_) => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

impl std::fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl std::str::FromStr for ServiceAddress {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let invalid = || {
            let what = format!("{text:?} is not the address of a server: write HOST:PORT, such as node-1:29600");
            ClusterError::Config(what)
        };
        let (host, port) = text.trim().rsplit_once(':').ok_or_else(invalid)?;
        let port: u16 = port.parse().map_err(|_| invalid())?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        if host.is_empty() || port == 0 || (host.contains(':') && bracketed.is_none()) {
            return Err(invalid());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}
