//! Tests that clients of servers make the batches that ranks with parts make, over real sockets.

use crate::support;

use edgecut_cluster::{Cluster, ProcessGroup, ServiceConfig, ServiceListener, with_causes};
use edgecut_dist_loader::{
    DistEdgeNeighborLoader, DistLinkNeighborLoader, DistNeighborLoader, EdgeConfig, EdgeSeeds, Exclude,
    LabeledEdgeBatch, LinkBatch, LoaderConfig, MiniBatch, Seeds,
};
use edgecut_dist_sampler::{
    CacheSize, DistGraph, DistGraphConfig, DistNeighborSampler, EdgeFields, Labor, NumNeighbors, SamplerConfig,
    ServerList,
};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{DiskPartId, EdgeTypeId, HoldOut, Meta, NodeTypeId, Part, Split};
use edgecut_partition::Method;
use edgecut_testing::{assert_has, free_ports};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{EVERYTHING, graph, in_original_ids, on_ranks, uniform_negatives, write_parts};

const PATIENCE: Duration = Duration::from_secs(60);

/// Servers in this process that hold the parts in a folder.
struct Servers {
    list: ServerList,
    graphs: Vec<Arc<DistGraph>>,
}

impl Servers {
    fn start(dir: &Path, replicas: usize, config: &DistGraphConfig) -> Self {
        let num_parts = Meta::read(dir).expect("read META.json").num_parts;
        Self::start_some(dir, num_parts as usize * replicas, config)
    }

    /// Starts servers at ports that stay free when a server ends.
    fn start_some(dir: &Path, num_servers: usize, config: &DistGraphConfig) -> Self {
        let service = ServiceConfig::new(None);
        let listen = |port| ServiceListener::bind(Ipv4Addr::LOCALHOST.into(), port, &service).expect("a free port");
        let listeners: Vec<ServiceListener> = free_ports(num_servers).into_iter().map(listen).collect();
        let addresses: Vec<String> = listeners.iter().map(|listener| listener.addr().to_string()).collect();
        let list = ServerList::parse(&addresses.join(","), service).expect("a list");
        let serve = |(server, listener)| {
            let part = Arc::new(list.open_part(dir, server, true).expect("open the part"));
            DistGraph::serve(part, list.clone(), server, listener, config.clone()).expect("serve")
        };
        let graphs = listeners.into_iter().enumerate().map(serve).collect();
        Self { list, graphs }
    }

    /// Runs `work` on every client of a job of `num_clients`. Returns the result of each.
    fn on_clients<T: Send>(
        &self,
        num_clients: usize,
        work: impl Fn(Arc<DistGraph>, &mut ProcessGroup) -> T + Sync,
    ) -> Vec<T> {
        // Small enough for servers with small messages.
        let fetch_chunk_bytes = 4096;
        let config = DistGraphConfig { num_workers: 2, fetch_chunk_bytes, ..DistGraphConfig::default() };
        let run = |cluster: Cluster| {
            let list = self.list.clone();
            let graph = DistGraph::connect(list, cluster.clone(), config.clone(), PATIENCE).expect("connect");
            let mut world = cluster.world().expect("the world group");
            let result = work(graph, &mut world);
            drop(world);
            cluster.shutdown().expect("leave together");
            result
        };
        let clients = Cluster::join_local(num_clients, |_| {}).expect("join");
        std::thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = clients.into_iter().map(|cluster| scope.spawn(move || run(cluster))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no client panics")).collect()
        })
    }
}

fn config() -> LoaderConfig {
    LoaderConfig { even_batches: true, shuffle: true, seed: 3, ..LoaderConfig::new(12, EVERYTHING) }
}

fn loader(graph: &Arc<DistGraph>, seeds: Seeds, labor: Option<Labor>, world: &mut ProcessGroup) -> DistNeighborLoader {
    let fanouts = "12,12".parse::<NumNeighbors>().expect("fan-outs");
    let config_of_sampler = SamplerConfig::new(fanouts).with_labor(labor);
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config_of_sampler).expect("a sampler"));
    DistNeighborLoader::new(sampler, NodeTypeId(0), seeds, config(), world).expect("a loader")
}

/// Returns the batches of an epoch by neighbor sampling and of one by layer-neighbor sampling.
fn epochs(graph: &Arc<DistGraph>, seeds: Seeds, world: &mut ProcessGroup) -> Vec<MiniBatch> {
    let mut batches = Vec::new();
    for (epoch, labor) in [(0, None), (1, Some(Labor::default()))] {
        let loader = loader(graph, seeds.clone(), labor, world);
        batches.extend(loader.epoch(epoch).map(|batch| batch.expect("a batch")));
    }
    batches
}

#[test]
fn as_many_clients_as_ranks_get_the_batches_of_these_ranks() {
    let dir = tempfile::tempdir().expect("a folder");
    write_parts(&graph(600, 5_000, 1), 2, Method::Metis { recursive: false }, dir.path());
    let config = DistGraphConfig { num_workers: 2, ..DistGraphConfig::default() };
    let servers = Servers::start(dir.path(), 1, &config);
    for num_ranks in [2, 4] {
        for seeds in [Seeds::Split(Split::Train), Seeds::Owned] {
            let expected =
                on_ranks(dir.path(), num_ranks, &config, |graph, world| epochs(&graph, seeds.clone(), world));
            let batches = servers.on_clients(num_ranks, |graph, world| epochs(&graph, seeds.clone(), world));
            assert!(expected.iter().flatten().any(|batch| batch.num_seeds > 0));
            assert_eq!(batches, expected);
        }
    }
}

#[test]
fn any_number_of_clients_and_servers_makes_the_same_listed_batches() {
    let dataset = graph(600, 5_000, 2);
    let seeds: Vec<u32> = (0..600).step_by(7).collect();
    let whole = tempfile::tempdir().expect("a folder");
    write_parts(&dataset, 1, Method::Random, whole.path());
    let config = DistGraphConfig { num_workers: 2, ..DistGraphConfig::default() };
    let listed = |graph: &Arc<DistGraph>, world: &mut ProcessGroup| {
        // A client has no directory to make, so its lookups ask all servers.
        graph.make_directory(NodeTypeId(0), false, world).expect("the directory");
        let found = graph.handle().block_on(graph.find_originals(NodeTypeId(0), &seeds)).expect("the seeds");
        epochs(graph, Seeds::Listed(found), world).into_iter().map(in_original_ids).collect::<Vec<_>>()
    };
    let in_order = |of_ranks: Vec<Vec<MiniBatch>>| {
        let mut batches: Vec<MiniBatch> = of_ranks.into_iter().flatten().filter(|b| b.num_seeds > 0).collect();
        batches.sort_by_key(|batch| (batch.key.epoch, batch.key.batch));
        batches
    };
    let expected = in_order(on_ranks(whole.path(), 1, &config, |graph, world| listed(&graph, world)));
    assert_eq!(expected.len(), 2 * seeds.len().div_ceil(12));
    let fewer_servers_than_parts = [(3, 1, 2), (5, 2, 2), (2, 3, 3)];
    let layouts = [(1, 1, 1), (2, 2, 1), (2, 2, 3), (3, 3, 2), (2, 4, 3)].into_iter().chain(fewer_servers_than_parts);
    for (num_parts, num_servers, num_clients) in layouts {
        let dir = tempfile::tempdir().expect("a folder");
        write_parts(&dataset, num_parts, Method::Metis { recursive: false }, dir.path());
        let servers = Servers::start_some(dir.path(), num_servers, &config);
        let batches = in_order(servers.on_clients(num_clients, |graph, world| listed(&graph, world)));
        assert_eq!(batches, expected, "{num_parts} parts, {num_servers} servers, {num_clients} clients");
    }
}

#[test]
fn clients_that_share_all_parts_see_each_training_node_once_per_epoch() {
    let dir = tempfile::tempdir().expect("a folder");
    let dataset = graph(600, 5_000, 3);
    let meta = write_parts(&dataset, 2, Method::Metis { recursive: false }, dir.path());
    let servers = Servers::start(dir.path(), 1, &DistGraphConfig::default());
    for num_clients in [1, 3] {
        let of_clients =
            servers.on_clients(num_clients, |graph, world| epochs(&graph, Seeds::Split(Split::Train), world));
        for epoch in 0..2 {
            let batches = of_clients.iter().flatten().filter(|batch| batch.key.epoch == epoch && batch.num_seeds > 0);
            let mut seeds: Vec<u32> =
                batches.flat_map(|batch| batch.nodes[0].original_ids[..batch.num_seeds].to_vec()).collect();
            seeds.sort_unstable();
            let expected: Vec<u32> = (0..600).step_by(3).collect();
            assert_eq!(seeds, expected);
        }
    }
    assert_eq!(meta.num_parts, 2);
}

#[test]
fn typed_graphs_caches_and_small_messages_change_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let dataset = fake_hetero(&FakeOptions { avg_num_nodes: 200, ..FakeOptions::default() }).expect("a graph");
    write_parts(&dataset, 2, Method::Metis { recursive: false }, dir.path());
    let config = DistGraphConfig { num_workers: 2, ..DistGraphConfig::default() };
    let train = Seeds::Split(Split::Train);
    let expected = on_ranks(dir.path(), 2, &config, |graph, world| epochs(&graph, train.clone(), world));
    let servers = Servers::start(dir.path(), 1, &config);
    let cached = |graph: Arc<DistGraph>, world: &mut ProcessGroup| {
        let hotness = loader(&graph, train.clone(), None, world).hotness(0, usize::MAX).expect("counts");
        graph.cache_features(hotness, CacheSize::Ratio(0.3)).expect("a cache");
        let batches = epochs(&graph, train.clone(), world);
        assert!(graph.traffic().count().cached_nodes > 0);
        batches
    };
    assert_eq!(servers.on_clients(2, |graph, world| epochs(&graph, train.clone(), world)), expected);
    assert_eq!(servers.on_clients(2, cached), expected);
    // Replies that do not fit into a message are replaced by hops that the client sends itself.
    let small = DistGraphConfig { max_message_bytes: 12 << 10, fetch_chunk_bytes: 4096, ..config };
    let servers = Servers::start(dir.path(), 1, &small);
    assert_eq!(servers.on_clients(2, |graph, world| epochs(&graph, train.clone(), world)), expected);
}

#[test]
fn a_list_in_another_order_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    write_parts(&graph(200, 1_000, 1), 2, Method::Metis { recursive: false }, dir.path());
    let servers = Servers::start(dir.path(), 1, &DistGraphConfig::default());
    let addresses = servers.list.addresses();
    for (addresses, expected) in [
        (
            vec![addresses[1].clone(), addresses[0].clone()],
            // Both connections are wrong, and either may be refused first.
            ": check the addresses of both, the list of",
        ),
        (vec![addresses[0].clone()], "give all servers and clients the same list"),
    ] {
        let list = ServerList::new(addresses, ServiceConfig::new(None)).expect("a list");
        let cluster = Cluster::join_local(1, |_| {}).expect("join").remove(0);
        let refused = DistGraph::connect(list, cluster, DistGraphConfig::default(), PATIENCE);
        assert_has(with_causes(&refused.err().expect("it is refused")), &[expected]);
    }
}

#[test]
fn a_server_that_ends_is_named_and_one_that_starts_again_is_used() {
    let dir = tempfile::tempdir().expect("a folder");
    write_parts(&graph(600, 5_000, 1), 2, Method::Metis { recursive: false }, dir.path());
    let config = DistGraphConfig { num_workers: 2, connect_budget_ms: 3_000, ..DistGraphConfig::default() };
    let mut servers = Servers::start(dir.path(), 1, &config);
    let address = servers.list.addresses()[1].clone();
    let list = servers.list.clone();
    let join = || {
        let cluster = Cluster::join_local(1, |_| {}).expect("join").remove(0);
        let graph = DistGraph::connect(list.clone(), cluster.clone(), config.clone(), PATIENCE).expect("connect");
        let of_client =
            loader(&graph, Seeds::Split(Split::Train), None, &mut cluster.world().expect("the world group"));
        (cluster, of_client)
    };
    let (_cluster, of_client) = join();
    let expected: Vec<MiniBatch> = of_client.epoch(0).map(|batch| batch.expect("a batch")).collect();

    drop(servers.graphs.pop());
    let error = of_client.epoch(0).find_map(Result::err).expect("a batch needs the server that has ended");
    assert_has(with_causes(&error), &[&format!("server {address}")]);

    let service = ServiceConfig::new(None);
    let listener = ServiceListener::bind(Ipv4Addr::LOCALHOST.into(), address.port(), &service).expect("the port");
    let part = Arc::new(Part::open(dir.path(), DiskPartId(1), true).expect("open the part"));
    let again = DistGraph::serve(part, list.clone(), 1, listener, config.clone()).expect("serve");
    // The server that stayed treats the other one as unreachable for up to a second.
    let begin = Instant::now();
    while let Err(error) = servers.graphs[0].handle().block_on(servers.graphs[0].wait_until_connected()) {
        assert!(begin.elapsed() < PATIENCE, "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (_cluster, of_client) = join();
    let batches: Vec<MiniBatch> = of_client.epoch(0).map(|batch| batch.expect("a batch")).collect();
    assert_eq!(batches, expected);
    drop(again);
}

fn link_batches(graph: &Arc<DistGraph>, split: Split, world: &mut ProcessGroup) -> Vec<LinkBatch> {
    let sampler_config = SamplerConfig::new("5,4".parse::<NumNeighbors>().expect("fan-outs"));
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), sampler_config).expect("a sampler"));
    let link = uniform_negatives(3, Exclude::EdgesAndHeldOut);
    let seeds = EdgeSeeds::Split(split, vec![EdgeTypeId(0), EdgeTypeId(1)]);
    let loader = DistLinkNeighborLoader::new(sampler, seeds, config(), link, world).expect("a loader");
    loader.epoch(1).map(|batch| batch.expect("a batch")).collect()
}

#[test]
fn clients_get_the_batches_of_edges_that_ranks_make() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = FakeOptions { avg_num_nodes: 90, avg_degree: 4.0, num_channels: 4, ..FakeOptions::default() };
    let mut dataset = fake_hetero(&options).expect("a graph");
    let types = [EdgeTypeId(0), EdgeTypeId(1)];
    dataset.hold_out_edges(&types, &HoldOut::random(0.1, 0.1, 4)).expect("edges to hold out");
    write_parts(&dataset, 2, Method::Metis { recursive: false }, dir.path());
    let config = DistGraphConfig { num_workers: 2, ..DistGraphConfig::default() };
    let servers = Servers::start(dir.path(), 1, &config);
    for split in [Split::Train, Split::Valid] {
        let expected = on_ranks(dir.path(), 2, &config, |graph, world| link_batches(&graph, split, world));
        let batches = servers.on_clients(2, |graph, world| link_batches(&graph, split, world));
        assert!(expected.iter().flatten().any(|batch| !batch.src.is_empty()));
        assert_eq!(batches, expected);
        // One client sees the edges of both parts.
        let num_edges = |of_clients: &[Vec<LinkBatch>]| of_clients.iter().flatten().map(|b| b.src.len()).sum::<usize>();
        let alone = servers.on_clients(1, |graph, world| link_batches(&graph, split, world));
        assert_eq!(num_edges(&alone), num_edges(&expected));
    }
}

fn labeled_batches(graph: &Arc<DistGraph>, world: &mut ProcessGroup) -> Vec<LabeledEdgeBatch> {
    let sampler_config = SamplerConfig::new("5,4".parse::<NumNeighbors>().expect("fan-outs"));
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), sampler_config).expect("a sampler"));
    let attributes = EdgeFields { times: true, weights: true, features: true, labels: true, ids: true };
    let edge_type = EdgeTypeId(0);
    let edges = EdgeConfig { edge_type, exclude_seed_edges: true, reverse_types: Vec::new(), attributes };
    let seeds = EdgeSeeds::Labeled(Split::Train, edge_type);
    let loader = DistEdgeNeighborLoader::new(sampler, seeds, config(), edges, world).expect("a loader");
    loader.epoch(1).map(|batch| batch.expect("a batch")).collect()
}

#[test]
fn clients_get_the_batches_of_labeled_edges_that_ranks_make() {
    let dir = tempfile::tempdir().expect("a folder");
    write_parts(&crate::labeled_edges::dataset(true), 2, Method::Metis { recursive: false }, dir.path());
    let config = DistGraphConfig { num_workers: 2, ..DistGraphConfig::default() };
    let servers = Servers::start(dir.path(), 1, &config);
    let expected = on_ranks(dir.path(), 2, &config, |graph, world| labeled_batches(&graph, world));
    assert!(expected.iter().flatten().any(|batch| batch.graph.labels.iter().any(|&label| label > 0)));
    assert!(expected.iter().flatten().any(|batch| batch.attributes.ids.iter().any(|&id| id > 0)));
    assert_eq!(servers.on_clients(2, |graph, world| labeled_batches(&graph, world)), expected);
    let num_edges =
        |of_clients: &[Vec<LabeledEdgeBatch>]| of_clients.iter().flatten().map(|b| b.src.len()).sum::<usize>();
    let alone = servers.on_clients(1, |graph, world| labeled_batches(&graph, world));
    assert_eq!(num_edges(&alone), num_edges(&expected));
}

/// Checks that loaders of edges are refused if their settings differ between the ranks.
fn refuses_other_settings_of_edges(graph: &Arc<DistGraph>, world: &mut ProcessGroup) {
    let rank = world.rank();
    let edge_type = EdgeTypeId(0);
    let sampler_config = SamplerConfig::new("5,4".parse::<NumNeighbors>().expect("fan-outs"));
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), sampler_config).expect("a sampler"));
    let link = uniform_negatives(1 + rank.min(1), Exclude::Edges);
    let seeds = EdgeSeeds::Split(Split::Train, vec![edge_type]);
    let error = DistLinkNeighborLoader::new(sampler.clone(), seeds, config(), link, world).err().expect("refused");
    assert!(error.to_string().contains("negatives.num is 1 on rank 0 and 2 on rank 1"), "{error}");

    let typed: NumNeighbors = if rank == 0 { "e0=5,4;3,2" } else { "e1=5,4;3,2" }.parse().expect("fan-outs");
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), SamplerConfig::new(typed)).expect("a sampler"));
    let edges = EdgeConfig {
        edge_type,
        exclude_seed_edges: rank == 0,
        reverse_types: Vec::new(),
        attributes: EdgeFields::default(),
    };
    let seeds = EdgeSeeds::Split(Split::Train, vec![edge_type]);
    let error = DistEdgeNeighborLoader::new(sampler, seeds, config(), edges, world).err().expect("refused");
    let text = error.to_string();
    assert!(text.contains("exclude_seed_edges is true on rank 0 and false on rank 1"), "{text}");
    assert!(text.contains("num_neighbors is v0__e0__v1=5,4;"), "{text}");
}

#[test]
fn other_settings_of_edges_are_refused_among_clients_and_ranks() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = FakeOptions { avg_num_nodes: 90, avg_degree: 4.0, num_channels: 4, ..FakeOptions::default() };
    write_parts(&fake_hetero(&options).expect("a graph"), 2, Method::Random, dir.path());
    let config = DistGraphConfig { num_workers: 2, ..DistGraphConfig::default() };
    let servers = Servers::start(dir.path(), 1, &config);
    for num_ranks in [2, 3] {
        on_ranks(dir.path(), num_ranks, &config, |graph, world| refuses_other_settings_of_edges(&graph, world));
        servers.on_clients(num_ranks, |graph, world| refuses_other_settings_of_edges(&graph, world));
    }
}
