//! The rendezvous of jobs, and the errors when it fails.

mod support;

use edgecut_testing::{Need, assert_has, free_port, skip};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use edgecut_cluster::{Cluster, ClusterConfig, ClusterError, Token};
use support::{configs, errors, join_each, on_each};

#[test]
fn ranks_with_one_secret_meet() {
    let (listener, mut configs) = configs(&[0, 1, 2], 3);
    let token = Token::random().unwrap();
    configs.iter_mut().for_each(|config| config.token = Some(token.clone()));
    // The name resolves to more than one address on most machines.
    configs[2].master_addr = "localhost".to_owned();
    let clusters: Vec<_> = join_each(listener, configs).into_iter().map(Result::unwrap).collect();
    let addr_of_1 = clusters[1].addr_of(1).unwrap();
    on_each(clusters, |cluster| {
        assert_eq!(cluster.addr_of(1).unwrap(), addr_of_1);
        assert!(cluster.addr_of(3).unwrap_err().to_string().contains("no rank 3"));
        cluster.world().unwrap().barrier().unwrap();
        cluster.shutdown().unwrap();
    });
}

#[test]
fn a_wrong_secret_ends_both_sides() {
    let one_sided = [Some(Token::random().unwrap()), None];
    let two_different = [Some(Token::random().unwrap()), Some(Token::random().unwrap())];
    for tokens in [one_sided, two_different] {
        let (listener, mut configs) = configs(&[0, 1], 2);
        for (config, token) in configs.iter_mut().zip(tokens) {
            config.token = token;
            config.rendezvous_timeout_ms = 4_000;
        }
        let errors = errors(join_each(listener, configs));
        assert!(errors[0].contains("rank 1 has not joined within 4 s (joined: 0)"), "{}", errors[0]);
        assert!(errors[0].contains("turned away: 127.0.0.1:"), "{}", errors[0]);
        assert!(errors[0].contains("rejected this process's token"), "{}", errors[0]);
        assert!(errors[1].contains("the token of the master at 127.0.0.1:"), "{}", errors[1]);
        assert!(errors[1].contains("differs from this process's"), "{}", errors[1]);
    }
}

#[test]
fn without_a_secret_only_loopback_works() {
    let mut config = ClusterConfig::new(0, 2, "localhost", 29_500);
    config.listen_addr = Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let master = Cluster::join(config).unwrap_err().to_string();
    assert!(master.starts_with("listen on 0.0.0.0:29500 without a shared secret"), "{master}");

    // An address reserved for documentation. The check fails before any connection is attempted.
    let member = format!("{:#}", Cluster::join(ClusterConfig::new(1, 2, "192.0.2.1", 29_500)).unwrap_err());
    assert!(member.starts_with("connect to 192.0.2.1:29500 without a shared secret"), "{member}");
    assert!(member.contains("EDGECUT_TOKEN"), "{member}");

    let (listener, mut configs) = configs(&[0, 1], 2);
    configs[1].listen_addr = Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let errors = errors(join_each(listener, configs));
    assert!(errors[0].contains("rank 1 at 127.0.0.1:"), "rank 0 hears at once why: {}", errors[0]);
    assert!(errors.iter().all(|error| error.contains("without a shared secret")), "{errors:?}");
}

#[test]
fn a_missing_rank_is_named_on_all_others() {
    let (listener, mut configs) = configs(&[0, 1, 3], 4);
    configs[0].rendezvous_timeout_ms = 4_000;
    for error in errors(join_each(listener, configs)) {
        assert!(error.contains("rank 2 has not joined within 4 s (joined: 0, 1, 3)"), "{error}");
    }
}

#[test]
fn a_master_that_never_comes_is_named() {
    let mut config = ClusterConfig::new(1, 2, "127.0.0.1", free_port());
    config.rendezvous_timeout_ms = 300;
    let error = format!("{:#}", Cluster::join(config).unwrap_err());
    assert!(error.contains("rank 1 has not reached the master within 0.3 s"), "{error}");
}

/// Starts ranks of a job, the last one after a change, and checks that the errors of all ranks have these texts.
fn assert_refused(ranks: &[usize], world: usize, change: impl FnOnce(&mut ClusterConfig), texts: &[&str]) {
    let (listener, mut configs) = configs(ranks, world);
    configs.iter_mut().for_each(|config| config.fingerprint = "abc".to_owned());
    change(configs.last_mut().expect("a rank"));
    for error in errors(join_each(listener, configs)) {
        assert!(texts.iter().all(|text| error.contains(text)), "{error}");
    }
}

#[test]
fn a_rank_that_does_not_fit_is_named_on_all_ranks() {
    assert_refused(&[0, 1, 1], 3, |_| {}, &["two processes claim rank 1"]);
    let texts = ["rank 2 at 127.0.0.1:", "its fingerprint is def, rank 0's is abc"];
    assert_refused(&[0, 1, 2], 3, |config| config.fingerprint = "def".to_owned(), &texts);
    let texts = ["was started with a world size of 3, rank 0 with 2"];
    assert_refused(&[0, 1], 2, |config| config.world_size = 3, &texts);
}

#[test]
fn ranks_that_are_not_consecutive_per_node_are_refused() {
    let (listener, mut configs) = configs(&[0, 1, 2, 3], 4);
    // Two nodes of two processes, whose ranks were assigned in turn, as by `mpirun --map-by node`.
    for config in &mut configs {
        (config.local_rank, config.local_world_size) = (config.rank / 2, 2);
    }
    let errors = errors(join_each(listener, configs));
    assert!(errors[0].contains("the ranks of a node are not consecutive"), "{}", errors[0]);
    assert!(errors.iter().all(|error| error.contains("--map-by slot")), "{errors:?}");
}

#[test]
fn a_process_of_an_earlier_attempt_does_not_end_the_rendezvous() {
    let (listener, mut configs) = configs(&[0, 1, 1], 2);
    let mut old = configs.pop().unwrap();
    configs.iter_mut().for_each(|config| config.attempt = 1);
    old.fingerprint = "of an earlier attempt".to_owned();
    let addr = listener.local_addr().unwrap();
    // The old process retries until rank 0 listens.
    drop(listener);
    let old = std::thread::spawn(move || Cluster::join(old));
    let mut ranks = configs.into_iter();
    let master = ranks.next().unwrap();
    let master = std::thread::spawn(move || Cluster::join(master));
    let error = old.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("belongs to the attempt after 0 restarts, rank 0 to that after 1"), "{error}");
    let member = Cluster::join(ranks.next().unwrap()).unwrap();
    let master = master.join().unwrap().unwrap();
    assert_eq!(master.addr_of(0).unwrap(), addr);
    on_each(vec![master, member], |cluster| cluster.shutdown().unwrap());
}

#[test]
fn a_process_of_another_job_is_refused_and_the_rendezvous_goes_on() {
    let (listener, mut configs) = configs(&[0, 1, 1], 2);
    let mut other = configs.pop().unwrap();
    configs.iter_mut().for_each(|config| config.job = Some("a".to_owned()));
    other.job = Some("b".to_owned());
    let mut unnamed = other.clone();
    unnamed.job = None;
    let mut ranks = configs.into_iter();
    let master = ranks.next().unwrap();
    let master = std::thread::spawn(move || Cluster::join_on(listener, master));
    let error = Cluster::join(other).unwrap_err().to_string();
    assert!(error.contains("belongs to the job \"b\", rank 0 to the job \"a\": give each job a port"), "{error}");
    let error = Cluster::join(unnamed).unwrap_err().to_string();
    assert!(error.contains("belongs to a job without a name, rank 0 to the job \"a\""), "{error}");
    let member = Cluster::join(ranks.next().unwrap()).unwrap();
    let master = master.join().unwrap().unwrap();
    on_each(vec![master, member], |cluster| cluster.shutdown().unwrap());
}

#[test]
fn a_port_in_use_is_explained() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = holder.local_addr().unwrap();
    let error = Cluster::join(ClusterConfig::new(0, 2, "127.0.0.1", addr.port())).unwrap_err();
    assert!(matches!(error, ClusterError::PortInUse { .. }), "{error}");
    let text = format!("listen on {addr}: port in use; choose another `master_port`");
    assert!(error.to_string().starts_with(&text), "{error}");

    // A rank whose own port is in use tells the others, so they do not wait until the deadline.
    let (listener, mut configs) = configs(&[0, 1], 2);
    configs[1].listen_port = addr.port();
    let errors = errors(join_each(listener, configs));
    assert!(errors.iter().all(|error| error.contains(&format!("listen on {addr}: port in use"))), "{errors:?}");
    assert!(errors[0].contains("rank 1 at 127.0.0.1:"), "{}", errors[0]);
}

#[test]
fn strangers_do_not_stop_the_rendezvous() {
    let (listener, configs) = configs(&[0, 1], 2);
    let addr = listener.local_addr().unwrap();
    let mut strangers: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(addr).unwrap()).collect();
    strangers[0].write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    strangers[1].write_all(&[0xff; 4096]).unwrap();
    strangers[2].write_all(b"EDGE").unwrap();
    strangers[3].write_all(b"EDGECUT\n\x01\0\0\0").unwrap();
    strangers.truncate(6);
    let clusters: Vec<_> = join_each(listener, configs).into_iter().map(Result::unwrap).collect();
    let mut answer = Vec::new();
    let _ = strangers[0].read_to_end(&mut answer);
    assert!(answer.is_empty(), "a stranger is told nothing");
    on_each(clusters, |cluster| cluster.shutdown().unwrap());
}

#[test]
fn a_stranger_with_another_version_is_told_so() {
    let (listener, mut configs) = configs(&[0], 2);
    configs[0].rendezvous_timeout_ms = 4_000;
    let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stranger.write_all(b"EDGECUT\n\x63\0\0\0").unwrap();
    stranger.write_all(&[7; 32]).unwrap();
    stranger.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    assert_has(errors(join_each(listener, configs)).remove(0), &["speaks protocol 99, this node speaks"]);
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).unwrap();
    assert_eq!(answer[..8], *b"EDGECUT\n");
    assert_eq!(answer.len(), 12, "the magic and the version, from which the stranger learns this node's version");
}

#[test]
fn rank_0_may_start_last() {
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let [master, member] = [0, 1].map(|rank| ClusterConfig::new(rank, 2, "127.0.0.1", port));
    let member = std::thread::spawn(move || Cluster::join(member));
    // The first connection is closed, then nobody listens, then rank 0 does.
    drop(listener.accept().unwrap());
    drop(listener);
    let master = Cluster::join(master).unwrap();
    let member = member.join().unwrap().unwrap();
    on_each(vec![master, member], |cluster| cluster.shutdown().unwrap());
}

#[test]
fn a_rank_that_comes_after_the_start_is_refused() {
    let (listener, mut configs) = configs(&[0, 1, 1], 2);
    let late = configs.pop().unwrap();
    let clusters: Vec<_> = join_each(listener, configs).into_iter().map(Result::unwrap).collect();
    assert_has(Cluster::join(late).unwrap_err().to_string(), &["came too late"]);
    on_each(clusters, |cluster| cluster.shutdown().unwrap());
}

#[test]
fn a_listening_address_for_all_interfaces_is_told_to_others_as_a_real_one() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let token = Token::random().unwrap();
    let config = |rank| {
        let mut config = ClusterConfig::new(rank, 2, "127.0.0.1", port);
        config.token = Some(token.clone());
        config.listen_addr = Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        config
    };
    let clusters = join_each(listener, vec![config(0), config(1)]).into_iter().map(Result::unwrap).collect();
    on_each(clusters, |cluster| {
        for rank in 0..2 {
            assert!(cluster.addr_of(rank).unwrap().ip().is_loopback());
        }
        cluster.world().unwrap().barrier().unwrap();
        cluster.shutdown().unwrap();
    });
}

#[test]
fn ipv6_works() {
    let listener = match TcpListener::bind("[::1]:0") {
        Ok(listener) => listener,
        Err(why) => return skip(Need::Ipv6, "ipv6_works", why),
    };
    let port = listener.local_addr().unwrap().port();
    let configs = (0..2).map(|rank| ClusterConfig::new(rank, 2, "::1", port)).collect();
    let clusters = join_each(listener, configs).into_iter().map(Result::unwrap).collect();
    on_each(clusters, |cluster| {
        cluster.world().unwrap().barrier().unwrap();
        cluster.shutdown().unwrap();
    });
}

#[test]
fn a_job_of_one_needs_no_port() {
    let _holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = _holder.local_addr().unwrap().port();
    let cluster = Cluster::join(ClusterConfig::new(0, 1, "127.0.0.1", port)).unwrap();
    let mut data = [3.0_f32];
    cluster.world().unwrap().all_reduce(&mut data, edgecut_cluster::ReduceOp::Mean).unwrap();
    assert_eq!(data, [3.0]);
    let start = Instant::now();
    cluster.shutdown().unwrap();
    assert!(start.elapsed() < Duration::from_secs(60));
}
