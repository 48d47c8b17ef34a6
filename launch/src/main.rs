//! `launch`: starts a job on the nodes of a cluster, shows it in one terminal, and ends all of it.

mod agent;
mod args;
mod checksum;
mod copy;
mod launcher;
mod link;
mod messages;
mod parts;
mod plan;
mod screen;
mod ssh;
mod watch;

use clap::Parser;
use messages::{AGENT_ROLE, RANK_ROLE, RECEIVE_ROLE};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some(AGENT_ROLE) => return agent::run(),
        Some(RECEIVE_ROLE) => return agent::receive(),
        Some(RANK_ROLE) => return agent::become_rank(&words[2..]),
        _ => {}
    }
    launcher::run(&args::Args::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
