//! The raw CSV layout of the Open Graph Benchmark's heterogeneous node datasets, such as ogbn-mag.

use super::files::{
    Labels, check_num_edges, check_splits, join, node_count, read_features, read_node_labels, read_node_years,
    read_num_edges, read_splits, split_scheme,
};
use super::master::OgbProperties;
use crate::dataset::{Dataset, EdgeData, NodeData};
use crate::readers::row_count::RowCount;
use crate::readers::text::{EdgeEnds, read_edges, read_fields, require_csv};
use crate::{GraphError, NodeTypeId, parallel};
use std::path::Path;

/// The file that identifies this layout.
pub(in crate::readers) const TRIPLETS: &str = "triplet-type-list";

/// Reads a heterogeneous graph from `folder` in the raw CSV layout of OGB's heterogeneous node property prediction
/// datasets.
///
/// Each file is `NAME.csv.gz` or `NAME.csv`. If both exist, the compressed file is read.
///
/// | file | content |
/// |---|---|
/// | `raw/num-node-dict` | a line of node types and a line with the number of nodes of each |
/// | `raw/triplet-type-list` | `source type,relation,destination type` per line |
/// | `raw/relations/SRC___REL___DST/edge` | `source,destination` per line, ids from 0 within their types |
/// | `raw/relations/SRC___REL___DST/num-edge-list` | the number of edges |
/// | `raw/relations/SRC___REL___DST/edge-feat` | a row of numbers per edge; optional |
/// | `raw/node-feat/TYPE/node-feat` | a row of numbers per node; optional |
/// | `raw/node-feat/TYPE/node_year` | a time per node, a whole number; optional |
/// | `raw/node-label/TYPE/node-label` | a class per node; `nan`, `-1` or empty if unlabeled. Or several labels or numbers per node; optional |
/// | `split/SCHEME/TYPE/{train,valid,test}` | a node id per line, in any order; optional |
///
/// Other files, such as `nodetype-has-feat` and `edge_reltype`, are ignored: a file above is read if it exists. If
/// `split/` has a single scheme, `split` may be `None`. Types and edges keep the order of their files.
///
/// # Errors
/// As [`read_ogb`](super::read_ogb), also for the number of labels of each type, and for duplicate node types or triplets, triplets with an unknown type, and a
/// `master.csv` whose `add_inverse_edge` is true.
pub fn read_ogb_hetero(name: &str, folder: &Path, split: Option<&str>) -> Result<Dataset, GraphError> {
    let properties = OgbProperties::find(name, folder)?;
    if properties.adds_inverse_edges {
        let why = format!(
            "add_inverse_edge of {name} in master.csv is True, which is not read for heterogeneous graphs; set it to False \
             and use --add-reverse-edges"
        );
        return Err(GraphError::format(folder, why));
    }
    let raw = folder.join("raw");
    let counts = node_counts(&raw)?;
    let triplets = triplets(&raw, &counts)?;
    let scheme = split_scheme(folder, split)?;
    std::thread::scope(|scope| {
        // Files are decompressed concurrently.
        let nodes = scope.spawn(|| {
            let read = |at: usize| {
                let nodes = RowCount::nodes_of_type(counts[at].1, &counts[at].0);
                let place = format!("node-label/{}", counts[at].0);
                let labels = read_node_labels(&raw.join(&place), nodes)?;
                properties.check_num_labels(folder, &place, &labels)?;
                node_type(&raw, scheme.as_deref(), &counts[at].0, labels, nodes)
            };
            parallel::try_collect(counts.len(), &read)
        });
        let edges = parallel::try_collect(triplets.len(), &|at| edge_type(&raw, &counts, &triplets[at]));
        let node_types = join(nodes)?;
        Ok(Dataset { name: name.into(), node_types, edge_types: edges? })
    })
}

/// Reads the names of the node types and their numbers of nodes.
fn node_counts(raw: &Path) -> Result<Vec<(String, usize)>, GraphError> {
    let path = require_csv(raw, "num-node-dict")?;
    let lines = read_fields(&path)?;
    let [names, counts] = &lines[..] else {
        let why = format!("it has {} lines, expected the node types and the number of nodes of each", lines.len());
        return Err(GraphError::format(path, why));
    };
    if names.len() != counts.len() {
        return Err(GraphError::format(path, format!("it names {} types, but counts {}", names.len(), counts.len())));
    }
    let mut types: Vec<(String, usize)> = Vec::with_capacity(names.len());
    for (name, count) in names.iter().zip(counts) {
        let Ok(number) = count.parse() else {
            return Err(GraphError::format(path, format!("{count:?} is not the number of nodes of type {name}")));
        };
        if types.iter().any(|(known, _)| known == name) {
            return Err(GraphError::format(path, format!("node type {name} is listed twice")));
        }
        types.push((name.clone(), node_count(number, &path, &format!("type {name}"))?));
    }
    Ok(types)
}

/// An edge type, with its node types by position.
struct Triplet {
    src: usize,
    relation: String,
    dst: usize,
}

fn triplets(raw: &Path, types: &[(String, usize)]) -> Result<Vec<Triplet>, GraphError> {
    let path = require_csv(raw, TRIPLETS)?;
    let mut triplets: Vec<Triplet> = Vec::new();
    for (line, fields) in read_fields(&path)?.into_iter().enumerate() {
        let fail = |why: String| Err(GraphError::format(&path, format!("line {}: {why}", line + 1)));
        let [src, relation, dst] = &fields[..] else {
            return fail(format!("{} fields, expected a source type, a relation and a destination type", fields.len()));
        };
        let find = |name: &String| types.iter().position(|(known, _)| known == name);
        let (Some(from), Some(to)) = (find(src), find(dst)) else {
            let unknown = if find(src).is_none() { src } else { dst };
            return fail(format!("there is no node type {unknown}"));
        };
        if triplets.iter().any(|t| (t.src, &t.relation, t.dst) == (from, relation, to)) {
            return fail(format!("edge type {src},{relation},{dst} is listed twice"));
        }
        triplets.push(Triplet { src: from, relation: relation.clone(), dst: to });
    }
    Ok(triplets)
}

fn node_type(
    raw: &Path,
    scheme: Option<&Path>,
    name: &str,
    labels: Labels,
    nodes: RowCount,
) -> Result<NodeData, GraphError> {
    let Labels { labels, num_classes, targets } = labels;
    let feature_dir = raw.join("node-feat").join(name);
    let splits = scheme.map(|scheme| scheme.join(name)).filter(|dir| dir.is_dir());
    let splits = splits.map(|dir| read_splits(&dir, nodes)).transpose()?;
    let mut data = NodeData {
        name: name.into(),
        num_nodes: nodes.number,
        features: read_features(&feature_dir, "node-feat", nodes)?,
        num_classes,
        labels,
        targets,
        times: read_node_years(&feature_dir, nodes)?,
        ..NodeData::default()
    };
    data.splits = check_splits(splits)?;
    Ok(data)
}

fn edge_type(raw: &Path, types: &[(String, usize)], triplet: &Triplet) -> Result<EdgeData, GraphError> {
    let Triplet { src, relation, dst } = triplet;
    let (src_name, num_sources) = &types[*src];
    let (dst_name, num_destinations) = &types[*dst];
    let dir = raw.join("relations").join(format!("{src_name}___{relation}___{dst_name}"));
    let file = require_csv(&dir, "edge")?;
    let (expected, count_file) = read_num_edges(&dir)?;
    let sources = RowCount::nodes_of_type(*num_sources, src_name);
    let destinations = RowCount::nodes_of_type(*num_destinations, dst_name);
    let EdgeEnds { src: sources, dst: destinations } = read_edges(&file, sources, destinations)?;
    check_num_edges(&file, sources.len(), expected, &count_file)?;
    let src_type = NodeTypeId(*src as u16);
    let dst_type = NodeTypeId(*dst as u16);
    let mut edges = EdgeData::new(src_type, relation, dst_type, sources.into(), destinations.into());
    edges.attributes.features = read_features(&dir, "edge-feat", expected)?;
    Ok(edges)
}
