//! RPC streams between ranks.

mod support;

use std::io::{Read, Write};

use edgecut_cluster::{Cluster, ClusterError, SecureStream, Token};
use support::on_each;

fn blocking(stream: SecureStream) -> SecureStream {
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn every_rank_reaches_every_rank() {
    let token = Token::random().unwrap();
    let clusters = Cluster::join_local(3, |config| config.token = Some(token.clone())).unwrap();
    on_each(clusters, |cluster| {
        let mut incoming = cluster.take_rpc_incoming().unwrap();
        assert!(cluster.take_rpc_incoming().is_none(), "there is one receiver");
        for peer in 0..3 {
            let mut stream = cluster.connect_rpc(peer).unwrap();
            assert!(stream.nodelay().unwrap());
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
            blocking(stream).write_all(&[cluster.rank() as u8, peer as u8]).unwrap();
        }
        let mut callers = Vec::new();
        for _ in 0..3 {
            let (caller, stream) = incoming.blocking_recv().unwrap();
            let mut said = [0; 2];
            blocking(stream).read_exact(&mut said).unwrap();
            assert_eq!(said, [caller as u8, cluster.rank() as u8]);
            callers.push(caller);
        }
        callers.sort_unstable();
        assert_eq!(callers, [0, 1, 2]);
        cluster.shutdown().unwrap();
        assert!(incoming.blocking_recv().is_none(), "the receiver ends with the membership");
    });
}

#[test]
fn a_full_backlog_refuses_and_says_so() {
    let cluster = Cluster::join_local(1, |config| config.rpc_backlog = 1).unwrap().remove(0);
    let _first = cluster.connect_rpc(0).unwrap();
    // The slot of the first connection is reserved before it is accepted, so the second finds the backlog full.
    let error = cluster.connect_rpc(0).unwrap_err();
    assert!(matches!(error, ClusterError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("too many connections wait"), "{error}");
    cluster.shutdown().unwrap();
}

#[test]
fn a_rank_that_does_not_exist_is_an_error() {
    let cluster = Cluster::join_local(1, |_| {}).unwrap().remove(0);
    assert!(cluster.connect_rpc(1).unwrap_err().to_string().contains("no rank 1"));
    cluster.shutdown().unwrap();
}
