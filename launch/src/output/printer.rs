//! A printer with its own thread, so that a blocked terminal does not keep the launcher from ending a job.

use crate::messages::Stream;
use crate::output::screen::Screen;
use crate::timeouts::LAST_LINES_TIMEOUT;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};

/// The number of ranks' lines that may wait to be printed. Beyond it the nodes wait, and then the ranks.
const MAX_WAITING: usize = 1024;

/// Work for the printing thread. Its errors are errors of writing.
type Job = Box<dyn FnOnce(&mut Screen) -> anyhow::Result<()> + Send>;

/// A handle to the printing thread.
#[derive(Clone)]
pub(crate) struct Printer {
    jobs: mpsc::Sender<Job>,
    /// The number of ranks' lines that wait to be printed.
    waiting: Arc<(Mutex<usize>, Condvar)>,
}

impl Printer {
    /// Starts a thread that prints to `screen`. It passes the errors of writing to `on_error`.
    pub(crate) fn start(mut screen: Screen, on_error: impl Fn(anyhow::Error) + Send + 'static) -> Self {
        let (jobs, receiver) = mpsc::channel::<Job>();
        std::thread::spawn(move || {
            for job in receiver {
                if let Err(error) = job(&mut screen) {
                    on_error(error);
                }
            }
        });
        Self { jobs, waiting: Arc::default() }
    }

    fn print(&self, job: impl FnOnce(&mut Screen) -> anyhow::Result<()> + Send + 'static) {
        let _ = self.jobs.send(Box::new(job));
    }

    /// Prints a line of a rank. Waits while [`MAX_WAITING`] lines are not printed yet.
    pub(crate) fn line(&self, rank: usize, stream: Stream, text: String) {
        let (waiting, changed) = &*self.waiting;
        let lines = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *changed.wait_while(lines, |lines| *lines >= MAX_WAITING).unwrap_or_else(PoisonError::into_inner) += 1;
        let printed = self.waiting.clone();
        self.print(move |screen| {
            let written = screen.line(rank, stream, &text);
            *printed.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            printed.1.notify_one();
            written
        });
    }

    /// Starts the logs of the attempt after `restarts` restarts, whose ranks have these labels. Fails if they cannot be
    /// created.
    pub(crate) fn begin(&self, restarts: u32, labels: Vec<String>) -> anyhow::Result<()> {
        let (done, begun) = mpsc::channel();
        self.print(move |screen| {
            let _ = done.send(screen.begin(restarts, labels));
            Ok(())
        });
        // A blocked terminal does not keep a job from starting.
        begun.recv_timeout(LAST_LINES_TIMEOUT).unwrap_or(Ok(()))
    }

    /// Prints a message of the launcher itself.
    pub(crate) fn note(&self, text: impl std::fmt::Display) {
        let text = text.to_string();
        self.print(move |screen| {
            screen.note(&text);
            Ok(())
        });
    }

    /// Prints the failure of a rank, and repeats its last lines.
    pub(crate) fn failure(&self, rank: usize, what: String) {
        self.print(move |screen| {
            screen.failure(rank, &what);
            Ok(())
        });
    }

    /// Returns a channel that gets a message when everything so far is printed.
    pub(crate) fn flush(&self) -> mpsc::Receiver<()> {
        let (done, printed) = mpsc::channel();
        self.print(move |_| {
            let _ = done.send(());
            Ok(())
        });
        printed
    }
}
