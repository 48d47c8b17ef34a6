//! The tables of a configuration.

use super::value::{Item, Object};
use super::{Feature, Label};
use crate::table::{NaValues, TimeFormat};

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
    /// The label.
    pub(crate) label: Option<Label>,
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
    /// The column of creation times.
    pub(crate) time_col: Option<TimeColumn>,
    /// The column of sampling weights.
    pub(crate) weight_col: Option<String>,
    /// The features.
    pub(crate) features: Vec<Feature>,
    /// The label, or the edges that are held out for link prediction.
    pub(crate) label: Option<Label>,
}

/// The files of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    /// Paths of files or folders, or patterns.
    pub(crate) files: Vec<String>,
    /// The format, or `None` to recognize it by the names of the files.
    pub(crate) format: Option<Format>,
    /// The values that are missing.
    pub(crate) na_values: NaValues,
}

/// A column of creation times.
#[derive(Clone, Debug)]
pub(crate) struct TimeColumn {
    pub(crate) name: String,
    /// The form of the times, if it is not ISO 8601.
    pub(crate) format: Option<TimeFormat>,
}

/// The format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text with a header and this separator.
    Csv { separator: u8 },
    /// Parquet.
    Parquet,
}

impl NodeTable {
    /// Reads an entry of `nodes`. Adds what it leaves out to `unsupported`. `na_values` are those of the configuration.
    pub(super) fn read(item: &Item, na_values: &NaValues, unsupported: &mut Vec<String>) -> Result<Self, String> {
        let object = item.object()?;
        object.only(&["node_type", "files", "format", "na_values", "node_id_col", "time_col", "features", "labels"])?;
        Ok(Self {
            at: item.path.clone(),
            node_type: object.required("node_type")?.text()?,
            source: Source::read(&object, na_values)?,
            id_col: text(&object, "node_id_col")?,
            time_col: TimeColumn::read(&object)?,
            features: Feature::read_list(&object, unsupported)?,
            label: Label::of_nodes(&object, unsupported)?,
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
            "time_col",
            "weight_col",
            "features",
            "labels",
        ])?;
        let relation = object.required("relation")?;
        let Ok(names) = <[String; 3]>::try_from(relation.texts()?) else {
            return relation.wrong("expected a source type, a relation and a destination type");
        };
        let ends = match (text(&object, "source_id_col")?, text(&object, "dest_id_col")?) {
            (Some(source), Some(destination)) => Some([source, destination]),
            (None, None) => None,
            _ => return item.wrong("source_id_col and dest_id_col need each other"),
        };
        let label = Label::of_edges(&object, unsupported)?;
        if ends.is_none() && label.is_some() {
            return item.wrong("a table with labels needs source_id_col and dest_id_col");
        }
        Ok(Self {
            at: item.path.clone(),
            relation: names,
            source: Source::read(&object, na_values)?,
            ends,
            time_col: TimeColumn::read(&object)?,
            weight_col: text(&object, "weight_col")?,
            features: Feature::read_list(&object, unsupported)?,
            label,
        })
    }
}

impl Source {
    fn read(object: &Object, na_values: &NaValues) -> Result<Self, String> {
        let files = object.required("files")?.texts()?;
        let na_values = object.get("na_values").map_or_else(|| Ok(na_values.clone()), |item| item.na_values())?;
        let Some(format) = object.get("format") else { return Ok(Self { files, format: None, na_values }) };
        let fields = format.object()?;
        fields.only(&["name", "separator"])?;
        let name = fields.required("name")?;
        let separator = fields.get("separator");
        let format = match name.text()?.to_lowercase().as_str() {
            "csv" => Format::Csv { separator: separator.as_ref().map_or(Ok(b','), separator_byte)? },
            "parquet" => Format::Parquet,
            "hdf5" => {
                return name.wrong(
                    "HDF5 is not supported. Convert the file in Python: h5py reads the array, and \
                     pandas.DataFrame({\"COLUMN\": list(array)}).to_parquet(\"FILE.parquet\") writes it",
                );
            }
            "json" => {
                return name.wrong(
                    "tables in JSON are not supported. Convert the file in Python: pandas.read_json(\"FILE\", \
                     lines=True).to_parquet(\"FILE.parquet\")",
                );
            }
            other => return name.wrong(format!("{other:?} is not a format: choose csv or parquet")),
        };
        if let (Some(separator), Format::Parquet) = (separator, format) {
            return separator.wrong("Parquet has no separator: leave it out");
        }
        Ok(Self { files, format: Some(format), na_values })
    }
}

impl TimeColumn {
    /// Reads the key `time_col`: the name of a column, or its name and the format of its times.
    fn read(object: &Object) -> Result<Option<Self>, String> {
        let Some(item) = object.get("time_col") else { return Ok(None) };
        if !item.is_object() {
            return Ok(Some(Self { name: item.text()?, format: None }));
        }
        let fields = item.object()?;
        fields.only(&["name", "format"])?;
        let format = match fields.get("format") {
            Some(format) => Some(TimeFormat::new(&format.text()?).or_else(|why| format.wrong(why))?),
            None => None,
        };
        Ok(Some(Self { name: fields.required("name")?.text()?, format }))
    }
}

fn separator_byte(item: &Item) -> Result<u8, String> {
    match item.text()?.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => item.wrong("expected one ASCII character other than a quote or the end of a line"),
    }
}

/// Returns the text of an optional key.
pub(super) fn text(object: &Object, key: &str) -> Result<Option<String>, String> {
    object.get(key).map(|item| item.text()).transpose()
}
