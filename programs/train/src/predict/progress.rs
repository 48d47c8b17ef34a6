//! The progress of predictions: a bar on a terminal, otherwise a line from time to time.

use crate::args::JobArgs;
use crate::progress::progress_bar;
use edgecut_cli::message;
use edgecut_graph::shown_bytes;
use edgecut_trainer::inference::{InferenceProgress, InferenceStep};
use edgecut_trainer::resident_bytes;
use indicatif::ProgressBar;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The progress on rank 0. The other ranks print nothing.
pub(super) struct Progress {
    /// False on other ranks than 0, and with `--quiet`.
    speaks: bool,
    bar: ProgressBar,
    /// The time between two lines without a terminal; zero prints none.
    interval: Duration,
    printed: Cell<Instant>,
}

impl Progress {
    pub(super) fn new(args: &JobArgs, rank: usize) -> Self {
        let speaks = rank == 0 && !args.quiet;
        let bar = progress_bar(speaks, "{prefix} {pos}/{len} {bar:10}, {eta} left in this pass");
        let interval = Duration::from_secs(args.log_every);
        Self { speaks, bar, interval, printed: Cell::new(Instant::now()) }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows a step of a phase, counted from 1.
    pub(super) fn show(&self, phase: &str, step: usize, num_steps: usize) {
        if !self.speaks {
            return;
        }
        if !self.bar.is_hidden() {
            if step == 1 {
                self.bar.set_prefix(phase.to_owned());
                self.bar.set_length(num_steps as u64);
                self.bar.reset();
            }
            self.bar.set_position(step as u64);
        } else if self.interval > Duration::ZERO && self.printed.get().elapsed() >= self.interval {
            let memory = resident_bytes().map(|bytes| format!(", {} memory", shown_bytes(bytes)));
            message!("{phase}, step {step}/{num_steps}{}", memory.unwrap_or_default());
            self.printed.set(Instant::now());
        }
    }
}

impl InferenceProgress for Progress {
    fn step(&self, InferenceStep { pass, num_passes, step, num_steps }: InferenceStep) {
        self.show(&format!("pass {pass}/{num_passes}"), step, num_steps);
    }
}
