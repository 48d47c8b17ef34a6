//! Starts the ranks of this node as processes, and ends them together.

use crate::exit::{INTERRUPTED, OTHER_RANK_FAILED};
use crate::place::{Ranks, SPAWNED};
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// After the first failure the other ranks end by themselves, naming the one that failed; who has not by then is killed.
const GRACE: Duration = Duration::from_secs(15);

/// Runs this program once per local rank and waits for all. The first failure decides the exit status.
pub(crate) fn run_children(ranks: &Ranks) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("find this program's file")?;
    let (events, ended) = mpsc::channel();
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut pids = Vec::new();
    let (flag, wake) = (interrupted.clone(), events.clone());
    ctrlc::set_handler(move || {
        flag.store(true, Ordering::SeqCst);
        let _ = wake.send(None);
    })
    .context("catch interrupts")?;
    for local_rank in 0..ranks.first.local_world_size {
        let started = child_command(&program, ranks, local_rank).spawn();
        let mut child = started.with_context(|| {
            end_all(&pids, Signal::KILL);
            format!("start local rank {local_rank}")
        })?;
        pids.push((ranks.first.rank + local_rank, pid_of(&child)));
        let (rank, events) = (ranks.first.rank + local_rank, events.clone());
        std::thread::spawn(move || {
            let status = child.wait();
            let _ = events.send(Some((rank, status)));
        });
    }
    let mut failure = None;
    let mut running = pids.len();
    while running > 0 {
        let event = match failure.is_some() || interrupted.load(Ordering::SeqCst) {
            false => ended.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            true => ended.recv_timeout(GRACE),
        };
        match event {
            Ok(Some((rank, status))) => {
                running -= 1;
                pids.retain(|(other, _)| *other != rank);
                let status = status.with_context(|| format!("wait for rank {rank}"))?;
                if let (Some(signal), false) = (status.signal(), interrupted.load(Ordering::SeqCst)) {
                    eprintln!("rank {rank} was ended by signal {signal}");
                }
                // A rank that failed itself is the cause, whoever noticed first.
                let innocent = |status: &ExitStatus| status.code() == Some(i32::from(OTHER_RANK_FAILED));
                if !status.success() && failure.as_ref().is_none_or(innocent) {
                    failure = Some(status);
                }
            }
            Ok(None) => end_all(&pids, Signal::TERM),
            Err(_) => end_all(&pids, Signal::KILL),
        }
    }
    Ok(match failure {
        _ if interrupted.load(Ordering::SeqCst) => ExitCode::from(INTERRUPTED),
        Some(status) => ExitCode::from(code_of(status)),
        None => ExitCode::SUCCESS,
    })
}

fn child_command(program: &std::path::Path, ranks: &Ranks, local_rank: usize) -> Command {
    let first = &ranks.first;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1));
    for (name, value) in [
        ("RANK", (first.rank + local_rank).to_string()),
        ("WORLD_SIZE", first.world_size.to_string()),
        ("LOCAL_RANK", local_rank.to_string()),
        ("LOCAL_WORLD_SIZE", first.local_world_size.to_string()),
        ("MASTER_ADDR", first.master_addr.clone()),
        ("MASTER_PORT", first.master_port.to_string()),
        (SPAWNED, std::process::id().to_string()),
    ] {
        command.env(name, value);
    }
    if let Some(token) = &ranks.token {
        command.env("EDGECUT_TOKEN", token.to_env_value());
    }
    command
}

/// In a process that [`run_children`] started: makes it end when its parent does, however that ends.
pub(crate) fn end_with_parent() -> anyhow::Result<()> {
    let Some(parent) = std::env::var(SPAWNED).ok().and_then(|text| text.parse::<i32>().ok()) else { return Ok(()) };
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).context("watch the parent process")?;
    let lives = rustix::process::getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent);
    anyhow::ensure!(lives, "the parent process has ended");
    Ok(())
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id() as i32)
}

fn end_all(pids: &[(usize, Option<Pid>)], signal: Signal) {
    for pid in pids.iter().filter_map(|(_, pid)| *pid) {
        // A process that has ended meanwhile needs no signal.
        let _ = kill_process(pid, signal);
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
