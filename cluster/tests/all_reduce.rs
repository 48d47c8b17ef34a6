//! Every algorithm of all-reduce against the direct computation, over real sockets.

mod support;

use std::fmt::Debug;

use edgecut_cluster::{Cluster, ProcessGroup, Reduce, ReduceOp, doubling};
use support::on_each;

/// The bytes per rank above which a ring all-reduce uses several blocks, for any world size.
const MAX_CHUNK_BYTES: usize = 128 * 1024;
const OPERATIONS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Min];

/// The most bytes, over all ranks together, that two or three ranks gather round the ring.
const MAX_PASSED_BYTES: usize = 128 * 1024;

/// Returns lengths around the limits between the algorithms.
fn lengths(world: usize, width: usize) -> Vec<usize> {
    let small = if world < doubling::MIN_WORLD {
        MAX_PASSED_BYTES / (world * width)
    } else {
        longest_by_doubling(world, width)
    };
    let block = world * MAX_CHUNK_BYTES / width;
    vec![0, 1, 7, small.saturating_sub(1), small, small + 1, block - 1, block, block + 1, 4 * block + 7]
}

/// Returns the greatest length that takes recursive doubling, by bisection.
fn longest_by_doubling(world: usize, width: usize) -> usize {
    let mut range = 0..(8 << 20);
    while range.len() > 1 {
        let middle = range.start + range.len() / 2;
        if doubling::pays(middle * width, world) {
            range.start = middle;
        } else {
            range.end = middle;
        }
    }
    range.start
}

/// The values of a rank repeat after this number of indices, so that few expected results are computed.
const PERIOD: usize = 101;

/// Returns small integers, whose sums are exact in any order and type.
fn value(rank: usize, index: usize) -> u64 {
    ((rank * 31 + index * 7) % PERIOD) as u64
}

/// Returns the expected result at an index. `divide` is the division of the element type.
fn answer<T>(world: usize, index: usize, op: ReduceOp, convert: fn(u64) -> T, divide: fn(T, usize) -> T) -> T {
    let values = (0..world).map(|rank| value(rank, index));
    match op {
        ReduceOp::Sum => convert(values.sum()),
        ReduceOp::Mean => divide(convert(values.sum()), world),
        ReduceOp::Max => convert(values.max().unwrap()),
        ReduceOp::Min => convert(values.min().unwrap()),
    }
}

fn check<T: Reduce + PartialEq + Debug>(convert: fn(u64) -> T, divide: fn(T, usize) -> T) {
    for world in 1..=8 {
        let clusters = Cluster::join_local(world, |_| {}).unwrap();
        on_each(clusters, |cluster| {
            let mut group = cluster.world().unwrap();
            let own: Vec<T> = (0..PERIOD).map(|index| convert(value(cluster.rank(), index))).collect();
            for op in OPERATIONS {
                let expected: Vec<T> = (0..PERIOD).map(|index| answer(world, index, op, convert, divide)).collect();
                for len in lengths(world, size_of::<T>()) {
                    let mut data = own.repeat(len.div_ceil(PERIOD));
                    data.truncate(len);
                    group.all_reduce(&mut data, op).unwrap();
                    for (number, found) in data.chunks(PERIOD).enumerate() {
                        assert_eq!(found, &expected[..found.len()], "world {world}, length {len}, {op:?}, {number}");
                    }
                }
            }
            cluster.shutdown().unwrap();
        });
    }
}

#[test]
fn every_way_gives_the_plain_answer_f32() {
    check(|value| value as f32, |sum, ranks| sum / ranks as f32);
}

#[test]
fn every_way_gives_the_plain_answer_f64() {
    check(|value| value as f64, |sum, ranks| sum / ranks as f64);
}

#[test]
fn every_way_gives_the_plain_answer_u64() {
    check(|value| value, |sum, ranks| sum / ranks as u64);
}

#[test]
fn every_way_gives_the_same_bits_on_all_ranks_and_in_all_runs() {
    for world in [2, 3, 4, 7] {
        let clusters = Cluster::join_local(world, |_| {}).unwrap();
        let results = on_each(clusters, |cluster| {
            let mut group = cluster.world().unwrap();
            let mut reduce = || -> Vec<u32> {
                let lengths = lengths(world, size_of::<f32>());
                lengths.into_iter().flat_map(|len| mean_bits(&mut group, len)).collect()
            };
            let first = reduce();
            let second = reduce();
            assert!(first == second, "world {world}: two runs differ");
            cluster.shutdown().unwrap();
            first
        });
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "world {world}: two ranks differ");
    }
}

/// Runs an all-reduce of values whose sum depends on the order of the summands. Returns the bits of the mean.
fn mean_bits(group: &mut ProcessGroup, len: usize) -> Vec<u32> {
    let exponent = group.rank() as f32 - 2.0;
    let mut data: Vec<f32> = (0..len).map(|index| (index as f32 + 0.1).powf(exponent) / 3.0).collect();
    group.all_reduce(&mut data, ReduceOp::Mean).unwrap();
    data.into_iter().map(f32::to_bits).collect()
}
