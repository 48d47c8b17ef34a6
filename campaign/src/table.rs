//! The results of rounds, as a table in Markdown.

use edgecut_cli::message;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The outcome of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All processes ended with an error that names the cause.
    Ended,
    /// The job went on.
    WentOn,
}

/// The results of the rounds of one kind.
#[derive(Default)]
struct Row {
    rounds: u64,
    ended: u64,
    went_on: u64,
    failed: u64,
    slowest: Duration,
}

/// The results of rounds, by fault.
#[derive(Default)]
pub(crate) struct Table {
    rows: BTreeMap<String, Row>,
}

impl Table {
    /// Notes a round, and prints a line about it. `took` is the time from the fault to the outcome.
    pub(crate) fn note(&mut self, number: u64, what: &str, fault: &str, result: anyhow::Result<(Outcome, Duration)>) {
        let row = self.rows.entry(fault.to_owned()).or_default();
        row.rounds += 1;
        match result {
            Ok((outcome, took)) => {
                match outcome {
                    Outcome::Ended => row.ended += 1,
                    Outcome::WentOn => row.went_on += 1,
                }
                row.slowest = row.slowest.max(took);
                message!("round {number}: {what}: {outcome:?} after {:.1} s", took.as_secs_f64());
            }
            Err(error) => {
                row.failed += 1;
                message!("round {number}: {what}: FAILED: {error:#}");
            }
        }
    }

    pub(crate) fn num_failed(&self) -> u64 {
        self.rows.values().map(|row| row.failed).sum()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| fault | rounds | ended with the cause | went on | failed | slowest |")?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for (fault, row) in &self.rows {
            let Row { rounds, ended, went_on, failed, slowest } = row;
            writeln!(f, "| {fault} | {rounds} | {ended} | {went_on} | {failed} | {:.1} s |", slowest.as_secs_f64())?;
        }
        Ok(())
    }
}
