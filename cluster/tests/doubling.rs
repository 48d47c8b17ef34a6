//! Recursive doubling: its duration in a model of a network, and its results over real sockets.

mod support;

use std::time::Duration;

use edgecut_cluster::{Cluster, ClusterError, ReduceOp, doubling, ring};
use support::on_each;

/// A model of a network that connects each pair of ranks.
struct Network {
    latency: Duration,
    bytes_per_second: f64,
}

impl Network {
    /// Returns the transfer time of a message of `bytes` bytes.
    fn time(&self, bytes: usize) -> Duration {
        self.latency + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second)
    }
}

/// The completion of a collective, or of a part of it, on one rank.
#[derive(Debug, PartialEq)]
struct End {
    /// The number of sequential messages before it.
    hops: usize,
    time: Duration,
}

impl End {
    /// Returns the completion of two events, both of which must happen.
    fn and(&self, other: &Self) -> Self {
        Self { hops: self.hops.max(other.hops), time: self.time.max(other.time) }
    }

    fn after(&self, message: Duration) -> Self {
        Self { hops: self.hops + 1, time: self.time + message }
    }

    fn latest(ends: &[Self]) -> Self {
        ends.iter().fold(Self { hops: 0, time: Duration::ZERO }, |latest, end| latest.and(end))
    }
}

fn start(world: usize) -> Vec<End> {
    (0..world).map(|_| End { hops: 0, time: Duration::ZERO }).collect()
}

/// Simulates a plan of the ring, step by step on all ranks. A rank begins its next step when it has received.
fn time_ring(plan: impl Fn(usize, usize) -> Vec<ring::Step>, world: usize, bytes: usize, network: &Network) -> End {
    let message = network.time(bytes);
    let steps = plan(0, world).len();
    let mut ends = start(world);
    for _ in 0..steps {
        ends = (0..world).map(|rank| ends[rank].and(&ends[(rank + world - 1) % world].after(message))).collect();
    }
    End::latest(&ends)
}

/// Simulates the plans of recursive doubling. A step ends when the message that it waits for has arrived.
fn time_doubling(world: usize, bytes: usize, network: &Network) -> End {
    let message = network.time(bytes);
    let plans: Vec<_> = (0..world).map(|rank| doubling::plan(rank, world)).collect();
    let mut ends = start(world);
    let mut next = vec![0; world];
    // The time when each message was sent, by sender and step.
    let mut sent: Vec<Vec<Option<End>>> = plans.iter().map(|plan| plan.iter().map(|_| None).collect()).collect();
    loop {
        let mut moved = false;
        for rank in 0..world {
            let Some(step) = plans[rank].get(next[rank]) else { continue };
            if sent[rank][next[rank]].is_none() {
                sent[rank][next[rank]] = Some(ends[rank].and(&ends[rank]));
            }
            if !step.receives.is_empty() {
                let is_message = |other: &doubling::Step| other.peer == rank && other.sends == step.receives;
                let index = plans[step.peer].iter().position(is_message).expect("the peer sends what is received");
                let Some(message_sent) = &sent[step.peer][index] else { continue };
                ends[rank] = ends[rank].and(&message_sent.after(message));
            }
            next[rank] += 1;
            moved = true;
        }
        if !moved {
            break;
        }
    }
    assert!((0..world).all(|rank| next[rank] == plans[rank].len()), "stuck");
    End::latest(&ends)
}

#[test]
fn small_collectives_of_64_ranks_take_the_logarithm_of_the_hops() {
    let network = Network { latency: Duration::from_micros(100), bytes_per_second: 1.25e9 };
    let world = 64;
    println!("{world} ranks, links of {:?} and 10 Gbit/s", network.latency);
    for (what, bytes) in
        [("barrier", 8_usize), ("totals", 24), ("gradients of 64 KiB", 64 << 10), ("of 1 MiB", 1 << 20)]
    {
        let by_ring = time_ring(ring::plan, world, bytes.div_ceil(world), &network);
        let gathered = time_ring(ring::gather_plan, world, bytes, &network);
        let by_doubling = time_doubling(world, bytes, &network);
        println!(
            "{what}: ring {} hops, {:?}; gathered on the ring {} hops, {:?}; recursive doubling {} hops, {:?}",
            by_ring.hops, by_ring.time, gathered.hops, gathered.time, by_doubling.hops, by_doubling.time
        );
        assert_eq!((by_ring.hops, gathered.hops, by_doubling.hops), (126, 63, 6));
        assert!(doubling::pays(bytes, world));
        assert!(2 * by_doubling.time < by_ring.time, "{what}");
    }
    let step = time_doubling(world, 24, &network).time;
    assert!(step < Duration::from_micros(601), "{step:?}");
}

#[test]
fn the_model_takes_at_most_as_many_hops_as_the_plan_says_in_any_world() {
    let network = Network { latency: Duration::from_micros(100), bytes_per_second: 1.25e9 };
    for world in 1..=64 {
        // If the world size is not a power of two, messages of different steps overlap.
        let hops = time_doubling(world, 8, &network).hops;
        let planned = doubling::hops(world);
        assert!(
            hops <= planned && (!world.is_power_of_two() || hops == planned),
            "{world} ranks: {hops}, not {planned}"
        );
    }
}

/// Returns numbers whose sum depends on the order of the summands.
fn uneven(rank: usize, index: usize) -> f32 {
    (index as f32 + 0.1).powf((rank % 5) as f32 - 2.0) / 3.0
}

/// Runs all-reduces, an all-gather and a barrier. Returns the bits of the mean.
fn work(cluster: &Cluster) -> Result<Vec<u32>, ClusterError> {
    let world_size = cluster.world_size();
    let mut group = cluster.world()?;
    let mut sums: Vec<f32> = (0..700).map(|index| uneven(cluster.rank(), index)).collect();
    group.all_reduce(&mut sums, ReduceOp::Mean)?;
    let mut count = [1_u64, cluster.rank() as u64];
    group.all_reduce(&mut count, ReduceOp::Sum)?;
    assert_eq!(count, [world_size as u64, (world_size * (world_size - 1) / 2) as u64]);
    let block = |rank: usize| vec![rank as u8; rank % 7];
    let gathered = group.all_gather(&block(cluster.rank()))?;
    assert_eq!(gathered, (0..world_size).map(block).collect::<Vec<_>>());
    group.barrier()?;
    Ok(sums.into_iter().map(f32::to_bits).collect())
}

fn check_world(world: usize) {
    let clusters = Cluster::join_local(world, |config| config.rendezvous_timeout_ms = 120_000).unwrap();
    let sums = on_each(clusters, |cluster| {
        let sums = work(&cluster).unwrap();
        cluster.shutdown().unwrap();
        sums
    });
    assert!(sums.windows(2).all(|pair| pair[0] == pair[1]), "{world} ranks: two ranks differ");
    for (index, &bits) in sums[0].iter().enumerate() {
        let exact = (0..world).map(|rank| f64::from(uneven(rank, index))).sum::<f64>() / world as f64;
        let error = (f64::from(f32::from_bits(bits)) - exact).abs() / exact;
        assert!(error < 1e-5, "{world} ranks, index {index}: {error}");
    }
}

#[test]
fn worlds_of_any_size_have_the_same_bits_on_all_ranks() {
    for world in [2, 3, 5, 6, 7, 9, 12, 13, 16] {
        check_world(world);
    }
}

#[test]
fn many_ranks_have_the_same_bits() {
    check_world(41);
}

#[test]
fn the_order_of_numbers_that_are_not_numbers_is_the_same_on_all_ranks() {
    // The sum of two NaNs has the payload of one of them, and the maximum of 0.0 and -0.0 may be either. Both depend on
    // the order of the operands.
    for world in [2, 3, 4, 7] {
        let clusters = Cluster::join_local(world, |_| {}).unwrap();
        let results = on_each(clusters, |cluster| {
            let mut group = cluster.world().unwrap();
            let rank = cluster.rank();
            let mut nans = [f32::from_bits(0x7fc0_0000 + rank as u32)];
            group.all_reduce(&mut nans, ReduceOp::Sum).unwrap();
            let mut zeros = [if rank.is_multiple_of(2) { 0.0_f32 } else { -0.0 }];
            group.all_reduce(&mut zeros, ReduceOp::Max).unwrap();
            cluster.shutdown().unwrap();
            (nans[0].to_bits(), zeros[0].to_bits())
        });
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{world} ranks: {results:x?}");
    }
}

#[test]
fn a_peer_that_ends_is_named() {
    let clusters = Cluster::join_local(8, |_| {}).unwrap();
    on_each(clusters, |cluster| {
        let mut group = cluster.world().unwrap();
        if cluster.rank() == 5 {
            group.barrier().unwrap();
            cluster.abort("disk full");
            return;
        }
        // The first barrier already fails on ranks that are still in it when rank 5 aborts.
        let error = loop {
            if let Err(error) = group.barrier() {
                break format!("{error:#}");
            }
        };
        assert!(error.contains("rank 5 at 127.0.0.1:") && error.contains("disk full"), "{error}");
    });
}
