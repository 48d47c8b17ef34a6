//! The features of a table.

use crate::config_values::{Item, Object};
use crate::table::{NaValues, seconds_of_text};
use crate::transform::{Impute, Input, Strategy, Transform};

/// A feature: columns, the replacement of their missing values, and the transform that turns them into numbers.
#[derive(Clone, Debug)]
pub(crate) struct Feature {
    /// The path of the feature in the configuration, for errors.
    pub(crate) at: String,
    /// The name, unique within a node type or relation.
    pub(crate) name: String,
    /// True if the name is from `feature_name`, and not that of the column.
    pub(crate) is_named: bool,
    /// The columns, whose numbers are joined.
    pub(crate) columns: Vec<String>,
    /// True to store 16-bit floats.
    pub(crate) is_half: bool,
    /// The separator of vectors in texts, beside a transform of numbers.
    pub(crate) separator: Option<String>,
    /// The transform.
    pub(crate) transform: Transform,
    /// The keys of the transform that are given.
    pub(crate) given: Vec<String>,
    /// The replacement of missing values, if they are not bad rows or zeros of categories.
    pub(crate) impute: Option<Impute>,
    /// The rows that the transform and the replacement are fitted on, if these are given.
    pub(crate) fit_on: Option<FitRows>,
    /// The values that are missing in the columns, beside those of the table.
    pub(crate) missing_values: Option<NaValues>,
}

/// The rows that a feature is fitted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FitRows {
    /// All used rows.
    All,
    /// The rows of training, or all rows of a type without splits.
    Training,
}

/// The keys of a feature. GraphStorm writes `feature_dim` into the configurations that it saves.
const KEYS: &[&str] = &[
    "feature_col",
    "feature_name",
    "out_dtype",
    "transform",
    "impute",
    "fill_value",
    "indicator",
    "missing_values",
    "fit_on",
    "feature_dim",
];

impl Feature {
    /// Returns the columns for errors.
    pub(crate) fn shown_columns(&self) -> String {
        let word = if self.columns.len() == 1 { "column" } else { "columns" };
        format!("{word} {}", self.columns.join(", "))
    }

    /// Returns true if the feature is fitted on the rows of training.
    pub(crate) fn is_fitted_on_training(&self) -> bool {
        match self.fit_on {
            Some(rows) => rows == FitRows::Training,
            None => self.transform.is_fitted_on_training(),
        }
    }

    /// Returns the name of what is fitted for errors.
    pub(crate) fn shown_fit(&self) -> String {
        match &self.impute {
            Some(impute) if !self.transform.is_fitted() => impute.shown(),
            _ => self.transform.name().to_owned(),
        }
    }

    /// Returns true if all values of a column are in memory while the feature is fitted.
    pub(crate) fn keeps_values(&self) -> bool {
        let is_median = self.impute.as_ref().is_some_and(|impute| impute.strategy == Strategy::Median);
        is_median || self.transform.keeps_values()
    }

    /// Reads the key `features`. Adds what it leaves out to `unsupported`. An error has a line for each wrong feature.
    pub(super) fn read_list(object: &Object, unsupported: &mut Vec<String>) -> Result<Vec<Self>, String> {
        let Some(list) = object.get("features") else { return Ok(Vec::new()) };
        let mut features = Vec::new();
        let mut wrong = Vec::new();
        for item in list.list()? {
            match Self::read(&item, unsupported) {
                Ok(feature) => features.extend(feature),
                Err(why) => wrong.push(why),
            }
        }
        if wrong.is_empty() { Ok(features) } else { Err(wrong.join("\n")) }
    }

    fn read(item: &Item, unsupported: &mut Vec<String>) -> Result<Option<Self>, String> {
        let object = item.object()?;
        object.only(&[KEYS, Transform::NO_OP_KEYS].concat())?;
        let transform = match object.get("transform") {
            Some(transform) => read_transform(&transform, unsupported)?,
            None => Some(Transform::no_op(&object)?),
        };
        let Some(transform) = transform else { return Ok(None) };
        let given = match object.get("transform") {
            Some(transform) => transform.object()?.given_keys(),
            None => object.given_keys(),
        };
        let separator = match object.get("transform") {
            Some(_) => read_separator(&object, &transform)?,
            None => None,
        };
        let columns = object.required("feature_col")?;
        let names = columns.texts()?;
        let name = match (object.get("feature_name"), &names[..]) {
            (Some(name), _) => name.text()?,
            (None, [name]) => name.clone(),
            (None, _) => return item.wrong("several columns need a feature_name"),
        };
        let is_named = object.get("feature_name").is_some();
        if names.len() > 1 && transform.takes_texts() {
            return columns.wrong(format!("{} takes one column: make a feature of each", transform.name()));
        }
        if ["train_mask", "val_mask", "test_mask"].contains(&name.as_str()) {
            unsupported.push(format!(
                "{}: masks as features; list the ids in custom_split_filenames, as `python -m edgecut.convert CONF OUT` does",
                item.path
            ));
            return Ok(None);
        }
        let is_half = match object.get("out_dtype") {
            None => false,
            Some(dtype) => match dtype.text()?.as_str() {
                "float16" => true,
                "float32" => false,
                other @ ("float64" | "int8") => {
                    unsupported.push(format!("{}.out_dtype: {other}, as features are float32 or float16", item.path));
                    false
                }
                other => return dtype.not_one_of(other, &["float16", "float32", "float64", "int8"]),
            },
        };
        let impute = read_impute(&object, &transform)?;
        let missing_values = missing_values(&object)?;
        let fit_on = match object.get("fit_on") {
            None => None,
            Some(rows) => match rows.text()?.as_str() {
                "all" => Some(FitRows::All),
                "train" => Some(FitRows::Training),
                other => return rows.not_one_of(other, &["all", "train"]),
            },
        };
        let is_fitted = transform.is_fitted() || impute.as_ref().is_some_and(Impute::is_fitted);
        if let Some(rows) = object.get("fit_on").filter(|_| !is_fitted) {
            return rows.wrong(format!("nothing is fitted for {}: leave it out", transform.name()));
        }
        let at = item.path.clone();
        Ok(Some(Self {
            at,
            name,
            is_named,
            columns: names,
            is_half,
            separator,
            transform,
            given,
            impute,
            fit_on,
            missing_values,
        }))
    }
}

/// Reads the separator of a feature with a transform. The other keys of a feature without one are errors.
fn read_separator(object: &Object, transform: &Transform) -> Result<Option<String>, String> {
    for key in Transform::NO_OP_KEYS {
        let Some(item) = object.get(key) else { continue };
        let takes_vectors = matches!(transform.input(), Input::Numbers { separator: None, .. });
        if *key != "separator" || !takes_vectors {
            return item.wrong("it has no effect beside this transform: write it inside transform");
        }
    }
    object.text("separator")
}

/// Reads the key `missing_values` of a feature or a label.
pub(super) fn missing_values(object: &Object) -> Result<Option<NaValues>, String> {
    let Some(item) = object.get("missing_values") else { return Ok(None) };
    Ok(Some(NaValues::new(item.texts_and_numbers()?)))
}

/// Reads a transform, or adds one that is not supported to `unsupported`.
fn read_transform(item: &Item, unsupported: &mut Vec<String>) -> Result<Option<Transform>, String> {
    let object = item.object()?;
    match object.required("name")?.text()?.as_str() {
        name @ ("tokenize_hf" | "bert_hf") => unsupported.push(format!(
            "{}: the transform {name} runs a language model, whose vectors `python3 -m edgecut.language_models \
             CONFIGURATION` computes first",
            item.path
        )),
        name @ "edge_dst_hard_negative" => unsupported.push(format!(
            "{}: the transform {name}: store each source and negative destination as an edge of a type of its own, and name \
             the type in `train link --train-negatives`",
            item.path
        )),
        name @ "tabular" => unsupported.push(format!("{}: the transform {name}", item.path)),
        _ => return Transform::read(&object).map(Some),
    }
    Ok(None)
}

/// Reads the keys `impute`, `fill_value` and `indicator`.
fn read_impute(object: &Object, transform: &Transform) -> Result<Option<Impute>, String> {
    let Some(item) = object.get("impute") else {
        if let Some(item) = object.get("fill_value") {
            return item.wrong("it is the value of impute: constant, which is not set");
        }
        if object.flag("indicator")? {
            return object.required("indicator")?.wrong("it needs impute, for example impute: none for zeros");
        }
        return Ok(None);
    };
    let name = item.text()?;
    let fill = object.get("fill_value");
    let strategy = match (name.as_str(), transform.input(), &fill) {
        ("constant", _, None) => return item.wrong("constant needs fill_value"),
        ("constant", Input::Texts, Some(value)) => Strategy::Text(value.text()?),
        ("constant", Input::Times(_), Some(value)) => {
            Strategy::Numbers(vec![seconds_of_text(&value.text()?).or_else(|why| value.wrong(why))?])
        }
        ("constant", Input::Numbers { .. }, Some(value)) => Strategy::Numbers(value.numbers()?),
        (_, _, Some(value)) => return value.wrong("only impute: constant has a value"),
        ("mean" | "median", Input::Texts, None) => {
            return item.wrong(format!("texts have no {name}: choose one of most_frequent, constant and none"));
        }
        ("mean", _, None) => Strategy::Mean,
        ("median", _, None) => Strategy::Median,
        ("most_frequent", _, None) => Strategy::MostFrequent,
        ("none", _, None) => Strategy::Zeros,
        _ => return item.not_one_of(&name, Strategy::NAMES),
    };
    Ok(Some(Impute { strategy, has_indicator: object.flag("indicator")? }))
}
