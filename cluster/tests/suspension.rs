//! Suspended processes: a job that is suspended as a whole resumes, a rank that is suspended alone is named.

mod support;

use std::process::Command;
use std::time::Duration;

use edgecut_cluster::free_port;
use rustix::process::Signal;
use support::worker::{Place, Worker, run_if_started};

/// Far more time than any of these tests needs, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const WORLD_SIZE: usize = 3;
/// The time after which a silent rank has failed. A busy machine lets a rank that runs give a sign of life within it.
const TIMEOUT_MS: u64 = 5_000;

/// The worker process of the other tests. As a test of its own it does nothing.
#[test]
fn worker_process() {
    run_if_started();
}

/// Returns a command that runs a worker without a wrapper.
fn plain() -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.env_remove("RUST_TEST_THREADS");
    command
}

fn start_job() -> Vec<Worker> {
    let master_port = free_port().unwrap();
    let start = |rank| {
        let master_addr = "127.0.0.1".to_owned();
        let place = Place { rank, world_size: WORLD_SIZE, master_addr, master_port, heartbeat_timeout_ms: TIMEOUT_MS };
        Worker::start(plain(), &place, None)
    };
    let workers: Vec<Worker> = (0..WORLD_SIZE).map(start).collect();
    workers.iter().for_each(|worker| worker.wait_until_running(PATIENCE));
    workers
}

#[test]
fn a_job_that_is_suspended_as_a_whole_goes_on() {
    let timeout = Duration::from_millis(TIMEOUT_MS);
    let mut workers = start_job();
    workers.iter().for_each(|worker| worker.signal(Signal::STOP));
    // The suspension must be longer than the timeout. This sleep is the tested condition, it does not wait for
    // anything.
    std::thread::sleep(timeout * 2);
    for worker in &workers {
        worker.signal(Signal::CONT);
        // The ranks resume one after the other, as on several machines.
        std::thread::sleep(timeout / 10);
    }
    // The resumed processes have restarted their clocks. Errors would show when these run out.
    std::thread::sleep(timeout + timeout / 2);
    workers[0].tell_to_end();
    for worker in &workers {
        assert_eq!(worker.end(PATIENCE), "DONE", "rank {}", worker.rank);
    }
}

#[test]
fn a_rank_that_is_suspended_alone_is_named_by_the_others() {
    let jobs = [(); WORLD_SIZE].map(|()| start_job());
    jobs.iter().enumerate().for_each(|(stopped, workers)| workers[stopped].signal(Signal::STOP));
    for (stopped, workers) in jobs.iter().enumerate() {
        for worker in workers.iter().filter(|worker| worker.rank != stopped) {
            let end = worker.end(PATIENCE);
            assert!(end.starts_with(&format!("OTHER rank {stopped} at 127.0.0.1:")), "rank {}: {end}", worker.rank);
            assert!(end.contains("no sign of life for"), "rank {}: {end}", worker.rank);
        }
    }
}
