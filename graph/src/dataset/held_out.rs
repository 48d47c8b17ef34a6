//! Selection of held-out edges.

use super::known_pairs::KnownPairs;
use super::{Dataset, EdgeData, EdgeList, HeldOutEdges, Split};
use crate::memory::{Buffer, Workspace};
use crate::rng::{CounterRng, combine};
use crate::{EdgeTypeId, GraphError, NodeTypeId, Share, parallel};
use bytemuck::Pod;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A constant that is mixed into the seed, so that the choice of held-out edges is independent of other uses of the
/// seed.
const HOLD_OUT: u64 = 0x686f_6c64_206f_7574;

/// The name of the step in progress reports.
const STEP: &str = "holding out edges";

/// The prefix of the shares that requests the latest edges.
const LATEST: &str = "latest:";

/// The criterion and the shares of the edges to hold out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HoldOut {
    /// The criterion by which edges are chosen.
    pub choice: HoldOutChoice,
    /// The share of validation edges, in `0..1`.
    pub valid_fraction: f64,
    /// The share of test edges, in `0..1`.
    pub test_fraction: f64,
    /// The seed of random choices.
    pub seed: u64,
}

/// The criterion by which edges are held out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HoldOutChoice {
    /// Random edges.
    #[default]
    Random,
    /// The latest edges. The test edges are the last ones, and the validation edges the last ones before them.
    Latest,
}

/// The keys by which nodes draw random numbers. The key of a node stays the same when other nodes are added or removed.
pub trait NodeKeys: Sync {
    /// Returns the key of a node. Types and nodes are counted from 0.
    fn key(&self, node_type: usize, node: u32) -> u64;
}

/// The keys of nodes that have no other ids than their original ids.
#[derive(Clone, Copy, Debug)]
pub struct OriginalIds;

impl NodeKeys for OriginalIds {
    fn key(&self, _: usize, node: u32) -> u64 {
        u64::from(node)
    }
}

/// The random numbers of pairs of nodes.
#[derive(Clone, Copy)]
struct Draws<'a> {
    seed: u64,
    keys: &'a dyn NodeKeys,
}

impl HoldOut {
    /// Holds out random edges, determined by `seed`.
    pub const fn random(valid_fraction: f64, test_fraction: f64, seed: u64) -> Self {
        Self { choice: HoldOutChoice::Random, valid_fraction, test_fraction, seed }
    }

    /// Holds out the latest edges. `seed` decides between edges of the same time.
    pub const fn latest(valid_fraction: f64, test_fraction: f64, seed: u64) -> Self {
        Self { choice: HoldOutChoice::Latest, valid_fraction, test_fraction, seed }
    }

    /// Holds out no edges.
    pub const NOTHING: Self = Self::random(0.0, 0.0, 0);

    /// Returns this choice; `None` if it holds out no edges.
    pub fn if_any(self) -> Option<Self> {
        if self.valid_fraction == 0.0 && self.test_fraction == 0.0 { None } else { Some(self) }
    }

    /// Parses the shares of validation and test edges, such as `0.05,0.1` or `latest:0.05,0.1`, or `0` for
    /// [`HoldOut::NOTHING`].
    ///
    /// ```
    /// use edgecut_graph::HoldOut;
    /// assert_eq!(HoldOut::parse("0.05,0.1", 7), Ok(HoldOut::random(0.05, 0.1, 7)));
    /// assert_eq!(HoldOut::parse("latest:0.05,0.1", 7), Ok(HoldOut::latest(0.05, 0.1, 7)));
    /// assert_eq!(HoldOut::parse("0", 7), Ok(HoldOut::NOTHING));
    /// assert!(HoldOut::parse("0.05", 7).is_err());
    /// ```
    ///
    /// # Errors
    /// A message with the expected form, or the error of [`HoldOut::check`].
    pub fn parse(text: &str, seed: u64) -> Result<Self, String> {
        if text.trim() == "0" {
            return Ok(Self::NOTHING);
        }
        let (choice, fractions) = match text.strip_prefix(LATEST) {
            Some(fractions) => (HoldOutChoice::Latest, fractions),
            None => (HoldOutChoice::Random, text),
        };
        let numbers: Result<Vec<f64>, _> = fractions.split(',').map(|number| number.trim().parse()).collect();
        let Ok([valid_fraction, test_fraction]) = numbers.as_deref() else {
            return Err("expected the shares of validation and test edges, such as 0.05,0.1 or latest:0.05,0.1, or 0 for no such edges".into());
        };
        let hold_out = Self { choice, valid_fraction: *valid_fraction, test_fraction: *test_fraction, seed };
        hold_out.check()?;
        Ok(hold_out)
    }

    /// Checks that some edges are held out and some remain, and returns the shares of validation and test edges.
    ///
    /// # Errors
    /// A message with the fraction and its value.
    pub fn check(&self) -> Result<[Share; 2], String> {
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
            return Err("the shares of validation and test edges are both 0; omit them to hold out no edges".into());
        }
        Ok([Share::new(self.valid_fraction)?, Share::new(self.test_fraction)?])
    }
}

impl Dataset {
    /// Moves edges of the given types, with their times, to their [held-out](EdgeData::held_out) lists. The other edges
    /// keep their order and attributes. Pass [`Dataset::edge_type_ids`] for all types.
    ///
    /// [`HoldOutChoice::Random`] moves all edges between the same two nodes to the same list: duplicates, both
    /// directions of an undirected edge, and edges of other given types, such as reverse types. So no remaining edge of
    /// these types reveals a held-out one. The choice depends only on the seed and the original ids of the two nodes. Each
    /// pair of nodes is drawn independently, so the shares are met approximately.
    ///
    /// [`HoldOutChoice::Latest`] selects the latest edges of all given types together. No training edge is later than a
    /// held-out edge, and no validation edge is later than a test edge. Edges with the same time and the same two nodes
    /// go to the same list. Earlier edges between the ends of a held-out edge remain for training, because they are
    /// known at its time.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] in the following cases, without changing the dataset: [`HoldOut::check`] rejects the
    /// fractions, an edge type does not exist, already has held-out edges or has labels, an edge type has no times but the
    /// latest edges are requested, or no edge would remain.
    pub fn hold_out_edges(&mut self, edge_types: &[EdgeTypeId], hold_out: &HoldOut) -> Result<(), GraphError> {
        self.hold_out_edges_in(&Workspace::default(), edge_types, hold_out, &OriginalIds, &KnownPairs::default())
    }

    /// Like [`Dataset::hold_out_edges`], with arrays in `space`. Nodes draw by `keys` instead of original ids, and random
    /// choices leave the pairs of `known` in their lists.
    ///
    /// # Errors
    /// As for [`Dataset::hold_out_edges`], and [`GraphError::Scratch`].
    pub fn hold_out_edges_in(
        &mut self,
        space: &Workspace,
        edge_types: &[EdgeTypeId],
        hold_out: &HoldOut,
        keys: &dyn NodeKeys,
        known: &KnownPairs,
    ) -> Result<(), GraphError> {
        let draws = Draws { seed: hold_out.seed, keys };
        let fail = |why: String| Err(GraphError::Dataset { dataset: self.name.clone(), why });
        let shares = match hold_out.check() {
            Ok(shares) => shares,
            Err(why) => return fail(why),
        };
        let latest = hold_out.choice == HoldOutChoice::Latest;
        for &edge_type in edge_types {
            let Some(edges) = self.edge_types.get(edge_type.index()) else {
                return fail(format!("cannot hold out edges: there is no edge type {}", edge_type.0));
            };
            let name = || self.edge_type_name(edges);
            if !edges.held_out.is_empty() {
                return fail(format!(
                    "edge type {} already has held-out edges; load the dataset without holding out more",
                    name()
                ));
            }
            if edges.attributes.labels.is_some() {
                return fail(format!(
                    "edge type {} has labels, which held-out edges would lose: a model of labels of edges needs no \
                     held-out edges, so hold out edges of other types only, or none",
                    name()
                ));
            }
            if latest && edges.attributes.times.is_none() && !edges.src.is_empty() {
                return fail(format!(
                    "edge type {} has no times, so its latest edges are unknown: add edge times, or hold out \
                     edges at random",
                    name()
                ));
            }
        }
        let chosen: BTreeSet<EdgeTypeId> = edge_types.iter().copied().collect();
        if !latest {
            for edge_type in chosen {
                self.edge_types[edge_type.index()].hold_out_at_random(space, hold_out, draws, known)?;
            }
            return Ok(());
        }
        let of_types: Vec<&EdgeData> = chosen.iter().map(|e| &self.edge_types[e.index()]).collect();
        let Some(cutoffs) = Cutoffs::find(&of_types, shares, draws) else { return Ok(()) };
        // Edges of the same age go to the same list, so all edges may be held out. This is checked before anything
        // changes.
        if cutoffs.leave_nothing(&of_types, draws) {
            return fail(
                "too many edges share ends and time: holding out the latest would leave no training edges".into(),
            );
        }
        for edge_type in chosen {
            self.edge_types[edge_type.index()].hold_out_latest(space, cutoffs, draws)?;
        }
        Ok(())
    }

    /// Moves training edges of the given types whose nodes `known` has in another list to this list, after the edges that are
    /// held out already. Arrays are made in `space`.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub fn hold_out_known_in(
        &mut self,
        space: &Workspace,
        edge_types: &[EdgeTypeId],
        known: &KnownPairs,
    ) -> Result<(), GraphError> {
        for edge_type in edge_types {
            let edges = &mut self.edge_types[edge_type.index()];
            let HeldOutEdges { valid, test } = std::mem::take(&mut edges.held_out);
            edges.hold_out(space, |edges, at| known.get(edges.typed_ends(at)).unwrap_or(Split::Train))?;
            edges.held_out.valid.prepend(valid);
            edges.held_out.test.prepend(test);
        }
        Ok(())
    }
}

/// The sort key by which the latest edges are selected: the time, then a random number determined by the two nodes.
type Age = (i64, u64);

/// The ages at which validation and test edges start.
#[derive(Clone, Copy)]
struct Cutoffs {
    /// The age of the first validation edge, or `None` without validation edges.
    valid: Option<Age>,
    /// The age of the first test edge, or `None` without test edges.
    test: Option<Age>,
}

impl Cutoffs {
    /// Finds the cutoffs that meet the shares over all types. Returns `None` if there are no edges.
    fn find(types: &[&EdgeData], [valid, test]: [Share; 2], draws: Draws) -> Option<Self> {
        let num_edges: usize = types.iter().map(|edges| edges.src.len()).sum();
        if num_edges == 0 {
            return None;
        }
        let num_test = test.rounded_of(num_edges as u64) as usize;
        let num_held_out = test.plus(valid).rounded_of(num_edges as u64) as usize;
        // Ages at these ranks are those of the first held-out edges, because ages are ascending.
        let test = (num_test > 0).then(|| age_at_rank(types, num_edges - num_test, draws));
        let valid = (num_held_out > num_test).then(|| age_at_rank(types, num_edges - num_held_out, draws));
        Some(Self { valid, test })
    }

    fn side(self, age: Age) -> Split {
        if self.test.is_some_and(|test| age >= test) {
            Split::Test
        } else if self.valid.is_some_and(|valid| age >= valid) {
            Split::Valid
        } else {
            Split::Train
        }
    }

    fn leave_nothing(self, types: &[&EdgeData], draws: Draws) -> bool {
        let is_held_out = |edges: &&EdgeData| {
            parallel::find_first(edges.src.len(), &|at| self.side(edges.age(at, draws)) == Split::Train).is_none()
        };
        types.iter().all(is_held_out)
    }
}

/// Returns the age at position `rank` of the ascending ages of all types.
fn age_at_rank(types: &[&EdgeData], rank: usize, draws: Draws) -> Age {
    // Selects by time first, then by random number among the edges of that time.
    let (time, earlier) = key_at_rank(types, rank, |edges, at| Some(in_order(edges.age_time(at))));
    let drawn =
        |edges: &EdgeData, at: usize| (in_order(edges.age_time(at)) == time).then(|| edges.draws(at, draws).next_u64());
    let (number, _) = key_at_rank(types, rank - earlier, drawn);
    ((time ^ SIGN) as i64, number)
}

/// The bit that is inverted so that times have the order of unsigned numbers.
const SIGN: u64 = 1 << 63;

fn in_order(time: i64) -> u64 {
    time as u64 ^ SIGN
}

/// Returns the key at position `rank` of the ascending keys of edges, and the number of smaller keys. Edges are read four
/// times, and counted by 16 bits of the key each time, so that no array of all keys is needed.
fn key_at_rank(types: &[&EdgeData], rank: usize, key: impl Fn(&EdgeData, usize) -> Option<u64> + Sync) -> (u64, usize) {
    const DIGITS: usize = 1 << 16;
    let mut found = 0;
    let mut smaller = 0;
    for shift in [48, 32, 16, 0] {
        let mut counts = vec![0; DIGITS];
        for edges in types {
            // The digits so far are those of `found`.
            let digit = |key: u64| {
                let before = key.checked_shr(shift + 16).unwrap_or(0);
                (before == found).then_some((key >> shift) as usize % DIGITS)
            };
            let num_ranges = rayon::current_num_threads();
            let length = edges.src.len().div_ceil(num_ranges);
            let of_range = |range: usize| {
                let mut counts: Vec<usize> = vec![0; DIGITS];
                for at in (range * length).min(edges.src.len())..((range + 1) * length).min(edges.src.len()) {
                    if let Some(digit) = key(edges, at).and_then(digit) {
                        counts[digit] += 1;
                    }
                }
                counts
            };
            for of_range in parallel::collect(num_ranges, &of_range) {
                counts.iter_mut().zip(of_range).for_each(|(sum, count)| *sum += count);
            }
        }
        let mut digit = 0;
        while smaller + counts[digit] <= rank {
            smaller += counts[digit];
            digit += 1;
        }
        found = found << 16 | digit as u64;
    }
    (found, smaller)
}

impl EdgeData {
    /// Returns the random numbers of an edge. They depend on its two nodes, but not on its direction.
    fn draws(&self, at: usize, Draws { seed, keys }: Draws) -> CounterRng {
        // The smaller end comes first, so that both directions of an edge have the same random numbers.
        let src = (self.src_type.0, keys.key(self.src_type.index(), self.src[at]));
        let dst = (self.dst_type.0, keys.key(self.dst_type.index(), self.dst[at]));
        let node = |seed, (node_type, key): (u16, u64)| combine(seed, u64::from(node_type) << 32 ^ key);
        CounterRng::new(node(node(combine(seed, HOLD_OUT), src.min(dst)), src.max(dst)))
    }

    fn age(&self, at: usize, draws: Draws) -> Age {
        (self.age_time(at), self.draws(at, draws).next_u64())
    }

    fn typed_ends(&self, at: usize) -> [(NodeTypeId, u32); 2] {
        [(self.src_type, self.src[at]), (self.dst_type, self.dst[at])]
    }

    fn age_time(&self, at: usize) -> i64 {
        self.attributes.times.as_ref().map_or(i64::MIN, |times| times[at])
    }

    fn hold_out_at_random(
        &mut self,
        space: &Workspace,
        hold_out: &HoldOut,
        draws: Draws,
        known: &KnownPairs,
    ) -> Result<(), GraphError> {
        self.hold_out(space, |edges, at| {
            if let Some(split) = known.get(edges.typed_ends(at)) {
                return split;
            }
            // All edges between the same two nodes draw the same number, so they go to the same list.
            let drawn = edges.draws(at, draws).unit();
            if drawn < hold_out.valid_fraction {
                Split::Valid
            } else if drawn < hold_out.valid_fraction + hold_out.test_fraction {
                Split::Test
            } else {
                Split::Train
            }
        })
    }

    fn hold_out_latest(&mut self, space: &Workspace, cutoffs: Cutoffs, draws: Draws) -> Result<(), GraphError> {
        self.hold_out(space, |edges, at| cutoffs.side(edges.age(at, draws)))
    }

    /// Moves each edge to the list that `side` returns for it and its position, with arrays in `space`. Replaces the lists of
    /// held-out edges.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub fn hold_out(
        &mut self,
        space: &Workspace,
        side: impl Fn(&Self, usize) -> Split + Sync,
    ) -> Result<(), GraphError> {
        let num_edges = self.src.len();
        let sides = space.build(num_edges, STEP, |range| {
            Ok(parallel::map_indices(range.len(), |at| side(self, range.start + at) as u8))
        })?;
        let of = |wanted: Split| -> Result<EdgeList, GraphError> {
            let times = self.attributes.times.as_ref();
            Ok(EdgeList {
                src: pick(space, &self.src, &sides, wanted)?,
                dst: pick(space, &self.dst, &sides, wanted)?,
                times: times.map(|times| pick(space, times, &sides, wanted)).transpose()?,
                negatives: None,
            })
        };
        let kept = of(Split::Train)?;
        let held_out = HeldOutEdges { valid: of(Split::Valid)?, test: of(Split::Test)? };
        if !self.attributes.is_empty() {
            let positions =
                space.filter_map(num_edges, STEP, |at| (sides[at] == Split::Train as u8).then_some(at as u64))?;
            self.attributes = self.attributes.select_in(space, &positions)?;
        }
        self.src = kept.src;
        self.dst = kept.dst;
        self.held_out = held_out;
        Ok(())
    }
}

impl EdgeList {
    /// Puts the edges of another list of the same type before the edges of this one.
    fn prepend(&mut self, first: Self) {
        if first.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = first;
            return;
        }
        self.src = [&first.src[..], &self.src].concat().into();
        self.dst = [&first.dst[..], &self.dst].concat().into();
        let times = first.times.as_ref().zip(self.times.as_ref());
        self.times = times.map(|(first, times)| [&first[..], times].concat().into());
    }
}

/// Returns the values of the edges on one side.
fn pick<T: Pod + Send + Sync>(
    space: &Workspace,
    values: &[T],
    sides: &[u8],
    wanted: Split,
) -> Result<Buffer<T>, GraphError> {
    space.filter_map(values.len(), STEP, |at| (sides[at] == wanted as u8).then_some(values[at]))
}

#[cfg(test)]
mod tests;
