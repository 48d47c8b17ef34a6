//! The accuracy.

use crate::loss::{OutputKind, Target};
use crate::metrics::metric::{MetricEntry, MetricState};
use crate::metrics::output_rows::OutputRows;
use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

pub(super) const ENTRY: MetricEntry = MetricEntry {
    name: "accuracy",
    label: "accuracy",
    about: "share of seeds that are classified correctly, or of known labels that are predicted correctly",
    higher_is_better: true,
    is_share: true,
    is_of_class: false,
    needs: "classes or labels",
    accepts: |outputs| !matches!(outputs, OutputKind::Numbers(_)),
    start: |_| Box::new(Accuracy::default()),
};

#[derive(Default)]
struct Accuracy {
    correct: u64,
    all: u64,
}

impl MetricState for Accuracy {
    fn add(&mut self, outputs: &OutputRows<'_>, target: &Target) {
        for (found, &label) in outputs.classes().zip(target.classes()) {
            self.correct += u64::from(found == Some(label));
            self.all += 1;
        }
        for ((applies, &logit), &label) in outputs.labels().zip(outputs.values()).zip(target.numbers()) {
            if !label.is_nan() {
                self.correct += u64::from(!logit.is_nan() && applies == (label > 0.5));
                self.all += 1;
            }
        }
    }

    fn over_all_ranks(self: Box<Self>, world: &mut ProcessGroup) -> Result<Option<f64>, ClusterError> {
        let mut sums = [self.correct, self.all];
        world.all_reduce(&mut sums, ReduceOp::Sum)?;
        let [correct, all] = sums;
        Ok((all > 0).then(|| correct as f64 / all as f64))
    }
}
