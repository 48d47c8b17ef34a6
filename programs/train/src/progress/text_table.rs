//! Lines and tables of text that fit a terminal.

use console::Term;

/// The width of lines without a terminal, and of a terminal that does not tell its width.
pub(crate) const DEFAULT_COLUMNS: usize = 100;

/// Returns the columns of the terminal at standard error.
pub(crate) fn terminal_columns() -> usize {
    Term::stderr().size_checked().map_or(DEFAULT_COLUMNS, |(_, columns)| usize::from(columns))
}

/// Joins texts with commas, without the last ones if they do not fit `columns`. The first one is never left out.
pub(crate) fn fitting(texts: &[String], columns: usize) -> String {
    let mut line = texts.first().cloned().unwrap_or_default();
    for text in texts.iter().skip(1) {
        if line.chars().count() + 2 + text.chars().count() > columns {
            break;
        }
        line += ", ";
        line += text;
    }
    line
}

/// Returns rows with aligned columns, each a line without spaces at its end.
pub(crate) fn text_table(rows: &[Vec<String>]) -> String {
    let mut widths = vec![0; rows.iter().map(Vec::len).max().unwrap_or(0)];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut lines = Vec::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}")).collect();
        lines.push(cells.join("  ").trim_end().to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_texts_are_left_out_of_a_narrow_line() {
        let texts = ["loss 1.5", "train 20 %", "1.5 MB"].map(String::from);
        for (columns, expected) in
            [(28, "loss 1.5, train 20 %, 1.5 MB"), (27, "loss 1.5, train 20 %"), (19, "loss 1.5"), (3, "loss 1.5")]
        {
            assert_eq!(fitting(&texts, columns), expected, "{columns}");
        }
        assert_eq!(fitting(&[], 5), "");
    }
}
