//! The columns of a table that become attributes, and their decoding.

use super::bad_rows::BadKind;
use crate::TableError;
use crate::conf::{EdgeTable, Feature, LabelColumn, NodeTable, TimeColumn, Transform};
use crate::table::{
    BadCell, Batch, Numbers, Table, TimeCells, is_text, numbers, optional_numbers, text_cells, time_cells,
    whole_numbers,
};
use crate::transform::Fitted;
use arrow_array::{Array, ArrayRef, StringArray};
use edgecut_graph::TargetKind;

/// The columns of a table that become attributes.
#[derive(Clone, Default)]
pub(super) struct Spec<'a> {
    pub(super) features: Vec<&'a Feature>,
    /// The number of values per row of each column of each feature, where known.
    pub(super) widths: Widths,
    pub(super) label: Option<&'a LabelColumn>,
    /// The number of targets per row, where known.
    pub(super) target_width: Option<usize>,
    pub(super) time: Option<&'a TimeColumn>,
    pub(super) weight: Option<&'a str>,
}

/// The number of values per row of each column of each feature, where known.
pub(super) type Widths = Vec<Vec<Option<usize>>>;

/// The values of some rows.
pub(super) struct Decoded {
    pub(super) features: Vec<FeatureCells>,
    pub(super) label: Option<LabelCells>,
    pub(super) times: Option<TimeCells>,
    pub(super) weights: Option<Vec<f32>>,
    /// The rows that cannot be used, ascending, each with its reason.
    pub(super) bad: Vec<(usize, BadKind, String)>,
}

/// The values of a feature.
pub(super) enum FeatureCells {
    /// The numbers of each column.
    Numbers(Vec<Numbers>),
    /// Texts that name categories.
    Texts(StringArray),
}

/// The labels of some rows.
pub(super) enum LabelCells {
    /// Classes, -1 for none.
    Whole(Vec<i64>),
    /// Texts, which name classes or are numbers.
    Texts(StringArray),
    /// Targets, `[rows, width]`, row-major. NaN is an unknown value.
    Targets { values: Vec<f32>, width: usize, kind: TargetKind },
}

impl<'a> Spec<'a> {
    /// Returns the attributes of a node table.
    pub(super) fn of_nodes(table: &'a NodeTable) -> Self {
        Self {
            features: table.features.iter().collect(),
            widths: unknown_widths(&table.features),
            label: table.label.as_ref().and_then(|label| label.column.as_ref()),
            target_width: None,
            time: table.time_col.as_ref(),
            weight: None,
        }
    }

    /// Returns the attributes of an edge table.
    pub(super) fn of_edges(table: &'a EdgeTable) -> Self {
        Self {
            features: table.features.iter().collect(),
            widths: unknown_widths(&table.features),
            label: table.label.as_ref().and_then(|label| label.column.as_ref()),
            target_width: None,
            time: table.time_col.as_ref(),
            weight: table.weight_col.as_deref(),
        }
    }

    /// Returns true if the table has no attributes.
    pub(super) fn is_empty(&self) -> bool {
        self.columns().is_empty()
    }

    /// Returns the columns, each once.
    pub(super) fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = Vec::new();
        let of_features = self.features.iter().flat_map(|feature| feature.columns.iter().map(String::as_str));
        let label = self.label.map(|label| label.name.as_str());
        let time = self.time.map(|time| time.name.as_str());
        for column in of_features.chain(label).chain(time).chain(self.weight) {
            if !columns.iter().any(|known| known == column) {
                columns.push(column.to_owned());
            }
        }
        columns
    }

    /// Learns the number of values per row of each column from the first row of a table that has numbers there, so that all
    /// pieces of the table expect the same.
    pub(super) fn learn_widths(&mut self, table: &Table) -> Result<(), TableError> {
        let numeric = Self { time: None, weight: None, ..self.clone() };
        let is_known = |(feature, widths): (&&Feature, &Vec<Option<usize>>)| {
            matches!(feature.transform, Transform::Categorical { .. }) || widths.iter().all(Option::is_some)
        };
        let are_known = |widths: &Widths| numeric.features.iter().zip(widths).all(is_known);
        let mut has_unknown_targets = numeric.label.is_some();
        if are_known(&self.widths) && !has_unknown_targets {
            return Ok(());
        }
        table.find(&numeric.columns(), |batch| {
            let decoded = numeric.decode(batch, &mut self.widths)?;
            match decoded.label {
                // A row of NaN is one whose number of targets is not known.
                Some(LabelCells::Targets { values, width, .. }) => {
                    if values.iter().any(|value| !value.is_nan()) {
                        self.target_width = Some(width);
                        has_unknown_targets = false;
                    }
                }
                _ => has_unknown_targets = false,
            }
            Ok(are_known(&self.widths) && !has_unknown_targets)
        })
    }

    /// Returns the number of columns of each feature after its transform, where known.
    pub(super) fn output_widths(&self, fitted: &[Fitted]) -> Vec<Option<usize>> {
        let width = |((feature, widths), fitted): ((&&Feature, &Vec<Option<usize>>), &Fitted)| match feature.transform {
            Transform::Categorical { .. } => Some(fitted.output_width(1)),
            _ => widths.iter().copied().sum::<Option<usize>>().map(|width| fitted.output_width(width)),
        };
        self.features.iter().zip(&self.widths).zip(fitted).map(width).collect()
    }

    /// Decodes the columns of a batch, which are [`Spec::columns`].
    ///
    /// # Errors
    /// Fails for a column of a type that cannot have such values.
    pub(super) fn decode(&self, batch: &Batch, widths: &mut Widths) -> Result<Decoded, TableError> {
        let names = self.columns();
        let column = |name: &str| -> &ArrayRef {
            let position = names.iter().position(|known| known == name);
            &batch.columns[position.expect("the columns of a batch are those of its spec")]
        };
        let mut bad = Vec::new();
        let mut add = |kind: BadKind, name: &str, cells: Vec<BadCell>| {
            bad.extend(cells.into_iter().map(|cell| (cell.row, kind, format!("column {name}: {}", cell.why))));
        };
        let mut features = Vec::with_capacity(self.features.len());
        for (feature, widths) in self.features.iter().zip(widths) {
            if let Transform::Categorical { .. } = feature.transform {
                let name = &feature.columns[0];
                let texts = text_cells(column(name)).map_err(|why| batch.wrong_column(name, why))?;
                features.push(FeatureCells::Texts(texts));
                continue;
            }
            let mut cells = Vec::with_capacity(feature.columns.len());
            for (name, width) in feature.columns.iter().zip(widths) {
                let mut of_column = numbers(column(name), feature.transform.vector_separator(), width)
                    .map_err(|why| batch.wrong_column(name, why))?;
                add(BadKind::Feature, name, std::mem::take(&mut of_column.bad));
                cells.push(of_column);
            }
            features.push(FeatureCells::Numbers(cells));
        }
        let label = match self.label {
            None => None,
            Some(label) => {
                let name = &label.name;
                let (cells, wrong) =
                    label_cells(column(name), label, self.target_width).map_err(|why| batch.wrong_column(name, why))?;
                add(BadKind::Label, name, wrong);
                Some(cells)
            }
        };
        let times = match self.time {
            None => None,
            Some(TimeColumn { name, format }) => {
                let cells = time_cells(column(name), format.as_ref());
                let mut cells = cells.map_err(|why| batch.wrong_column(name, why))?;
                add(BadKind::Time, name, std::mem::take(&mut cells.bad));
                Some(cells)
            }
        };
        let weights = match self.weight {
            None => None,
            Some(name) => {
                let (weights, wrong) = weights(column(name)).map_err(|why| batch.wrong_column(name, why))?;
                add(BadKind::Weight, name, wrong);
                Some(weights)
            }
        };
        bad.sort_by_key(|&(row, kind, _)| (row, kind));
        Ok(Decoded { features, label, times, weights, bad })
    }
}

fn unknown_widths(features: &[Feature]) -> Widths {
    features.iter().map(|feature| vec![None; feature.columns.len()]).collect()
}

impl Transform {
    /// Returns the separator of vectors in texts.
    fn vector_separator(&self) -> Option<&str> {
        match self {
            Self::NoOp { separator, .. } => separator.as_deref(),
            _ => None,
        }
    }
}

/// Decodes labels. Texts are decoded when it is known whether all of them are numbers.
fn label_cells(
    array: &ArrayRef,
    label: &LabelColumn,
    target_width: Option<usize>,
) -> Result<(LabelCells, Vec<BadCell>), String> {
    if label.is_regression || label.separator.is_some() || array.data_type().is_nested() {
        return target_cells(array, label, target_width);
    }
    if is_text(array.data_type()) {
        return Ok((LabelCells::Texts(text_cells(array)?), Vec::new()));
    }
    let (classes, mut bad) = whole_numbers(array, Some(-1))?;
    let wrong = classes.iter().enumerate().filter_map(|(row, &class)| Some(BadCell { row, why: why_no_class(class)? }));
    bad.extend(wrong);
    Ok((LabelCells::Whole(classes), bad))
}

/// Decodes numbers to predict, or several labels per row.
fn target_cells(
    array: &ArrayRef,
    label: &LabelColumn,
    target_width: Option<usize>,
) -> Result<(LabelCells, Vec<BadCell>), String> {
    let kind = if label.is_regression { TargetKind::Regression } else { TargetKind::MultiLabel };
    let mut width = target_width;
    let Numbers { values, width, mut bad } = optional_numbers(array, label.separator.as_deref(), &mut width)?;
    if kind == TargetKind::MultiLabel {
        let is_label = |value: f64| value == 0.0 || value == 1.0 || value.is_nan();
        let wrong = |(row, values): (usize, &[f64])| {
            let value = values.iter().find(|&&value| !is_label(value))?;
            let why = format!("{value} is not 0 or 1; each row has a 1 for each label that applies to it");
            Some(BadCell { row, why })
        };
        bad.extend(values.chunks_exact(width).enumerate().filter_map(wrong));
    }
    Ok((LabelCells::Targets { values: values.iter().map(|&value| value as f32).collect(), width, kind }, bad))
}

/// Returns the reason why a number is not a class.
pub(super) fn why_no_class(class: i64) -> Option<String> {
    let is_class = (-1..=i64::from(i32::MAX)).contains(&class);
    (!is_class).then(|| format!("{class} is not a class: 0, 1, 2 and so on, or -1 for none"))
}

fn weights(array: &ArrayRef) -> Result<(Vec<f32>, Vec<BadCell>), String> {
    let mut width = Some(1);
    let Numbers { values, mut bad, .. } = numbers(array, None, &mut width)?;
    let is_negative =
        |(row, &weight): (usize, &f64)| (weight < 0.0).then(|| BadCell { row, why: format!("{weight} is negative") });
    bad.extend(values.iter().enumerate().filter_map(is_negative));
    Ok((values.iter().map(|&weight| weight as f32).collect(), bad))
}
