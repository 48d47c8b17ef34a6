//! The column of the names of classes.

use super::args::PredictArgs;
use super::files::NamedColumns;
use super::values::{Form, Values};
use crate::class_names;
use crate::user_ids::UserColumn;
use edgecut_graph::{EdgeTypeId, Meta, NodeTypeId};
use parquet::data_type::ByteArray;

/// The name of the column.
const CLASS_NAME: &str = "class_name";

/// The names of the classes of a node type or relation.
pub(super) struct ClassNames(Vec<String>);

impl ClassNames {
    /// Reads the names of the classes of nodes, if classes are written and the tables of the graph name them.
    pub(super) fn of_nodes(
        args: &PredictArgs,
        meta: &Meta,
        node_type: NodeTypeId,
        form: Form,
    ) -> anyhow::Result<Option<Self>> {
        Self::of_label(args, meta, node_type, meta.node_types[node_type.index()].label_name.as_deref(), form)
    }

    /// Like [`of_nodes`](Self::of_nodes), for a label that may be one of several.
    pub(super) fn of_label(
        args: &PredictArgs,
        meta: &Meta,
        node_type: NodeTypeId,
        label: Option<&str>,
        form: Form,
    ) -> anyhow::Result<Option<Self>> {
        if form != Form::Class {
            return Ok(None);
        }
        Ok(class_names::of_label(args.part.dataset_root_dir.as_deref(), meta, node_type, label)?.map(Self))
    }

    /// Like [`of_nodes`](Self::of_nodes), for edges.
    pub(super) fn of_edges(
        args: &PredictArgs,
        meta: &Meta,
        edge_type: EdgeTypeId,
        form: Form,
    ) -> anyhow::Result<Option<Self>> {
        if form != Form::Class {
            return Ok(None);
        }
        Ok(class_names::of_edges(args.part.dataset_root_dir.as_deref(), meta, edge_type)?.map(Self))
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
