//! Ranking of the nodes of other parts by how often a part will read their features.
//!
//! Parts may store this ranking. A cache of features then uses it in place of counts.

use super::EdgeSlice;
use crate::part::{HotnessRule, PartitionBook};
use crate::{PartitionId, parallel};
use std::ops::Range;

/// The nodes of other parts that a part will read, of one node type.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RankedNodes {
    /// Global ids, ascending.
    pub(super) nodes: Vec<u32>,
    /// The count of each node, at least 1.
    pub(super) counts: Vec<u32>,
}

impl RankedNodes {
    pub(crate) fn num_bytes(&self) -> usize {
        size_of_val(&self.nodes[..]) + size_of_val(&self.counts[..])
    }
}

/// The number of parts that are ranked at the same time. Each takes 12 bytes per node of the graph.
const PARTS_AT_ONCE: u32 = 4;

/// The graph that nodes are ranked in.
pub(crate) struct RankedGraph<'a> {
    /// The owners of the nodes of each type.
    pub(crate) books: Vec<&'a PartitionBook>,
    /// The rows of the training nodes, by node type and part.
    pub(crate) train: Vec<Vec<&'a [u32]>>,
    /// The edges, by edge type and part.
    pub(crate) edges: Vec<Vec<EdgeSlice<'a>>>,
}

impl RankedGraph<'_> {
    /// Ranks the nodes of other parts for each part, and gives them to `write`, some parts at a time.
    pub(crate) fn rank_all<E>(
        &self,
        rule: &HotnessRule,
        mut write: impl FnMut(u32, &[Vec<RankedNodes>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let degrees = if *rule == HotnessRule::InDegree { self.in_degrees() } else { Vec::new() };
        let all_parts = self.books.first().map_or(0, |book| book.num_parts() as u32);
        for first in (0..all_parts).step_by(PARTS_AT_ONCE as usize) {
            let num_parts = PARTS_AT_ONCE.min(all_parts - first) as usize;
            let of_part = |part: usize| self.rank(rule, &degrees, first + part as u32);
            write(first, &parallel::collect(num_parts, &of_part))?;
        }
        Ok(())
    }

    /// Ranks the nodes of other parts for `part`, by node type. `degrees` are the in-degrees if they are the rule.
    fn rank(&self, rule: &HotnessRule, degrees: &[Vec<f32>], part: u32) -> Vec<RankedNodes> {
        let expected;
        let counts = match rule {
            HotnessRule::InDegree => degrees,
            HotnessRule::Presample { num_neighbors, batch_size } => {
                expected = self.expected_batches(part, num_neighbors, *batch_size);
                &expected[..]
            }
        };
        let ranked = |(t, counts): (usize, &Vec<f32>)| {
            let owned = self.range(t, part);
            let others = counts.iter().enumerate().filter(|(node, _)| !owned.contains(node));
            // Conversion to an integer saturates.
            let others =
                others.map(|(node, &count)| (node as u32, count.round() as u32)).filter(|&(_, count)| count > 0);
            let (nodes, counts) = others.unzip();
            RankedNodes { nodes, counts }
        };
        counts.iter().enumerate().map(ranked).collect()
    }

    /// Returns the global ids of a part.
    fn range(&self, node_type: usize, part: u32) -> Range<usize> {
        let range = self.books[node_type].range(PartitionId(part));
        range.start as usize..range.end as usize
    }

    fn zeros(&self) -> Vec<Vec<f32>> {
        self.books.iter().map(|book| vec![0.0; book.num_nodes()]).collect()
    }

    fn in_degrees(&self) -> Vec<Vec<f32>> {
        let mut degrees = self.zeros();
        self.for_each_row(|row| degrees[row.dst_type][row.dst] += row.sources.len() as f32);
        degrees
    }

    /// Returns the expected number of batches that contain each node in 1000 epochs of `part`: the vertex inclusion
    /// probability of SALIENT++ (Kaler et al. 2023), times the number of batches.
    ///
    /// Draws of different nodes are taken as independent. A node is expanded once, at the hop after the one that found
    /// it, so a node that was found before does not count as found again.
    fn expected_batches(&self, part: u32, num_neighbors: &[i64], batch_size: usize) -> Vec<Vec<f32>> {
        let num_seeds: usize = self.train.iter().map(|train| train[part as usize].len()).sum();
        let num_batches = num_seeds.div_ceil(batch_size.max(1)).max(1);
        // The seeds are spread evenly over the batches.
        let in_batch = 1.0 / num_batches as f32;
        let mut found = self.zeros();
        for (t, train) in self.train.iter().enumerate() {
            let first = self.range(t, part).start;
            train[part as usize].iter().for_each(|&row| found[t][first + row as usize] = in_batch);
        }
        // The probability that a batch does not contain a node so far.
        let mut absent: Vec<Vec<f32>> = found.iter().map(|of_type| of_type.iter().map(|p| 1.0 - p).collect()).collect();
        for &fan_out in num_neighbors {
            // The logarithm of the probability that no node of the last hop draws a node.
            let mut not_drawn = self.zeros();
            self.for_each_row(|row| {
                let expanded = found[row.dst_type][row.dst];
                if expanded > 0.0 && !row.sources.is_empty() {
                    let degree = row.sources.len() as f32;
                    let share = if fan_out < 0 { 1.0 } else { (fan_out as f32 / degree).min(1.0) };
                    let log = (-expanded * share).ln_1p();
                    row.sources.iter().for_each(|&source| not_drawn[row.src_type][source as usize] += log);
                }
            });
            for ((found, absent), not_drawn) in found.iter_mut().zip(&mut absent).zip(&not_drawn) {
                for ((found, absent), log) in found.iter_mut().zip(absent).zip(not_drawn) {
                    *found = *absent * -log.exp_m1();
                    *absent -= *found;
                }
            }
        }
        let scale = HotnessRule::EPOCHS as f32 * num_batches as f32;
        absent.into_iter().map(|of_type| of_type.into_iter().map(|p| (1.0 - p) * scale).collect()).collect()
    }

    /// Visits the in-edges of every node of every part.
    fn for_each_row(&self, mut visit: impl FnMut(Row<'_>)) {
        for edges in &self.edges {
            for (part, slice) in (0..).zip(edges) {
                let owned = self.range(slice.dst_type, part);
                for (dst, sources) in owned.zip(slice.rows()) {
                    visit(Row { src_type: slice.src_type, dst_type: slice.dst_type, dst, sources });
                }
            }
        }
    }
}

/// The in-edges of one node.
struct Row<'a> {
    src_type: usize,
    dst_type: usize,
    /// Global id of the node.
    dst: usize,
    /// Global ids of its in-neighbors.
    sources: &'a [u32],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Dataset, NodeData, Splits};
    use crate::memory::Workspace;
    use crate::part_writer::Grouped;
    use crate::part_writer::in_edges::RenumberedInEdges;
    use crate::part_writer::renumber::Renumbering;

    /// Ranks nodes for part 0, which owns the nodes before `first_other`.
    fn ranked(
        edges: &[(u32, u32)],
        num_nodes: usize,
        train: &[u32],
        first_other: usize,
        rule: &HotnessRule,
    ) -> RankedNodes {
        let nodes = NodeData {
            name: "node".into(),
            num_nodes,
            splits: Splits { train: train.to_vec().into(), ..Splits::default() },
            ..NodeData::default()
        };
        let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
        let dataset =
            Grouped::new_in(&Workspace::default(), Dataset::homogeneous("drawn", nodes, src.into(), dst.into()))
                .unwrap();
        let assignment: Vec<u32> = (0..num_nodes).map(|node| u32::from(node >= first_other)).collect();
        let types = Renumbering::of_types(&[assignment], 2).unwrap();
        let train = types[0].rows_by_part(train);
        let edges: Vec<RenumberedInEdges> =
            dataset.edge_types.into_iter().map(|e| e.renumber(&types, &dataset.space).unwrap()).collect();
        let graph = RankedGraph {
            books: vec![&types[0].book],
            train: vec![train.iter().map(|rows| &rows[..]).collect()],
            edges: edges.iter().map(|e| (0..2).map(|part| e.of_part(part, &types)).collect()).collect(),
        };
        let mut of_parts = Vec::new();
        let mut write = |_: u32, ranked: &[Vec<RankedNodes>]| -> Result<(), ()> {
            of_parts.extend(ranked.iter().map(|types| (types[0].nodes.clone(), types[0].counts.clone())));
            Ok(())
        };
        graph.rank_all(rule, &mut write).unwrap();
        let (nodes, counts) = of_parts.remove(0);
        RankedNodes { nodes, counts }
    }

    fn presample(num_neighbors: &[i64], batch_size: usize) -> HotnessRule {
        HotnessRule::Presample { num_neighbors: num_neighbors.to_vec(), batch_size }
    }

    #[test]
    fn the_expected_number_of_batches_is_that_of_drawing_by_hand() {
        // Seed 0 has the neighbors 2, 3, 4 and 5. Seed 1 has the neighbor 2, which has the neighbor 6.
        let edges = [(2, 0), (3, 0), (4, 0), (5, 0), (2, 1), (6, 2)];
        let graph = |rule: &HotnessRule| ranked(&edges, 7, &[0, 1], 2, rule);
        // A batch of both seeds. Node 0 draws each neighbor with probability 1/2; node 1 draws 2 always.
        let both = graph(&presample(&[2], 2));
        assert_eq!(both, RankedNodes { nodes: vec![2, 3, 4, 5], counts: vec![1000, 500, 500, 500] });
        // The second hop reaches 6 through 2.
        assert_eq!(graph(&presample(&[2, 1], 2)).counts, [1000, 500, 500, 500, 1000]);
        // Two batches of one seed each, taken as drawn independently: 2 is missed by 3/4 and 1/2.
        assert_eq!(graph(&presample(&[2], 1)).counts, [1250, 500, 500, 500]);
        assert_eq!(graph(&presample(&[-1], 1)).counts, [1500, 1000, 1000, 1000]);
        assert_eq!(graph(&presample(&[0], 2)), RankedNodes::default());
    }

    #[test]
    fn a_node_is_expanded_once() {
        // 0 and 2 are neighbors of each other, and 3 is a neighbor of 2. If 0 and then 2 were expanded again, the
        // fourth hop would draw 3 again.
        let edges = [(2, 0), (0, 2), (3, 2)];
        let found = ranked(&edges, 4, &[0], 1, &presample(&[1, 1, 1, 1], 1));
        assert_eq!(found, RankedNodes { nodes: vec![2, 3], counts: vec![1000, 500] });
    }

    #[test]
    fn in_degrees_are_counted_over_all_parts() {
        let found = ranked(&[(0, 2), (3, 2), (2, 3), (1, 0)], 5, &[], 2, &HotnessRule::InDegree);
        assert_eq!(found, RankedNodes { nodes: vec![2, 3], counts: vec![2, 1] });
    }
}
