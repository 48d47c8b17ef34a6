//! The scores that runs can be ranked by: values of one metric, measured in the same way.

use super::Run;
use crate::distinct::distinct;
use crate::settings::given_flags::GivenFlags;

/// The flags that decide about the score itself: the measure, or the nodes, edges or graphs that are measured. Runs with
/// different values of them measure different things.
const OF_EVALUATION: [&str; 20] = [
    "avg-num-nodes",
    "dataset",
    "edge-type",
    "edge-types",
    "eval-negatives",
    "eval-sources",
    "fake-seed",
    "folds",
    "folds-dir",
    "hold-out-edges",
    "label",
    "metric",
    "num-graphs",
    "positive-class",
    "protocol",
    "rank",
    "split",
    "split-seed",
    "target",
    "target-positive-class",
];

/// The values of the flags of the evaluation of a run, in the order of the flags; `None` for a flag without a value.
pub(super) type Evaluation = Vec<Option<String>>;

/// Returns the values of a run, which its command line or its file of flags gives.
pub(super) fn evaluation_of(given: &GivenFlags) -> Evaluation {
    let mut values = Vec::with_capacity(OF_EVALUATION.len());
    for flag in OF_EVALUATION {
        let value = given.text(&flag.replace('-', "_"));
        values.push(value.map(|value| selecting(flag, value).to_owned()));
    }
    values
}

/// Checks that all runs are evaluated in the same way.
///
/// # Errors
/// Names a flag of the evaluation with several values.
pub(super) fn check_same_evaluation(runs: &[Evaluation]) -> Result<(), String> {
    for (number, flag) in OF_EVALUATION.iter().enumerate() {
        // The scores themselves name the metric of a run without the flag.
        let given = runs.iter().map(|run| run[number].as_deref()).filter(|value| value.is_some() || *flag != "metric");
        let values = distinct(given);
        if values.len() > 1 {
            let values: Vec<&str> = values.iter().map(|value| value.unwrap_or("no value")).collect();
            return Err(format!(
                "scores with --{flag} {} cannot be compared, so the runs would have no order: give all runs the same --{flag}, \
                 and sweep other flags",
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
        let runs = values.iter().map(|value| evaluation_of(&GivenFlags::of(&[(flag, value)])));
        check_same_evaluation(&runs.collect::<Vec<_>>())
    }

    #[test]
    fn flags_of_the_evaluation_have_one_value() {
        for (flag, values) in [
            ("metric", &["accuracy", "log-loss"][..]),
            ("metric", &["accuracy,log-loss", "log-loss,accuracy"]),
            ("target", &["y", "z", "y"]),
            ("label", &["y", "z"]),
            ("eval_negatives", &["3", "100"]),
            ("rank", &["destination", "both"]),
            ("edge_types", &["a,b", "a,c"]),
            ("hold_out_edges", &["0.1,0.1", "0.1,0.2"]),
            ("protocol", &["validation", "best-mean-epoch"]),
            ("split_seed", &["0", "1"]),
            ("folds", &["5", "10"]),
        ] {
            let same = format!("give all runs the same --{}", flag.replace('_', "-"));
            assert_has(check(flag, values).expect_err(flag), &[&same]);
        }
        for (flag, values) in [
            ("metric", &["accuracy", "accuracy,log-loss"][..]),
            ("target", &["y,z*0.5", "y,z", "y*2"]),
            ("eval_negatives", &["3", "3"]),
            ("edge_types", &["a,b", "a,b"]),
            ("lr", &["0.1", "0.2"]),
        ] {
            assert_eq!(check(flag, values), Ok(()), "{flag}");
        }
        let [with, without] = ["label", "lr"].map(|flag| evaluation_of(&GivenFlags::of(&[(flag, "y")])));
        let error = check_same_evaluation(&[with, without]).expect_err("one run has the flag");
        assert_has(error, &["scores with --label y and no value cannot be compared"]);
    }
}
