//! The names for people of the fields of a metrics file.

use edgecut_trainer::metrics::Decision;

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

/// Returns a note about a temperature that is the least or the greatest one, at which probabilities are not calibrated.
pub(crate) fn note_of_limit(decision: &Decision) -> Option<String> {
    decision.has_limiting_temperature().then(|| {
        let temperature = decision.temperature();
        let [limit, cause] = if temperature < 1.0 {
            ["least", "the model may separate all validation data"]
        } else {
            ["greatest", "the outputs may not tell the classes of the validation data"]
        };
        format!(
            "note: the temperature {temperature} is the {limit} one of --calibrate, so that the probabilities are not calibrated: {cause}"
        )
    })
}

/// Returns a text with a capital letter at its start.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_for_people() {
        assert_eq!([label_of("edge_types"), label_of("cut_fraction")], ["Edge types", "Cut edges"]);
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
        let threshold = Decision::default().with_thresholds(vec![0.0]);
        assert_eq!(decision_words(&threshold, Some("a")), "threshold 0.5000 of a, temperature 1.0000");
        assert_eq!(decision_words(&threshold, None), "threshold 0.5000, temperature 1.0000");
        for (temperature, words) in [(0.01, "0.01 is the least one"), (100.0, "100 is the greatest one")] {
            let note = note_of_limit(&Decision::default().with_temperature(temperature)).expect("a note");
            assert!(note.contains(words), "{note}");
        }
        assert_eq!(note_of_limit(&Decision::default()), None);
    }
}
