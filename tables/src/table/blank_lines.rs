//! Blank lines of CSV files with one column.

use std::io::{BufRead, Read};

/// The text of a field that is empty.
const EMPTY_FIELD: &[u8] = b"\"\"";

/// The text of a CSV file with one column, in which blank lines after the header are empty fields. CSV readers skip blank
/// lines, which are rows of such a file.
pub(super) struct BlankLines<R> {
    text: R,
    at: Position,
    /// The bytes that are to be returned before the next byte of the text.
    pending: &'static [u8],
}

/// The position in the text.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    BeforeHeader,
    LineStart,
    /// After a carriage return, which a line feed may follow.
    CarriageReturn,
    Field,
    Quoted,
    /// After a quote in a quoted field: its end, or the first of two.
    QuoteInQuoted,
}

impl<R: BufRead> BlankLines<R> {
    pub(super) fn new(text: R) -> Self {
        Self { text, at: Position::BeforeHeader, pending: &[] }
    }

    /// Returns true if `byte` ends a blank line, and moves past it otherwise.
    fn ends_blank_line(&mut self, byte: u8) -> bool {
        let is_end = matches!(byte, b'\n' | b'\r');
        if self.at == Position::LineStart && is_end {
            return true;
        }
        self.at = match (self.at, byte) {
            (Position::BeforeHeader, _) if is_end => Position::BeforeHeader,
            (Position::CarriageReturn, b'\r') => return true,
            (Position::Quoted, b'"') => Position::QuoteInQuoted,
            (Position::Quoted, _) | (Position::QuoteInQuoted, b'"') => Position::Quoted,
            (Position::BeforeHeader | Position::LineStart | Position::CarriageReturn, b'"') => Position::Quoted,
            (_, b'\n') => Position::LineStart,
            (_, b'\r') => Position::CarriageReturn,
            _ => Position::Field,
        };
        false
    }
}

impl<R: BufRead> Read for BlankLines<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut num_written = 0;
        while num_written < out.len() {
            if let [byte, rest @ ..] = self.pending {
                out[num_written] = *byte;
                num_written += 1;
                self.pending = rest;
                continue;
            }
            let Some(&byte) = self.text.fill_buf()?.first() else { break };
            if self.ends_blank_line(byte) {
                self.pending = EMPTY_FIELD;
                // The end of the line follows the field.
                self.at = Position::Field;
                continue;
            }
            out[num_written] = byte;
            num_written += 1;
            self.text.consume(1);
        }
        Ok(num_written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn filled(text: &str) -> String {
        // A small buffer cuts the text at every position.
        let mut filled = String::new();
        BlankLines::new(BufReader::with_capacity(1, text.as_bytes())).read_to_string(&mut filled).unwrap();
        filled
    }

    #[test]
    fn blank_lines_after_the_header_become_fields() {
        for (text, expected) in [
            ("y\n0\n\n1\n", "y\n0\n\"\"\n1\n"),
            ("y\r\n\r\n\r\n1", "y\r\n\"\"\r\n\"\"\r\n1"),
            ("y\r\r1\r", "y\r\"\"\r1\r"),
            ("\n\ny\n\n", "\n\ny\n\"\"\n"),
            ("y\n\"a\n\n\"\"b\"\n\n", "y\n\"a\n\n\"\"b\"\n\"\"\n"),
            ("\"y\"\n\"\"\n\nx\"y\n\n", "\"y\"\n\"\"\n\"\"\nx\"y\n\"\"\n"),
            ("y", "y"),
            ("y\n", "y\n"),
            ("", ""),
        ] {
            assert_eq!(filled(text), expected, "{text:?}");
        }
    }
}
