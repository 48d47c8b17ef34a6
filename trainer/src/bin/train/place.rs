//! Finds out which process of the job this is.

use crate::args::JobArgs;
use crate::exit::UsageError;
use anyhow::{Context, bail};
use edgecut_cluster::{
    DEFAULT_MASTER_PORT, EnvRanks, IpConfig, Launcher, LocalRanks, SPAWNED, Token, free_port, share_of_cores,
};
use std::net::IpAddr;

/// What this process has to do.
#[derive(Debug)]
pub(crate) enum Place {
    /// Start the ranks of this node and watch them.
    Parent(LocalRanks),
    /// Be a rank.
    Rank(Rank),
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
    /// The address to listen on, if it is not to be found out.
    pub(crate) listen_addr: Option<IpAddr>,
    /// The restarts of the job before this process was started.
    pub(crate) attempt: u64,
    /// The number of the NVIDIA GPU that it computes on, if it does.
    pub(crate) gpu: Option<usize>,
    /// The cores that the launcher gives each process, where it says so.
    launcher_cores: Option<usize>,
}

impl Place {
    /// Flags win over `--ip-config`, and that over what a launcher says in the environment.
    pub(crate) fn find(args: &JobArgs) -> anyhow::Result<Self> {
        let env = EnvRanks::read()?;
        if std::env::var_os(SPAWNED).is_some() {
            return Self::spawned(args, env);
        }
        let listed = args.ip_config.as_ref().map(IpConfig::read).transpose()?;
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
            listen_addr: args.listen_addr.or(env.listen_addr),
            attempt: env.attempt.unwrap_or(0),
            gpu: None,
            launcher_cores: env.cores.filter(|_| launched.is_some()),
        };
        if args.nproc_per_node == 1 {
            return Ok(Self::Rank(first));
        }
        let token = match token(args)? {
            // On one node nobody else has to know the secret, so one is made up.
            None if slot.is_one_node() => Some(Token::random()?),
            token => token,
        };
        Ok(Self::Parent(LocalRanks {
            first_rank: first.rank,
            world_size: first.world_size,
            local_world_size: first.local_world_size,
            master_addr: first.master_addr,
            master_port: first.master_port,
            token,
        }))
    }

    /// Whether processes of the job run on other nodes.
    pub(crate) fn has_other_nodes(&self) -> bool {
        match self {
            Self::Parent(ranks) => ranks.world_size != ranks.local_world_size,
            Self::Rank(rank) => rank.world_size != rank.local_world_size,
        }
    }

    fn spawned(args: &JobArgs, env: EnvRanks) -> anyhow::Result<Self> {
        let EnvRanks { master_addr, master_port, rank, world_size, local_rank, local_world_size, .. } = env;
        let all = || {
            Some(Rank {
                rank: rank?,
                world_size: world_size?,
                local_rank: local_rank?,
                local_world_size: local_world_size?,
                master_addr: master_addr?,
                master_port: master_port?,
                listen_addr: args.listen_addr.or(env.listen_addr),
                attempt: env.attempt.unwrap_or(0),
                gpu: None,
                launcher_cores: None,
            })
        };
        Ok(Self::Rank(all().with_context(|| format!("{SPAWNED} is set by hand: unset it"))?))
    }
}

/// The place of the first rank that this process is or starts, before it is known where the job meets.
#[derive(Clone, Copy)]
struct Slot {
    rank: usize,
    world_size: usize,
    local_rank: usize,
    local_world_size: usize,
}

impl Slot {
    /// The rank that a launcher has made this process.
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
                "{variable} makes this process rank {rank} of {world_size}, but --nproc-per-node starts several: let the \
                 launcher start every process and leave the flag out, or give --num-nodes and --node-rank, or unset \
                 {variable}"
            )));
        }
        // Without the size of the node, the place within it says nothing.
        let (local_rank, local_world_size) =
            env.local_world_size.map_or((0, 1), |size| (env.local_rank.unwrap_or(0), size));
        Ok(Some(Self { rank, world_size, local_rank, local_world_size }))
    }

    /// The first rank of this node.
    fn from_flags(args: &JobArgs, listed: Option<&IpConfig>) -> anyhow::Result<Self> {
        let per_node = args.nproc_per_node as usize;
        let num_nodes = args.num_nodes.map(|n| n as usize).or(listed.map(|l| l.nodes().len())).unwrap_or(1);
        let node_rank = match args.node_rank {
            Some(rank) => rank as usize,
            None if num_nodes == 1 => 0,
            None => bail!(usage(format!("--node-rank is missing: which of the {num_nodes} nodes is this, from 0?"))),
        };
        if node_rank >= num_nodes {
            bail!(usage(format!("--node-rank {node_rank} is not below --num-nodes {num_nodes}")));
        }
        let listed = listed.map(IpConfig::nodes).unwrap_or_default().iter().take(num_nodes);
        if let Some((node, processes)) = listed.filter_map(|n| Some((n, n.processes?))).find(|(_, n)| *n != per_node) {
            let host = &node.host;
            bail!(usage(format!(
                "--nproc-per-node is {per_node}, but --ip-config has {processes} processes on {host}: make them equal, or start \
                 the job with launch"
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

/// Where the job meets.
fn master(
    args: &JobArgs,
    listed: Option<&IpConfig>,
    env: &EnvRanks,
    slot: Slot,
    launched: bool,
) -> anyhow::Result<(String, u16)> {
    let addr =
        args.master_addr.clone().or(listed.map(|listed| listed.master().host.clone())).or(env.master_addr.clone());
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
        // The ranks that are started from here are told.
        None if slot.is_one_node() && !launched => free_port()?,
        None => DEFAULT_MASTER_PORT,
    };
    Ok((addr, port))
}

impl Rank {
    /// The cores that this process may take: as many as its launcher says, or its share of the node's.
    pub(crate) fn cores(&self) -> usize {
        let available = share_of_cores(1);
        self.launcher_cores.map_or(share_of_cores(self.local_world_size), |cores| cores.clamp(1, available))
    }
}

fn usage(what: impl Into<String>) -> UsageError {
    UsageError(what.into())
}

/// The job's shared secret, if there is one.
pub(crate) fn token(args: &JobArgs) -> anyhow::Result<Option<Token>> {
    Ok(match &args.token_file {
        Some(path) => Some(Token::from_file(path)?),
        None => Token::from_env()?,
    })
}
