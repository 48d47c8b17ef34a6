//! The raw CSV layout of the Open Graph Benchmark's homogeneous node datasets.

use super::files::{
    Labels, check_num_edges, check_splits, join, node_count, read_count, read_features, read_node_labels,
    read_node_years, read_num_edges, read_splits, split_scheme,
};
use super::master::OgbProperties;
use crate::dataset::{Dataset, NodeData};
use crate::readers::row_count::RowCount;
use crate::readers::text::{EdgeEnds, find_csv, read_edges, require_csv};
use crate::{DEFAULT_NODE_TYPE, GraphError};
use std::path::{Path, PathBuf};

/// Reads a homogeneous graph from `folder` in the raw CSV layout of OGB's node property prediction datasets.
///
/// Each file is `NAME.csv.gz` or `NAME.csv`. If both exist, the compressed file is read. No file has a header.
///
/// | file | content |
/// |---|---|
/// | `raw/num-node-list` | the number of nodes |
/// | `raw/num-edge-list` | the number of edges |
/// | `raw/edge` | `source,destination` per line, ids from 0 |
/// | `raw/node-feat` | a row of numbers per node; optional |
/// | `raw/node-label` | a class per node; `nan`, `-1` or empty if unlabeled. Or several labels per node, 0 or 1, or numbers; `nan` or empty if unknown; optional |
/// | `raw/node_year` | a time per node, a whole number; optional |
/// | `raw/edge-feat` | a row of numbers per edge; optional |
/// | `split/SCHEME/{train,valid,test}` | a node id per line, in any order; optional |
///
/// OGB's loader adds the inverse of each edge to some graphs, such as ogbn-products, whose files hold each edge once.
/// This function does the same, for datasets of OGB's names and those with `add_inverse_edge` in a `master.csv` in
/// `folder` or beside it. Other files are ignored. If `split/` has a single scheme, `split` may be `None`. Files are
/// decompressed concurrently, most of them on a thread of their own. Edges keep the order of the file.
///
/// # Errors
/// Fails if a file is missing or truncated, if a count contradicts another file, if the split scheme does not exist or
/// is ambiguous, and for any bad line: an id out of range, a value that is not a finite number, or a row of another
/// length, and if nodes have another number of labels than OGB gives them, such as 112 in ogbn-proteins. Each error names
/// the file and the line, counted from 1.
pub fn read_ogb(name: &str, folder: &Path, split: Option<&str>) -> Result<Dataset, GraphError> {
    let raw = folder.join("raw");
    let edge_file = edge_file(&raw)?;
    let (num_nodes, node_file) = read_count(&raw, "num-node-list")?;
    let nodes = RowCount::nodes(node_count(num_nodes, &node_file, "the graph")?);
    let (edges, count_file) = read_num_edges(&raw)?;
    let scheme = split_scheme(folder, split)?;
    let properties = OgbProperties::find(name, folder)?;

    std::thread::scope(|scope| {
        let features = scope.spawn(|| read_features(&raw, "node-feat", nodes));
        let edge_features = scope.spawn(|| read_features(&raw, "edge-feat", edges));
        let labels = scope.spawn(|| read_node_labels(&raw, nodes));
        let splits = scope.spawn(|| scheme.as_deref().map(|dir| read_splits(dir, nodes)).transpose());
        let EdgeEnds { src, dst } = read_edges(&edge_file, nodes, nodes)?;
        check_num_edges(&edge_file, src.len(), edges, &count_file)?;

        let labels = join(labels)?;
        properties.check_num_labels(folder, "node-label", &labels)?;
        let Labels { labels, num_classes, targets } = labels;
        let mut node_data = NodeData {
            name: DEFAULT_NODE_TYPE.into(),
            num_nodes: nodes.number,
            features: join(features)?,
            num_classes,
            labels,
            targets,
            times: read_node_years(&raw, nodes)?,
            ..NodeData::default()
        };
        node_data.splits = check_splits(join(splits)?)?;
        let mut dataset = Dataset::homogeneous(name, node_data, src.into(), dst.into());
        dataset.edge_types[0].attributes.features = join(edge_features)?;
        if properties.adds_inverse_edges {
            dataset.add_inverse_edges();
        }
        Ok(dataset)
    })
}

/// Returns `raw/edge.csv.gz`, or an error that recognizes OGB's other layouts.
fn edge_file(raw: &Path) -> Result<PathBuf, GraphError> {
    require_csv(raw, "edge").map_err(|absent| {
        let other = if raw.join("relations").exists() || find_csv(raw, "num-node-dict").is_some() {
            "it is a heterogeneous graph of OGB; read_ogb_hetero reads those"
        } else if raw.join("data.npz").exists() {
            "it is in OGB's binary layout; read_ogb_binary reads that"
        } else {
            return absent;
        };
        GraphError::format(raw, other)
    })
}
