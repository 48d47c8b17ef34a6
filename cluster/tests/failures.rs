//! Failures of one rank: all other ranks end within seconds and name it.

mod support;

use edgecut_testing::Process;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use edgecut_cluster::{Cluster, ClusterConfig, ClusterError, Failure, ReduceOp};
use rustix::process::Signal;
use support::{configs, errors, on_each};

/// Far more time than any of these tests needs, even on a busy machine.
const SECONDS: Duration = Duration::from_secs(60);
/// The timeouts whose expiry is tested. A busy machine must do everything that comes before within them.
const TIMEOUT_MS: u64 = 4_000;

/// Runs all-reduces until one fails. Sends a message after some rounds, to signal that the ring works.
fn reduce_until_error(cluster: &Cluster, len: usize, running: Option<&mpsc::Sender<()>>) -> ClusterError {
    let mut group = match cluster.world() {
        Ok(group) => group,
        Err(error) => return error,
    };
    let mut data = vec![1.0_f32; len];
    for round in 0.. {
        if let Err(error) = group.all_reduce(&mut data, ReduceOp::Mean) {
            return error;
        }
        if let Some(running) = running.filter(|_| round == 20) {
            running.send(()).unwrap();
        }
    }
    unreachable!("the loop ends with an error");
}

/// The rank in a process of its own. As a test of its own it does nothing.
#[test]
fn child_rank() {
    let Ok(place) = std::env::var("EDGECUT_TEST_CHILD") else { return };
    let numbers: Vec<usize> = place.split(' ').map(|number| number.parse().unwrap()).collect();
    let [rank, world_size, port, len] = numbers[..] else { panic!("{place}") };
    let cluster = if rank == 0 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        println!("\nPORT {port}");
        Cluster::join_on(listener, ClusterConfig::new(0, world_size, "127.0.0.1", port)).unwrap()
    } else {
        Cluster::join(ClusterConfig::new(rank, world_size, "127.0.0.1", port as u16)).unwrap()
    };
    let error = reduce_until_error(&cluster, len, None);
    println!("{error:#}");
}

/// A rank that is a process of its own.
struct ChildRank(Process);

impl ChildRank {
    fn start(rank: usize, world_size: usize, port: u16, len: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_rank", "--nocapture"]);
        command.env("EDGECUT_TEST_CHILD", format!("{rank} {world_size} {port} {len}"));
        Self(Process::start(command.stdout(Stdio::piped())))
    }

    fn port(&mut self) -> u16 {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let port = lines.find_map(|line| line.strip_prefix("PORT ").map(str::to_owned));
        port.unwrap().parse().unwrap()
    }
}

/// Runs a job in which `child` is a process of its own. As soon as the ring works, that process gets `signal`. Returns
/// the errors of the other ranks.
fn end_child(child: usize, world: usize, len: usize, signal: Signal, heartbeat_timeout_ms: u64) -> Vec<ClusterError> {
    let others: Vec<usize> = (0..world).filter(|&rank| rank != child).collect();
    let (mut listener, mut configs) = configs(&others, world);
    let mut port = configs[0].master_port;
    let mut process = ChildRank::start(child, world, port, len);
    if child == 0 {
        port = process.port();
        // The child has its own listener, and no rank of this process is rank 0.
        listener = TcpListener::bind("127.0.0.1:0").unwrap();
    }
    for config in &mut configs {
        config.master_port = port;
        config.heartbeat_timeout_ms = heartbeat_timeout_ms;
        config.heartbeat_interval_ms = heartbeat_timeout_ms / 4;
    }
    let (running, runs) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut listener = Some(listener);
        let ranks: Vec<_> = configs
            .into_iter()
            .map(|config| {
                let running = running.clone();
                let listener = listener.take().filter(|_| config.rank == 0);
                scope.spawn(move || {
                    let cluster = match listener {
                        Some(listener) => Cluster::join_on(listener, config).unwrap(),
                        None => Cluster::join(config).unwrap(),
                    };
                    let error = reduce_until_error(&cluster, len, Some(&running));
                    assert_eq!(cluster.failure().map(|failure| failure.rank), Some(child), "{error}");
                    error
                })
            })
            .collect();
        runs.recv_timeout(SECONDS).expect("the ring runs");
        process.0.signal(signal);
        let killed = Instant::now();
        let errors = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
        assert!(killed.elapsed() < SECONDS, "{:?}", killed.elapsed());
        errors
    })
}

fn assert_all_name(errors: &[ClusterError], rank: usize, reason: &str) {
    for error in errors {
        match error {
            ClusterError::RankFailed(failure) => {
                assert_eq!(failure.rank, rank, "{failure}");
                assert!(failure.reason.contains(reason), "{failure}");
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_killed_process_is_named_by_all_others() {
    let errors = end_child(2, 4, 1_000, Signal::KILL, 10_000);
    assert_all_name(&errors, 2, "ended before the job was done");
}

#[test]
fn a_process_killed_in_the_middle_of_a_large_all_reduce_is_named_by_all_others() {
    let errors = end_child(1, 3, 4_000_000, Signal::KILL, 10_000);
    assert_all_name(&errors, 1, "ended before the job was done");
}

#[test]
fn a_killed_rank_0_is_named_by_all_others() {
    let errors = end_child(0, 3, 1_000, Signal::KILL, 10_000);
    assert_all_name(&errors, 0, "ended before the job was done");
}

#[test]
fn a_process_that_hangs_is_named_by_its_missing_heartbeat() {
    let errors = end_child(1, 3, 1_000, Signal::STOP, TIMEOUT_MS);
    assert_all_name(&errors, 1, "no sign of life for ");
}

#[test]
fn a_rank_that_never_calls_the_collective_is_named_by_all_others() {
    let clusters = Cluster::join_local(4, |config| config.collective_timeout_ms = TIMEOUT_MS).unwrap();
    // The clock starts before all ranks, so the assertion below holds for each of them.
    let start = Instant::now();
    let outcomes = on_each(clusters, |cluster| {
        let mut group = cluster.world().unwrap();
        if cluster.rank() == 2 {
            // Stay silent until the others give up.
            let (sender, accused) = mpsc::channel();
            cluster.on_failure(move |failure| sender.send(failure).unwrap());
            return Ok(accused.recv_timeout(SECONDS).unwrap().rank);
        }
        let error = group.all_reduce(&mut [0.0_f32; 3], ReduceOp::Sum).unwrap_err().to_string();
        assert!(start.elapsed() >= Duration::from_millis(TIMEOUT_MS));
        Err(error)
    });
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(accused) => assert_eq!((rank, accused), (2, 2)),
            Err(error) => {
                assert!(error.contains("rank 2 at 127.0.0.1:"), "rank {rank}: {error}");
                assert!(error.contains("silent for 4 s"), "rank {rank}: {error}");
                assert!(error.contains("all-reduce #0 of group \"world\""), "rank {rank}: {error}");
            }
        }
    }
}

#[test]
fn a_rank_that_never_makes_the_group_is_named() {
    let clusters = Cluster::join_local(3, |config| config.collective_timeout_ms = TIMEOUT_MS).unwrap();
    let outcomes = on_each(clusters, |cluster| {
        if cluster.rank() == 1 {
            let (sender, accused) = mpsc::channel();
            cluster.on_failure(move |failure| sender.send(failure).unwrap());
            return Err(ClusterError::RankFailed(accused.recv_timeout(SECONDS).unwrap()));
        }
        let mut group = cluster.world()?;
        group.barrier()
    });
    for error in errors(outcomes) {
        assert!(error.contains("rank 1 at 127.0.0.1:"), "{error}");
    }
}

#[test]
fn the_reason_of_an_abort_reaches_all_others() {
    let clusters = Cluster::join_local(3, |_| {}).unwrap();
    on_each(clusters, |cluster| {
        if cluster.rank() == 1 {
            cluster.world().unwrap();
            cluster.abort("disk full");
            assert_eq!(cluster.failure().unwrap().reason, "disk full");
            return;
        }
        let (sender, heard) = mpsc::channel::<Failure>();
        cluster.on_failure(move |failure| sender.send(failure).unwrap());
        let error = reduce_until_error(&cluster, 10, None);
        assert_all_name(&[error], 1, "disk full");
        let failure = heard.recv_timeout(SECONDS).unwrap();
        assert_eq!((failure.rank, failure.reason.as_str()), (1, "disk full"));
        let verdict = cluster.verdict("sampling: connection reset");
        assert_eq!(verdict.to_string(), format!("{failure} (noticed here as: sampling: connection reset)"));
        assert!(cluster.shutdown().unwrap_err().to_string().contains("disk full"));
    });
}

#[test]
fn the_text_of_a_panic_reaches_all_others() {
    let clusters = Cluster::join_local(3, |_| {}).unwrap();
    std::thread::scope(|scope| {
        let run = |cluster: Cluster| {
            // The others may learn of the failure while they create the group.
            let mut world = match cluster.world() {
                Ok(world) => world,
                Err(error) => return error,
            };
            assert!(cluster.rank() != 1, "row 7 has no label");
            world.barrier().unwrap_err()
        };
        let ranks: Vec<_> = clusters.into_iter().map(|cluster| scope.spawn(move || run(cluster))).collect();
        for (rank, outcome) in ranks.into_iter().map(|rank| rank.join()).enumerate() {
            match outcome {
                Ok(error) => assert_all_name(&[error], 1, "row 7 has no label"),
                Err(_) => assert_eq!(rank, 1, "only this rank panics"),
            }
        }
    });
}

#[test]
fn async_code_hears_of_a_failure() {
    let clusters = Cluster::join_local(2, |_| {}).unwrap();
    on_each(clusters, |cluster| {
        if cluster.rank() == 1 {
            cluster.world().unwrap();
            cluster.abort("disk full");
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let waiting = cluster.clone();
        let failure = runtime.spawn(async move { waiting.failed().await });
        // This fails if the other rank aborts first.
        let _ = cluster.world();
        let failure = runtime.block_on(async { tokio::time::timeout(SECONDS, failure).await }).unwrap().unwrap();
        assert_eq!((failure.rank, failure.reason.as_str()), (1, "disk full"));
    });
}

#[test]
fn a_rank_that_leaves_without_a_goodbye_has_failed() {
    let clusters = Cluster::join_local(3, |_| {}).unwrap();
    on_each(clusters, |cluster| {
        if cluster.rank() == 2 {
            drop(cluster);
            return;
        }
        let error = cluster.shutdown().unwrap_err();
        assert_all_name(&[error], 2, "ended before the job was done");
    });
}

#[test]
fn a_rank_that_is_never_done_is_named() {
    let clusters = Cluster::join_local(3, |config| config.collective_timeout_ms = TIMEOUT_MS).unwrap();
    on_each(clusters, |cluster| {
        let error = if cluster.rank() == 1 {
            let (sender, heard) = mpsc::channel();
            cluster.on_failure(move |failure| sender.send(failure).unwrap());
            ClusterError::RankFailed(heard.recv_timeout(SECONDS).unwrap())
        } else {
            cluster.shutdown().unwrap_err()
        };
        assert_all_name(&[error], 1, "not done 4 s after rank 0");
    });
}

#[test]
fn nothing_is_wrong_without_a_failure() {
    let cluster = Cluster::join_local(1, |_| {}).unwrap().remove(0);
    assert_eq!(cluster.failure(), None);
    assert_eq!(cluster.verdict("own fault").to_string(), "own fault");
    cluster.shutdown().unwrap();
}
