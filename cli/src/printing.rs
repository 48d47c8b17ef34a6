//! Printing that never ends a program by a panic, as `println!` and `eprintln!` do when nobody reads any more.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use thiserror::Error;

/// A result that could not be printed.
#[derive(Debug, Error)]
#[error("print the result to standard output")]
pub struct PrintError(#[source] io::Error);

/// Prints a line to standard error, like `eprintln!`, and goes on if that fails.
///
/// ```
/// edgecut_cli::message!("epoch {}: loss {:.3}", 3, 0.25);
/// ```
#[macro_export]
macro_rules! message {
    ($($format:tt)*) => {
        $crate::print_message(::std::format_args!($($format)*))
    };
}

/// Prints a line to standard output, like `println!`. Fails unless it is printed or the reader has closed the pipe.
///
/// ```
/// edgecut_cli::result!("test accuracy {:.2} %", 81.5)?;
/// # Ok::<(), edgecut_cli::PrintError>(())
/// ```
#[macro_export]
macro_rules! result {
    ($($format:tt)*) => {
        $crate::print_result(::std::format_args!($($format)*))
    };
}

/// Prints a line to standard error in a single write, so that lines of several processes do not mix. Messages only
/// accompany the work, which goes on when nobody reads them or a log is full.
pub fn print_message(message: Arguments<'_>) {
    let _ = stderr().write_all(format!("{message}\n").as_bytes());
}

/// Prints a line to standard output.
///
/// # Errors
/// Fails if the line cannot be written, such as on a full disk. A pipe whose reader is gone is no error: a reader such as
/// `head` has read all that it wants.
pub fn print_result(result: Arguments<'_>) -> Result<(), PrintError> {
    let mut stdout = stdout().lock();
    match stdout.write_all(format!("{result}\n").as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(PrintError(error)),
        _ => Ok(()),
    }
}
