//! Messages to the user of a process.

use std::io::Write;

/// Prints a line to standard error in a single write, so that lines of several processes do not mix. Unlike `eprintln!`, it
/// goes on if nobody reads any more: a message only accompanies the work.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
