//! URLs of object stores on command lines.
//!
//! A program works on local files. It fetches what the URLs on its command line name, and parses the command line again with
//! local paths in their place.

use crate::spelling::flag_named;
use clap::{Args, Command};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The schemes of URLs that a command line may have.
const SCHEMES: [&str; 4] = ["s3", "gs", "az", "file"];

/// The flags of programs that read from object stores and write to them.
#[derive(Clone, Debug, Default, Args)]
pub struct StoreArgs {
    /// Folder for local copies of what s3://, gs:// and az:// URLs name, and for compiled kernels of GPUs [default:
    /// EDGECUT_CACHE_DIR, or edgecut in XDG_CACHE_HOME or ~/.cache]
    #[arg(long, alias = "cache_dir", value_name = "DIR", env = "EDGECUT_CACHE_DIR", hide_env = true)]
    pub cache_dir: Option<PathBuf>,
    /// The flags whose values are local paths in place of URLs, as ID=URL. The program itself adds them.
    #[arg(long, hide = true, value_name = "ID=URL")]
    pub located: Vec<String>,
}

impl StoreArgs {
    /// Returns the URL that the user gave for a flag, whose value is now a local path.
    pub fn url_of(&self, id: &str) -> Option<&str> {
        self.located.iter().find_map(|pair| pair.strip_prefix(id)?.strip_prefix('='))
    }

    /// Returns what the user gave for a flag: the URL, or else the path that is its value.
    pub fn given<'a>(&'a self, id: &str, path: &'a Path) -> &'a Path {
        self.url_of(id).map_or(path, Path::new)
    }
}

/// A URL of an object store in a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUrl {
    /// The id of the flag, or of the argument without a flag.
    pub id: String,
    /// The URL.
    pub url: String,
    /// The number of the word.
    word: usize,
}

/// Returns true for a URL of an object store or of a file.
pub fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

/// Returns the path that a `file://` URL names; `None` for other texts.
///
/// # Errors
/// A URL of another machine.
pub fn path_of_file_url(url: &str) -> Result<Option<String>, String> {
    let Some(rest) = url.strip_prefix("file://") else { return Ok(None) };
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if path.starts_with('/') {
        Ok(Some(path.to_owned()))
    } else {
        Err(format!("{url} does not name a file of this machine: give file:///PATH, with three slashes"))
    }
}

/// Replaces `file://` URLs by their paths, and returns the URLs of object stores. `ids` are the flags and arguments that take
/// such URLs. The first word is the program. Words after `--` are for another program. Of a flag that is given several times
/// the last value counts, also if it is a path.
///
/// # Errors
/// A URL as the value of another flag.
pub(crate) fn find_urls(
    words: &mut [OsString],
    command: &Command,
    num_names: usize,
    ids: &[&str],
) -> Result<Vec<GivenUrl>, String> {
    let mut urls: Vec<GivenUrl> = Vec::new();
    let mut positionals = command.get_positionals();
    let mut flag_before = None;
    for (number, word) in words.iter_mut().enumerate().skip(num_names) {
        let Some(text) = word.to_str().map(str::to_owned) else { continue };
        if text == "--" {
            break;
        }
        let waiting: Option<String> = flag_before.take();
        let (flag, value) = match text.strip_prefix("--") {
            Some(flag) => match flag.split_once('=') {
                Some((flag, value)) => (Some(flag.to_owned()), value),
                None => {
                    flag_before = Some(flag.to_owned());
                    continue;
                }
            },
            None => (waiting.filter(|flag| takes_value(command, flag)), text.as_str()),
        };
        let id = match &flag {
            Some(flag) => flag_named(command, flag).map(|argument| argument.get_id().to_string()),
            None => positionals.next().map(|argument| argument.get_id().to_string()),
        };
        // A flag that this command does not have is for another program, or an error of the parser.
        let Some(id) = id else { continue };
        urls.retain(|earlier| earlier.id != id);
        if !is_url(value) {
            continue;
        }
        let shown = flag.as_ref().map_or_else(|| id.to_uppercase(), |flag| format!("--{flag}"));
        if let Some(path) = path_of_file_url(value).map_err(|why| format!("{shown}: {why}"))? {
            *word = match &flag {
                Some(flag) if text.starts_with("--") => format!("--{flag}={path}").into(),
                _ => path.into(),
            };
        } else if ids.contains(&&*id) {
            urls.push(GivenUrl { id, url: value.to_owned(), word: number });
        } else {
            // The URL is not repeated, since it may contain a secret.
            return Err(format!("{shown} takes no URL of an object store: give a local path"));
        }
    }
    Ok(urls)
}

/// Returns the words with local paths in place of URLs, and after the first `num_names` words the flags by which
/// [`StoreArgs`] knows these URLs.
pub(crate) fn with_paths(words: &[OsString], num_names: usize, paths: &[(GivenUrl, PathBuf)]) -> Vec<OsString> {
    let mut words = words.to_vec();
    for (given, path) in paths {
        let has_flag = words[given.word].to_string_lossy().starts_with("--");
        words[given.word] = if has_flag {
            let flag = words[given.word].to_string_lossy().split('=').next().unwrap_or_default().to_owned();
            let mut word = OsString::from(flag + "=");
            word.push(path);
            word
        } else {
            path.clone().into()
        };
    }
    let located = paths.iter().map(|(given, _)| OsString::from(format!("--located={}={}", given.id, given.url)));
    words.splice(num_names..num_names, located);
    words
}

fn takes_value(command: &Command, flag: &str) -> bool {
    flag_named(command, flag).is_none_or(|flag| flag.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches, Parser};

    #[derive(Debug, Parser)]
    struct Program {
        dir: Option<PathBuf>,
        #[arg(long, alias = "output_dir")]
        out: Option<PathBuf>,
        #[arg(long)]
        metrics: Option<PathBuf>,
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        stores: StoreArgs,
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn found(line: &str) -> Result<(Vec<OsString>, Vec<GivenUrl>), String> {
        let mut words = words(line);
        let urls = find_urls(&mut words, &Program::command(), 1, &["dir", "out"])?;
        Ok((words, urls))
    }

    #[test]
    fn urls_of_stores_are_replaced_by_paths() {
        for line in ["x --json s3://b/in --out gs://b/o=1", "x --json s3://b/in --output_dir=gs://b/o=1"] {
            let (words, urls) = found(line).unwrap();
            assert_eq!(urls.iter().map(|url| &*url.id).collect::<Vec<_>>(), ["dir", "out"]);
            let paths: Vec<_> = urls.into_iter().zip(["/c/in", "/c/o"].map(PathBuf::from)).collect();
            let program = Program::try_parse_from(with_paths(&words, 1, &paths)).unwrap();
            assert_eq!((program.dir, program.out), (Some("/c/in".into()), Some("/c/o".into())));
            assert!(program.json && program.metrics.is_none());
            assert_eq!(program.stores.url_of("out"), Some("gs://b/o=1"));
            assert_eq!(program.stores.url_of("metrics"), None);
            assert_eq!(program.stores.given("out", Path::new("/c/o")), Path::new("gs://b/o=1"));
        }
    }

    #[test]
    fn urls_of_files_are_paths() {
        let (found, urls) = found("x file:///a/b --metrics file://localhost/m --out=file:///o").unwrap();
        assert_eq!((found, urls.len()), (words("x /a/b --metrics /m --out=/o"), 0));
    }

    #[test]
    fn the_last_value_of_a_repeated_flag_counts() {
        for (line, expected) in [
            ("x --out s3://b/1 --output_dir s3://b/2", Some("s3://b/2")),
            ("x --out=s3://b/1 --out /local", None),
            ("x --out /local --out=s3://b/1", Some("s3://b/1")),
            ("x --out s3://b/1 --out=file:///local", None),
        ] {
            let (words, urls) = found(line).unwrap();
            assert_eq!(urls.iter().map(|given| &*given.url).collect::<Vec<_>>(), Vec::from_iter(expected), "{line}");
            let paths: Vec<_> = urls.into_iter().map(|given| (given, PathBuf::from("/local"))).collect();
            let mut words = with_paths(&words, 1, &paths);
            // The processes that the program starts get these words.
            assert_eq!(find_urls(&mut words.clone(), &Program::command(), 1, &["dir", "out"]).unwrap(), []);
            words.insert(1, "--json".into());
            let command = crate::command_line::prepared(Program::command(), "x".as_ref());
            let program = Program::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap();
            assert_eq!(program.out.as_deref(), Some(Path::new("/local")), "{line}");
            assert_eq!(program.stores.url_of("out"), expected, "{line}");
        }
    }

    #[test]
    fn other_flags_take_no_urls() {
        let error = found("x --metrics s3://key:secret@b/m").unwrap_err();
        assert_eq!(error, "--metrics takes no URL of an object store: give a local path");
        assert!(found("x --out file://server/o").unwrap_err().contains("--out: file://server/o does not name"));
        // Words for another program, and other texts with a colon.
        for line in ["x --out a -- --metrics s3://b/m", "x --unknown s3://b/m", "x --metrics http://a/b"] {
            assert_eq!(found(line).unwrap().1, []);
        }
    }
}
