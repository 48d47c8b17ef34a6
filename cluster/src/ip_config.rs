//! The plain form of `ip_config.yaml`: one node a line.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The nodes of a job, in the order of their node ranks; the first one is the master.
///
/// Each line holds an IP address or a host name and, if wanted, a port. Blank lines and what follows a `#` do not
/// count.
///
/// ```
/// use edgecut_cluster::IpConfig;
///
/// let text = "\
/// ## Node 0 is the master: all others connect to it.
/// 10.0.0.1 29500
///
/// 10.0.0.2         # listens on a port of its own choice
/// node-3.lan 5000
/// ";
/// let config = IpConfig::parse(text, "ip_config.yaml")?;
/// assert_eq!(config.nodes().len(), 3);
/// assert_eq!(config.master().host, "10.0.0.1");
/// assert_eq!(config.nodes()[1].port, None);
/// # Ok::<(), edgecut_cluster::IpConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpConfig {
    // Never empty.
    nodes: Vec<NodeAddress>,
}

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// IP address or host name.
    pub host: String,
    /// The port, where the line gives one.
    pub port: Option<u16>,
}

/// Why a file does not name the nodes of a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IpConfigError {
    /// The file cannot be read.
    #[error("read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// A line is neither `ip` nor `ip port`.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The file has no node in it.
    #[error("{}: names no node", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl IpConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, a bad line (named), a file without nodes.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, IpConfigError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|cause| IpConfigError::Read { path: path.to_owned(), cause })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a file; `path` is only for the errors.
    ///
    /// # Errors
    /// A bad line (named), a text without nodes.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Self, IpConfigError> {
        let path = path.as_ref();
        let mut nodes = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let fields = line.split('#').next().unwrap_or_default();
            if let Some(node) = parse_line(fields).map_err(|reason| IpConfigError::Line {
                path: path.to_owned(),
                line: index + 1,
                reason,
            })? {
                nodes.push(node);
            }
        }
        if nodes.is_empty() {
            return Err(IpConfigError::Empty { path: path.to_owned() });
        }
        Ok(Self { nodes })
    }

    /// All nodes, at least one.
    pub fn nodes(&self) -> &[NodeAddress] {
        &self.nodes
    }

    /// The node of rank 0.
    pub fn master(&self) -> &NodeAddress {
        &self.nodes[0]
    }
}

fn parse_line(line: &str) -> Result<Option<NodeAddress>, String> {
    let mut fields = line.split_whitespace();
    let Some(host) = fields.next() else { return Ok(None) };
    let port = fields.next().map(parse_port).transpose()?;
    if fields.next().is_some() {
        return Err(format!("expected `ip` or `ip port`, found {:?}", line.trim()));
    }
    if !is_host(host) {
        return Err(format!("{host:?} is neither an IP address nor a host name; expected `ip` or `ip port`"));
    }
    Ok(Some(NodeAddress { host: host.to_owned(), port }))
}

fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{text:?} is not a port from 1 to 65535")),
    }
}

fn is_host(text: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    // A name of only digits and dots is an IP address with a typing error.
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
        let nodes: Vec<_> = config.nodes.iter().map(|node| (node.host.as_str(), node.port)).collect();
        assert_eq!(nodes, [("10.0.0.1", Some(29500)), ("::1", None), ("node_2.lan", Some(80))]);
    }

    #[test]
    fn a_bad_line_is_named() {
        assert!(error("10.0.0.1\n10.0.0.300").starts_with("conf/ip.yaml:2: \"10.0.0.300\""));
        assert!(error("10.0.0.1 0").contains("conf/ip.yaml:1: \"0\" is not a port"));
        assert!(error("10.0.0.1 1 2").contains("expected `ip` or `ip port`"));
        assert!(error("nodes:").contains("conf/ip.yaml:1"));
        assert!(error("-oProxyCommand=x").contains("neither"));
    }

    #[test]
    fn an_empty_file_is_an_error() {
        assert_eq!(error("# nothing\n"), "conf/ip.yaml: names no node");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = IpConfig::read("/nonexistent/ip_config.yaml").unwrap_err().to_string();
        assert!(error.contains("/nonexistent/ip_config.yaml"), "{error}");
    }
}
