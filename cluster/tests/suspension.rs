//! Suspended processes: a job that is suspended as a whole goes on, a rank that is suspended alone is named.

mod support;

use std::process::Command;
use std::time::Duration;

use edgecut_cluster::free_port;
use rustix::process::Signal;
use support::worker::{Place, Worker, run_if_started};

/// Far more than any of these tests needs, even on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);
const WORLD_SIZE: usize = 3;

/// The process that is a rank: this test does nothing unless it is started as such.
#[test]
fn worker_process() {
    run_if_started();
}

/// Runs the program without a wrapper.
fn plain() -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.env_remove("RUST_TEST_THREADS");
    command
}

fn start_job(heartbeat_timeout_ms: u64) -> Vec<Worker> {
    let master_port = free_port().unwrap();
    let start = |rank| {
        let master_addr = "127.0.0.1".to_owned();
        let place = Place { rank, world_size: WORLD_SIZE, master_addr, master_port, heartbeat_timeout_ms };
        Worker::start(plain(), &place, None)
    };
    let workers: Vec<Worker> = (0..WORLD_SIZE).map(start).collect();
    workers.iter().for_each(|worker| worker.wait_until_running(PATIENCE));
    workers
}

#[test]
fn a_job_that_is_suspended_as_a_whole_goes_on() {
    let timeout = Duration::from_millis(3_000);
    let mut workers = start_job(3_000);
    workers.iter().for_each(|worker| worker.signal(Signal::STOP));
    // The suspension is longer than the timeout: this is the time that passes, and nothing is waited for.
    std::thread::sleep(timeout * 2);
    for worker in &workers {
        worker.signal(Signal::CONT);
        // The ranks go on one after the other, as those of several machines do.
        std::thread::sleep(timeout / 10);
    }
    // The clocks that a suspended process has restarted run out after the timeout.
    std::thread::sleep(timeout + timeout / 2);
    workers[0].tell_to_end();
    for worker in &workers {
        assert_eq!(worker.end(PATIENCE), "DONE", "rank {}", worker.rank);
    }
}

#[test]
fn a_rank_that_is_suspended_alone_is_named_by_the_others() {
    for stopped in 0..WORLD_SIZE {
        let workers = start_job(2_000);
        workers[stopped].signal(Signal::STOP);
        for worker in workers.iter().filter(|worker| worker.rank != stopped) {
            let end = worker.end(PATIENCE);
            assert!(end.starts_with(&format!("OTHER rank {stopped} at 127.0.0.1:")), "rank {}: {end}", worker.rank);
            assert!(end.contains("no sign of life for"), "rank {}: {end}", worker.rank);
        }
    }
}
