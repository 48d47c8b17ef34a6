//! The text of `--plan-cluster`.

use crate::args::plan::Plan;
use crate::progress::text_table::text_table;
use edgecut_graph::shown_bytes;
use edgecut_trainer::cluster_plan::{BatchProfile, Prediction, RowsBasis};
use serde::Serialize;

/// The measured costs and the predictions from them, which `--json` prints.
#[derive(Serialize)]
pub(crate) struct ClusterPlan {
    profile: BatchProfile,
    predictions: Vec<Prediction>,
}

impl ClusterPlan {
    /// Predicts the cost of the measured training on all clusters of a plan.
    pub(crate) fn new(profile: BatchProfile, plan: &Plan) -> Self {
        Self { profile, predictions: plan.clusters.iter().map(|cluster| profile.predict(*cluster)).collect() }
    }

    /// Formats the costs, and a line per cluster.
    pub(crate) fn text(&self) -> String {
        let mut text = measured(&self.profile);
        if let Some(first) = self.predictions.first() {
            let cluster = first.cluster;
            text += &format!(
                "predicted for nodes with {} cores and {} batches ahead, on a network with {} us of delay:\n",
                cluster.cores, cluster.batches_ahead, cluster.delay_us
            );
        }
        let header =
            ["nodes", "Gbit/s", "epoch s", "batch ms", "efficiency", "other rows", "received", "memory", "bound by"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        rows.extend(self.predictions.iter().map(|prediction| cells(prediction, self.profile.rows)));
        text + &text_table(&rows)
    }
}

/// Formats the measured costs.
fn measured(profile: &BatchProfile) -> String {
    let share = percent(profile.remote_rows, profile.rows);
    format!(
        "measured on {} processes, {} steps, per batch of {:.0} seeds:\n\
         making the batch: {:.1} ms of CPU, {:.0} feature rows, {share} of them and {} from other parts in {:.0} requests\n\
         step: {:.1} ms of CPU, {} of gradients, summed in {:.2} ms of CPU\n\
         network: {:.0} us of CPU per request, {:.2} us per row of another part\n\
         memory: {} without batches ahead, {} per batch\n",
        profile.ranks,
        profile.measured_steps,
        profile.seeds,
        1e3 * profile.batch_cpu_seconds,
        profile.rows,
        shown_bytes(profile.received_bytes as u64),
        profile.requests,
        1e3 * profile.step_cpu_seconds,
        shown_bytes(profile.gradient_bytes),
        1e3 * profile.all_reduce_cpu_seconds,
        1e6 * profile.request_cpu_seconds,
        1e6 * profile.remote_row_cpu_seconds,
        shown_bytes(profile.anonymous_bytes),
        shown_bytes(profile.batch_bytes as u64),
    )
}

/// Formats the line of a cluster whose batches have `rows` feature rows.
fn cells(prediction: &Prediction, rows: f64) -> Vec<String> {
    let estimated = if prediction.rows_basis == RowsBasis::Estimated { "~" } else { "" };
    vec![
        prediction.cluster.nodes.to_string(),
        prediction.cluster.gbit_per_second.to_string(),
        format!("{:.2}", prediction.epoch_seconds),
        format!("{:.1}", 1e3 * prediction.batch_seconds),
        format!("{:.0} %", 100.0 * prediction.efficiency),
        format!("{estimated}{}", percent(prediction.remote_rows, rows)),
        shown_bytes(prediction.received_bytes as u64),
        shown_bytes(prediction.memory_bytes as u64),
        prediction.bound.to_string(),
    ]
}

fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.0} %", 100.0 * part / whole) } else { "-".to_owned() }
}
