//! Selection of held-out edges.

use super::{Dataset, EdgeData, EdgeList, HeldOutEdges};
use crate::memory::Buffer;
use crate::rng::{CounterRng, combine};
use crate::{EdgeTypeId, GraphError, parallel};
use bytemuck::Pod;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A constant that is mixed into the seed, so that the choice of held-out edges is independent of other uses of the
/// seed.
const HOLD_OUT: u64 = 0x686f_6c64_206f_7574;

/// The prefix of the shares that requests the latest edges.
const LATEST: &str = "latest:";

/// The criterion and the shares of the edges to hold out.
///
/// ```
/// use edgecut_graph::HoldOut;
/// let hold_out = HoldOut::random(0.05, 0.1, 7);
/// assert!(hold_out.check().is_ok());
/// assert!(HoldOut { test_fraction: 0.95, ..hold_out }.check().is_err());
/// ```
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

impl HoldOut {
    /// Holds out random edges, determined by `seed`.
    pub const fn random(valid_fraction: f64, test_fraction: f64, seed: u64) -> Self {
        Self { choice: HoldOutChoice::Random, valid_fraction, test_fraction, seed }
    }

    /// Holds out the latest edges. `seed` decides between edges of the same time.
    pub const fn latest(valid_fraction: f64, test_fraction: f64, seed: u64) -> Self {
        Self { choice: HoldOutChoice::Latest, valid_fraction, test_fraction, seed }
    }

    /// Parses the shares of validation and test edges, such as `0.05,0.1` or `latest:0.05,0.1`.
    ///
    /// ```
    /// use edgecut_graph::HoldOut;
    /// assert_eq!(HoldOut::parse("0.05,0.1", 7), Ok(HoldOut::random(0.05, 0.1, 7)));
    /// assert_eq!(HoldOut::parse("latest:0.05,0.1", 7), Ok(HoldOut::latest(0.05, 0.1, 7)));
    /// assert!(HoldOut::parse("0.05", 7).is_err());
    /// ```
    ///
    /// # Errors
    /// A message with the expected form, or the error of [`HoldOut::check`].
    pub fn parse(text: &str, seed: u64) -> Result<Self, String> {
        let (choice, fractions) = match text.strip_prefix(LATEST) {
            Some(fractions) => (HoldOutChoice::Latest, fractions),
            None => (HoldOutChoice::Random, text),
        };
        let numbers: Result<Vec<f64>, _> = fractions.split(',').map(|number| number.trim().parse()).collect();
        let Ok([valid_fraction, test_fraction]) = numbers.as_deref() else {
            return Err("expected the shares of validation and test edges, such as 0.05,0.1 or latest:0.05,0.1".into());
        };
        let hold_out = Self { choice, valid_fraction: *valid_fraction, test_fraction: *test_fraction, seed };
        hold_out.check()?;
        Ok(hold_out)
    }

    /// Checks that some edges are held out and some remain.
    ///
    /// # Errors
    /// A message with the fraction and its value.
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
            return Err("the shares of validation and test edges are both 0; omit them to hold out no edges".into());
        }
        Ok(())
    }
}

/// The list that an edge is moved to.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Side {
    #[default]
    Kept,
    Valid,
    Test,
}

impl Dataset {
    /// Moves edges of the given types, with their times, to their [held-out](EdgeData::held_out) lists. The other edges
    /// keep their order and attributes. Pass [`Dataset::edge_type_ids`] for all types.
    ///
    /// [`HoldOutChoice::Random`] moves all edges between the same two nodes to the same list: duplicates, both
    /// directions of an undirected edge, and edges of other given types, such as reverse types. So no remaining edge of
    /// these types reveals a held-out one. The choice depends only on the seed and the two nodes. Each pair of nodes is
    /// drawn independently, so the shares are met approximately.
    ///
    /// [`HoldOutChoice::Latest`] selects the latest edges of all given types together. No training edge is later than a
    /// held-out edge, and no validation edge is later than a test edge. Edges with the same time and the same two nodes
    /// go to the same list. Earlier edges between the ends of a held-out edge remain for training, because they are
    /// known at its time.
    ///
    /// ```
    /// use edgecut_graph::HoldOut;
    /// use edgecut_graph::readers::{FakeOptions, fake};
    /// let mut graph = fake(&FakeOptions { avg_num_nodes: 500, ..FakeOptions::default() })?;
    /// let num_edges = graph.num_edges();
    /// graph.hold_out_edges(&graph.edge_type_ids(), &HoldOut::random(0.1, 0.2, 7))?;
    /// let held_out = &graph.edge_types[0].held_out;
    /// assert_eq!(graph.num_edges() + held_out.valid.len() + held_out.test.len(), num_edges);
    /// # Ok::<(), edgecut_graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// [`GraphError::Dataset`] in the following cases, without changing the dataset: [`HoldOut::check`] rejects the
    /// fractions, an edge type does not exist or already has held-out edges, an edge type has no times but the latest
    /// edges are requested, or no edge would remain.
    pub fn hold_out_edges(&mut self, edge_types: &[EdgeTypeId], hold_out: &HoldOut) -> Result<(), GraphError> {
        let fail = |why: String| Err(GraphError::Dataset { dataset: self.name.clone(), why });
        if let Err(why) = hold_out.check() {
            return fail(why);
        }
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
                self.edge_types[edge_type.index()].hold_out_at_random(hold_out);
            }
            return Ok(());
        }
        let of_types: Vec<&EdgeData> = chosen.iter().map(|e| &self.edge_types[e.index()]).collect();
        let Some(cutoffs) = Cutoffs::find(&of_types, hold_out) else { return Ok(()) };
        // Edges of the same age go to the same list, so all edges may be held out. This is checked before anything
        // changes.
        if cutoffs.leave_nothing(&of_types, hold_out.seed) {
            return fail(
                "too many edges share ends and time: holding out the latest would leave no training edges".into(),
            );
        }
        for edge_type in chosen {
            self.edge_types[edge_type.index()].hold_out_latest(cutoffs, hold_out.seed);
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
    fn find(types: &[&EdgeData], hold_out: &HoldOut) -> Option<Self> {
        let times = types.iter().filter_map(|edges| edges.attributes.times.as_deref());
        let mut times = times.collect::<Vec<_>>().concat();
        if times.is_empty() {
            return None;
        }
        let share = |fraction: f64| ((times.len() as f64 * fraction).round() as usize).min(times.len());
        let num_test = share(hold_out.test_fraction);
        let num_held_out = share(hold_out.test_fraction + hold_out.valid_fraction).max(num_test);
        let num_edges = times.len();
        // Ages at these ranks are those of the first held-out edges, because ages are ascending.
        let mut at_rank = |rank: usize| age_at_rank(types, &mut times, rank, hold_out.seed);
        let test = (num_test > 0).then(|| at_rank(num_edges - num_test));
        let valid = (num_held_out > num_test).then(|| at_rank(num_edges - num_held_out));
        Some(Self { valid, test })
    }

    fn side(self, age: Age) -> Side {
        if self.test.is_some_and(|test| age >= test) {
            Side::Test
        } else if self.valid.is_some_and(|valid| age >= valid) {
            Side::Valid
        } else {
            Side::Kept
        }
    }

    fn leave_nothing(self, types: &[&EdgeData], seed: u64) -> bool {
        let is_held_out = |edges: &&EdgeData| {
            parallel::find_first(edges.src.len(), &|at| self.side(edges.age(at, seed)) == Side::Kept).is_none()
        };
        types.iter().all(is_held_out)
    }
}

/// Returns the age at position `rank` of the ascending ages of all types. `times` are all times, in any order.
fn age_at_rank(types: &[&EdgeData], times: &mut [i64], rank: usize, seed: u64) -> Age {
    // Selects by time first, then by random number among the edges of that time. So only the ages of these ties are
    // computed.
    let time = *times.select_nth_unstable(rank).1;
    let earlier = parallel::count(times.len(), |at| times[at] < time);
    let ties = types.iter().flat_map(|edges| {
        let is_at_time = |at: usize| edges.attributes.times.as_ref().is_some_and(|times| times[at] == time);
        parallel::filter_map(edges.src.len(), |at| is_at_time(at).then(|| edges.age(at, seed).1))
    });
    let mut ties: Vec<u64> = ties.collect();
    (time, *ties.select_nth_unstable(rank - earlier).1)
}

impl EdgeData {
    /// Returns the random numbers of an edge. They depend on its two nodes, but not on its direction.
    fn draws(&self, at: usize, seed: u64) -> CounterRng {
        // The smaller end comes first, so that both directions of an edge have the same random numbers.
        let ends = [(self.src_type.0, self.src[at]), (self.dst_type.0, self.dst[at])];
        let first = ends[0].min(ends[1]);
        let second = ends[0].max(ends[1]);
        let node = |key, (node_type, id): (u16, u32)| combine(key, u64::from(node_type) << 32 | u64::from(id));
        CounterRng::new(node(node(combine(seed, HOLD_OUT), first), second))
    }

    fn age(&self, at: usize, seed: u64) -> Age {
        let time = self.attributes.times.as_ref().map_or(i64::MIN, |times| times[at]);
        (time, self.draws(at, seed).next_u64())
    }

    fn hold_out_at_random(&mut self, hold_out: &HoldOut) {
        self.hold_out(|edges, at| {
            // All edges between the same two nodes draw the same number, so they go to the same list.
            let drawn = edges.draws(at, hold_out.seed).unit();
            if drawn < hold_out.valid_fraction {
                Side::Valid
            } else if drawn < hold_out.valid_fraction + hold_out.test_fraction {
                Side::Test
            } else {
                Side::Kept
            }
        });
    }

    fn hold_out_latest(&mut self, cutoffs: Cutoffs, seed: u64) {
        self.hold_out(|edges, at| cutoffs.side(edges.age(at, seed)));
    }

    /// Moves each edge to the list that `side` returns for it.
    fn hold_out(&mut self, side: impl Fn(&Self, usize) -> Side + Sync) {
        let sides: Vec<Side> = parallel::map_indices(self.src.len(), |at| side(self, at));
        let of = |wanted: Side| EdgeList {
            src: pick(&self.src, &sides, wanted),
            dst: pick(&self.dst, &sides, wanted),
            times: self.attributes.times.as_ref().map(|times| pick(times, &sides, wanted)),
            negatives: None,
        };
        let kept = of(Side::Kept);
        let held_out = HeldOutEdges { valid: of(Side::Valid), test: of(Side::Test) };
        if !self.attributes.is_empty() {
            let position = |at: usize| (sides[at] == Side::Kept).then_some(at as u64);
            self.attributes = self.attributes.select(&parallel::filter_map(sides.len(), position));
        }
        self.src = kept.src;
        self.dst = kept.dst;
        self.held_out = held_out;
    }
}

/// Returns the values of the edges on one side.
fn pick<T: Pod + Send + Sync>(values: &[T], sides: &[Side], wanted: Side) -> Buffer<T> {
    parallel::filter_map(values.len(), |at| (sides[at] == wanted).then_some(values[at])).into()
}

#[cfg(test)]
mod tests;
