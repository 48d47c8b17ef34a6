//! Finds out which process of the job this is.

use crate::args::JobArgs;
use crate::exit::UsageError;
use anyhow::{Context, bail};
use edgecut_cluster::{EnvRanks, IpConfig, Token};
use std::net::TcpListener;

/// Set for the processes that `--nproc-per-node` starts: their place is in the environment alone.
pub(crate) const SPAWNED: &str = "EDGECUT_SPAWNED";
/// PyG's `--ddp_port`.
const DEFAULT_MASTER_PORT: u16 = 11111;

/// What this process has to do.
#[derive(Debug)]
pub(crate) enum Place {
    /// Start the ranks of this node and watch them.
    Parent(Ranks),
    /// Be a rank.
    Rank(Rank),
}

/// The ranks that this node runs.
#[derive(Debug)]
pub(crate) struct Ranks {
    pub(crate) first: Rank,
    pub(crate) token: Option<Token>,
    /// Threads that each of them computes with.
    pub(crate) num_threads: usize,
}

/// One process of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
    pub(crate) local_rank: usize,
    pub(crate) local_world_size: usize,
    pub(crate) master_addr: String,
    pub(crate) master_port: u16,
}

impl Place {
    /// Flags win over `--ip-config`, and that over the variables that torchrun sets.
    pub(crate) fn find(args: &JobArgs) -> anyhow::Result<Self> {
        let env = EnvRanks::read()?;
        if std::env::var_os(SPAWNED).is_some() {
            return Self::spawned(env);
        }
        let listed = args.ip_config.as_ref().map(IpConfig::read).transpose()?;
        let per_node = args.nproc_per_node as usize;
        let from_env = args.num_nodes.is_none() && args.node_rank.is_none() && listed.is_none() && per_node == 1;
        let placed = args.num_nodes.is_some() || args.node_rank.is_some() || listed.is_some();
        if per_node > 1 && !placed && (env.rank.is_some() || env.world_size.is_some_and(|n| n > 1)) {
            let text = "RANK and WORLD_SIZE place one process, but --nproc-per-node starts several: give --num-nodes and --node-rank, or unset them";
            bail!(usage(text));
        }
        let (rank, world_size) = match (from_env, env.rank, env.world_size) {
            (true, Some(rank), Some(world_size)) => (rank, world_size),
            (true, Some(_), None) => bail!(usage("RANK is set, but WORLD_SIZE is not")),
            (true, None, Some(n)) if n > 1 => bail!(usage("WORLD_SIZE is set, but RANK is not")),
            _ => {
                let num_nodes =
                    args.num_nodes.map(|n| n as usize).or(listed.as_ref().map(|l| l.nodes().len())).unwrap_or(1);
                let node_rank = match args.node_rank {
                    Some(rank) => rank as usize,
                    None if num_nodes == 1 => 0,
                    None => {
                        bail!(usage(format!("--node-rank is missing: which of the {num_nodes} nodes is this, from 0?")))
                    }
                };
                if node_rank >= num_nodes {
                    bail!(usage(format!("--node-rank {node_rank} is not below --num-nodes {num_nodes}")));
                }
                (node_rank * per_node, num_nodes * per_node)
            }
        };
        let (local_rank, local_world_size) = match from_env {
            // Without the size of the node, the place within it says nothing.
            true => env.local_world_size.map_or((0, 1), |size| (env.local_rank.unwrap_or(0), size)),
            false => (0, per_node),
        };
        let master = listed.as_ref().map(IpConfig::master);
        let master_addr = args.master_addr.clone().or(master.map(|m| m.host.clone())).or(env.master_addr);
        let one_node = world_size == local_world_size;
        let master_port = args.master_port.or(listed.as_ref().and_then(IpConfig::master_port)).or(env.master_port);
        let master_port = match master_port {
            Some(port) => port,
            None if one_node && !from_env => free_port()?,
            None => DEFAULT_MASTER_PORT,
        };
        let master_addr = master_addr.unwrap_or_else(|| "127.0.0.1".into());
        let rank = Rank { rank, world_size, local_rank, local_world_size, master_addr, master_port };
        if per_node == 1 {
            return Ok(Self::Rank(rank));
        }
        let token = match token(args)? {
            // On one node nobody else has to know the secret, so one is made up.
            None if one_node => Some(Token::random()?),
            token => token,
        };
        Ok(Self::Parent(Ranks { first: rank, token, num_threads: num_threads(args, per_node) }))
    }

    fn spawned(env: EnvRanks) -> anyhow::Result<Self> {
        let EnvRanks { master_addr, master_port, rank, world_size, local_rank, local_world_size } = env;
        let all = || {
            Some(Rank {
                rank: rank?,
                world_size: world_size?,
                local_rank: local_rank?,
                local_world_size: local_world_size?,
                master_addr: master_addr?,
                master_port: master_port?,
            })
        };
        Ok(Self::Rank(all().with_context(|| format!("{SPAWNED} is set by hand: unset it"))?))
    }
}

fn usage(what: impl Into<String>) -> UsageError {
    UsageError(what.into())
}

/// Threads that a process computes with: its share of the node's cores.
pub(crate) fn num_threads(args: &JobArgs, local_world_size: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    args.num_threads.map_or((cores / local_world_size).max(1), |n| n as usize)
}

/// The job's shared secret, if there is one.
pub(crate) fn token(args: &JobArgs) -> anyhow::Result<Option<Token>> {
    Ok(match &args.token_file {
        Some(path) => Some(Token::from_file(path)?),
        None => Token::from_env()?,
    })
}

/// A port that is free now. Another program could take it before rank 0 does; then rank 0 says so.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("find a free port on 127.0.0.1")?;
    Ok(listener.local_addr().context("find a free port on 127.0.0.1")?.port())
}
