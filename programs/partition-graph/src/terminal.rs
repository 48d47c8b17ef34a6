//! The progress shown on standard error.

use crate::args::with_flags;
use edgecut_cli::message;
use edgecut_graph::shown_bytes;
use edgecut_output::remove_temporary_folders;
use edgecut_partition::{Method, PartitionOptions, Phase, Progress};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The exit status of an interrupted run.
pub(crate) const INTERRUPTED: u8 = 130;

/// The progress display: a line per finished phase and, on a terminal, a bar for the current one. It also measures the
/// time of each phase.
pub(crate) struct Terminal {
    bar: ProgressBar,
    state: Mutex<State>,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The method that assigns nodes.
    method: Method,
    /// The current phase and its start.
    current: Option<(&'static str, Instant)>,
    /// The seconds of each finished phase.
    seconds: BTreeMap<&'static str, f64>,
    /// True while an interrupt has to clean up files.
    writing: bool,
    /// The step within the phase that the bar shows.
    step: Option<&'static str>,
    /// The bytes that the current phase has written so far.
    bytes: u64,
    /// The files that an interrupt leaves behind, as the end of its line.
    end_of_interrupt: Option<String>,
}

impl Terminal {
    /// Creates a display that shows nothing yet.
    pub(crate) fn new(options: &PartitionOptions) -> Self {
        let bar = ProgressBar::no_length();
        let state = Mutex::new(State { method: options.method, ..State::default() });
        Self { bar, state, stop: AtomicBool::new(false) }
    }

    /// Changes the method that the display names.
    pub(crate) fn set_method(&self, method: Method) {
        self.lock().method = method;
    }

    /// Shows a phase that comes before the partitioning.
    pub(crate) fn enter(&self, name: &'static str) {
        self.begin(&mut self.lock(), name);
    }

    /// Ends the last phase, and returns the seconds of each phase.
    pub(crate) fn finish(&self) -> BTreeMap<&'static str, f64> {
        let mut state = self.lock();
        self.end(&mut state);
        state.writing = false;
        self.clear();
        state.seconds.clone()
    }

    /// Sets the text that the line of an interrupt ends with. Ends the process if an interrupt came too late to stop the writing.
    pub(crate) fn set_end_of_interrupt(&self, text: String) {
        let mut state = self.lock();
        state.end_of_interrupt = Some(text);
        if self.cancelled() {
            self.exit(&state);
        }
    }

    /// Removes the bar before other output is printed.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Calls `print` while the bar is hidden.
    pub(crate) fn suspended(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Prints a note.
    pub(crate) fn note(&self, text: &str) {
        self.suspended(|| message!("note: {}", with_flags(text)));
    }

    /// Shows that `done` of `total` bytes of a step of the current phase are done, and the remaining time.
    pub(crate) fn worked(&self, step: &'static str, done: u64, total: u64) {
        let mut state = self.lock();
        // While parts are written, the bar shows the bytes of all their files.
        if state.writing {
            return;
        }
        if state.step != Some(step) || done < self.bar.position() {
            state.step = Some(step);
            let phase = state.current.map_or_else(String::new, |(name, _)| shown(state.method, name));
            self.bar.reset();
            self.bar.set_style(style(&format!("{phase:<10} {{elapsed}} {step} {{bar:30}} {BYTES}")));
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Ends the process: at once if nothing is on disk or this is the second interrupt, else as soon as the files are
    /// removed.
    pub(crate) fn interrupt(&self) {
        // Writing cannot begin while the lock is held.
        let state = self.lock();
        if !state.writing || self.stop.swap(true, Ordering::Relaxed) {
            self.exit(&state);
        }
    }

    fn exit(&self, state: &State) -> ! {
        self.clear();
        remove_temporary_folders();
        match &state.end_of_interrupt {
            Some(text) => message!("interrupted: {text}"),
            None => message!("interrupted"),
        }
        std::process::exit(INTERRUPTED.into());
    }

    fn begin(&self, state: &mut State, name: &'static str) {
        self.end(state);
        state.current = Some((name, Instant::now()));
        state.step = None;
        state.bytes = 0;
        let shown = shown(state.method, name);
        self.bar.set_style(style(&format!("{shown:<10} {{elapsed}} {{spinner}}")));
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }

    fn end(&self, state: &mut State) {
        if let Some((name, since)) = state.current.take() {
            let seconds = since.elapsed().as_secs_f64();
            state.seconds.insert(name, (seconds * 1e3).round() / 1e3);
            self.bar.disable_steady_tick();
            let bytes = if state.bytes > 0 { format!(", {}", shown_bytes(state.bytes)) } else { String::new() };
            self.bar.suspend(|| message!("{:<10} {seconds:7.2} s{bytes}", shown(state.method, name)));
            self.bar.reset();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Terminal {
    fn phase(&self, phase: Phase) {
        let mut state = self.lock();
        self.begin(&mut state, phase_name(phase));
        state.writing = phase == Phase::Writing;
        if state.writing {
            self.bar.set_style(style(&format!("writing    {{elapsed}} {{bar:40}} {BYTES}")));
        }
    }

    fn written(&self, done: u64, total: u64) {
        let mut state = self.lock();
        state.bytes = state.bytes.max(done);
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    fn notice(&self, text: &str) {
        self.note(text);
    }

    fn cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The bytes, their rate and the remaining time on the bar.
const BYTES: &str = "{bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Returns the displayed name of a phase. The assigning phase is shown under the method's name.
fn shown(method: Method, name: &'static str) -> String {
    if name != phase_name(Phase::Assigning) {
        return name.into();
    }
    match method {
        Method::Metis { .. } => "METIS".into(),
        Method::SemiExternal => "semi-external".into(),
        Method::Ldg => "LDG".into(),
        Method::Random => "random".into(),
    }
}

/// Returns the name of a phase for the terminal and as a key of the JSON output.
fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Preparing => "preparing",
        Phase::Assigning => "assigning",
        Phase::Writing => "writing",
    }
}
