//! Fits and arrays over the tables of one type.

use super::attributes::{self, Attributes, PieceStarts};
use super::bad_rows::DropCounts;
use super::kept::Dropped;
use super::labels::LabelRule;
use super::spec::Spec;
use super::{Context, TimesOfColumn};
use crate::conf::{Feature, Label};
use crate::saved_split::SavedSplit;
use crate::table::{Source, Table};
use crate::transform::{FittedFeature, SavedFeature, SavedType};
use crate::{OnBadRows, TableError};
use edgecut_graph::{Buffer, FeatureDtype, Features, GraphError, RowNumber, Targets, TimeUnit, Workspace};
use std::collections::BTreeMap;
use std::path::Path;

/// A table and the columns that become attributes.
pub(super) struct SpecTable<'a> {
    pub(super) table: Table,
    pub(super) spec: Spec<'a>,
    pub(super) starts: PieceStarts,
}

impl<'a> SpecTable<'a> {
    pub(super) fn open(context: &Context, at: &str, source: &Source, mut spec: Spec<'a>) -> Result<Self, TableError> {
        let table = context.open(at, source)?;
        spec.learn_widths(&table)?;
        Ok(Self { table, spec, starts: PieceStarts::default() })
    }
}

/// The treatment of the features of a type.
#[derive(Clone, Copy)]
pub(super) struct FeatureRules<'a> {
    /// The transforms to apply instead of fitting new ones.
    pub(super) saved: Option<&'a SavedType>,
    /// True to fit features only.
    pub(super) defer: bool,
    /// The columns to compute.
    pub(super) columns: Columns,
    /// The rows of training, if there are splits.
    pub(super) training: Option<&'a Dropped>,
}

/// The columns of a type to compute.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    All,
    Features,
    /// All but features, which are fitted when splits are known.
    AllButFeatures,
}

/// The attributes of all nodes or edges of a type.
pub(super) struct TypeColumns {
    pub(super) features: Option<Features>,
    pub(super) labels: Option<Buffer<i64>>,
    pub(super) targets: Option<Targets>,
    pub(super) times: Option<Buffer<i64>>,
    /// The column of the times.
    pub(super) time_column: Option<TimesOfColumn>,
    pub(super) weights: Option<Buffer<f32>>,
    /// The times or groups that decide about splits.
    pub(super) split_keys: Option<Buffer<i64>>,
    /// The unit of the times that decide about splits.
    split_unit: Option<TimeUnit>,
    /// The number of used rows, if a table has attributes.
    pub(super) num_rows: Option<u64>,
    /// The transforms and classes.
    pub(super) saved: SavedType,
    /// The number and the type of features that are built after the parts.
    pub(super) deferred: Option<(usize, FeatureDtype)>,
}

/// Finds the bad rows of all tables of a type.
///
/// # Errors
/// Fails if the tables have different numbers of rows.
pub(super) fn check_all(tables: &mut [SpecTable], counts: &mut DropCounts) -> Result<Dropped, TableError> {
    let mut dropped = Dropped::default();
    let mut dropped_by_table: BTreeMap<String, Dropped> = BTreeMap::new();
    for position in 0..tables.len() {
        let (earlier, others) = tables.split_at_mut(position);
        let of_type = &mut others[0];
        let at = &of_type.table.at;
        // Further labels of a table are read like tables of their own. A row counts once for all of them.
        let same_table = earlier.iter().find(|other| other.table.at == *at);
        let of_table = dropped_by_table.entry(at.clone()).or_default();
        let counted: &Dropped = of_table;
        let known = same_table.map(|other| (&other.starts, counted));
        let (starts, rows) = attributes::check(&of_type.table, &of_type.spec, known, counts)?;
        counts.set_table_rows(at, starts.num_rows);
        of_type.starts = starts;
        dropped.extend(rows.iter().copied());
        of_table.extend(rows);
    }
    let [first, others @ ..] = &*tables else { return Ok(dropped) };
    for other in others {
        if other.starts.num_rows != first.starts.num_rows {
            return Err(differ(&other.table, other.starts.num_rows, first.starts.num_rows));
        }
    }
    Ok(dropped)
}

/// Fits the transforms of all tables of a type, unless they are `saved`, and computes the arrays in the place of the
/// options. `num_rows` is the number of used rows if it is known.
pub(super) fn compute(
    context: &Context,
    name: &str,
    tables: &[SpecTable],
    dropped: &Dropped,
    rules: FeatureRules,
    num_rows: Option<u64>,
) -> Result<TypeColumns, TableError> {
    let conf = context.conf;
    let space = &context.options.space;
    let FeatureRules { saved, defer, .. } = rules;
    let features: Vec<&Feature> = tables.iter().flat_map(|of_type| of_type.spec.features.iter().copied()).collect();
    check_names(conf, name, &features)?;
    if let Some(saved) = saved {
        check_saved(conf, name, &features, saved)?;
    }
    let mut columns = TypeColumns {
        features: None,
        labels: None,
        targets: None,
        times: None,
        time_column: None,
        weights: None,
        split_keys: None,
        split_unit: None,
        num_rows,
        saved: SavedType::default(),
        deferred: None,
    };
    if let Some(saved) = saved.filter(|_| context.is_update) {
        columns.saved.split.clone_from(&saved.split);
        columns.saved.group_limits = saved.group_limits;
    }
    let mut parts = Vec::new();
    for SpecTable { table, spec, starts } in tables {
        let spec = &spec.only(rules.columns);
        if spec.is_empty() {
            continue;
        }
        let (fitted, rule) = match saved {
            Some(saved) => saved_rules(spec, saved),
            None => fitted_rules(conf, table, spec, (starts, dropped), rules.training)?,
        };
        if spec.label.is_some() {
            columns.saved.classes = rule.names().map(<[String]>::to_vec);
        }
        let mut fitted = fitted;
        let mut computed = spec.clone();
        if defer && !spec.features.is_empty() {
            let known: Option<Vec<usize>> = spec.output_widths(&fitted).into_iter().collect();
            let Some(widths) = known else {
                let why = format!("no row of the table {} has all features", table.at);
                return Err(TableError::file(table.first_path(), why));
            };
            columns.add_features(spec, &fitted, &widths);
            computed.features.clear();
            computed.widths.clear();
            fitted.clear();
        }
        if computed.is_empty() {
            continue;
        }
        let arrays = attributes::transform(space, table, &computed, &fitted, &rule, (starts, dropped))?;
        if arrays.targets.is_some() && columns.saved.classes.take().is_some() {
            let why = format!("the labels of {name} are numbers, but those of transforms.json have names of classes");
            return Err(TableError::file(conf, why));
        }
        // The few labels of an update may lack other classes of the parts.
        if let Some(label) = spec.label.filter(|_| rule.names().is_none() && !context.is_update) {
            table.record_whole_labels(&label.name, &arrays.labels);
        }
        let expected = *columns.num_rows.get_or_insert(arrays.num_rows);
        if arrays.num_rows != expected {
            return Err(differ(table, arrays.num_rows, expected));
        }
        columns.add_features(&computed, &fitted, &arrays.widths);
        if let (Some(time), Some(unit)) = (computed.time, arrays.time_unit) {
            let column = format!("column {} of {}", time.name, table.at);
            columns.time_column = Some(TimesOfColumn { unit, column, path: table.first_path().to_path_buf() });
        }
        parts.push((computed, arrays));
    }
    columns.join(space, parts, &features)?;
    let dim = columns.saved.features.last().map_or(0, |last| last.columns[1]);
    if defer && dim > 0 {
        columns.deferred = Some((dim, dtype(features)));
    }
    Ok(columns)
}

/// Fits the features of a type whose splits are known, and computes them. `training` are the ascending numbers of the training
/// nodes or edges.
///
/// # Errors
/// As for [`compute`]. Also fails if there are no such nodes or edges.
pub(super) fn compute_features<T: RowNumber>(
    context: &Context,
    name: &str,
    tables: &mut [SpecTable],
    dropped: &Dropped,
    rules: FeatureRules,
    training: impl Iterator<Item = T>,
) -> Result<TypeColumns, TableError> {
    let mut training = training.peekable();
    if training.peek().is_none() {
        let mut features = tables.iter().flat_map(|of_type| of_type.spec.features.iter());
        if let Some(feature) = features.find(|feature| feature.is_fitted_on_training()) {
            let why = format!(
                "{}, feature {}: there are no training rows to fit {} on: set fit_on to all, or apply the transforms of other parts \
                 by --transforms",
                feature.at,
                feature.name,
                feature.shown_fit()
            );
            return Err(TableError::file(context.conf, why));
        }
    }
    // The training rows are rows of the whole table, which the check of all rows has counted.
    if context.options.on_bad_rows != OnBadRows::Drop {
        for of_type in &mut *tables {
            of_type.starts = PieceStarts::count(&of_type.table)?;
        }
    }
    let training = dropped.clone().with_only(training);
    let rules = FeatureRules { columns: Columns::Features, training: Some(&training), ..rules };
    compute(context, name, tables, dropped, rules, None)
}

pub(super) fn differ(table: &Table, found: u64, expected: u64) -> TableError {
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
    (starts, dropped): (&PieceStarts, &Dropped),
    training: Option<&Dropped>,
) -> Result<(Vec<FittedFeature>, LabelRule), TableError> {
    let fits = attributes::fit(table, spec, starts, dropped, training)?;
    if fits.num_rows == Some(0) && dropped.len() == 0 {
        return Err(attributes::no_rows(table));
    }
    let mut fitted = Vec::with_capacity(spec.features.len());
    for (feature, partial) in spec.features.iter().zip(&fits.features) {
        let named = |why| TableError::file(conf, format!("{}, feature {}: {why}", feature.at, feature.name));
        let of_feature = FittedFeature::fit(&feature.transform, feature.impute.as_ref(), partial.as_ref());
        let of_feature = of_feature.map_err(named)?;
        // Given categories are meant.
        if partial.is_some() {
            table.record_suspects(&feature.columns[0], of_feature.categories());
        }
        fitted.push(of_feature);
    }
    let rule = fits.label.rule();
    if let (Some(label), Some(names), Some(num_rows)) = (spec.label, rule.names(), fits.num_rows) {
        table.record_classes(&label.name, names.len(), num_rows);
    }
    if let Some(label) = spec.label {
        table.record_suspects(&label.name, rule.names().unwrap_or_default().iter().map(String::as_str));
    }
    Ok((fitted, rule))
}

fn saved_rules(spec: &Spec, saved: &SavedType) -> (Vec<FittedFeature>, LabelRule) {
    let fitted = spec.features.iter().filter_map(|feature| saved.feature(&feature.name)).collect();
    (fitted, saved.classes.clone().map_or(LabelRule::Numbers, LabelRule::of_names))
}

fn check_names(conf: &Path, name: &str, features: &[&Feature]) -> Result<(), TableError> {
    for (at, feature) in features.iter().enumerate() {
        let Some(other) = features[..at].iter().find(|other| other.name == feature.name) else { continue };
        let remedy = match [feature, other].into_iter().find(|feature| !feature.is_named) {
            Some(unnamed) => format!("{} has the name of its column: give it another name by feature_name", unnamed.at),
            None => format!("change {}.feature_name", feature.at),
        };
        let why = format!("{} and {} of {name} both have the name {}; {remedy}", other.at, feature.at, feature.name);
        return Err(TableError::file(conf, why));
    }
    Ok(())
}

/// Checks that the features have the saved transforms, in the same order, with the parameters that are given.
fn check_saved(conf: &Path, name: &str, features: &[&Feature], saved: &SavedType) -> Result<(), TableError> {
    let ours: Vec<(&str, String)> =
        features.iter().map(|f| (f.name.as_str(), f.transform.shown(f.impute.as_ref()))).collect();
    let theirs: Vec<(&str, String)> = saved.features.iter().map(|f| (f.name.as_str(), f.fitted().shown())).collect();
    if ours == theirs {
        for (feature, saved) in features.iter().zip(&saved.features) {
            let checked = saved.fitted().check_given(&feature.transform, feature.impute.as_ref(), &feature.given);
            checked
                .map_err(|why| TableError::file(conf, format!("{}, feature {}: {why}", feature.at, feature.name)))?;
        }
        return Ok(());
    }
    let show = |list: &[(&str, String)]| match list {
        [] => "none".to_owned(),
        list => list.iter().map(|(name, transform)| format!("{name} ({transform})")).collect::<Vec<_>>().join(", "),
    };
    let why = format!(
        "the features of {name} are {}, but those of transforms.json are {}: its transforms need the same features in the same \
         order",
        show(&ours),
        show(&theirs)
    );
    Err(TableError::file(conf, why))
}

impl TypeColumns {
    /// Records the transforms of a table and their columns.
    fn add_features(&mut self, spec: &Spec, fitted: &[FittedFeature], widths: &[usize]) {
        let saved = &mut self.saved.features;
        let mut start = saved.last().map_or(0, |last| last.columns[1]);
        for ((feature, fitted), width) in spec.features.iter().zip(fitted).zip(widths) {
            saved.push(SavedFeature::new(&feature.name, [start, start + width], fitted));
            start += width;
        }
    }

    /// Records the rule of the splits of a label, or checks the times of an update by the recorded rule.
    ///
    /// # Errors
    /// Fails for times of an update that have another unit than the times of the parts.
    pub(super) fn record_split(&mut self, context: &Context, label: &Label) -> Result<(), TableError> {
        let rule = SavedSplit::new(label, context.options.seed, self.split_unit);
        let recorded = self.saved.split.get_or_insert(rule);
        recorded
            .check_unit(self.split_unit)
            .map_err(|why| TableError::file(context.conf, format!("{}.{why}", label.at)))
    }

    /// Takes the features of other columns of the same type.
    pub(super) fn set_features(&mut self, of_features: Self) {
        self.features = of_features.features;
        self.saved.features = of_features.saved.features;
        self.deferred = of_features.deferred;
    }

    /// Joins the arrays of all tables.
    fn join(
        &mut self,
        space: &Workspace,
        parts: Vec<(Spec, Attributes)>,
        features: &[&Feature],
    ) -> Result<(), TableError> {
        let dim = self.saved.features.last().map_or(0, |last| last.columns[1]);
        let num_rows = self.num_rows.unwrap_or(0) as usize;
        let with_features: Vec<&Attributes> =
            parts.iter().map(|(_, part)| part).filter(|part| !part.widths.is_empty()).collect();
        let values = match with_features[..] {
            [] => None,
            [single] => Some(single.features.clone()),
            _ => Some(space.build_rows(num_rows, dim, "joining features", |range| {
                let mut values = Vec::with_capacity(range.len() * dim);
                for row in range {
                    for part in &with_features {
                        let width = part.widths.iter().sum::<usize>();
                        values.extend_from_slice(&part.features[row * width..][..width]);
                    }
                }
                Ok(values)
            })?),
        };
        for (spec, part) in parts {
            if spec.label.is_some() {
                self.labels = part.targets.is_none().then_some(part.labels);
                self.targets = part.targets;
            }
            if spec.time.is_some() {
                self.times = Some(part.times);
            }
            if spec.weight.is_some() {
                self.weights = Some(part.weights);
            }
            if spec.split.is_some() {
                self.split_keys = Some(part.split_keys);
                self.split_unit = part.split_unit;
            }
        }
        if let Some(values) = values.filter(|_| dim > 0) {
            let wide = Features::F32 { values, dim };
            self.features = Some(match dtype(features.iter().copied()) {
                FeatureDtype::F16 => half(space, wide)?,
                _ => wide,
            });
        }
        Ok(())
    }
}

/// Returns the stored type of the features of a type.
pub(super) fn dtype<'a>(features: impl IntoIterator<Item = &'a Feature>) -> FeatureDtype {
    if features.into_iter().all(|feature| feature.is_half) { FeatureDtype::F16 } else { FeatureDtype::F32 }
}

fn half(space: &Workspace, features: Features) -> Result<Features, TableError> {
    let failed = |source| GraphError::OutOfRange { node_type: "with out_dtype float16".into(), source };
    Ok(features.to_dtype_in(space, FeatureDtype::F16)?.map_err(failed)?)
}
