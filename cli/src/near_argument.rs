//! The path that is probably meant by an argument that names no file.

use edgecut_settings::near_path;
use std::ffi::OsString;
use std::path::Path;

/// The error of the operating system for a path that does not exist.
const NOT_FOUND: &str = "No such file or directory";

/// Returns an error with the near path of the program's argument whose file it does not find, if there is such a path.
pub fn with_near_argument(error: String) -> String {
    match near_argument(&error, std::env::args_os().skip(1)) {
        Some(near) => format!("{error} (did you mean {near}?)"),
        None => error,
    }
}

fn near_argument(error: &str, arguments: impl Iterator<Item = OsString>) -> Option<String> {
    if !error.contains(NOT_FOUND) {
        return None;
    }
    for argument in arguments {
        let Some(argument) = argument.to_str() else { continue };
        let value = argument.strip_prefix("--").and_then(|flag| flag.split_once('='));
        let path = value.map_or(argument, |(_, path)| path);
        // Other words of the command line may be in errors as well.
        let is_named = !path.is_empty() && error.contains(&format!("{path}: {NOT_FOUND}"));
        if is_named && let Some(near) = near_path(Path::new(path)) {
            return Some(near.display().to_string());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_found(path: &str) -> String {
        format!("--conf: {path}: No such file or directory (os error 2)")
    }

    #[test]
    fn the_argument_that_an_error_names_has_a_near_path() {
        for (arguments, error, expected) in [
            ("--conf scr/lib.rs", not_found("scr/lib.rs"), Some("src/lib.rs")),
            ("--conf=scr/lib.rs", not_found("scr/lib.rs"), Some("src/lib.rs")),
            ("--conf other/lib.rs", not_found("other/lib.rs"), None),
            ("--conf scr/lib.rs", not_found("another.rs"), None),
            ("--conf scr/lib.rs", "scr/lib.rs: Permission denied (os error 13)".to_owned(), None),
        ] {
            let arguments = arguments.split(' ').map(OsString::from);
            assert_eq!(near_argument(&error, arguments).as_deref(), expected, "{error}");
        }
    }
}
