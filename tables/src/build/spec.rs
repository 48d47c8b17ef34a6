//! The columns of a table that become attributes, and their decoding.

use super::bad_rows::BadKind;
use super::columns::Columns;
use super::labels::is_missing_text;
use crate::TableError;
use crate::conf::{EdgeTable, Feature, Label, LabelColumn, NodeTable};
use crate::saved_split::SplitBy;
use crate::table::{
    BadCell, Batch, NumberForm, Numbers, Table, TimeCells, TimeColumn, is_text, number_form, numbers, only_numbers,
    seconds, text_cells, time_cells, whole_numbers,
};
use crate::transform::{FittedFeature, Input, Row};
use arrow_array::{Array, ArrayRef, StringArray};
use edgecut_graph::{TargetKind, TimeUnit, why_too_small};
use xxhash_rust::xxh3::xxh3_64;

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
    /// The column that decides about splits.
    pub(super) split: Option<&'a SplitBy>,
}

/// The number of values per row of each column of each feature, where known.
pub(super) type Widths = Vec<Vec<Option<usize>>>;

/// The values of some rows.
pub(super) struct Decoded {
    pub(super) features: Vec<FeatureCells>,
    pub(super) label: Option<LabelCells>,
    pub(super) times: Option<TimeCells>,
    pub(super) weights: Option<Vec<f32>>,
    pub(super) split_keys: Option<SplitKeys>,
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

/// The values that decide about the splits of some rows: times, or the hashes of groups.
pub(super) struct SplitKeys {
    pub(super) values: Vec<i64>,
    /// The unit of each time.
    pub(super) units: Option<Vec<TimeUnit>>,
    /// True for rows without a value, or with one that cannot be used.
    pub(super) is_missing: Vec<bool>,
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
            label: table.labels.first().and_then(|label| label.column.as_ref()),
            target_width: None,
            time: table.time_col.as_ref(),
            weight: None,
            split: table.labels.first().and_then(Label::split_by),
        }
    }

    /// Returns a label alone.
    pub(super) fn of_label(label: &'a Label) -> Self {
        Self { label: label.column.as_ref(), split: label.split_by(), ..Self::default() }
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
            split: table.label.as_ref().and_then(Label::split_by),
        }
    }

    /// Returns a part of the attributes.
    pub(super) fn only(&self, columns: Columns) -> Self {
        match columns {
            Columns::All => self.clone(),
            Columns::Features => {
                Self { features: self.features.clone(), widths: self.widths.clone(), ..Self::default() }
            }
            Columns::AllButFeatures => Self { features: Vec::new(), widths: Vec::new(), ..self.clone() },
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
        let split = self.split.and_then(split_column);
        for column in of_features.chain(label).chain(time).chain(self.weight).chain(split) {
            if !columns.iter().any(|known| known == column) {
                columns.push(column.to_owned());
            }
        }
        columns
    }

    /// Learns the number of values per row of each column from the first row of a table that has numbers there, so that all
    /// pieces of the table expect the same.
    pub(super) fn learn_widths(&mut self, table: &Table) -> Result<(), TableError> {
        let numeric = Self { time: None, weight: None, split: None, ..self.clone() };
        let is_known = |(feature, widths): (&&Feature, &Vec<Option<usize>>)| {
            !matches!(feature.transform.input(), Input::Numbers { .. }) || widths.iter().all(Option::is_some)
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
                // The label may have another form where it is known.
                Some(LabelCells::Texts(texts)) if texts.null_count() == texts.len() => {}
                _ => has_unknown_targets = false,
            }
            Ok(are_known(&self.widths) && !has_unknown_targets)
        })
    }

    /// Returns the number of columns of each feature after its transform, where known.
    pub(super) fn output_widths(&self, fitted: &[FittedFeature]) -> Vec<Option<usize>> {
        let width = |((feature, widths), fitted): ((&&Feature, &Vec<Option<usize>>), &FittedFeature)| {
            let num_numbers = match feature.transform.input() {
                Input::Texts => Some(1),
                Input::Times(_) => Some(feature.columns.len()),
                Input::Numbers { .. } => widths.iter().copied().sum::<Option<usize>>(),
            };
            num_numbers.map(|width| fitted.output_width(width))
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
            if feature.transform.takes_texts() {
                let name = &feature.columns[0];
                let texts = text_cells(column(name)).map_err(|why| batch.wrong_column(name, why))?;
                features.push(FeatureCells::Texts(texts));
                continue;
            }
            let mut cells = Vec::with_capacity(feature.columns.len());
            for (name, width) in feature.columns.iter().zip(widths) {
                let of_column = feature.numbers(column(name), width);
                let mut of_column = of_column.map_err(|why| batch.wrong_column(name, why))?;
                let mut wrong = std::mem::take(&mut of_column.bad);
                for cell in &mut wrong {
                    if cell.is_missing {
                        cell.why += &advice(feature);
                    } else if cell.has_other_length {
                        cell.why += "; length of no-op cuts longer lists, and fills shorter ones with zeros";
                    }
                }
                add(BadKind::Feature, name, wrong);
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
            Some(TimeColumn { name, form }) => {
                let cells = time_cells(column(name), form);
                let mut cells = cells.map_err(|why| batch.wrong_column(name, why))?;
                let mut wrong = std::mem::take(&mut cells.bad);
                let missing = wrong.iter_mut().filter(|cell| cell.is_missing);
                missing.for_each(|cell| cell.why += "; every row needs a time if time_col is set");
                add(BadKind::Time, name, wrong);
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
        let split_keys = match self.split.and_then(|split| Some((split, split_column(split)?))) {
            None => None,
            Some((split, name)) => {
                let keys = split_keys(split, column(name)).map_err(|why| batch.wrong_column(name, why));
                let (keys, mut wrong) = keys?;
                // Rows without a label are in no split.
                wrong.retain(|cell| label.as_ref().is_none_or(|label| label.is_known(cell.row)));
                add(BadKind::Split, name, wrong);
                Some(keys)
            }
        };
        bad.sort_by_key(|&(row, kind, _)| (row, kind));
        Ok(Decoded { features, label, times, weights, split_keys, bad })
    }
}

fn unknown_widths(features: &[Feature]) -> Widths {
    features.iter().map(|feature| vec![None; feature.columns.len()]).collect()
}

/// Returns the column that decides about splits, if one does.
fn split_column(split: &SplitBy) -> Option<&str> {
    match split {
        SplitBy::Random => None,
        SplitBy::Time(time) => Some(&time.name),
        SplitBy::Group(name) => Some(name),
    }
}

/// Decodes the values that decide about splits.
fn split_keys(split: &SplitBy, array: &ArrayRef) -> Result<(SplitKeys, Vec<BadCell>), String> {
    let (values, units, bad) = if let SplitBy::Time(TimeColumn { form, .. }) = split {
        let TimeCells { values, units, bad } = time_cells(array, form)?;
        (values, Some(units), bad)
    } else {
        let mut values = Vec::with_capacity(array.len());
        let mut bad = Vec::new();
        for (row, text) in text_cells(array)?.iter().enumerate() {
            if text.is_none() {
                bad.push(BadCell::missing(row));
            }
            values.push(text.map_or(0, group_key));
        }
        (values, None, bad)
    };
    let mut is_missing = vec![false; array.len()];
    bad.iter().for_each(|cell| is_missing[cell.row] = true);
    Ok((SplitKeys { values, units, is_missing }, bad))
}

/// Returns the hash of a group. All spellings of a number are one group, because a file of a table may have whole numbers, and
/// another one floats.
fn group_key(text: &str) -> i64 {
    match number_form(text) {
        Some(number) => xxh3_64(number.as_bytes()) as i64,
        None => xxh3_64(text.as_bytes()) as i64,
    }
}

/// Returns the advice for a missing value of a feature.
fn advice(feature: &Feature) -> String {
    format!(
        "; {}.impute replaces missing values: choose one of mean, median, most_frequent, constant and none (zeros)",
        feature.at
    )
}

impl Feature {
    /// Returns the numbers of a column. Missing numbers are NaN if they are replaced, and bad otherwise.
    fn numbers(&self, array: &ArrayRef, width: &mut Option<usize>) -> Result<Numbers, String> {
        let may_be_missing = self.impute.is_some();
        match self.transform.input() {
            Input::Times(form) => seconds(array, form, may_be_missing),
            Input::Numbers { separator, length } => {
                let separator = self.separator.as_deref().or(separator);
                let text_reader = ". The transform {name: to_categorical} reads texts";
                numbers(array, NumberForm { separator, length, may_be_missing, text_reader }, width)
            }
            Input::Texts => unreachable!("texts are no numbers"),
        }
    }
}

impl FeatureCells {
    /// Returns the values of a row. `numbers` holds the numbers of all columns.
    pub(super) fn row<'a>(&'a self, row: usize, numbers: &'a mut Vec<f64>) -> Row<'a> {
        match self {
            Self::Numbers(columns) => {
                numbers.clear();
                columns.iter().for_each(|column| numbers.extend(column.row(row)));
                Row::Numbers(numbers)
            }
            Self::Texts(texts) => Row::Text(texts.is_valid(row).then(|| texts.value(row))),
        }
    }
}

impl LabelCells {
    /// Returns true for a row with a label.
    fn is_known(&self, row: usize) -> bool {
        match self {
            Self::Whole(classes) => classes[row] != -1,
            Self::Texts(texts) => texts.is_valid(row) && !is_missing_text(texts.value(row)),
            Self::Targets { values, width, .. } => values[row * width..][..*width].iter().any(|value| !value.is_nan()),
        }
    }
}

/// Decodes labels. Texts are decoded when it is known whether all of them are numbers.
fn label_cells(
    array: &ArrayRef,
    label: &LabelColumn,
    target_width: Option<usize>,
) -> Result<(LabelCells, Vec<BadCell>), String> {
    let is_nested = array.data_type().is_nested();
    let are_numbers = label.is_regression || label.separator.is_some();
    if is_nested && !are_numbers && target_width == Some(1) {
        // Arrays of one column, as in HDF5, become lists of one class.
        let (classes, mut bad) = only_numbers(array)?;
        let (cells, wrong) = label_cells(&classes, label, None)?;
        bad.extend(wrong);
        return Ok((cells, bad));
    }
    // Other files of the table have lists.
    let is_unknown_list = target_width.is_some_and(|width| width > 1) && array.null_count() == array.len();
    if are_numbers || is_nested || is_unknown_list {
        return target_cells(array, label, target_width);
    }
    if is_text(array.data_type()) {
        return Ok((LabelCells::Texts(text_cells(array)?), Vec::new()));
    }
    let (classes, mut bad) = whole_numbers(array, Some(-1)).map_err(|why| {
        format!(
            "{why}: classes are texts or whole numbers. Convert the column, for example with pandas: table[column] = \
             table[column].astype(str)"
        )
    })?;
    bad.iter_mut().for_each(|cell| cell.why += "; task_type: regression predicts numbers");
    let wrong = classes.iter().enumerate().filter_map(|(row, &class)| Some(BadCell::new(row, why_no_class(class)?)));
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
    let text_reader = if label.is_regression { ". Texts are classes with task_type: classification" } else { "" };
    let form = NumberForm { separator: label.separator.as_deref(), length: None, may_be_missing: true, text_reader };
    let Numbers { values, width, mut bad } = numbers(array, form, &mut width)?;
    if kind == TargetKind::MultiLabel {
        let is_label = |value: f64| value == 0.0 || value == 1.0 || value.is_nan();
        let wrong = |(row, values): (usize, &[f64])| {
            let value = values.iter().find(|&&value| !is_label(value))?;
            let why = format!("{value} is not 0 or 1; each row has a 1 for each label that applies to it");
            Some(BadCell::new(row, why))
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
    let Numbers { values, mut bad, .. } = numbers(array, NumberForm::default(), &mut width)?;
    for (row, &weight) in values.iter().enumerate() {
        let why = if weight < 0.0 { Some(format!("{weight} is negative")) } else { why_too_small(weight) };
        bad.extend(why.map(|why| BadCell::new(row, why)));
    }
    Ok((values.iter().map(|&weight| weight as f32).collect(), bad))
}
