//! Numbers of neighbors, by hop and edge type.

use crate::errors::invalid;
use edgecut_dist_sampler::{Fanout, NumNeighbors};
use pyo3::prelude::*;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// The numbers of neighbors to sample: lists with a number per hop.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FanOuts {
    /// The list of the edge types that `named` does not name.
    others: Option<Vec<i64>>,
    named: Vec<(String, Vec<i64>)>,
}

impl FanOuts {
    /// Checks the numbers.
    pub(crate) fn num_neighbors(&self) -> PyResult<NumNeighbors> {
        let others = self.others.as_deref().map(counts).transpose().map_err(refused)?;
        let named = self.named.iter().map(|(name, numbers)| Ok((name.clone(), counts(numbers)?)));
        let named = named.collect::<Result<_, String>>().map_err(refused)?;
        NumNeighbors::new(others, named).map_err(refused)
    }
}

impl Serialize for FanOuts {
    /// Writes one list, or the lists by edge type in the order of their names.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.named.is_empty() {
            return self.others.serialize(serializer);
        }
        let mut lists: BTreeMap<&str, &[i64]> = BTreeMap::new();
        for (name, list) in &self.named {
            lists.insert(name, list);
        }
        if let Some(others) = &self.others {
            lists.insert("others", others);
        }
        lists.serialize(serializer)
    }
}

fn refused(why: String) -> PyErr {
    invalid(format!("`num_neighbors`: {why}"))
}

fn counts(numbers: &[i64]) -> Result<Vec<Fanout>, String> {
    numbers.iter().map(|number| number.to_string().parse()).collect()
}
