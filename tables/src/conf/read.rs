//! Parsing of configuration files.

use super::{Conf, EdgeTable, NodeTable};
use crate::TableError;
use crate::keys::Item;
use crate::table::NaValues;
use edgecut_graph::check_unique_keys;
use serde_json::Value;
use std::path::Path;

/// The version of the configurations that are accepted.
const VERSION: &str = "gconstruct-v0.1";

impl Conf {
    /// Reads and checks a JSON or YAML file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or parsed, and names the path of the first invalid key.
    pub(crate) fn read(path: &Path) -> Result<Self, TableError> {
        let text = std::fs::read_to_string(path).map_err(|error| TableError::io(path, error))?;
        let value = parse(path, &text)?;
        Self::build(path, &value).map_err(|why| TableError::file(path, why))
    }

    fn build(path: &Path, value: &Value) -> Result<Self, String> {
        let root = Item::root(value).object()?;
        root.only(&["version", "na_values", "nodes", "edges"])?;
        let na_values = match root.get("na_values") {
            Some(item) => NaValues::new(item.texts_and_numbers()?),
            None => NaValues::default(),
        };
        if let Some(version) = root.get("version")
            && version.text()? != VERSION
        {
            let remedy = "GSProcessing's configurations are converted by GraphStorm's convert_gconstruct_config.py";
            return version.wrong(format!("{:?} is not supported, only {VERSION:?} is. {remedy}", version.text()?));
        }
        let mut unsupported = Vec::new();
        let nodes = match root.get("nodes") {
            Some(nodes) => {
                nodes.list()?.iter().map(|item| NodeTable::read(item, &na_values, &mut unsupported)).collect()
            }
            None => Ok(Vec::new()),
        }?;
        let edges = root.required("edges")?.list()?;
        if edges.is_empty() {
            return root.required("edges")?.wrong("the list is empty, but a graph needs edges");
        }
        let read = |item| EdgeTable::read(item, &na_values, &mut unsupported);
        let edges = edges.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { path: path.to_path_buf(), nodes, edges, unsupported })
    }
}

/// Parses JSON, or YAML, which also accepts the trailing commas and single quotes of GraphStorm's examples.
fn parse(path: &Path, text: &str) -> Result<Value, TableError> {
    let json = match serde_json::from_str(text) {
        Ok(value) => {
            check_unique_keys(text.as_bytes()).map_err(|error| TableError::table(path, error))?;
            return Ok(value);
        }
        Err(error) => error,
    };
    let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    match serde_saphyr::from_str(text) {
        Ok(value) => Ok(value),
        Err(_) if is_json => Err(TableError::file(path, format!("it is not valid JSON: {json}"))),
        Err(error) => Err(TableError::file(path, format!("it is neither valid JSON nor valid YAML: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
