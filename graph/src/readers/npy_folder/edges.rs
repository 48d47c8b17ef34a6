//! The edge files in a folder of `.npy` arrays.

use super::attributes::{read_features, read_times, read_weights};
use super::edge_labels::read_edge_labels;
use super::files::{
    EDGE_INDEX_FILE, TEST_EDGE_FILE, TEST_NEGATIVE_FILE, TEST_SHARED_FILE, TEST_TIME_FILE, VALID_EDGE_FILES,
    VALID_NEGATIVE_FILES, VALID_SHARED_FILES, VALID_TIME_FILES, only_file,
};
use super::integers::Integers;
use crate::dataset::{EdgeAttributes, EdgeData, EdgeList, GivenNegatives, HeldOutEdges};
use crate::memory::Workspace;
use crate::readers::row_count::RowCount;
use crate::readers::seen_ids::SeenIds;
use crate::{GraphError, NodeTypeId};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The edge lists of one type.
pub(in crate::readers) struct EdgeFiles {
    folder: PathBuf,
    edges: EdgeIndex,
    valid: Option<EdgeIndex>,
    test: Option<EdgeIndex>,
}

impl EdgeFiles {
    /// Opens the edge lists in `folder`. Only the training edges are required.
    pub(in crate::readers) fn open(folder: &Path) -> Result<Self, GraphError> {
        let edges = EdgeIndex::open(folder.join(EDGE_INDEX_FILE))?;
        let valid = only_file(VALID_EDGE_FILES.iter().map(|name| folder.join(name)))?;
        let test = only_file(std::iter::once(folder.join(TEST_EDGE_FILE)))?;
        let open = |path: Option<PathBuf>| path.map(EdgeIndex::open).transpose();
        Ok(Self { folder: folder.into(), edges, valid: open(valid)?, test: open(test)? })
    }

    /// Returns the number of nodes that the ids of all edges name.
    ///
    /// # Errors
    /// An id that is too large for the number of edges.
    pub(super) fn count_nodes(&self) -> Result<i64, GraphError> {
        let mut seen = SeenIds::default();
        for list in [Some(&self.edges), self.valid.as_ref(), self.test.as_ref()].into_iter().flatten() {
            seen.add(&list.path, list.ends.max()?, list.ends.len());
        }
        seen.count("save num_nodes.npy with the number of nodes")
    }

    /// Reads the edges between nodes of `types`, with their attributes and held-out edges. `counts` are the numbers of
    /// nodes of both types. The training edges and their attributes are in `space`.
    pub(in crate::readers) fn read(
        &self,
        space: &Workspace,
        [src_type, dst_type]: [NodeTypeId; 2],
        relation: &str,
        counts: [RowCount; 2],
    ) -> Result<EdgeData, GraphError> {
        let EdgeList { src, dst, .. } = self.edges.read(space, counts)?;
        let num_edges = RowCount::edges(src.len());
        let file = |name: &str| self.folder.join(name);
        let attributes = EdgeAttributes {
            features: read_features(space, &file("edge_attr.npy"), num_edges)?,
            weights: read_weights(space, &file("edge_weight.npy"), num_edges)?,
            times: read_times(space, &file("edge_time.npy"), num_edges)?,
            labels: read_edge_labels(space, &self.folder, num_edges)?,
            ids: None,
        };
        let held_out = HeldOutEdges {
            valid: self.read_held_out(self.valid.as_ref(), &VALID_FILES, counts)?,
            test: self.read_held_out(self.test.as_ref(), &TEST_FILES, counts)?,
        };
        held_out.check_times().map_err(|why| GraphError::format(&self.folder, why))?;
        Ok(EdgeData { src_type, relation: relation.into(), dst_type, src, dst, attributes, held_out })
    }

    /// Reads the held-out edges of `list`, if it exists, with their times and negatives.
    fn read_held_out(
        &self,
        list: Option<&EdgeIndex>,
        files: &HeldOutFiles,
        counts: [RowCount; 2],
    ) -> Result<EdgeList, GraphError> {
        let find = |names: &[&str]| only_file(names.iter().map(|name| self.folder.join(name)));
        let times_file = find(files.times)?;
        let negatives_file =
            only_file([files.negatives, files.shared].concat().iter().map(|name| self.folder.join(name)))?;
        match (list, times_file.as_ref().or(negatives_file.as_ref())) {
            (None, None) => Ok(EdgeList::default()),
            (None, Some(path)) => Err(GraphError::format(
                path,
                "the held-out edges of these values are missing: save their edge index as well",
            )),
            (Some(list), _) => {
                let edges = list.read(&Workspace::default(), counts)?;
                let of_edges = RowCount::held_out_edges(edges.len(), &list.path);
                let times =
                    times_file.map(|path| read_times(&Workspace::default(), &path, of_edges)).transpose()?.flatten();
                let is_shared = find(files.shared)?.is_some();
                if let Some(path) = negatives_file.as_ref().filter(|_| edges.is_empty()) {
                    let edges = list.path.display();
                    let why = format!("{edges} has no edges that these negatives belong to: remove one of them");
                    return Err(GraphError::format(path, why));
                }
                let negatives =
                    negatives_file.map(|path| read_negatives(path, is_shared, edges.len(), counts)).transpose()?;
                Ok(EdgeList { times, negatives, ..edges })
            }
        }
    }
}

/// The names of the files of one split's held-out edges.
struct HeldOutFiles {
    times: &'static [&'static str],
    /// Negatives of each edge.
    negatives: &'static [&'static str],
    /// Negative pairs of all edges.
    shared: &'static [&'static str],
}

const VALID_FILES: HeldOutFiles =
    HeldOutFiles { times: &VALID_TIME_FILES, negatives: &VALID_NEGATIVE_FILES, shared: &VALID_SHARED_FILES };
const TEST_FILES: HeldOutFiles =
    HeldOutFiles { times: &[TEST_TIME_FILE], negatives: &[TEST_NEGATIVE_FILE], shared: &[TEST_SHARED_FILE] };

/// Reads the negatives of `num_edges` held-out edges: shared pairs, `[2, M]`, or destinations of each, `[num_edges, K]`.
fn read_negatives(
    path: PathBuf,
    is_shared: bool,
    num_edges: usize,
    counts: [RowCount; 2],
) -> Result<GivenNegatives, GraphError> {
    if is_shared {
        let EdgeList { src, dst, .. } = EdgeIndex::open(path.clone())?.read(&Workspace::default(), counts)?;
        if src.is_empty() {
            return Err(GraphError::format(path, "it has no pairs: remove it, or save negatives"));
        }
        return Ok(GivenNegatives::Shared { src, dst });
    }
    let (shape, ids) = Integers::open(&path)?;
    let num = match shape[..] {
        [rows, num] if rows == num_edges && num > 0 => num,
        _ => {
            let why = format!(
                "its shape is {shape:?}, expected [{num_edges}, K]: K destinations for each held-out edge. Negative \
                 pairs that all edges share belong in a file that ends with _edge_neg.npy"
            );
            return Err(GraphError::format(path, why));
        }
    };
    let Some(dst) = ids.to_checked_ids(0..ids.len(), counts[1].number)? else {
        let at = ids.position(|id| !(0..counts[1].number as i64).contains(&id))?.unwrap_or(0);
        let why = format!(
            "negative {} of edge {} is node {}, which is out of range: {}",
            at % num,
            at / num,
            ids.get(at)?,
            counts[1]
        );
        return Err(GraphError::format(path, why));
    };
    Ok(GivenNegatives::OfEach { num, dst: dst.into() })
}

/// An edge list in a file: a row of sources and a row of destinations.
struct EdgeIndex {
    path: PathBuf,
    ends: Integers,
}

impl EdgeIndex {
    fn open(path: PathBuf) -> Result<Self, GraphError> {
        let (shape, ends) = Integers::open(&path)?;
        let why = match shape[..] {
            [2, _] => return Ok(Self { path, ends }),
            [_, 2] => {
                format!("its shape is {shape:?}, expected [2, E]; save numpy.ascontiguousarray(edge_index.T)")
            }
            _ => format!("its shape is {shape:?}, expected [2, E]"),
        };
        Err(GraphError::format(path, why))
    }

    /// Converts the edges and checks that their ends are below `counts`.
    fn read(&self, space: &Workspace, counts: [RowCount; 2]) -> Result<EdgeList, GraphError> {
        space.check_pieces(&self.path, self.ends.has_pieces())?;
        let num_edges = self.ends.len() / 2;
        let ids = |range, end: usize| self.ends.to_checked_ids_in(space, range, counts[end].number);
        if let (Some(src), Some(dst)) = (ids(0..num_edges, 0)?, ids(num_edges..2 * num_edges, 1)?) {
            return Ok(EdgeList::new(src, dst));
        }
        // Only after the fast check has failed is the first bad entry searched for.
        let first_wrong = |range: Range<usize>, end: usize| {
            self.ends.position_in(range, |id| !(0..counts[end].number as i64).contains(&id))
        };
        let wrong_src = first_wrong(0..num_edges, 0)?;
        let at = wrong_src.map_or_else(|| first_wrong(num_edges..2 * num_edges, 1), |at| Ok(Some(at)))?.unwrap_or(0);
        let end = ["source", "destination"][at / num_edges];
        let nodes = counts[at / num_edges];
        let edge = at % num_edges;
        let node = self.ends.get(at)?;
        let why = format!("the {end} of edge {edge} is node {node}, which is out of range: {nodes}");
        Err(GraphError::format(&self.path, why))
    }
}
