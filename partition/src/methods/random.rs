//! The random assignment.

use edgecut_graph::rng::CounterRng;

/// Deals the nodes `0..num_nodes` out in random order, type by type, where `ends` are the ends of the types' ranges.
/// The sizes of parts differ by at most one node, also within each type.
pub(crate) fn deal(ends: &[usize], num_parts: u32, seed: u64) -> Vec<u32> {
    let num_nodes = ends.last().copied().unwrap_or(0);
    let mut rng = CounterRng::new(seed);
    let mut order: Vec<u32> = (0..num_nodes as u32).collect();
    let mut start = 0;
    for &end in ends {
        rng.shuffle(&mut order[start..end]);
        start = end;
    }
    let mut parts = vec![0; num_nodes];
    for (turn, &node) in order.iter().enumerate() {
        parts[node as usize] = (turn % num_parts as usize) as u32;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_gets_its_share_of_each_type_to_within_one() {
        let ends = [10, 11, 30];
        let parts = deal(&ends, 4, 7);
        for range in [0..10, 10..11, 11..30, 0..30] {
            let count = |p: u32| parts[range.clone()].iter().filter(|&&q| q == p).count();
            let counts: Vec<usize> = (0..4).map(count).collect();
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
        assert_ne!(parts, deal(&ends, 4, 8));
        assert_eq!(parts, deal(&ends, 4, 7));
    }
}
