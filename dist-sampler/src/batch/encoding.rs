//! Seeds and sampled neighborhoods as arrays of `u32`, for requests and replies.

use crate::arrays::{bytes_of, ids_in};
use crate::batch::seeds::{ExcludedEdge, SampleSeeds};
use crate::batch::subgraph::{SampledEdges, SampledNodes, SampledSubgraph};
use crate::rpc::server_requests::SeedLengths;
use bytes::Bytes;
use edgecut_graph::Meta;

/// The number of lists that a neighborhood has per node type and per edge type.
const LISTS_PER_TYPE: usize = 3;

/// The neighborhood of an edge that is excluded in all neighborhoods.
const ALL: u32 = u32::MAX;

fn excluded_edge(src: u32, dst: u32, batch: u32) -> ExcludedEdge {
    ExcludedEdge { src, dst, batch: (batch != ALL).then_some(batch) }
}

/// Returns the lists of a batch's seeds end to end, and their lengths. The seeds have no numbers of draws.
pub(crate) fn encode_seeds(seeds: &SampleSeeds) -> (SeedLengths, Bytes) {
    let lengths = SeedLengths {
        nodes: lengths_of(&seeds.nodes),
        batch: lengths_of(&seeds.batch),
        times: seeds.times.len() as u32,
        excluded: lengths_of(&seeds.excluded),
    };
    let mut words = Vec::new();
    seeds.nodes.iter().chain(&seeds.batch).for_each(|list| words.extend_from_slice(list));
    seeds.times.iter().for_each(|&time| words.extend([time as u32, ((time as u64) >> 32) as u32]));
    seeds.excluded.iter().flatten().for_each(|edge| words.extend([edge.src, edge.dst, edge.batch.unwrap_or(ALL)]));
    (lengths, bytes_of(words))
}

/// Reads seeds that [`encode_seeds`] has written.
///
/// # Errors
/// A message if the payload does not have these lengths.
pub(crate) fn decode_seeds(lengths: &SeedLengths, payload: &Bytes) -> Result<SampleSeeds, String> {
    let mut words = Words(ids_in(payload)?);
    let nodes = words.take_lists(&lengths.nodes)?;
    let batch = words.take_lists(&lengths.batch)?;
    let times = words.take(lengths.times as usize * 2)?;
    let times = times.chunks_exact(2).map(|half| (u64::from(half[1]) << 32 | u64::from(half[0])) as i64).collect();
    let mut excluded = Vec::new();
    for &length in &lengths.excluded {
        let edges = words.take(length as usize * 3)?.chunks_exact(3);
        excluded.push(edges.map(|edge| excluded_edge(edge[0], edge[1], edge[2])).collect());
    }
    words.end()?;
    Ok(SampleSeeds { nodes, batch, times, excluded, ..SampleSeeds::default() })
}

/// Returns a neighborhood as one array: the lengths of all lists, then the lists. By node type these are the ids, the
/// offsets of the hops and the neighborhoods, by edge type the offsets of the rows, the sources and the positions.
/// Returns `None` if it exceeds `max_bytes`.
pub(crate) fn encode_subgraph(subgraph: &SampledSubgraph, max_bytes: usize) -> Option<Bytes> {
    let lists: Vec<&[u32]> = lists_of(subgraph).collect();
    let num_words = lists.len() + lists.iter().map(|list| list.len()).sum::<usize>();
    if num_words.checked_mul(size_of::<u32>())? > max_bytes {
        return None;
    }
    let mut words = Vec::with_capacity(num_words);
    words.extend(lists.iter().map(|list| list.len() as u32));
    lists.iter().for_each(|list| words.extend_from_slice(list));
    Some(bytes_of(words))
}

/// The properties that a neighborhood must have.
pub(crate) struct Expected {
    pub(crate) num_hops: usize,
    /// By node type.
    pub(crate) seeds: Vec<Vec<u32>>,
    pub(crate) disjoint: bool,
    pub(crate) positions: bool,
}

/// Reads a neighborhood that [`encode_subgraph`] has written, and checks it against the graph and the request.
///
/// # Errors
/// A message that names the first contradiction.
pub(crate) fn decode_subgraph(meta: &Meta, expected: &Expected, reply: &Bytes) -> Result<SampledSubgraph, String> {
    let mut words = Words(ids_in(reply)?);
    let num_lists = LISTS_PER_TYPE * (meta.node_types.len() + meta.edge_types.len());
    let lengths = words.take(num_lists)?;
    let mut lists = words.take_lists(lengths)?.into_iter();
    words.end()?;
    let mut next = || lists.next().unwrap_or_default();
    let mut subgraph = SampledSubgraph::default();
    for (of_type, seeds) in meta.node_types.iter().zip(&expected.seeds) {
        let nodes = SampledNodes { ids: next(), hop_offsets: next(), batch: next() };
        let num_nodes = of_type.book.num_nodes();
        if let Some(id) = nodes.ids.iter().find(|&&id| id as usize >= num_nodes) {
            return Err(format!("the reply names node {id} of type {}, which has {num_nodes}", of_type.name));
        }
        let hops_fit = nodes.hop_offsets.len() == expected.num_hops + 1
            && nodes.hop_offsets.is_sorted()
            && nodes.hop_offsets.first() == Some(&(seeds.len() as u32))
            && nodes.ids.starts_with(seeds)
            && nodes.hop_offsets.last() == Some(&(nodes.ids.len() as u32));
        if !hops_fit || nodes.batch.len() != if expected.disjoint { nodes.ids.len() } else { 0 } {
            return Err(format!("the hops of the reply do not match its nodes of type {}", of_type.name));
        }
        subgraph.nodes.push(nodes);
    }
    for of_type in &meta.edge_types {
        let edges = SampledEdges { indptr: next(), indices: next(), positions: next() };
        let num_nodes = |name: &str| {
            let at = meta.node_types.iter().position(|t| t.name == name);
            at.map_or(0, |at| subgraph.nodes[at].ids.len())
        };
        let rows_fit = edges.indptr.first() == Some(&0)
            && edges.indptr.is_sorted()
            && edges.indptr.last() == Some(&(edges.indices.len() as u32))
            && edges.indptr.len() <= num_nodes(&of_type.dst_type) + 1;
        let num_sources = num_nodes(&of_type.src_type) as u32;
        let sources_fit = edges.indices.iter().all(|&source| source < num_sources);
        let num_positions = if expected.positions { edges.indices.len() } else { 0 };
        if !rows_fit || !sources_fit || edges.positions.len() != num_positions {
            return Err(format!("the edges of type {} of the reply do not match its nodes", of_type.relation));
        }
        subgraph.edges.push(edges);
    }
    Ok(subgraph)
}

fn lists_of(subgraph: &SampledSubgraph) -> impl Iterator<Item = &[u32]> {
    let nodes = subgraph.nodes.iter().flat_map(|nodes| [&nodes.ids, &nodes.hop_offsets, &nodes.batch]);
    let edges = subgraph.edges.iter().flat_map(|edges| [&edges.indptr, &edges.indices, &edges.positions]);
    nodes.chain(edges).map(Vec::as_slice)
}

fn lengths_of<T>(lists: &[Vec<T>]) -> Vec<u32> {
    lists.iter().map(|list| list.len() as u32).collect()
}

/// The words of a message that are still to be read.
struct Words<'a>(&'a [u32]);

impl<'a> Words<'a> {
    fn take(&mut self, num: usize) -> Result<&'a [u32], String> {
        let cut = || format!("the message has {} words, fewer than its lengths require", self.0.len());
        let (taken, rest) = self.0.split_at_checked(num).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn take_lists(&mut self, lengths: &[u32]) -> Result<Vec<Vec<u32>>, String> {
        lengths.iter().map(|&length| Ok(self.take(length as usize)?.to_vec())).collect()
    }

    fn end(&self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("the message has {} words too many", self.0.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::part_writer::write_one_part;
    use edgecut_graph::readers::{FakeOptions, fake};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn seeds_survive_and_cut_ones_are_refused(
            nodes in proptest::collection::vec(proptest::collection::vec(any::<u32>(), 0..5), 0..4),
            times in proptest::collection::vec(any::<i64>(), 0..5),
            excluded in proptest::collection::vec(proptest::collection::vec(any::<[u32; 3]>(), 0..5), 0..4),
        ) {
            let edges = |of_type: &Vec<[u32; 3]>| {
                of_type.iter().map(|&[src, dst, batch]| excluded_edge(src, dst, batch)).collect()
            };
            let excluded = excluded.iter().map(edges).collect();
            let seeds = SampleSeeds { batch: nodes.clone(), nodes, times, excluded, ..SampleSeeds::default() };
            let (lengths, payload) = encode_seeds(&seeds);
            prop_assert_eq!(decode_seeds(&lengths, &payload).unwrap(), seeds);
            if !payload.is_empty() {
                let cut = bytes_of(ids_in(&payload).unwrap()[1..].to_vec());
                prop_assert!(decode_seeds(&lengths, &cut).is_err());
            }
            let long = bytes_of([ids_in(&payload).unwrap(), &[0]].concat());
            prop_assert!(decode_seeds(&lengths, &long).is_err());
        }
    }

    fn meta() -> Meta {
        let dir = tempfile::tempdir().unwrap();
        write_one_part(fake(&FakeOptions { avg_num_nodes: 100, ..FakeOptions::default() }).unwrap(), dir.path())
            .unwrap();
        Meta::read(dir.path()).unwrap()
    }

    fn subgraph() -> SampledSubgraph {
        SampledSubgraph {
            nodes: vec![SampledNodes { ids: vec![7, 3, 9], hop_offsets: vec![2, 3], batch: Vec::new() }],
            edges: vec![SampledEdges { indptr: vec![0, 1, 2], indices: vec![1, 2], positions: Vec::new() }],
            seed_times: Vec::new(),
        }
    }

    fn expected() -> Expected {
        Expected { num_hops: 1, seeds: vec![vec![7, 3]], disjoint: false, positions: false }
    }

    #[test]
    fn a_neighborhood_survives() {
        let reply = encode_subgraph(&subgraph(), usize::MAX).unwrap();
        assert_eq!(decode_subgraph(&meta(), &expected(), &reply).unwrap(), subgraph());
        assert!(encode_subgraph(&subgraph(), reply.len()).is_some());
        assert!(encode_subgraph(&subgraph(), reply.len() - 1).is_none());
    }

    #[test]
    fn replies_that_contradict_themselves_are_refused() {
        let meta = meta();
        let broken: [fn(&mut SampledSubgraph); 10] = [
            |g| g.nodes[0].ids[0] = 8,
            |g| g.edges[0].positions = vec![0, 0],
            |g| g.nodes[0].ids[2] = 100,
            |g| g.nodes[0].hop_offsets = vec![2, 4],
            |g| g.nodes[0].hop_offsets = vec![1, 3],
            |g| g.nodes[0].hop_offsets = vec![2, 2, 3],
            |g| g.nodes[0].batch = vec![0],
            |g| g.edges[0].indices[0] = 3,
            |g| g.edges[0].indptr = vec![0, 1],
            |g| g.edges[0].positions = vec![0],
        ];
        for (number, change) in broken.iter().enumerate() {
            let mut changed = subgraph();
            change(&mut changed);
            let reply = encode_subgraph(&changed, usize::MAX).unwrap();
            assert!(decode_subgraph(&meta, &expected(), &reply).is_err(), "change {number}");
        }
        let reply = encode_subgraph(&subgraph(), usize::MAX).unwrap();
        let words = ids_in(&reply).unwrap();
        for cut in [0, 1, words.len() - 1] {
            assert!(decode_subgraph(&meta, &expected(), &bytes_of(words[..cut].to_vec())).is_err());
        }
        assert!(decode_subgraph(&meta, &expected(), &bytes_of([words, &[0]].concat())).is_err());
    }
}
