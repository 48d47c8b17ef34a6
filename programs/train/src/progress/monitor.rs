//! The state of a run while it trains: for the live display, and over HTTP for Prometheus and browsers.

use crate::progress::live_page::{Drawn, LivePage};
use crate::progress::named_values::NamedValues;
use crate::progress::of_fold;
use crate::progress::traffic_table::RankTraffic;
use crate::run_page::{Now, Run, capitalized};
use edgecut_dist_sampler::{DistGraph, PeerTraffic};
use edgecut_graph::{Split, shown_bytes};
use edgecut_report::{Unit, definitions, progress, shown};
use edgecut_status::{Answer, PrometheusText, StatusSource};
use edgecut_trainer::inference::InferenceStep;
use edgecut_trainer::{StepReport, resident_bytes};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The state of a process of a run.
#[derive(Default)]
pub(crate) struct Monitor {
    num_epochs: u64,
    /// The page of the job, on rank 0 of a job that serves it.
    page: Option<LivePage>,
    /// The graph, if the process reads one. Sets of small graphs have no traffic.
    graph: OnceLock<Arc<DistGraph>>,
    training: Mutex<Training>,
}

/// The progress of training.
#[derive(Clone, Default)]
struct Training {
    /// The start of the first epoch.
    start: Option<Instant>,
    last: Option<StepReport>,
    evaluation: Option<Evaluation>,
    /// The metrics of the last validation.
    valid: Vec<(String, f64)>,
    num_seeds: u64,
    waited: Duration,
    /// The start of the current epoch, and its seeds.
    epoch_start: Option<Instant>,
    seeds_of_epoch: u64,
    steps_of_epoch: usize,
    /// The speed up to the last step. It is kept between epochs, so that it does not fall to 0 before the first step of
    /// each.
    seeds_per_second: Option<f64>,
}

/// The progress of an evaluation.
#[derive(Clone, Copy)]
struct Evaluation {
    split: Split,
    /// The start of its pass.
    start: Instant,
    step: InferenceStep,
}

impl Monitor {
    /// Creates the state of a process. `has_page` is true on rank 0 of a job that serves a page.
    pub(crate) fn new(num_epochs: u64, has_page: bool) -> Self {
        Self { num_epochs, page: has_page.then(LivePage::new), ..Self::default() }
    }

    /// Returns the page of the job, if this process serves it.
    pub(crate) fn page(&self) -> Option<&LivePage> {
        self.page.as_ref()
    }

    /// Sets the graph whose traffic is shown.
    pub(crate) fn watch(&self, graph: Arc<DistGraph>) {
        // A process opens one graph, so the value is set once.
        let _ = self.graph.set(graph);
    }

    /// Notes the start of an epoch.
    pub(crate) fn epoch_begins(&self) {
        let mut training = self.lock();
        let now = Instant::now();
        training.start.get_or_insert(now);
        training.epoch_start = Some(now);
        training.seeds_of_epoch = 0;
        training.steps_of_epoch = 0;
        training.evaluation = None;
    }

    /// Notes a step.
    pub(crate) fn step(&self, report: &StepReport) {
        let mut training = self.lock();
        training.num_seeds += report.num_seeds;
        training.seeds_of_epoch += report.num_seeds;
        training.steps_of_epoch += 1;
        training.waited += report.waited;
        let elapsed = training.epoch_start.map(|start| start.elapsed().as_secs_f64());
        training.seeds_per_second = elapsed.map(|seconds| training.seeds_of_epoch as f64 / seconds.max(1e-9));
        training.last = Some(*report);
    }

    /// Notes a step of an evaluation, and returns the time that is left for the other steps of its pass; `None` before it
    /// is known.
    pub(crate) fn evaluation_step(&self, split: Split, step: InferenceStep) -> Option<Duration> {
        let mut training = self.lock();
        let now = Instant::now();
        let before = training.evaluation.filter(|before| before.split == split && before.step.pass == step.pass);
        let start = before.filter(|before| before.step.step < step.step).map_or(now, |before| before.start);
        training.evaluation = Some(Evaluation { split, start, step });
        // The first step was not timed.
        left(now - start, step.step.saturating_sub(1), step.num_steps.saturating_sub(step.step))
    }

    /// Notes the metrics of a validation. An epoch without validation has no values.
    pub(crate) fn validated(&self, metrics: &NamedValues) {
        let mut found = Vec::new();
        for (metric, value) in metrics.iter() {
            found.extend(value.map(|value| (metric.to_string(), value)));
        }
        if !found.is_empty() {
            self.lock().valid = found;
        }
    }

    /// Returns the bytes that this process has received from others for its batches, if it reads a graph of several
    /// parts.
    pub(crate) fn received_bytes(&self) -> Option<u64> {
        let graph = self.graph.get().filter(|graph| graph.part().meta().num_parts > 1)?;
        Some(graph.traffic().count().remote_bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Training> {
        self.training.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state in Prometheus' text format.
    fn metrics(&self) -> String {
        let mut text = PrometheusText::new();
        let training = self.lock();
        if let Some(last) = &training.last {
            text.gauge("epoch", "The current epoch, counted from 1.", last.epoch);
            text.gauge("step", "The last finished step of the epoch, counted from 1.", last.step);
            text.gauge("steps_per_epoch", "The number of steps of an epoch.", last.num_steps);
            if let Some(loss) = last.loss {
                text.gauge("loss", "Mean training loss over the seeds of the last step, of all ranks.", loss);
            }
        }
        if let Some(rate) = training.seeds_per_second {
            text.gauge("seeds_per_second", "Training seeds of all ranks per second, up to the last step.", rate);
        }
        if !training.valid.is_empty() {
            let values = training.valid.iter().map(|(metric, value)| (metric, value));
            text.labeled("valid_metric", "gauge", "Scores of the last validation.", "metric", values);
        }
        text.counter("seeds_total", "Training seeds of all ranks.", training.num_seeds);
        let waited = training.waited.as_secs_f64();
        text.counter("batch_wait_seconds_total", "Seconds for which this rank waited for batches.", waited);
        drop(training);
        if let Some(bytes) = resident_bytes() {
            text.gauge("memory_bytes", "Resident memory of this process.", bytes);
        }
        let Some(graph) = self.graph.get() else { return text.finish() };
        let traffic = graph.traffic();
        let count = traffic.count();
        text.counter("remote_nodes_total", "Nodes whose features came over the network.", count.remote_nodes);
        text.counter(
            "shared_nodes_total",
            "Nodes whose features came with the reply to another batch.",
            count.shared_nodes,
        );
        text.counter("cached_nodes_total", "Nodes whose features came from the cache.", count.cached_nodes);
        text.counter("cached_bytes_total", "Bytes of features from the cache.", count.cached_bytes);
        if let Some(depth) = count.queue_depth() {
            text.gauge("queue_depth", "Mean number of finished batches that waited when one was taken.", depth);
        }
        let peers = traffic.by_peer();
        type Value = fn(&PeerTraffic) -> String;
        let by_peer: [(&str, &str, Value); 4] = [
            ("peer_requests_total", "Requests to other processes.", |peer| peer.requests.to_string()),
            ("peer_sent_bytes_total", "Bytes of payload sent in requests.", |peer| peer.sent_bytes.to_string()),
            ("peer_received_bytes_total", "Bytes of payload received in replies.", |peer| {
                peer.received_bytes.to_string()
            }),
            ("peer_wait_seconds_total", "Seconds between requests and their replies.", |peer| {
                peer.wait_seconds.to_string()
            }),
        ];
        for (name, help, value) in by_peer {
            text.labeled(name, "counter", help, "peer", peers.iter().map(|peer| (peer.peer, value(peer))));
        }
        text.finish()
    }
}

/// Returns the time for some steps at the speed of the finished ones; `None` without finished ones.
fn left(elapsed: Duration, done: usize, steps: usize) -> Option<Duration> {
    if done == 0 { None } else { Some(elapsed.mul_f64(steps as f64 / done as f64)) }
}

/// Describes a time that is left, after a comma.
fn words_of_time(left: Option<Duration>) -> String {
    left.map(|left| format!(", {} left", Unit::Seconds.format(left.as_secs_f64()))).unwrap_or_default()
}

impl Monitor {
    /// Draws the page of the job.
    fn draw(&self) -> Option<Drawn> {
        Some(self.page.as_ref()?.draw(|run| self.now(run)))
    }

    /// Describes the state of the run beyond its lines.
    fn now(&self, run: &Run) -> Now {
        let training = self.lock().clone();
        let mut html = String::new();
        match training.last {
            _ if run.has_ended() => html += &progress(1, 1, "The run has ended."),
            None => html += &progress(0, 1, "Training has not made a step yet."),
            Some(StepReport { epoch, fold, step, num_steps, .. }) => {
                let elapsed = training.epoch_start.map_or(Duration::ZERO, |start| start.elapsed());
                let left = words_of_time(left(elapsed, training.steps_of_epoch, num_steps - step));
                let epoch = format!("{}epoch {epoch} of {}", of_fold(fold), self.num_epochs);
                let text = format!("{}, step {step} of {num_steps}{left}", capitalized(&epoch));
                html += &progress(step as u64, num_steps as u64, &text);
            }
        }
        if let Some(Evaluation { split, start, step }) = training.evaluation.filter(|_| !run.has_ended()) {
            let InferenceStep { pass, num_passes, step, num_steps } = step;
            let name = if split == Split::Test { "Test" } else { "Validation" };
            let pass = if num_passes > 1 { format!(", pass {pass} of {num_passes}") } else { String::new() };
            let left = words_of_time(left(start.elapsed(), step.saturating_sub(1), num_steps.saturating_sub(step)));
            let text = format!("{name}{pass}, step {step} of {num_steps}{left}");
            html += &progress(step as u64, num_steps as u64, &text);
        }
        let mut pairs = Vec::new();
        if let Some(loss) = training.last.and_then(|last| last.loss) {
            pairs.push(("Loss of the last step", shown(loss)));
        }
        if let Some(speed) = training.seeds_per_second {
            pairs.push(("Speed", format!("{} seeds/s", shown(speed.round()))));
        }
        if let Some(start) = training.start {
            let elapsed = start.elapsed().as_secs_f64();
            pairs.push(("Time", Unit::Seconds.format(elapsed)));
            let share = training.waited.as_secs_f64() / elapsed.max(1e-9);
            pairs.push(("Waiting for batches, rank 0", format!("{:.0} %", 100.0 * share)));
        }
        if let Some(bytes) = resident_bytes() {
            pairs.push(("Memory, rank 0", shown_bytes(bytes)));
        }
        let pairs: Vec<(String, String)> = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        html += &definitions(&pairs);
        let traffic = self.graph.get().and_then(|graph| serde_json::to_value(RankTraffic::new(0, graph)).ok());
        Now { progress: html, traffic: traffic.into_iter().collect::<Vec<Value>>() }
    }
}

impl StatusSource for Monitor {
    const PATHS: &'static str = "/healthz, /metrics, or on rank 0 / for the page of the job";

    async fn answer(&self, path: &str) -> Option<Answer> {
        match path {
            "/healthz" => Some(Answer::Found("ok\n".into())),
            "/metrics" => Some(Answer::Found(self.metrics())),
            "/" => Some(Answer::Html(self.draw()?.html)),
            "/sections.json" => Some(Answer::Json(self.draw()?.sections)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step_of(step: usize, pass: usize) -> InferenceStep {
        InferenceStep { pass, num_passes: 2, step, num_steps: 8 }
    }

    #[test]
    fn the_page_follows_training_and_validation() {
        let monitor = Monitor::new(15, true);
        let mut run = Run::bounded(10);
        assert!(monitor.now(&run).progress.contains("not made a step yet"));
        monitor.epoch_begins();
        let waited = Duration::ZERO;
        let step = StepReport { epoch: 3, fold: None, step: 4, num_steps: 10, loss: Some(1.25), num_seeds: 64, waited };
        monitor.step(&step);
        let progress = monitor.now(&run).progress;
        for text in ["max=\"10\" value=\"4\"", "Epoch 3 of 15, step 4 of 10, ", "<dd>1.25</dd>", "seeds/s"] {
            assert!(progress.contains(text) && !progress.contains("Validation"), "{text}: {progress}");
        }
        assert_eq!(monitor.evaluation_step(Split::Valid, step_of(1, 1)), None);
        assert!(monitor.evaluation_step(Split::Valid, step_of(8, 1)).is_some_and(|left| left.is_zero()));
        // The second pass is timed anew.
        assert_eq!(monitor.evaluation_step(Split::Valid, step_of(1, 2)), None);
        monitor.evaluation_step(Split::Valid, step_of(3, 2));
        let progress = monitor.now(&run).progress;
        assert!(progress.contains("Validation, pass 2 of 2, step 3 of 8, "), "{progress}");
        monitor.epoch_begins();
        assert!(!monitor.now(&run).progress.contains("Validation"));
        run.add(json!({ "event": "result", "best_epoch": 3 }).as_object().expect("an object").clone());
        assert!(monitor.now(&run).progress.contains("The run has ended."));
        monitor.step(&StepReport { fold: Some(2), ..step });
        assert!(monitor.now(&Run::bounded(10)).progress.contains("Fold 2, epoch 3 of 15, step 4 of 10"));
        // Only rank 0 draws a page.
        assert!(monitor.draw().is_some() && Monitor::new(15, false).draw().is_none());
    }
}
