//! Tests of connections to peers that are late, overloaded, or never serve.

use crate::support;

use edgecut_cluster::{Cluster, ServiceConfig, ServiceListener};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, NodeFields, PeerName, SampleError, ServerList};
use futures::future::join_all;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{DIM, NODES, dataset, join, nodes_of, parts_of, shut_down, start};

#[test]
fn a_rank_that_refuses_connections_until_it_serves_is_connected_to() {
    let dir = parts_of(&dataset(200, None), 2);
    // No thread accepts connections of rank 1 before its service starts, so its queue is full after the first one.
    let ranks = join(dir.path(), |config| config.rpc_backlog = 1);
    let config = DistGraphConfig { connect_budget_ms: 60_000, ..DistGraphConfig::default() };
    let _in_queue = ranks[0].connect_rpc(1).expect("the first connection fits");
    let refused = ranks[0].connect_rpc(1).expect_err("the second does not").to_string();
    assert!(refused.contains("too many connections wait to be served"), "{refused}");
    let asking = start(dir.path(), &ranks[0], &config);
    let wanted = nodes_of(&asking, 1);
    let late = std::thread::scope(|scope| {
        let fetched =
            scope.spawn(|| asking.handle().block_on(asking.fetch(NODES, wanted.clone(), NodeFields::FEATURES)));
        // By now the attempts were refused or wait to be served.
        std::thread::yield_now();
        let late = start(dir.path(), &ranks[1], &config);
        let fetched = fetched.join().expect("no panic").expect("features of the late rank");
        assert_eq!(fetched.features.len(), wanted.len() * DIM);
        late
    });
    asking.handle().block_on(asking.wait_until_connected()).expect("both are connected");
    drop((asking, late));
    shut_down(ranks);
}

#[test]
fn a_rank_that_never_serves_fails_once_for_many_concurrent_requests() {
    let dir = parts_of(&dataset(200, None), 2);
    let ranks = join(dir.path(), |config| config.rpc_backlog = 1);
    let _in_queue = ranks[0].connect_rpc(1).expect("the first connection fits");
    let config = DistGraphConfig { connect_budget_ms: 1_500, ..DistGraphConfig::default() };
    let graph = start(dir.path(), &ranks[0], &config);
    let wanted = nodes_of(&graph, 1);
    let begin = Instant::now();
    let errors: Vec<SampleError> = graph.handle().block_on(async {
        let requests = (0..64).map(|i| graph.fetch(NODES, vec![wanted[i]], NodeFields::FEATURES));
        join_all(requests).await.into_iter().map(|fetched| fetched.expect_err("rank 1 does not serve")).collect()
    });
    // Sequential requests would take 96 s plus the waits for the control plane.
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    for error in errors {
        let SampleError::Connect { peer: PeerName::Rank { rank: 1, .. }, source, .. } = error else {
            panic!("{error:?}")
        };
        // On a busy machine the last attempt may end at its deadline instead.
        let text = format!("{source:#}");
        let is_known =
            ["too many connections wait to be served", "no connection after", "deadline has passed", "timed out"];
        assert!(is_known.iter().any(|known| text.contains(known)), "{text}");
    }
    let error = graph.handle().block_on(graph.wait_until_connected()).expect_err("the failure is remembered");
    assert!(matches!(error, SampleError::Connect { peer: PeerName::Rank { rank: 1, .. }, .. }), "{error:?}");
    drop(graph);
    shut_down(ranks);
}

#[test]
fn a_broken_connection_is_opened_again() {
    let dir = parts_of(&dataset(200, None), 2);
    let ranks = join(dir.path(), |_| ());
    let config = DistGraphConfig::default();
    // The first two connections of rank 0 are closed as soon as they are open.
    let mut incoming = ranks[1].take_rpc_incoming().expect("no other service takes them");
    let graph = start(dir.path(), &ranks[0], &config);
    graph.handle().block_on(graph.wait_until_connected()).expect("both connections are accepted");
    for _ in 0..2 {
        drop(incoming.blocking_recv().expect("two connections"));
    }
    let begin = Instant::now();
    let wanted = nodes_of(&graph, 1);
    let closer = std::thread::spawn(move || {
        // A request reconnects once. It fails when the second connection breaks too.
        drop(incoming.blocking_recv().expect("a third connection"));
    });
    let error = graph.handle().block_on(graph.fetch(NODES, wanted, NodeFields::FEATURES)).expect_err("no peer answers");
    assert!(error.to_string().contains("after an earlier failure"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(30), "it does not wait for a deadline");
    closer.join().expect("no panic");
    drop(graph);
    shut_down(ranks);
}

#[test]
fn a_server_that_accepts_but_does_not_answer_is_named_within_the_patience() {
    // The connection is open, but no request is read, as on a server that is suspended after the handshake.
    let service = ServiceConfig::new(None);
    let mut listener = ServiceListener::bind(Ipv4Addr::LOCALHOST.into(), 0, &service).expect("a free port");
    listener.serve(0, "a graph").expect("it listens");
    let address = listener.addr().to_string();
    let servers = ServerList::parse(&address, service).expect("a list");
    let client = Cluster::join_local(1, |_| {}).expect("join").remove(0);
    let config = DistGraphConfig { rpc_timeout_ms: 600_000, ..DistGraphConfig::default() };
    let begin = Instant::now();
    let connected = DistGraph::connect(servers, client, config, Duration::from_secs(1));
    let error = connected.err().expect("no description comes");
    assert!(error.to_string().contains(&address), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn thirty_two_ranks_connect_at_once_on_a_busy_machine() {
    const NUM_RANKS: u32 = 32;
    let dir = parts_of(&dataset(3200, None), NUM_RANKS);
    let ranks = join(dir.path(), |_| ());
    let config = DistGraphConfig { num_workers: 1, ..DistGraphConfig::default() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 * std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let config = &config;
        let dir = dir.path();
        let run = move |cluster: &Cluster| {
            let graph = start(dir, cluster, config);
            graph.handle().block_on(graph.wait_until_connected())?;
            // One node of each part.
            let wanted: Vec<u32> = (0..NUM_RANKS).map(|part| nodes_of(&graph, part)[0]).collect();
            let fetched = graph.handle().block_on(graph.fetch(NODES, wanted, NodeFields::FEATURES))?;
            assert_eq!(fetched.features.len(), NUM_RANKS as usize * DIM);
            Ok::<_, SampleError>(graph)
        };
        let threads: Vec<_> = ranks.iter().map(|cluster| scope.spawn(move || run(cluster))).collect();
        let nodes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed);
        for node in &nodes {
            let node = node.as_ref().expect("no panic");
            assert!(node.is_ok(), "{:?}", node.as_ref().err());
        }
    });
    shut_down(ranks);
}
