use super::*;
use crate::arrays::bytes_of;
use crate::batch_key::BatchKey;
use crate::config::node_fields::EdgeFields;
use crate::config::sampling_policy::SamplingPolicy;
use crate::part::requests::FetchRequest;
use bytes::Bytes;
use edgecut_graph::{Dataset, DiskPartId, Fanout, NodeData, Part, Workspace};
use edgecut_partition::{Method, PartitionOptions, partition};
use std::sync::Arc;

const NODES: NodeTypeId = NodeTypeId(0);

fn part() -> (tempfile::TempDir, Part) {
    let num_nodes = 50;
    let features = edgecut_graph::Features::F32 { values: vec![1.0; 2 * num_nodes].into(), dim: 2 };
    let nodes = NodeData {
        name: "node".into(),
        num_nodes,
        features: Some(features),
        labels: Some(vec![0; num_nodes].into()),
        num_classes: 1,
        ..NodeData::default()
    };
    let (src, dst): (Vec<u32>, Vec<u32>) = (0..49).map(|node| (node, node + 1)).unzip();
    let mut dataset = Dataset::homogeneous("path", nodes, src.into(), dst.into());
    dataset.number_edges_in(&Workspace::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = PartitionOptions { method: Method::Random, ..PartitionOptions::new(1) };
    partition(&dataset, &options, dir.path(), &()).unwrap();
    let part = Part::open(dir.path(), DiskPartId(0), true).unwrap();
    (dir, part)
}

fn hop() -> HopRequest {
    let section = HopSection { edge_type: EdgeTypeId(0), fanout: Fanout::Count(2), num_rows: 3 };
    HopRequest {
        key: BatchKey { seed: 0, epoch: 0, batch: 1 },
        hop: 0,
        rule: SamplingPolicy::default(),
        disjoint: false,
        positions: false,
        sections: vec![section],
        rows: bytes_of(vec![0_u32, 1, 2]),
    }
}

#[test]
fn small_requests_that_read_mapped_files_run_on_the_pool_all_the_same() {
    let (_dir, part) = part();
    let features = NodeFields::FEATURES;
    let degrees = NodeFields { degrees: true, ..NodeFields::default() };
    let edges = |wanted| FetchEdgesRequest { edge_type: EdgeTypeId(0), wanted, edges: bytes_of(vec![1_u32, 0]) };

    let mapped = LocalPart::new(Arc::new(part.clone()), 0);
    assert_eq!(mapped.lines_of_hop(&hop()), ON_POOL);
    assert_eq!(mapped.lines_of_fetch(NODES, features, 1), ON_POOL);
    assert_eq!(mapped.lines_of_fetch(NODES, degrees, 1), ON_POOL);
    assert_eq!(mapped.lines_of_find(NODES, 1), ON_POOL);
    assert_eq!(mapped.lines_of_fetch_edges(&edges(Default::default())), ON_POOL);

    let in_memory = LocalPart::new(Arc::new(part.with_edges_in_memory()), 0);
    assert!(in_memory.lines_of_hop(&hop()) < 100, "edges and original ids are in memory");
    assert_eq!(in_memory.lines_of_fetch(NODES, features, 1), ON_POOL, "features stay mapped");
    assert!(in_memory.lines_of_fetch(NODES, degrees, 1) < 100);
    assert!(in_memory.lines_of_find(NODES, 1) < 100);
    assert!(in_memory.lines_of_fetch_edges(&edges(Default::default())) < 100);
    let ids = EdgeFields { ids: true, ..EdgeFields::default() };
    assert_eq!(in_memory.lines_of_fetch_edges(&edges(ids)), ON_POOL, "ids stay mapped");
}

#[test]
fn reads_from_memory_do_not_tell_that_reads_of_mapped_files_are_quick() {
    let (_dir, part) = part();
    let part = LocalPart::new(Arc::new(part.with_edges_in_memory()), 0);
    let degrees = NodeFields { degrees: true, ..NodeFields::default() };
    let of_no_rows = FetchRequest::new(NODES, NodeFields::FEATURES, Bytes::new());
    let of_memory = FetchRequest::new(NODES, degrees, bytes_of(vec![1_u32]));
    for request in [of_no_rows, of_memory] {
        for _ in 0..200 {
            part.fetch(&request, usize::MAX).expect("attributes");
        }
        assert_eq!(part.lines_of_fetch(NODES, NodeFields::FEATURES, 1), ON_POOL);
    }
}

#[test]
fn requests_for_types_that_do_not_exist_have_no_lines() {
    let (_dir, part) = part();
    let part = LocalPart::new(Arc::new(part), 0);
    let mut request = hop();
    request.sections[0].edge_type = EdgeTypeId(7);
    assert!(part.lines_of_hop(&request) < 100);
    assert_eq!(part.lines_of_fetch(NodeTypeId(7), NodeFields::default(), 5), 0);
    assert!(part.lines_of_find(NodeTypeId(7), 1) < 100);
    let wanted = EdgeFields::default();
    let edges = FetchEdgesRequest { edge_type: EdgeTypeId(7), wanted, edges: Bytes::new() };
    assert_eq!(part.lines_of_fetch_edges(&edges), 0);
}
