//! The page about runs: reports, and the page of a run that goes on.

mod labels;
mod page;
mod run;

pub(crate) use labels::{decision_words, of_class, percent, positive_class_name, shown_metric};
pub(crate) use page::{Now, page};
pub(crate) use run::Run;
