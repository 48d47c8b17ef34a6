//! Jobs inside one process, for the tests.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

pub(crate) mod proxy;
pub(crate) mod worker;

use std::net::TcpListener;
use std::thread;

use edgecut_cluster::{Cluster, ClusterConfig, ClusterError};

/// Joins each rank on a thread of its own. The first configuration is that of rank 0. Its listener is bound already, so
/// that no other test can take its port.
pub(crate) fn join_each(listener: TcpListener, configs: Vec<ClusterConfig>) -> Vec<Result<Cluster, ClusterError>> {
    thread::scope(|scope| {
        let mut configs = configs.into_iter();
        let master = configs.next().expect("rank 0 comes first");
        let members: Vec<_> = configs.map(|config| scope.spawn(move || Cluster::join(config))).collect();
        let mut joined = vec![Cluster::join_on(listener, master)];
        joined.extend(members.into_iter().map(|member| member.join().expect("no rank panics")));
        joined
    })
}

/// Returns a bound loopback listener and a configuration for each of `ranks`.
pub(crate) fn configs(ranks: &[usize], world_size: usize) -> (TcpListener, Vec<ClusterConfig>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("a bound socket").port();
    let config = |&rank| {
        let mut config = ClusterConfig::new(rank, world_size, "127.0.0.1", port);
        config.notice = |_| {};
        config
    };
    let configs = ranks.iter().map(config).collect();
    (listener, configs)
}

/// Runs `work` for each rank on a thread of its own. Returns the results in rank order.
pub(crate) fn on_each<T: Send>(clusters: Vec<Cluster>, work: impl Fn(Cluster) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = clusters.into_iter().map(|cluster| scope.spawn(move || work(cluster))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}

/// Returns the errors of ranks, all of which must have failed.
pub(crate) fn errors<T: std::fmt::Debug>(outcomes: Vec<Result<T, ClusterError>>) -> Vec<String> {
    outcomes.into_iter().map(|outcome| format!("{:#}", outcome.expect_err("the job cannot take place"))).collect()
}
