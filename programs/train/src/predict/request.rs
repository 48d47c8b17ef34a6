//! The kind of a prediction, which the flags determine.

use super::args::{PredictArgs, Rows};
use crate::saved_model::Items;

/// The rows that a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Rows of nodes.
    Nodes,
    /// Rows of edges.
    Edges,
    /// The inputs that predictions of nodes or edges rest on.
    Explanations,
    /// The inputs that predictions of whole graphs rest on.
    GraphExplanations,
    /// Rows of whole graphs.
    Graphs,
    /// Scores of node pairs.
    Pairs,
    /// The best destinations of sources.
    TopK,
    /// A learned embedding table.
    Table,
    /// The relation vectors of a decoder.
    Relations,
}

impl Request {
    pub(super) fn of(args: &PredictArgs) -> Self {
        if args.explain {
            return if args.graphs.is_some() { Self::GraphExplanations } else { Self::Explanations };
        }
        match args.output {
            Rows::Score => Self::Pairs,
            Rows::TopK => Self::TopK,
            Rows::Table => Self::Table,
            Rows::Relation => Self::Relations,
            Rows::Prediction | Rows::Class | Rows::Probability | Rows::Logit | Rows::Embedding => {
                match (&args.graphs, args.edges) {
                    (Some(_), _) => Self::Graphs,
                    (None, Some(_)) => Self::Edges,
                    (None, None) => Self::Nodes,
                }
            }
        }
    }

    /// Returns true if the parts of a graph are read.
    pub(super) fn reads_parts(self) -> bool {
        matches!(self, Self::Nodes | Self::Edges | Self::Explanations | Self::Pairs | Self::TopK)
    }

    /// Returns the items whose models have such rows.
    pub(super) fn items(self, args: &PredictArgs) -> Items {
        match self {
            Self::Edges => Items::Edges,
            Self::Explanations if args.edges.is_some() => Items::Edges,
            Self::Nodes | Self::Explanations | Self::Table => Items::Nodes,
            Self::Graphs | Self::GraphExplanations => Items::Graphs,
            Self::Pairs | Self::TopK | Self::Relations => Items::Links,
        }
    }

    /// Returns the flags that make this request, for errors.
    pub(super) fn flags(self) -> &'static str {
        match self {
            Self::Nodes => "rows of nodes (--output prediction, class, probability, logit or embedding)",
            Self::Edges => "rows of edges (--edges with --output prediction, class, probability or logit)",
            Self::Explanations => "--explain",
            Self::GraphExplanations => "--explain --graphs",
            Self::Graphs => {
                "rows of graphs (--graphs with --output prediction, class, probability, logit or embedding)"
            }
            Self::Pairs => "--output score",
            Self::TopK => "--output top-k",
            Self::Table => "--output table",
            Self::Relations => "--output relation",
        }
    }
}
