//! Prints on a thread of its own: a terminal that stands still must not keep the launcher from ending a job.

use crate::link::Event;
use crate::messages::Stream;
use crate::screen::Screen;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Lines of ranks that wait to be printed; beyond them the nodes wait, and then the ranks.
const MAX_WAITING: usize = 1024;
/// What a terminal gets to go on, where nobody wants to wait for it.
pub(crate) const LAST_LINES: Duration = Duration::from_secs(5);

enum Job {
    Begin(u32, mpsc::Sender<Result<(), String>>),
    Line { rank: usize, stream: Stream, text: String },
    Note(String),
    Failure { rank: usize, what: String },
    Flush(mpsc::Sender<()>),
}

/// Gives work to the printing thread.
#[derive(Clone)]
pub(crate) struct Printer {
    jobs: mpsc::Sender<Job>,
    waiting: Arc<(Mutex<usize>, Condvar)>,
}

impl Printer {
    /// Prints on `screen`; what cannot be written becomes an event.
    pub(crate) fn start(mut screen: Screen, events: mpsc::Sender<Event>) -> Self {
        let (jobs, receiver) = mpsc::channel();
        let waiting: Arc<(Mutex<usize>, Condvar)> = Arc::default();
        let printed = waiting.clone();
        std::thread::spawn(move || {
            for job in receiver {
                let written = match job {
                    Job::Begin(restarts, done) => {
                        let _ = done.send(screen.begin(restarts).map_err(|error| format!("{error:#}")));
                        Ok(())
                    }
                    Job::Line { rank, stream, text } => {
                        let written = screen.line(rank, stream, &text);
                        *printed.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                        printed.1.notify_one();
                        written
                    }
                    Job::Note(text) => {
                        screen.note(&text);
                        Ok(())
                    }
                    Job::Failure { rank, what } => {
                        screen.failure(rank, &what);
                        Ok(())
                    }
                    Job::Flush(done) => {
                        let _ = done.send(());
                        Ok(())
                    }
                };
                if let Err(error) = written {
                    let _ = events.send(Event::Unwritten(format!("{error:#}")));
                }
            }
        });
        Self { jobs, waiting }
    }

    /// A line of a rank. Waits while too many others do.
    pub(crate) fn line(&self, rank: usize, stream: Stream, text: String) {
        let (waiting, changed) = &*self.waiting;
        let lines = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |lines: &mut usize| *lines >= MAX_WAITING;
        *changed.wait_while(lines, full).unwrap_or_else(PoisonError::into_inner) += 1;
        let _ = self.jobs.send(Job::Line { rank, stream, text });
    }

    /// Lines now belong to the attempt after so many restarts. An error if they cannot be written down.
    pub(crate) fn begin(&self, restarts: u32) -> Result<(), String> {
        let (done, begun) = mpsc::channel();
        let _ = self.jobs.send(Job::Begin(restarts, done));
        // A terminal that stands still is no reason not to start.
        begun.recv_timeout(LAST_LINES).unwrap_or(Ok(()))
    }

    /// What the launcher itself says.
    pub(crate) fn note(&self, text: impl std::fmt::Display) {
        let _ = self.jobs.send(Job::Note(text.to_string()));
    }

    /// What happened to a rank, and its last lines once more.
    pub(crate) fn failure(&self, rank: usize, what: String) {
        let _ = self.jobs.send(Job::Failure { rank, what });
    }

    /// Says when all is printed that was given so far.
    pub(crate) fn flush(&self) -> mpsc::Receiver<()> {
        let (done, printed) = mpsc::channel();
        let _ = self.jobs.send(Job::Flush(done));
        printed
    }
}
