//! The result of starting from a saved model.

use super::new_embeddings::MatchedRows;
use edgecut_settings::counted;
use std::fmt::Display;
use std::path::PathBuf;

/// The most names that a line lists.
const MAX_NAMES: usize = 12;

/// The tensors that a model has taken over from a file, and those that it has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmStartReport {
    /// The file.
    pub path: PathBuf,
    /// The tensors that were taken over, by their names in the model.
    pub taken: Vec<String>,
    /// The tensors that the file lacks. They keep their initial values.
    pub missing: Vec<String>,
    /// The tensors and embeddings of the file that the model lacks.
    pub unused: Vec<String>,
    /// The tensors that have another shape in the file. They keep their initial values.
    pub other_shapes: Vec<OtherShape>,
    /// The node types whose embeddings were taken over.
    pub taken_tables: Vec<String>,
    /// The matches of these node types.
    pub matched_tables: Vec<MatchedRows>,
    /// The node types whose embeddings keep their initial values.
    pub fresh_tables: Vec<FreshTable>,
    /// The first difference between the graph of the file's model and this graph, if both models are for typed graphs.
    pub other_graph: Option<String>,
    /// The first difference between the features of the file's training and of this graph.
    pub other_data: Option<String>,
    /// The first difference between the classes of the file's training and of this data.
    pub other_classes: Option<String>,
}

/// A tensor of another shape, with both shapes as a file has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherShape {
    /// The name of the tensor in the model.
    pub name: String,
    /// The shape in the file.
    pub in_file: Vec<usize>,
    /// The shape in the model.
    pub in_model: Vec<usize>,
}

/// The embeddings of a node type that were not taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshTable {
    /// The node type.
    pub node_type: String,
    /// The number of nodes and the values per node in the file, if it has embeddings of the type.
    pub in_file: Option<[usize; 2]>,
    /// The number of nodes and the values per node in the model.
    pub in_model: [usize; 2],
    /// True if the nodes of the file have other ids than the nodes of the graph.
    pub has_other_nodes: bool,
}

impl WarmStartReport {
    /// Returns whether nothing of the file fits the model.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.taken_tables.is_empty()
    }

    /// Describes everything that was not taken over, in a line for each kind.
    ///
    /// ```
    /// use edgecut_trainer::model_file::WarmStartReport;
    /// let missing = vec!["outputs.0.weight".to_owned(), "outputs.0.bias".to_owned()];
    /// let report = WarmStartReport { missing, ..WarmStartReport::default() };
    /// let line = "2 tensors are not in the file and keep their initial values: outputs.0.weight, outputs.0.bias";
    /// assert_eq!(report.lines(), [line]);
    /// ```
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(what) = &self.other_graph {
            lines.push(format!(
                "the model was trained for another graph: this graph has {what}. Layers of node and edge types are \
                 matched by their numbers"
            ));
        }
        if let Some(what) = &self.other_data {
            lines.push(format!("the data is not like that of the model: {what}"));
        }
        if let Some(what) = &self.other_classes {
            lines.push(format!(
                "{what}, so that outputs that are taken over stand for other classes until training has changed them. To keep \
                 the classes of the file, make the parts with partition-graph update, or with --transforms and the parts of \
                 its training"
            ));
        }
        if !self.missing.is_empty() {
            let tensors = counted(self.missing.len(), "tensor is", "tensors are");
            let keep = if self.missing.len() == 1 { "keeps its" } else { "keep their" };
            lines.push(format!("{tensors} not in the file and {keep} initial values: {}", list(&self.missing)));
        }
        if !self.unused.is_empty() {
            let tensors = counted(self.unused.len(), "tensor", "tensors");
            lines.push(format!("the model does not have {tensors} of the file: {}", list(&self.unused)));
        }
        if !self.other_shapes.is_empty() {
            let has = counted(self.other_shapes.len(), "tensor has", "tensors have");
            let keep = if self.other_shapes.len() == 1 { "keeps its" } else { "keep their" };
            let shape = |other: &OtherShape| {
                format!("{} is {:?} in the file and {:?} in the model", other.name, other.in_file, other.in_model)
            };
            let shapes: Vec<String> = self.other_shapes.iter().map(shape).collect();
            lines.push(format!("{has} another shape and {keep} initial values: {}", list(&shapes)));
        }
        lines.extend(self.matched_tables.iter().filter_map(MatchedRows::line));
        if !self.fresh_tables.is_empty() {
            let tables: Vec<String> = self.fresh_tables.iter().map(FreshTable::words).collect();
            lines.push(format!("embeddings start fresh: {}", list(&tables)));
        }
        lines
    }
}

impl FreshTable {
    fn words(&self) -> String {
        let node_type = &self.node_type;
        let [nodes, dim] = self.in_model;
        match self.in_file {
            None => format!("the file has none of node type {node_type}"),
            Some(_) if self.has_other_nodes => format!(
                "the nodes of type {node_type} are not those of the file: they have other ids, or another order"
            ),
            Some([in_file, dim_in_file]) => format!(
                "node type {node_type} has {in_file} nodes of {dim_in_file} values in the file, and {nodes} of {dim} \
                 in the graph"
            ),
        }
    }
}

/// Joins words with commas, up to [`MAX_NAMES`] of them.
fn list(words: &[impl Display]) -> String {
    let mut text = words.iter().take(MAX_NAMES).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if words.len() > MAX_NAMES {
        text.push_str(&format!(" and {} more", words.len() - MAX_NAMES));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_line() {
        let names = |count: usize| (0..count).map(|i| format!("t{i}")).collect::<Vec<_>>();
        let table = |in_file| FreshTable {
            node_type: "user".into(),
            in_file,
            in_model: [8, 4],
            has_other_nodes: in_file == Some([8, 4]),
        };
        let report = WarmStartReport {
            missing: names(1),
            unused: names(14),
            other_shapes: vec![OtherShape { name: "t".into(), in_file: vec![2, 3], in_model: vec![4, 3] }],
            fresh_tables: vec![table(None), table(Some([9, 4])), table(Some([8, 4]))],
            ..WarmStartReport::default()
        };
        let expected = [
            "1 tensor is not in the file and keeps its initial values: t0",
            "the model does not have 14 tensors of the file: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11 and 2 more",
            "1 tensor has another shape and keeps its initial values: t is [2, 3] in the file and [4, 3] in the model",
            "embeddings start fresh: the file has none of node type user, node type user has 9 nodes of 4 values in \
             the file, and 8 of 4 in the graph, the nodes of type user are not those of the file: they have other ids, or \
             another order",
        ];
        assert_eq!(report.lines(), expected);
    }
}
