//! Matrices as tables whose cells are colored by their value.

use crate::page::{escaped, scrolling};
use crate::unit::shown;
use std::fmt::Write;

/// The most rows or columns whose cells show their numbers. Cells of larger matrices show them when pointed at.
const MOST_WITH_NUMBERS: usize = 16;

/// A matrix of a report.
pub struct Matrix<'a> {
    /// The name of the rows, such as `label`.
    pub rows: &'a str,
    /// The name of the columns, such as `prediction`.
    pub columns: &'a str,
    /// The name of each row and column.
    pub names: &'a [String],
    /// The value of each cell, row by row. `[names.len()][names.len()]`
    pub cells: &'a [Vec<f64>],
    /// The share of the full color of each cell, from 0 to 1. `[names.len()][names.len()]`
    pub shares: &'a [Vec<f64>],
}

/// Draws a square matrix. Returns an empty text without rows.
pub fn matrix(title: &str, matrix: &Matrix<'_>) -> String {
    let Matrix { rows, columns, names, cells, shares } = matrix;
    if names.is_empty() {
        return String::new();
    }
    let has_numbers = names.len() <= MOST_WITH_NUMBERS;
    let class = if has_numbers { "matrix" } else { "matrix small" };
    let mut html = format!("<table class=\"{class}\"><thead><tr><th>{} \\ {}</th>", escaped(rows), escaped(columns));
    // Writing to a string does not fail.
    for name in *names {
        let _ = write!(html, "<th>{}</th>", escaped(name));
    }
    html += "</tr></thead><tbody>";
    for (row, name) in names.iter().enumerate() {
        let _ = write!(html, "<tr><th>{}</th>", escaped(name));
        for (column, &value) in cells[row].iter().enumerate() {
            let percent = (shares[row][column].clamp(0.0, 1.0) * 100.0).round();
            let text = if has_numbers { shown(value) } else { String::new() };
            let _ = write!(
                html,
                "<td style=\"--share:{percent}%\" title=\"{rows} {}, {columns} {}: {}\">{text}</td>",
                escaped(name),
                escaped(&names[column]),
                shown(value),
                rows = escaped(rows),
                columns = escaped(columns)
            );
        }
        html += "</tr>";
    }
    html += "</tbody></table>";
    format!("<figure><figcaption>{}</figcaption>{}</figure>", escaped(title), scrolling(&html))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_has_every_cell() {
        let names: Vec<String> = ["a", "<b>"].map(String::from).to_vec();
        let cells = vec![vec![1.0, 2.0], vec![3.0, 4.0]];
        let shares = vec![vec![0.0, 0.5], vec![0.75, 2.0]];
        let shown = Matrix { rows: "label", columns: "prediction", names: &names, cells: &cells, shares: &shares };
        let html = matrix("title", &shown);
        for part in [
            "--share:50%\" title=\"label a, prediction &lt;b&gt;: 2\">2<",
            "--share:100%\" title=\"label &lt;b&gt;, prediction &lt;b&gt;: 4\">4<",
        ] {
            assert!(html.contains(part), "{html}");
        }
        assert_eq!(html.matches("<td").count(), 4);
    }

    #[test]
    fn cells_of_a_large_matrix_have_no_text() {
        let names: Vec<String> = (0..17).map(|name| name.to_string()).collect();
        let cells = vec![vec![5.0; 17]; 17];
        let large = Matrix { rows: "to", columns: "from", names: &names, cells: &cells, shares: &cells };
        let html = matrix("title", &large);
        assert_eq!(html.matches("></td>").count(), 17 * 17);
        let none = Matrix { rows: "to", columns: "from", names: &[], cells: &[], shares: &[] };
        assert_eq!(matrix("title", &none), "");
    }
}
