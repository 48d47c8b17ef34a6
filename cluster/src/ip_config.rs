//! `ip_config.yaml`: the nodes of a job, as YAML or one node per line.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::service::{DEFAULT_SERVER_PORT, ServiceAddress};

/// The most processes per node. A larger number is a typing error.
const MAX_PROCESSES: usize = 4096;

/// The nodes of a job, in the order of their node ranks. The first one is the master.
///
/// The file is YAML with a list of `hosts`, or PyG's plain form: each line holds an IP address or a host name and,
/// optionally, a port. The port on the line of the first node is that of rank 0, others are ignored. Blank lines and
/// text after a `#` are ignored.
///
/// ```
/// use edgecut_cluster::IpConfig;
///
/// let text = "\
/// ## Node 0 is the master: all others connect to it.
/// 10.0.0.1 29500
///
/// 10.0.0.2
/// node-3.lan
/// ";
/// let config = IpConfig::parse(text, "ip_config.yaml")?;
/// assert_eq!(config.nodes().len(), 3);
/// assert_eq!(config.master().host, "10.0.0.1");
///
/// let text = "
/// master_port: 29500
/// hosts:
///   - address: 10.0.0.1
///     processes: 2
///   - address: node-2.lan
///     user: alice
///     ssh_port: 2222
///     processes: 1
///     interface: eth1
///     env: {MALLOC_ARENA_MAX: 2}
/// ";
/// let config = IpConfig::parse(text, "ip_config.yaml")?;
/// assert_eq!(config.master_port(), Some(29500));
/// assert_eq!(config.nodes()[1].user.as_deref(), Some("alice"));
/// # Ok::<(), edgecut_cluster::IpConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpConfig {
    // Never empty.
    nodes: Vec<NodeAddress>,
    master_port: Option<u16>,
    server_port: Option<u16>,
}

/// The role of a node in a job whose graph is on other machines than its training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// It holds parts of the graph and samples.
    Server,
    /// It trains.
    Trainer,
}

/// The address and the settings of a node; in YAML an entry of `hosts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeAddress {
    /// IP address or host name.
    #[serde(rename = "address")]
    pub host: String,
    /// The port of its SSH server.
    #[serde(default)]
    pub ssh_port: Option<u16>,
    /// The user to log in as.
    #[serde(default)]
    pub user: Option<String>,
    /// The number of processes to run on it.
    #[serde(default)]
    pub processes: Option<usize>,
    /// The address that its processes listen on.
    #[serde(default)]
    pub listen_addr: Option<IpAddr>,
    /// The network interface whose address its processes listen on.
    #[serde(default)]
    pub interface: Option<String>,
    /// Environment variables of its processes.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its role, if some nodes are servers.
    #[serde(default)]
    pub role: Option<NodeRole>,
}

/// The contents of a YAML file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct YamlConfig {
    #[serde(default)]
    master_port: Option<NonZero<u16>>,
    #[serde(default)]
    server_port: Option<NonZero<u16>>,
    hosts: Vec<NodeAddress>,
}

/// An error of reading a file of nodes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IpConfigError {
    /// The file cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The file is malformed, contradicts itself, or lists no node. The text begins with the file, and the line if it is known.
    #[error("{0}")]
    Content(String),
}

impl IpConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, is malformed or lists no node. The error names the file and the line.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, IpConfigError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|cause| IpConfigError::Read { path: path.to_owned(), cause })?;
        Self::parse(&text, path)
    }

    /// Parses the text of a file. `path` is only used in errors.
    ///
    /// # Errors
    /// A text that is malformed or lists no node. The error names the line.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Self, IpConfigError> {
        let path = path.as_ref();
        let config = if is_yaml(text) { parse_yaml(text, path)? } else { parse_plain(text, path)? };
        if config.nodes.is_empty() {
            return Err(content(path, ": the file lists no node"));
        }
        Ok(config)
    }

    /// Returns all nodes; at least one.
    pub fn nodes(&self) -> &[NodeAddress] {
        &self.nodes
    }

    /// Returns the node of rank 0.
    pub fn master(&self) -> &NodeAddress {
        &self.nodes[0]
    }

    /// Returns the port of rank 0, if the file gives one.
    pub fn master_port(&self) -> Option<u16> {
        self.master_port
    }

    /// Returns whether the file gives its nodes roles.
    pub fn has_roles(&self) -> bool {
        self.nodes.iter().any(|graph| graph.role.is_some())
    }

    /// Keeps the nodes with a role. Returns `None` if there are none.
    pub fn with_role(mut self, role: NodeRole) -> Option<Self> {
        self.nodes.retain(|graph| graph.role == Some(role));
        if self.nodes.is_empty() { None } else { Some(self) }
    }

    /// Returns the addresses of the servers that the nodes with the role `server` run. The servers of one node have
    /// consecutive ports, from `server_port` of the file on, or from [`DEFAULT_SERVER_PORT`].
    pub fn servers(&self) -> Vec<ServiceAddress> {
        let first = self.server_port.unwrap_or(DEFAULT_SERVER_PORT);
        let mut servers = Vec::new();
        for node in self.nodes.iter().filter(|graph| graph.role == Some(NodeRole::Server)) {
            let host = match node.listen_addr {
                Some(addr) => addr.to_string(),
                None => node.host.clone(),
            };
            for number in 0..node.processes.unwrap_or(1) {
                servers.push(ServiceAddress::new(host.clone(), first.saturating_add(number as u16)));
            }
        }
        servers
    }

    /// Keeps the first `count` nodes, but at least one; all of them if there are fewer.
    pub fn take(mut self, count: usize) -> Self {
        self.nodes.truncate(count.max(1));
        self
    }
}

/// Returns whether a text is YAML: its first line that is not blank or a comment is a key, a list item or a YAML
/// marker. An IPv6 address such as `fe80::1` is none of these.
fn is_yaml(text: &str) -> bool {
    let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let Some(first) = lines.find(|line| !line.is_empty()) else { return false };
    if let Some((key, rest)) = first.split_once(':')
        && key.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && (rest.is_empty() || rest.starts_with(' '))
    {
        return true;
    }
    first == "-" || first.starts_with("- ") || first.starts_with("---") || first.starts_with(['{', '['])
}

fn parse_yaml(text: &str, path: &Path) -> Result<IpConfig, IpConfigError> {
    let config: YamlConfig = serde_saphyr::from_str(text).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
        content(path, &format!(":{line}:{column}: {}", reason_of(&error)))
    })?;
    for (index, node) in config.hosts.iter().enumerate() {
        if let Some(reason) = problem_of(node) {
            return Err(content(path, &format!(": host {} ({}): {reason}", index + 1, node.host)));
        }
    }
    if let Some(reason) = roles_problem(&config.hosts) {
        return Err(content(path, &format!(": {reason}")));
    }
    let server_port = config.server_port.map(NonZero::get);
    Ok(IpConfig { nodes: config.hosts, master_port: config.master_port.map(NonZero::get), server_port })
}

fn content(path: &Path, fault: &str) -> IpConfigError {
    IpConfigError::Content(format!("{}{fault}", path.display()))
}

/// Returns the first line of a YAML error, without the position, which the error of this crate has already.
fn reason_of(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.trim_start_matches("error: ");
    let reason = match first.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((_, reason)) => reason,
        None => &first[..first.rfind(" at line ").unwrap_or(first.len())],
    };
    match reason {
        "expected mapping start" => {
            "expected keys with values, such as `hosts:` with a line `- address: 10.0.0.1` for each node".to_owned()
        }
        reason => reason.to_owned(),
    }
}

/// Returns what is wrong with an entry of `hosts`; `None` if it is valid.
fn problem_of(node: &NodeAddress) -> Option<String> {
    if !is_host(&node.host) {
        return Some("its address is neither an IP address nor a host name".into());
    }
    if node.user.as_ref().is_some_and(|user| user.is_empty() || user.starts_with('-')) {
        return Some("its user is not a valid user name".into());
    }
    if node.ssh_port == Some(0) || node.processes.is_some_and(|n| !(1..=MAX_PROCESSES).contains(&n)) {
        return Some(format!("ssh_port must be at least 1, and processes must be from 1 to {MAX_PROCESSES}"));
    }
    if node.listen_addr.is_some() && node.interface.is_some() {
        return Some("give listen_addr or interface, not both".into());
    }
    let bad = node.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0']));
    bad.map(|name| format!("{name:?} is not a valid name of an environment variable"))
}

/// Returns what is wrong with the roles of the hosts; `None` if they are valid.
fn roles_problem(hosts: &[NodeAddress]) -> Option<String> {
    let without = hosts.iter().find(|graph| graph.role.is_none());
    if let (Some(node), true) = (without, hosts.iter().any(|graph| graph.role.is_some())) {
        let host = &node.host;
        return Some(format!("host {host} has no role, but others have: add `role: server` or `role: trainer`"));
    }
    let unknown = hosts.iter().find(|graph| graph.role == Some(NodeRole::Server) && graph.interface.is_some())?;
    let host = &unknown.host;
    Some(format!("host {host} is a server, whose address trainers need: give listen_addr instead of interface"))
}

fn parse_plain(text: &str, path: &Path) -> Result<IpConfig, IpConfigError> {
    let mut config = IpConfig { nodes: Vec::new(), master_port: None, server_port: None };
    for (index, line) in text.lines().enumerate() {
        let fields = line.split('#').next().unwrap_or_default();
        let parsed = parse_line(fields).map_err(|reason| content(path, &format!(":{}: {reason}", index + 1)));
        if let Some((host, port)) = parsed? {
            if config.nodes.is_empty() {
                config.master_port = port;
            }
            config.nodes.push(NodeAddress { host, ..NodeAddress::default() });
        }
    }
    Ok(config)
}

/// Parses a line of the plain form, without its comment; `None` for a blank line.
fn parse_line(line: &str) -> Result<Option<(String, Option<u16>)>, String> {
    let mut fields = line.split_whitespace();
    let Some(host) = fields.next() else { return Ok(None) };
    let port = fields.next().map(parse_port).transpose()?;
    if fields.next().is_some() {
        return Err(format!("expected `ip` or `ip port`, found {:?}", line.trim()));
    }
    if !is_host(host) {
        return Err(format!("{host:?} is neither an IP address nor a host name; expected `ip` or `ip port`"));
    }
    Ok(Some((host.to_owned(), port)))
}

fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{text:?} is not a port from 1 to 65535")),
    }
}

fn is_host(text: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    // A name without letters, such as 10.0.0.300, is an IP address with a typing error.
    let is_name = text.bytes().all(is_name_byte) && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    (is_name && !text.starts_with('-')) || text.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        IpConfig::parse(text, "conf/ip.yaml").unwrap_err().to_string()
    }

    #[test]
    fn reads_addresses_ports_and_names() {
        let config = IpConfig::parse("# nodes\n\n10.0.0.1 29500\r\n::1\nnode_2.lan  80 # last", "x").unwrap();
        let hosts: Vec<_> = config.nodes.iter().map(|node| node.host.as_str()).collect();
        assert_eq!(hosts, ["10.0.0.1", "::1", "node_2.lan"]);
        assert_eq!(config.master_port(), Some(29500));
        let config = IpConfig::parse("fe80::1\n2001:db8::", "x").unwrap();
        assert_eq!((config.nodes.len(), config.master_port()), (2, None));
    }

    #[test]
    fn a_bad_line_is_named() {
        assert!(error("10.0.0.1\n10.0.0.300").starts_with("conf/ip.yaml:2: \"10.0.0.300\""));
        assert!(error("10.0.0.1 0").contains("conf/ip.yaml:1: \"0\" is not a port"));
        assert!(error("10.0.0.1 1 2").contains("expected `ip` or `ip port`"));
        assert!(error("-oProxyCommand=x").contains("neither"));
    }

    #[test]
    fn reads_yaml() {
        let text = "# a cluster\nhosts:\n- {address: a.lan, user: bob, ssh_port: 22, env: {K: 1, L: x}}\n\
                    - address: 10.0.0.2\n  processes: 4\n  listen_addr: 10.1.0.2\n";
        let config = IpConfig::parse(text, "x").unwrap();
        let env = [("K", "1"), ("L", "x")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let first = NodeAddress {
            host: "a.lan".into(),
            user: Some("bob".into()),
            ssh_port: Some(22),
            env: env.into(),
            ..NodeAddress::default()
        };
        assert_eq!(config.master(), &first);
        assert_eq!(config.nodes()[1].processes, Some(4));
        assert_eq!(config.nodes()[1].listen_addr, Some([10, 1, 0, 2].into()));
        assert_eq!(config.take(1).nodes().len(), 1);
    }

    #[test]
    fn a_place_in_yaml_that_is_wrong_is_named() {
        for (text, place) in [
            ("hosts:\n  - address: a\n    prot: 22\n", "conf/ip.yaml:3:"),
            ("hosts:\n  - address: a\n    ssh_port: many\n", "conf/ip.yaml:3:15: "),
            ("hosts:\n  - address: a\n    listen_addr: 300.0.0.1\n", "conf/ip.yaml:3:"),
            ("hosts:\n  - address: [a\n", "conf/ip.yaml:"),
            ("hosts:\n  - user: a\n", "conf/ip.yaml:2:"),
            ("nodes:\n", "conf/ip.yaml:1:"),
            ("master_port: 0\nhosts: []\n", "conf/ip.yaml:1:"),
        ] {
            let error = error(text);
            assert!(error.starts_with(place), "{error}");
            assert!(!error.contains('\n') && !error.contains(" at line "), "{error}");
        }
        assert!(error("hosts:\n  - address: -oProxyCommand=x").contains("host 1 (-oProxyCommand=x)"));
        assert!(error("hosts: [{address: a, processes: 5000}]").contains("from 1 to 4096"));
        assert!(error("hosts:\n  - address: a\n    user: -l").contains("not a valid user name"));
        assert!(error("hosts: [{address: a, listen_addr: 1.2.3.4, interface: eth0}]").contains("not both"));
        assert_eq!(error("hosts: []\n"), "conf/ip.yaml: the file lists no node");
        let expected = "conf/ip.yaml:2:5: expected keys with values, such as `hosts:` with a line `- address: 10.0.0.1` for each node";
        assert_eq!(error("hosts:\n  - 10.0.0.1\n"), expected);
    }

    #[test]
    fn an_empty_file_is_an_error() {
        assert_eq!(error("# nothing\n"), "conf/ip.yaml: the file lists no node");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = IpConfig::read("/nonexistent/ip_config.yaml").unwrap_err().to_string();
        assert!(error.contains("/nonexistent/ip_config.yaml"), "{error}");
    }
}
