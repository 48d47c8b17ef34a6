//! Sampling of nodes by weight, from all classes, from one class, or from all classes except one.

use crate::parallel;
use crate::rng::CounterRng;

/// Nodes grouped by class, with an alias table per class (M. D. Vose, "A Linear Algorithm for Generating Random Numbers
/// with a Given Distribution", 1991). A draw within a class takes a single table lookup.
pub(super) struct WeightedNodes {
    slots: Vec<Slot>,
    /// The start of the slots of each class, followed by the end of the last class.
    starts: Vec<usize>,
    /// The total weight of all classes before each class, followed by the total of all classes.
    weight_before: Vec<f64>,
}

/// An entry of an alias table: `node` if a random number is below `threshold`, otherwise `alias`.
#[derive(Clone, Copy, Default)]
struct Slot {
    threshold: u32,
    node: u32,
    alias: u32,
}

/// The alias table of a class under construction, and the total weight of its nodes.
struct Table<'a> {
    slots: &'a mut [Slot],
    total: f64,
}

impl WeightedNodes {
    /// Groups the nodes `0..classes.len()`. Each has a class below `num_classes` and a positive weight.
    pub(super) fn new(classes: &[u32], weights: &[f64], num_classes: usize) -> Self {
        let mut starts = vec![0_usize; num_classes + 1];
        for &class in classes {
            starts[class as usize + 1] += 1;
        }
        for class in 0..num_classes {
            starts[class + 1] += starts[class];
        }
        let mut next = starts.clone();
        let mut slots = vec![Slot::default(); classes.len()];
        for (node, &class) in classes.iter().enumerate() {
            slots[next[class as usize]].node = node as u32;
            next[class as usize] += 1;
        }
        let mut tables: Vec<Table> =
            split_at_starts(&mut slots, &starts).into_iter().map(|slots| Table { slots, total: 0.0 }).collect();
        parallel::for_each_chunk(&mut tables, 1, &|_, table| {
            table[0].total = fill_alias_table(table[0].slots, weights)
        });
        let totals: Vec<f64> = tables.iter().map(|table| table.total).collect();
        let mut weight_before = vec![0.0; num_classes + 1];
        for (class, total) in totals.iter().enumerate() {
            weight_before[class + 1] = weight_before[class] + total;
        }
        Self { slots, starts, weight_before }
    }

    /// Draws a class in proportion to the total weight of its nodes.
    pub(super) fn draw_class(&self, draws: &mut CounterRng) -> usize {
        self.class_at(draws.unit() * self.total())
    }

    /// Draws a class other than `class` in proportion to the total weight of its nodes. Returns `class` if no other
    /// class has nodes.
    pub(super) fn draw_other_class(&self, class: usize, draws: &mut CounterRng) -> usize {
        let before = self.weight_before[class];
        let after = self.weight_before[class + 1];
        let others = self.total() - (after - before);
        let at = draws.unit() * others;
        // The range of `class` is cut out of the cumulative weights.
        let other = self.class_at(if at < before { at } else { at + (after - before) });
        // Rounding at the border of a range can select an empty class, which is replaced by `class`, or `class` itself.
        if self.starts[other] == self.starts[other + 1] { class } else { other }
    }

    /// Draws a node of the nonempty `class` in proportion to its weight.
    pub(super) fn draw(&self, class: usize, draws: &mut CounterRng) -> u32 {
        let slots = &self.slots[self.starts[class]..self.starts[class + 1]];
        // The upper 32 bits choose the slot, and the lower 32 bits decide between node and alias.
        let bits = draws.next_u64();
        let slot = slots[(((bits >> 32) * slots.len() as u64) >> 32) as usize];
        if (bits as u32) < slot.threshold { slot.node } else { slot.alias }
    }

    /// Returns true if `class` has nodes.
    pub(super) fn has(&self, class: usize) -> bool {
        self.starts[class] < self.starts[class + 1]
    }

    fn total(&self) -> f64 {
        self.weight_before[self.weight_before.len() - 1]
    }

    fn class_at(&self, weight: f64) -> usize {
        let last = self.weight_before.len() - 2;
        self.weight_before[1..].partition_point(|&end| end <= weight).min(last)
    }
}

fn split_at_starts<'a>(mut slots: &'a mut [Slot], starts: &[usize]) -> Vec<&'a mut [Slot]> {
    let mut classes = Vec::with_capacity(starts.len() - 1);
    for range in starts.windows(2) {
        let (class, rest) = slots.split_at_mut(range[1] - range[0]);
        classes.push(class);
        slots = rest;
    }
    classes
}

/// Fills in thresholds and aliases. Returns the total weight of the nodes in `slots`.
fn fill_alias_table(slots: &mut [Slot], weights: &[f64]) -> f64 {
    let total: f64 = slots.iter().map(|slot| weights[slot.node as usize]).sum();
    let scale = slots.len() as f64 / total;
    let mut shares: Vec<f64> = slots.iter().map(|slot| weights[slot.node as usize] * scale).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..slots.len()).partition(|&at| shares[at] < 1.0);
    for slot in slots.iter_mut() {
        slot.threshold = u32::MAX;
        slot.alias = slot.node;
    }
    // Each small slot is filled up by a large one, which gives away this share and may become small itself. Slots left
    // over by rounding keep their own node.
    while let (Some(under), Some(&over)) = (small.pop(), large.last()) {
        // The share of the slot that its own node keeps, as a fraction of 2^32.
        slots[under].threshold = (shares[under] * 4_294_967_296.0) as u32;
        slots[under].alias = slots[over].node;
        shares[over] -= 1.0 - shares[under];
        if shares[over] < 1.0 {
            large.pop();
            small.push(over);
        }
    }
    total
}

/// Raises `base` to the power of `exponent`, both in `0..=1`, by repeated square roots. IEEE 754 fixes every bit of a
/// square root, so unlike `powf` the result is the same on every machine. The exponent is rounded down to 24 binary
/// places.
pub(super) fn fractional_power(base: f64, exponent: f64) -> f64 {
    let mut power = if exponent >= 1.0 { base } else { 1.0 };
    let mut remaining = exponent.fract();
    let mut root = base;
    for _ in 0..24 {
        root = root.sqrt();
        remaining *= 2.0;
        if remaining >= 1.0 {
            remaining -= 1.0;
            power *= root;
        }
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::combine;

    fn shares(count: u64, draw: impl Fn(&mut CounterRng) -> usize) -> Vec<f64> {
        let mut counts = vec![0.0; 8];
        for index in 0..count {
            counts[draw(&mut CounterRng::new(combine(1, index)))] += 1.0 / count as f64;
        }
        counts
    }

    #[test]
    fn draws_are_in_proportion_to_weight() {
        let classes = [0, 2, 0, 2, 0, 3, 2, 0];
        let weights = [1.0, 0.5, 7.0, 2.0, 2.0, 6.0, 1.5, 2.0];
        let nodes = WeightedNodes::new(&classes, &weights, 5);
        let near = |found: Vec<f64>, expected: &[f64]| {
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 0.01, "{found} against {expected}");
            }
        };
        near(shares(50_000, |d| nodes.draw(0, d) as usize), &[1.0 / 12.0, 0.0, 7.0 / 12.0, 0.0, 2.0 / 12.0]);
        near(shares(50_000, |d| nodes.draw(2, d) as usize), &[0.0, 0.125, 0.0, 0.5, 0.0, 0.0, 0.375]);
        near(shares(50_000, |d| nodes.draw_class(d)), &[12.0 / 22.0, 0.0, 4.0 / 22.0, 6.0 / 22.0, 0.0]);
        near(shares(50_000, |d| nodes.draw_other_class(0, d)), &[0.0, 0.0, 0.4, 0.6, 0.0]);
        near(shares(50_000, |d| nodes.draw_other_class(3, d)), &[0.75, 0.0, 0.25, 0.0, 0.0]);
    }

    #[test]
    fn the_only_class_has_no_other() {
        let nodes = WeightedNodes::new(&[1, 1], &[1.0, 1.0], 3);
        assert_eq!(shares(100, |d| nodes.draw_other_class(1, d))[1].round(), 1.0);
    }

    #[test]
    fn powers_are_near_those_of_the_standard_library() {
        for exponent in [0.0, 0.25, 2.0 / 3.0, 0.99, 1.0] {
            for base in [1e-12, 1e-3, 0.5, 1.0_f64] {
                let expected = base.powf(exponent);
                assert!((fractional_power(base, exponent) / expected - 1.0).abs() < 1e-5, "{base} to {exponent}");
            }
        }
    }
}
