//! The command line.

use crate::timeouts::{HEARTBEAT_TIMEOUT, TERMINATION_TIMEOUT};
use clap::{Parser, ValueEnum};
use edgecut_cluster::NodeRole;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Runs the command on every node in the workspace, once per process, with torchrun's variables: RANK, WORLD_SIZE,
LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR, MASTER_PORT; and with EDGECUT_TOKEN, a secret made for this job.

Examples:
  launch --ip-config ip_config.yaml --workspace '~/edgecut' -- target/release/train node --dataset-root-dir data/3-parts
  launch --ip-config ip_config.yaml --copy-parts --sync-binary --num-training-procs 2 \\
    \"target/release/train node --dataset-root-dir data/3-parts --num-neighbors 15,10\"
  launch --ip-config ip_config.yaml --role server --token-file secret -- \\
    target/release/sampling-server --dataset-root-dir data/3-parts
  launch --ip-config ip_config.yaml --role trainer --token-file secret -- target/release/train node --num-neighbors 15,10

Exit status: 0 all processes succeeded, 1 a process could not be started or a node was lost, 2 wrong flags,
130 interrupted; otherwise that of the first process that failed.";

/// Starts a job on the nodes of a cluster over password-less SSH, and shows the output of all processes in one
/// terminal. Stops every process on Ctrl-C, on a process failure and on network loss.
///
/// Flags may also be spelled with underscores: --ip_config.
#[derive(Clone, Debug, Parser)]
#[command(name = "launch", version, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The file that lists the nodes, node 0 first: YAML with a list of hosts, or one `ip` per line
    #[arg(long, alias = "ip_config", value_name = "FILE")]
    pub(crate) ip_config: PathBuf,
    /// The folder on the nodes in which the command runs [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<String>,
    /// The nodes to use, if --ip-config has nodes with `role: server`: the servers or the trainers. Both get the addresses
    /// of the servers as EDGECUT_SERVERS, which sampling-server and train read
    #[arg(long, value_name = "server|trainer")]
    pub(crate) role: Option<Role>,
    /// A file with the secret of the job, at least 16 bytes, instead of one that is made for this job. Servers and their
    /// trainers need the same one
    #[arg(long, alias = "token_file", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Number of nodes to use, from the first one on [default: all in --ip-config]
    #[arg(long, alias = "num_nodes", value_name = "N", value_parser = at_least_one)]
    pub(crate) num_nodes: Option<usize>,
    /// Processes per node [default: from --ip-config, or 1]
    #[arg(long, visible_alias = "nproc-per-node", aliases = ["num_training_procs", "nproc_per_node", "num_trainers", "num-trainers"], value_name = "N", value_parser = at_least_one)]
    pub(crate) num_training_procs: Option<usize>,
    /// The address at which all ranks reach rank 0 [default: that of the first node]
    #[arg(long, alias = "master_addr", value_name = "HOST")]
    pub(crate) master_addr: Option<String>,
    /// The port of rank 0 [default: from --ip-config, or 11111]
    #[arg(long, aliases = ["master_port", "ddp-port", "ddp_port"], value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) master_port: Option<u16>,
    /// The port of the SSH servers of nodes for which --ip-config has none [default: from the SSH configuration]
    #[arg(long, alias = "ssh_port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) ssh_port: Option<u16>,
    /// The user to log in as on nodes for which --ip-config has none [default: from the SSH configuration]
    #[arg(long, alias = "ssh_username", value_name = "NAME")]
    pub(crate) ssh_username: Option<String>,
    /// A configuration file for the SSH client, instead of the user's [default: SSH_CONFIG]
    #[arg(long, alias = "ssh_config", env = "SSH_CONFIG", hide_env = true, value_name = "FILE")]
    pub(crate) ssh_config: Option<PathBuf>,
    /// An environment variable for all processes; may be given several times
    #[arg(long, alias = "extra_envs", value_name = "NAME=VALUE")]
    pub(crate) extra_envs: Vec<String>,
    /// Copy to each node the parts that it needs: from DIR, or without DIR from the path of the command's
    /// --dataset-root-dir on this machine. Files that the node already has are not copied
    #[arg(long, alias = "copy_parts", value_name = "DIR", num_args = 0..=1, require_equals = true)]
    pub(crate) copy_parts: Option<Option<PathBuf>>,
    /// Copy the program to the nodes that do not have the same file, and run the copy
    #[arg(long, alias = "sync_binary")]
    pub(crate) sync_binary: bool,
    /// Restart the whole job at most K times when a process or a node fails. With `--role server`, a server that fails
    /// is started again alone
    #[arg(long, alias = "max_restarts", value_name = "K", default_value_t = 0)]
    pub(crate) max_restarts: u32,
    /// Restart without the nodes that cannot be reached any more, if --max-restarts allows a restart. The other nodes take
    /// over their parts, which they must have or get by --copy-parts. A command with --checkpoint-dir on a file system
    /// that all nodes share, and --resume, continues from the last checkpoint
    #[arg(long, alias = "allow_fewer_nodes", requires = "max_restarts")]
    pub(crate) allow_fewer_nodes: bool,
    /// Seconds between asking processes to end, by SIGTERM, and killing them. A training with --checkpoint-dir writes a
    /// checkpoint in this time
    #[arg(long, value_name = "SECONDS", default_value_t = TERMINATION_TIMEOUT.as_secs(), value_parser = clap::value_parser!(u64).range(0..=86400))]
    pub(crate) grace: u64,
    /// Seconds without a sign of life after which a node counts as lost, and after which a node ends its processes. A
    /// longer time lets a job outlive a pause of this program (Ctrl-Z, or a suspended laptop)
    #[arg(long, value_name = "SECONDS", default_value_t = HEARTBEAT_TIMEOUT.as_secs(), value_parser = clap::value_parser!(u64).range(2..=86400))]
    pub(crate) silence: u64,
    /// Also write the output of each rank to its own file in this folder
    #[arg(long, alias = "log_dir", value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Show which command would run on which node, without connecting
    #[arg(long, alias = "dry_run")]
    pub(crate) dry_run: bool,
    /// Flags that are added to the command, as PyG's launch.py adds them.
    #[arg(skip)]
    pub(crate) passed_on: Vec<String>,
    /// The program and its arguments, after `--` or as one quoted string, which may be a command of the shell
    // The command line is taken apart before, and puts `--` before the command.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// The role of the nodes to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Server,
    Trainer,
}

impl From<Role> for NodeRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Server => Self::Server,
            Role::Trainer => Self::Trainer,
        }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=16_384).contains(&number) => Ok(number),
        _ => Err("not a number from 1 to 16384".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn flags_are_spelled_either_way_and_the_command_keeps_its_own() {
        let line = "launch --ip_config f --ssh_port 22 --num_training_procs 2 --extra_envs A=1 --extra_envs B=2 --copy-parts -- prog --ip_config x --dry-run";
        let args = Args::try_parse_from(line.split(' ')).unwrap();
        assert_eq!((args.ssh_port, args.num_training_procs), (Some(22), Some(2)));
        assert_eq!(args.extra_envs, ["A=1", "B=2"]);
        assert_eq!(args.copy_parts, Some(None));
        assert_eq!(args.command, ["prog", "--ip_config", "x", "--dry-run"]);
        assert!(!args.dry_run);
    }
}
