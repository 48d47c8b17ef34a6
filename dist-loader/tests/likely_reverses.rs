//! Tests of the search for types with the reverses of seed edges.

use crate::support;

use edgecut_dist_loader::{EdgeRelations, EdgeSeeds, LikelyReverse, SeedEdge};
use edgecut_dist_sampler::DistGraphConfig;
use edgecut_graph::{Dataset, EdgeList, EdgeTypeId, Split};
use support::{graph, on_ranks, parts_of};

const FORWARD: EdgeTypeId = EdgeTypeId(0);
const BACK: EdgeTypeId = EdgeTypeId(1);

/// Returns a graph with a type that has the reverses of another type's training and validation edges. Training edges have times.
fn dataset() -> Dataset {
    let mut dataset = graph(60, 200, 3);
    let sources: Vec<u32> = (0..20).collect();
    let destinations: Vec<u32> = (0..20).map(|source| source * 2 + 7).collect();
    let forward = &mut dataset.edge_types[0];
    forward.held_out.valid = EdgeList::new(sources.into(), destinations.into());
    let mut back = forward.clone();
    back.relation = "back".into();
    back.held_out = Default::default();
    let all_sources = [&forward.dst[..], &forward.held_out.valid.dst[..]].concat();
    let all_destinations = [&forward.src[..], &forward.held_out.valid.src[..]].concat();
    forward.attributes.times = Some(vec![5; forward.src.len()].into());
    back.attributes.times = Some(vec![5; all_sources.len()].into());
    back.src = all_sources.into();
    back.dst = all_destinations.into();
    dataset.edge_types.push(back);
    dataset.validate().expect("a valid graph");
    dataset
}

#[test]
fn seed_edges_without_times_are_compared_with_edges_that_have_times() {
    let dir = parts_of(&dataset(), 2);
    let found = on_ranks(dir.path(), 2, &DistGraphConfig::default(), |graph, _| {
        let relations = EdgeRelations::new(graph.part(), &[]).expect("valid types");
        let declared = EdgeRelations::new(graph.part(), &[(FORWARD, BACK)]).expect("opposite types");
        // The split whose lists have no times decides, and not the training edges.
        let valid = EdgeSeeds::Split(Split::Valid, vec![FORWARD]);
        assert!(declared.likely_reverses(&graph, FORWARD, &valid).expect("no error of a peer").is_empty());
        let train = EdgeSeeds::Split(Split::Train, vec![FORWARD]);
        assert!(relations.likely_reverses(&graph, FORWARD, &train).expect("no error of a peer").is_empty());
        for (time, num_found) in [(Some(5), 0), (None, 1)] {
            let list = &graph.part().edges(FORWARD).held_out.valid;
            let src = list.src[0];
            let dst = list.dst[0];
            let listed = EdgeSeeds::Listed(vec![SeedEdge { edge_type: FORWARD, src, dst, time, position: None }]);
            let found = relations.likely_reverses(&graph, FORWARD, &listed).expect("no error of a peer");
            assert_eq!(found.len(), num_found);
        }
        relations.likely_reverses(&graph, FORWARD, &valid).expect("no error of a peer")
    });
    let mut num_edges = 0;
    for of_rank in found {
        let [LikelyReverse { edge_type: BACK, num_found, num_edges: looked_up }] = of_rank[..] else {
            panic!("{of_rank:?}")
        };
        assert_eq!(num_found, looked_up);
        num_edges += looked_up;
    }
    assert_eq!(num_edges, 20);
}
