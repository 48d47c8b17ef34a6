//! The agent's reports.

use crate::messages::Report;
use std::io::{Write, stdout};
use std::sync::mpsc;

/// Writes reports to standard output, a line each. The ranks' output is written by the threads that read it, so that a
/// slow terminal slows the ranks down and fills no memory; all else goes through a thread of its own, so that whoever
/// says it never waits.
#[derive(Clone)]
pub(crate) struct Out(mpsc::Sender<Report>);

impl Out {
    pub(crate) fn start() -> Self {
        let (sender, reports) = mpsc::channel::<Report>();
        println!("{}", crate::messages::HELLO);
        std::thread::spawn(move || {
            for report in reports {
                Self::write(&report);
            }
        });
        Self(sender)
    }

    /// Says something without waiting.
    pub(crate) fn say(&self, report: Report) {
        let _ = self.0.send(report);
    }

    /// Writes a report before it returns. If nobody listens any more, the end of standard input says so.
    pub(crate) fn write(report: &Report) {
        if let Ok(mut line) = serde_json::to_string(report) {
            line.push('\n');
            let mut out = stdout().lock();
            let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        }
    }
}
