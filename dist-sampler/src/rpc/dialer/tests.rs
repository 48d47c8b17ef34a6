//! Tests of dialing over real sockets, with peers that refuse, reset, stay silent, and come back.

use super::*;
use crate::rpc::connection::{Connection, OpenConnection};
use edgecut_testing::free_port;
use futures::future::join_all;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

/// A peer at an address. A connection is open once one byte was sent and one was received. The stream of an open
/// connection is that of a job of one rank.
struct FakeTarget {
    addr: SocketAddr,
    attempts: AtomicU32,
    failure: Option<Failure>,
    before_attempt: Box<dyn Fn(u32) + Send + Sync>,
    cluster: Cluster,
}

impl FakeTarget {
    fn at(addr: SocketAddr) -> Self {
        let cluster = Cluster::join_local(1, |_| {}).unwrap().remove(0);
        Self { addr, attempts: AtomicU32::new(0), failure: None, before_attempt: Box::new(|_| ()), cluster }
    }

    fn greet(&self, timeout: Duration) -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&self.addr, timeout.max(Duration::from_millis(1)))?;
        stream.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        stream.write_all(b"?")?;
        stream.read_exact(&mut [0])
    }
}

impl Target for FakeTarget {
    fn open(&self, timeout: Duration) -> Result<SecureStream, ClusterError> {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        (self.before_attempt)(attempt);
        self.greet(timeout).map_err(|cause| ClusterError::Connect { peer: self.addr.to_string(), cause })?;
        self.cluster.connect_rpc(0)
    }

    fn job_failure(&self) -> Option<Failure> {
        self.failure.clone()
    }

    fn await_job_failure(&self) -> Option<Failure> {
        self.failure.clone()
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

/// Returns an address at which nobody listens, except for a test that begins to.
fn unused_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

/// Resets the first `resets` connections by closing them with unread data, then answers all others.
fn serve_after_resets(listener: TcpListener, resets: usize) {
    std::thread::spawn(move || {
        let mut served = Vec::new();
        for (i, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            if i < resets {
                let _ = stream.peek(&mut [0]);
                continue;
            }
            let _ = stream.write_all(b"!");
            served.push(stream);
        }
    });
}

fn dialer(target: Arc<FakeTarget>, budget_ms: u64) -> Dialer {
    let limits = DialLimits { budget: Duration::from_millis(budget_ms), failure_memory: Duration::from_secs(600) };
    Dialer::new(PeerName::Server("node-1:29600".into()), target, limits, Arc::new(Semaphore::new(4)))
}

#[tokio::test]
async fn a_peer_that_refuses_then_resets_then_accepts_is_connected_to() {
    let addr = unused_address();
    let mut target = FakeTarget::at(addr);
    // No process listens during the first two attempts.
    target.before_attempt = Box::new(move |attempt| {
        if attempt == 3 {
            serve_after_resets(TcpListener::bind(addr).expect("the port is free"), 3);
        }
    });
    let target = Arc::new(target);
    let stream = dialer(target.clone(), 60_000).dial().await.expect("a connection after some attempts");
    assert_eq!(stream.peer_addr().unwrap(), target.cluster.addr_of(0).unwrap());
    assert_eq!(target.attempts.load(Ordering::Relaxed), 2 + 3 + 1);
}

#[tokio::test]
async fn a_silent_peer_fails_once_for_all_requests_and_is_remembered() {
    // The system accepts connections for the listener, but no process answers them.
    let (_silent, addr) = listener();
    let target = Arc::new(FakeTarget::at(addr));
    let dialer = Arc::new(dialer(target.clone(), 1_000));
    let connections = [(); 2].map(|()| Arc::new(Connection::new(dialer.clone(), 1 << 20)));
    let start = Instant::now();
    let errors = join_all((0..64).map(|i| {
        let connection = connections[i % 2].clone();
        async move { connection.get().await.err().expect("no process answers") }
    }));
    for error in errors.await {
        let SampleError::Connect { peer: PeerName::Server(_), .. } = error else { panic!("{error:?}") };
    }
    // Sequential waits would take 64 s.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let attempts = target.attempts.load(Ordering::Relaxed);
    let error = connections[0].get().await.err().expect("the failure is remembered");
    assert_eq!(target.attempts.load(Ordering::Relaxed), attempts, "the peer is not asked again");
    assert!(error.to_string().starts_with("connect to server node-1:29600 ("), "{error}");
}

#[test]
fn the_default_limits_give_an_error_within_15_seconds() {
    let limits = DialLimits::new(&DistGraphConfig::default());
    let (_silent, addr) = listener();
    let dialer = Dialer::new(
        PeerName::Server("node-1:29600".into()),
        Arc::new(FakeTarget::at(addr)),
        limits,
        Arc::new(Semaphore::new(1)),
    );
    assert!(dialer.longest() <= Duration::from_secs(15));
}

#[tokio::test]
async fn a_forgotten_failure_is_tried_again() {
    let addr = unused_address();
    let target = Arc::new(FakeTarget::at(addr));
    let limits = DialLimits { budget: Duration::from_millis(200), failure_memory: Duration::ZERO };
    let mut dialer = Dialer::new(PeerName::Server("node-1:29600".into()), target, limits, Arc::new(Semaphore::new(1)));
    dialer.dial().await.expect_err("no process listens");
    dialer.limits.budget = Duration::from_secs(60);
    serve_after_resets(TcpListener::bind(addr).expect("the port is free"), 0);
    dialer.dial().await.expect("a process listens now");
}

#[tokio::test]
async fn the_failure_of_the_job_ends_the_attempts_and_is_the_error() {
    let addr = unused_address();
    let failure = Failure { rank: 1, addr, reason: "died".into(), link_to: None, is_own: false };
    let target = Arc::new(FakeTarget { failure: Some(failure), ..FakeTarget::at(addr) });
    let error = dialer(target.clone(), 60_000).dial().await.expect_err("no process listens");
    assert_eq!(target.attempts.load(Ordering::Relaxed), 1);
    let SampleError::Connect { source, .. } = error else { panic!("{error:?}") };
    assert!(source.to_string().ends_with("failed: died"), "{source}");
}

#[tokio::test]
async fn callers_share_one_connection_until_it_is_forgotten() {
    let (listener, addr) = listener();
    serve_after_resets(listener, 0);
    let target = Arc::new(FakeTarget::at(addr));
    let connection = Connection::new(Arc::new(dialer(target.clone(), 60_000)), 1 << 20);
    let generations = |all: Vec<Result<OpenConnection, SampleError>>| -> Vec<u64> {
        all.into_iter().map(|open| open.expect("a connection").generation).collect()
    };
    assert_eq!(generations(join_all((0..8).map(|_| connection.get())).await), [1; 8]);
    connection.forget(1).await;
    assert_eq!(generations(join_all((0..8).map(|_| connection.get())).await), [2; 8]);
    // A late failure of a request on the first connection must not drop the second one.
    connection.forget(1).await;
    assert_eq!(generations(vec![connection.get().await]), [2]);
    assert_eq!(target.attempts.load(Ordering::Relaxed), 2);
}
