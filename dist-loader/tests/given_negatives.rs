//! Tests of negatives that are edges of another type or items of a list.

use crate::link_batches::{Batching, Case, Given, Pairs, batching_loader, cases, loader};
use crate::negatives::{EdgeWithNegatives, edges_with_negatives};
use crate::support::{on_ranks, parts_of, write_parts};
use edgecut_dist_loader::{EdgeSeeds, Exclude, LinkBatch, NegativeSampling};
use edgecut_dist_sampler::DistGraphConfig;
use edgecut_graph::{Dataset, EdgeData, EdgeList, EdgeTypeId, NodeData, NodeTypeId, Split};
use edgecut_partition::Method;
use edgecut_testing::assert_has;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

/// The likes of users, and their dislikes, which give negatives.
const LIKES: EdgeTypeId = EdgeTypeId(0);
const DISLIKES: EdgeTypeId = EdgeTypeId(1);
pub(crate) const NUM_USERS: u32 = 20;
const NUM_ITEMS: u32 = 40;
/// A user who likes and dislikes the same item.
const CONTRARY: u32 = 7;
/// A user of whom a disliked item is the destination of a validation edge, which training does not know.
const CHANGED: u32 = 3;

/// Returns the items that a user dislikes: none to four.
pub(crate) fn disliked(user: u32) -> Vec<u32> {
    let mut items: Vec<u32> = (0..user % 5).map(|n| (user * 3 + n) % NUM_ITEMS).collect();
    if user == CONTRARY {
        items.push(liked(user)[0]);
    }
    items
}

/// Returns an item that a user neither likes nor dislikes.
pub(crate) fn changing_item(user: u32) -> u32 {
    (user * 3 + 10) % NUM_ITEMS
}

fn liked(user: u32) -> Vec<u32> {
    (0..4).map(|n| (user * 3 + 20 + n) % NUM_ITEMS).collect()
}

/// Makes the edges from users to the items that `of_user` returns.
fn edges_of(relation: &str, of_user: fn(u32) -> Vec<u32>) -> EdgeData {
    let pairs = (0..NUM_USERS).flat_map(|user| of_user(user).into_iter().map(move |item| (user, item)));
    let (src, dst): (Vec<u32>, Vec<u32>) = pairs.unzip();
    EdgeData::new(NodeTypeId(0), relation, NodeTypeId(1), src.into(), dst.into())
}

/// Returns a graph of likes and dislikes; `changes` adds the validation edge of the user who has changed.
fn graph_with_dislikes(changes: bool) -> Dataset {
    let mut likes = edges_of("likes", liked);
    let [src, dst] = if changes { [CHANGED, disliked(CHANGED)[0]] } else { [1, 0] };
    likes.held_out.valid = EdgeList::new(vec![src].into(), vec![dst].into());
    let node_types = [("user", NUM_USERS), ("item", NUM_ITEMS)].map(|(name, num_nodes)| NodeData {
        name: name.into(),
        num_nodes: num_nodes as usize,
        ..NodeData::default()
    });
    let edge_types = vec![likes, edges_of("dislikes", disliked)];
    let mut dataset = Dataset { name: "dislikes".into(), node_types: node_types.into(), edge_types };
    dataset.add_reverse_edges();
    dataset
}

/// Checks that no dislike of a negative of a batch, and no reverse of one, carries a message. Returns the number of other
/// dislikes that do.
fn check_messages_of_dislikes(dataset: &Dataset, batch: &LinkBatch) -> usize {
    if batch.src.is_empty() {
        return 0;
    }
    let mut excluded: Pairs = HashSet::new();
    for (_, user, _, negatives) in edges_with_negatives(dataset, batch) {
        excluded.extend(negatives.into_iter().map(|item| (user, item)));
    }
    let mut followed = 0;
    for (edge_type, is_reverse) in [(DISLIKES, false), (EdgeTypeId(3), true)] {
        let edges = dataset.edges(edge_type);
        let [sources, destinations] =
            [edges.src_type, edges.dst_type].map(|t| &batch.graph.nodes[t.index()].original_ids);
        let drawn = &batch.graph.edges[edge_type.index()];
        for (row, ends) in drawn.indptr.windows(2).enumerate() {
            for &number in &drawn.indices[ends[0] as usize..ends[1] as usize] {
                let (src, dst) = (sources[number as usize], destinations[row]);
                let pair = if is_reverse { (dst, src) } else { (src, dst) };
                assert!(!excluded.contains(&pair), "the negative {pair:?} carries a message");
                followed += 1;
            }
        }
    }
    followed
}

/// The parts, ranks and batches of a training on likes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    changes: bool,
    num_parts: u32,
    world_size: usize,
    batching: Batching,
    disjoint: bool,
    given: Given,
}

/// Returns the training edges with their negatives, of which given ones come first.
fn drawn_with_dislikes(dir: &Path, layout: Layout) -> Vec<EdgeWithNegatives> {
    let Layout { changes, num_parts, world_size, batching, disjoint, given } = layout;
    let dataset = graph_with_dislikes(changes);
    let parts = dir.join(format!("{num_parts}-{changes}"));
    if !parts.exists() {
        write_parts(&dataset, num_parts, Method::Random, &parts);
    }
    let negatives = NegativeSampling { num: 3, ..cases()[0].negatives };
    let case = Case { negatives, given, disjoint, ..cases()[0] };
    let per_rank = on_ranks(&parts, world_size, &DistGraphConfig::default(), |graph, world| {
        let seeds = EdgeSeeds::Split(Split::Train, vec![LIKES]);
        let loader = batching_loader(&graph, world, case, seeds, batching).expect("a valid loader");
        let mut edges = Vec::new();
        let mut followed = 0;
        for batch in loader.epoch(1) {
            let batch = batch.expect("a batch");
            edges.extend(edges_with_negatives(&dataset, &batch));
            if !disjoint && matches!(given, Given::Types(_)) {
                followed += check_messages_of_dislikes(&dataset, &batch);
            }
        }
        (edges, followed)
    });
    let followed: usize = per_rank.iter().map(|(_, followed)| followed).sum();
    assert!(disjoint || followed > 0 || matches!(given, Given::Pairs(_)), "other dislikes carry messages");
    let mut all: Vec<EdgeWithNegatives> = per_rank.into_iter().flat_map(|(edges, _)| edges).collect();
    all.sort_unstable();
    all
}

/// Checks that other parts, ranks and batches have the same negatives.
fn assert_equal_in_layouts(dir: &Path, first: Layout, expected: &[EdgeWithNegatives]) {
    for (num_parts, world_size, size, shuffle) in
        [(1, 2, 5, true), (2, 2, 1, false), (3, 3, 7, true), (3, 2, 12, false)]
    {
        let batching = Batching { size, shuffle };
        let layout = Layout { num_parts, world_size, batching, disjoint: num_parts == 2, ..first };
        assert!(drawn_with_dislikes(dir, layout) == expected, "{layout:?}");
    }
}

#[test]
fn listed_negatives_come_before_changing_ones_and_these_before_drawn_ones() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let batching = Batching { size: 12, shuffle: false };
    let given = Given::Pairs(LIKES);
    let first = Layout { changes: false, num_parts: 1, world_size: 1, batching, disjoint: false, given };
    let expected = drawn_with_dislikes(dir.path(), first);
    assert_eq!(expected.len(), 4 * NUM_USERS as usize);
    for (_, user, item, negatives) in &expected {
        liked(*user).iter().for_each(|item| assert!(!negatives.contains(item), "{user} likes {item}"));
        // A draw takes the place of a listed item that is liked.
        if *user == CONTRARY {
            continue;
        }
        let listed: BTreeSet<u32> = disliked(*user).into_iter().filter(|disliked| disliked != item).collect();
        let num_listed = listed.len().min(2);
        assert!(
            negatives[..num_listed].iter().all(|item| listed.contains(item)),
            "{user}: {negatives:?} of {listed:?}"
        );
        if num_listed < 2 {
            assert_eq!(negatives[num_listed], changing_item(*user), "{user}: {negatives:?}");
        }
        assert_eq!(negatives.iter().collect::<BTreeSet<_>>().len(), 3, "{user}: {negatives:?}");
    }
    let thirds: BTreeSet<u32> = expected.iter().map(|edge| edge.3[2]).collect();
    assert!(thirds.len() > NUM_ITEMS as usize / 2, "the third negative is drawn: {thirds:?}");
    assert_equal_in_layouts(dir.path(), first, &expected);
}

#[test]
fn given_negatives_come_first_and_carry_no_messages() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let batching = Batching { size: 12, shuffle: false };
    let given = Given::Types(&[DISLIKES]);
    let first = Layout { changes: false, num_parts: 1, world_size: 1, batching, disjoint: false, given };
    let expected = drawn_with_dislikes(dir.path(), first);
    assert_eq!(expected.len(), 4 * NUM_USERS as usize);
    for (_, user, _, negatives) in &expected {
        let mut given: BTreeSet<u32> = disliked(*user).into_iter().collect();
        liked(*user).iter().for_each(|item| assert!(!negatives.contains(item), "{user} likes {item}"));
        given.retain(|item| !liked(*user).contains(item));
        let found = negatives.iter().filter(|item| given.contains(item)).count();
        assert_eq!((found, negatives.len()), (given.len().min(3), 3), "{user}: {negatives:?} of {given:?}");
    }
    // Edges of one source have other given negatives if there are more than needed.
    let of_user: BTreeSet<&Vec<u32>> = expected.iter().filter(|edge| edge.1 == 4).map(|edge| &edge.3).collect();
    assert!(of_user.len() > 1);
    assert_equal_in_layouts(dir.path(), first, &expected);
    let twice = Layout { given: Given::Types(&[DISLIKES, DISLIKES]), ..first };
    assert!(drawn_with_dislikes(dir.path(), twice) == expected, "a type that is named twice counts once");
    // Held-out edges change nothing: training does not know them.
    let found = drawn_with_dislikes(dir.path(), Layout { changes: true, num_parts: 2, world_size: 2, ..first });
    assert!(found == expected, "training knows a validation edge");
    let of_changed: Vec<u32> = found.into_iter().filter(|edge| edge.1 == CHANGED).flat_map(|edge| edge.3).collect();
    assert!(of_changed.contains(&disliked(CHANGED)[0]));
}

#[test]
fn types_that_cannot_give_negatives_are_refused() {
    let dataset = graph_with_dislikes(false);
    let dir = parts_of(&dataset, 1);
    let case = Case { given: Given::Types(&[DISLIKES]), ..cases()[0] };
    let shared =
        Case { negatives: NegativeSampling { shared: true, exclude: Exclude::Nothing, ..case.negatives }, ..case };
    let refused = [
        (shared, LIKES, "do not share negatives (`shared_negatives`)"),
        (case, DISLIKES, "user__dislikes__item gives negatives"),
        (case, EdgeTypeId(2), "no predicted edge type has the same source type"),
        (
            Case { given: Given::Pairs(DISLIKES), ..case },
            LIKES,
            "negatives of edges of type user__dislikes__item are listed",
        ),
    ];
    on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
        for (case, predicted, why) in refused {
            let seeds = EdgeSeeds::Split(Split::Train, vec![predicted]);
            assert_has(loader(&graph, world, case, seeds).err().expect("an error").to_string(), &[why]);
        }
    });
    let mut dataset = graph_with_dislikes(false);
    dataset.edge_types.truncate(2);
    let dir = parts_of(&dataset, 1);
    on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
        let seeds = EdgeSeeds::Split(Split::Train, vec![LIKES]);
        let error = loader(&graph, world, case, seeds).err().expect("an error").to_string();
        assert!(error.contains("add them (`add_reverse_edges`)"), "{error}");
    });
}
