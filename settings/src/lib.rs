//! Settings of libraries. A setting is declared once, as a field with its description, its default and the flag that sets
//! it. Programs make their command lines from these declarations.
//!
//! ```
//! use edgecut_settings::{Flag, Settings, at_least_1, settings, words};
//!
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! pub enum Rule {
//!     Plain,
//!     Nesterov,
//! }
//! words!(Rule, "rule", Plain = "plain", Nesterov = "nesterov");
//!
//! settings! {
//!     /// The settings of a solver.
//!     #[derive(Clone, Debug)]
//!     pub struct SolverSettings {
//!         /// Number of steps
//!         pub steps: u64 = 10 => Flag::new("N").checked(at_least_1);
//!         /// Rule of each step
//!         pub rule: Rule = Rule::Plain => Flag::new("RULE");
//!         /// The name of the log, which has no flag.
//!         pub log: Option<String> = None;
//!     }
//! }
//!
//! let mut solver = SolverSettings { steps: 20, ..SolverSettings::default() };
//! for mut field in solver.fields().into_iter().filter(|field| field.name == "rule") {
//!     field.value.set("nesterov").expect("a rule");
//!     assert_eq!(field.value.set("newton"), Err("unknown rule \"newton\": expected plain or nesterov".into()));
//! }
//! assert_eq!((solver.steps, solver.rule), (20, Rule::Nesterov));
//! ```
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod as_written;
mod checks;
mod counted;
mod flag;
mod flag_value;
#[doc(hidden)]
pub mod named;
mod near_names;
mod near_path;
mod settings;
mod words;

pub use as_written::AsWritten;
pub use checks::{at_least_1, at_least_1_long, below_1, in_range, not_negative, positive, share};
pub use counted::counted;
pub use flag::Flag;
pub use flag_value::{FlagValue, Shape};
pub use named::Named;
pub use near_names::{listed, near_name, suggestion, unknown};
pub use near_path::near_path;
pub use serde_json::{Map, Value};
pub use settings::{Field, Settings};
pub use words::{Word, unknown_word};
