//! Edges that are held out at random.

use super::{Dataset, EdgeData, EdgeList, HeldOutEdges};
use crate::rng::{CounterRng, combine};
use crate::{EdgeTypeId, GraphError};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Mixed into the seed of what chooses held-out edges.
const HOLD_OUT: u64 = 0x686f_6c64_206f_7574;

/// How many edges are held out, and by which random choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HoldOut {
    /// The share of validation edges, in `0..1`.
    pub valid_fraction: f64,
    /// The share of test edges, in `0..1`.
    pub test_fraction: f64,
    /// The seed of the choice.
    pub seed: u64,
}

impl HoldOut {
    /// Reads the shares of validation and test edges, such as `0.05,0.1`.
    ///
    /// ```
    /// use edgecut_graph::HoldOut;
    /// let hold_out = HoldOut { valid_fraction: 0.05, test_fraction: 0.1, seed: 7 };
    /// assert_eq!(HoldOut::parse("0.05,0.1", 7), Ok(hold_out));
    /// assert!(HoldOut::parse("0.05", 7).is_err());
    /// ```
    ///
    /// # Errors
    /// A message that says what is expected, or what [`HoldOut::check`] says.
    pub fn parse(fractions: &str, seed: u64) -> Result<Self, String> {
        let numbers: Result<Vec<f64>, _> = fractions.split(',').map(|number| number.trim().parse()).collect();
        let Ok([valid_fraction, test_fraction]) = numbers.as_deref() else {
            return Err("expected the shares of validation and test edges, such as 0.05,0.1".into());
        };
        let hold_out = Self { valid_fraction: *valid_fraction, test_fraction: *test_fraction, seed };
        hold_out.check()?;
        Ok(hold_out)
    }

    /// Checks that something is held out, and something left.
    ///
    /// # Errors
    /// A message that names the fraction and its value.
    pub fn check(&self) -> Result<(), String> {
        for (name, fraction) in [("validation", self.valid_fraction), ("test", self.test_fraction)] {
            if !(0.0..1.0).contains(&fraction) {
                return Err(format!("the share of {name} edges is {fraction}, outside 0..1"));
            }
        }
        let sum = self.valid_fraction + self.test_fraction;
        if sum >= 1.0 {
            return Err(format!("validation and test edges are {sum} of all, which leaves none to train on"));
        }
        if sum == 0.0 {
            return Err("the shares of validation and test edges are both 0; leave them out to hold out nothing".into());
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Kept,
    Valid,
    Test,
}

impl Dataset {
    /// Moves edges of some types, chosen at random, to their [held-out](EdgeData::held_out) ones; the others keep their
    /// order and attributes.
    ///
    /// All edges that join the same two nodes go to the same side: duplicates, both directions of an undirected edge,
    /// and edges of other types, such as the reverse ones, if those are in `edge_types` too. So none that is left gives
    /// a held-out one away. What is chosen depends on the seed and on the two nodes alone. Each pair is drawn by
    /// itself, so that shares are met nearly, not exactly. [`Dataset::edge_type_ids`] are all types.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] for fractions that [`HoldOut::check`] rejects, and for an edge type that is not there or
    /// has held-out edges already; then nothing has changed.
    pub fn hold_out_edges(&mut self, edge_types: &[EdgeTypeId], hold_out: &HoldOut) -> Result<(), GraphError> {
        let fail = |why: String| Err(GraphError::Dataset { dataset: self.name.clone(), why });
        if let Err(why) = hold_out.check() {
            return fail(why);
        }
        for &edge_type in edge_types {
            let Some(edges) = self.edge_types.get(edge_type.index()) else {
                return fail(format!("there is no edge type {} to hold out edges of", edge_type.0));
            };
            if !edges.held_out.is_empty() {
                let name = self.edge_type_name(edges);
                return fail(format!("edge type {name} has held-out edges already; hold out none of it at random"));
            }
        }
        let chosen: BTreeSet<EdgeTypeId> = edge_types.iter().copied().collect();
        for edge_type in chosen {
            self.edge_types[edge_type.index()].hold_out(hold_out);
        }
        Ok(())
    }
}

impl EdgeData {
    fn hold_out(&mut self, hold_out: &HoldOut) {
        let side = |(&src, &dst): (&u32, &u32)| {
            let ends = [(self.src_type.0, src), (self.dst_type.0, dst)];
            let (first, second) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            let node = |key, (node_type, id): (u16, u32)| combine(key, u64::from(node_type) << 32 | u64::from(id));
            let drawn = CounterRng::new(node(node(combine(hold_out.seed, HOLD_OUT), first), second)).unit();
            match drawn {
                _ if drawn < hold_out.valid_fraction => Side::Valid,
                _ if drawn < hold_out.valid_fraction + hold_out.test_fraction => Side::Test,
                _ => Side::Kept,
            }
        };
        let sides: Vec<Side> = self.src.par_iter().zip(&self.dst[..]).map(side).collect();
        let of = |wanted: Side| {
            let pick = |ids: &[u32]| -> Vec<u32> {
                ids.par_iter().zip(&sides).filter(|&(_, &side)| side == wanted).map(|(&id, _)| id).collect()
            };
            EdgeList { src: pick(&self.src).into(), dst: pick(&self.dst).into() }
        };
        let (kept, held_out) = (of(Side::Kept), HeldOutEdges { valid: of(Side::Valid), test: of(Side::Test) });
        if !self.attributes.is_empty() {
            let positions = sides.par_iter().enumerate().filter(|&(_, &side)| side == Side::Kept);
            self.attributes = self.attributes.select(&positions.map(|(at, _)| at as u64).collect::<Vec<_>>());
        }
        (self.src, self.dst, self.held_out) = (kept.src, kept.dst, held_out);
    }
}

#[cfg(test)]
mod tests;
