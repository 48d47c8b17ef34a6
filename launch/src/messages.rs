//! The messages between the launcher and its agents on the nodes: lines of JSON over SSH.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The first line of an agent. Lines that a login shell prints before it are ignored.
pub(crate) const HELLO: &str = "EDGECUT-AGENT";
/// The answer of a node that does not have the agent or file yet, followed by its kernel and processor.
pub(crate) const ABSENT: &str = "EDGECUT-ABSENT";
/// The answer of a node that has the file already.
pub(crate) const PRESENT: &str = "EDGECUT-PRESENT";

/// The program that runs commands of the shell.
pub(crate) const SHELL: &str = "bash";
/// The first argument of an agent. The second one is the silence in seconds after which the launcher counts as gone.
pub(crate) const AGENT_ROLE: &str = "__agent";
/// The first argument of a process that kills what a lost agent of a job has left.
pub(crate) const SWEEP_ROLE: &str = "__sweep";
/// The first argument of a process that receives files.
pub(crate) const RECEIVE_ROLE: &str = "__receive";
/// The first argument of a process that becomes a rank.
pub(crate) const RANK_ROLE: &str = "__rank";

/// The environment variable that names the job in each of its processes.
pub(crate) const JOB_ID: &str = "EDGECUT_JOB_ID";

/// An order to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Check that the node is ready.
    Check {
        check: Check,
        /// Returned with the answer, so that late answers can be ignored.
        round: u64,
    },
    /// Connect to the master's port, to check that no firewall blocks it.
    Probe { host: String, port: u16, round: u64 },
    /// Start the ranks of the node.
    Start(Start),
    /// Start these ranks of the running job again, which have ended.
    StartAgain(Start),
    /// Ask all ranks to end, and kill those that still run after the grace period.
    Stop,
    /// Kill all ranks.
    Kill,
    /// A sign of life.
    Beat,
}

/// The checks that an agent does before anything starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) workspace: String,
    pub(crate) program: Program,
    /// The partitioned graph, and the parts of it that the node needs.
    pub(crate) parts: Option<PartsCheck>,
    /// On the master's node, the address and port that must be free. The agent holds the port until the start.
    pub(crate) master: Option<(String, u16)>,
    /// The configured address or interface of the node, if any.
    pub(crate) listen: Option<Listen>,
}

/// The program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The name in the command, relative to the workspace. A name without a slash is looked up in `PATH`.
    pub(crate) name: String,
    /// The copied file in the agent's folder that is run instead, if any.
    pub(crate) copied: Option<String>,
    /// The program that it starts, if it is `edgecut`.
    pub(crate) started: Option<String>,
}

/// The configured address or interface on which a node's processes listen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Listen {
    Address(IpAddr),
    Interface(String),
}

/// The parts that a node needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartsCheck {
    /// The folder of the partitioned graph, relative to the workspace.
    pub(crate) dir: String,
    /// The number of processes of the whole job.
    pub(crate) world_size: usize,
    /// The ranks of this node.
    pub(crate) ranks: std::ops::Range<usize>,
}

/// The results of an agent's checks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checked {
    /// The problems that were found, each with a remedy.
    pub(crate) problems: Vec<String>,
    /// The checksum of the program's file, and of the program that `edgecut` starts.
    pub(crate) program: Option<String>,
    /// The checksum of the partitioned graph's `META.json`.
    pub(crate) meta: Option<String>,
    /// Kernel and processor, as in `uname -sm`.
    pub(crate) machine: String,
    /// The address on which the node's processes listen, if an address or interface is configured.
    pub(crate) listen_addr: Option<IpAddr>,
}

/// The ranks that an agent starts.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) job_id: String,
    pub(crate) workspace: String,
    /// The seconds between asking the ranks to end and killing them.
    pub(crate) grace_s: u64,
    pub(crate) program: Program,
    pub(crate) args: Vec<String>,
    /// The variables of all ranks of the node, including the secret.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) listen: Option<Listen>,
    pub(crate) ranks: Vec<RankStart>,
}

impl std::fmt::Debug for Start {
    /// Leaves out the variables, since the secret is one of them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Start({}, {} ranks)", self.program.name, self.ranks.len())
    }
}

/// The variables of one rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RankStart {
    pub(crate) rank: usize,
    pub(crate) env: BTreeMap<String, String>,
}

/// A report of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    Checked {
        checked: Checked,
        round: u64,
    },
    Probed {
        problem: Option<String>,
        round: u64,
    },
    Line {
        rank: usize,
        stream: Stream,
        text: String,
    },
    Ended {
        rank: usize,
        ending: Ending,
    },
    /// The agent ends its ranks because it has heard nothing for this long.
    Silenced {
        silence_ms: u64,
    },
    Beat,
}

/// A standard stream of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stream {
    Out,
    Err,
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    Code(i32),
    Signal(i32),
    /// The process never started, for this reason.
    NotStarted(String),
    /// The node of the process is lost, for this reason.
    Lost(String),
}

impl Ending {
    pub(crate) fn is_success(&self) -> bool {
        *self == Self::Code(0)
    }

    /// Returns the corresponding exit status of a shell.
    pub(crate) fn code(&self) -> u8 {
        let code = match self {
            Self::Code(code) => *code,
            Self::Signal(signal) => 128 + signal,
            Self::NotStarted(_) | Self::Lost(_) => 1,
        };
        u8::try_from(code).unwrap_or(1)
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit status {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
            Self::Lost(why) => write!(f, "was lost with its node: {why}"),
        }
    }
}
