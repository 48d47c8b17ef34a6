//! Connections of processes that do not belong to the job, and the protection of the secret against them.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use edgecut_cluster::{Cluster, ClusterConfig, Token};
use edgecut_testing::Process;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use support::{configs, errors, join_each, on_each};

/// The number of idle connections.
const STRANGERS: usize = 600;
/// Far more time than a start takes, even on a busy machine, and less than it would take if each group of concurrent
/// handshakes lasted five seconds.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// The user of the process that is refused: "nobody".
const OTHER_USER: u32 = 65_534;
/// The variable with the rank and the port of a rank in a process of its own.
const PLACE: &str = "STRANGERS_TEST_PLACE";

/// Opens connections that send nothing.
fn idle_connections(listener: &TcpListener, count: usize) -> Vec<TcpStream> {
    // Both ends of all connections are in this process.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    // No thread accepts yet, so all of them have to fit into the queue of the listener.
    rustix::net::listen(listener, count as i32).expect("a longer queue");
    let addr = listener.local_addr().expect("an address");
    (0..count).map(|_| TcpStream::connect(addr).expect("connect to rank 0")).collect()
}

#[test]
fn idle_connections_do_not_hold_up_the_start() {
    let (listener, configs) = configs(&[0, 1, 2], 3);
    let strangers = idle_connections(&listener, STRANGERS);
    let start = Instant::now();
    let clusters: Vec<_> = join_each(listener, configs).into_iter().map(Result::unwrap).collect();
    assert!(start.elapsed() < STARTS_WITHIN, "{:?}", start.elapsed());
    on_each(clusters, |cluster| {
        cluster.world().unwrap().barrier().unwrap();
        cluster.shutdown().unwrap();
    });
    drop(strangers);
}

#[test]
fn connections_that_stop_after_the_magic_do_not_hold_up_the_start() {
    let (listener, configs) = configs(&[0, 1], 2);
    let mut strangers = idle_connections(&listener, STRANGERS / 6);
    strangers.iter_mut().for_each(|stranger| stranger.write_all(b"EDGECUT\n").unwrap());
    let start = Instant::now();
    let clusters: Vec<_> = join_each(listener, configs).into_iter().map(Result::unwrap).collect();
    assert!(start.elapsed() < STARTS_WITHIN, "{:?}", start.elapsed());
    on_each(clusters, |cluster| cluster.shutdown().unwrap());
}

#[test]
fn a_timeout_tells_of_idle_connections() {
    let (listener, mut configs) = configs(&[0], 2);
    configs[0].rendezvous_timeout_ms = 10_000;
    configs[0].pending_handshakes_per_source = 16;
    let strangers = idle_connections(&listener, STRANGERS);
    let error = errors(join_each(listener, configs)).remove(0);
    assert!(error.contains("rank 1 has not joined within 10 s (joined: 0)"), "{error}");
    let count = format!("{STRANGERS} connections without a valid handshake ({STRANGERS} from 127.0.0.1)");
    assert!(error.contains(&count), "{error}");
    drop(strangers);
}

#[test]
fn a_silent_connection_is_closed_after_a_second() {
    let (listener, mut configs) = configs(&[0], 2);
    let addr = listener.local_addr().unwrap();
    configs[0].rendezvous_timeout_ms = 60_000;
    let mut stranger = TcpStream::connect(addr).unwrap();
    std::thread::scope(|scope| {
        let master = scope.spawn(|| join_each(listener, configs));
        stranger.set_read_timeout(Some(STARTS_WITHIN)).unwrap();
        assert_eq!(stranger.read(&mut [0]).unwrap(), 0, "rank 0 hangs up");
        // A rank that gives up ends the rendezvous.
        let mut config = ClusterConfig::new(1, 2, "127.0.0.1", addr.port());
        config.listen_addr = Some([0, 0, 0, 0].into());
        Cluster::join(config).unwrap_err();
        assert!(errors(master.join().unwrap())[0].contains("rank 1 at 127.0.0.1:"));
    });
}

/// The rank in a process of its own. As a test of its own it does nothing.
#[test]
fn child_rank() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let (rank, port) = place.split_once(' ').unwrap();
    let mut config = ClusterConfig::new(rank.parse().unwrap(), 2, "127.0.0.1", port.parse().unwrap());
    config.rendezvous_timeout_ms = 60_000;
    config.token = Token::from_env().unwrap();
    match Cluster::join(config) {
        Ok(cluster) => println!("\nOUTCOME {:?}", cluster.shutdown()),
        Err(error) => println!("\nOUTCOME {error:#}"),
    }
}

/// Runs rank 1 as a process of another user. Returns the outcomes of rank 1 and of rank 0.
fn join_as_other_user(secret: Option<&str>) -> (String, String) {
    // The other user may have no access to the build folder, so the program is copied.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("rank");
    edgecut_testing::copy_executable(&std::env::current_exe().unwrap(), &program);

    let (listener, mut configs) = configs(&[0], 2);
    let port = listener.local_addr().unwrap().port();
    let mut command = Command::new(program);
    command.args(["--exact", "child_rank", "--nocapture"]).env(PLACE, format!("1 {port}")).current_dir("/");
    command.uid(OTHER_USER).gid(OTHER_USER).stdout(Stdio::piped()).stderr(Stdio::null());
    command.env_remove("EDGECUT_TOKEN").env_remove("EDGECUT_TOKEN_FILE");
    if let Some(secret) = secret {
        command.env("EDGECUT_TOKEN", secret);
        let file = folder.path().join("secret");
        std::fs::write(&file, secret).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        configs[0].token = Some(Token::from_file(file).unwrap());
    }
    configs[0].rendezvous_timeout_ms = if secret.is_some() { 60_000 } else { 10_000 };
    let mut child = Process::start(&mut command);
    let master = join_each(listener, configs).remove(0).map(|cluster| cluster.shutdown());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let outcome = text.lines().find_map(|line| line.strip_prefix("OUTCOME ")).unwrap_or_default().to_owned();
    (
        outcome,
        match master {
            Ok(ended) => format!("{ended:?}"),
            Err(error) => format!("{error:#}"),
        },
    )
}

#[test]
fn without_a_secret_another_users_process_is_refused() {
    if !geteuid().is_root() {
        let why = "only root can start a process of another user";
        return edgecut_testing::skip(
            edgecut_testing::Need::Root,
            "without_a_secret_another_users_process_is_refused",
            why,
        );
    }
    let (member, master) = join_as_other_user(None);
    let names = |text: &str, theirs: u32, ours: u32| {
        text.contains(&format!("is a process of user {theirs}, this process is one of user {ours}"))
    };
    assert!(names(&member, 0, OTHER_USER), "{member}");
    assert!(names(&master, OTHER_USER, 0), "{master}");
    assert!(master.contains("rank 1 has not joined within 10 s"), "{master}");

    let (member, master) = join_as_other_user(Some("a secret of two users"));
    assert_eq!((member.as_str(), master.as_str()), ("Ok(())", "Ok(())"));
}
