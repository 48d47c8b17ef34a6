//! The role of this process in the job: the parent of a node's ranks, or a rank.

use crate::args::JobArgs;
use crate::exit::UsageError;
use anyhow::{Context, bail};
use edgecut_cluster::{
    DEFAULT_MASTER_PORT, EnvRanks, IpConfig, Launcher, LocalRanks, NodeRole, SPAWNED, Token, address_of_interface,
    free_port, gloo_listen_addr, node_addresses, share_of_cores,
};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, TcpListener};

/// The most processes per core that make sense, and the number that is allowed on every machine.
const PROCESSES_PER_CORE: usize = 8;
const MOST_PROCESSES_ANYWHERE: usize = 64;

/// The role of this process.
#[derive(Debug)]
pub(crate) enum ProcessRole {
    /// The parent: starts the ranks of this node and monitors them.
    Parent(LocalRanks),
    /// A rank of the job.
    Rank(Rank),
}

/// The identity of a rank, and its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
    pub(crate) local_rank: usize,
    pub(crate) local_world_size: usize,
    pub(crate) master_addr: String,
    pub(crate) master_port: u16,
    /// The address to listen on, if the user set it.
    pub(crate) listen_addr: Option<IpAddr>,
    /// The name of the job, if the user or the launcher of this rank has named it.
    pub(crate) job: Option<String>,
    /// The number of times the job was restarted before this process was started.
    pub(crate) attempt: u64,
    /// The number of the NVIDIA GPU that the rank computes on, if any.
    pub(crate) gpu: Option<usize>,
    /// True if the launcher shows the output of all ranks in one place.
    pub(crate) shares_output: bool,
    /// The number of cores that the launcher assigns to each process, if it reports one.
    launcher_cores: Option<usize>,
}

impl ProcessRole {
    /// Determines the role from the flags, `--ip-config` and a launcher's environment variables, in this order of
    /// precedence. `has_servers` tells whether the ranks share their secret with servers.
    ///
    /// # Errors
    /// [`UsageError`] if these are incomplete or contradict each other; an unreadable file.
    pub(crate) fn find(args: &JobArgs, has_servers: bool) -> anyhow::Result<Self> {
        let env = EnvRanks::read()?;
        if std::env::var_os(SPAWNED).is_some() {
            return Self::spawned(args, env);
        }
        let listed = trainers(args)?;
        let by_flags = args.num_nodes.is_some() || args.node_rank.is_some() || listed.is_some();
        let launched = if by_flags { None } else { Slot::from_env(&env, args)? };
        let slot = match launched {
            Some(slot) => slot,
            None => Slot::from_flags(args, listed.as_ref())?,
        };
        let (master_addr, master_port) = master(args, listed.as_ref(), &env, slot, launched.is_some())?;
        let first = Rank {
            rank: slot.rank,
            world_size: slot.world_size,
            local_rank: slot.local_rank,
            local_world_size: slot.local_world_size,
            master_addr,
            master_port,
            listen_addr: listen_addr(args, listed.as_ref(), &env, slot.is_one_node())?,
            job: env.job.or(env.launcher_job.filter(|_| launched.is_some())),
            attempt: env.attempt.unwrap_or(0),
            gpu: None,
            shares_output: launched.is_some() && shows_all_ranks(env.launcher),
            launcher_cores: env.cores.filter(|_| launched.is_some()),
        };
        let is_alone = slot.world_size == 1 && !has_servers;
        let gets_secret = args.nproc_per_node > 1 && slot.is_one_node() && !has_servers;
        if args.encrypt && !is_alone && !gets_secret && token(args)?.is_none() {
            bail!(usage(
                "--encrypt needs a shared secret: set --token-file, EDGECUT_TOKEN or EDGECUT_TOKEN_FILE to the same \
                 secret for all processes and servers"
            ));
        }
        if args.nproc_per_node == 1 {
            return Ok(Self::Rank(first));
        }
        let cores = share_of_cores(1);
        let most = (PROCESSES_PER_CORE * cores).max(MOST_PROCESSES_ANYWHERE);
        if args.nproc_per_node as usize > most {
            let processes = args.nproc_per_node;
            bail!(usage(format!(
                "--nproc-per-node {processes} is too many for the {cores} cores of this machine: start at most {most}"
            )));
        }
        let token = match token(args)? {
            // Without other nodes or servers nobody else needs the secret, so a random one protects the job.
            None if slot.is_one_node() && !has_servers => Some(Token::random()?),
            token => token,
        };
        Ok(Self::Parent(LocalRanks {
            first_rank: first.rank,
            world_size: first.world_size,
            local_world_size: first.local_world_size,
            master_addr: first.master_addr,
            master_port: first.master_port,
            listen_addr: first.listen_addr,
            token,
            stores_state: false,
            args: None,
        }))
    }

    /// Returns whether processes of the job run on other nodes.
    pub(crate) fn has_other_nodes(&self) -> bool {
        match self {
            Self::Parent(ranks) => ranks.world_size != ranks.local_world_size,
            Self::Rank(rank) => !rank.is_one_node(),
        }
    }

    /// Returns the rank that the parent process has assigned to this process by environment variables.
    fn spawned(args: &JobArgs, env: EnvRanks) -> anyhow::Result<Self> {
        let listen_addr = args.listen_addr.or(env.listen_addr);
        Ok(Self::Rank(Rank::of_env(env, listen_addr).with_context(|| {
            format!("{SPAWNED} is set, but the variables of a started rank are not: do not set it by hand, unset it")
        })?))
    }
}

/// The rank of this process, or the first of the ranks that it starts, without the master's address.
#[derive(Clone, Copy)]
struct Slot {
    rank: usize,
    world_size: usize,
    local_rank: usize,
    local_world_size: usize,
}

impl Slot {
    /// Returns the rank that a launcher has assigned to this process.
    fn from_env(env: &EnvRanks, args: &JobArgs) -> anyhow::Result<Option<Self>> {
        let (rank, world_size) = match (env.rank, env.world_size) {
            (Some(rank), Some(world_size)) => (rank, world_size),
            (Some(_), None) => bail!(usage("RANK is set, but WORLD_SIZE is not: set both or neither")),
            (None, Some(n)) if n > 1 => bail!(usage("WORLD_SIZE is set, but RANK is not: set both or neither")),
            (None, _) => return Ok(None),
        };
        if args.nproc_per_node > 1 {
            let variable = env.launcher.map_or("RANK", Launcher::rank_variable);
            bail!(usage(format!(
                "{variable} makes this process rank {rank} of {world_size}, but --nproc-per-node starts several \
                 processes: let the launcher start every process and leave the flag out, or give --num-nodes and \
                 --node-rank, or unset {variable}"
            )));
        }
        // A local rank without the number of processes on the node cannot be interpreted: assume one process.
        let (local_rank, local_world_size) = match env.local_world_size {
            Some(size) => (env.local_rank.unwrap_or(0), size),
            None => (0, 1),
        };
        Ok(Some(Self { rank, world_size, local_rank, local_world_size }))
    }

    /// Returns the first rank of this node.
    fn from_flags(args: &JobArgs, listed: Option<&IpConfig>) -> anyhow::Result<Self> {
        let per_node = args.nproc_per_node as usize;
        let num_nodes = args.num_nodes.map(|n| n as usize).or(listed.map(|l| l.nodes().len())).unwrap_or(1);
        let node_rank = match args.node_rank {
            Some(rank) => rank as usize,
            None if num_nodes == 1 => 0,
            None => bail!(usage(format!(
                "--node-rank is missing: the job has {num_nodes} nodes, so give the number of this node, from 0"
            ))),
        };
        if node_rank >= num_nodes {
            bail!(usage(format!(
                "--node-rank {node_rank} must be less than --num-nodes {num_nodes}: nodes count from 0"
            )));
        }
        let listed = listed.map(IpConfig::nodes).unwrap_or_default().iter().take(num_nodes);
        if let Some((node, processes)) = listed.filter_map(|n| Some((n, n.processes?))).find(|(_, n)| *n != per_node) {
            let host = &node.host;
            bail!(usage(format!(
                "--nproc-per-node is {per_node}, but --ip-config lists {processes} processes on {host}: make the \
                 numbers equal, or start the job with launch"
            )));
        }
        Ok(Self {
            rank: node_rank * per_node,
            world_size: num_nodes * per_node,
            local_rank: 0,
            local_world_size: per_node,
        })
    }

    fn is_one_node(&self) -> bool {
        self.world_size == self.local_world_size
    }
}

/// Returns the address and port of rank 0, where all ranks meet.
fn master(
    args: &JobArgs,
    listed: Option<&IpConfig>,
    env: &EnvRanks,
    slot: Slot,
    launched: bool,
) -> anyhow::Result<(String, u16)> {
    let addr = args.master_addr.clone().or(listed.map(address_of_master)).or(env.master_addr.clone());
    let addr = match (addr, env.launcher) {
        (Some(addr), _) => addr,
        (None, Some(launcher)) if launched && launcher != Launcher::Torchrun && !slot.is_one_node() => {
            let ranks = slot.world_size;
            bail!(usage(format!(
                "{launcher} does not say where rank 0 of {ranks} runs: give --master-addr, or set MASTER_ADDR"
            )))
        }
        (None, _) => "127.0.0.1".to_owned(),
    };
    let port = args.master_port.or(listed.and_then(IpConfig::master_port)).or(env.master_port);
    let port = match port {
        Some(port) => port,
        // A free port is enough: this process passes it to the ranks that it starts.
        None if slot.is_one_node() && !launched => free_port()?,
        None => DEFAULT_MASTER_PORT,
    };
    Ok((addr, port))
}

impl Rank {
    /// Returns the rank that environment variables name completely.
    fn of_env(env: EnvRanks, listen_addr: Option<IpAddr>) -> Option<Self> {
        Some(Self {
            rank: env.rank?,
            world_size: env.world_size?,
            local_rank: env.local_rank?,
            local_world_size: env.local_world_size?,
            master_addr: env.master_addr?,
            master_port: env.master_port?,
            listen_addr,
            job: env.job,
            attempt: env.attempt.unwrap_or(0),
            gpu: None,
            shares_output: false,
            launcher_cores: None,
        })
    }

    /// Returns true if all ranks of the job run on this node.
    pub(crate) fn is_one_node(&self) -> bool {
        self.world_size == self.local_world_size
    }

    /// Returns the number of cores that this process may use: the launcher's number, or an equal share of the node's.
    pub(crate) fn cores(&self) -> usize {
        let available = share_of_cores(1);
        self.launcher_cores.map_or(share_of_cores(self.local_world_size), |cores| cores.clamp(1, available))
    }
}

/// Returns true if the launcher shows the output of all ranks in one place.
fn shows_all_ranks(launcher: Option<Launcher>) -> bool {
    match launcher {
        Some(Launcher::Slurm | Launcher::OpenMpi | Launcher::Hydra) => true,
        // `launch` sets the variables of torchrun, and the id of its job.
        Some(Launcher::Torchrun) => std::env::var_os("EDGECUT_JOB_ID").is_some(),
        // The pods of Kubernetes have a log each.
        _ => false,
    }
}

fn usage(what: impl Into<String>) -> UsageError {
    UsageError(what.into())
}

/// Returns a note if a launcher has started this process as one of several, and its variables are not read.
pub(crate) fn note_of_unread_rank(args: &JobArgs) -> anyhow::Result<Option<String>> {
    let by_flags = args.num_nodes.is_some() || args.node_rank.is_some() || args.ip_config.is_some();
    if by_flags || std::env::var_os(SPAWNED).is_some() {
        return Ok(None);
    }
    let Some(found) = EnvRanks::read()?.unread else { return Ok(None) };
    Ok(Some(format!(
        "note: {found}, but the launcher does not tell which processes share a node, so this process is a job of its own: for one job, \
         set RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE for each process, and MASTER_ADDR"
    )))
}

/// Checks that the port of rank 0 is free if rank 0 is to run here, so that the other ranks do not wait for it in vain.
///
/// # Errors
/// The port is in use.
pub(crate) fn check_master_port(ranks: &LocalRanks) -> anyhow::Result<()> {
    let LocalRanks { first_rank, ref master_addr, master_port, .. } = *ranks;
    let bound = TcpListener::bind((Ipv4Addr::UNSPECIFIED, master_port));
    match bound.map_err(|error| error.kind()) {
        Err(ErrorKind::AddrInUse) if first_rank == 0 => bail!(
            "listen on {master_addr}:{master_port}: port in use; choose another --master-port or end the process that \
             holds it"
        ),
        _ => Ok(()),
    }
}

/// Returns the nodes in `--ip-config`, without the servers, which are no ranks.
fn trainers(args: &JobArgs) -> anyhow::Result<Option<IpConfig>> {
    let Some(path) = &args.ip_config else { return Ok(None) };
    let config = IpConfig::read(path)?;
    if !config.has_roles() {
        return Ok(Some(config));
    }
    match config.with_role(NodeRole::Trainer) {
        Some(trainers) => Ok(Some(trainers)),
        None => bail!(usage(format!("--ip-config {}: no host has `role: trainer`", path.display()))),
    }
}

/// Returns the address at which all ranks reach rank 0: the one that it listens on, unless it listens on all.
fn address_of_master(listed: &IpConfig) -> String {
    let master = listed.master();
    match master.listen_addr {
        Some(address) if !address.is_unspecified() => address.to_string(),
        _ => master.host.clone(),
    }
}

/// Returns the address to listen on, if it is set. Addresses in `--ip-config` and the interface that PyTorch's variable names count
/// in jobs on several nodes only.
fn listen_addr(
    args: &JobArgs,
    listed: Option<&IpConfig>,
    env: &EnvRanks,
    is_one_node: bool,
) -> anyhow::Result<Option<IpAddr>> {
    let given = args.listen_addr.or(env.listen_addr);
    if given.is_some() || is_one_node {
        return Ok(given);
    }
    match listed_address(args, listed)? {
        Some(address) => Ok(Some(address)),
        None => Ok(gloo_listen_addr()?),
    }
}

/// Returns the address that `--ip-config` gives this node to listen on.
fn listed_address(args: &JobArgs, listed: Option<&IpConfig>) -> anyhow::Result<Option<IpAddr>> {
    let number = args.node_rank.unwrap_or(0) as usize;
    let Some(node) = listed.and_then(|listed| listed.nodes().get(number)) else { return Ok(None) };
    let Some(interface) = &node.interface else { return Ok(node.listen_addr) };
    let addresses = node_addresses().context("list the network interfaces")?;
    let Some(address) = address_of_interface(&addresses, interface) else {
        bail!(usage(format!("--ip-config: this machine has no address of the interface {interface} of {}", node.host)));
    };
    // The file may list node 0 by this address.
    let is_known = number > 0 || args.master_addr.is_some() || node.host == address.to_string();
    if !is_known {
        bail!(usage(format!(
            "--ip-config: the other nodes do not know the address {address} of {interface} on node 0: give it as listen_addr, or \
             start the job with launch"
        )));
    }
    Ok(Some(address))
}

/// Reads the job's shared secret from `--token-file` or the environment, if it is set.
pub(crate) fn token(args: &JobArgs) -> anyhow::Result<Option<Token>> {
    Ok(match &args.token_file {
        Some(path) => Some(Token::from_file(path)?),
        None => Token::from_env()?,
    })
}
