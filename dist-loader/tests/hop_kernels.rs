//! Tests of a kernel that draws hops instead of the CPU, for the process's own batches and for its peers' requests.

use crate::support;

use edgecut_dist_sampler::{
    BatchKey, DistGraph, DistGraphConfig, DistNeighborSampler, EdgeFields, NumNeighbors, SampleError, SampleSeeds,
    SampledSubgraph, SamplerConfig,
};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeTypeId, Fanout, HopError, HopKernel, NodeTypeId, Part, PlainHop};
use edgecut_partition::Method;
use edgecut_testing::assert_has;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{on_ranks, write_parts};

/// A slow kernel that draws hops of even edge types and counts them, or fails as `fault` says.
struct Kernel {
    part: Arc<Part>,
    hops: AtomicUsize,
    fault: Fault,
}

#[derive(Clone, Copy)]
enum Fault {
    None,
    Fails,
    ForgetsNeighbors,
}

impl HopKernel for Kernel {
    fn takes(&self, edge_type: EdgeTypeId, num_rows: usize) -> bool {
        assert!(num_rows > 0, "no hop without rows is requested");
        edge_type.0.is_multiple_of(2)
    }

    fn sample_hop(&self, hop: &PlainHop<'_>, max_words: usize, out: &mut Vec<u32>) -> Result<(), HopError> {
        assert!(hop.edge_type.0.is_multiple_of(2), "edge type {} was not taken", hop.edge_type.0);
        self.hops.fetch_add(1, Ordering::Relaxed);
        if let Fault::Fails = self.fault {
            return Err(HopError::Failed("out of memory".into()));
        }
        let edges = self.part.edges(hop.edge_type);
        let mut counts = Vec::new();
        let mut neighbors = Vec::new();
        for &row in hop.rows {
            let list = edges.csc.neighbors(row as usize);
            let original = self.part.nodes(edges.dst_type).original_ids[row as usize];
            let drawn = drawn(list.len() as u64, hop, &mut CounterRng::new(combine(hop.key, u64::from(original))));
            counts.push(drawn.len() as u32);
            neighbors.extend(drawn.into_iter().map(|position| list[position as usize]));
        }
        if out.len() + counts.len() + neighbors.len() > max_words {
            return Err(HopError::TooLarge);
        }
        out.extend(counts);
        if let Fault::None = self.fault {
            out.extend(neighbors);
        }
        Ok(())
    }
}

/// Returns the positions of drawn neighbors, ascending.
fn drawn(degree: u64, hop: &PlainHop<'_>, rng: &mut CounterRng) -> Vec<u64> {
    match hop.fanout {
        Fanout::Count(fanout) if hop.replace && degree > 0 => {
            let mut drawn: Vec<u64> = (0..fanout).map(|_| rng.below(degree)).collect();
            drawn.sort_unstable();
            drawn
        }
        Fanout::Count(fanout) if u64::from(fanout) < degree => {
            let mut drawn = BTreeSet::new();
            for last in degree - u64::from(fanout)..degree {
                let at = rng.below(last + 1);
                if !drawn.insert(at) {
                    drawn.insert(last);
                }
            }
            drawn.into_iter().collect()
        }
        _ => (0..degree).collect(),
    }
}

fn sample(graph: &Arc<DistGraph>, config: SamplerConfig) -> Result<SampledSubgraph, SampleError> {
    let types = graph.part().meta().node_types.len();
    let num_nodes = graph.part().meta().node_types[0].book.num_nodes() as u32;
    let mut seeds = SampleSeeds::of_type(NodeTypeId(0), (0..num_nodes).step_by(3).collect(), types);
    if config.disjoint {
        seeds = seeds.disjoint(Vec::new());
    }
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config)?);
    graph.handle().block_on(sampler.sample(seeds, BatchKey { seed: 1, epoch: 2, batch: 3 }))
}

fn configs() -> Vec<SamplerConfig> {
    let plain = |text: &str| SamplerConfig::new(text.parse::<NumNeighbors>().expect("fan-outs"));
    vec![plain("3,2"), plain("-1,4"), plain("4,3").with_replacement(true), plain("e0=2,2;e2=-1,0;1,1")]
}

fn kernel(graph: &DistGraph, fault: Fault) -> Arc<Kernel> {
    Arc::new(Kernel { part: graph.part().clone(), hops: AtomicUsize::new(0), fault })
}

/// Runs on 1 and 2 ranks with one part each. Replies are so small that hops are requested in pieces.
fn on_one_and_two_parts(work: impl Fn(Arc<DistGraph>, &mut edgecut_cluster::ProcessGroup) + Sync) {
    let options = FakeOptions { avg_num_nodes: 150, avg_degree: 5.0, ..FakeOptions::default() };
    let dataset = fake_hetero(&options).expect("a valid graph");
    let dir = tempfile::tempdir().expect("a folder");
    for num_parts in [1, 2] {
        let parts = dir.path().join(num_parts.to_string());
        write_parts(&dataset, num_parts, Method::Random, &parts);
        let config = DistGraphConfig { num_workers: 2, max_message_bytes: 2_000, ..DistGraphConfig::default() };
        on_ranks(&parts, num_parts as usize, &config, &work);
    }
}

#[test]
fn batches_do_not_show_who_drew_them() {
    on_one_and_two_parts(|graph, world| {
        let sample_all = || configs().into_iter().map(|c| sample(&graph, c).expect("a batch")).collect::<Vec<_>>();
        let expected = sample_all();
        world.barrier().expect("all ranks have sampled");
        let kernel = kernel(&graph, Fault::None);
        graph.draw_with(kernel.clone()).expect("the first kernel");
        let error = graph.draw_with(kernel.clone()).expect_err("the second kernel");
        assert!(error.to_string().contains("already"), "{error}");
        assert!(sample_all() == expected);
        world.barrier().expect("all ranks have sampled");
        let hops = kernel.hops.load(Ordering::Relaxed);
        assert!(hops > configs().len(), "{hops} hops");
        // Kernels do not support positions of edges, weights, times and disjoint neighborhoods.
        let wanted = EdgeFields { features: true, ..EdgeFields::default() };
        let config = SamplerConfig::new("3,2".parse::<NumNeighbors>().expect("fan-outs"));
        sample(&graph, config.clone().with_edge_attributes(wanted)).expect("a batch with positions");
        sample(&graph, config.with_disjoint(true)).expect("a disjoint batch");
        world.barrier().expect("all ranks have sampled");
        assert_eq!(kernel.hops.load(Ordering::Relaxed), hops);
    });
}

#[test]
fn a_failing_kernel_ends_the_batch_and_says_why() {
    for (fault, expected) in [
        (Fault::Fails, "draw a hop on the device: out of memory"),
        (Fault::ForgetsNeighbors, "which differs from its counts"),
    ] {
        on_one_and_two_parts(|graph, world| {
            // The kernel of the last rank fails, so that rank 0 of two receives the error from its peer.
            if world.rank() + 1 == world.size() {
                graph.draw_with(kernel(&graph, fault)).expect("the first kernel");
            }
            world.barrier().expect("all have set theirs");
            assert_has(sample(&graph, configs().remove(0)).expect_err("no batch").to_string(), &[expected]);
            world.barrier().expect("all ranks have sampled");
        });
    }
}
