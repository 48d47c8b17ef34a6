//! The numbered entities or relations of a knowledge graph.

use crate::GraphError;
use crate::readers::text::{Lines, bad_line, find_text, parse_file, quote, whole};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Items with a number, from 0, and optionally a name.
pub(super) struct Vocabulary {
    /// The name of an item in errors.
    item: &'static str,
    /// The file that lists all items, if it exists. Without it, new items are added as they appear.
    file: Option<&'static str>,
    /// The number of items.
    len: usize,
    /// The names by number. Empty if only numbers are known.
    names: Vec<String>,
    /// The numbers by name.
    numbers: HashMap<String, u32>,
}

impl Vocabulary {
    /// Reads the items from `file` in `folder`, with a number and a name per line. Returns an empty vocabulary if the
    /// file does not exist.
    ///
    /// # Errors
    /// Fails for a malformed line, for duplicate numbers or names, and for missing numbers.
    pub(super) fn read(folder: &Path, file: &'static str, item: &'static str) -> Result<Self, GraphError> {
        let Some(path) = find_text(folder, file) else {
            return Ok(Self { item, file: None, len: 0, names: Vec::new(), numbers: HashMap::new() });
        };
        let line = |line: &[u8]| {
            let Some([id, name]) = columns(line, "number and name")? else { return Ok(Some(None)) };
            Ok(Some(Some((number(id)?, text(name)?))))
        };
        let lines: Vec<Option<(u64, String)>> = parse_file(&path, Lines(line))?.into_iter().flatten().collect();
        let len = lines.iter().flatten().count();
        let mut names = vec![String::new(); len];
        let mut numbers = HashMap::with_capacity(len);
        for (at, line) in lines.into_iter().enumerate() {
            let Some((id, name)) = line else { continue };
            let fail = |why: String| Err(bad_line(&path, at + 1, &why));
            match names.get_mut(id as usize) {
                None => return fail(format!("{item} {id} is out of range: there are {len}, counted from 0")),
                Some(known) if !known.is_empty() => return fail(format!("{item} {id} is listed twice")),
                Some(known) => known.clone_from(&name),
            }
            if let Some(other) = numbers.insert(name, id as u32) {
                return fail(format!("its name is also that of {item} {other}"));
            }
        }
        Ok(Self { item, file: Some(file), len, names, numbers })
    }

    /// Returns true if a file lists all items.
    pub(super) fn is_listed(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Checks a number. Without a file, a new number extends the vocabulary.
    pub(super) fn number(&mut self, number: u64) -> Result<u32, String> {
        if number >= u64::from(u32::MAX) {
            return Err(format!("{} {number} is too large: numbers are below 2^32 - 1", self.item));
        }
        if let Some(file) = self.file
            && number >= self.len as u64
        {
            return Err(format!("{} {number} is unknown: {file} has {}, counted from 0", self.item, self.len));
        }
        self.len = self.len.max(number as usize + 1);
        Ok(number as u32)
    }

    /// Returns the number of a name. Without a file, a new name gets the next number.
    pub(super) fn named(&mut self, name: &str) -> Result<u32, String> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        if let Some(file) = self.file {
            return Err(format!("{} {} is unknown: {file} does not list it", self.item, quote(name.as_bytes())));
        }
        let number = self.number(self.len as u64)?;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Returns distinct names by number that are valid folder names.
    pub(super) fn folder_names(&self) -> Vec<String> {
        let mut taken = HashSet::new();
        let name = |number: usize| {
            let mut name = self.names.get(number).map_or_else(|| format!("rel_{number}"), |name| folder_name(name));
            // Different names can become equal when invalid characters are replaced.
            while !taken.insert(name.clone()) {
                name = format!("{name}_{number}");
            }
            name
        };
        (0..self.len).map(name).collect()
    }
}

/// Replaces each character that is invalid in a folder name by `_`.
fn folder_name(name: &str) -> String {
    let legal = |(at, c): (usize, char)| {
        let illegal = matches!(c, '/' | '\\') || c.is_control() || (at == 0 && c == '.');
        if illegal { '_' } else { c }
    };
    name.chars().enumerate().map(legal).collect()
}

/// Splits a line into its columns, which are separated by tabs. Returns `None` for a blank line.
pub(super) fn columns<'a, const N: usize>(line: &'a [u8], what: &str) -> Result<Option<[&'a [u8]; N]>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let fields: Vec<&[u8]> = line.split(|&b| b == b'\t').collect();
    let found = fields.len();
    fields.try_into().map(Some).map_err(|_| format!("{found} columns, expected {what} with tabs between"))
}

/// Parses a number, counted from 0.
pub(super) fn number(column: &[u8]) -> Result<u64, String> {
    whole(column, "a number from 0")
}

/// Parses a name, without surrounding white space.
pub(super) fn text(column: &[u8]) -> Result<String, String> {
    match str::from_utf8(column.trim_ascii()) {
        Ok("") => Err("a column is empty".into()),
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(format!("{} is not UTF-8", quote(column))),
    }
}
