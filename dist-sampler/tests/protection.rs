//! Tests of sampling and features over checked and encrypted connections.

use crate::proxy;
use crate::support;

use edgecut_cluster::{Cluster, ClusterConfig, Protection, ServiceConfig, ServiceListener, Token, with_causes};
use edgecut_dist_sampler::{
    BatchKey, DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, NodeFields, SampleError, SampleSeeds,
    SampledSubgraph, SamplerConfig, ServerList,
};
use edgecut_graph::Meta;
use proxy::{Direction, Proxy};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{DIM, NODES, dataset, nodes_of, parts_of, shut_down, start};

const NUM_NODES: u32 = 3_000;
const PROTECTED: [Protection; 2] = [Protection::Checked, Protection::Encrypted];

/// Two ranks with a part each. The connections that rank 1 opens to rank 0 pass through a proxy.
struct Job {
    proxy: Proxy,
    ranks: Vec<Cluster>,
    nodes: Vec<Arc<DistGraph>>,
}

impl Job {
    fn start(dir: &Path, protection: Protection) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let proxy = Proxy::start(listener.local_addr().expect("a bound socket"));
        let token = Token::random().expect("random bytes");
        let fingerprint = Meta::read(dir).expect("read META.json").fingerprint();
        let config = |rank, port| {
            let mut config = ClusterConfig::new(rank, 2, "127.0.0.1", port);
            config.token = Some(token.clone());
            config.protection = protection;
            config.fingerprint = fingerprint.clone();
            config
        };
        let first = config(0, 1);
        let second = config(1, proxy.addr.port());
        let ranks = std::thread::scope(|scope| {
            let member = scope.spawn(|| Cluster::join(second).expect("rank 1 joins"));
            let master = Cluster::join_on(listener, first).expect("rank 0 joins");
            vec![master, member.join().expect("no panic")]
        });
        let nodes = ranks.iter().map(|cluster| start(dir, cluster, &DistGraphConfig::default())).collect();
        Self { proxy, ranks, nodes }
    }

    /// Fetches the features of all nodes of rank 0 on rank 1.
    fn fetch(&self) -> Result<Vec<f32>, SampleError> {
        let graph = &self.nodes[1];
        let wanted = NodeFields::FEATURES;
        let fetched = graph.handle().clone().block_on(graph.fetch(NODES, nodes_of(graph, 0), wanted))?;
        Ok(fetched.features)
    }

    fn sample(&self) -> Result<SampledSubgraph, SampleError> {
        let graph = &self.nodes[1];
        let config = SamplerConfig::new(vec![Fanout::Count(3), Fanout::Count(2)]);
        let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config)?);
        let seeds = SampleSeeds::of_type(NODES, nodes_of(graph, 0), 1);
        graph.handle().clone().block_on(sampler.sample(seeds, BatchKey { seed: 5, epoch: 1, batch: 2 }))
    }

    fn end(self) {
        drop(self.nodes);
        shut_down(self.ranks);
    }
}

#[test]
fn batches_are_the_same_and_only_encryption_hides_features() {
    let dir = parts_of(&dataset(NUM_NODES, None), 2);
    let mut expected = None;
    for protection in [Protection::Unprotected, Protection::Checked, Protection::Encrypted] {
        let job = Job::start(dir.path(), protection);
        let features = job.fetch().expect("features");
        assert_eq!(features.len(), nodes_of(&job.nodes[1], 0).len() * DIM);
        let row: Vec<u8> = features[DIM..2 * DIM].iter().flat_map(|number| number.to_le_bytes()).collect();
        let results = (features, job.sample().expect("a neighborhood"));
        assert_eq!(job.proxy.has_seen(&row), protection != Protection::Encrypted, "{protection:?}");
        assert!(*expected.get_or_insert(results.clone()) == results, "{protection:?}");
        job.end();
    }
}

#[test]
fn a_modified_reply_or_request_ends_the_job_and_names_the_sender() {
    let dir = parts_of(&dataset(NUM_NODES, None), 2);
    for protection in PROTECTED {
        for (direction, sender) in [(Direction::ToConnector, 0), (Direction::FromConnector, 1)] {
            let job = Job::start(dir.path(), protection);
            job.fetch().expect("the connections are open");
            // Heartbeats and answers about them are shorter.
            job.proxy.modify_next(direction, 1, 200);
            // A request may be repeated over a new connection before this rank hears that the job has failed.
            let error = (0..1_000)
                .find_map(|_| job.fetch().err())
                .unwrap_or_else(|| panic!("{protection:?}, from rank {sender}: the job does not fail"));
            let failure = job.ranks[0].verdict("").failure.expect("the job has failed");
            for text in [failure.to_string(), job.ranks[1].verdict(with_causes(&error)).to_string()] {
                let sent = format!("a message from rank {sender} at 127.0.0.1:");
                assert!(text.contains(&sent) && text.contains("was modified on the way"), "{protection:?}: {text}");
            }
        }
    }
}

/// Connects a trainer to a server.
fn connect(dir: &Path, server: Protection, client: Protection) -> Result<Vec<u32>, SampleError> {
    let token = Token::random().expect("random bytes");
    let service = |protection| {
        let mut service = ServiceConfig::new(Some(token.clone()));
        service.protection = protection;
        service
    };
    let listener = ServiceListener::bind("127.0.0.1".parse().expect("an address"), 0, &service(server))?;
    let address = listener.addr().to_string();
    let servers = ServerList::parse(&address, service(server))?;
    let part = Arc::new(servers.open_part(dir, 0, false).expect("open the part"));
    let _server = DistGraph::serve(part, servers, 0, listener, DistGraphConfig::default())?;
    let trainer = Cluster::join_local(1, |_| {})?.remove(0);
    let servers = ServerList::parse(&address, service(client))?;
    let client = DistGraph::connect(servers, trainer, DistGraphConfig::default(), Duration::from_secs(20))?;
    let nodes = client.split_nodes(NODES, edgecut_graph::Split::Train)?;
    Ok(nodes.to_vec())
}

#[test]
fn servers_and_trainers_need_the_same_protection() {
    let dir = parts_of(&dataset(NUM_NODES, None), 1);
    let expected = connect(dir.path(), Protection::Checked, Protection::Checked).expect("a connection");
    let encrypted = connect(dir.path(), Protection::Encrypted, Protection::Encrypted).expect("a connection");
    assert_eq!(encrypted, expected);
    for (server, client) in [(Protection::Encrypted, Protection::Checked), (Protection::Checked, Protection::Encrypted)]
    {
        let error = connect(dir.path(), server, client).expect_err("they differ");
        let text = with_causes(&error);
        let expected = format!("was started {server}, this process {client}: give all processes the same protection");
        assert!(text.contains("server 127.0.0.1:") && text.contains(&expected), "{text}");
    }
}

/// Two servers that everyone reaches through proxies.
struct ProxiedServers {
    proxies: Vec<Proxy>,
    /// The addresses behind the proxies.
    own: Vec<SocketAddr>,
    listeners: Vec<ServiceListener>,
    list: ServerList,
}

impl ProxiedServers {
    fn new(token: Option<&Token>, protection: Protection) -> Self {
        let mut service = ServiceConfig::new(token.cloned());
        service.protection = protection;
        let listen = |_| ServiceListener::bind(Ipv4Addr::LOCALHOST.into(), 0, &service).expect("a free port");
        let listeners: Vec<ServiceListener> = (0..2).map(listen).collect();
        let own: Vec<SocketAddr> = listeners.iter().map(ServiceListener::addr).collect();
        let proxies: Vec<Proxy> = own.iter().map(|&addr| Proxy::start(addr)).collect();
        let list: Vec<String> = proxies.iter().map(|proxy| proxy.addr.to_string()).collect();
        let list = ServerList::parse(&list.join(","), service).expect("a list");
        Self { proxies, own, listeners, list }
    }
}

#[test]
fn servers_and_trainers_whose_connections_reach_another_server_name_both() {
    let dir = parts_of(&dataset(NUM_NODES, None), 2);
    let token = Token::random().expect("random bytes");
    for (token, protection) in [(None, Protection::Unprotected), (Some(&token), Protection::Encrypted)] {
        let ProxiedServers { proxies, own, listeners, list } = ProxiedServers::new(token, protection);
        let config = DistGraphConfig::default();
        // The servers reach themselves in place of each other.
        (0..2).for_each(|server| proxies[server].redirect(0, own[1 - server]));
        let servers: Vec<Arc<DistGraph>> = listeners
            .into_iter()
            .enumerate()
            .map(|(server, listener)| {
                let part = Arc::new(list.open_part(dir.path(), server, false).expect("open the part"));
                DistGraph::serve(part, list.clone(), server, listener, config.clone()).expect("a server")
            })
            .collect();
        for (server, graph) in servers.iter().enumerate() {
            let other = 1 - server;
            let error = graph.handle().clone().block_on(graph.reach_peers()).expect_err("it reaches itself");
            let text = with_causes(&error);
            let expected = format!("the connection from server {server} to server {other} (");
            assert!(text.contains(&expected) && text.contains(&format!("has reached server {server}:")), "{text}");
        }
        for server in 0..2 {
            let other = 1 - server;
            proxies[other].end_redirection();
            proxies[server].redirect(0, own[other]);
            let trainer = Cluster::join_local(1, |_| {}).expect("a job of one process").remove(0);
            let patience = Duration::from_secs(20);
            let connected = DistGraph::connect(list.clone(), trainer, config.clone(), patience);
            let text = with_causes(&connected.err().expect("it reaches another server"));
            let expected = format!("the connection from client 0 to server {server} (");
            assert!(text.contains(&expected) && text.contains(&format!("has reached server {other}:")), "{text}");
        }
    }
}
