//! The ids of nodes in their tables, from the id maps of parts.

use crate::id_map_file::{UserColumn, UserIds};
use edgecut_graph::{NodeTypeId, Part, TableIdSource, TableIds, TextIds};
use std::io;
use std::path::PathBuf;

/// The id maps in the folder of the parts.
pub(super) struct IdMapFiles {
    pub(super) root: PathBuf,
}

impl TableIdSource for IdMapFiles {
    fn read(&self, part: &Part, node_type: NodeTypeId) -> io::Result<TableIds> {
        let meta = part.meta();
        let mut numbers = Vec::new();
        let mut texts = TextIds::default();
        // One file at a time, since a column of texts takes several times the memory of its texts.
        for on_disk in part.parts_on_disk() {
            let nodes = meta.book_on_disk(node_type).range(on_disk);
            if nodes.is_empty() {
                continue;
            }
            let ids = UserIds::open(&self.root, part, node_type, nodes.start..nodes.start + 1);
            let nodes: Vec<u32> = nodes.collect();
            let column = ids.and_then(|ids| ids.map(|ids| ids.of(&nodes)).transpose());
            match column.map_err(|error| io::Error::other(format!("{error:#}")))? {
                None => {}
                Some(UserColumn::Numbers(ids)) => numbers.extend(ids),
                Some(UserColumn::Texts(ids)) => ids.iter().for_each(|id| texts.push(id.data())),
            }
        }
        if texts.num_texts() == 0 {
            return Ok(TableIds::Numbers(numbers));
        }
        if numbers.is_empty() {
            return Ok(TableIds::Texts(texts));
        }
        let what = "the ids of the nodes are numbers in some parts and texts in others: partition the graph again";
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }
}
