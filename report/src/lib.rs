//! Reports as HTML files with charts, for `train` and `partition-graph`. A report needs no other file and has no
//! scripts.
//!
//! ```
//! use edgecut_report::{Page, Series, lines};
//! let loss = Series { name: "run 1".into(), color: 0, points: vec![(1.0, 2.3), (2.0, 1.1)] };
//! let mut page = Page::new("A run");
//! page.charts("Curves", &[lines("loss", "epoch", &[loss])]);
//! let html = page.finish();
//! assert!(html.contains("<h2>Curves</h2>") && html.contains("epoch 2: 1.1"));
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod chart;
mod matrix;
mod page;

pub use chart::{Bar, Series, bars, lines, shown};
pub use matrix::{Matrix, matrix};
pub use page::{Page, escaped, table};
