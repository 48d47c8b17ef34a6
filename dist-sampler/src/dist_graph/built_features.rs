//! The features that were built after the parts, which `META.json` does not describe.

use crate::dist_graph::{DistGraph, Role};
use crate::error::SampleError;
use edgecut_cluster::ProcessGroup;
use edgecut_graph::FeaturesChecksum;
use std::collections::BTreeMap;

impl DistGraph {
    /// Returns the checksums of the features that were built after the parts, ordered by part and node type, from all ranks
    /// or from the servers. Every rank must call this.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if two processes have different features of a part; a failure of the job.
    pub fn built_features(&self, world: &mut ProcessGroup) -> Result<Vec<FeaturesChecksum>, SampleError> {
        let own = match &self.role {
            Role::Client { features, .. } => features,
            Role::Rank | Role::Server { .. } => self.part().built_features(),
        };
        let own = serde_json::to_vec(own).map_err(|source| SampleError::process("describe features", source))?;
        let mut of_ranks = Vec::new();
        for (rank, text) in world.all_gather(&own)?.iter().enumerate() {
            let features: Vec<FeaturesChecksum> = serde_json::from_slice(text)
                .map_err(|source| SampleError::process("read the description of features", source))?;
            of_ranks.push((format!("rank {rank}"), features));
        }
        merged(of_ranks)
    }
}

/// Merges the checksums that processes have. Processes that hold the same part have the same ones.
///
/// # Errors
/// [`SampleError::Layout`] if two processes have different features of a part. The error names both.
pub(crate) fn merged(all: Vec<(String, Vec<FeaturesChecksum>)>) -> Result<Vec<FeaturesChecksum>, SampleError> {
    let mut known: BTreeMap<(_, String), (String, FeaturesChecksum)> = BTreeMap::new();
    for (process, features) in all {
        for found in features {
            let key = (found.part, found.node_type.clone());
            let (first, expected) = known.entry(key).or_insert_with(|| (process.clone(), found.clone()));
            if *expected != found {
                let what = format!(
                    "{first} and {process} have different features of the type {:?} in part {}, which were built after the \
                     parts: copy the features.npy of one to the other, or build them again from the same transforms.json",
                    found.node_type, found.part.0
                );
                return Err(SampleError::Layout { what });
            }
        }
    }
    Ok(known.into_values().map(|(_, features)| features).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::DiskPartId;

    fn features(part: u32, checksum: &str) -> FeaturesChecksum {
        FeaturesChecksum { part: DiskPartId(part), node_type: "item".to_owned(), xxh3: checksum.to_owned() }
    }

    #[test]
    fn different_features_of_a_part_are_refused() {
        let [a, b] = ["rank 0", "rank 3"].map(str::to_owned);
        let same = vec![(a.clone(), vec![features(0, "x"), features(1, "y")]), (b.clone(), vec![features(0, "x")])];
        assert_eq!(merged(same).unwrap(), [features(0, "x"), features(1, "y")]);
        let error = merged(vec![(a, vec![features(0, "x")]), (b, vec![features(0, "z")])]).unwrap_err().to_string();
        assert!(error.contains("rank 0 and rank 3") && error.contains("\"item\" in part 0"), "{error}");
    }
}
