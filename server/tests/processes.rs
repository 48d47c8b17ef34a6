//! Tests of the program `sampling-server` with real processes and sockets, including clients that are killed.

use edgecut_cluster::{Cluster, ServiceConfig};
use edgecut_dist_sampler::{
    BatchKey, DistGraph, DistGraphConfig, DistNeighborSampler, NumNeighbors, SampleSeeds, SamplerConfig, ServerList,
};
use edgecut_graph::part_writer::ExtraFiles;
use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::{DiskPartId, FeatureDtype, Features, Meta, NodeTypeId, Part, write_built_features};
use edgecut_partition::{Inputs, PartitionOptions, partition, partition_loaded};
use edgecut_testing::{BUCKET, Process, S3Server, Signal, assert_has, free_ports, unplace};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The variable by which the process of [`a_client_process`] learns of its servers.
const CLIENT_OF: &str = "EDGECUT_TEST_CLIENT_OF";
/// The variable that makes it send many requests at the same time.
const FLOOD: &str = "EDGECUT_TEST_FLOOD";
const FLOOD_BATCHES: u64 = 4_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Parts in a temporary folder.
struct Parts {
    dir: tempfile::TempDir,
}

impl Parts {
    fn new(num_parts: u32) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let graph = fake(&FakeOptions { avg_num_nodes: 2_000, ..FakeOptions::default() }).expect("a graph");
        partition(&graph, &PartitionOptions::new(num_parts), &dir.path().join("parts"), &()).expect("parts");
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("parts")
    }
}

/// Suspends a process, and waits until all of its threads have stopped.
fn suspend(process: &Process) {
    process.signal(Signal::STOP);
    let threads = format!("/proc/{}/task", process.id());
    wait_until("the stop", || {
        let threads = std::fs::read_dir(&threads).expect("the process runs").flatten();
        threads.flat_map(|thread| std::fs::read_to_string(thread.path().join("stat"))).all(|stat| stat.contains(") T "))
    });
}

fn list_of(ports: &[u16]) -> String {
    ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
}

fn command(parts: &Path, list: &str, rank: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sampling-server"));
    command.arg("--dataset-root-dir").arg(parts).args(["--servers", list, "--server-rank", &rank.to_string()]);
    unplace(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a server whose status is at `status`.
fn server(parts: &Path, list: &str, rank: usize, status: u16) -> Process {
    let mut command = command(parts, list, rank);
    command.args(["--status-addr", &format!("127.0.0.1:{status}")]).stderr(Stdio::null());
    Process::start(&mut command)
}

/// Returns the status and the text of an HTTP reply; `None` if nobody answers.
fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    let status = reply.split(' ').nth(1)?.parse().ok()?;
    let (_, text) = reply.split_once("\r\n\r\n")?;
    Some((status, text.to_owned()))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait_until_ready(status: u16) {
    wait_until("readiness", || get(status, "/readyz").is_some_and(|(code, _)| code == 200));
}

/// Returns a counter of a server.
fn metric(status: u16, name: &str) -> u64 {
    let (code, text) = get(status, "/metrics").expect("metrics");
    assert_eq!(code, 200);
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).expect("the counter");
    value.parse().expect("a number")
}

fn resident_kib(process: &Process) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("the process runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn connect(list: &str) -> (Cluster, Arc<DistGraph>) {
    connect_as(list, ServiceConfig::new(None))
}

fn connect_as(list: &str, service: ServiceConfig) -> (Cluster, Arc<DistGraph>) {
    let cluster = Cluster::join_local(1, |_| {}).expect("join").remove(0);
    let servers = ServerList::parse(list, service).expect("a list");
    let config = DistGraphConfig {
        num_workers: 1,
        connect_budget_ms: 3_000,
        failed_peer_memory_ms: 100,
        ..DistGraphConfig::default()
    };
    let graph = DistGraph::connect(servers, cluster.clone(), config, PATIENCE).expect("connect");
    (cluster, graph)
}

/// Samples `num` batches with features. Returns the first error.
fn sample(graph: &Arc<DistGraph>, num: u64) -> Result<usize, String> {
    let config = SamplerConfig::new("10,10".parse::<NumNeighbors>().expect("fan-outs"));
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a sampler"));
    let wanted = edgecut_dist_sampler::NodeFields { features: true, ..Default::default() };
    let mut num_nodes = 0;
    for batch in 0..num {
        let seeds =
            SampleSeeds::of_type(NodeTypeId(0), (0..64).map(|i| (i * 31 + batch as u32 * 7) % 2_000).collect(), 1);
        let key = BatchKey { seed: 1, epoch: 0, batch };
        let made = graph.handle().block_on(async {
            let sampled = sampler.sample(seeds, key).await?;
            graph.fetch(NodeTypeId(0), sampled.nodes[0].ids.clone(), wanted).await
        });
        num_nodes += made.map_err(|error| edgecut_cluster::with_causes(&error))?.features.len();
    }
    Ok(num_nodes)
}

/// Not a test of its own: the process of a client that another test kills.
#[test]
fn a_client_process() {
    let Ok(list) = std::env::var(CLIENT_OF) else { return };
    let (_cluster, graph) = connect(&list);
    if std::env::var_os(FLOOD).is_some() {
        flood(&graph);
    }
    sample(&graph, u64::MAX).expect("batches");
}

/// Requests many large batches at the same time.
fn flood(graph: &Arc<DistGraph>) {
    let config = SamplerConfig::new("-1,-1".parse::<NumNeighbors>().expect("fan-outs"));
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a sampler"));
    let batches = (0..FLOOD_BATCHES).map(|batch| {
        let sampler = sampler.clone();
        let seeds = SampleSeeds::of_type(NodeTypeId(0), (0..1_000).collect(), 1);
        graph.handle().spawn(async move { sampler.sample(seeds, BatchKey { seed: 1, epoch: 0, batch }).await })
    });
    let batches: Vec<_> = batches.collect();
    for batch in batches {
        graph.handle().block_on(batch).expect("no panic").expect("a batch");
    }
}

fn client_command(list: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "a_client_process"]).env(CLIENT_OF, list).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn client_process(list: &str) -> Process {
    Process::start(&mut client_command(list))
}

#[test]
fn servers_outlive_clients_and_each_other() {
    let parts = Parts::new(2);
    let ports = free_ports(4);
    let list = list_of(&ports[..2]);
    let status = &ports[2..];
    let mut servers = vec![server(&parts.path(), &list, 0, status[0]), server(&parts.path(), &list, 1, status[1])];
    status.iter().for_each(|&port| wait_until_ready(port));
    assert_eq!(get(status[0], "/healthz").expect("an answer"), (200, "ok\n".into()));
    assert_eq!(get(status[0], "/nothing").expect("an answer").0, 404);
    // Each server has two connections of the other one.
    let alone = metric(status[0], "edgecut_connections");

    let (_cluster, graph) = connect(&list);
    let expected = sample(&graph, 20).expect("batches");
    let one_client = metric(status[0], "edgecut_connections");
    assert!(one_client > alone);
    let mut neighbors: Vec<Process> = (0..2).map(|_| client_process(&list)).collect();
    wait_until("two more clients", || metric(status[0], "edgecut_connections") >= one_client + 2);
    let batches = metric(status[0], "edgecut_batches_total");
    wait_until("batches of the clients", || metric(status[0], "edgecut_batches_total") > batches + 200);
    let resident = resident_kib(&servers[0]);

    // One client is killed, and its connections end; the others go on.
    neighbors.remove(0);
    wait_until("the end of a client", || metric(status[0], "edgecut_connections") <= one_client + 2);
    assert_eq!(sample(&graph, 20).expect("batches"), expected);
    for _ in 0..5 {
        let killed = client_process(&list);
        let batches = metric(status[0], "edgecut_batches_total");
        wait_until("batches of a client", || metric(status[0], "edgecut_batches_total") > batches + 100);
        drop(killed);
    }
    neighbors.clear();
    wait_until("the end of all clients", || metric(status[0], "edgecut_connections") <= one_client);
    wait_until("the end of all requests", || metric(status[0], "edgecut_requests_in_progress") == 0);
    let grown = resident_kib(&servers[0]).saturating_sub(resident);
    assert!(grown < 100 << 10, "the server has grown by {grown} KiB");

    // The requests of a client that is killed are canceled.
    let before = metric(status[0], "edgecut_batches_total") + metric(status[1], "edgecut_batches_total");
    let flood = Process::start(client_command(&list).env(FLOOD, "1"));
    wait_until("a flood", || metric(status[0], "edgecut_requests_in_progress") > 500);
    drop(flood);
    wait_until("the end of the flood", || metric(status[0], "edgecut_requests_in_progress") == 0);
    let made = metric(status[0], "edgecut_batches_total") + metric(status[1], "edgecut_batches_total") - before;
    assert!(made < FLOOD_BATCHES * 3 / 4, "{made} batches were made for a client that is gone");

    // A server that is killed is named.
    servers[1].signal(Signal::KILL);
    servers[1].wait().expect("wait for a server");
    assert_has(sample(&graph, 20).expect_err("a server is missing"), &[&format!("server 127.0.0.1:{}", ports[1])]);
    wait_until("unreadiness", || get(status[0], "/readyz").is_some_and(|(code, _)| code == 503));
    // Once it runs again, the same client goes on.
    servers[1] = server(&parts.path(), &list, 1, status[1]);
    status.iter().for_each(|&port| wait_until_ready(port));
    wait_until("batches", || sample(&graph, 20) == Ok(expected));

    for server in servers {
        server.signal(Signal::TERM);
        assert_eq!(server.end_within(PATIENCE).status.code(), Some(0));
    }
}

#[test]
fn a_suspended_server_is_named_and_used_again_when_it_resumes() {
    const SILENCE: Duration = Duration::from_secs(8);
    const PAUSE: Duration = Duration::from_secs(1);
    let parts = Parts::new(2);
    let ports = free_ports(4);
    let list = list_of(&ports[..2]);
    let status = &ports[2..];
    let start = |rank: usize| {
        let mut command = command(&parts.path(), &list, rank);
        command.args(["--heartbeat-timeout", &SILENCE.as_secs().to_string()]).stderr(Stdio::null());
        command.args(["--status-addr", &format!("127.0.0.1:{}", status[rank])]);
        Process::start(&mut command)
    };
    let servers = [start(0), start(1)];
    status.iter().for_each(|&port| wait_until_ready(port));
    let mut service = ServiceConfig::new(None);
    service.silence_timeout = SILENCE;
    let (_cluster, graph) = connect_as(&list, service);
    let expected = sample(&graph, 20).expect("batches");

    // A pause that is shorter than the silence delays a batch only.
    suspend(&servers[1]);
    let short = std::thread::scope(|scope| {
        let batches = scope.spawn(|| sample(&graph, 20));
        std::thread::sleep(PAUSE);
        servers[1].signal(Signal::CONT);
        batches.join().expect("no panic")
    });
    assert_eq!(short, Ok(expected));

    suspend(&servers[1]);
    let error = sample(&graph, 20).expect_err("a server is silent");
    let named = format!("server 127.0.0.1:{}", ports[1]);
    assert!(error.contains(&named), "{error}");
    let (_, silent) = error.split_once("no sign of life for ").unwrap_or_else(|| panic!("{error}"));
    let seconds: f64 = silent.split(' ').next().and_then(|number| number.parse().ok()).expect("a number of seconds");
    assert!(seconds >= SILENCE.as_secs_f64(), "{error}");
    servers[1].signal(Signal::CONT);
    wait_until("batches", || sample(&graph, 20) == Ok(expected));
}

#[test]
fn features_are_converted_on_all_servers_alike() {
    let parts = Parts::new(2);
    let ports = free_ports(2);
    let list = list_of(&ports);
    let start = |rank: usize, dtype: &str| {
        let mut command = command(&parts.path(), &list, rank);
        Process::start(command.args(["--feature-dtype", dtype]).stderr(Stdio::null()))
    };
    let mut servers = [start(0, "int8"), start(1, "int8")];
    let (_cluster, graph) = connect(&list);
    let bytes = graph.part().meta().node_types[0].feature_bytes();
    assert_eq!(bytes, 4 + graph.part().meta().node_types[0].feature_dim);
    let wanted = edgecut_dist_sampler::NodeFields { features: true, ..Default::default() };
    let all = graph.handle().block_on(graph.fetch(NodeTypeId(0), (0..2_000).collect(), wanted)).expect("features");
    let mut expected = Vec::new();
    for part in [0, 1] {
        let part = Part::open(&parts.path(), DiskPartId(part), false).expect("open the part");
        let features = part.converted_features(NodeTypeId(0), FeatureDtype::Int8).expect("values in range");
        for row in 0..features.num_rows() {
            let at = expected.len();
            expected.resize(at + features.dim(), 0.0);
            features.copy_row(row, &mut expected[at..]);
        }
    }
    assert!(all.features == expected);
    // Servers with different types do not serve together.
    servers[1].signal(Signal::TERM);
    servers[1].wait().expect("wait for a server");
    servers[1] = start(1, "f16");
    let cluster = Cluster::join_local(1, |_| {}).expect("join").remove(0);
    let at = ServerList::parse(&list, ServiceConfig::new(None)).expect("a list");
    let Err(error) = DistGraph::connect(at, cluster, DistGraphConfig::default(), PATIENCE) else {
        panic!("clients are told that the servers differ")
    };
    assert_has(edgecut_cluster::with_causes(&error), &["or their features in different types"]);
}

/// Makes a part whose features are built after it, as `partition-graph --defer-features` does.
fn part_without_features() -> Parts {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut graph = fake(&FakeOptions { avg_num_nodes: 2_000, ..FakeOptions::default() }).expect("a graph");
    let features = graph.node_types[0].features.take().expect("features");
    let deferred = [Some((features.dim(), FeatureDtype::F32))];
    let extra = ExtraFiles { deferred_features: &deferred, ..ExtraFiles::default() };
    let path = dir.path().join("parts");
    let inputs = Inputs { extra, ..Inputs::default() };
    partition_loaded(graph, inputs, &PartitionOptions::new(1), &path, &()).expect("a part");
    Parts { dir }
}

/// Builds features of equal values for the only part, as `partition-graph features` does.
fn build_features(parts: &Path, value: f32) {
    let meta = Meta::read(parts).expect("META.json");
    let of_type = &meta.node_types[0];
    let values = vec![value; of_type.book.num_nodes() * of_type.feature_dim];
    let features = Features::F32 { values: values.into(), dim: of_type.feature_dim };
    write_built_features(parts, DiskPartId(0), NodeTypeId(0), &meta, &features).expect("features");
}

/// Features that are built after the parts are not in META.json, by which clients know the data of a server.
#[test]
fn a_server_that_restarts_with_other_features_is_refused_by_its_clients() {
    let parts = part_without_features();
    build_features(&parts.path(), 1.0);
    let ports = free_ports(2);
    let list = list_of(&ports[..1]);
    let mut running = server(&parts.path(), &list, 0, ports[1]);
    wait_until_ready(ports[1]);
    let (_cluster, graph) = connect(&list);
    let expected = sample(&graph, 5).expect("batches");
    // The same features are built again, and then others.
    for (value, is_served) in [(1.0, true), (2.0, false)] {
        running.signal(Signal::TERM);
        running.wait().expect("wait for a server");
        build_features(&parts.path(), value);
        running = server(&parts.path(), &list, 0, ports[1]);
        wait_until_ready(ports[1]);
        if is_served {
            wait_until("batches", || sample(&graph, 5) == Ok(expected));
        } else {
            wait_until("a refusal", || {
                sample(&graph, 5).expect_err("other features").contains("has reached server 0 of other data")
            });
        }
    }
    // A new client takes them.
    let (_cluster, graph) = connect(&list);
    assert_eq!(sample(&graph, 5), Ok(expected));
}

#[test]
fn what_cannot_be_served_is_one_error() {
    let parts = Parts::new(2);
    let ports = free_ports(2);
    let list = list_of(&ports);
    let held = TcpListener::bind(("127.0.0.1", ports[0])).expect("the port is free");
    let other = Parts::new(1);
    let missing = other.dir.path().join("missing");
    for (command, status, expected) in [
        (command(&parts.path(), &list, 0), 1, "port in use; choose another --servers"),
        (command(&parts.path(), &list, 2), 2, "--server-rank 2: --servers lists 2, numbered from 0"),
        (command(&missing, &list, 1), 1, "there is no such folder: pass the N-parts folder"),
        (command(&parts.path(), "a,b", 1), 2, "write HOST:PORT"),
        (command(&parts.path(), "127.0.0.1:7,127.0.0.1:7", 1), 2, "names 127.0.0.1:7 twice"),
    ] {
        let mut command = command;
        let ended = Process::start(&mut command).end_within(PATIENCE);
        let text = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{text}");
        assert!(text.contains(expected) && text.lines().count() == 1, "{text}");
    }
    drop(held);
}

/// The pods of the manifest are processes of this machine here.
#[test]
fn the_kubernetes_manifest_starts_servers_as_it_is() {
    let manifest = include_str!("../../deploy/kubernetes/sampling-servers.yaml");
    let after = |start: &str| manifest.split_once(start).expect("a part of the manifest").1;
    let args = after(" args:\n").split_once(" env:\n").expect("the variables after the flags").0;
    let args: Vec<&str> = args.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
    let [folder, status_addr] = &args[..] else { panic!("{args:?}") };
    let names = after(" env:\n").lines().filter_map(|line| line.trim().strip_prefix("- name: "));
    let names: Vec<&str> = names.take(3).collect();
    assert_eq!(names, ["EDGECUT_SERVERS", "RANK", "EDGECUT_TOKEN"]);

    let parts = Parts::new(2);
    let ports = free_ports(4);
    let list = list_of(&ports[..2]);
    let status = &ports[2..];
    let flag = |arg: &str| arg.split_once('=').expect("a value").0.to_owned();
    let start = |server: usize| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sampling-server"));
        // In the order of the names above.
        command.envs(names.iter().zip([list.as_str(), &server.to_string(), "a secret of the tests"]));
        command.arg(flag(folder)).arg(parts.path());
        command.args([flag(status_addr), format!("127.0.0.1:{}", status[server])]);
        Process::start(command.stderr(Stdio::null()))
    };
    let servers = [start(0), start(1)];
    status.iter().for_each(|&port| wait_until_ready(port));
    for server in servers {
        server.signal(Signal::TERM);
        assert_eq!(server.end_within(PATIENCE).status.code(), Some(0));
    }
}

#[test]
fn a_server_fetches_its_part_from_an_object_store() {
    let Some(store) = S3Server::start("a_server_fetches_its_part_from_an_object_store") else { return };
    let parts = Parts::new(2);
    store.put_folder("parts", &parts.path());
    let ports = free_ports(3);
    let url = PathBuf::from(format!("s3://{BUCKET}/parts"));
    let list = list_of(&ports[..2]);
    let _other = Process::start(command(&parts.path(), &list, 0).stderr(Stdio::null()));
    let mut command = command(&url, &list, 1);
    command.envs(store.env()).arg("--cache-dir").arg(parts.dir.path().join("cache")).stderr(Stdio::null());
    command.args(["--status-addr", &format!("127.0.0.1:{}", ports[2])]);
    let server = Process::start(&mut command);
    wait_until("the server is ready", || get(ports[2], "/readyz").is_some_and(|(status, _)| status == 200));
    let copies = std::fs::read_dir(parts.dir.path().join(format!("cache/s3/{BUCKET}"))).expect("the copies").flatten();
    let copy = copies.map(|entry| entry.path().join("parts")).find(|copy| copy.is_dir()).expect("a copy");
    assert!(copy.join("part_1").is_dir() && !copy.join("part_0").exists());
    server.signal(Signal::TERM);
    assert!(server.end_within(PATIENCE).status.success());
}
