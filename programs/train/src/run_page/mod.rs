//! The page about runs: reports, and the page of a run that goes on.

mod labels;
mod page;
mod run;

pub(crate) use labels::{decision_words, percent, shown_metric};
pub(crate) use page::{Now, page};
pub(crate) use run::Run;
