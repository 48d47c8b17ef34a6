//! Parsing of configuration files.

use super::{Conf, EdgeTable, NodeTable, RemovedTable, SplitRule};
use crate::config_values::{Item, Object};
use crate::table::NaValues;
use crate::{TableError, TableOptions};
use edgecut_graph::check_unique_keys;
use edgecut_settings::AsWritten;
use serde::de::DeserializeSeed;
use serde_json::Value;
use std::path::Path;

/// The version of the configurations that are accepted.
const VERSION: &str = "gconstruct-v0.1";

/// The purpose of a configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// It describes a graph.
    Graph,
    /// It describes changes of a graph.
    Update,
}

impl Conf {
    /// Reads and checks a JSON or YAML file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or parsed, and names the path of the first invalid key.
    pub(crate) fn read(path: &Path, options: &TableOptions) -> Result<Self, TableError> {
        Self::read_for(path, Purpose::Graph, options)
    }

    /// Reads and checks the JSON or YAML file of an update, which may lack edges and may remove nodes and edges.
    ///
    /// # Errors
    /// As for [`Conf::read`].
    pub(crate) fn read_update(path: &Path, options: &TableOptions) -> Result<Self, TableError> {
        Self::read_for(path, Purpose::Update, options)
    }

    fn read_for(path: &Path, purpose: Purpose, options: &TableOptions) -> Result<Self, TableError> {
        let text = std::fs::read_to_string(path).map_err(|error| TableError::io(path, error))?;
        let [value, source] = parse(path, &text)?;
        let mut conf =
            Self::build(path, Item::root(&value, &source), purpose).map_err(|why| TableError::file(path, why))?;
        if let Some(remote) = &options.remote {
            for files in conf.files_mut() {
                if let Some(copy) = remote.local_copy(files).map_err(|error| TableError::table(path, error))? {
                    *files = copy;
                }
            }
        }
        Ok(conf)
    }

    /// Returns the paths, folders and patterns of all tables and of the files of splits.
    fn files_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let Self { nodes, edges, removed_nodes, removed_edges, .. } = self;
        let mut sources = Vec::new();
        let mut labels = Vec::new();
        for table in nodes {
            sources.push(&mut table.source);
            labels.extend(&mut table.labels);
        }
        for table in edges {
            sources.push(&mut table.source);
            labels.extend(&mut table.label);
        }
        sources.extend(removed_nodes.iter_mut().chain(removed_edges).map(|table| &mut table.source));
        let of_splits = labels.into_iter().filter_map(|label| match &mut label.split {
            SplitRule::Files(files) => Some(files.files.iter_mut().flatten()),
            SplitRule::Shares { .. } => None,
        });
        sources.into_iter().flat_map(|source| &mut source.files).chain(of_splits.flatten())
    }

    fn build(path: &Path, root: Item, purpose: Purpose) -> Result<Self, String> {
        let root = root.object()?;
        let is_update = purpose == Purpose::Update;
        for key in ["removed_nodes", "removed_edges"] {
            if let Some(item) = root.get(key).filter(|_| !is_update) {
                return item.wrong("only `partition-graph update` removes nodes and edges");
            }
        }
        if let Some(version) = root.get("version")
            && version.text()? != VERSION
        {
            let found = version.text()?;
            let remedy = if found.starts_with("gsprocessing") {
                ". `python -m edgecut.convert CONF OUT` converts configurations of GSProcessing"
            } else {
                ""
            };
            return version.wrong(format!("{found:?} is not supported, only {VERSION:?} is{remedy}"));
        }
        root.only(&["version", "na_values", "nodes", "edges", "removed_nodes", "removed_edges"])?;
        let na_values = match root.get("na_values") {
            Some(item) => NaValues::new(item.texts_and_numbers()?),
            None => NaValues::default(),
        };
        let mut unsupported = Vec::new();
        let mut wrong = Vec::new();
        let mut nodes = Vec::new();
        for item in list_of(&root, "nodes")? {
            match NodeTable::read(&item, &na_values, &mut unsupported) {
                Ok(table) => nodes.push(table),
                Err(why) => wrong.extend(why.lines().map(str::to_owned)),
            }
        }
        let items = if is_update { list_of(&root, "edges")? } else { root.required("edges")?.list()? };
        if items.is_empty() && !is_update {
            return root.required("edges")?.wrong("the list is empty, but a graph needs edges");
        }
        let mut edges = Vec::new();
        for item in items {
            match EdgeTable::read(&item, &na_values, &mut unsupported) {
                Ok(table) => edges.push(table),
                Err(why) => wrong.extend(why.lines().map(str::to_owned)),
            }
        }
        if !wrong.is_empty() {
            wrong.extend(unsupported.iter().map(|left_out| format!("{left_out}: it is not supported")));
            return Err(joined(&wrong));
        }
        let mut removed_nodes = Vec::new();
        for item in list_of(&root, "removed_nodes")? {
            removed_nodes.push(RemovedTable::of_nodes(&item, &na_values)?);
        }
        let mut removed_edges = Vec::new();
        for item in list_of(&root, "removed_edges")? {
            removed_edges.push(RemovedTable::of_edges(&item, &na_values)?);
        }
        Ok(Self { path: path.to_path_buf(), nodes, edges, removed_nodes, removed_edges, unsupported })
    }
}

/// Returns the items of the list `key`, none if it is absent.
fn list_of<'a>(root: &Object<'a>, key: &str) -> Result<Vec<Item<'a>>, String> {
    root.get(key).map_or(Ok(Vec::new()), |item| item.list())
}

/// Returns one error for several reasons, of which the first ones are told.
pub(crate) fn joined(reasons: &[String]) -> String {
    const MOST: usize = 30;
    if let [only] = reasons {
        return only.clone();
    }
    let mut lines = vec![format!("{} keys cannot be used:", reasons.len())];
    lines.extend(reasons.iter().take(MOST).map(|reason| format!("  {reason}")));
    if reasons.len() > MOST {
        lines.push(format!("  and {} more", reasons.len() - MOST));
    }
    lines.join("\n")
}

/// Parses JSON, or YAML, which also accepts the trailing commas and single quotes of GraphStorm's examples. Returns the value,
/// and the same with the scalars of YAML as they are written. The second is null for JSON.
fn parse(path: &Path, text: &str) -> Result<[Value; 2], TableError> {
    let json = match serde_json::from_str(text) {
        Ok(value) => {
            check_unique_keys(text.as_bytes()).map_err(|error| TableError::table(path, error))?;
            return Ok([value, Value::Null]);
        }
        Err(error) => error,
    };
    let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    // Names of columns such as y, no and 007 stay texts.
    let options = serde_saphyr::options! { strict_booleans: true, leading_zero_numbers_as_strings: true };
    match serde_saphyr::from_str_with_options(text, options.clone()) {
        Ok(value) => {
            let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |d| {
                AsWritten(&value).deserialize(d)
            });
            // Only tags, such as !!float, give values that are not texts as well.
            let source = read.unwrap_or_default();
            Ok([value, source])
        }
        Err(_) if is_json => Err(TableError::file(path, format!("it is not valid JSON: {json}"))),
        Err(error) => {
            let error = error.to_string();
            let why = error.strip_prefix("error: ").unwrap_or(&error);
            Err(TableError::file(path, format!("it is neither valid JSON nor valid YAML: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_texts_as_they_are_written() {
        let text = "a: [1.10, True, 0x10, 1e3, .5, 007, no, 2020-01-01, '1.0']\nb: {c: 1.10}\nd: ~\ne: &x 1.0\nf: *x\n";
        let [value, source] = parse(Path::new("a.yaml"), text).unwrap();
        let root = Item::root(&value, &source).object().unwrap();
        let texts = root.required("a").unwrap().texts().unwrap();
        assert_eq!(texts, ["1.10", "True", "0x10", "1e3", ".5", "007", "no", "2020-01-01", "1.0"]);
        assert_eq!(root.required("b").unwrap().object().unwrap().text("c"), Ok(Some("1.10".into())));
        assert_eq!(root.text("f"), Ok(Some("1.0".into())));
        assert_eq!(root.required("a").unwrap().list().unwrap()[0].number(), Ok(1.1));
        let [value, source] = parse(Path::new("a.json"), "{\"a\": 1.10, \"b\": 16, \"c\": true}").unwrap();
        let root = Item::root(&value, &source).object().unwrap();
        assert_eq!(root.text("a").unwrap_err(), "a: expected a text, found the number 1.1: write it in quotes");
        assert_eq!([root.text("b"), root.text("c")], [Ok(Some("16".into())), Ok(Some("true".into()))]);
    }

    #[test]
    fn a_key_that_is_given_twice_is_an_error_in_json_and_yaml() {
        for (name, text) in
            [("a.json", "{\"a\": 1, \"a\": 2}"), ("a.json", "{'a': 1, 'a': 2}"), ("a.yaml", "a: 1\na: 2\n")]
        {
            parse(Path::new(name), text).unwrap_err();
        }
        parse(Path::new("a.json"), "{\"a\": 1, 'b': 2,}").unwrap();
    }
}
