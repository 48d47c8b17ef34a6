//! Parsers of OGB's CSV files: edges, labels, times and node ids.

use super::blocks::{BadLine, BlockParser, after_line, line_at, parse_file};
use super::lines::{Lines, concat};
use super::numbers::{leading_digits, quote, whole};
use crate::GraphError;
use crate::readers::row_count::RowCount;
use std::path::Path;

/// The ends of edges, in the order of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EdgeEnds {
    /// The source of each edge.
    pub(crate) src: Vec<u32>,
    /// The destination of each edge.
    pub(crate) dst: Vec<u32>,
}

/// Reads `source,destination` lines. Blank lines are skipped.
///
/// # Errors
/// Fails for a line that is not a pair of ids in the range of `sources` and of `destinations`.
pub(crate) fn read_edges(path: &Path, sources: RowCount, destinations: RowCount) -> Result<EdgeEnds, GraphError> {
    let parser = EdgeParser { sources, destinations };
    let (src, dst): (Vec<_>, Vec<_>) = parse_file(path, parser)?.into_iter().map(|ends| (ends.src, ends.dst)).unzip();
    Ok(EdgeEnds { src: concat(src), dst: concat(dst) })
}

/// Reads a class per line: a whole number, or `nan`, -1 or a blank line for -1, which is "unlabeled". Blank lines past
/// `num_nodes` belong to the end of the file.
///
/// # Errors
/// Fails for a line that is not a class, and for several columns.
pub(crate) fn read_labels(path: &Path, num_nodes: usize) -> Result<Vec<i64>, GraphError> {
    let mut labels = concat(parse_file(path, Lines(|line: &[u8]| label(line).map(Some)))?);
    while labels.len() > num_nodes && labels.last() == Some(&None) {
        labels.pop();
    }
    Ok(labels.into_iter().map(|label| label.unwrap_or(-1)).collect())
}

/// Reads a node id per line, in the order of the file. Blank lines are skipped.
///
/// # Errors
/// Fails for a line that is not an id in the range of `nodes`.
pub(crate) fn read_ids(path: &Path, nodes: RowCount) -> Result<Vec<u32>, GraphError> {
    let id = |line: &[u8]| match line.trim_ascii() {
        b"" => Ok(None),
        line => node_id(line, "node", nodes).map(Some),
    };
    Ok(concat(parse_file(path, Lines(id))?))
}

/// Reads a time per line: a whole number, which may have zeros as decimals. Blank lines are skipped.
///
/// # Errors
/// Fails for a line that is not a whole number.
pub(crate) fn read_times(path: &Path) -> Result<Vec<i64>, GraphError> {
    Ok(concat(parse_file(path, Lines(time))?))
}

/// Reads the comma-separated fields of each line as text. Blank lines are skipped.
pub(crate) fn read_fields(path: &Path) -> Result<Vec<Vec<String>>, GraphError> {
    let fields = |line: &[u8]| match line.trim_ascii() {
        b"" => Ok(None),
        line => match str::from_utf8(line) {
            Ok(line) => Ok(Some(line.split(',').map(|field| field.trim().to_owned()).collect())),
            Err(_) => Err(format!("{} is not UTF-8", quote(line))),
        },
    };
    Ok(parse_file(path, Lines(fields))?.into_iter().flatten().collect())
}

/// Reads a whole number per line. Blank lines are skipped.
pub(crate) fn read_counts(path: &Path) -> Result<Vec<u64>, GraphError> {
    let count = |line: &[u8]| match line.trim_ascii() {
        b"" => Ok(None),
        line => whole(line, "a count").map(Some),
    };
    Ok(concat(parse_file(path, Lines(count))?))
}

fn node_id(field: &[u8], role: &str, nodes: RowCount) -> Result<u32, String> {
    let id = whole(field, "a node id")?;
    if id >= nodes.number as u64 {
        return Err(format!("{role} {id} is out of range: {nodes}"));
    }
    Ok(id as u32)
}

fn time(line: &[u8]) -> Result<Option<i64>, String> {
    /// Up to this bound, `f64` represents every whole number.
    const EXACT: f64 = (1_u64 << 53) as f64;
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let text = str::from_utf8(line).unwrap_or_default();
    // Numbers with decimals or exponents are parsed as `f64`, and accepted only if they are exact.
    let decimal = || text.parse().ok().filter(|value: &f64| value.fract() == 0.0 && value.abs() <= EXACT);
    let whole = text.parse().ok().or_else(|| decimal().map(|value| value as i64));
    whole.map(Some).ok_or_else(|| format!("{} is not a time: expected one whole number", quote(line)))
}

/// Parses a class. Returns `None` for a blank line.
fn label(line: &[u8]) -> Result<Option<i64>, String> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    if line.contains(&b',') {
        let columns = line.iter().filter(|&&b| b == b',').count() + 1;
        return Err(format!("{columns} columns of labels; expected one class per node"));
    }
    let number = str::from_utf8(line).ok().and_then(|text| text.parse::<f64>().ok());
    match number {
        Some(value) if value.is_nan() || value == -1.0 => Ok(Some(-1)),
        Some(value) if value.fract() == 0.0 && (0.0..=f64::from(i32::MAX)).contains(&value) => Ok(Some(value as i64)),
        _ => Err(format!("{} is not a class: 0, 1, 2 and so on, or -1 or nan if unlabeled", quote(line))),
    }
}

struct EdgeParser<'a> {
    sources: RowCount<'a>,
    destinations: RowCount<'a>,
}

impl EdgeParser<'_> {
    /// Parses the edge at the start of `bytes` on the fast path. Returns `None` unless it has the usual spelling and
    /// both ids are in range. Returns the ends and the length of the line.
    fn usual(&self, bytes: &[u8]) -> Option<(u32, u32, usize)> {
        let (src, src_length) = leading_digits(bytes);
        let rest = bytes.get(src_length + 1..)?;
        let (dst, dst_length) = leading_digits(rest);
        let end = match rest.get(dst_length..)? {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => return None,
        };
        let legal = src_length > 0
            && dst_length > 0
            && bytes[src_length] == b','
            && src < self.sources.number as u64
            && dst < self.destinations.number as u64;
        legal.then_some((src as u32, dst as u32, src_length + 1 + dst_length + end))
    }

    /// Parses a line of any spelling, and reports errors.
    fn unusual(&self, line: &[u8]) -> Result<Option<(u32, u32)>, String> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let mut fields = line.split(|&b| b == b',');
        let (Some(src), Some(dst), None) = (fields.next(), fields.next(), fields.next()) else {
            return Err(format!("{} is not an edge, two node ids with a comma between", quote(line)));
        };
        let src = node_id(src, "source node", self.sources)?;
        let dst = node_id(dst, "destination node", self.destinations)?;
        Ok(Some((src, dst)))
    }
}

impl BlockParser for EdgeParser<'_> {
    type Output = EdgeEnds;

    fn parse(&self, block: &[u8]) -> Result<EdgeEnds, BadLine> {
        // A typical line has ten bytes or more.
        let lines = block.len() / 10;
        let mut src = Vec::with_capacity(lines);
        let mut dst = Vec::with_capacity(lines);
        let mut at = 0;
        while at < block.len() {
            if let Some((from, to, length)) = self.usual(&block[at..]) {
                src.push(from);
                dst.push(to);
                at += length;
                continue;
            }
            match self.unusual(line_at(block, at)) {
                Ok(Some((from, to))) => {
                    src.push(from);
                    dst.push(to);
                }
                Ok(None) => {}
                Err(why) => return Err(BadLine { offset: at, why }),
            }
            at = after_line(block, at);
        }
        Ok(EdgeEnds { src, dst })
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::tests::with_file;
    use super::*;
    use proptest::prelude::*;

    fn edges(text: &str) -> Result<EdgeEnds, String> {
        with_file(text, |path| read_edges(path, RowCount::nodes(2708), RowCount::nodes(2708)))
    }

    #[test]
    fn edges_may_be_spelled_unusually() {
        let expected = || Ok(EdgeEnds { src: vec![0, 2707, 3], dst: vec![1, 5, 3] });
        for text in ["0,1\n2707,5\n3,3\n", "0,1\r\n2707,5\r\n3,3", " 0 , 1\n\n02707,+5\r\n3,3\r", "0,1\n2707,5\n3,3"] {
            assert_eq!(edges(text), expected(), "{text:?}");
        }
        assert_eq!(edges(""), Ok(EdgeEnds::default()));
    }

    #[test]
    fn bad_edges_are_named_by_line() {
        for (text, why) in [
            ("0,1\n\n4000,1\n", "line 3: source node 4000 is out of range: the graph has 2708 nodes"),
            ("0,2708", "line 1: destination node 2708 is out of range"),
            ("0,1\r\n0,99999999999999999999\r\n", "line 2: \"99999999999999999999\" is not a node id"),
            ("0,99999999999", "line 1: destination node 99999999999 is out of range"),
            ("source,target\n0,1\n", "line 1: \"source\" is not a node id"),
            ("0,1\n0,-1\n", "line 2: \"-1\" is not a node id"),
            ("0,1\n0 1\n", "line 2: \"0 1\" is not an edge"),
            ("0,1,2\n", "line 1: \"0,1,2\" is not an edge"),
            ("0,\n", "line 1: \"\" is not a node id"),
            ("0\n", "line 1: \"0\" is not an edge"),
        ] {
            let error = edges(text).unwrap_err();
            assert!(error.starts_with(why), "{error}, expected {why}");
        }
    }

    #[test]
    fn labels_are_classes_or_absent() {
        let labels = |text: &str, nodes| with_file(text, |path| read_labels(path, nodes));
        assert_eq!(labels("3\n0\n3.0\nnan\n\n-1\n-1.0\n2e0", 8), Ok(vec![3, 0, 3, -1, -1, -1, -1, 2]));
        assert_eq!(labels("1\r\n\r\n2\r\n\r\n\r\n", 3), Ok(vec![1, -1, 2]));
        for (text, why) in [
            ("0\n1,0,1\n", "line 2: 3 columns of labels"),
            ("0\n1.5\n", "line 2: \"1.5\" is not a class"),
            ("-2\n", "line 1: \"-2\" is not a class"),
            ("3000000000\n", "line 1: \"3000000000\" is not a class"),
            ("cat\n", "line 1: \"cat\" is not a class"),
        ] {
            let error = labels(text, 2).unwrap_err();
            assert!(error.starts_with(why), "{error}, expected {why}");
        }
    }

    #[test]
    fn ids_and_counts_are_whole_numbers() {
        let ids = |text: &str| with_file(text, |path| read_ids(path, RowCount::nodes(10)));
        assert_eq!(ids("3\n1\r\n\n9"), Ok(vec![3, 1, 9]));
        assert_eq!(ids("3\n10\n"), Err("line 2: node 10 is out of range: the graph has 10 nodes".into()));
        assert_eq!(ids("3\n1.0\n"), Err("line 2: \"1.0\" is not a node id".into()));
        assert_eq!(with_file("17\n\n", read_counts), Ok(vec![17]));
        assert!(with_file("many\n", read_counts).unwrap_err().starts_with("line 1: \"many\" is not a count"));
    }

    #[test]
    fn times_are_whole_numbers() {
        let times = |text: &str| with_file(text, read_times);
        assert_eq!(times("2015\n-3\r\n\n2e3\n1999.0"), Ok(vec![2015, -3, 2000, 1999]));
        assert_eq!(times("9223372036854775807"), Ok(vec![i64::MAX]));
        for (text, why) in [
            ("1\n1.5\n", "line 2: \"1.5\" is not a time"),
            ("nan\n", "line 1: \"nan\" is not a time"),
            ("1,2\n", "line 1: \"1,2\" is not a time"),
            ("1e30\n", "line 1: \"1e30\" is not a time"),
        ] {
            let error = times(text).unwrap_err();
            assert!(error.starts_with(why), "{error}, expected {why}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn edges_are_what_splitting_lines_gives(list in prop::collection::vec((0..2708_u32, 0..2708_u32), 0..300), crlf: bool) {
            let end = if crlf { "\r\n" } else { "\n" };
            let text: String = list.iter().map(|(s, d)| format!("{s},{d}{end}")).collect();
            let (src, dst) = text
                .lines()
                .map(|line| line.split_once(',').unwrap())
                .map(|(s, d)| (s.parse::<u32>().unwrap(), d.parse::<u32>().unwrap()))
                .unzip();
            prop_assert_eq!(edges(&text), Ok(EdgeEnds { src, dst }));
        }
    }
}
