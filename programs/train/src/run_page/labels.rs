//! The names for people of metrics and of the fields of a metrics file.

use edgecut_report::Unit;
use edgecut_trainer::link::LinkMetric;
use edgecut_trainer::metrics::{Decision, Metric};

/// The fields that do not read well as they are, and their names for people.
const FIELDS: [(&str, &str); 11] = [
    ("date", "Start"),
    ("sample_wait_seconds", "waiting for batches"),
    ("compute_seconds", "computing"),
    ("allreduce_seconds", "all-reduce"),
    ("eval_seconds", "validation"),
    ("checkpoint_seconds", "checkpoints"),
    ("memory_bytes", "Resident memory"),
    ("remote_bytes", "Received bytes"),
    ("cut_fraction", "Cut edges"),
    ("remote_neighbor_fraction", "Remote neighbors"),
    ("train_nodes", "training nodes"),
];

/// Returns the name of a field for people: its words, the first one with a capital letter, if it has no other name.
pub(super) fn label_of(field: &str) -> String {
    match FIELDS.iter().find(|(name, _)| *name == field) {
        Some((_, label)) => (*label).to_owned(),
        None => capitalized(&field.replace('_', " ")),
    }
}

/// Returns the name of a metric of any task for people, as it stands within a sentence.
pub(super) fn metric_label(name: &str) -> String {
    if let Ok(metric) = name.parse::<Metric>() {
        return metric.label().to_owned();
    }
    match name.parse::<LinkMetric>() {
        Ok(metric) => metric.label(),
        Err(_) => name.to_owned(),
    }
}

/// Returns the unit of a metric of any task. All metrics of links are shares.
pub(super) fn metric_unit(name: &str) -> Unit {
    match name.parse::<Metric>() {
        Ok(metric) if !metric.is_share() => Unit::Number,
        _ => Unit::Share,
    }
}

/// Formats the value of the metric of this name. All metrics of links are shares.
pub(crate) fn shown_metric(name: &str, value: Option<f64>) -> String {
    match name.parse::<Metric>() {
        Ok(metric) => metric.shown(value),
        Err(_) => percent(value),
    }
}

/// Formats a fraction as a percentage, or `-` if there is none.
pub(crate) fn percent(share: Option<f64>) -> String {
    match share {
        Some(share) => format!("{:.2} %", share * 100.0),
        None => "-".to_owned(),
    }
}

/// Returns the name of the positive one of two classes; `None` if it is the second one of classes without names. `classes` are
/// the names of all classes.
pub(crate) fn positive_class_name(decision: Option<&Decision>, classes: Option<&[String]>) -> Option<String> {
    let class = decision.map_or(1, Decision::positive_class);
    match classes {
        Some(names @ [_, _]) => names.get(class).cloned(),
        _ if class != 1 => Some(format!("class {class}")),
        _ => None,
    }
}

/// Returns the end of the name of a metric that scores the positive one of two classes, which is named if it has a name.
pub(crate) fn of_class(metric: &str, positive: Option<&str>) -> String {
    match (metric.parse::<Metric>(), positive) {
        (Ok(metric), Some(class)) if metric.is_of_class() => format!(" of {class}"),
        _ => String::new(),
    }
}

/// Describes the thresholds and the temperature of a model. `positive` is the name of the positive class.
pub(crate) fn decision_words(decision: &Decision, positive: Option<&str>) -> String {
    /// The most thresholds that are shown.
    const MOST: usize = 8;
    let mut texts = Vec::new();
    let thresholds = decision.thresholds();
    if !thresholds.is_empty() {
        let mut shown: Vec<String> = thresholds.iter().take(MOST).map(|threshold| format!("{threshold:.4}")).collect();
        if thresholds.len() > MOST {
            shown.push(format!("… ({} labels)", thresholds.len()));
        }
        let of_class = positive.map_or_else(String::new, |class| format!(" of {class}"));
        texts.push(format!("threshold {}{of_class}", shown.join(", ")));
    } else if let Some(class) = positive {
        texts.push(format!("positive class {class}"));
    }
    texts.push(format!("temperature {:.4}", decision.temperature()));
    texts.join(", ")
}

/// Returns a text with a capital letter at its start.
pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_all_tasks_have_names_for_people() {
        for (name, label, unit, value) in [
            ("macro-f1", "macro F1", Unit::Share, "50.00 %"),
            ("log-loss", "log loss", Unit::Number, "0.5000"),
            ("hits@50", "hits@50", Unit::Share, "50.00 %"),
            ("mrr", "MRR", Unit::Share, "50.00 %"),
        ] {
            assert_eq!((metric_label(name).as_str(), metric_unit(name)), (label, unit));
            assert_eq!(shown_metric(name, Some(0.5)), value);
        }
        for metric in Metric::all() {
            assert!(!metric.label().contains('-'), "{metric}");
        }
        assert_eq!(label_of("edge_types"), "Edge types");
    }

    #[test]
    fn the_positive_class_is_named() {
        let names = ["fraud", "honest"].map(String::from);
        let first = Decision::default().with_positive_class(0);
        for (decision, classes, expected) in [
            (None, Some(&names[..]), Some("honest")),
            (Some(&first), Some(&names[..]), Some("fraud")),
            (Some(&first), None, Some("class 0")),
            (Some(&Decision::default()), None, None),
            (None, Some(&names[..1]), None),
        ] {
            assert_eq!(positive_class_name(decision, classes).as_deref(), expected, "{decision:?} {classes:?}");
        }
        assert_eq!(["roc-auc", "macro-f1", "mrr"].map(|name| of_class(name, Some("a"))), [" of a", "", ""]);
        let threshold = Decision::default().with_thresholds(vec![0.0]);
        assert_eq!(decision_words(&threshold, Some("a")), "threshold 0.5000 of a, temperature 1.0000");
        assert_eq!(decision_words(&threshold, None), "threshold 0.5000, temperature 1.0000");
    }
}
