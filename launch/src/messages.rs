//! What the launcher and its agents on the nodes say to each other: lines of JSON over SSH.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The line that an agent begins with; what a login shell prints before it does not count.
pub(crate) const HELLO: &str = "EDGECUT-AGENT";
/// The line of a node that has no agent yet, followed by what kind of machine it is.
pub(crate) const ABSENT: &str = "EDGECUT-ABSENT";
/// The line of a node that has a file already.
pub(crate) const PRESENT: &str = "EDGECUT-PRESENT";

/// First argument of an agent; the second one is the silence in seconds after which the launcher counts as gone.
pub(crate) const AGENT_ROLE: &str = "__agent";
/// First argument of a process that kills what a lost agent of a job has left.
pub(crate) const SWEEP_ROLE: &str = "__sweep";
/// First argument of a process that receives files.
pub(crate) const RECEIVE_ROLE: &str = "__receive";
/// First argument of a process that becomes a rank.
pub(crate) const RANK_ROLE: &str = "__rank";

/// Names the job in the environment of each of its processes.
pub(crate) const JOB_ID: &str = "EDGECUT_JOB_ID";

/// Time between two signs of life, in both directions.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
/// Silence after which the other side counts as gone, unless `--silence` says otherwise.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// What processes get between being asked to end and being killed.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// What an agent is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(crate) enum Order {
    Check {
        check: Check,
        /// Comes back with the answer, which may be late.
        round: u64,
    },
    /// Connect to the master's port, to see that nothing is in the way.
    Probe {
        host: String,
        port: u16,
        round: u64,
    },
    Start(Start),
    /// Ask all ranks to end, and kill who has not after [`GRACE`].
    Stop,
    /// Kill all ranks.
    Kill,
    Beat,
}

/// What an agent is to look at before anything starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) workspace: String,
    pub(crate) program: Program,
    /// A folder with a partitioned graph, and the parts of it that are needed.
    pub(crate) parts: Option<PartsCheck>,
    /// On the master's node: the address and port that must be free. They are held until the start.
    pub(crate) master: Option<(String, u16)>,
    pub(crate) listen: Option<Listen>,
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// As in the command, relative to the workspace; a name without a slash is looked for in `PATH`.
    pub(crate) name: String,
    /// The file beside the agent's that was copied to be run instead.
    pub(crate) copied: Option<String>,
}

/// Where a node's processes listen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Listen {
    Address(IpAddr),
    Interface(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartsCheck {
    /// Relative to the workspace.
    pub(crate) dir: String,
    /// Processes of the whole job.
    pub(crate) world_size: usize,
    /// The ranks of this node.
    pub(crate) ranks: std::ops::Range<usize>,
    /// Nodes of the job.
    pub(crate) num_nodes: usize,
}

/// What an agent has seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checked {
    /// What is wrong, each with what to do.
    pub(crate) problems: Vec<String>,
    /// Checksum of the program's file.
    pub(crate) program: Option<String>,
    /// Checksum of the parts' description.
    pub(crate) meta: Option<String>,
    /// Kernel and processor.
    pub(crate) machine: String,
    /// Where its processes listen, if that was asked for.
    pub(crate) listen_addr: Option<IpAddr>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) job_id: String,
    pub(crate) workspace: String,
    pub(crate) program: Program,
    pub(crate) args: Vec<String>,
    /// Variables of all ranks of the node, the secret among them.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) listen: Option<Listen>,
    pub(crate) ranks: Vec<RankStart>,
}

impl std::fmt::Debug for Start {
    /// Without the variables: the secret is among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Start({}, {} ranks)", self.program.name, self.ranks.len())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RankStart {
    pub(crate) rank: usize,
    pub(crate) env: BTreeMap<String, String>,
}

/// What an agent reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
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
    /// The agent ends its ranks because it has heard nothing for so long.
    Silenced {
        silence_ms: u64,
    },
    Beat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stream {
    Out,
    Err,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    Code(i32),
    Signal(i32),
    /// It never started.
    NotStarted(String),
    /// Its node is gone.
    Lost(String),
}

impl Ending {
    pub(crate) fn is_success(&self) -> bool {
        *self == Self::Code(0)
    }

    /// The exit status that says the same.
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
