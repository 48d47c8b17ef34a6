//! Fits and arrays over the tables of one type.

use super::attributes::{self, Attributes, PieceStarts};
use super::bad_rows::DropCounts;
use super::kept::Dropped;
use super::labels::LabelRule;
use super::spec::Spec;
use crate::TableError;
use crate::conf::Feature;
use crate::table::Table;
use crate::transform::{Fitted, SavedFeature, SavedType};
use edgecut_graph::{FeatureDtype, Features, GraphError};
use std::path::Path;

/// A table and the columns that become attributes.
pub(super) struct SpecTable<'a> {
    pub(super) table: Table,
    pub(super) spec: Spec<'a>,
    pub(super) starts: PieceStarts,
}

/// The attributes of all nodes or edges of a type.
pub(super) struct TypeColumns {
    pub(super) features: Option<Features>,
    pub(super) labels: Option<Vec<i64>>,
    pub(super) times: Option<Vec<i64>>,
    pub(super) weights: Option<Vec<f32>>,
    /// The number of used rows, if a table has attributes.
    pub(super) num_rows: Option<u64>,
    /// The transforms and classes.
    pub(super) saved: SavedType,
}

/// Finds the bad rows of all tables of a type.
///
/// # Errors
/// Fails if the tables have different numbers of rows.
pub(super) fn check_all(tables: &mut [SpecTable], counts: &mut DropCounts) -> Result<Dropped, TableError> {
    let mut dropped = Dropped::default();
    for of_type in &mut *tables {
        let (starts, rows) = attributes::check(&of_type.table, &of_type.spec, counts)?;
        of_type.starts = starts;
        dropped.extend(rows);
    }
    let [first, others @ ..] = &*tables else { return Ok(dropped) };
    for other in others {
        if other.starts.num_rows != first.starts.num_rows {
            return Err(differ(&other.table, other.starts.num_rows, first.starts.num_rows));
        }
    }
    Ok(dropped)
}

/// Fits the transforms of all tables of a type, unless they are `saved`, and computes the arrays. `num_rows` is the
/// number of used rows if it is known.
pub(super) fn compute(
    conf: &Path,
    name: &str,
    tables: &[SpecTable],
    dropped: &Dropped,
    saved: Option<&SavedType>,
    num_rows: Option<u64>,
) -> Result<TypeColumns, TableError> {
    let features: Vec<&Feature> = tables.iter().flat_map(|of_type| of_type.spec.features.iter().copied()).collect();
    check_names(conf, name, &features)?;
    if let Some(saved) = saved {
        check_saved(conf, name, &features, saved)?;
    }
    let mut columns =
        TypeColumns { features: None, labels: None, times: None, weights: None, num_rows, saved: SavedType::default() };
    let mut parts = Vec::new();
    for of_type in tables.iter().filter(|of_type| !of_type.spec.is_empty()) {
        let SpecTable { table, spec, starts } = of_type;
        let (fitted, rule) = match saved {
            Some(saved) => saved_rules(spec, saved),
            None => fitted_rules(conf, table, spec, starts, dropped)?,
        };
        let arrays = attributes::transform(table, spec, &fitted, &rule, (starts, dropped))?;
        let expected = *columns.num_rows.get_or_insert(arrays.num_rows);
        if arrays.num_rows != expected {
            return Err(differ(table, arrays.num_rows, expected));
        }
        if spec.label.is_some() {
            columns.saved.classes = rule.names().map(<[String]>::to_vec);
        }
        columns.add_features(spec, &fitted, &arrays.widths);
        parts.push((spec, arrays));
    }
    columns.join(parts, &features)?;
    Ok(columns)
}

fn differ(table: &Table, found: u64, expected: u64) -> TableError {
    let why = format!(
        "the table {} has {found} rows, but an earlier table of the same type has {expected}: several tables of a type \
         have a row for each node or edge, in the same order",
        table.at
    );
    TableError::file(table.first_path(), why)
}

fn fitted_rules(
    conf: &Path,
    table: &Table,
    spec: &Spec,
    starts: &PieceStarts,
    dropped: &Dropped,
) -> Result<(Vec<Fitted>, LabelRule), TableError> {
    let fits = attributes::fit(table, spec, starts, dropped)?;
    let mut fitted = Vec::with_capacity(spec.features.len());
    for (feature, partial) in spec.features.iter().zip(fits.features) {
        let named = |why| TableError::file(conf, format!("{}, feature {}: {why}", feature.at, feature.name));
        fitted.push(Fitted::new(&feature.transform, partial).map_err(named)?);
    }
    Ok((fitted, fits.label.rule()))
}

fn saved_rules(spec: &Spec, saved: &SavedType) -> (Vec<Fitted>, LabelRule) {
    let fitted = spec.features.iter().filter_map(|feature| saved.feature(&feature.name).cloned()).collect();
    (fitted, saved.classes.clone().map_or(LabelRule::Numbers, LabelRule::of_names))
}

fn check_names(conf: &Path, name: &str, features: &[&Feature]) -> Result<(), TableError> {
    for (at, feature) in features.iter().enumerate() {
        if features[..at].iter().any(|other| other.name == feature.name) {
            let why =
                format!("{}: {name} has two features with the name {}: set feature_name", feature.at, feature.name);
            return Err(TableError::file(conf, why));
        }
    }
    Ok(())
}

/// Checks that the saved transforms are those of the features, in the same order.
fn check_saved(conf: &Path, name: &str, features: &[&Feature], saved: &SavedType) -> Result<(), TableError> {
    let ours: Vec<(&str, &str)> = features.iter().map(|f| (f.name.as_str(), f.transform.name())).collect();
    let theirs: Vec<(&str, &str)> = saved.features.iter().map(|f| (f.name.as_str(), f.transform.name())).collect();
    if ours == theirs {
        return Ok(());
    }
    let show = |list: &[(&str, &str)]| match list {
        [] => "none".to_owned(),
        list => list.iter().map(|(name, transform)| format!("{name} ({transform})")).collect::<Vec<_>>().join(", "),
    };
    let why = format!(
        "the features of {name} are {}, but those of `transforms` are {}: new data needs the same features in the same \
         order",
        show(&ours),
        show(&theirs)
    );
    Err(TableError::file(conf, why))
}

impl TypeColumns {
    /// Records the transforms of a table and their columns.
    fn add_features(&mut self, spec: &Spec, fitted: &[Fitted], widths: &[usize]) {
        let saved = &mut self.saved.features;
        let mut start = saved.last().map_or(0, |last| last.columns[1]);
        for ((feature, transform), width) in spec.features.iter().zip(fitted).zip(widths) {
            let columns = [start, start + width];
            saved.push(SavedFeature { name: feature.name.clone(), columns, transform: transform.reduced() });
            start += width;
        }
    }

    /// Joins the arrays of all tables.
    fn join(&mut self, parts: Vec<(&Spec, Attributes)>, features: &[&Feature]) -> Result<(), TableError> {
        let dim = self.saved.features.last().map_or(0, |last| last.columns[1]);
        let num_rows = self.num_rows.unwrap_or(0) as usize;
        let with_features: Vec<_> = parts.iter().filter(|(_, part)| !part.widths.is_empty()).collect();
        let mut values = Vec::new();
        if with_features.len() > 1 {
            values = vec![0.0; num_rows * dim];
            let mut start = 0;
            for (_, part) in &with_features {
                let width = part.widths.iter().sum::<usize>();
                for (row, numbers) in part.features.chunks_exact(width).enumerate() {
                    values[row * dim + start..][..width].copy_from_slice(numbers);
                }
                start += width;
            }
        }
        let is_single = with_features.len() == 1;
        for (spec, part) in parts {
            if is_single && !part.widths.is_empty() {
                values = part.features;
            }
            if spec.label.is_some() {
                self.labels = Some(part.labels);
            }
            if spec.time.is_some() {
                self.times = Some(part.times);
            }
            if spec.weight.is_some() {
                self.weights = Some(part.weights);
            }
        }
        if dim > 0 {
            let wide = Features::F32 { values: values.into(), dim };
            let is_half = features.iter().all(|feature| feature.is_half);
            self.features = Some(if is_half { half(wide)? } else { wide });
        }
        Ok(())
    }
}

fn half(features: Features) -> Result<Features, TableError> {
    let failed = |source| GraphError::OutOfRange { node_type: "with out_dtype float16".into(), source };
    Ok(features.to_dtype(FeatureDtype::F16).map_err(failed)?)
}
