//! The files of a table, from paths, folders and patterns.

use crate::TableError;
use crate::conf::{Format, Source};
use std::path::{Path, PathBuf};

/// The endings of the names of CSV files, each also followed by `.gz` or `.zst`.
const CSV_ENDINGS: [&str; 3] = ["csv", "tsv", "txt"];
/// The endings of the names of Parquet files.
const PARQUET_ENDINGS: [&str; 3] = ["parquet", "parq", "pq"];

/// Returns the files of a table in the order of their paths, each with its format. `conf` is the configuration file,
/// and `at` the path of the table in it.
///
/// # Errors
/// Fails for a path without files, a folder with files of other kinds, and a file whose format is unknown.
pub(crate) fn resolve(conf: &Path, at: &str, source: &Source) -> Result<Vec<(PathBuf, Format)>, TableError> {
    let paths = paths(conf, at, &source.files)?;
    let with_format = |path: PathBuf| match source.format.or_else(|| format_of(&path)) {
        Some(format) => Ok((path, format)),
        None => {
            let why = "its format is not known from its name: set the format to {\"name\": \"csv\"} or {\"name\": \"parquet\"}";
            Err(TableError::file(path, why))
        }
    };
    paths.into_iter().map(with_format).collect()
}

/// Returns the files of paths, folders and patterns, sorted by path. A relative path starts at the folder of the
/// configuration, or at the working directory if it is not found there.
///
/// # Errors
/// Fails for a path without files, and for a folder with partitions.
pub(crate) fn paths(conf: &Path, at: &str, patterns: &[String]) -> Result<Vec<PathBuf>, TableError> {
    let mut found = Vec::new();
    for pattern in patterns {
        let folder = conf.parent().unwrap_or(Path::new(""));
        let candidates = [folder.join(pattern), PathBuf::from(pattern)];
        let mut matched = Vec::new();
        for candidate in &candidates {
            matched = expand(conf, at, candidate)?;
            if !matched.is_empty() {
                break;
            }
        }
        if matched.is_empty() {
            let [beside, working] = candidates.map(|path| path.display().to_string());
            let places = if beside == working { beside } else { format!("{beside} or {working}") };
            return Err(TableError::file(conf, format!("{at}.files: there is no file {places}")));
        }
        found.extend(matched);
    }
    found.sort();
    if let Some(twice) = found.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(TableError::file(conf, format!("{at}.files: {} is listed twice", twice[0].display())));
    }
    Ok(found)
}

/// Returns the files of one path or pattern.
fn expand(conf: &Path, at: &str, pattern: &Path) -> Result<Vec<PathBuf>, TableError> {
    if pattern.is_dir() {
        return files_of_folder(pattern);
    }
    if pattern.is_file() {
        return Ok(vec![pattern.to_path_buf()]);
    }
    let text = pattern.to_string_lossy();
    let matches = match glob::glob(&text) {
        Ok(matches) => matches,
        Err(error) => return Err(TableError::file(conf, format!("{at}.files: {text:?} is not a pattern: {error}"))),
    };
    let mut found = Vec::new();
    for entry in matches {
        let path = entry.map_err(|error| TableError::io(error.path().to_path_buf(), error.into()))?;
        if path.is_dir() {
            found.extend(files_of_folder(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns the tables in a folder as Spark and DuckDB write it. Names that start with `_` or `.` are marks and
/// checksums.
fn files_of_folder(folder: &Path) -> Result<Vec<PathBuf>, TableError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| TableError::io(folder, error))? {
        let path = entry.map_err(|error| TableError::io(folder, error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(['_', '.']) {
            continue;
        }
        if path.is_dir() {
            let why = if name.contains('=') {
                format!(
                    "{name} is a partition, whose column is only in the name of the folder. Write the table without \
                     partitions, or name the files by a pattern such as {:?}, which leaves that column out",
                    folder.join("*/*.parquet")
                )
            } else {
                format!("it contains the folder {name}: name the files by a pattern")
            };
            return Err(TableError::file(folder, why));
        }
        if format_of(&path).is_none() {
            return Err(TableError::file(folder, format!("{name} is not a table: name the files by a pattern")));
        }
        found.push(path);
    }
    if found.is_empty() {
        return Err(TableError::file(folder, "the folder contains no tables"));
    }
    Ok(found)
}

/// Recognizes the format by the name of a file.
fn format_of(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    let stem = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    let (_, ending) = stem.rsplit_once('.')?;
    if PARQUET_ENDINGS.contains(&ending) && stem == name {
        return Some(Format::Parquet);
    }
    let separator = if ending == "tsv" { b'\t' } else { b',' };
    CSV_ENDINGS.contains(&ending).then_some(Format::Csv { separator })
}
