//! The page about runs: reports, and the page of a run that goes on.

mod labels;
mod metric_name;
mod page;
mod run;
mod tables;

pub(crate) use labels::{capitalized, decision_words, note_of_limit, percent, positive_class_name};
pub(crate) use metric_name::MetricName;
pub(crate) use page::{Now, page};
pub(crate) use run::Run;
