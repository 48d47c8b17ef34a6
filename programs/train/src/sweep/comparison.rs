//! The scores that runs can be ranked by: values of one metric, measured in the same way.

use super::Run;
use crate::distinct::distinct;

/// The flags that decide about the score itself: the measure, or the nodes, edges or graphs that are measured. Runs with
/// different values of them measure different things.
const OF_EVALUATION: [&str; 13] = [
    "dataset",
    "edge-type",
    "edge-types",
    "eval-negatives",
    "hold-out-edges",
    "label",
    "metric",
    "positive-class",
    "protocol",
    "rank",
    "split",
    "target",
    "target-positive-class",
];

/// Checks that all runs are evaluated in the same way. `runs` are the flags that differ between runs.
///
/// # Errors
/// Names a flag of the evaluation with several values.
pub(super) fn check_same_evaluation(runs: &[Vec<(String, String)>]) -> Result<(), String> {
    for flag in OF_EVALUATION {
        let given = runs.iter().flatten().filter(|(name, _)| name == flag);
        let values = distinct(given.map(|(_, value)| selecting(flag, value)));
        if values.len() > 1 {
            return Err(format!(
                "--set {flag}: scores with --{flag} {} cannot be compared, so the runs would have no order: give all runs the \
                 same --{flag}, and sweep other flags",
                values.join(" and ")
            ));
        }
    }
    Ok(())
}

/// Returns the part of a value that decides about the score: the first metric, or the first target without its weight.
fn selecting<'a>(flag: &str, value: &'a str) -> &'a str {
    match flag {
        "metric" | "target" => value.split([',', '*']).next().unwrap_or(value).trim(),
        _ => value.trim(),
    }
}

/// Returns the metrics of the scores, each once.
pub(super) fn metrics(runs: &[Run]) -> Vec<&str> {
    distinct(runs.iter().filter_map(|run| Some(run.scores.as_ref()?.metric.as_str())))
}

/// Returns the error of runs that have no order because their scores are values of different metrics.
pub(super) fn why_no_order(metrics: &[&str]) -> Option<String> {
    let [.., last] = metrics else { return None };
    (metrics.len() > 1).then(|| {
        format!(
            "the runs have the metrics {}, so their scores cannot be compared: give all runs one metric, for example with \
             --metric {last}",
            metrics.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    fn check(flag: &str, values: &[&str]) -> Result<(), String> {
        let runs: Vec<_> = values.iter().map(|value| vec![(flag.to_owned(), (*value).to_owned())]).collect();
        check_same_evaluation(&runs)
    }

    #[test]
    fn flags_of_the_evaluation_have_one_value() {
        for (flag, values) in [
            ("metric", &["accuracy", "log-loss"][..]),
            ("metric", &["accuracy,log-loss", "log-loss,accuracy"]),
            ("target", &["y", "z", "y"]),
            ("label", &["y", "z"]),
            ("eval-negatives", &["3", "100"]),
            ("rank", &["destination", "both"]),
            ("edge-types", &["a,b", "a,c"]),
            ("hold-out-edges", &["0.1,0.1", "0.1,0.2"]),
            ("protocol", &["validation", "best-mean-epoch"]),
        ] {
            assert_has(check(flag, values).expect_err(flag), &[&format!("give all runs the same --{flag}")]);
        }
        for (flag, values) in [
            ("metric", &["accuracy", "accuracy,log-loss"][..]),
            ("target", &["y,z*0.5", "y,z", "y*2"]),
            ("eval-negatives", &["3", "3"]),
            ("edge-types", &["a,b", "a,b"]),
            ("lr", &["0.1", "0.2"]),
        ] {
            assert_eq!(check(flag, values), Ok(()), "{flag}");
        }
    }
}
