//! Collectives against the direct computation, over real sockets.

mod support;

use edgecut_cluster::{Cluster, ClusterError, ReduceOp};
use edgecut_testing::assert_has;
use support::{errors, on_each};

const MILLION: usize = 1_000_000;

#[test]
fn mean_max_and_min() {
    let clusters = Cluster::join_local(4, |_| {}).unwrap();
    on_each(clusters, |cluster| {
        let mut group = cluster.world().unwrap();
        let mine = [cluster.rank() as f64, -(cluster.rank() as f64), 1.0];
        let mut reduced = |op| {
            let mut data = mine;
            group.all_reduce(&mut data, op).unwrap();
            data
        };
        assert_eq!(reduced(ReduceOp::Mean), [1.5, -1.5, 1.0]);
        assert_eq!(reduced(ReduceOp::Max), [3.0, 0.0, 1.0]);
        assert_eq!(reduced(ReduceOp::Min), [0.0, -3.0, 1.0]);
        cluster.shutdown().unwrap();
    });
}

#[test]
fn broadcast_reaches_all_from_any_root() {
    for world in [1, 2, 5] {
        let clusters = Cluster::join_local(world, |_| {}).unwrap();
        on_each(clusters, |cluster| {
            let mut group = cluster.world().unwrap();
            for root in 0..world {
                let mut numbers = vec![cluster.rank() as f32; 300_000];
                group.broadcast(&mut numbers, root).unwrap();
                assert!(numbers.iter().all(|&number| number == root as f32));

                // The buffers of the ranks differ in length.
                let mut bytes = vec![cluster.rank() as u8; 10 * cluster.rank() + 1];
                group.broadcast_bytes(&mut bytes, root).unwrap();
                assert_eq!(bytes, vec![root as u8; 10 * root + 1]);
            }
            cluster.shutdown().unwrap();
        });
    }
}

#[test]
fn all_gather_keeps_order_and_lengths() {
    for world in [1, 2, 6] {
        let clusters = Cluster::join_local(world, |_| {}).unwrap();
        let expected: Vec<Vec<u8>> = (0..world).map(|rank| vec![rank as u8; rank * 1000]).collect();
        on_each(clusters, |cluster| {
            let mut group = cluster.world().unwrap();
            assert_eq!(group.all_gather(&expected[cluster.rank()]).unwrap(), expected);
            assert_eq!(group.all_gather(&[]).unwrap(), vec![Vec::<u8>::new(); world]);
            cluster.shutdown().unwrap();
        });
    }
}

#[test]
fn all_gather_has_a_limit_that_leaves_the_group_usable() {
    let clusters = Cluster::join_local(2, |_| {}).unwrap();
    on_each(clusters, |cluster| {
        let mut group = cluster.world().unwrap();
        let mine = if cluster.rank() == 0 { vec![0; edgecut_cluster::MAX_GATHER_BYTES as usize + 1] } else { vec![] };
        let error = group.all_gather(&mine).unwrap_err();
        assert!(matches!(error, ClusterError::TooLarge { .. }), "{error}");
        group.barrier().unwrap();
        cluster.shutdown().unwrap();
    });
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let arrived = AtomicUsize::new(0);
    let clusters = Cluster::join_local(6, |_| {}).unwrap();
    on_each(clusters, |cluster| {
        let mut group = cluster.world().unwrap();
        for round in 1..=50 {
            arrived.fetch_add(1, Ordering::SeqCst);
            group.barrier().unwrap();
            assert!(arrived.load(Ordering::SeqCst) >= 6 * round);
        }
        cluster.shutdown().unwrap();
    });
}

#[test]
fn groups_are_independent_of_each_other() {
    let clusters = Cluster::join_local(4, |config| {
        // Two nodes of two processes.
        config.local_rank = config.rank % 2;
        config.local_world_size = 2;
    })
    .unwrap();
    on_each(clusters, |cluster| {
        let mut local = cluster.local_group().unwrap();
        let mut heads = (cluster.local_rank() == 0).then(|| cluster.group("heads", &[2, 0]).unwrap());
        let mut first = cluster.world().unwrap();
        let mut second = cluster.world().unwrap();
        assert_eq!((local.rank(), local.size()), (cluster.local_rank(), 2));

        let mut sum = [cluster.rank() as u64];
        local.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        assert_eq!(sum, [if cluster.rank() < 2 { 1 } else { 5 }]);
        if let Some(heads) = &mut heads {
            assert_eq!(heads.members(), [2, 0]);
            heads.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            assert_eq!(sum, [6]);
        }
        // Two groups of the same members, used by two threads at the same time.
        std::thread::scope(|scope| {
            scope.spawn(|| (0..20).for_each(|_| first.barrier().unwrap()));
            (0..20).for_each(|_| second.barrier().unwrap());
        });
        cluster.shutdown().unwrap();
    });
}

#[test]
fn a_group_must_make_sense() {
    let cluster = Cluster::join_local(1, |_| {}).unwrap().remove(0);
    for (members, problem) in [(vec![], "not a member"), (vec![0, 0], "twice"), (vec![0, 1], "no rank 1")] {
        assert_has(cluster.group("odd", &members).unwrap_err().to_string(), &[problem]);
    }
    assert_has(cluster.world().unwrap().broadcast(&mut [0.0_f32], 1).unwrap_err().to_string(), &["no rank 1"]);
}

/// Runs `call` on each rank. All ranks must fail with an error that names the mismatch. Returns the errors.
fn disagree(
    world: usize,
    call: impl Fn(&mut edgecut_cluster::ProcessGroup) -> Result<(), ClusterError> + Sync,
) -> Vec<String> {
    let clusters = Cluster::join_local(world, |_| {}).unwrap();
    let outcomes = on_each(clusters, |cluster| call(&mut cluster.world()?));
    let errors = errors(outcomes);
    for error in &errors {
        assert!(error.contains("disagree on collective #0"), "{error}");
    }
    errors
}

#[test]
fn lengths_that_differ_are_an_error_on_all_ranks() {
    // Most pairs select different algorithms: a gather round the ring, a ring all-reduce in one block or in several.
    for (own, others) in [(8, 7), (7, 100_000), (100_000, 7), (MILLION, 7), (7, 3 * MILLION), (MILLION + 1, MILLION)] {
        for world in [2, 3] {
            disagree(world, |group| {
                let mut data = vec![1.0_f32; if group.rank() == 1 { own } else { others }];
                group.all_reduce(&mut data, ReduceOp::Sum)
            });
        }
    }
}

#[test]
fn element_types_that_differ_are_an_error_on_all_ranks() {
    let reduced = disagree(2, |group| match group.rank() {
        0 => group.all_reduce(&mut [1.0_f64; 7], ReduceOp::Sum),
        _ => group.all_reduce(&mut [1_u64; 7], ReduceOp::Sum),
    });
    let sent = disagree(2, |group| match group.rank() {
        0 => group.broadcast(&mut [1.0_f64; 7], 0),
        _ => group.broadcast(&mut [1_u64; 7], 0),
    });
    for (errors, operation) in [(reduced, "all-reduce(sum)"), (sent, "broadcast from 0")] {
        for error in errors {
            // Either rank may report first.
            for (element, rank) in [("f64", 0), ("u64", 1)] {
                assert!(error.contains(&format!("{operation} of 56 bytes of {element} on rank {rank}")), "{error}");
            }
        }
    }
}

#[test]
fn collectives_that_differ_are_an_error_on_all_ranks() {
    disagree(4, |group| match group.rank() {
        2 => group.barrier(),
        _ => {
            // Rank 0 only sends, and its neighbors agree with it. It may see the mismatch one collective later.
            group.broadcast(&mut [0_u64], 0)?;
            group.barrier()
        }
    });
}

#[test]
fn a_group_stays_broken_after_an_error() {
    let clusters = Cluster::join_local(2, |_| {}).unwrap();
    on_each(clusters, |cluster| {
        let mut group = cluster.world().unwrap();
        let mut data = vec![0_u64; cluster.rank()];
        group.all_reduce(&mut data, ReduceOp::Sum).unwrap_err();
        let error = group.barrier().unwrap_err();
        assert!(matches!(error, ClusterError::GroupBroken { .. }), "{error}");
    });
}
