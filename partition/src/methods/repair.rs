//! Repair of empty parts.

use edgecut_graph::part_writer::Groups;
use std::collections::VecDeque;

/// Fills each empty part with nodes of the largest one: half of them, or an even share if that is less. The nodes are
/// grown along edges from the node that has the fewest neighbors in its part, so that the new part is connected if
/// possible. There must be at least as many nodes as parts.
pub(crate) fn fill_empty_parts(parts: &mut [u32], num_parts: u32, graph: &Groups) {
    let mut sizes = vec![0_usize; num_parts as usize];
    parts.iter().for_each(|&part| sizes[part as usize] += 1);
    for empty in 0..sizes.len() {
        if sizes[empty] > 0 {
            continue;
        }
        let Some(donor) = (0..sizes.len()).max_by_key(|&part| (sizes[part], std::cmp::Reverse(part))) else { return };
        let wanted = (sizes[donor] / 2).min(parts.len() / sizes.len()).max(1);
        for node in grow(parts, donor as u32, wanted, graph) {
            parts[node] = empty as u32;
        }
        sizes[donor] -= wanted;
        sizes[empty] += wanted;
    }
}

/// Returns `wanted` nodes of `donor` in breadth-first order.
fn grow(parts: &[u32], donor: u32, wanted: usize, graph: &Groups) -> Vec<usize> {
    let held: Vec<usize> = (0..parts.len()).filter(|&node| parts[node] == donor).collect();
    let inside = |node: usize| graph.row(node).iter().filter(|&&other| parts[other as usize] == donor).count();
    let first = held.iter().copied().min_by_key(|&node| inside(node));
    let mut seen = vec![false; parts.len()];
    let mut queue = VecDeque::new();
    let mut taken = Vec::with_capacity(wanted);
    // Components of the donor that the search does not reach are entered by their first node.
    for start in first.into_iter().chain(held) {
        if !seen[start] {
            seen[start] = true;
            queue.push_back(start);
        }
        while let Some(node) = queue.pop_front() {
            if taken.len() == wanted {
                return taken;
            }
            taken.push(node);
            for &other in graph.row(node) {
                let other = other as usize;
                if parts[other] == donor && !seen[other] {
                    seen[other] = true;
                    queue.push_back(other);
                }
            }
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(num_nodes: u32) -> Groups {
        let pairs: Vec<(u32, u32)> = (1..num_nodes).flat_map(|n| [(n - 1, n), (n, n - 1)]).collect();
        Groups::new(num_nodes as usize, &pairs)
    }

    #[test]
    fn empty_parts_get_connected_nodes_of_the_largest() {
        let mut parts = [0, 0, 0, 0, 0, 0, 2, 2, 2];
        fill_empty_parts(&mut parts, 3, &line(9));
        assert_eq!(parts, [1, 1, 1, 0, 0, 0, 2, 2, 2]);
    }

    #[test]
    fn as_many_parts_as_nodes_is_one_each() {
        let mut parts = [3; 6];
        fill_empty_parts(&mut parts, 6, &line(6));
        parts.sort_unstable();
        assert_eq!(parts, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn full_parts_are_left_alone() {
        let mut parts = [1, 0, 1, 1];
        fill_empty_parts(&mut parts, 2, &line(4));
        assert_eq!(parts, [1, 0, 1, 1]);
    }
}
