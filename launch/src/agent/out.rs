//! The agent's reports.

use crate::messages::Report;
use std::io::{Write, stdout};
use std::sync::mpsc;
use std::time::Duration;

/// Writes reports to standard output, a line each. The ranks' output is written by the threads that read it, so that a
/// slow terminal slows the ranks down and fills no memory; all else goes through a thread of its own, so that whoever
/// says it never waits.
#[derive(Clone)]
pub(crate) struct Out(mpsc::Sender<Said>);

enum Said {
    Report(Report),
    /// All that was said before is written.
    Flush(mpsc::Sender<()>),
}

impl Out {
    pub(crate) fn start() -> Self {
        let (sender, reports) = mpsc::channel::<Said>();
        println!("{}", crate::messages::HELLO);
        std::thread::spawn(move || {
            for said in reports {
                match said {
                    Said::Report(report) => Self::write(&report),
                    Said::Flush(done) => drop(done.send(())),
                }
            }
        });
        Self(sender)
    }

    /// Says something without waiting.
    pub(crate) fn say(&self, report: Report) {
        let _ = self.0.send(Said::Report(report));
    }

    /// Waits until all is written that was said so far, but no longer than `patience`.
    pub(crate) fn flush(&self, patience: Duration) {
        let (done, written) = mpsc::channel();
        let _ = self.0.send(Said::Flush(done));
        let _ = written.recv_timeout(patience);
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
