//! The names of the columns of features.

use super::args::PredictArgs;
use super::class_names::check_file;
use anyhow::Context;
use edgecut_graph::{GraphDataset, Meta};
use edgecut_tables::Transforms;
use edgecut_trainer::inference::ExplainedInput;

/// The names of the columns of the features of all types.
pub(super) struct FeatureNames {
    /// By node type.
    nodes: Vec<TypeNames>,
    /// By edge type.
    edges: Vec<TypeNames>,
}

/// The name of a type, and the names of the columns of its features; empty if tables do not name them.
struct TypeNames {
    name: String,
    columns: Vec<String>,
    feature_dim: usize,
}

impl FeatureNames {
    /// Reads the names on rank 0, for which `is_first` is true, if the tables of the graph have some. The other ranks write
    /// none.
    pub(super) fn read(args: &PredictArgs, meta: &Meta, is_first: bool) -> anyhow::Result<Self> {
        let mut transforms = Transforms::default();
        if let Some(root) = args.part.dataset_root_dir.as_deref()
            && is_first
            && meta.has_transforms
        {
            check_file(Some(root), meta)?;
            transforms = Transforms::read(root).context("read the names of features")?;
        }
        let mut nodes = Vec::with_capacity(meta.node_types.len());
        for of_type in &meta.node_types {
            let columns = transforms.node_columns(&of_type.name);
            nodes.push(TypeNames { name: of_type.name.clone(), columns, feature_dim: of_type.feature_dim });
        }
        let mut edges = Vec::with_capacity(meta.edge_types.len());
        for of_type in &meta.edge_types {
            let name = of_type.full_name();
            let mut columns = transforms.edge_columns(&name);
            if let (true, Some(forward)) = (columns.is_empty(), of_type.names().forward()) {
                // An added reverse type has the features of its edges.
                columns = transforms.edge_columns(&forward.full_name());
            }
            edges.push(TypeNames { name, columns, feature_dim: of_type.feature_dim });
        }
        Ok(Self { nodes, edges })
    }

    /// Returns the names of a set of small graphs, whose columns have none.
    pub(super) fn of_graphs(graphs: &GraphDataset) -> Self {
        let nodes = TypeNames { name: "node".into(), columns: Vec::new(), feature_dim: graphs.feature_dim() };
        let edges = TypeNames { name: "edge".into(), columns: Vec::new(), feature_dim: graphs.edge_dim() };
        Self { nodes: vec![nodes], edges: vec![edges] }
    }

    /// Returns the name of the type of a node or an edge.
    pub(super) fn type_of(&self, input: ExplainedInput) -> &str {
        &self.of(input).name
    }

    /// Returns the name of a column; empty for all columns together.
    pub(super) fn column(&self, input: ExplainedInput, column: Option<u32>) -> String {
        let of_type = self.of(input);
        let Some(column) = column.map(|column| column as usize) else { return String::new() };
        if column >= of_type.feature_dim {
            return "embedding".to_owned();
        }
        of_type.columns.get(column).cloned().unwrap_or_else(|| format!("feature[{column}]"))
    }

    fn of(&self, input: ExplainedInput) -> &TypeNames {
        match input {
            ExplainedInput::Node(node_type, _) => &self.nodes[node_type.index()],
            ExplainedInput::Edge(edge_type, ..) => &self.edges[edge_type.index()],
        }
    }
}
