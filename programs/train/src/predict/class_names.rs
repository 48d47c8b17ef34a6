//! The column of the names of classes.

use super::args::PredictArgs;
use super::files::NamedColumns;
use super::values::Values;
use crate::class_names;
use crate::id_map_file::UserColumn;
use anyhow::bail;
use edgecut_cluster::ProcessGroup;
use edgecut_graph::{EdgeTypeId, GraphDataset, Meta, NodeTypeId, TRANSFORMS_FILE};
use parquet::data_type::ByteArray;
use std::path::Path;

/// The name of the column.
const CLASS_NAME: &str = "class_name";

/// The names of the classes of a node type, a relation or whole graphs.
pub(super) struct ClassNames(Vec<String>);

impl ClassNames {
    /// Reads the names of the classes of nodes on rank 0, if the tables of the graph name them. Every rank must call this.
    pub(super) fn of_nodes(
        args: &PredictArgs,
        meta: &Meta,
        node_type: NodeTypeId,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<Self>> {
        Self::of_label(args, meta, (node_type, meta.node_types[node_type.index()].label_name.as_deref()), world)
    }

    /// Like [`of_nodes`](Self::of_nodes), for a label that may be one of several.
    pub(super) fn of_label(
        args: &PredictArgs,
        meta: &Meta,
        label: (NodeTypeId, Option<&str>),
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<Self>> {
        let root = args.part.dataset_root_dir.as_deref();
        let names = class_names::of_first_rank(world, || {
            check_file(root, meta)?;
            class_names::of_label(root, meta, label.0, label.1)
        });
        Ok(names?.map(Self))
    }

    /// Like [`of_nodes`](Self::of_nodes), for edges.
    pub(super) fn of_edges(
        args: &PredictArgs,
        meta: &Meta,
        edge_type: EdgeTypeId,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<Self>> {
        let root = args.part.dataset_root_dir.as_deref();
        let names = class_names::of_first_rank(world, || {
            check_file(root, meta)?;
            class_names::of_edges(root, meta, edge_type)
        });
        Ok(names?.map(Self))
    }

    /// Returns the labels of whole graphs in their files, unless they are the numbers of the classes.
    pub(super) fn of_graphs(graphs: &GraphDataset) -> Option<Self> {
        class_names::of_graphs(graphs).map(Self)
    }

    /// Returns the name of each class.
    pub(super) fn names(&self) -> &[String] {
        &self.0
    }

    /// Adds the empty column of the names to others.
    pub(super) fn add_to(names: Option<&Self>, columns: &mut NamedColumns) {
        columns.extend(names.map(|_| (CLASS_NAME, UserColumn::Texts(Vec::new()))));
    }

    /// Returns the names of classes; empty for nodes without a prediction.
    pub(super) fn of(&self, values: &Values) -> UserColumn {
        let classes = match values {
            Values::Classes(classes) => &classes[..],
            Values::Numbers(_) => &[],
        };
        let mut names = Vec::with_capacity(classes.len());
        for class in classes {
            let name = usize::try_from(*class).ok().and_then(|class| self.0.get(class));
            names.push(ByteArray::from(name.map_or("", String::as_str)));
        }
        UserColumn::Texts(names)
    }
}

/// Checks that the parts of tables have the file with names on this machine, which only rank 0 reads.
pub(super) fn check_file(root: Option<&Path>, meta: &Meta) -> anyhow::Result<()> {
    let Some(path) = root.filter(|_| meta.has_transforms).map(|root| root.join(TRANSFORMS_FILE)) else { return Ok(()) };
    if path.exists() {
        return Ok(());
    }
    bail!(
        "{}: the file with the names of classes and features is missing: copy it from the parts to this machine, node 0",
        path.display()
    )
}
