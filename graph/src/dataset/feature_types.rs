//! The stored types of a dataset's features.

use super::Dataset;
use crate::GraphError;
use crate::memory::{FeatureDtype, FeatureDtypes, Workspace};

impl Dataset {
    /// Converts node features to other stored types, in memory. Features of edges keep their type.
    ///
    /// # Errors
    /// [`GraphError::FeatureDtypes`] for a named type that does not exist or has no features,
    /// [`GraphError::OutOfRange`] for a value that the type cannot represent.
    pub fn convert_features(&mut self, dtypes: &FeatureDtypes) -> Result<(), GraphError> {
        self.convert_features_in(&Workspace::default(), dtypes)
    }

    /// Like [`Dataset::convert_features`], in `space`.
    ///
    /// # Errors
    /// As [`Dataset::convert_features`], and [`GraphError::Scratch`].
    pub fn convert_features_in(&mut self, space: &Workspace, dtypes: &FeatureDtypes) -> Result<(), GraphError> {
        let types = self.node_types.iter().map(|nodes| (nodes.name.as_str(), nodes.features.is_some()));
        let planned = plan_feature_dtypes(dtypes, &types.collect::<Vec<_>>())?;
        for (nodes, dtype) in self.node_types.iter_mut().zip(planned) {
            let (Some(features), Some(dtype)) = (&nodes.features, dtype) else { continue };
            let converted = features.to_dtype_in(space, dtype)?;
            let name = &nodes.name;
            nodes.features =
                Some(converted.map_err(|source| GraphError::OutOfRange { node_type: name.clone(), source })?);
        }
        Ok(())
    }
}

/// Returns the new stored type of the features of each node type, `None` for those that stay. `node_types` holds names
/// and whether there are features.
pub(crate) fn plan_feature_dtypes(
    dtypes: &FeatureDtypes,
    node_types: &[(&str, bool)],
) -> Result<Vec<Option<FeatureDtype>>, GraphError> {
    let with_features: Vec<&str> = node_types.iter().filter(|(_, has)| *has).map(|&(name, _)| name).collect();
    if let Some(name) = dtypes.unknown(&with_features) {
        let others = if with_features.is_empty() { "none".to_owned() } else { with_features.join(", ") };
        let why = format!(
            "`feature_dtype` names node type {name}, which does not exist or has no features. Node types with features: \
             {others}"
        );
        return Err(GraphError::FeatureDtypes { why });
    }
    if with_features.is_empty() && !dtypes.is_empty() {
        let why = "`feature_dtype` is set, but no node type has features".into();
        return Err(GraphError::FeatureDtypes { why });
    }
    Ok(node_types.iter().map(|&(name, has)| dtypes.of(name).filter(|_| has)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::{FakeOptions, fake_hetero};
    use edgecut_testing::assert_has;

    #[test]
    fn types_without_features_cannot_be_named() {
        let mut graph = fake_hetero(&FakeOptions { avg_num_nodes: 40, ..FakeOptions::default() }).unwrap();
        for (text, why) in [
            ("v9=f16", "names node type v9, which does not exist or has no features. Node types with features: v0, v1"),
            (
                "v0=f16,v2=f16",
                "names node type v2, which does not exist or has no features. Node types with features: v0, v1",
            ),
        ] {
            assert_has(graph.convert_features(&text.parse().unwrap()).unwrap_err().to_string(), &[why]);
        }
        graph.convert_features(&"f16,v1=int8".parse().unwrap()).unwrap();
        let dtypes: Vec<_> = graph.node_types.iter().map(|t| t.features.as_ref().map(|f| f.dtype())).collect();
        assert_eq!(dtypes, [Some(FeatureDtype::F16), Some(FeatureDtype::Int8), None]);
        graph.node_types.iter_mut().for_each(|nodes| nodes.features = None);
        let error = graph.convert_features(&FeatureDtype::F16.into()).unwrap_err().to_string();
        assert_eq!(error, "`feature_dtype` is set, but no node type has features");
    }
}
