//! The HTML report of a partitioned graph.

use anyhow::Context;
use edgecut_cli::counted;
use edgecut_graph::{Meta, PartMeta};
use edgecut_output::write_output;
use edgecut_partition::{Balances, cut_matrix};
use edgecut_report::{Bar, Matrix, Page, Unit, bars, definitions, matrix, shown};
use std::path::Path;

/// The most parts whose cut matrix is drawn.
const MOST_PARTS: usize = 128;

/// A quantity of each part: its name, and its balance factor.
type Quantity = (&'static str, fn(&PartMeta) -> u64, fn(&Balances) -> f64);

const QUANTITIES: [Quantity; 4] = [
    ("nodes", |part| part.nodes, |balance| balance.nodes),
    ("edges", |part| part.edges, |balance| balance.edges),
    ("training nodes", |part| part.train_nodes, |balance| balance.train_nodes),
    ("halo nodes", |part| part.halo_nodes, |balance| balance.halo_nodes),
];

/// Writes the report of the parts in `dir` to `out`, the file of `--report`.
pub(crate) fn write_report(dir: &Path, meta: &Meta, out: &Path) -> anyhow::Result<()> {
    let mut page = Page::new(&format!("{} in {}", meta.dataset, counted(meta.num_parts, "part", "parts")));
    page.section("Result", &results(meta));
    page.charts("Balance", &balance(meta));
    if meta.report.parts.len() <= MOST_PARTS {
        let edges = cut_matrix(dir).context("--report: count the edges between parts")?;
        page.charts("Edges between parts", &cut(&edges));
    } else {
        let what = format!("<p>The matrix is drawn for up to {MOST_PARTS} parts.</p>");
        page.section("Edges between parts", &what);
    }
    write_output(out, page.finish().as_bytes()).with_context(|| format!("--report: write {}", out.display()))
}

fn results(meta: &Meta) -> String {
    let report = &meta.report;
    let made = &meta.provenance;
    let nodes = report.parts.iter().map(|part| part.nodes).sum::<u64>();
    let edges = report.parts.iter().map(|part| part.edges).sum::<u64>();
    let cut = format!("{} ({})", shown(report.cut_edges as f64), Unit::Share.format(report.cut_fraction));
    let pairs = [
        ("Nodes", shown(nodes as f64)),
        ("Edges", shown(edges as f64)),
        ("Cut edges", cut),
        ("Remote neighbors", Unit::Share.format(report.remote_neighbor_fraction)),
        ("Method", made.method.clone()),
        ("Seed", made.seed.to_string()),
        ("Balance", made.balance.join(", ")),
    ];
    definitions(&pairs.map(|(name, value)| (name.to_owned(), value)))
}

fn balance(meta: &Meta) -> Vec<String> {
    let parts = &meta.report.parts;
    let factors = Balances::new(&meta.report);
    let chart = |(name, count, factor): &Quantity| {
        let of_parts = parts
            .iter()
            .enumerate()
            .map(|(id, part)| Bar { name: format!("part {id}"), pieces: vec![count(part) as f64] });
        let title = format!("{name}, largest part over the mean {}", shown(factor(&factors)));
        bars(&title, Unit::Number, &[name], &of_parts.collect::<Vec<_>>())
    };
    QUANTITIES.iter().map(chart).collect()
}

/// Draws the matrix of edges. The color of a cell is its ratio to the largest cell. Edges within a part are
/// not colored, since they would hide the differences between the others.
fn cut(edges: &[Vec<u64>]) -> Vec<String> {
    let names: Vec<String> = (0..edges.len()).map(|id| id.to_string()).collect();
    let cells: Vec<Vec<f64>> = edges.iter().map(|row| row.iter().map(|&count| count as f64).collect()).collect();
    let off_diagonal =
        |row: usize| cells[row].iter().enumerate().filter(move |(column, _)| *column != row).map(|(_, &count)| count);
    let most = (0..cells.len()).flat_map(off_diagonal).fold(0.0, f64::max);
    let share = |row: usize, column: usize| {
        if row == column || most == 0.0 { 0.0 } else { cells[row][column] / most }
    };
    let shares: Vec<Vec<f64>> =
        (0..cells.len()).map(|row| (0..cells.len()).map(|column| share(row, column)).collect()).collect();
    let shown = Matrix {
        rows: "part of the destination",
        columns: "part of the source",
        names: &names,
        cells: &cells,
        shares: &shares,
    };
    vec![matrix("edges by the parts of their ends", &shown)]
}
