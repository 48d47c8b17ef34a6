//! Splits of nodes for datasets without masks.

use super::{Dataset, SplitOrder};
use crate::{GraphError, Share};
use std::fmt;

/// The prefix of shares of nodes in the order of their times.
const BY_TIME: &str = "by-time:";

/// The division of the labeled nodes of all types into training, validation and test nodes.
///
/// ```
/// use edgecut_graph::NodeSplit;
/// let split = NodeSplit::parse("by-time:0.6,0.2,0.2,7")?;
/// assert_eq!(split.to_string(), "by-time:0.6,0.2,0.2,7");
/// assert_eq!(split.with_seed(3), split);
/// assert_eq!(NodeSplit::parse("0.6,0.2,0.2")?.with_seed(3).to_string(), "0.6,0.2,0.2,3");
/// assert!(NodeSplit::parse("0.6,0.2").is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeSplit {
    /// The shares of training, validation and test nodes.
    shares: [f64; 3],
    /// True if the earliest nodes train.
    by_time: bool,
    /// The seed of random choices, if it is given.
    seed: Option<u64>,
}

impl NodeSplit {
    /// Parses three shares, which a seed may follow, such as `0.6,0.2,0.2` or `by-time:0.6,0.2,0.2,7`.
    ///
    /// # Errors
    /// A message with the expected form, or with a share that is not possible.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "expected the shares of training, validation and test nodes, such as 0.6,0.2,0.2, and then maybe a \
                            seed; by-time:0.6,0.2,0.2 trains on the earliest nodes";
        let (by_time, numbers) = match text.strip_prefix(BY_TIME) {
            Some(numbers) => (true, numbers),
            None => (false, text),
        };
        let fields: Vec<&str> = numbers.split(',').map(str::trim).collect();
        let [train, valid, test, seed @ ..] = &fields[..] else { return Err(FORM.into()) };
        let seed = match seed {
            [] => None,
            [seed] => Some(seed.parse().map_err(|_| FORM.to_owned())?),
            _ => return Err(FORM.into()),
        };
        let mut shares = [0.0; 3];
        for (share, text) in shares.iter_mut().zip([train, valid, test]) {
            *share = text.parse().map_err(|_| FORM.to_owned())?;
            Share::new(*share)?;
        }
        // Shares like 0.7, 0.2 and 0.1 may exceed 1 by rounding.
        if shares.iter().sum::<f64>() > 1.0 + 1e-9 || shares[0] == 0.0 {
            return Err(
                "expected a share of training nodes above 0, and shares that are not more than 1 together".into()
            );
        }
        Ok(Self { shares, by_time, seed })
    }

    /// Sets the seed of random choices, unless the text has one.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed: self.seed.or(Some(seed)), ..self }
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// Returns the number of nodes in all splits of `num_nodes` labeled nodes.
    pub(crate) fn num_in_splits(&self, num_nodes: u64) -> u64 {
        self.shares().iter().map(|share| share.of(num_nodes)).sum()
    }

    fn shares(&self) -> [Share; 3] {
        self.shares.map(|share| Share::new(share).unwrap_or_default())
    }
}

impl fmt::Display for NodeSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [train, valid, test] = self.shares;
        let prefix = if self.by_time { BY_TIME } else { "" };
        write!(f, "{prefix}{train},{valid},{test},{}", self.seed())
    }
}

impl Dataset {
    /// Divides the labeled nodes of all types.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] if nodes are in splits already, if no nodes have labels, and if they have no times that the
    /// division needs.
    pub fn split_nodes(&mut self, split: &NodeSplit) -> Result<(), GraphError> {
        let dataset = self.name.clone();
        let fail = |why: String| Err(GraphError::Dataset { dataset: dataset.clone(), why });
        let is_labeled = |at: &usize| {
            let nodes = &self.node_types[*at];
            nodes.labels.is_some() || nodes.targets.is_some()
        };
        let labeled: Vec<usize> = (0..self.node_types.len()).filter(is_labeled).collect();
        if labeled.is_empty() {
            return fail(
                "no nodes have labels or targets, so `split_nodes` has nothing to divide: leave it out".into(),
            );
        }
        for at in labeled {
            let nodes = &mut self.node_types[at];
            let name = &nodes.name;
            if !nodes.more_labels.is_empty() {
                return fail(format!(
                    "the nodes of type {name} have several labels, each with splits of its own: leave out `split_nodes`, and give \
                     the labels `split_pct`"
                ));
            }
            if !nodes.splits.train.is_empty() || !nodes.splits.valid.is_empty() || !nodes.splits.test.is_empty() {
                return fail(format!(
                    "the nodes of type {name} are in splits already: leave out `split_nodes` or their masks"
                ));
            }
            let ids: Vec<u32> = (0..nodes.num_nodes as u32).filter(|&node| nodes.is_labeled(node)).collect();
            let order = SplitOrder { seed: split.seed(), name };
            nodes.splits = match (&nodes.times, split.by_time) {
                (_, false) => order.at_random(ids, split.shares()).into(),
                (Some(times), true) => order.by_times(ids, times, split.shares()).into(),
                (None, true) => {
                    return fail(format!("the nodes of type {name} have no times, which `split_nodes` by time needs"));
                }
            };
        }
        Ok(())
    }

    /// Returns true if nodes have labels or targets, but no node is in a split.
    pub fn lacks_splits(&self) -> bool {
        let has_labels = self.node_types.iter().any(|nodes| nodes.labels.is_some() || nodes.targets.is_some());
        let has_splits = |nodes: &super::NodeData| {
            !nodes.splits.train.is_empty() || !nodes.splits.valid.is_empty() || !nodes.splits.test.is_empty()
        };
        has_labels && !self.node_types.iter().any(has_splits)
    }
}
