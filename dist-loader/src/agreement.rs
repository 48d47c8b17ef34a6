//! Agreement of all ranks on what a loader is made of.

use crate::error::LoaderError;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use rustc_hash::{FxBuildHasher, FxHasher};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, Hasher};

/// The settings of a loader that must be equal on all ranks of a job, by name.
#[derive(Clone, Debug, Default)]
pub struct SharedSettings {
    values: Map<String, Value>,
}

impl SharedSettings {
    /// Adds a setting, in place of an earlier one of this name. A value that serialises to null is as good as none.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        // A value that has no JSON is compared by the reason.
        let value = serde_json::to_value(value).unwrap_or_else(|error| Value::String(error.to_string()));
        if !value.is_null() {
            self.values.insert(name.to_owned(), value);
        }
        self
    }

    /// Adds the fields of a struct by their names, without those that its serialisation skips.
    pub fn with_fields(self, settings: &impl Serialize) -> Self {
        match serde_json::to_value(settings) {
            Ok(Value::Object(fields)) => fields.into_iter().fold(self, |all, (name, value)| all.with(&name, value)),
            other => self.with("settings", other.unwrap_or_else(|error| Value::String(error.to_string()))),
        }
    }

    /// Adds a list by its length and the hash of its entries.
    pub fn with_list<T: Hash>(self, name: &str, list: impl IntoIterator<Item = T>) -> Self {
        let mut hasher = FxHasher::default();
        let mut len = 0_usize;
        for entry in list {
            entry.hash(&mut hasher);
            len += 1;
        }
        self.with(name, format!("a list of {len} with the hash {:016x}", hasher.finish()))
    }

    /// Removes a setting, in which ranks may differ.
    pub fn without(mut self, name: &str) -> Self {
        self.values.remove(name);
        self
    }

    /// Checks that all ranks have the same settings. All ranks must call this, and get the same result.
    ///
    /// # Errors
    /// [`LoaderError::Config`] that names the settings in which a rank differs from rank 0, with both values;
    /// [`LoaderError::Agree`] if a rank cannot be reached.
    pub fn agree(&self, world: &mut ProcessGroup) -> Result<(), LoaderError> {
        let mine = Value::Object(self.values.clone()).to_string();
        let hash = FxBuildHasher.hash_one(&mine);
        // The largest complement belongs to the smallest hash.
        let mut bounds = [hash, !hash];
        world.all_reduce(&mut bounds, ReduceOp::Max)?;
        if bounds[0] == !bounds[1] {
            return Ok(());
        }
        let all = world.all_gather(mine.as_bytes())?;
        Err(LoaderError::Config { what: disagreement(&all) })
    }
}

/// Describes the differences between rank 0 and the first rank with other settings.
fn disagreement(all: &[Vec<u8>]) -> String {
    let first = &all[0];
    let rank = all.iter().position(|settings| settings != first).unwrap_or_default();
    let [Ok(of_first), Ok(of_rank)] = [first, &all[rank]].map(|settings| serde_json::from_slice::<Value>(settings))
    else {
        return format!(
            "ranks 0 and {rank} of this job describe their loaders in other forms: start one version of them"
        );
    };
    let mut found = Vec::new();
    add_differences("", &of_first, &of_rank, rank, &mut found);
    format!(
        "the processes of this job make a loader from different settings ({}): pass the same settings in every process, and \
         whole lists, since the loader divides them over the processes",
        found.join("; ")
    )
}

/// Adds a text for each setting in which a rank differs from rank 0. Settings within others have names with dots.
fn add_differences(name: &str, of_first: &Value, of_rank: &Value, rank: usize, found: &mut Vec<String>) {
    if of_first == of_rank {
        return;
    }
    let (Value::Object(first_fields), Value::Object(rank_fields)) = (of_first, of_rank) else {
        found.push(format!("{name} is {} on rank 0 and {} on rank {rank}", shown(of_first), shown(of_rank)));
        return;
    };
    let fields: BTreeSet<&String> = first_fields.keys().chain(rank_fields.keys()).collect();
    for field in fields {
        let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
        let in_first = first_fields.get(field).unwrap_or(&Value::Null);
        let in_rank = rank_fields.get(field).unwrap_or(&Value::Null);
        add_differences(&name, in_first, in_rank, rank, found);
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not set".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    #[derive(Serialize)]
    struct Inner {
        num: usize,
        shared: bool,
    }

    #[derive(Serialize)]
    struct Outer {
        times: Option<&'static str>,
        inner: Inner,
    }

    fn bytes(times: Option<&'static str>, num: usize) -> Vec<u8> {
        let outer = Outer { times, inner: Inner { num, shared: false } };
        Value::Object(SharedSettings::default().with_fields(&outer).values).to_string().into_bytes()
    }

    #[test]
    fn differences_have_names_and_the_values_of_two_ranks() {
        let ranks = [bytes(None, 1), bytes(None, 1), bytes(Some("last"), 2)];
        let text = disagreement(&ranks);
        let expected = "(inner.num is 1 on rank 0 and 2 on rank 2; times is not set on rank 0 and last on rank 2)";
        assert!(text.contains(expected), "{text}");
        assert_has(disagreement(&[bytes(None, 1), vec![0xff]]), &["ranks 0 and 1", "one version"]);
    }

    fn of_list(list: &[u32]) -> Map<String, Value> {
        SharedSettings::default().with_list("seeds", list).values
    }

    #[test]
    fn lists_differ_by_length_and_by_order() {
        assert_eq!(of_list(&[1, 2]), of_list(&[1, 2]));
        assert_ne!(of_list(&[1, 2]), of_list(&[2, 1]));
        assert_ne!(of_list(&[]), of_list(&[0]));
        assert!(SharedSettings::default().with_list("seeds", [1, 2]).without("seeds").values.is_empty());
    }
}
