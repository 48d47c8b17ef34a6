//! Pages of HTML with charts, for `train` and `partition-graph`: reports, which need no other file and have no scripts,
//! and pages that follow a run.
//!
//! ```
//! use edgecut_report::{Axis, Page, Series, Unit, lines};
//! let loss = Series { name: "run 1".into(), color: 0, points: vec![(1.0, 2.3), (2.0, 1.1)], best: None };
//! let mut page = Page::new("A run");
//! let x = Axis { name: "epoch", unit: Unit::Number };
//! page.charts("Curves", &[lines("Loss", x, Axis { name: "", unit: Unit::Number }, &[loss])]);
//! let html = page.finish();
//! assert!(html.contains("<h2>Curves</h2>") && html.contains("epoch 2: 1.1"));
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod chart;
mod matrix;
mod page;
mod palette;
mod range;
mod unit;

pub use chart::{Axis, Bar, Column, Series, bars, columns, lines};
pub use matrix::{Matrix, matrix};
pub use page::{Page, Section, definitions, escaped, folded, progress, table};
pub use unit::{Unit, shown};
