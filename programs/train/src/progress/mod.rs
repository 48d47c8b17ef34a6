//! The progress of an epoch: a bar on a terminal, otherwise a line from time to time.

pub(crate) mod metrics_file;
pub(crate) mod monitor;
pub(crate) mod named_values;
pub(crate) mod reporter;
pub(crate) mod tensorboard;
pub(crate) mod traffic_table;

use crate::args::JobArgs;
use crate::progress::monitor::Monitor;
use edgecut_cli::message;
use edgecut_trainer::{StepReport, resident_bytes};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two changes of the bar's text.
const REFRESH: Duration = Duration::from_millis(200);

/// The progress of training on rank 0. The other ranks print nothing.
pub(crate) struct Progress {
    /// False on other ranks than 0, and with `--quiet`.
    speaks: bool,
    bar: ProgressBar,
    /// The time between two lines without a terminal; zero prints none.
    interval: Duration,
    num_epochs: u64,
    epoch_start: Instant,
    since: Stretch,
    /// The time of the last change of the bar's text.
    shown: Option<Instant>,
    monitor: Arc<Monitor>,
}

/// The steps since the last line.
struct Stretch {
    start: Instant,
    num_seeds: u64,
    /// The sum of the losses of these seeds.
    loss: f64,
    waited: Duration,
    /// The bytes received before these steps.
    received_before: Option<u64>,
}

impl Stretch {
    fn new(monitor: &Monitor) -> Self {
        let received_before = monitor.received_bytes();
        Self { start: Instant::now(), num_seeds: 0, loss: 0.0, waited: Duration::ZERO, received_before }
    }

    fn add(&mut self, step: &StepReport) {
        self.num_seeds += step.num_seeds;
        self.loss += step.loss.unwrap_or(0.0) * step.num_seeds as f64;
        self.waited += step.waited;
    }

    /// Describes the steps: their mean loss, their speed, the fraction of the time for which training waited, and the
    /// traffic and memory of this process.
    fn text(&self, monitor: &Monitor) -> String {
        let seconds = self.start.elapsed().as_secs_f64().max(1e-9);
        let loss = self.loss / (self.num_seeds as f64).max(1.0);
        let speed = self.num_seeds as f64 / seconds;
        let waiting = 100.0 * self.waited.as_secs_f64() / seconds;
        let mut text = format!("loss {loss:.4}, {speed:.0} seeds/s, waiting {waiting:.0} %");
        if let Some(received) = monitor.received_bytes() {
            let received = received - self.received_before.unwrap_or(received);
            text += &format!(", {:.1} MB/s received", received as f64 / 1e6 / seconds);
        }
        if let Some(memory) = resident_bytes() {
            text += &format!(", {:.2} GB memory", memory as f64 / 1e9);
        }
        text
    }
}

/// Returns a progress bar, which is hidden without a terminal, and on processes that do not speak.
pub(crate) fn progress_bar(speaks: bool, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    if speaks && std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

impl Progress {
    pub(crate) fn new(args: &JobArgs, rank: usize, num_epochs: u64, monitor: Arc<Monitor>) -> Self {
        let speaks = rank == 0 && !args.quiet;
        // A narrow terminal cuts the line at its right end.
        let bar = progress_bar(speaks, "{prefix} {pos}/{len} {bar:10}, {eta} left: {wide_msg}");
        let interval = Duration::from_secs(args.log_every);
        let since = Stretch::new(&monitor);
        Self { speaks, bar, interval, num_epochs, epoch_start: Instant::now(), since, shown: None, monitor }
    }

    /// Prints a line above the progress bar.
    pub(crate) fn say(&self, text: &str) {
        if !self.speaks {
            return;
        }
        // Before the first step there is no bar yet, which printing a line above it would draw.
        if self.bar.is_hidden() || self.bar.length().is_none_or(|length| length == 0) {
            message!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    /// Shows a step.
    pub(crate) fn step(&mut self, report: &StepReport) {
        if !self.speaks {
            return;
        }
        let StepReport { epoch, step, num_steps, .. } = *report;
        let name = format!("epoch {epoch}/{}", self.num_epochs);
        if step == 1 && !self.bar.is_hidden() {
            self.bar.set_message("");
            self.bar.set_prefix(name.clone());
            self.bar.set_length(num_steps as u64);
            self.bar.reset();
        }
        self.since.add(report);
        if !self.bar.is_hidden() {
            if step == num_steps {
                self.bar.set_message("validating");
            } else if self.shown.is_none_or(|at| at.elapsed() > REFRESH) {
                self.bar.set_message(self.since.text(&self.monitor));
                self.shown = Some(Instant::now());
            }
            self.bar.set_position(step as u64);
        } else if self.interval > Duration::ZERO && self.since.start.elapsed() >= self.interval && step < num_steps {
            let elapsed = self.epoch_start.elapsed().as_secs_f64();
            let left = elapsed / step as f64 * (num_steps - step) as f64;
            let state = self.since.text(&self.monitor);
            message!("{name}, step {step}/{num_steps}: {state}, {left:.0} s left in this epoch");
            self.since = Stretch::new(&self.monitor);
        }
    }

    /// Starts the clock of the next epoch.
    pub(crate) fn epoch_begins(&mut self) {
        self.epoch_start = Instant::now();
        self.since = Stretch::new(&self.monitor);
        self.shown = None;
    }

    /// Removes the progress bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
