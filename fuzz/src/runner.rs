//! The loop over the inputs of a target.

use crate::allocation::peak_of;
use crate::choices::Choices;
use crate::sample::{Mutant, Sample};
use crate::target::{Input, Outcome, Target};
use crate::watchdog::Watchdog;
use anyhow::Context;
use edgecut_cli::message;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The panics of all threads since the last input, with their places.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The inputs to try.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// The number of the first input.
    pub(crate) first: u64,
    pub(crate) inputs: u64,
    /// The time after which no further input is tried.
    pub(crate) time: Duration,
    /// The folder for inputs that break a rule.
    pub(crate) failures: PathBuf,
}

/// The result of a target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) inputs: u64,
    pub(crate) accepted: u64,
    /// The most bytes that an input took.
    pub(crate) peak_bytes: usize,
    /// Broken rules: the first input of each, and the description.
    pub(crate) findings: BTreeMap<String, u64>,
}

/// Makes panics of all threads findings. Their messages are not printed.
pub(crate) fn note_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
        let text = info.payload_as_str().unwrap_or("a panic without a text");
        PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(format!("panic{place}: {text}"));
    }));
}

/// Runs a target on the inputs of a plan.
///
/// # Errors
/// Fails if the samples or the files of an input cannot be written, or a sample is refused.
pub(crate) fn run(name: &str, target: &mut dyn Target, plan: &Plan) -> anyhow::Result<Tally> {
    let samples: Arc<[Sample]> = target.samples().context("make the samples")?.into();
    let root = tempfile::tempdir_in(fast_folder())?;
    let dir_of = |sample: usize| root.path().join(sample.to_string());
    for (number, sample) in samples.iter().enumerate() {
        std::fs::create_dir_all(dir_of(number))?;
        if target.has_files() {
            sample.write(&dir_of(number))?;
        }
    }
    let mutant = |number| Mutant::new(&samples, number, &mut Choices::new(plan.seed, name, number));
    let watchdog = Watchdog::start({
        let of_thread = (name.to_owned(), plan.clone(), samples.clone());
        move |number| {
            let (name, plan, samples) = &of_thread;
            let mutant = Mutant::new(samples, number, &mut Choices::new(plan.seed, name, number));
            let saved = save(name, plan, number, &mutant, samples);
            message!("error: {name}: input {number} of seed {} takes too long ({saved})", plan.seed);
        }
    });
    let start = Instant::now();
    let mut tally = Tally::default();
    for number in plan.first..plan.first.saturating_add(plan.inputs) {
        // The samples are always read, since they must be accepted.
        if number >= samples.len() as u64 && start.elapsed() > plan.time {
            break;
        }
        let mutant = mutant(number);
        let dir = dir_of(mutant.sample);
        if target.has_files() {
            mutant.apply(&dir)?;
        }
        let input = Input { dir: &dir, samples: &samples, mutant: &mutant };
        let read = || catch_unwind(AssertUnwindSafe(|| target.read(&input)));
        let (outcome, peak) = watchdog.watch(number, || peak_of(read));
        if target.has_files() {
            mutant.revert(&samples, &dir)?;
        }
        tally.inputs += 1;
        tally.accepted += u64::from(matches!(outcome, Ok(Outcome::Accepted)));
        tally.peak_bytes = tally.peak_bytes.max(peak);
        let bound = target.memory_bound();
        let most = bound.fixed + bound.per_byte * mutant.num_bytes(&samples);
        let mut findings = std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
        if peak > most {
            findings.push(format!("more memory than its bound of {} + {} * input", bound.fixed, bound.per_byte));
        }
        if mutant.changed.is_empty() && matches!(outcome, Ok(Outcome::Rejected)) {
            findings.push("a sample was refused".to_owned());
        }
        for finding in findings {
            if tally.findings.contains_key(&finding) {
                continue;
            }
            let saved = save(name, plan, number, &mutant, &samples);
            message!("error: {name}: input {number} of seed {}: {finding} (peak {peak} bytes; {saved})", plan.seed);
            tally.findings.insert(finding, number);
        }
    }
    Ok(tally)
}

/// Saves an input and tells where.
fn save(name: &str, plan: &Plan, number: u64, mutant: &Mutant, samples: &[Sample]) -> String {
    let dir = plan.failures.join(format!("{name}-{}-{number}", plan.seed));
    match mutant.save(samples, &dir) {
        Ok(()) => format!("saved to {}", dir.display()),
        Err(error) => format!("not saved: {error:#}"),
    }
}

/// Returns a folder in memory if the system has one.
fn fast_folder() -> PathBuf {
    let in_memory = Path::new("/dev/shm");
    if in_memory.is_dir() { in_memory.to_owned() } else { std::env::temp_dir() }
}
