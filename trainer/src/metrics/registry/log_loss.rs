//! The log loss.

use crate::loss::{OutputKind, Target};
use crate::metrics::metric::{MetricEntry, MetricState};
use crate::metrics::output_rows::OutputRows;
use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

pub(super) const ENTRY: MetricEntry = MetricEntry {
    name: "log-loss",
    label: "log loss",
    about: "mean negative logarithm of the probability of the class, or of each known label",
    higher_is_better: false,
    is_share: false,
    is_of_class: false,
    needs: "classes or labels",
    accepts: |outputs| !matches!(outputs, OutputKind::Numbers(_)),
    start: |_| Box::new(LogLoss::default()),
};

#[derive(Default)]
struct LogLoss {
    sum: f64,
    count: f64,
}

impl MetricState for LogLoss {
    fn add(&mut self, outputs: &OutputRows<'_>, target: &Target) {
        for (logits, &label) in outputs.rows().zip(target.classes()) {
            self.sum -= outputs.decision().log_probability(logits, label as usize);
            self.count += 1.0;
        }
        for (&logit, &label) in outputs.values().iter().zip(target.numbers()) {
            if !label.is_nan() {
                let logit = outputs.decision().divided(logit);
                let against = if label > 0.5 { -logit } else { logit };
                // The logarithm of 1 + e^x, which does not overflow.
                self.sum += against.max(0.0) + (-against.abs()).exp().ln_1p();
                self.count += 1.0;
            }
        }
    }

    fn over_all_ranks(self: Box<Self>, world: &mut ProcessGroup) -> Result<Option<f64>, ClusterError> {
        let mut sums = [self.sum, self.count];
        world.all_reduce(&mut sums, ReduceOp::Sum)?;
        let [sum, count] = sums;
        Ok((count > 0.0 && sum.is_finite()).then(|| sum / count))
    }
}
