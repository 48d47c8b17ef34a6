//! Tests of a network that leads connections to another process of the same job, or to another server.

#[path = "../../tests/support/proxy.rs"]
mod proxy;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc::channel;
use std::thread;

use proxy::Proxy;

use super::*;
use crate::handshake::identity::Purpose;
use crate::join::messages::{RingKey, Topology};
use crate::secure::protection::Protection;
use crate::service::{ServiceAddress, ServiceCaller, ServiceConfig, ServiceListener, ServiceTarget};
use crate::token::Token;

const WORLD_SIZE: usize = 3;

/// The secret and the protection of a job.
type Mode = (Option<Token>, Protection);

fn modes() -> [Mode; 4] {
    let token = Some(Token::random().unwrap());
    [
        (None, Protection::Unprotected),
        (token.clone(), Protection::Unprotected),
        (token.clone(), Protection::Checked),
        (token, Protection::Encrypted),
    ]
}

fn config(rank: usize, master_port: u16, (token, protection): &Mode) -> ClusterConfig {
    let mut config = ClusterConfig::new(rank, WORLD_SIZE, "127.0.0.1", master_port);
    config.token = token.clone();
    config.protection = *protection;
    config.notice = |_| {};
    config
}

/// Joins as a rank other than 0, which others reach at the address that `advertise` returns, given its own.
fn join(config: ClusterConfig, advertise: impl FnOnce(SocketAddr) -> SocketAddr) -> Result<Cluster, ClusterError> {
    let applicant = rendezvous::reach(&config)?;
    let listen = advertise(applicant.listen);
    Cluster::join_as_member(config, applicant, listen)
}

/// A job whose ranks reach each other through a proxy in front of each.
struct ProxiedJob {
    ranks: Vec<Cluster>,
    proxies: Vec<Proxy>,
    /// The addresses behind the proxies.
    own: Vec<SocketAddr>,
}

impl ProxiedJob {
    fn start(mode: &Mode) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let master = listener.local_addr().unwrap();
        let front = Proxy::start(master);
        let member = |rank| {
            let (sender, proxied) = channel();
            let joined = join(config(rank, front.addr.port(), mode), |listen| {
                let proxy = Proxy::start(listen);
                let addr = proxy.addr;
                sender.send((proxy, listen)).unwrap();
                addr
            });
            (joined.unwrap(), proxied.recv().unwrap())
        };
        let (first, members) = thread::scope(|scope| {
            let member = &member;
            let members: Vec<_> = (1..WORLD_SIZE).map(|rank| scope.spawn(move || member(rank))).collect();
            let first = Cluster::join_on(listener, config(0, master.port(), mode)).unwrap();
            (first, members.into_iter().map(|member| member.join().unwrap()).collect::<Vec<_>>())
        });
        let mut job = Self { ranks: vec![first], proxies: vec![front], own: vec![master] };
        for (cluster, (proxy, listen)) in members {
            job.ranks.push(cluster);
            job.proxies.push(proxy);
            job.own.push(listen);
        }
        job
    }
}

/// Checks that an error names both processes and the one that was reached.
fn assert_names(outcome: Result<SecureStream, ClusterError>, from: &str, to: &str, found: &str, context: &str) {
    let text = outcome.err().unwrap_or_else(|| panic!("{context}: accepted")).to_string();
    let begin = format!("the connection from {from} to {to} at 127.0.0.1:");
    assert!(text.starts_with(&begin) && text.contains(&format!("has reached {found}:")), "{context}: {text}");
}

#[test]
fn a_connection_that_reaches_another_rank_is_refused_by_name() {
    for mode in modes() {
        let job = ProxiedJob::start(&mode);
        for (from, cluster) in job.ranks.iter().enumerate() {
            for to in (0..WORLD_SIZE).filter(|&to| to != from) {
                // The second connection to a rank is a pulse, between two ranks other than 0.
                let has_pulse = from != 0 && to != 0;
                let key = RingKey {
                    name: "a group".to_owned(),
                    members: vec![from, to],
                    instance: 0,
                    from,
                    lane: Topology::Doubling,
                };
                for found in (0..WORLD_SIZE).filter(|&found| found != to) {
                    let names = [from, to, found].map(|rank| format!("rank {rank}"));
                    let context = format!("{:?}, {names:?}", mode.1);
                    let [from, to_name, found_name] = names.each_ref().map(String::as_str);
                    let proxy = &job.proxies[to];
                    if has_pulse {
                        proxy.redirect(proxy.connections() + 1, job.own[found]);
                        let opened = cluster.open_for(Purpose::Rpc, to, None);
                        assert_names(opened, from, to_name, found_name, &format!("{context}: pulse"));
                    }
                    proxy.redirect(0, job.own[found]);
                    for (purpose, ring) in [(Purpose::Rpc, None), (Purpose::Ring, Some(&key))] {
                        let opened = cluster.open_for(purpose, to, ring);
                        assert_names(opened, from, to_name, found_name, &format!("{context}: {purpose:?}"));
                    }
                    proxy.end_redirection();
                }
                cluster.connect_rpc(to).unwrap();
            }
        }
        thread::scope(|scope| {
            job.ranks.into_iter().for_each(|cluster| drop(scope.spawn(move || cluster.shutdown().unwrap())));
        });
    }
}

#[test]
fn a_rank_that_registers_at_another_rank_is_refused_by_name() {
    for mode in modes() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, listening) = channel();
        thread::scope(|scope| {
            let first = scope.spawn(|| Cluster::join_on(listener, config(0, port, &mode)));
            let second = scope.spawn(|| {
                join(config(1, port, &mode), |listen| {
                    sender.send(listen.port()).unwrap();
                    listen
                })
            });
            // Rank 1 listens, and waits for rank 2.
            let error = Cluster::join(config(2, listening.recv().unwrap(), &mode)).unwrap_err().to_string();
            let expected = "the connection from rank 2 to rank 0 (the master at 127.0.0.1:";
            assert!(error.starts_with(expected) && error.contains("has reached rank 1:"), "{error}");
            let third = scope.spawn(|| Cluster::join(config(2, port, &mode)));
            let ranks = [first, second, third].map(|joined| joined.join().unwrap().unwrap());
            ranks.into_iter().for_each(|cluster| drop(scope.spawn(move || cluster.shutdown().unwrap())));
        });
    }
}

#[test]
fn a_connection_that_reaches_another_server_is_refused_by_name() {
    for (token, protection) in modes() {
        let mut config = ServiceConfig::new(token);
        config.protection = protection;
        let mut servers: Vec<ServiceListener> = Vec::new();
        for server in 0..2 {
            let mut listener = ServiceListener::bind(Ipv4Addr::LOCALHOST.into(), 0, &config).unwrap();
            listener.serve(server, "the data").unwrap();
            servers.push(listener);
        }
        let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        let callers = [
            (ServiceCaller::Client(0), "client 0"),
            (ServiceCaller::Client(2), "client 2"),
            (ServiceCaller::Server(0), "server 0"),
            (ServiceCaller::Server(1), "server 1"),
        ];
        for (server, proxy) in proxies.iter().enumerate() {
            let address: ServiceAddress = proxy.addr.to_string().parse().unwrap();
            let other = 1 - server;
            for (caller, name) in callers {
                // A client asks for the description before it knows the data.
                for data in [None, Some("the data")] {
                    let target = ServiceTarget { from: caller, server, data };
                    let connect = || address.connect(&target, &config, Duration::from_secs(20));
                    connect().unwrap();
                    proxy.redirect(0, servers[other].addr());
                    let error = connect().unwrap_err().to_string();
                    let expected = format!("the connection from {name} to server {server} (server {address})");
                    let found = format!("has reached server {other}:");
                    assert!(error.starts_with(&expected) && error.contains(&found), "{protection:?}: {error}");
                    proxy.end_redirection();
                }
            }
        }
        let address: ServiceAddress = servers[0].addr().to_string().parse().unwrap();
        let target = ServiceTarget { from: ServiceCaller::Client(0), server: 0, data: Some("other data") };
        let error = address.connect(&target, &config, Duration::from_secs(20)).unwrap_err().to_string();
        assert!(error.contains("has reached server 0 of other data:"), "{error}");

        // Clients read more of the data than other servers, and know it by another name.
        let mut listener = ServiceListener::bind(Ipv4Addr::LOCALHOST.into(), 0, &config).unwrap();
        listener.name_for_clients("the data, built".to_owned());
        listener.serve(0, "the data").unwrap();
        let address: ServiceAddress = listener.addr().to_string().parse().unwrap();
        for (from, data, is_served) in [
            (ServiceCaller::Client(0), "the data, built", true),
            (ServiceCaller::Client(0), "the data", false),
            (ServiceCaller::Server(1), "the data", true),
            (ServiceCaller::Server(1), "the data, built", false),
        ] {
            let target = ServiceTarget { from, server: 0, data: Some(data) };
            let connected = address.connect(&target, &config, Duration::from_secs(20));
            assert_eq!(connected.is_ok(), is_served, "{from:?} {data}");
        }
    }
}

#[test]
fn ranks_and_servers_are_not_mistaken_for_each_other() {
    let mode: Mode = (Some(Token::random().unwrap()), Protection::Encrypted);
    let mut service = ServiceConfig::new(mode.0.clone());
    service.protection = mode.1;
    let mut server = ServiceListener::bind(Ipv4Addr::LOCALHOST.into(), 0, &service).unwrap();
    server.serve(0, "the data").unwrap();
    let error = Cluster::join(config(1, server.addr().port(), &mode)).unwrap_err().to_string();
    assert!(error.contains("from rank 1 to rank 0") && error.contains("has reached server 0:"), "{error}");

    let mut ranks = Cluster::join_local(1, |config| (config.token, config.protection) = mode.clone()).unwrap();
    let address: ServiceAddress = ranks[0].addr_of(0).unwrap().to_string().parse().unwrap();
    let target = ServiceTarget { from: ServiceCaller::Client(0), server: 0, data: None };
    let error = address.connect(&target, &service, Duration::from_secs(20)).unwrap_err().to_string();
    assert!(error.contains("from client 0 to server 0") && error.contains("has reached rank 0:"), "{error}");
    ranks.remove(0).shutdown().unwrap();
}
