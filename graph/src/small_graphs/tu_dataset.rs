//! Sets of graphs in the text format of TUDataset.

use super::{AttributeRows, GraphData, GraphDataset, OneHotLabels};
use crate::memory::Features;
use crate::readers::text::{Lines, bad_line, find_text, parse_file, quote, read_rows, whole};
use crate::{GraphError, TargetKind, Targets};
use std::path::{Path, PathBuf};

/// The suffix of the file of edges, which identifies the layout.
const EDGES: &str = "_A.txt";

/// Reads the graphs in `folder` in the format of TUDataset (Morris et al., "TUDataset: A collection of benchmark
/// datasets for learning with graphs", 2020).
///
/// | file | content |
/// |---|---|
/// | `NAME_A.txt` | an edge per line, each direction by itself, with nodes counted from 1 over all graphs |
/// | `NAME_graph_indicator.txt` | the graph of each node, counted from 1 |
/// | `NAME_graph_labels.txt` | the label of each graph |
/// | `NAME_graph_attributes.txt` | without labels: one or several numbers to predict for each graph |
/// | `NAME_node_labels.txt` | the labels of each node; optional |
/// | `NAME_node_attributes.txt` | the features of each node; optional |
/// | `NAME_edge_labels.txt` | the labels of each edge; optional |
/// | `NAME_edge_attributes.txt` | the features of each edge; optional |
///
/// Each file may be gzipped. Graphs, nodes and edges keep their order, and self loops and duplicates are kept. Labels
/// of nodes and edges are whole numbers, which become columns in ascending order. If nodes have several labels, each
/// label has its own columns.
///
/// ```
/// use edgecut_graph::small_graphs::read_tu;
/// # let dir = tempfile::tempdir()?;
/// # let folder = dir.path();
/// std::fs::write(folder.join("PAIRS_A.txt"), "1, 2\n2, 1\n3, 4\n4, 3\n")?;
/// std::fs::write(folder.join("PAIRS_graph_indicator.txt"), "1\n1\n2\n2\n")?;
/// std::fs::write(folder.join("PAIRS_graph_labels.txt"), "1\n-1\n")?;
/// let graphs = read_tu("PAIRS", folder)?;
/// assert_eq!((graphs.num_graphs(), graphs.num_edges(), graphs.classes()), (2, 4, &[-1, 1][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails for a missing or truncated file, an indicator that does not ascend, an edge between two graphs or with an
/// unknown node, and a number of labels or attributes that differs from that of graphs, nodes or edges. Each error
/// names the file, and where possible the line, counted from 1.
pub fn read_tu(name: &str, folder: &Path) -> Result<GraphDataset, GraphError> {
    let edges = find_edges(folder)?
        .ok_or_else(|| GraphError::format(folder, format!("no file ends with {EDGES}, which holds the edges")))?;
    let files = Files::beside(&edges);
    let node_offsets = read_indicator(&files.require("graph_indicator")?)?;
    let num_nodes = node_offsets[node_offsets.len() - 1] as usize;
    let [src, dst] = read_edges(&edges, &node_offsets)?;
    let graphs = RowCount { number: node_offsets.len() - 1, item: "graph", counted_by: "the indicator" };
    let nodes = RowCount { number: num_nodes, item: "node", counted_by: "the indicator" };
    let of_edges = RowCount { number: src.len(), item: "edge", counted_by: "the file of edges" };
    let mut labels = Vec::new();
    let mut targets = None;
    if let (None, Some(path)) = (files.find("graph_labels"), files.find("graph_attributes")) {
        targets = Some(read_targets(&path, graphs)?);
    } else {
        let path = files.require("graph_labels")?;
        labels = read_columns(&path, graphs)?.single(&path)?;
    }
    let nodes = read_rows_of(&files, "node", nodes)?;
    let edges = read_rows_of(&files, "edge", of_edges)?;
    GraphDataset::new(name, GraphData { node_offsets, src, dst, labels, targets, nodes, edges })
}

/// Reads the attributes and labels of nodes or edges.
fn read_rows_of(files: &Files, of: &str, rows: RowCount) -> Result<AttributeRows, GraphError> {
    let labels = files.find(&format!("{of}_labels")).map(|path| read_columns(&path, rows)).transpose()?;
    let features = files.find(&format!("{of}_attributes")).map(|path| read_attributes(&path, rows)).transpose()?;
    let labels = labels.map(LabelColumns::into_ones).filter(|labels| labels.per_row > 0);
    Ok(AttributeRows { features: features.flatten(), labels })
}

/// Returns the file of edges in a folder, if there is one. Fails if there are several.
pub(super) fn find_edges(folder: &Path) -> Result<Option<PathBuf>, GraphError> {
    let fail = |e| GraphError::io(folder, e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.strip_suffix(".gz").unwrap_or(&name).ends_with(EDGES) {
            found.push(path);
        }
    }
    match &found[..] {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        [one, other, ..] => {
            let why = format!("it contains two sets of graphs, {} and {}", one.display(), other.display());
            Err(GraphError::format(folder, why))
        }
    }
}

/// The files of a set, which share a prefix.
struct Files {
    folder: PathBuf,
    prefix: String,
}

impl Files {
    fn beside(edges: &Path) -> Self {
        let name = edges.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let prefix = name.strip_suffix(EDGES).unwrap_or(name).to_owned();
        Self { folder: edges.parent().unwrap_or(Path::new("")).to_owned(), prefix }
    }

    fn name(&self, what: &str) -> String {
        format!("{}_{what}.txt", self.prefix)
    }

    fn find(&self, what: &str) -> Option<PathBuf> {
        find_text(&self.folder, &self.name(what))
    }

    fn require(&self, what: &str) -> Result<PathBuf, GraphError> {
        self.find(what).ok_or_else(|| GraphError::format(&self.folder, format!("{} is missing", self.name(what))))
    }
}

/// Parses each line and returns the values with their line numbers. Blank lines are skipped.
fn read_lines<T: Send>(
    path: &Path,
    parse: impl Fn(&[u8]) -> Result<T, String> + Sync,
) -> Result<Vec<(usize, T)>, GraphError> {
    let line = |line: &[u8]| match line.trim_ascii() {
        b"" => Ok(Some(None)),
        line => parse(line).map(|value| Some(Some(value))),
    };
    let lines = parse_file(path, Lines(line))?.into_iter().flatten().zip(1..);
    Ok(lines.filter_map(|(value, number)| value.map(|value| (number, value))).collect())
}

/// Returns the first node of each graph, followed by the number of nodes. A graph that the indicator skips has no
/// nodes.
fn read_indicator(path: &Path) -> Result<Vec<u64>, GraphError> {
    let lines = read_lines(path, |line| whole(line, "the number of a graph"))?;
    let mut offsets = vec![0_u64];
    // A graph may have no nodes, but a stray number must not allocate billions of empty graphs.
    let limit = lines.len() as u64 + u64::from(u16::MAX);
    for (node, (line, graph)) in lines.iter().enumerate() {
        let last = offsets.len() as u64 - 1;
        let fail = |why: String| Err(bad_line(path, *line, &why));
        match *graph {
            0 => return fail("graph 0: graphs are counted from 1".into()),
            graph if graph < last => {
                return fail(format!("graph {graph} comes after graph {last}: the indicator must ascend"));
            }
            graph if graph > limit => {
                return fail(format!("graph {graph} is out of range for a set of {} nodes", lines.len()));
            }
            graph => offsets.resize(graph as usize + 1, node as u64),
        }
        if let Some(end) = offsets.last_mut() {
            *end = node as u64 + 1;
        }
    }
    match offsets.len() {
        1 => Err(GraphError::format(path, "it lists no node")),
        _ => Ok(offsets),
    }
}

/// Reads the edges. Returns sources and destinations, counted from 0 over all graphs.
fn read_edges(path: &Path, node_offsets: &[u64]) -> Result<[Vec<u32>; 2], GraphError> {
    let num_nodes = node_offsets[node_offsets.len() - 1];
    let edge = |line: &[u8]| {
        let mut ends = line.split(|&b| b == b',').map(|end| whole(end, "a node"));
        let (Some(from), Some(to), None) = (ends.next(), ends.next(), ends.next()) else {
            return Err(format!("{} is not an edge, two nodes with a comma between", quote(line)));
        };
        let from = from?;
        let to = to?;
        if let Some(node) = [from, to].into_iter().find(|node| !(1..=num_nodes).contains(node)) {
            return Err(format!("node {node} is out of range: the indicator has {num_nodes} nodes, counted from 1"));
        }
        // Graphs are counted from 1, like nodes: the start of every graph up to the node's own is below the node's
        // number.
        let graph = |node: u64| node_offsets.partition_point(|&start| start < node);
        match (graph(from), graph(to)) {
            (a, b) if a == b => Ok(((from - 1) as u32, (to - 1) as u32)),
            (a, b) => Err(format!("an edge from node {from} of graph {a} to node {to} of graph {b}")),
        }
    };
    let (src, dst) = read_lines(path, edge)?.into_iter().map(|(_, edge)| edge).unzip();
    Ok([src, dst])
}

/// The expected number of rows of a file, and its source.
#[derive(Clone, Copy)]
struct RowCount {
    number: usize,
    item: &'static str,
    counted_by: &'static str,
}

impl RowCount {
    fn check(self, path: &Path, given: usize, what: &str) -> Result<(), GraphError> {
        let Self { number, item, counted_by } = self;
        match given {
            given if given == number => Ok(()),
            given if given < number => {
                let why = format!("{what} of {item} {} are missing: {counted_by} has {number}", given + 1);
                Err(GraphError::format(path, why))
            }
            given => Err(GraphError::format(path, format!("{given} {what}, but {counted_by} has {number} {item}s"))),
        }
    }
}

/// The labels of items, one row per item.
struct LabelColumns {
    /// The labels, row-major.
    values: Vec<i64>,
    columns: usize,
}

fn read_columns(path: &Path, rows: RowCount) -> Result<LabelColumns, GraphError> {
    let number = |field: &[u8]| {
        let text = str::from_utf8(field.trim_ascii()).unwrap_or_default();
        text.parse::<i64>().map_err(|_| format!("{} is not a label, a whole number", quote(field)))
    };
    let lines = read_lines(path, |line| line.split(|&b| b == b',').map(number).collect::<Result<Vec<i64>, _>>())?;
    rows.check(path, lines.len(), "labels")?;
    let columns = lines.first().map_or(1, |(_, first)| first.len());
    if let Some((line, row)) = lines.iter().find(|(_, row)| row.len() != columns) {
        let why = format!("{} labels, but the first line has {columns}", row.len());
        return Err(bad_line(path, *line, &why));
    }
    Ok(LabelColumns { values: lines.into_iter().flat_map(|(_, row)| row).collect(), columns })
}

impl LabelColumns {
    fn single(self, path: &Path) -> Result<Vec<i64>, GraphError> {
        match self.columns {
            1 => Ok(self.values),
            columns => Err(GraphError::format(path, format!("{columns} labels per line, expected one"))),
        }
    }

    /// Converts the labels to one-hot columns, one for each distinct label of each column.
    fn into_ones(self) -> OneHotLabels {
        let mut columns = vec![0; self.values.len()];
        let mut names = Vec::new();
        for column in 0..self.columns {
            let values: Vec<i64> = self.values.iter().skip(column).step_by(self.columns).copied().collect();
            let (ranks, distinct) = ranks(&values);
            for (label, rank) in columns.iter_mut().skip(column).step_by(self.columns).zip(ranks) {
                *label = names.len() as u32 + rank;
            }
            let of_column = if self.columns == 1 { String::new() } else { format!(" in column {column}") };
            names.extend(distinct.iter().map(|label| format!("label {label}{of_column}")));
        }
        OneHotLabels { columns: columns.into(), per_row: self.columns, names }
    }
}

/// Returns the rank of each value among the distinct values, and these in ascending order.
fn ranks(values: &[i64]) -> (Vec<u32>, Vec<i64>) {
    let mut distinct = values.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    (values.iter().map(|value| distinct.partition_point(|other| other < value) as u32).collect(), distinct)
}

/// Reads the numbers to predict for each graph.
fn read_targets(path: &Path, rows: RowCount) -> Result<Targets, GraphError> {
    let (values, dim) = read_rows(path)?;
    rows.check(path, values.len().checked_div(dim).unwrap_or(0), "rows of numbers")?;
    Ok(Targets { kind: TargetKind::of(&values), values: values.into(), dim })
}

fn read_attributes(path: &Path, rows: RowCount) -> Result<Option<Features>, GraphError> {
    let (values, dim) = read_rows(path)?;
    rows.check(path, values.len().checked_div(dim).unwrap_or(0), "attributes")?;
    Ok((dim > 0).then(|| Features::F32 { values: values.into(), dim }))
}
