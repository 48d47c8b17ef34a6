//! The embeddings of nodes that a saved model does not know.

use edgecut_settings::words;
use serde::Serialize;

/// The start of the embeddings of nodes that a saved model has no rows for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NewEmbeddings {
    /// Zeros.
    Zero,
    /// The mean of all rows of the saved table.
    #[default]
    Mean,
    /// The mean of the saved rows of the nodes from which edges lead to the new node, over all edge types whose sources have
    /// rows of the same width. The mean of the saved table for a node without such a neighbor.
    Neighbors,
    /// The initial values of a new training, which depend on the seed.
    Random,
}

words!(
    NewEmbeddings,
    "start of new embeddings",
    Zero = "zero": "Zeros",
    Mean = "mean": "The mean of all rows of the saved table",
    Neighbors = "neighbors": "The mean of the saved rows of the neighbors",
    Random = "random": "The initial values of a new training",
);

/// The match of the nodes of a type with the rows of a saved table, over all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedRows {
    /// The node type.
    pub node_type: String,
    /// True if the ids of tables were compared, false if row numbers were.
    pub by_ids: bool,
    /// The number of nodes that have a saved row.
    pub known: u64,
    /// The number of nodes that have none.
    pub new: u64,
    /// The number of saved rows whose nodes are not in the graph.
    pub gone: u64,
    /// The start of the new nodes.
    pub start: NewEmbeddings,
    /// The number of new nodes that start from the mean of the table, because none of their neighbors has a saved row. 0
    /// unless new nodes start from their neighbors.
    pub lonely: u64,
    /// True if row numbers were compared, and the nodes have other features, labels, splits or times than in the training.
    pub has_other_content: bool,
}

impl MatchedRows {
    /// Describes the match in a line; `None` if each node has the row of its number, and nothing tells that it is another
    /// node.
    ///
    /// ```
    /// use edgecut_trainer::model_file::{MatchedRows, NewEmbeddings};
    /// let start = NewEmbeddings::Mean;
    /// let mut matched =
    ///     MatchedRows { node_type: "user".into(), by_ids: true, known: 9, new: 1, gone: 2, start, lonely: 0, has_other_content: false };
    /// let line = "embeddings of user, matched by the ids of the table: 9 nodes known, 1 new (start: mean), 2 saved rows gone";
    /// assert_eq!(matched.line().as_deref(), Some(line));
    /// matched = MatchedRows { by_ids: false, new: 0, gone: 0, ..matched };
    /// assert_eq!(matched.line(), None);
    /// ```
    pub fn line(&self) -> Option<String> {
        let Self { node_type, by_ids, known, new, gone, start, lonely, has_other_content } = self;
        if !by_ids && *new == 0 && *gone == 0 && !has_other_content {
            return None;
        }
        let by = if *by_ids { "the ids of the table" } else { "row number" };
        let start = match (new, lonely) {
            (0, _) => String::new(),
            (_, 0) => format!(" (start: {start})"),
            (_, lonely) => format!(" (start: {start}, mean for {lonely} without known neighbors)"),
        };
        let doubt = if *has_other_content {
            ". Their features, labels, splits or times are not those of the training: check that the rows are in the same \
             order"
        } else {
            ""
        };
        Some(format!(
            "embeddings of {node_type}, matched by {by}: {known} nodes known, {new} new{start}, {gone} saved rows gone{doubt}"
        ))
    }
}
