//! Properties of OGB datasets that are not in their files.

use super::files::Labels;
use crate::GraphError;
use crate::readers::text::{find_csv, read_fields};
use edgecut_settings::counted;
use std::path::{Path, PathBuf};

/// The datasets that OGB's package describes in its `master.csv`.
const KNOWN: [(&str, OgbProperties); 5] = [
    ("ogbn-products", OgbProperties { adds_inverse_edges: true, num_tasks: Some(1), metric: Metric::Accuracy }),
    ("ogbn-proteins", OgbProperties { adds_inverse_edges: true, num_tasks: Some(112), metric: Metric::RocAuc }),
    ("ogbn-arxiv", OgbProperties::PLAIN),
    ("ogbn-papers100M", OgbProperties::PLAIN),
    ("ogbn-mag", OgbProperties::PLAIN),
];
/// The rows of `master.csv` that are read.
const ADD_INVERSE_EDGE: &str = "add_inverse_edge";
const NUM_TASKS: &str = "num tasks";
const EVAL_METRIC: &str = "eval metric";

/// Properties of a dataset of OGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::readers) struct OgbProperties {
    /// True if OGB's loader adds the inverse of each edge.
    pub(super) adds_inverse_edges: bool,
    /// The number of labels per node, if it is known beside the labels.
    num_tasks: Option<usize>,
    metric: Metric,
}

/// The metric of OGB's evaluator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    Accuracy,
    RocAuc,
    Other,
}

/// The column of a dataset in a `master.csv`.
struct Column {
    path: PathBuf,
    rows: Vec<Vec<String>>,
    number: usize,
}

impl Column {
    /// Finds the column whose name satisfies `is_this`.
    fn find(dir: &Path, is_this: impl Fn(&str) -> bool) -> Result<Option<Self>, GraphError> {
        let Some(path) = find_csv(dir, "master") else { return Ok(None) };
        let rows = read_fields(&path)?;
        let names = rows.first().map(Vec::as_slice).unwrap_or_default();
        let number = names.iter().position(|name| is_this(name));
        Ok(number.map(|number| Self { path, rows, number }))
    }

    /// Returns the value of a property, or `None` if the file does not have it.
    fn value(&self, key: &str) -> Option<&str> {
        let row = self.rows.iter().find(|row| row.first().is_some_and(|first| first == key))?;
        Some(row.get(self.number).map(String::as_str).unwrap_or_default())
    }

    fn wrong(&self, key: &str, value: &str, expected: &str) -> GraphError {
        let name = &self.rows[0][self.number];
        GraphError::format(&self.path, format!("{key} of {name} is {value:?}, expected {expected}"))
    }
}

impl OgbProperties {
    const PLAIN: Self = Self { adds_inverse_edges: false, num_tasks: None, metric: Metric::Accuracy };

    /// Returns the properties of the dataset `name` in `folder`: those in `master.csv` in the folder or beside it, and
    /// for known names those of OGB's package.
    ///
    /// `master.csv` has a column per dataset, named in the first line, and a row per property, named in the first
    /// column.
    ///
    /// # Errors
    /// Fails if `master.csv` lists the dataset with a value that is not one of OGB's.
    pub(in crate::readers) fn find(name: &str, folder: &Path) -> Result<Self, GraphError> {
        let of_folder = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_this = |other: &str| [name, &of_folder].iter().any(|name| is_same(name, other));
        let known = KNOWN.iter().find(|(known, _)| is_this(known));
        let mut found = known.map_or(Self::PLAIN, |(_, properties)| *properties);
        for dir in [Some(folder), folder.parent()].into_iter().flatten() {
            let Some(column) = Column::find(dir, is_this)? else { continue };
            match column.value(ADD_INVERSE_EDGE) {
                None => {}
                Some("True") => found.adds_inverse_edges = true,
                Some("False") => found.adds_inverse_edges = false,
                Some(value) => return Err(column.wrong(ADD_INVERSE_EDGE, value, "True or False")),
            }
            if let Some(value) = column.value(NUM_TASKS) {
                let number = value.parse().map_err(|_| column.wrong(NUM_TASKS, value, "a number"))?;
                found.num_tasks = Some(number);
            }
            match column.value(EVAL_METRIC) {
                None => {}
                Some("acc") => found.metric = Metric::Accuracy,
                Some("rocauc") => found.metric = Metric::RocAuc,
                Some(_) => found.metric = Metric::Other,
            }
            break;
        }
        Ok(found)
    }

    /// Compares the number of labels per node in `raw/PLACE` of `folder` with the number that OGB gives, if both are known.
    ///
    /// # Errors
    /// Both numbers, if they differ.
    pub(super) fn check_num_labels(&self, folder: &Path, place: &str, labels: &Labels) -> Result<(), GraphError> {
        let (Some(expected), Some(found)) = (self.num_tasks, labels.per_node()) else { return Ok(()) };
        if expected == found {
            return Ok(());
        }
        let why = format!(
            "raw/{place} has {} per node, but OGB's dataset has {}: download it again, or correct `{NUM_TASKS}` in master.csv",
            counted(found, "label", "labels"),
            counted(expected, "task", "tasks")
        );
        Err(GraphError::format(folder, why))
    }

    /// Returns a note on the metric by which OGB compares models of the dataset, if it is not the accuracy.
    pub(in crate::readers) fn note_on_metric(&self, name: &str) -> Option<String> {
        let metric = match self.metric {
            Metric::Accuracy => return None,
            Metric::RocAuc => "the area under the ROC curve: train with --metric roc-auc",
            Metric::Other => "another metric than the accuracy, see its master.csv",
        };
        Some(format!("OGB compares models of {name} by {metric}"))
    }
}

/// Compares names of datasets. Names of folders have underscores in place of hyphens.
fn is_same(a: &str, b: &str) -> bool {
    let spelled = |name: &str| name.replace('_', "-").to_ascii_lowercase();
    spelled(a) == spelled(b)
}
