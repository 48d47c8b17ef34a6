//! `launch`: starts a job on the nodes of a cluster over SSH, shows its output in one terminal, and stops every
//! process.
//!
//! Invariant: `launch` ends everything that it starts. It copies itself to each node and communicates with that agent
//! in lines of JSON over one SSH connection. An agent ends its ranks on request, at the end of standard input, and
//! after `--silence`; the kernel ends them when the agent dies. Processes that left their process group are found by a
//! variable in their environment. A side that was suspended measures the silence of the other anew. The secret is sent
//! over the SSH connection and set in the ranks' environment, nowhere else.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod args;
mod checksum;
mod command_line;
mod hosts;
mod messages;
mod output;
mod parts;
mod plan;
mod standstill;
mod supervisor;
mod timeouts;

use edgecut_cli::{message, with_near_argument};
use messages::{AGENT_ROLE, RANK_ROLE, RECEIVE_ROLE, SWEEP_ROLE};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The program is its own agent: on the nodes it is started with a role as its first argument.
    let words: Vec<OsString> = std::env::args_os().collect();
    match words.get(1).and_then(|word| word.to_str()) {
        Some(AGENT_ROLE) => return agent::run(words.get(2).and_then(|seconds| seconds.to_str())),
        Some(RECEIVE_ROLE) => return agent::receive(),
        Some(RANK_ROLE) => return agent::become_rank(&words[2..]),
        Some(SWEEP_ROLE) => {
            words.get(2).and_then(|job| job.to_str()).into_iter().for_each(agent::sweep_job);
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    supervisor::run(&command_line::parse()).unwrap_or_else(|error| {
        message!("error: {}", with_near_argument(format!("{error:#}")));
        ExitCode::FAILURE
    })
}
