//! Parsers of OGB's CSV files: edges, features, labels and node ids.

use super::blocks::{BadLine, BlockParser, after_line, line_at, parse_file};
use super::count::Count;
use super::numbers::{finite_f32, leading_digits, quote, short_decimal, whole};
use crate::GraphError;
use std::path::Path;

/// Sources and destinations, in the order of the file.
pub(super) type EdgeList = (Vec<u32>, Vec<u32>);

/// Reads `source,destination` lines. Blank lines are skipped.
///
/// # Errors
/// Fails for a line that is not a pair of ids in the range of `sources` and of `destinations`.
pub(super) fn read_edges(path: &Path, sources: Count, destinations: Count) -> Result<EdgeList, GraphError> {
    let parser = EdgeParser { sources, destinations };
    let (src, dst): (Vec<_>, Vec<_>) = parse_file(path, parser)?.into_iter().unzip();
    Ok((concat(src), concat(dst)))
}

/// Reads a row of numbers per line. Blank lines are skipped. Returns the values, row-major, and the number of columns,
/// which is 0 for an empty file.
///
/// # Errors
/// Fails for a value that is not a finite number, with its line and column counted from 1, and for a row of another
/// length than the first.
pub(super) fn read_rows(path: &Path) -> Result<(Vec<f32>, usize), GraphError> {
    let mut columns = 0;
    let parser = RowParser { columns: &mut columns };
    let values = concat(parse_file(path, parser)?);
    Ok((values, columns))
}

/// Reads a class per line: a whole number, or `nan`, -1 or a blank line for -1, which is "unlabeled". Blank lines past
/// `num_nodes` belong to the end of the file.
///
/// # Errors
/// Fails for a line that is not a class, and for several columns.
pub(super) fn read_labels(path: &Path, num_nodes: usize) -> Result<Vec<i64>, GraphError> {
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
pub(super) fn read_ids(path: &Path, nodes: Count) -> Result<Vec<u32>, GraphError> {
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
pub(super) fn read_times(path: &Path) -> Result<Vec<i64>, GraphError> {
    Ok(concat(parse_file(path, Lines(time))?))
}

/// Reads the comma-separated fields of each line as text. Blank lines are skipped.
pub(super) fn read_fields(path: &Path) -> Result<Vec<Vec<String>>, GraphError> {
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
pub(super) fn read_counts(path: &Path) -> Result<Vec<u64>, GraphError> {
    let count = |line: &[u8]| match line.trim_ascii() {
        b"" => Ok(None),
        line => whole(line, "a count").map(Some),
    };
    Ok(concat(parse_file(path, Lines(count))?))
}

fn node_id(field: &[u8], role: &str, nodes: Count) -> Result<u32, String> {
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
        return Err(format!(
            "{columns} columns of labels; expected one class per node, multi-task labels are not supported"
        ));
    }
    let number = str::from_utf8(line).ok().and_then(|text| text.parse::<f64>().ok());
    match number {
        Some(value) if value.is_nan() || value == -1.0 => Ok(Some(-1)),
        Some(value) if value.fract() == 0.0 && (0.0..=f64::from(i32::MAX)).contains(&value) => Ok(Some(value as i64)),
        _ => Err(format!("{} is not a class: 0, 1, 2 and so on, or -1 or nan if unlabeled", quote(line))),
    }
}

struct EdgeParser<'a> {
    sources: Count<'a>,
    destinations: Count<'a>,
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
    type Output = EdgeList;

    fn parse(&self, block: &[u8]) -> Result<EdgeList, BadLine> {
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
        Ok((src, dst))
    }
}

struct RowParser<'a> {
    columns: &'a mut usize,
}

impl RowParser<'_> {
    /// Appends the row at the start of `bytes` to `out`, and returns the length of its line.
    fn row(&self, bytes: &[u8], out: &mut Vec<f32>) -> Result<usize, String> {
        let mut at = 0;
        for column in 1..=*self.columns {
            let (value, length) = match short_decimal(&bytes[at..]) {
                Some(short) => short,
                None => long_number(&bytes[at..]).map_err(|why| format!("column {column}: {why}"))?,
            };
            out.push(value);
            at += length;
            if column < *self.columns {
                if bytes.get(at) != Some(&b',') {
                    return Err(self.ragged(line_at(bytes, 0)));
                }
                at += 1;
            }
        }
        match &bytes[at..] {
            [] => Ok(at),
            [b'\n', ..] => Ok(at + 1),
            [b'\r', b'\n', ..] => Ok(at + 2),
            [b'\r'] => Ok(at + 1),
            _ => Err(self.ragged(line_at(bytes, 0))),
        }
    }

    /// Returns the error for a row of the wrong length.
    fn ragged(&self, line: &[u8]) -> String {
        let found = line.iter().filter(|&&b| b == b',').count() + 1;
        format!("{found} values, but the first line has {}", self.columns)
    }
}

/// Parses the number before the next comma or line end. Returns it with its length, including white space.
fn long_number(bytes: &[u8]) -> Result<(f32, usize), String> {
    let length = bytes.iter().position(|&b| b == b',' || b == b'\n').unwrap_or(bytes.len());
    let field = bytes[..length].strip_suffix(b"\r").unwrap_or(&bytes[..length]);
    Ok((finite_f32(field)?, field.len()))
}

impl BlockParser for RowParser<'_> {
    type Output = Vec<f32>;

    fn first_line(&mut self, line: &[u8]) {
        *self.columns = line.iter().filter(|&&b| b == b',').count() + 1;
    }

    fn parse(&self, block: &[u8]) -> Result<Vec<f32>, BadLine> {
        let mut values = Vec::with_capacity(block.len() / 2);
        let mut at = 0;
        while at < block.len() {
            // Even with a single column, blank lines are skipped: a blank row can only be a mistake.
            if matches!(block[at], b'\n' | b'\r' | b' ') && line_at(block, at).trim_ascii().is_empty() {
                at = after_line(block, at);
                continue;
            }
            match self.row(&block[at..], &mut values) {
                Ok(length) => at += length,
                Err(why) => return Err(BadLine { offset: at, why }),
            }
        }
        values.shrink_to_fit();
        Ok(values)
    }
}

/// A parser of single lines. `None` skips a line.
pub(super) struct Lines<F>(pub(super) F);

impl<T: Send, F: Fn(&[u8]) -> Result<Option<T>, String> + Sync> BlockParser for Lines<F> {
    type Output = Vec<T>;

    fn parse(&self, block: &[u8]) -> Result<Vec<T>, BadLine> {
        let mut values = Vec::new();
        let mut at = 0;
        while at < block.len() {
            match (self.0)(line_at(block, at)) {
                Ok(value) => values.extend(value),
                Err(why) => return Err(BadLine { offset: at, why }),
            }
            at = after_line(block, at);
        }
        Ok(values)
    }
}

/// Concatenates blocks. Each block is freed as soon as it is copied.
pub(super) fn concat<T: Copy>(blocks: Vec<Vec<T>>) -> Vec<T> {
    if blocks.len() < 2 {
        return blocks.into_iter().next().unwrap_or_default();
    }
    let mut joined = Vec::with_capacity(blocks.iter().map(Vec::len).sum());
    for block in blocks {
        joined.extend_from_slice(&block);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_file<T>(text: &str, read: impl FnOnce(&Path) -> Result<T, GraphError>) -> Result<T, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        std::fs::write(&path, text).unwrap();
        read(&path).map_err(|e| {
            let message = e.to_string();
            message.strip_prefix(&format!("{}: ", path.display())).expect("an error names its file").to_owned()
        })
    }

    fn edges(text: &str) -> Result<EdgeList, String> {
        with_file(text, |path| read_edges(path, Count::nodes(2708), Count::nodes(2708)))
    }

    fn rows(text: &str) -> Result<(Vec<f32>, usize), String> {
        with_file(text, read_rows)
    }

    #[test]
    fn edges_may_be_spelled_unusually() {
        let expected = Ok((vec![0, 2707, 3], vec![1, 5, 3]));
        for text in ["0,1\n2707,5\n3,3\n", "0,1\r\n2707,5\r\n3,3", " 0 , 1\n\n02707,+5\r\n3,3\r", "0,1\n2707,5\n3,3"] {
            assert_eq!(edges(text), expected, "{text:?}");
        }
        assert_eq!(edges(""), Ok((vec![], vec![])));
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
    fn rows_may_be_spelled_unusually() {
        let expected = Ok((vec![1.0, -2.5, 0.0, 1e-3], 2));
        for text in ["1,-2.5\n0,1e-3\n", "1.0,-2.50\r\n0.,.001", " 1, -2.5 \n\n0,0.001000000000000\r\n\n"] {
            assert_eq!(rows(text), expected, "{text:?}");
        }
        assert_eq!(rows(""), Ok((vec![], 0)));
    }

    #[test]
    fn bad_rows_are_named_by_line_and_column() {
        for (text, why) in [
            ("1,2\n3,4,5\n", "line 2: 3 values, but the first line has 2"),
            ("1,2\n\n3\n", "line 3: 1 values, but the first line has 2"),
            ("1,2\n3,nan\n", "line 2: column 2: \"nan\" is not a finite"),
            ("1,inf\n", "line 1: column 2: \"inf\" is not a finite"),
            ("1,2\nx,2\n", "line 2: column 1: \"x\" is not a number"),
            ("1,2\n,2\n", "line 2: column 1: the value is empty"),
            ("1,2\n1,", "line 2: column 2: the value is empty"),
        ] {
            let error = rows(text).unwrap_err();
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
        let ids = |text: &str| with_file(text, |path| read_ids(path, Count::nodes(10)));
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
            let naive: EdgeList = text
                .lines()
                .map(|line| line.split_once(',').unwrap())
                .map(|(s, d)| (s.parse::<u32>().unwrap(), d.parse::<u32>().unwrap()))
                .unzip();
            prop_assert_eq!(edges(&text), Ok(naive));
        }

        #[test]
        fn rows_are_what_splitting_lines_gives(
            list in prop::collection::vec((any::<f32>(), 0..3_u32, -1e6..1e6_f64), 1..200).prop_map(|rows| {
                rows.into_iter().filter(|(v, _, _)| v.is_finite()).collect::<Vec<_>>()
            })
        ) {
            let text: String = list.iter().map(|(a, b, c)| format!("{a},{b},{c}\n")).collect();
            let naive: Vec<u32> = text
                .lines()
                .flat_map(|line| line.split(','))
                .map(|value| value.parse::<f32>().unwrap().to_bits())
                .collect();
            let (found, columns) = rows(&text).unwrap();
            prop_assert_eq!(columns, if list.is_empty() { 0 } else { 3 });
            prop_assert_eq!(found.into_iter().map(f32::to_bits).collect::<Vec<_>>(), naive);
        }
    }
}
