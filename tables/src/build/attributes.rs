//! The attributes of the rows of a table: checks, fits and the final arrays.

use super::bad_rows::{BadInPiece, DropCounts};
use super::kept::Dropped;
use super::labels::{LabelProbe, LabelRule};
use super::spec::{Decoded, FeatureCells, LabelCells, Spec};
use crate::table::{FeatureRange, Results, Rows, Stop, Table, scan, scan_in_steps};
use crate::transform::{FeatureRows, FittedFeature, MAX_FEATURES, Partial};
use crate::{OnBadRows, TableError};
use edgecut_graph::{Buffer, GrowingArray, TargetMeta, Targets, TimeUnit, Workspace};
use std::path::Path;

/// The rows of a table: their number and those of each piece.
#[derive(Default)]
pub(super) struct PieceStarts {
    /// The row that each piece starts with.
    starts: Vec<u64>,
    /// The number of rows.
    pub(super) num_rows: u64,
}

/// The arrays of some used rows of a table.
#[derive(Default)]
struct SomeRows {
    features: FeatureRows,
    /// The number of columns of each feature.
    widths: Vec<usize>,
    /// The number of unknown categories of each feature.
    num_unknown: Vec<u64>,
    /// The range of each feature.
    ranges: Vec<FeatureRange>,
    labels: Vec<i64>,
    targets: Vec<f32>,
    target_shape: Option<TargetMeta>,
    times: Vec<i64>,
    time_unit: Option<TimeUnit>,
    weights: Vec<f32>,
    split_keys: Vec<i64>,
    split_unit: Option<TimeUnit>,
    num_rows: u64,
}

/// The arrays of the used rows of a table, while they are read.
struct GrowingRows<'a> {
    features: GrowingArray<'a, f32>,
    widths: Vec<usize>,
    labels: GrowingArray<'a, i64>,
    targets: GrowingArray<'a, f32>,
    target_shape: Option<TargetMeta>,
    times: GrowingArray<'a, i64>,
    time_unit: Option<TimeUnit>,
    weights: GrowingArray<'a, f32>,
    split_keys: GrowingArray<'a, i64>,
    split_unit: Option<TimeUnit>,
    num_rows: u64,
}

/// The arrays of the used rows of a table.
pub(super) struct Attributes {
    /// The features, row-major.
    pub(super) features: Buffer<f32>,
    /// The number of columns of each feature.
    pub(super) widths: Vec<usize>,
    pub(super) labels: Buffer<i64>,
    /// The targets, if the label column has these and not classes.
    pub(super) targets: Option<Targets>,
    pub(super) times: Buffer<i64>,
    /// The unit of the times, if there are times.
    pub(super) time_unit: Option<TimeUnit>,
    pub(super) weights: Buffer<f32>,
    /// The times or groups that decide about splits.
    pub(super) split_keys: Buffer<i64>,
    /// The unit of these times.
    pub(super) split_unit: Option<TimeUnit>,
    /// The number of used rows.
    pub(super) num_rows: u64,
}

/// The statistics of a table.
pub(super) struct Fits {
    /// For each feature, its statistics if it needs any.
    pub(super) features: Vec<Option<Partial>>,
    pub(super) label: LabelProbe,
    /// The number of used rows; `None` if nothing was read.
    pub(super) num_rows: Option<u64>,
}

impl PieceStarts {
    /// Adds the rows of the next piece.
    fn push(&mut self, num_rows: u64) {
        self.starts.push(self.num_rows);
        self.num_rows += num_rows;
    }

    /// Counts the rows of a table.
    pub(super) fn count(table: &Table) -> Result<Self, TableError> {
        let mut starts = Self::default();
        let map = |_, mut rows: Rows| {
            let mut num_rows = 0;
            while let Some(batch) = rows.next()? {
                num_rows += batch.num_rows as u64;
            }
            Ok(num_rows)
        };
        scan(table, "counting rows", &[], map, |_, num_rows| {
            starts.push(num_rows);
            Ok(())
        })?;
        Ok(starts)
    }

    /// Returns the row that a piece starts with. Without known starts no row is left out, and the start is not used.
    pub(super) fn start(&self, piece: usize) -> u64 {
        self.starts.get(piece).copied().unwrap_or(0)
    }
}

/// Finds the rows with values that cannot be used, if such rows are dropped. `known` are rows of the table that are counted
/// already, with the starts of its pieces.
pub(super) fn check(
    table: &Table,
    spec: &Spec,
    known: Option<(&PieceStarts, &Dropped)>,
    counts: &mut DropCounts,
) -> Result<(PieceStarts, Vec<u64>), TableError> {
    let mut starts = PieceStarts::default();
    let mut dropped = Vec::new();
    let map = |piece, mut rows: Rows| {
        let mut bad = BadInPiece::default();
        let mut widths = spec.widths.clone();
        let mut offset = 0;
        while let Some(batch) = rows.next()? {
            for wrong in spec.decode(&batch, &mut widths)?.bad {
                let row_of_piece = offset + wrong.0 as u64;
                if known.is_none_or(|(starts, dropped)| dropped.uses(starts.start(piece) + row_of_piece)) {
                    bad.add(&batch, offset, wrong, OnBadRows::Drop)?;
                }
            }
            offset += batch.num_rows as u64;
        }
        Ok((offset, bad))
    };
    scan(table, "checking rows", &spec.columns(), map, |_, (num_rows, bad)| {
        counts.add(&table.at, &bad);
        dropped.extend(bad.rows.iter().map(|row| starts.num_rows + row));
        starts.push(num_rows);
        Ok(())
    })?;
    Ok((starts, dropped))
}

/// Visits the used rows of a piece, batch by batch: with the row of the table that the batch starts with, and the used rows
/// counted from there. `take` gets the result of each visit.
fn visit<T>(
    rows: &mut Rows,
    spec: &Spec,
    start: u64,
    dropped: &Dropped,
    mut visit: impl FnMut(&Decoded, u64, &mut dyn Iterator<Item = usize>) -> Result<T, (usize, String)>,
    mut take: impl FnMut(T) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut widths = spec.widths.clone();
    let mut row = start;
    while let Some(batch) = rows.next()? {
        let decoded = spec.decode(&batch, &mut widths)?;
        let end = row + batch.num_rows as u64;
        if let Some((bad, _, why)) = decoded.bad.iter().find(|(bad, ..)| dropped.uses(row + *bad as u64)) {
            return Err(batch.wrong(*bad, why.as_str()).into());
        }
        let used = &mut dropped.kept(row..end);
        let result = visit(&decoded, row, used).map_err(|(row, why)| batch.wrong_value(row, why))?;
        take(result)?;
        row = end;
    }
    Ok(())
}

/// Collects the statistics of the features that need them, and of labels that are texts. Features that are fitted on the
/// rows of training use only the rows `training`, if there are splits.
pub(super) fn fit(
    table: &Table,
    spec: &Spec,
    starts: &PieceStarts,
    dropped: &Dropped,
    training: Option<&Dropped>,
) -> Result<Fits, TableError> {
    let needs: Vec<Option<Partial>> =
        spec.features.iter().map(|feature| Partial::new(&feature.transform, feature.impute.as_ref())).collect();
    let needed = |at: &usize| needs[*at].is_some();
    let fitted: Vec<usize> = (0..needs.len()).filter(needed).collect();
    let mut fits = Fits { features: needs.clone(), label: LabelProbe::default(), num_rows: None };
    if fitted.is_empty() && spec.label.is_none_or(|label| label.is_regression || label.separator.is_some()) {
        return Ok(fits);
    }
    let spec = Spec {
        features: fitted.iter().map(|&at| spec.features[at]).collect(),
        widths: fitted.iter().map(|&at| spec.widths[at].clone()).collect(),
        label: spec.label,
        target_width: spec.target_width,
        ..Spec::default()
    };
    let map = |piece: usize, mut rows: Rows, results: &Results<(Vec<Partial>, LabelProbe, u64)>| {
        let mut partials: Vec<Partial> = fitted.iter().filter_map(|&at| needs[at].clone()).collect();
        let mut probe = LabelProbe::default();
        let mut num_rows = 0;
        let add = |decoded: &Decoded, start: u64, rows: &mut dyn Iterator<Item = usize>| {
            let mut numbers = Vec::new();
            for row in rows {
                num_rows += 1;
                let is_training = training.is_none_or(|training| training.uses(start + row as u64));
                for ((partial, cells), feature) in partials.iter_mut().zip(&decoded.features).zip(&spec.features) {
                    if is_training || !feature.is_fitted_on_training() {
                        let added = partial.add(cells.row(row, &mut numbers));
                        added.map_err(|why| (row, format!("feature {}: {why}", feature.name)))?;
                    }
                }
                probe.add(decoded.label.as_ref(), row).map_err(|why| (row, why))?;
            }
            Ok(())
        };
        visit(&mut rows, &spec, starts.start(piece), dropped, add, |()| Ok(()))?;
        results.push((partials, probe, num_rows))
    };
    scan_in_steps(table, "fitting transforms", &spec.columns(), 0, map, |piece, (partials, probe, num_rows)| {
        *fits.num_rows.get_or_insert(0) += num_rows;
        for (&at, later) in fitted.iter().zip(partials) {
            if let Some(partial) = &mut fits.features[at] {
                let named =
                    |why| TableError::file(table.path_of(piece), format!("feature {}: {why}", spec.name(at, &fitted)));
                partial.merge(later).map_err(named)?;
            }
        }
        fits.label.merge(probe);
        Ok(())
    })?;
    Ok(fits)
}

impl Spec<'_> {
    /// Returns the range of no rows for each feature.
    fn empty_ranges(&self) -> Vec<FeatureRange> {
        self.features.iter().map(|feature| FeatureRange::new(feature.transform.takes_times())).collect()
    }

    /// Returns the name of the feature `at` of a table, of whose features this spec has those at `fitted`.
    fn name(&self, at: usize, fitted: &[usize]) -> &str {
        let position = fitted.iter().position(|&other| other == at);
        position.map_or("", |position| &self.features[position].name)
    }
}

/// Computes the arrays of the used rows, in `space`.
pub(super) fn transform(
    space: &Workspace,
    table: &Table,
    spec: &Spec,
    fitted: &[FittedFeature],
    labels: &LabelRule,
    (starts, dropped): (&PieceStarts, &Dropped),
) -> Result<Attributes, TableError> {
    let rows_of = |decoded: &Decoded, _: u64, rows: &mut dyn Iterator<Item = usize>| {
        let num_unknown = vec![0; spec.features.len()];
        let mut out = SomeRows { num_unknown, ranges: spec.empty_ranges(), ..SomeRows::default() };
        let mut rows = rows.peekable();
        if let Some(&first) = rows.peek() {
            out.check_widths(decoded, spec, fitted).map_err(|why| (first, why))?;
        }
        let mut row_numbers = Vec::new();
        for row in rows {
            out.num_rows += 1;
            let features = decoded.features.iter().zip(fitted).zip(&spec.features).enumerate();
            for (at, ((cells, fitted), feature)) in features {
                let pushed = out.features.push(fitted, cells.row(row, &mut row_numbers));
                let (added, num_unknown) = pushed
                    .map_err(|why| (row, format!("feature {} of {}: {why}", feature.name, feature.shown_columns())))?;
                out.num_unknown[at] += num_unknown;
                out.ranges[at].add(added);
            }
            match &decoded.label {
                None => {}
                Some(LabelCells::Targets { values, width, kind }) => {
                    out.target_shape = Some(TargetMeta { dim: *width, kind: *kind });
                    out.targets.extend_from_slice(&values[row * width..][..*width]);
                }
                Some(cells) => out.labels.push(labels.class(cells, row).map_err(|why| (row, why))?),
            }
            if let (Some(times), Some(column)) = (&decoded.times, spec.time) {
                out.times.push(times.values[row]);
                check_unit(&column.name, out.time_unit, times.units[row]).map_err(|why| (row, why))?;
                out.time_unit = Some(times.units[row]);
            }
            if let Some(keys) = &decoded.split_keys {
                out.split_keys.push(keys.values[row]);
                // Rows without a label may lack a time, and are in no split.
                let unit = keys.units.as_ref().map(|units| units[row]).filter(|_| !keys.is_missing[row]);
                if let Some(unit) = unit {
                    check_unit("split_by", out.split_unit, unit).map_err(|why| (row, why))?;
                    out.split_unit = Some(unit);
                }
            }
            out.weights.extend(decoded.weights.as_ref().map(|weights| weights[row]));
        }
        Ok(out)
    };
    let map = |piece: usize, mut rows: Rows, results: &Results<SomeRows>| {
        visit(&mut rows, spec, starts.start(piece), dropped, rows_of, |some| results.push(some))
    };
    let mut all = GrowingRows {
        features: space.growing()?,
        widths: Vec::new(),
        labels: space.growing()?,
        targets: space.growing()?,
        target_shape: None,
        times: space.growing()?,
        time_unit: None,
        weights: space.growing()?,
        split_keys: space.growing()?,
        split_unit: None,
        num_rows: 0,
    };
    let mut num_unknown = vec![0; spec.features.len()];
    let mut ranges = spec.empty_ranges();
    let num_features: usize = spec.output_widths(fitted).into_iter().flatten().sum();
    let row_bytes = size_of::<f32>() * (num_features + spec.target_width.unwrap_or(0));
    scan_in_steps(table, "computing attributes", &spec.columns(), row_bytes, map, |piece, some| {
        if let (Some(column), Some(unit)) = (spec.time, some.time_unit) {
            let wrong = |why| TableError::file(table.path_of(piece), why);
            check_unit(&column.name, all.time_unit, unit).map_err(wrong)?;
        }
        if let Some(unit) = some.split_unit {
            let wrong = |why| TableError::file(table.path_of(piece), why);
            check_unit("split_by", all.split_unit, unit).map_err(wrong)?;
        }
        num_unknown.iter_mut().zip(&some.num_unknown).for_each(|(sum, number)| *sum += number);
        ranges.iter_mut().zip(&some.ranges).for_each(|(range, later)| range.merge(*later));
        all.append(some, || table.path_of(piece))
    })?;
    for (feature, number) in spec.features.iter().zip(num_unknown) {
        table.record_unknown(&feature.name, number);
    }
    for (feature, range) in spec.features.iter().zip(ranges) {
        // Some scaled numbers are large if most of a column is nearly constant, and shares of rare values are small.
        if ["z_score", "frequency"].contains(&feature.transform.name()) {
            continue;
        }
        table.record_range(&feature.name, range);
    }
    if all.num_rows == 0 && dropped.len() == 0 {
        return Err(no_rows(table));
    }
    all.finish()
}

/// Returns the error about a table without rows.
pub(super) fn no_rows(table: &Table) -> TableError {
    TableError::file(table.first_path(), format!("the table {} has no rows", table.at))
}

/// Checks that the time of a row has the unit of earlier rows.
fn check_unit(column: &str, earlier: Option<TimeUnit>, unit: TimeUnit) -> Result<(), String> {
    match earlier {
        Some(earlier) if earlier != unit => {
            Err(format!("column {column}: its time is in {unit}, but the times of earlier rows are in {earlier}"))
        }
        _ => Ok(()),
    }
}

impl SomeRows {
    /// Checks that transforms take as many numbers as the columns have, and remembers the number of features.
    fn check_widths(&mut self, decoded: &Decoded, spec: &Spec, fitted: &[FittedFeature]) -> Result<(), String> {
        let mut widths = Vec::with_capacity(fitted.len());
        for ((cells, fitted), feature) in decoded.features.iter().zip(fitted).zip(&spec.features) {
            let width = match cells {
                FeatureCells::Numbers(columns) => columns.iter().map(|column| column.width).sum(),
                FeatureCells::Texts(_) => 1,
            };
            fitted.check_width(width).map_err(|why| format!("feature {}: {why}", feature.name))?;
            widths.push(fitted.output_width(width));
        }
        let num_features: usize = widths.iter().sum();
        if num_features > MAX_FEATURES {
            return Err(format!("it has {num_features} features, more than {MAX_FEATURES}"));
        }
        self.widths = widths;
        Ok(())
    }
}

impl GrowingRows<'_> {
    /// Adds the next rows, which are from the file that `path` returns.
    fn append<'p>(&mut self, later: SomeRows, path: impl Fn() -> &'p Path) -> Result<(), TableError> {
        if later.num_rows == 0 {
            return Ok(());
        }
        if self.num_rows > 0 && self.widths != later.widths {
            let why =
                format!("its features have {:?} numbers per row, but {:?} in earlier rows", later.widths, self.widths);
            return Err(TableError::file(path(), why));
        }
        if self.num_rows > 0 && self.target_shape != later.target_shape {
            let shown = |shape: Option<TargetMeta>| shape.map_or("classes".into(), |of| format!("{} numbers", of.dim));
            let [earlier, later] = [self.target_shape, later.target_shape].map(shown);
            return Err(TableError::file(path(), format!("its labels are {later}, but {earlier} in earlier rows")));
        }
        self.time_unit = later.time_unit;
        self.target_shape = later.target_shape;
        self.targets.append(later.targets)?;
        self.widths = later.widths;
        self.features.append(later.features.into_values())?;
        self.labels.append(later.labels)?;
        self.times.append(later.times)?;
        self.weights.append(later.weights)?;
        self.split_unit = self.split_unit.or(later.split_unit);
        self.split_keys.append(later.split_keys)?;
        self.num_rows += later.num_rows;
        Ok(())
    }

    fn finish(self) -> Result<Attributes, TableError> {
        let values = self.targets.finish()?;
        Ok(Attributes {
            targets: self.target_shape.map(|TargetMeta { dim, kind }| Targets { values, dim, kind }),
            features: self.features.finish()?,
            widths: self.widths,
            labels: self.labels.finish()?,
            times: self.times.finish()?,
            time_unit: self.time_unit,
            weights: self.weights.finish()?,
            split_keys: self.split_keys.finish()?,
            split_unit: self.split_unit,
            num_rows: self.num_rows,
        })
    }
}
