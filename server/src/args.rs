//! The command line of `sampling-server`.

use anyhow::Context;
use clap::Parser;
use edgecut_cli::{CommandLine, StoreArgs, message};
use edgecut_cluster::{EnvRanks, PartLayout, Protection, ServiceConfig, Token};
use edgecut_dist_sampler::{DistGraphConfig, ServerList};
use edgecut_graph::FeatureDtypes;
use edgecut_stores::{CopiesInUse, StoreUrl, Stores};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Holds one or several parts of a graph, and samples batches for trainers on other machines.
///
/// Trainers name the servers with --servers instead of --dataset-root-dir. They may come and go while the servers run,
/// and several jobs may use the same servers. Ends on SIGTERM or SIGINT, after the requests in progress.
///
/// Underscores in flags are accepted too: --server_rank.
#[derive(Debug, Parser)]
#[command(
    name = "sampling-server",
    version,
    after_help = "Example with two servers on this machine, each in its own terminal, and two trainers:\n  \
        sampling-server --dataset-root-dir data/partitions/fake/2-parts --servers 127.0.0.1:29600,127.0.0.1:29601 --server-rank 0\n  \
        sampling-server --dataset-root-dir data/partitions/fake/2-parts --servers 127.0.0.1:29600,127.0.0.1:29601 --server-rank 1\n  \
        train node --servers 127.0.0.1:29600,127.0.0.1:29601 --nproc-per-node 2\n\n\
        Exit status: 0 ended by a signal, 1 error, 2 invalid flags."
)]
pub(crate) struct Args {
    /// The N-parts folder that partition-graph wrote, or its URL in an object store
    #[arg(long, value_name = "DIR")]
    dataset_root_dir: PathBuf,
    /// All servers as HOST:PORT,HOST:PORT. With more servers than parts, the first ones hold part 0, and so on; with
    /// fewer, each holds several parts. All servers and trainers need the same list [default: EDGECUT_SERVERS]
    #[arg(long, value_name = "LIST", env = "EDGECUT_SERVERS", hide_env = true)]
    servers: String,
    /// Number of this server in --servers, from 0 [default: the rank that a launcher has set, such as RANK, SLURM_PROCID
    /// or JOB_COMPLETION_INDEX]
    #[arg(long, value_name = "K")]
    server_rank: Option<usize>,
    /// Address to listen on [default: EDGECUT_LISTEN_ADDR, or the address in --servers if it is an IP address. Else all addresses if there is a
    /// secret, and loopback if there is none]
    #[arg(long, value_name = "IP")]
    listen_addr: Option<IpAddr>,
    /// File with the shared secret of at least 16 bytes, readable only by its owner (chmod 600) [default: EDGECUT_TOKEN,
    /// or the file that EDGECUT_TOKEN_FILE names]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Encrypt all connections with trainers and other servers. Needs a shared secret. Must be equal on all servers and
    /// trainers
    #[arg(long)]
    encrypt: bool,
    /// Detect bytes that a fault of the network has modified, by checksums. Protects from accidents only, not from people.
    /// Must be equal on all servers and trainers. --encrypt detects such bytes as well
    #[arg(long)]
    check_traffic: bool,
    /// Address for HTTP requests for /healthz, /readyz and /metrics (Prometheus). They are not authenticated
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) status_addr: Option<SocketAddr>,
    /// Threads that sample neighbors and gather features [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    num_workers: Option<u32>,
    /// Network threads; each transfers about 3 GB/s [default: the cores / 16, rounded up, at most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    num_network_threads: Option<u32>,
    /// Batches of one trainer that are sampled at the same time or wait to be sent. Further ones wait, so that busy
    /// servers are shared evenly
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_client_batches: u32,
    /// Convert node features to this type at the start, for all node types, or as TYPE=DTYPE,TYPE=DTYPE for some. Must be equal on
    /// all servers. Smaller types take less memory and network: int8 a quarter of f32, with a scale per row. Computation stays in f32
    /// [default: the type in the files]
    #[arg(long, value_name = "f32|f16|bf16|int8")]
    feature_dtype: Option<FeatureDtypes>,
    /// Sample from the memory-mapped files instead of copying the edges into memory. Slower, but saves 4 bytes per edge
    #[arg(long)]
    map_edges: bool,
    /// Verify the checksums of features too, which reads the part's files completely. Sizes and structure, and the
    /// checksums of all other files, are always verified
    #[arg(long)]
    verify: bool,
    /// Seconds to wait for a reply from another server. Less than the trainers' --rpc-timeout of 60, so that they hear
    /// which server is late
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86400))]
    rpc_timeout: u64,
    /// Seconds without an answer of another machine after which its connections end
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86400))]
    heartbeat_timeout: u64,
    /// Seconds to wait at the end for requests in progress
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=86400))]
    grace_period: u64,
    #[command(flatten)]
    stores: StoreArgs,
}

/// The settings of a server.
pub(crate) struct Settings {
    pub(crate) dataset_root_dir: PathBuf,
    pub(crate) servers: ServerList,
    pub(crate) server: usize,
    pub(crate) listen_addr: IpAddr,
    pub(crate) config: DistGraphConfig,
    pub(crate) feature_dtype: FeatureDtypes,
    pub(crate) map_edges: bool,
    pub(crate) verify: bool,
    pub(crate) grace_period: Duration,
}

/// Flags that contradict each other or the environment.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Fetches the parts of the server if `--dataset-root-dir` is a URL. Returns the flags with a local path in its place, and the
/// copy in use.
///
/// # Errors
/// As for [`Args::settings`], and parts that cannot be read.
pub(crate) fn located(line: CommandLine<Args>) -> anyhow::Result<(Args, CopiesInUse)> {
    let Some(given) = line.urls.first() else { return Ok((line.args, CopiesInUse::default())) };
    let Settings { servers, server, .. } = line.args.settings()?;
    let mut stores = Stores::new(line.args.stores.cache_dir.as_deref(), |text| message!("{text}"))?;
    let num_servers = servers.addresses().len();
    let url = StoreUrl::parse(&given.url)?;
    let path = stores.fetch_parts(
        &url,
        |num_parts| {
            let layout = PartLayout::new(num_parts, num_servers);
            layout.parts_of(layout.group_of(server)).collect()
        },
        |_| false,
    )?;
    let (args, _) = line.with_paths(&[(given.clone(), path)]).unwrap_or_else(|error| error.exit());
    Ok((args, stores.into_copies()))
}

impl Args {
    /// Returns the settings, with defaults from the environment.
    ///
    /// # Errors
    /// [`UsageError`] for an invalid list or number of the server, or encryption without a secret; an unreadable secret.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let token = match &self.token_file {
            Some(path) => Some(Token::from_file(path)?),
            None => Token::from_env()?,
        };
        if self.encrypt && token.is_none() {
            let what = "--encrypt needs a shared secret: set --token-file, EDGECUT_TOKEN or EDGECUT_TOKEN_FILE to the \
                        same secret for all servers and trainers";
            return Err(UsageError(what.to_owned()).into());
        }
        let mut service = ServiceConfig::new(token);
        service.protection = Protection::of_flags(self.encrypt, self.check_traffic);
        service.silence_timeout = Duration::from_secs(self.heartbeat_timeout);
        let servers = ServerList::parse(&self.servers, service)
            .map_err(|error| UsageError(format!("--servers: {}", edgecut_cluster::with_causes(&error))))?;
        let num_servers = servers.addresses().len();
        let env = EnvRanks::read()?;
        let server = self.server_rank.or(env.rank).or((num_servers == 1).then_some(0));
        let server = server.with_context(|| {
            let what =
                format!("--server-rank is missing: give the number of this server, from 0 to {}", num_servers - 1);
            UsageError(what)
        })?;
        let Some(address) = servers.addresses().get(server) else {
            let what = format!("--server-rank {server}: --servers lists {num_servers}, numbered from 0");
            return Err(UsageError(what).into());
        };
        let defaults = DistGraphConfig::default();
        Ok(Settings {
            listen_addr: self
                .listen_addr
                .or(env.listen_addr)
                .unwrap_or_else(|| address.default_listen_addr(servers.service())),
            dataset_root_dir: self.dataset_root_dir.clone(),
            server,
            servers,
            config: DistGraphConfig {
                num_workers: self.num_workers.map_or(defaults.num_workers, |n| n as usize),
                num_network_threads: self.num_network_threads.map_or(defaults.num_network_threads, |n| n as usize),
                rpc_timeout_ms: self.rpc_timeout * 1000,
                // A server that is gone should fail the batches that need it soon. Trainers may try again.
                connect_budget_ms: 3_000,
                max_client_batches: self.max_client_batches as usize,
                ..defaults
            },
            feature_dtype: self.feature_dtype.clone().unwrap_or_default(),
            map_edges: self.map_edges,
            verify: self.verify,
            grace_period: Duration::from_secs(self.grace_period),
        })
    }
}
