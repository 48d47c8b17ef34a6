//! The files of a table, from paths, folders and patterns.

use super::{Format, Source};
use crate::TableError;
use edgecut_settings::near_path;
use std::cmp::Ordering;
use std::path::{Component, Path, PathBuf};

/// The endings of the names of CSV files, each also followed by `.gz` or `.zst`.
const CSV_ENDINGS: [&str; 3] = ["csv", "tsv", "txt"];
/// The endings of the names of Parquet files.
const PARQUET_ENDINGS: [&str; 3] = ["parquet", "parq", "pq"];

/// Returns the files of a table in the order of their paths, each with its format. `conf` is the configuration file,
/// and `at` the path of the table in it.
///
/// # Errors
/// Fails for a path without files, a folder with files of other kinds, and a file whose format is unknown.
pub(super) fn resolve(conf: &Path, at: &str, source: &Source) -> Result<Vec<(FoundFile, Format)>, TableError> {
    let with_format = |file: FoundFile| match source.format.or_else(|| format_of(&file.path)) {
        Some(format) => Ok((file, format)),
        None => {
            let why = "its format is not known from its name: set the format to {\"name\": \"csv\"} or {\"name\": \"parquet\"}";
            Err(TableError::file(file.path, why))
        }
    };
    files(conf, at, &source.files)?.into_iter().map(with_format).collect()
}

/// Returns the paths of the files of paths, folders and patterns, sorted.
///
/// # Errors
/// Fails for a path without files.
pub(crate) fn paths(conf: &Path, at: &str, patterns: &[String]) -> Result<Vec<PathBuf>, TableError> {
    Ok(files(conf, at, patterns)?.into_iter().map(|file| file.path).collect())
}

/// A file of a table.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    /// The columns that the names of its folders have, below the folder that is read or the first wildcard of the pattern.
    pub(super) of_folders: Vec<FolderColumn>,
}

/// Returns the files of paths, folders and patterns, sorted by path. A relative path starts at the folder of the
/// configuration, or at the working directory if it is not found there.
///
/// # Errors
/// Fails for a path without files.
fn files(conf: &Path, at: &str, patterns: &[String]) -> Result<Vec<FoundFile>, TableError> {
    let mut found = Vec::new();
    for pattern in patterns {
        let folders = [conf.parent().unwrap_or(Path::new("")), Path::new("")];
        let mut matched = Vec::new();
        for folder in folders {
            matched = expand(conf, at, folder, pattern)?;
            if !matched.is_empty() {
                break;
            }
        }
        if matched.is_empty() {
            let candidates = folders.map(|folder| folder.join(pattern));
            let hint = folders.iter().find_map(|folder| near_file(folder, pattern)).unwrap_or_default();
            let [beside, working] = candidates.map(|path| path.display().to_string());
            let places = if beside == working { beside } else { format!("{beside} or {working}") };
            return Err(TableError::file(conf, format!("{at}.files: there is no file {places}{hint}")));
        }
        found.extend(matched);
    }
    found.sort_by_cached_key(|file| place(&file.path));
    if let Some(twice) = found.windows(2).find(|pair| place(&pair[0].path) == place(&pair[1].path)) {
        return Err(TableError::file(conf, format!("{at}.files: {} is listed twice", twice[0].path.display())));
    }
    Ok(found)
}

/// Returns the end of an error about files that do not exist in `folder`, if there are files or folders of near names.
fn near_file(folder: &Path, pattern: &str) -> Option<String> {
    // A wildcard and what comes after it are not names of files.
    let fixed: PathBuf = Path::new(pattern).components().take_while(|part| !has_wildcard(part)).collect();
    let near = near_path(&folder.join(&fixed))?;
    let rest = Path::new(pattern).strip_prefix(&fixed).ok()?;
    let near: PathBuf = near.strip_prefix(folder).unwrap_or(&near).components().chain(rest.components()).collect();
    Some(format!(" (did you mean {}?)", near.display()))
}

/// Returns the files of one path or pattern, which starts at `folder`.
fn expand(conf: &Path, at: &str, folder: &Path, pattern: &str) -> Result<Vec<FoundFile>, TableError> {
    let whole = folder.join(pattern);
    if whole.is_dir() {
        return Ok(below(&whole, files_of_folder(&whole)?));
    }
    if whole.is_file() {
        return Ok(vec![FoundFile { path: whole, of_folders: Vec::new() }]);
    }
    let escaped = PathBuf::from(glob::Pattern::escape(&folder.to_string_lossy())).join(pattern);
    let matches = match glob::glob(&escaped.to_string_lossy()) {
        Ok(matches) => matches,
        Err(error) => return Err(TableError::file(conf, format!("{at}.files: {pattern:?} is not a pattern: {error}"))),
    };
    let fixed: PathBuf = Path::new(pattern).components().take_while(|part| !has_wildcard(part)).collect();
    let fixed = folder.join(fixed);
    let mut found = Vec::new();
    for entry in matches {
        let path = entry.map_err(|error| TableError::io(error.path().to_path_buf(), error.into()))?;
        if is_hidden(&path, &fixed, pattern) {
            continue;
        }
        if path.is_dir() {
            found.extend(files_of_folder(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(below(&fixed, found))
}

/// Returns true for a path that has a name with a leading dot below the folder `fixed` of a pattern, unless a part of the pattern
/// with a leading dot matches the name. Such names are checkpoints of notebooks and leftovers of copies.
fn is_hidden(path: &Path, fixed: &Path, pattern: &str) -> bool {
    let path = place(path);
    let Ok(below) = path.strip_prefix(place(fixed)) else { return false };
    let spelled: Vec<glob::Pattern> =
        pattern.split('/').filter(|part| part.starts_with('.')).flat_map(glob::Pattern::new).collect();
    let names = below.components().map(|part| part.as_os_str().to_string_lossy());
    names.filter(|name| name.starts_with('.')).any(|name| !spelled.iter().any(|part| part.matches(&name)))
}

/// Returns true for a folder or a file of a pattern that stands for several names.
fn has_wildcard(part: &Component) -> bool {
    part.as_os_str().to_string_lossy().contains(['*', '?', '['])
}

/// Adds to each path the columns that the names of its folders below `folder` have.
fn below(folder: &Path, paths: Vec<PathBuf>) -> Vec<FoundFile> {
    let folder = place(folder);
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let of_folders = place(&path).strip_prefix(&folder).map(folder_columns).unwrap_or_default();
        files.push(FoundFile { path, of_folders });
    }
    files
}

/// Returns the absolute path of a file without `.` and `..`, by which files are compared. The order of the rows then does not
/// depend on how the configuration and a pattern are written. `edgecut/table_files.py` has the same order.
fn place(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut place = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                place.pop();
            }
            part => place.push(part),
        }
    }
    place
}

/// Returns the tables in a folder as Spark and DuckDB write it. Names that start with `_` or `.` are marks and
/// checksums.
fn files_of_folder(folder: &Path) -> Result<Vec<PathBuf>, TableError> {
    let found = files_of_partition(folder)?;
    if found.is_empty() {
        return Err(TableError::file(folder, "the folder contains no tables"));
    }
    Ok(found)
}

/// Returns the tables in a folder, which may have none, and in its partitions, such as `year=2020`.
fn files_of_partition(folder: &Path) -> Result<Vec<PathBuf>, TableError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| TableError::io(folder, error))? {
        let path = entry.map_err(|error| TableError::io(folder, error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(['_', '.']) {
            continue;
        }
        if path.is_dir() && column_of_folder(&name).is_some() {
            // A partition without rows may be empty.
            found.extend(files_of_partition(&path)?);
            continue;
        }
        if path.is_dir() {
            return Err(TableError::file(
                folder,
                format!("it contains the folder {name}: name the files by a pattern"),
            ));
        }
        if format_of(&path).is_none() {
            return Err(TableError::file(folder, format!("{name} is not a table: name the files by a pattern")));
        }
        found.push(path);
    }
    Ok(found)
}

/// A column that the name of a folder has, with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FolderColumn {
    pub(crate) name: String,
    /// The value, unless it is missing.
    pub(crate) value: Option<String>,
}

/// Returns the columns in the names of the folders of a file, such as `year=2020`, the innermost first.
fn folder_columns(path: &Path) -> Vec<FolderColumn> {
    let folders = path.ancestors().skip(1).filter_map(Path::file_name);
    folders.filter_map(|name| column_of_folder(&name.to_string_lossy())).collect()
}

/// Returns the column in the name of a folder, as Hive and Spark write it.
fn column_of_folder(name: &str) -> Option<FolderColumn> {
    let (name, value) = name.split_once('=').filter(|(name, _)| !name.is_empty())?;
    let value = unescaped(value);
    Some(FolderColumn {
        name: unescaped(name),
        value: Some(value).filter(|value| value != "__HIVE_DEFAULT_PARTITION__"),
    })
}

/// Replaces `%XX` by the byte that it means.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let escaped = text_of(others.get(..2)).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn text_of(bytes: Option<&[u8]>) -> Option<&str> {
    std::str::from_utf8(bytes?).ok()
}

/// Returns two files, of which the first is read before the second, but has a larger number in its name.
pub(super) fn misordered(paths: &[&Path]) -> Option<[PathBuf; 2]> {
    let is_wrong = |pair: &&[&Path]| natural_order(&pair[0].to_string_lossy(), &pair[1].to_string_lossy()).is_gt();
    paths.windows(2).find(is_wrong).map(|pair| [pair[0].to_path_buf(), pair[1].to_path_buf()])
}

/// Returns the positions of files, in the order of the numbers in their names.
pub(super) fn natural_positions(paths: &[&Path]) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..paths.len()).collect();
    positions.sort_by(|&one, &other| natural_order(&paths[one].to_string_lossy(), &paths[other].to_string_lossy()));
    positions
}

/// Compares names, with numbers in them by their values.
fn natural_order(one: &str, other: &str) -> Ordering {
    let pieces = |text: &str| -> Vec<(Option<u128>, String)> {
        let bytes = text.as_bytes();
        let is_same = |a: &u8, b: &u8| a.is_ascii_digit() == b.is_ascii_digit();
        let of_piece = |piece: &[u8]| {
            let piece = String::from_utf8_lossy(piece).into_owned();
            (piece.parse().ok(), piece)
        };
        bytes.chunk_by(is_same).map(of_piece).collect()
    };
    let one = pieces(one);
    let other = pieces(other);
    for ((number, text), (other_number, other_text)) in one.iter().zip(&other) {
        let order = match (number, other_number) {
            (Some(number), Some(other)) => number.cmp(other),
            _ => text.cmp(other_text),
        };
        if order.is_ne() {
            return order;
        }
    }
    one.len().cmp(&other.len())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_in_which_a_path_is_written_does_not_change_the_order() {
        let conf = Path::new("graph.yaml");
        let absolute = std::path::absolute("src/lib.rs").expect("a path").display().to_string();
        for last in ["./src/lib.rs", "src/../src/lib.rs", &absolute] {
            let patterns = [last.to_owned(), "src/error.rs".to_owned()];
            let found = paths(conf, "nodes[0]", &patterns).expect("both files");
            assert_eq!(found, ["src/error.rs", last].map(PathBuf::from));
            let error = paths(conf, "nodes[0]", &[last, "src/lib.rs"].map(String::from)).expect_err("one file");
            assert!(error.to_string().contains("lib.rs is listed twice"), "{error}");
        }
    }

    #[test]
    fn patterns_skip_hidden_names_that_they_do_not_spell() {
        let dir = tempfile::tempdir().expect("a folder");
        let hidden = dir.path().join(".hidden");
        let of_folder = ["g1/e-1.csv", "g1/.e-1.csv"];
        let names = ["h/e-1.csv", "h/.e-1.csv", "h/._x.csv", "h/.ipynb_checkpoints/e-1.csv", "h/a/e-2.csv"];
        for name in names.into_iter().chain(of_folder) {
            let path = hidden.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, "x\n").expect("a file");
        }
        for (pattern, expected) in [
            ("h/*.csv", &["h/e-1.csv"][..]),
            ("h/.e*.csv", &["h/.e-1.csv"]),
            ("./h/**/*.csv", &["h/a/e-2.csv", "h/e-1.csv"]),
            ("h/../h/*/*.csv", &["h/a/e-2.csv"]),
            ("h/.i*/*.csv", &["h/.ipynb_checkpoints/e-1.csv"]),
            ("*/.ipynb_checkpoints/e-?.csv", &["h/.ipynb_checkpoints/e-1.csv"]),
            ("g?", &["g1/e-1.csv"]),
        ] {
            let found = paths(&hidden.join("graph.yaml"), "nodes[0]", &[pattern.to_owned()]).expect("files");
            let expected: Vec<PathBuf> = expected.iter().map(|name| hidden.join(name)).collect();
            assert_eq!(found.iter().map(|path| place(path)).collect::<Vec<_>>(), expected, "{pattern}");
        }
    }

    #[test]
    fn names_of_folders_are_columns() {
        let column =
            |name: &str, value: Option<&str>| FolderColumn { name: name.into(), value: value.map(str::to_owned) };
        let path = Path::new("t/year=2020/city=S%C3%A3o%20Paulo%/a=__HIVE_DEFAULT_PARTITION__/part=0.csv");
        let expected = [column("a", None), column("city", Some("S\u{e3}o Paulo%")), column("year", Some("2020"))];
        assert_eq!(folder_columns(path), expected);
        assert_eq!(folder_columns(Path::new("=3/x.csv")), []);
    }

    #[test]
    fn numbers_in_names_should_ascend() {
        let found = |names: &[&str]| misordered(&names.iter().map(Path::new).collect::<Vec<_>>());
        assert_eq!(
            found(&["p-0.csv", "p-1.csv", "p-10.csv", "p-2.csv"]),
            Some(["p-10.csv", "p-2.csv"].map(PathBuf::from))
        );
        assert_eq!(found(&["p-00.csv", "p-01.csv", "p-10.csv"]), None);
        assert_eq!(found(&["p-007.csv", "p-7.csv", "q-1.csv"]), None);
        assert_eq!(found(&["a.csv", "b.csv"]), None);
    }
}
