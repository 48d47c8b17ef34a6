//! A parser of rows of numbers.

use super::blocks::{BadLine, BlockParser, after_line, line_at, parse_file};
use super::lines::concat;
use super::numbers::{finite_f32, short_decimal};
use crate::GraphError;
use edgecut_settings::counted;
use std::path::Path;

/// Reads a row of numbers per line. Blank lines are skipped. Returns the values, row-major, and the number of columns,
/// which is 0 for an empty file.
///
/// # Errors
/// Fails for a value that is not a finite number, with its line and column counted from 1, and for a row of another
/// length than the first.
pub(crate) fn read_rows(path: &Path) -> Result<(Vec<f32>, usize), GraphError> {
    parse_rows(path, false)
}

/// Like [`read_rows`], but `nan` and empty fields are unknown values, which become NaN.
pub(crate) fn read_rows_with_gaps(path: &Path) -> Result<(Vec<f32>, usize), GraphError> {
    parse_rows(path, true)
}

fn parse_rows(path: &Path, has_gaps: bool) -> Result<(Vec<f32>, usize), GraphError> {
    let mut columns = 0;
    let parser = RowParser { columns: &mut columns, has_gaps };
    let values = concat(parse_file(path, parser)?);
    Ok((values, columns))
}

struct RowParser<'a> {
    columns: &'a mut usize,
    /// True if values may be unknown.
    has_gaps: bool,
}

impl RowParser<'_> {
    /// Appends the row at the start of `bytes` to `out`, and returns the length of its line.
    fn row(&self, bytes: &[u8], out: &mut Vec<f32>) -> Result<usize, String> {
        let mut at = 0;
        for column in 1..=*self.columns {
            let (value, length) = match short_decimal(&bytes[at..]) {
                Some(short) => short,
                None => long_number(&bytes[at..], self.has_gaps).map_err(|why| format!("column {column}: {why}"))?,
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
        format!("{}, but the first line has {}", counted(found, "value", "values"), self.columns)
    }
}

/// Parses the number before the next comma or line end, which may be unknown with `has_gaps`. Returns it with its length,
/// including white space.
fn long_number(bytes: &[u8], has_gaps: bool) -> Result<(f32, usize), String> {
    let length = bytes.iter().position(|&b| b == b',' || b == b'\n').unwrap_or(bytes.len());
    let field = bytes[..length].strip_suffix(b"\r").unwrap_or(&bytes[..length]);
    let text = field.trim_ascii();
    if has_gaps && (text.is_empty() || text.eq_ignore_ascii_case(b"nan")) {
        return Ok((f32::NAN, field.len()));
    }
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

#[cfg(test)]
mod tests {
    use super::super::lines::tests::with_file;
    use super::*;
    use proptest::prelude::*;

    fn rows(text: &str) -> Result<(Vec<f32>, usize), String> {
        with_file(text, read_rows)
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
    fn unknown_values_are_gaps() {
        let (values, columns) = with_file("1,nan,0\r\n,NaN, \n0,1,", read_rows_with_gaps).unwrap();
        let known: Vec<Option<f32>> = values.into_iter().map(|value| Some(value).filter(|v| !v.is_nan())).collect();
        let expected = [Some(1.0), None, Some(0.0), None, None, None, Some(0.0), Some(1.0), None];
        assert_eq!((known.as_slice(), columns), (&expected[..], 3));
        let error = with_file("1,0\n1,x\n", read_rows_with_gaps).unwrap_err();
        assert!(error.starts_with("line 2: column 2: \"x\" is not a number"), "{error}");
        let error = with_file("1,0\n1,inf\n", read_rows_with_gaps).unwrap_err();
        assert!(error.starts_with("line 2: column 2: \"inf\" is not a finite"), "{error}");
    }

    #[test]
    fn bad_rows_are_named_by_line_and_column() {
        for (text, why) in [
            ("1,2\n3,4,5\n", "line 2: 3 values, but the first line has 2"),
            ("1,2\n\n3\n", "line 3: 1 value, but the first line has 2"),
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

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
