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
use crate::io_error::explain;
use crate::join::acceptor::{AcceptThread, Acceptor, AcceptorSettings, HandshakeLimits, RpcStream};
use crate::join::connector::{self, ConnectorSettings, Target};
use crate::join::messages::Hello;
use crate::secure::protection::Protection;
use crate::secure::stream::SecureStream;
use crate::token::{Token, random_hex};

/// The default port of the first server on a node.
pub const DEFAULT_SERVER_PORT: u16 = 29600;

/// The settings of connections between servers and clients.
///
/// ```
/// use edgecut_cluster::ServiceConfig;
///
/// let config = ServiceConfig::new(None);
/// assert_eq!(config.silence_timeout.as_secs(), 10);
/// ```
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

/// A listening socket that accepts authenticated connections of clients. Dropping it closes the socket.
///
/// ```
/// use edgecut_cluster::{ServiceAddress, ServiceConfig, ServiceListener};
/// use std::time::Duration;
///
/// let config = ServiceConfig::new(None);
/// let mut listener = ServiceListener::bind("127.0.0.1".parse()?, 0, &config)?;
/// let server: ServiceAddress = listener.addr().to_string().parse()?;
/// listener.serve("dataset 7")?;
/// let mut incoming = listener.take_incoming().expect("nobody has taken it");
/// server.connect(Some("dataset 7"), &config, Duration::from_secs(5))?;
/// assert!(incoming.blocking_recv().is_some());
/// // A client that expects another service is refused.
/// assert!(server.connect(Some("dataset 8"), &config, Duration::from_secs(5)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ServiceListener {
    addr: SocketAddr,
    acceptor: Arc<Acceptor>,
    listener: Option<TcpListener>,
    accept_thread: Option<AcceptThread>,
    incoming: Option<mpsc::Receiver<RpcStream>>,
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
        let acceptor = Arc::new(Acceptor::new(AcceptorSettings {
            job: random_hex::<16>()?,
            world_size: 0,
            keep_alive: config.silence_timeout,
            limits: HandshakeLimits::of(&as_rank),
            notice: as_rank.notice,
            arrivals: None,
            rpc,
            pulses: std::sync::mpsc::sync_channel(1).0,
            token: as_rank.token,
            protection: as_rank.protection,
        }));
        Ok(Self { addr, acceptor, listener: Some(listener), accept_thread: None, incoming: Some(incoming) })
    }

    /// Returns the address that the socket is bound to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Begins to accept clients. `name` identifies the data that this process serves: a client that expects another
    /// name is refused.
    ///
    /// # Errors
    /// [`ClusterError::Config`] if this listener accepts clients already, or a thread that cannot be started.
    pub fn serve(&mut self, name: &str) -> Result<(), ClusterError> {
        let Some(listener) = self.listener.take() else {
            return Err(ClusterError::Config("this listener accepts clients already".to_owned()));
        };
        self.acceptor.serve_clients(name);
        self.accept_thread = Some(self.acceptor.start(listener)?);
        Ok(())
    }

    /// Closes the socket. Accepted connections stay open.
    pub fn close(&mut self) {
        self.accept_thread = None;
        self.listener = None;
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

    /// Tries once to open an authenticated connection, within `timeout`. The stream is non-blocking. `name` is the data
    /// that the server must serve, see [`ServiceListener::serve`]; with `None` it may serve any.
    ///
    /// # Errors
    /// A server that cannot be reached, has another secret or another version, or serves other data.
    pub fn connect(
        &self,
        name: Option<&str>,
        config: &ServiceConfig,
        timeout: Duration,
    ) -> Result<SecureStream, ClusterError> {
        let deadline = Instant::now() + timeout;
        check_secret(config.protection, config.token.as_ref())?;
        let as_rank = config.as_cluster_config();
        let hello = Hello::Client { expects: name.map(str::to_owned) };
        let mut last = None;
        let addrs = resolve(&self.host, self.port, deadline)?;
        for (number, &addr) in addrs.iter().enumerate() {
            check_allowed(&as_rank, "connect to", addr)?;
            let target = Target { hello: &hello, peer: format!("server {self}"), addr };
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
    ///
    /// ```
    /// use edgecut_cluster::{ServiceAddress, ServiceConfig};
    ///
    /// let server: ServiceAddress = "node-1:29600".parse()?;
    /// assert!(server.default_listen_addr(&ServiceConfig::new(None)).is_loopback());
    /// # Ok::<(), edgecut_cluster::ClusterError>(())
    /// ```
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
