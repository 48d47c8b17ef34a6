//! Output of the agent's reports.

use crate::messages::Report;
use std::io::{Write, stdout};
use std::sync::mpsc;
use std::time::Duration;

/// The writer of reports to standard output, one line each. The ranks' output is written by the threads that read it
/// ([`Out::write`]), so that a slow terminal slows the ranks down instead of filling memory. All other reports go
/// through a thread of their own, so that their senders never wait.
#[derive(Clone)]
pub(crate) struct Out(mpsc::Sender<Said>);

enum Said {
    Report(Report),
    /// Report when all earlier reports are written.
    Flush(mpsc::Sender<()>),
}

impl Out {
    /// Prints the agent's first line, and starts the writing thread.
    pub(crate) fn start() -> Self {
        let (sender, reports) = mpsc::channel::<Said>();
        Self::line(crate::messages::HELLO.to_owned());
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

    /// Queues a report without waiting.
    pub(crate) fn say(&self, report: Report) {
        let _ = self.0.send(Said::Report(report));
    }

    /// Waits until all reports so far are written, for at most `patience`.
    pub(crate) fn flush(&self, patience: Duration) {
        let (done, written) = mpsc::channel();
        let _ = self.0.send(Said::Flush(done));
        let _ = written.recv_timeout(patience);
    }

    /// Writes a report before it returns. Errors are ignored: the end of standard input tells that the launcher is
    /// gone.
    pub(crate) fn write(report: &Report) {
        if let Ok(line) = serde_json::to_string(report) {
            Self::line(line);
        }
    }

    fn line(mut line: String) {
        line.push('\n');
        let mut out = stdout().lock();
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}
