//! Tests that no deadline of a peer's request makes the server panic or stops it from answering.

use crate::support;

use edgecut_cluster::SecureStream;
use edgecut_dist_sampler::{DistGraphConfig, NodeFields};
use std::io::{Read, Write};
use std::time::Duration;
use support::{DIM, NODES, dataset, join, nodes_of, parts_of, shut_down, start};

/// The index of the request `find` in the enumeration of requests.
const FIND: u32 = 2;

/// Returns a frame that requests the global ids of two original ids, with a deadline.
fn find_frame(id: u64, seconds: u64, nanoseconds: u32) -> Vec<u8> {
    let payload: Vec<u8> = [0_u32, 1].iter().flat_map(|id| id.to_le_bytes()).collect();
    let mut head = Vec::new();
    // The variant of a request, then its context: the deadline and the trace (id of 128 bits, span, decision).
    head.extend(0_u32.to_le_bytes());
    head.extend(seconds.to_le_bytes());
    head.extend(nanoseconds.to_le_bytes());
    head.extend([0; 16 + 8 + 4]);
    head.extend(id.to_le_bytes());
    head.extend(FIND.to_le_bytes());
    // The node type.
    head.extend(0_u16.to_le_bytes());
    let mut frame = b"EBK1".to_vec();
    frame.extend((head.len() as u32).to_le_bytes());
    frame.extend((payload.len() as u64).to_le_bytes());
    frame.extend(head);
    frame.extend(payload);
    frame
}

/// Reads a reply and returns its payload.
fn read_reply(stream: &mut SecureStream) -> std::io::Result<Vec<u8>> {
    let mut header = [0; 16];
    stream.read_exact(&mut header)?;
    assert_eq!(header[..4], *b"EBK1");
    let head_len = u32::from_le_bytes(header[4..8].try_into().expect("four bytes"));
    let payload_len = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
    stream.read_exact(&mut vec![0; head_len as usize])?;
    let mut payload = vec![0; payload_len as usize];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

#[test]
fn every_deadline_gets_an_answer_or_the_end_of_the_connection_and_the_server_lives() {
    let dir = parts_of(&dataset(200, None), 2);
    let ranks = join(dir.path(), |_| ());
    let nodes: Vec<_> = ranks.iter().map(|c| start(dir.path(), c, &DistGraphConfig::default())).collect();
    let connect = || {
        let stream = ranks[1].connect_rpc(0).expect("an authenticated connection");
        stream.set_nonblocking(false).expect("blocking");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream
    };
    let mut stream = connect();
    let deadlines = [(60, 0), (u64::MAX, 0), (u64::MAX, 999_999_999), (u64::MAX / 2, 0), (1 << 40, 7)];
    for (id, (seconds, nanoseconds)) in (0..).zip(deadlines) {
        stream.write_all(&find_frame(id, seconds, nanoseconds)).expect("the server reads");
        let payload = read_reply(&mut stream).unwrap_or_else(|e| panic!("a deadline of {seconds} s: {e}"));
        assert_eq!(payload.len(), 2 * size_of::<u32>(), "a global id for each");
    }
    // A duration that cannot be decoded ends its connection, but no other.
    let mut broken = connect();
    broken.write_all(&find_frame(0, u64::MAX, u32::MAX)).expect("the server reads");
    assert!(read_reply(&mut broken).is_err());
    stream.write_all(&find_frame(99, 60, 0)).expect("the server reads");
    read_reply(&mut stream).expect("the other connection lives");
    let wanted = nodes_of(&nodes[1], 0);
    let features = NodeFields::FEATURES;
    let fetched = nodes[1].handle().block_on(nodes[1].fetch(NODES, wanted.clone(), features));
    assert_eq!(fetched.expect("the server lives").features.len(), wanted.len() * DIM);
    drop(nodes);
    shut_down(ranks);
}
