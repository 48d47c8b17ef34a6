//! The features of a table and their transforms.

use super::value::{Item, Object};
use crate::transform::{Clip, MAX_CATEGORIES, MAX_FEATURES, MIN_EPSILON};
use std::collections::BTreeMap;

/// A feature: columns, and the transform that turns them into numbers.
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
    /// The transform.
    pub(crate) transform: Transform,
}

/// A transform, as configured.
#[derive(Clone, Debug)]
pub(crate) enum Transform {
    /// The numbers themselves.
    NoOp { separator: Option<String>, truncate_dim: Option<usize> },
    /// Scaling of the range to `0..=1`.
    MaxMin { bounds: Clip, max: Option<Vec<f64>>, min: Option<Vec<f64>> },
    /// Division by the sum.
    Standard { sum: Option<Vec<f64>> },
    /// A Gaussian distribution by rank.
    RankGauss { epsilon: f64, uniquify: bool },
    /// One-hot encoding of a text, or multi-hot encoding of the texts between separators.
    Categorical { separator: Option<String>, mapping: Option<BTreeMap<String, u32>> },
    /// One-hot encoding of ranges, or multi-hot with a window.
    Bucket { count: usize, range: [f64; 2], window: f64 },
}

impl Feature {
    /// Returns the columns for errors.
    pub(crate) fn shown_columns(&self) -> String {
        let word = if self.columns.len() == 1 { "column" } else { "columns" };
        format!("{word} {}", self.columns.join(", "))
    }

    /// Reads the key `features`. Adds what it leaves out to `unsupported`.
    pub(super) fn read_list(object: &Object, unsupported: &mut Vec<String>) -> Result<Vec<Self>, String> {
        let Some(list) = object.get("features") else { return Ok(Vec::new()) };
        let mut features = Vec::new();
        for item in list.list()? {
            features.extend(Self::read(&item, unsupported)?);
        }
        Ok(features)
    }

    fn read(item: &Item, unsupported: &mut Vec<String>) -> Result<Option<Self>, String> {
        let object = item.object()?;
        // GraphStorm writes `feature_dim` into the configurations that it saves.
        object.only(&[
            "feature_col",
            "feature_name",
            "out_dtype",
            "transform",
            "separator",
            "truncate_dim",
            "feature_dim",
        ])?;
        let transform = match object.get("transform") {
            Some(transform) => Transform::read(&transform, unsupported)?,
            None => Some(Transform::no_op(&object)?),
        };
        let Some(transform) = transform else { return Ok(None) };
        let columns = object.required("feature_col")?;
        let names = columns.texts()?;
        let name = match (object.get("feature_name"), &names[..]) {
            (Some(name), _) => name.text()?,
            (None, [name]) => name.clone(),
            (None, _) => return item.wrong("several columns need a feature_name"),
        };
        let is_named = object.get("feature_name").is_some();
        if names.len() > 1 && matches!(transform, Transform::Categorical { .. }) {
            return columns.wrong("to_categorical takes one column: make a feature of each");
        }
        if ["train_mask", "val_mask", "test_mask"].contains(&name.as_str()) {
            unsupported.push(format!("{}: masks as features; list the ids in custom_split_filenames", item.path));
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
                other => return dtype.wrong(format!("{other:?} is not one of float16, float32, float64 and int8")),
            },
        };
        Ok(Some(Self { at: item.path.clone(), name, is_named, columns: names, is_half, transform }))
    }
}

impl Transform {
    fn no_op(object: &Object) -> Result<Self, String> {
        let truncate_dim = object.get("truncate_dim").map(|item| item.whole(1..=MAX_FEATURES)).transpose()?;
        Ok(Self::NoOp { separator: super::tables::text(object, "separator")?, truncate_dim })
    }

    fn read(item: &Item, unsupported: &mut Vec<String>) -> Result<Option<Self>, String> {
        let object = item.object()?;
        let name = object.required("name")?;
        let optional = |key: &str| object.get(key).map(|item| item.numbers()).transpose();
        let transform = match name.text()?.as_str() {
            "no-op" => {
                object.only(&["name", "separator", "truncate_dim"])?;
                Self::no_op(&object)?
            }
            "max_min_norm" => {
                object.only(&["name", "max_bound", "min_bound", "max_val", "min_val"])?;
                let bound = |key: &str| object.get(key).map(|item| item.number()).transpose();
                let bounds = Clip {
                    min: bound("min_bound")?.unwrap_or(f64::NEG_INFINITY),
                    max: bound("max_bound")?.unwrap_or(f64::INFINITY),
                };
                Self::MaxMin { bounds, max: optional("max_val")?, min: optional("min_val")? }
            }
            "standard" => {
                object.only(&["name", "sum"])?;
                Self::Standard { sum: optional("sum")? }
            }
            "rank_gauss" => {
                object.only(&["name", "epsilon", "uniquify"])?;
                let epsilon = object.get("epsilon").map_or(Ok(1e-6), |item| item.number())?;
                // The inverse of the error function is infinite at 1, which 1 less a smaller number rounds to.
                if !(MIN_EPSILON..1.0).contains(&epsilon) {
                    return object.required("epsilon")?.wrong(format!("expected a number from {MIN_EPSILON} to 1"));
                }
                Self::RankGauss { epsilon, uniquify: object.get("uniquify").map_or(Ok(false), |item| item.flag())? }
            }
            "to_categorical" => {
                object.only(&["name", "separator", "mapping"])?;
                let mapping = object.get("mapping").map(|item| mapping(&item)).transpose()?;
                Self::Categorical { separator: super::tables::text(&object, "separator")?, mapping }
            }
            "bucket_numerical" => Self::bucket(&object)?,
            name @ ("tokenize_hf" | "bert_hf") => {
                unsupported.push(format!(
                    "{}: the transform {name} runs a language model; compute its vectors first, and store them in a \
                     column of lists",
                    item.path
                ));
                return Ok(None);
            }
            name @ ("tabular" | "edge_dst_hard_negative") => {
                unsupported.push(format!("{}: the transform {name}", item.path));
                return Ok(None);
            }
            other => return object.required("name")?.wrong(format!("{other:?} is not a transform")),
        };
        Ok(Some(transform))
    }

    /// Returns the name in configurations.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::NoOp { .. } => "no-op",
            Self::MaxMin { .. } => "max_min_norm",
            Self::Standard { .. } => "standard",
            Self::RankGauss { .. } => "rank_gauss",
            Self::Categorical { .. } => "to_categorical",
            Self::Bucket { .. } => "bucket_numerical",
        }
    }

    /// Returns the separator of categories.
    pub(crate) fn category_separator(&self) -> Option<&str> {
        match self {
            Self::Categorical { separator, .. } => separator.as_deref(),
            _ => None,
        }
    }

    fn bucket(object: &Object) -> Result<Self, String> {
        object.only(&["name", "range", "bucket_cnt", "slide_window_size"])?;
        let range = object.required("range")?;
        let ends = match range.numbers()?[..] {
            [a, b] if a != b => [a.min(b), a.max(b)],
            _ => return range.wrong("expected two different numbers"),
        };
        let count = object.required("bucket_cnt")?.whole(1..=MAX_CATEGORIES)?;
        let window = object.get("slide_window_size").map_or(Ok(0.0), |item| item.number())?;
        if window < 0.0 {
            return object.required("slide_window_size")?.wrong("it is negative");
        }
        Ok(Self::Bucket { count, range: ends, window })
    }
}

fn mapping(item: &Item) -> Result<BTreeMap<String, u32>, String> {
    let object = item.object()?;
    let mut mapping = BTreeMap::new();
    let num_entries = object.entries().count();
    if num_entries == 0 || num_entries > MAX_FEATURES {
        return item.wrong(format!("it has {num_entries} entries, expected 1 to {MAX_FEATURES}"));
    }
    for (key, position) in object.entries() {
        mapping.insert(key.clone(), position.whole(0..=num_entries - 1)? as u32);
    }
    Ok(mapping)
}
