//! Tests of checked and encrypted connections: equal results, detected modifications, and nothing to read on the way.

mod support;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use edgecut_cluster::{Cluster, ClusterError, Protection, ReduceOp, Token, is_modified};
use support::proxy::{Direction, Proxy};
use support::{configs, errors, join_each, on_each};

const ALL: [Protection; 3] = [Protection::Unprotected, Protection::Checked, Protection::Encrypted];
const PROTECTED: [Protection; 2] = [Protection::Checked, Protection::Encrypted];
/// A text that no key or checksum contains.
const PATTERN: &[u8] = b"features of a customer, features of a customer, features of a customer";

/// Returns the bits of the results of several collectives, on each rank.
fn results(world_size: usize, protection: Protection) -> Vec<Vec<Vec<u8>>> {
    let token = Token::random().unwrap();
    let clusters = Cluster::join_local(world_size, |config| {
        config.protection = protection;
        config.token = Some(token.clone());
    });
    on_each(clusters.unwrap(), |cluster| {
        let mut world = cluster.world().unwrap();
        let mut results = Vec::new();
        for len in [1, 100, 5_000, 40_000, 1_000_003] {
            let mut sum: Vec<f32> = (0..len).map(|at| (at * (cluster.rank() + 3) % 1009) as f32 * 0.37).collect();
            world.all_reduce(&mut sum, ReduceOp::Mean).unwrap();
            results.push(sum.iter().flat_map(|number| number.to_le_bytes()).collect());
            let mut root: Vec<u8> = vec![cluster.rank() as u8; len];
            world.broadcast_bytes(&mut root, world_size - 1).unwrap();
            results.push(root);
            results.extend(world.all_gather(&vec![cluster.rank() as u8; len / (cluster.rank() + 1)]).unwrap());
            world.barrier().unwrap();
        }
        cluster.shutdown().unwrap();
        results
    })
}

#[test]
fn collectives_give_the_same_bits_with_every_protection() {
    for world_size in 1..=5 {
        let expected = results(world_size, Protection::Unprotected);
        assert!(expected.iter().all(|of_rank| *of_rank == expected[0]), "{world_size} ranks");
        for protection in PROTECTED {
            assert!(results(world_size, protection) == expected, "{world_size} ranks, {protection:?}");
        }
    }
}

/// Two ranks. The connections that rank 1 opens pass through a proxy, the first of which is its control connection.
struct ProxiedJob {
    proxy: Proxy,
    ranks: Vec<Cluster>,
}

impl ProxiedJob {
    fn start(protection: Protection) -> Self {
        let (listener, mut configs) = configs(&[0, 1], 2);
        let proxy = Proxy::start(listener.local_addr().unwrap());
        let token = Token::random().unwrap();
        for config in &mut configs {
            config.protection = protection;
            config.token = Some(token.clone());
            config.fingerprint = String::from_utf8(PATTERN.to_vec()).unwrap();
            config.set_heartbeat_timeout(Duration::from_secs(10));
            config.heartbeat_interval_ms = 50;
        }
        configs[1].master_port = proxy.addr.port();
        let ranks = join_each(listener, configs).into_iter().map(Result::unwrap).collect();
        Self { proxy, ranks }
    }
}

/// Checks that a text says that a message of a rank was modified.
fn assert_names(text: &str, rank: usize, context: &str) {
    assert!(text.contains(&format!("a message from rank {rank} at 127.0.0.1:")), "{context}: {text}");
    assert!(text.contains("was modified on the way"), "{context}: {text}");
}

fn wait_for_failure(cluster: &Cluster) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(failure) = cluster.failure() {
            return failure.to_string();
        }
        assert!(Instant::now() < deadline, "the modification is not noticed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_modified_control_message_ends_the_job_on_both_ranks() {
    for protection in PROTECTED {
        for (direction, sender) in [(Direction::FromConnector, 1), (Direction::ToConnector, 0)] {
            let job = ProxiedJob::start(protection);
            job.proxy.modify_next(direction, 0, 1);
            for cluster in &job.ranks {
                let context = format!("{protection:?}, from rank {sender}, on rank {}", cluster.rank());
                let failure = wait_for_failure(cluster);
                assert_names(&failure, sender, &context);
                assert!(failure.starts_with("the connection between rank "), "{context}: {failure}");
            }
        }
    }
}

#[test]
fn modified_bytes_of_a_collective_are_an_error_that_names_the_sender() {
    for protection in PROTECTED {
        // One message is small, one has many records.
        for len in [100, 1_000_000] {
            let job = ProxiedJob::start(protection);
            let proxy = &job.proxy;
            let errors: Vec<ClusterError> = on_each(job.ranks, |cluster| {
                let mut world = cluster.world().unwrap();
                let mut data = vec![1.0_f32; len];
                world.all_reduce(&mut data, ReduceOp::Sum).unwrap();
                assert_eq!(data[len - 1], 2.0);
                if cluster.rank() == 0 {
                    proxy.modify_next(Direction::FromConnector, 1, 1);
                }
                // Rank 1 may get its share of a collective before it hears of the failure.
                loop {
                    if let Err(error) = world.all_reduce(&mut data, ReduceOp::Sum) {
                        return error;
                    }
                }
            });
            let context = format!("{protection:?}, {len} numbers");
            assert!(matches!(errors[0], ClusterError::Modified { .. }), "{context}: {:?}", errors[0]);
            assert_names(&errors[0].to_string(), 1, &context);
            assert!(matches!(&errors[1], ClusterError::RankFailed(_)), "{context}: {:?}", errors[1]);
            assert_names(&errors[1].to_string(), 1, &context);
        }
    }
}

#[test]
fn modified_bytes_of_a_stream_are_an_error_that_names_the_sender() {
    for protection in PROTECTED {
        let job = ProxiedJob::start(protection);
        let mut incoming = job.ranks[0].take_rpc_incoming().unwrap();
        let mut request = job.ranks[1].connect_rpc(0).unwrap();
        let (_, mut received) = incoming.blocking_recv().unwrap();
        received.set_nonblocking(false).unwrap();
        request.set_nonblocking(false).unwrap();
        request.write_all(PATTERN).unwrap();
        let mut buffer = vec![0; PATTERN.len()];
        received.read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, PATTERN);
        job.proxy.modify_next(Direction::ToConnector, 1, 1);
        received.write_all(PATTERN).unwrap();
        let error = request.read_exact(&mut buffer).unwrap_err();
        assert!(is_modified(&error));
        assert_names(&error.to_string(), 0, &format!("{protection:?}"));
    }
}

#[test]
fn only_encryption_hides_what_is_sent() {
    for protection in ALL {
        let job = ProxiedJob::start(protection);
        let proxy = &job.proxy;
        let is_readable = protection != Protection::Encrypted;
        // The registration contains the fingerprint.
        assert_eq!(proxy.has_seen(PATTERN), is_readable, "{protection:?}");
        let reversed: Vec<u8> = PATTERN.iter().rev().copied().collect();
        let large = PATTERN.iter().map(|byte| byte ^ 1).cycle().take(300_000).collect::<Vec<u8>>();
        let mut incoming = job.ranks[0].take_rpc_incoming().unwrap();
        let mut stream = job.ranks[1].connect_rpc(0).unwrap();
        let _other_end = incoming.blocking_recv().unwrap();
        stream.write_all(&reversed).unwrap();
        on_each(job.ranks, |cluster| {
            let mut world = cluster.world().unwrap();
            let mut data = if cluster.rank() == 1 { large.clone() } else { Vec::new() };
            world.broadcast_bytes(&mut data, 1).unwrap();
            assert!(data == large);
            cluster.shutdown().unwrap();
        });
        assert!(proxy.num_bytes() > large.len());
        assert_eq!(proxy.has_seen(&large[1_000..1_100]), is_readable, "{protection:?}");
        // The write to the stream may still be on its way through the proxy.
        let deadline = Instant::now() + Duration::from_secs(60);
        while is_readable && !proxy.has_seen(&reversed) {
            assert!(Instant::now() < deadline, "{protection:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(proxy.has_seen(&reversed), is_readable, "{protection:?}");
    }
}

#[test]
fn ranks_with_different_protections_are_refused_with_one_error_that_names_both() {
    for (first, second) in [(Protection::Encrypted, Protection::Checked), (Protection::Checked, Protection::Encrypted)]
    {
        let (listener, mut configs) = configs(&[0, 1], 2);
        let token = Token::random().unwrap();
        for (config, protection) in configs.iter_mut().zip([first, second]) {
            config.token = Some(token.clone());
            config.protection = protection;
        }
        let start = Instant::now();
        let texts = errors(join_each(listener, configs));
        assert!(start.elapsed() < Duration::from_secs(30), "nobody waits for the deadline");
        assert_eq!(texts[0], texts[1]);
        let expected = format!("was started {second}, rank 0 {first}: give all ranks the same protection");
        assert!(texts[0].starts_with("rendezvous: rank 1 at 127.0.0.1:"), "{}", texts[0]);
        assert!(texts[0].contains(&expected), "{}", texts[0]);
    }
}

#[test]
fn a_wrong_secret_has_the_same_error_with_encryption() {
    let (listener, mut configs) = configs(&[0, 1], 2);
    for config in &mut configs {
        config.token = Some(Token::random().unwrap());
        config.protection = Protection::Encrypted;
        config.rendezvous_timeout_ms = 4_000;
    }
    let texts = errors(join_each(listener, configs));
    assert!(texts[0].contains("rejected this process's token"), "{}", texts[0]);
    assert!(texts[1].contains("the token of the master at") && texts[1].contains("differs"), "{}", texts[1]);
}
