//! Consistency checks of a dataset.

use super::{Dataset, EdgeData, EdgeList, NodeData, Split};
use crate::classes::check_num_classes;
use crate::memory::Features;
use crate::scan::first_position;
use crate::{GraphError, NodeTypeId};

impl Dataset {
    /// Checks that ids are in range, arrays have the right length, features are finite, weights are finite and not
    /// negative, and nodes and edges of a split have a label or a known target.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] with the type, the row and the value. Readers that know the file and line of a bad value
    /// report it themselves, so this check is mainly for graphs made in memory.
    pub fn validate(&self) -> Result<(), GraphError> {
        self.check(true)
    }

    /// Checks the same as [`Dataset::validate`], except the values of features. These are by far the largest arrays of
    /// many graphs.
    ///
    /// # Errors
    /// As [`Dataset::validate`].
    pub fn validate_structure(&self) -> Result<(), GraphError> {
        self.check(false)
    }

    fn check(&self, feature_values: bool) -> Result<(), GraphError> {
        let fail = |why: String| Err(GraphError::Dataset { dataset: self.name.clone(), why });
        if self.node_types.is_empty() || self.node_types.iter().all(|t| t.num_nodes == 0) {
            return fail("it has no nodes".into());
        }
        let most = usize::from(u16::MAX);
        for (types, what) in [(self.node_types.len(), "node"), (self.edge_types.len(), "edge")] {
            if types > most {
                return fail(format!("it has {types} {what} types, more than {most}"));
            }
        }
        for nodes in &self.node_types {
            if let Some(features) = &nodes.features
                && let Err(why) = check_features(features, nodes.num_nodes, "node", feature_values)
            {
                return fail(format!("node type {}: {why}", nodes.name));
            }
            for with_label in nodes.by_label() {
                if let Err(why) = with_label.check() {
                    return fail(format!("node type {}: {why}", with_label.shown_name()));
                }
            }
        }
        for edges in &self.edge_types {
            let nodes = |t: NodeTypeId| self.node_types.get(t.index());
            let (Some(src_type), Some(dst_type)) = (nodes(edges.src_type), nodes(edges.dst_type)) else {
                return fail(format!("edge type {} joins a node type that does not exist", edges.relation));
            };
            if let Err(why) = edges.check(src_type, dst_type, feature_values) {
                return fail(format!("edge type {}: {why}", self.edge_type_name(edges)));
            }
        }
        Ok(())
    }
}

impl NodeData {
    /// Checks the type and its first label, but not the features.
    fn check(&self) -> Result<(), String> {
        if self.num_nodes > u32::MAX as usize {
            return Err(format!("{} nodes are more than 2^32 - 1", self.num_nodes));
        }
        if let Some(labels) = &self.labels {
            if labels.len() != self.num_nodes {
                return Err(format!("{} labels for {} nodes", labels.len(), self.num_nodes));
            }
            if let Some(node) = first_position(labels, |l| l < -1 || l >= self.num_classes as i64) {
                return Err(format!("node {node} has label {}, outside -1..{}", labels[node], self.num_classes));
            }
            check_num_classes(labels, self.num_classes, "node")?;
        }
        if let Some(targets) = &self.targets {
            if self.labels.is_some() {
                return Err("it has both labels and targets".into());
            }
            targets.problem(self.num_nodes, "node").map_or(Ok(()), Err)?;
        }
        if let Some(times) = &self.times
            && times.len() != self.num_nodes
        {
            return Err(format!("{} times for {} nodes", times.len(), self.num_nodes));
        }
        Split::ALL.into_iter().try_for_each(|split| self.check_split(split))
    }

    fn check_split(&self, split: Split) -> Result<(), String> {
        let ids = self.splits.get(split);
        let name = split.name();
        if let Some(at) = ids.windows(2).position(|w| w[0] >= w[1]) {
            return Err(format!("the {name} split is not ascending at entry {}", at + 1));
        }
        if let Some(last) = ids.last().filter(|&&last| last as usize >= self.num_nodes) {
            return Err(format!("the {name} split has node {last}, but there are {} nodes", self.num_nodes));
        }
        match ids.iter().find(|&&id| !self.is_labeled(id)) {
            Some(node) => Err(format!("the {name} split has node {node}, which has no label")),
            None => Ok(()),
        }
    }
}

impl EdgeData {
    fn check(&self, src_type: &NodeData, dst_type: &NodeData, feature_values: bool) -> Result<(), String> {
        let num_edges = self.src.len();
        check_ends(&self.src, &self.dst, "edge", [src_type, dst_type])?;
        if let Some(features) = &self.attributes.features {
            check_features(features, num_edges, "edge", feature_values)?;
        }
        if let Some(weights) = &self.attributes.weights {
            if weights.len() != num_edges {
                return Err(format!("{} weights for {num_edges} edges", weights.len()));
            }
            if let Some(edge) = first_bad_weight(weights) {
                return Err(bad_weight(edge, weights[edge]));
            }
        }
        if let Some(times) = &self.attributes.times
            && times.len() != num_edges
        {
            return Err(format!("{} times for {num_edges} edges", times.len()));
        }
        if let Some(ids) = &self.attributes.ids
            && ids.len() != num_edges
        {
            return Err(format!("{} ids for {num_edges} edges", ids.len()));
        }
        if let Some(labels) = &self.attributes.labels {
            labels.check(num_edges)?;
        }
        for (name, EdgeList { src, dst, times, negatives }) in self.held_out.lists() {
            check_ends(src, dst, &format!("held-out {name} edge"), [src_type, dst_type])?;
            if let Some(times) = times
                && times.len() != src.len()
            {
                return Err(format!("{} times for {} held-out {name} edges", times.len(), src.len()));
            }
            if let Some(negatives) = negatives {
                let num_nodes = [src_type.num_nodes, dst_type.num_nodes];
                negatives.check(src.len(), num_nodes, &format!("held-out {name} edges"))?;
            }
        }
        self.held_out.check_times()?;
        Ok(())
    }
}

/// Checks that the ends of edges are nodes of these types.
pub(super) fn check_ends(src: &[u32], dst: &[u32], edge: &str, types: [&NodeData; 2]) -> Result<(), String> {
    if src.len() != dst.len() {
        return Err(format!("{} sources but {} destinations of {edge}s", src.len(), dst.len()));
    }
    for (ids, nodes, end) in [(src, types[0], "source"), (dst, types[1], "destination")] {
        if let Some(at) = first_position(ids, |id| id as usize >= nodes.num_nodes) {
            return Err(format!(
                "the {end} of {edge} {at} is node {}, but there are {} nodes of type {}",
                ids[at], nodes.num_nodes, nodes.name
            ));
        }
    }
    Ok(())
}

fn check_features(features: &Features, rows: usize, of: &str, values: bool) -> Result<(), String> {
    if features.dim() == 0 {
        return Err(format!("{of} features have no columns; omit the features"));
    }
    if features.num_rows() != rows {
        return Err(format!("{} feature rows for {rows} {of}s", features.num_rows()));
    }
    if values && let Some((row, column)) = features.first_not_finite() {
        return Err(format!("feature {column} of {of} {row} is NaN or infinite"));
    }
    Ok(())
}

/// Returns the index of the first weight that is not finite or is negative.
pub(crate) fn first_bad_weight(weights: &[f32]) -> Option<usize> {
    first_position(weights, |weight| !(weight.is_finite() && weight >= 0.0))
}

/// Describes a weight that [`first_bad_weight`] found.
pub(crate) fn bad_weight(edge: usize, weight: f32) -> String {
    let why = if weight < 0.0 { "negative" } else { "not finite" };
    format!("edge {edge} has weight {weight}, which is {why}")
}

/// Returns the reason why a weight cannot be stored in 32 bits, if it is positive and would become 0 or lose digits.
pub fn why_too_small(weight: f64) -> Option<String> {
    is_too_small(weight).then(|| {
        format!(
            "{weight:e} is too small for 32 bits, so that the edge would never be sampled by weight: multiply all weights by \
             the same number, since probabilities depend on their ratios"
        )
    })
}

/// Returns true if [`why_too_small`] gives a reason.
pub(crate) fn is_too_small(weight: f64) -> bool {
    weight > 0.0 && (weight as f32) < f32::MIN_POSITIVE
}

#[cfg(test)]
mod tests;
