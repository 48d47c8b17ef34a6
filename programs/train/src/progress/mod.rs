//! The progress of an epoch: a bar on a terminal, otherwise a line from time to time.

pub(crate) mod epoch_table;
pub(crate) mod live_page;
pub(crate) mod metrics_file;
pub(crate) mod monitor;
pub(crate) mod named_values;
pub(crate) mod plan_table;
pub(crate) mod reporter;
pub(crate) mod run_facts;
pub(crate) mod tensorboard;
pub(crate) mod text_table;
pub(crate) mod traffic_table;

use crate::args::JobArgs;
use crate::progress::monitor::Monitor;
use crate::progress::text_table::{fitting, terminal_columns};
use edgecut_cli::message;
use edgecut_graph::{Split, shown_bytes};
use edgecut_trainer::inference::InferenceStep;
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
    /// The name of the epoch, or of an evaluation, that the bar shows.
    name: String,
    epoch_start: Instant,
    since: Stretch,
    /// The time of the last line without a terminal.
    printed: Instant,
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

    /// Describes the steps, in order of importance: their mean loss, their speed, the fraction of the time for which
    /// training waited, and the traffic and memory of this process.
    fn texts(&self, monitor: &Monitor) -> Vec<String> {
        let seconds = self.start.elapsed().as_secs_f64().max(1e-9);
        let loss = self.loss / (self.num_seeds as f64).max(1.0);
        let speed = self.num_seeds as f64 / seconds;
        let waiting = 100.0 * self.waited.as_secs_f64() / seconds;
        let mut texts =
            vec![format!("loss {loss:.4}"), format!("{speed:.0} seeds/s"), format!("waiting {waiting:.0} %")];
        if let Some(received) = monitor.received_bytes() {
            let received = received - self.received_before.unwrap_or(received);
            texts.push(format!("{}/s received", shown_bytes((received as f64 / seconds) as u64)));
        }
        texts.extend(resident_bytes().map(|memory| format!("{} memory", shown_bytes(memory))));
        texts
    }
}

/// The end of a bar with a message, which an evaluation has not.
const MESSAGE: &str = ": {msg}";
/// The progress of an epoch without its message, and its width with the longest numbers that are usual.
const WIDE_BAR: (&str, usize) = ("{prefix} {pos}/{len} {bar:10}, {eta} left: {msg}", 30);
/// The same for terminals that are narrower than [`NARROW`].
const NARROW_BAR: (&str, usize) = ("{prefix} {pos}/{len}, {eta} left: {msg}", 18);
const NARROW: usize = 75;

/// Returns the text before an epoch of a fold of a cross-validation.
pub(crate) fn of_fold(fold: Option<usize>) -> String {
    fold.map(|fold| format!("fold {fold}, ")).unwrap_or_default()
}

/// Returns the form of an epoch's bar for a terminal, and the columns that are left for the message. `name` and
/// `num_steps` are those of the epoch.
fn bar_of_epoch(columns: usize, name: &str, num_steps: usize) -> (&'static str, usize) {
    let (template, width) = if columns < NARROW { NARROW_BAR } else { WIDE_BAR };
    let digits = num_steps.to_string().len();
    (template, columns.saturating_sub(width + name.chars().count() + 2 * digits))
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
        let bar = progress_bar(speaks, WIDE_BAR.0);
        let interval = Duration::from_secs(args.log_every);
        let since = Stretch::new(&monitor);
        let now = Instant::now();
        Self {
            speaks,
            bar,
            interval,
            num_epochs,
            name: String::new(),
            epoch_start: now,
            since,
            printed: now,
            shown: None,
            monitor,
        }
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
        let StepReport { epoch, fold, step, num_steps, .. } = *report;
        let name = format!("{}epoch {epoch}/{}", of_fold(fold), self.num_epochs);
        let (template, columns) = bar_of_epoch(terminal_columns(), &name, num_steps);
        self.begin_bar(template, &name, num_steps);
        self.since.add(report);
        if !self.bar.is_hidden() {
            if self.shown.is_none_or(|at| at.elapsed() > REFRESH) {
                self.bar.set_message(fitting(&self.since.texts(&self.monitor), columns));
                self.shown = Some(Instant::now());
            }
            self.bar.set_position(step as u64);
        } else if self.interval > Duration::ZERO && self.since.start.elapsed() >= self.interval && step < num_steps {
            self.printed = Instant::now();
            let elapsed = self.epoch_start.elapsed().as_secs_f64();
            let left = elapsed / step as f64 * (num_steps - step) as f64;
            let state = self.since.texts(&self.monitor).join(", ");
            message!("{name}, step {step}/{num_steps}: {state}, {left:.0} s left in this epoch");
            self.since = Stretch::new(&self.monitor);
        }
    }

    /// Shows a step of an evaluation, with the time that is left for its pass.
    pub(crate) fn evaluation_step(&mut self, split: Split, step: InferenceStep, left: Option<Duration>) {
        if !self.speaks {
            return;
        }
        let InferenceStep { pass, num_passes, step, num_steps } = step;
        let of_pass = if num_passes > 1 { format!(" {pass}/{num_passes}") } else { String::new() };
        let name = format!("{}{of_pass}", if split == Split::Test { "test" } else { "validation" });
        let (template, _) = bar_of_epoch(terminal_columns(), &name, num_steps);
        self.begin_bar(template.trim_end_matches(MESSAGE), &name, num_steps);
        if !self.bar.is_hidden() {
            self.bar.set_position(step as u64);
        } else if self.interval > Duration::ZERO && self.printed.elapsed() >= self.interval && step < num_steps {
            let left = left.map(|left| format!(", {:.0} s left", left.as_secs_f64())).unwrap_or_default();
            message!("{name}, step {step}/{num_steps}{left}");
            self.printed = Instant::now();
        }
    }

    /// Starts the bar of an epoch or an evaluation, unless the bar shows it already.
    fn begin_bar(&mut self, template: &str, name: &str, num_steps: usize) {
        let is_other = self.name != name || self.bar.length() != Some(num_steps as u64) || self.bar.is_finished();
        if !is_other || self.bar.is_hidden() {
            return;
        }
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        name.clone_into(&mut self.name);
        self.bar.set_message("");
        self.bar.set_prefix(name.to_owned());
        self.bar.set_length(num_steps as u64);
        self.bar.reset();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_of_a_narrow_terminal_drops_whole_numbers() {
        let texts = ["loss 0.1234", "12345 seeds/s", "waiting 12 %", "1.2 MB/s received", "1.31 GB memory"];
        let texts = texts.map(String::from);
        let mut last = usize::MAX;
        for columns in [200, 120, 100, 80, 60, 50, 40] {
            let (template, left) = bar_of_epoch(columns, "epoch 12/20", 1500);
            let message = fitting(&texts, left);
            let whole = texts.iter().filter(|text| message.contains(*text)).count();
            assert_eq!(message, texts[..whole].join(", "), "{columns}: no number is cut");
            assert!(whole <= last && (whole > 1 || columns < 70), "{columns}: {message}");
            last = whole;
            let bar = if template.contains("{bar:10}") { 11 } else { 0 };
            let fixed = "epoch 12/20 1500/1500, 59m left: ".len() + bar;
            assert!(columns < 50 || fixed + message.len() <= columns, "{columns}: {message}");
        }
    }
}
