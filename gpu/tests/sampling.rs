//! A device draws the same as the CPU, id for id.

mod support;

use cubecl::cuda::CudaRuntime;
use edgecut_cluster::Cluster;
use edgecut_dist_sampler::{
    BatchKey, DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, NumNeighbors, SampleSeeds, SampledSubgraph,
    SamplerConfig, share_dataset,
};
use edgecut_gpu::kernels::{DeviceHops, DeviceTopology};
use edgecut_graph::Fanout::{All, Count};
use edgecut_graph::readers::{FakeOptions, fake, fake_hetero};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{Dataset, EdgeTypeId, HopError, HopKernel, NodeTypeId, PlainHop};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Numbers, device};

/// In-edges, and the original ids of their rows.
struct Graph {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    original_ids: Vec<u32>,
}

impl Graph {
    /// Creates a graph with the given in-degrees and random sources and original ids.
    fn new(degrees: &[u32], seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let mut indptr = vec![0];
        for &degree in degrees {
            indptr.push(indptr[indptr.len() - 1] + u64::from(degree));
        }
        let any = |numbers: &mut Numbers| (numbers.below(1 << 16) << 16 | numbers.below(1 << 16)) as u32;
        let indices = (0..indptr[degrees.len()]).map(|_| any(&mut numbers)).collect();
        let original_ids = degrees.iter().map(|_| any(&mut numbers)).collect();
        Self { indptr, indices, original_ids }
    }

    fn on(&self, client: &cubecl::client::ComputeClient<CudaRuntime>) -> DeviceTopology<CudaRuntime> {
        DeviceTopology::new(client.clone(), &self.indptr, &self.indices, &self.original_ids).expect("a valid graph")
    }

    /// Returns the slow and obvious answer.
    fn sample_hop(&self, rows: &[u32], fanout: Fanout, replace: bool, key: u64) -> Vec<u32> {
        let mut counts = Vec::new();
        let mut neighbors = Vec::new();
        for &row in rows {
            let list = &self.indices[self.indptr[row as usize] as usize..self.indptr[row as usize + 1] as usize];
            let mut rng = CounterRng::new(combine(key, u64::from(self.original_ids[row as usize])));
            let drawn = drawn(list.len() as u64, fanout, replace, &mut rng);
            counts.push(drawn.len() as u32);
            neighbors.extend(drawn.into_iter().map(|position| list[position as usize]));
        }
        [counts, neighbors].concat()
    }
}

/// Returns the positions of a row's drawn neighbors.
fn drawn(degree: u64, fanout: Fanout, replace: bool, rng: &mut CounterRng) -> Vec<u64> {
    let mut positions: Vec<u64> = match fanout {
        Count(_) if degree == 0 => Vec::new(),
        Count(fanout) if replace => (0..fanout).map(|_| rng.below(degree)).collect(),
        Count(fanout) if u64::from(fanout) < degree => {
            let mut seen = HashSet::new();
            for last in degree - u64::from(fanout)..degree {
                let at = rng.below(last + 1);
                if !seen.insert(at) {
                    seen.insert(last);
                }
            }
            seen.into_iter().collect()
        }
        _ => (0..degree).collect(),
    };
    positions.sort_unstable();
    positions
}

fn check(graph: &Graph, device: &DeviceTopology<CudaRuntime>, rows: &[u32], fanout: Fanout, replace: bool, key: u64) {
    let mut found = vec![7, 7];
    let hop = PlainHop { edge_type: EdgeTypeId(0), rows, fanout, replace, key };
    device.sample_hop(&hop, usize::MAX, &mut found).expect("a hop");
    let expected = graph.sample_hop(rows, fanout, replace, key);
    assert_eq!(found[..2], [7, 7], "what was there is kept");
    let first = found[2..].iter().zip(&expected).position(|(found, expected)| found != expected);
    assert!(
        found.len() - 2 == expected.len() && first.is_none(),
        "fan-out {fanout:?}, replace {replace}, {} rows: {} words for {}, the first that differs is {first:?}",
        rows.len(),
        found.len() - 2,
        expected.len()
    );
}

#[test]
fn hubs_and_rows_without_neighbors() {
    let Some(client) = device() else { return };
    // Around the fan-outs, the sizes of cubes, and the limits between the ways of drawing.
    let degrees = [0, 1, 2, 5, 0, 0, 48, 49, 50, 64, 200, 201, 255, 256, 257, 100_003, 3, 0, 1_000, 0];
    let graph = Graph::new(&degrees, 3);
    let topology = graph.on(&client);
    assert_eq!(topology.num_bytes(), 8 * 21 + 4 * (graph.indices.len() as u64 + 20));
    let rows: Vec<u32> = (0..20).chain([15, 15, 0, 19]).collect();
    for fanout in
        [1, 2, 5, 10, 47, 48, 49, 50, 63, 64, 65, 199, 200, 999, 1_000, 5_000].map(Count).into_iter().chain([All])
    {
        for replace in [false, true] {
            check(&graph, &topology, &rows, fanout, replace, 0x0123_4567_89ab_cdef);
        }
    }
    check(&graph, &topology, &[], Count(3), false, 1);
    check(&graph, &topology, &[0, 4, 5, 17, 19], All, false, 1);
    for fanout in [60_000, 99_999, 100_002, 100_003] {
        check(&graph, &topology, &[3, 15, 0], Count(fanout), false, 5);
    }
    check(&graph, &topology, &[1, 15, 0], Count(70_000), true, 5);
    check(&graph, &topology, &[15], Count(u32::MAX - 1), false, 5);
}

#[test]
fn more_rows_than_a_grid_has_cubes_on_an_axis() {
    let Some(client) = device() else { return };
    let mut numbers = Numbers(5);
    let degrees: Vec<u32> = (0..90_000).map(|_| numbers.below(6) as u32 * numbers.below(4) as u32).collect();
    let graph = Graph::new(&degrees, 4);
    let topology = graph.on(&client);
    let rows: Vec<u32> = (0..200_000).map(|_| numbers.below(90_000) as u32).collect();
    check(&graph, &topology, &rows, Count(3), false, 11);
    check(&graph, &topology, &rows, Count(2), true, 12);
    check(&graph, &topology, &rows, All, false, 13);
    // More than 65,535 cubes of 256 neighbors.
    let hubs = Graph::new(&[6_000_000, 9_000_000, 2_000_000, 1], 9);
    let topology = hubs.on(&client);
    check(&hubs, &topology, &[3, 1, 0, 3, 2], All, false, 0);
}

#[test]
fn pieces_do_not_show() {
    let Some(client) = device() else { return };
    let mut numbers = Numbers(8);
    let degrees: Vec<u32> = (0..300).map(|_| numbers.below(150) as u32 * numbers.below(2) as u32).collect();
    let graph = Graph::new(&degrees, 6);
    let rows: Vec<u32> = (0..1_000).map(|_| numbers.below(300) as u32).collect();
    for words in [0, 1, 100, 1_000] {
        let topology = graph.on(&client).with_words_per_piece(words);
        for (fanout, replace) in
            [(Count(4), false), (Count(4), true), (Count(70), false), (Count(70), true), (All, false)]
        {
            check(&graph, &topology, &rows[..(words + 20).min(1_000)], fanout, replace, 2);
        }
    }
}

#[test]
fn hops_of_several_threads_do_not_disturb_each_other() {
    let Some(client) = device() else { return };
    let degrees: Vec<u32> = (0..200).map(|row| row * 7 % 151).collect();
    let graph = Graph::new(&degrees, 2);
    let topology = graph.on(&client);
    let graph = &graph;
    let topology = &topology;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for hop in 0..20 {
                    let rows: Vec<u32> = (0..200 + hop).map(|i| (i * 13 + thread) % 200).collect();
                    check(graph, topology, &rows, Count(1 + hop * 5), thread == 1, u64::from(thread * 100 + hop));
                }
            });
        }
    });
}

#[test]
fn answers_that_are_too_long_and_rows_that_are_not_there_are_refused() {
    let Some(client) = device() else { return };
    let graph = Graph::new(&[40, 3], 1);
    let topology = graph.on(&client);
    let hop = |rows: &[u32], max_words| {
        let mut out = vec![9];
        let hop = PlainHop { edge_type: EdgeTypeId(0), rows, fanout: Count(10), replace: false, key: 0 };
        topology.sample_hop(&hop, max_words, &mut out).map(|()| out.len())
    };
    assert_eq!(hop(&[0], 12).expect("12 words"), 12);
    assert!(matches!(hop(&[0], 11), Err(HopError::TooLarge)));
    let error = hop(&[0, 2], 100).expect_err("row 2 of 2");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert_eq!(cause, "row 2 is out of range: the device has 2 rows");
    for (indptr, indices, ids) in
        [(&[0, 2][..], &[1][..], &[5][..]), (&[0, 1], &[1], &[5, 6]), (&[0, 2, 1], &[1], &[5, 6]), (&[], &[], &[])]
    {
        assert!(DeviceTopology::new(client.clone(), indptr, indices, ids).is_err(), "{indptr:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn any_rows_of_any_graph(
        degrees in proptest::collection::vec(prop_oneof![3 => 0_u32..12, 1 => 0_u32..300], 1..60),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..400),
        fanout in prop_oneof![4 => (1_u32..=200).prop_map(Count), 1 => Just(All)],
        replace: bool,
        key: u64,
    ) {
        let Some(client) = device() else { return Ok(()) };
        let graph = Graph::new(&degrees, key);
        let rows: Vec<u32> = picks.iter().map(|pick| pick.index(degrees.len()) as u32).collect();
        check(&graph, &graph.on(&client), &rows, fanout, replace, key);
    }
}

/// A kernel that counts its hops.
struct Counted {
    inner: DeviceHops<CudaRuntime>,
    hops: AtomicUsize,
}

impl HopKernel for Counted {
    fn takes(&self, edge_type: EdgeTypeId, num_rows: usize) -> bool {
        self.inner.takes(edge_type, num_rows)
    }

    fn sample_hop(&self, hop: &PlainHop<'_>, max_words: usize, out: &mut Vec<u32>) -> Result<(), HopError> {
        self.hops.fetch_add(1, Ordering::Relaxed);
        self.inner.sample_hop(hop, max_words, out)
    }
}

/// Samples batches of every fan-out with one process, before and after it draws on a device, and checks that the device
/// drew hops.
fn batches(dataset: &Dataset, fanouts: &[&str], budget_bytes: u64) -> Option<[Vec<SampledSubgraph>; 2]> {
    let client = device()?;
    let cluster = Cluster::join_local(1, |_| {}).expect("join").remove(0);
    let part = share_dataset(&cluster, || Ok::<_, String>(dataset.clone())).expect("a valid dataset");
    let graph = DistGraph::start(Arc::new(part), cluster.clone(), DistGraphConfig::default()).expect("start");
    let num_types = graph.part().meta().node_types.len();
    let sample_all = || {
        let mut all = Vec::new();
        for (i, fanouts) in fanouts.iter().enumerate() {
            for replace in [false, true] {
                let fanouts: NumNeighbors = fanouts.parse().expect("fan-outs");
                let config = SamplerConfig::new(fanouts).with_replacement(replace);
                let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a sampler"));
                let num_nodes = graph.part().meta().node_types[0].book.num_nodes() as u32;
                let seeds: Vec<u32> = (0..num_nodes).step_by(1 + i).collect();
                let seeds = SampleSeeds::of_type(NodeTypeId(0), seeds, num_types);
                let key = BatchKey { seed: 4, epoch: i as u64, batch: u64::from(replace) };
                all.push(graph.handle().block_on(sampler.sample(seeds, key)).expect("a batch"));
            }
        }
        all
    };
    let on_cpu = sample_all();
    let inner = DeviceHops::new(&client, graph.part(), budget_bytes).expect("a valid part");
    let held = inner.held().count();
    let num_types = graph.part().meta().edge_types.len();
    assert!(inner.num_bytes() <= budget_bytes);
    assert_eq!(held == num_types, budget_bytes == u64::MAX, "{held} of {num_types} edge types fit");
    let kernel = Arc::new(Counted { inner, hops: AtomicUsize::new(0) });
    graph.draw_with(kernel.clone()).expect("the first kernel");
    assert!(graph.draw_with(kernel.clone()).is_err(), "the second kernel");
    let on_device = sample_all();
    let hops = kernel.hops.load(Ordering::Relaxed);
    assert!(hops > fanouts.len(), "{hops} hops were drawn on the device");
    cluster.shutdown().expect("leave");
    Some([on_cpu, on_device])
}

#[test]
fn whole_batches_are_the_same() {
    let options = FakeOptions { avg_num_nodes: 3_000, avg_degree: 12.0, ..FakeOptions::default() };
    let dataset = fake(&options).expect("a valid graph");
    let fanouts = ["15,10,5", "-1,4", "1", "100,2", "200,-1"];
    if let Some([on_cpu, on_device]) = batches(&dataset, &fanouts, u64::MAX) {
        assert!(on_cpu == on_device);
        let all = SamplerConfig::new(vec![Fanout::All]);
        assert!(!all.replace && on_cpu.iter().all(|batch| !batch.edges[0].indices.is_empty()));
    }
}

#[test]
fn edge_types_that_do_not_fit_are_drawn_on_the_cpu() {
    let options = FakeOptions { avg_num_nodes: 300, avg_degree: 6.0, ..FakeOptions::default() };
    let dataset = fake_hetero(&options).expect("a valid graph");
    for budget_bytes in [u64::MAX, 20_000] {
        if let Some([on_cpu, on_device]) = batches(&dataset, &["3,2", "-1,60", "e1=4,0;e4=0,3;2,-1"], budget_bytes) {
            assert!(on_cpu == on_device, "with a budget of {budget_bytes} bytes");
        }
    }
}
