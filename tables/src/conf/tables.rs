//! The tables of a configuration.

use super::{Feature, Label, SplitRule};
use crate::config_values::{Item, Object};
use crate::saved_split::SplitBy;
use crate::table::{Format, NaValues, Source, TimeColumn, TimeForm};
use edgecut_settings::suggestion;
use std::collections::BTreeMap;

/// A table of nodes of one type.
pub(crate) struct NodeTable {
    /// The path of the table in the configuration, for errors.
    pub(crate) at: String,
    /// The name of the node type.
    pub(crate) node_type: String,
    /// The files.
    pub(crate) source: Source,
    /// The column of ids, if this table has the ids of its type.
    pub(crate) id_col: Option<String>,
    /// The column of creation times.
    pub(crate) time_col: Option<TimeColumn>,
    /// The features.
    pub(crate) features: Vec<Feature>,
    /// The labels.
    pub(crate) labels: Vec<Label>,
}

/// A table of edges of one relation.
pub(crate) struct EdgeTable {
    /// The path of the table in the configuration, for errors.
    pub(crate) at: String,
    /// The names of the source type, the relation and the destination type.
    pub(crate) relation: [String; 3],
    /// The files.
    pub(crate) source: Source,
    /// The columns of source and destination ids, if this table has the ends of the edges.
    pub(crate) ends: Option<[String; 2]>,
    /// The column of the ids of the edges themselves. It is in the table of the ends.
    pub(crate) id_col: Option<String>,
    /// The column of creation times.
    pub(crate) time_col: Option<TimeColumn>,
    /// The column of sampling weights.
    pub(crate) weight_col: Option<String>,
    /// The features.
    pub(crate) features: Vec<Feature>,
    /// The label, or the edges that are held out for link prediction.
    pub(crate) label: Option<Label>,
}

/// A table of removed nodes or edges.
pub(crate) struct RemovedTable {
    /// The path of the table in the configuration, for errors.
    pub(crate) at: String,
    /// The name of the node type, or the names of the source type, the relation and the destination type.
    pub(crate) of: Vec<String>,
    /// The files.
    pub(crate) source: Source,
    /// The column of ids, or the columns of the ids of sources and destinations.
    pub(crate) columns: Vec<String>,
}

impl RemovedTable {
    /// Reads an entry of `removed_nodes`. `na_values` are those of the configuration.
    pub(super) fn of_nodes(item: &Item, na_values: &NaValues) -> Result<Self, String> {
        let object = item.object()?;
        object.only(&["node_type", "files", "format", "na_values", "node_id_col"])?;
        Ok(Self {
            at: item.path.clone(),
            of: vec![object.required("node_type")?.text()?],
            source: read_source(&object, na_values)?,
            columns: vec![object.required("node_id_col")?.text()?],
        })
    }

    /// Reads an entry of `removed_edges`. `na_values` are those of the configuration.
    pub(super) fn of_edges(item: &Item, na_values: &NaValues) -> Result<Self, String> {
        let object = item.object()?;
        object.only(&["relation", "files", "format", "na_values", "source_id_col", "dest_id_col"])?;
        Ok(Self {
            at: item.path.clone(),
            of: read_relation(&object)?.to_vec(),
            source: read_source(&object, na_values)?,
            columns: vec![object.required("source_id_col")?.text()?, object.required("dest_id_col")?.text()?],
        })
    }
}

/// Returns the errors of the parts of a table, each in a line of its own.
fn check_all(errors: [Option<&String>; 3]) -> Result<(), String> {
    let found: Vec<&str> = errors.into_iter().flatten().map(String::as_str).collect();
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// Reads the key `relation` of a table of edges.
fn read_relation(object: &Object) -> Result<[String; 3], String> {
    let relation = object.required("relation")?;
    if relation.is_object() {
        return relation.wrong(
            "an object with the type of the relation is GSProcessing's form; write the source type, the relation and the \
             destination type in a list",
        );
    }
    let Ok(names) = <[String; 3]>::try_from(relation.texts()?) else {
        return relation.wrong("expected a source type, a relation and a destination type");
    };
    Ok(names)
}

impl NodeTable {
    /// Reads an entry of `nodes`. Adds what it leaves out to `unsupported`. `na_values` are those of the configuration.
    pub(super) fn read(item: &Item, na_values: &NaValues, unsupported: &mut Vec<String>) -> Result<Self, String> {
        let object = item.object()?;
        object.only(&["node_type", "files", "format", "na_values", "node_id_col", "time_col", "features", "labels"])?;
        let features = Feature::read_list(&object, unsupported);
        let labels = Label::of_nodes(&object, unsupported);
        let source = read_source(&object, na_values);
        check_all([features.as_ref().err(), labels.as_ref().err(), source.as_ref().err()])?;
        let features = features?;
        let labels = labels?;
        let mut source = source?;
        source.add_missing_values(&features, &labels);
        Ok(Self {
            at: item.path.clone(),
            node_type: object.required("node_type")?.text()?,
            source,
            id_col: object.text("node_id_col")?,
            time_col: read_time_column(&object, "time_col")?,
            features,
            labels,
        })
    }
}

impl EdgeTable {
    /// Reads an entry of `edges`. Adds what it leaves out to `unsupported`. `na_values` are those of the configuration.
    pub(super) fn read(item: &Item, na_values: &NaValues, unsupported: &mut Vec<String>) -> Result<Self, String> {
        let object = item.object()?;
        object.only(&[
            "relation",
            "files",
            "format",
            "na_values",
            "source_id_col",
            "dest_id_col",
            "edge_id_col",
            "time_col",
            "weight_col",
            "features",
            "labels",
        ])?;
        let names = read_relation(&object)?;
        let ends = match (object.text("source_id_col")?, object.text("dest_id_col")?) {
            (Some(source), Some(destination)) => Some([source, destination]),
            (None, None) => None,
            _ => return item.wrong("source_id_col and dest_id_col need each other"),
        };
        let label = Label::of_edges(&object, unsupported);
        let features = Feature::read_list(&object, unsupported);
        let source = read_source(&object, na_values);
        check_all([label.as_ref().err(), features.as_ref().err(), source.as_ref().err()])?;
        let label = label?;
        let features = features?;
        let mut source = source?;
        if ends.is_none() && label.is_some() {
            return item.wrong("a table with labels needs source_id_col and dest_id_col");
        }
        let id_col = object.text("edge_id_col")?;
        if ends.is_none() && id_col.is_some() {
            return item.wrong("a table with edge_id_col needs source_id_col and dest_id_col");
        }
        let time_col = read_time_column(&object, "time_col")?;
        let held_out = label.as_ref().filter(|label| label.column.is_none());
        if let Some(SplitRule::Shares { by: SplitBy::Time(column), .. }) = held_out.map(|label| &label.split)
            && time_col.as_ref().is_none_or(|time| time.name != column.name)
        {
            let known = time_col.iter().map(|time| time.name.as_str());
            let hint = suggestion(&column.name, known);
            let why = format!("edges are held out by their time_col: set time_col to {}{hint}", column.name);
            return item.wrong(why);
        }
        source.add_missing_values(&features, label.as_slice());
        Ok(Self {
            at: item.path.clone(),
            relation: names,
            source,
            ends,
            id_col,
            time_col,
            weight_col: object.text("weight_col")?,
            features,
            label,
        })
    }
}

impl Source {
    /// Adds the missing values of features and of labels to the missing values of their columns.
    fn add_missing_values(&mut self, features: &[Feature], labels: &[Label]) {
        for feature in features {
            if let Some(values) = &feature.missing_values {
                feature.columns.iter().for_each(|column| self.add_of_column(column, values));
            }
        }
        for column in labels.iter().filter_map(|label| label.column.as_ref()) {
            if let Some(values) = &column.missing_values {
                self.add_of_column(&column.name, values);
            }
        }
    }

    fn add_of_column(&mut self, column: &str, values: &NaValues) {
        let of_column = self.na_of_columns.entry(column.to_owned()).or_insert_with(|| self.na_values.clone());
        *of_column = of_column.with(values);
    }
}

/// Reads the keys `files`, `format` and `na_values` of a table.
fn read_source(object: &Object, na_values: &NaValues) -> Result<Source, String> {
    let files = object.required("files")?.texts()?;
    let na_values = match object.get("na_values") {
        Some(item) => NaValues::new(item.texts_and_numbers()?),
        None => na_values.clone(),
    };
    let format = object.get("format").map(|item| read_format(&item)).transpose()?;
    Ok(Source { files, format, na_values, na_of_columns: BTreeMap::new() })
}

fn read_format(format: &Item) -> Result<Format, String> {
    let fields = format.object()?;
    fields.only(&["name", "separator"])?;
    let name = fields.required("name")?;
    let separator = fields.get("separator");
    let format = match name.text()?.to_lowercase().as_str() {
        "csv" => Format::Csv { separator: separator.as_ref().map_or(Ok(b','), separator_byte)? },
        "parquet" => Format::Parquet,
        format @ ("hdf5" | "json") => {
            return name.wrong(format!(
                "{format} is not read. `python -m edgecut.convert CONF OUT` converts the tables to Parquet, and writes the \
                 configuration OUT/graph.json for them"
            ));
        }
        other => {
            let hint = suggestion(other, ["csv", "parquet"]);
            return name.wrong(format!("{other:?} is not a format{hint}: choose csv or parquet"));
        }
    };
    if let (Some(separator), Format::Parquet) = (separator, format) {
        return separator.wrong("Parquet has no separator: leave it out");
    }
    Ok(format)
}

/// Reads a key for a column of times: the name of the column, or its name and the form of its times.
pub(super) fn read_time_column(object: &Object, key: &str) -> Result<Option<TimeColumn>, String> {
    let Some(item) = object.get(key) else { return Ok(None) };
    if !item.is_object() {
        return Ok(Some(TimeColumn { name: item.text()?, form: TimeForm::default() }));
    }
    let fields = item.object()?;
    fields.only(&["name", "format", "epoch"])?;
    Ok(Some(TimeColumn { name: fields.required("name")?.text()?, form: TimeForm::read(&fields)? }))
}

fn separator_byte(item: &Item) -> Result<u8, String> {
    match item.text()?.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => item.wrong("expected one ASCII character other than a quote or the end of a line"),
    }
}
