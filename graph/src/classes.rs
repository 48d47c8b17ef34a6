//! Bounds on the number of classes.

use crate::parallel;

/// The number of classes that is always allowed, even with few distinct labels.
const FREE_CLASSES: usize = 1000;
/// The number of classes allowed per distinct label, beyond [`FREE_CLASSES`].
const CLASSES_PER_LABEL: usize = 10;

/// Returns the maximum number of classes for labels with `distinct` different values.
pub fn max_classes(distinct: usize) -> usize {
    distinct.saturating_mul(CLASSES_PER_LABEL).saturating_add(FREE_CLASSES)
}

/// Returns the number of different labels, not counting -1 (unlabeled).
pub fn count_distinct_labels(labels: &[i64]) -> usize {
    let mut distinct: Vec<u64> = parallel::filter_map(labels.len(), |at| u64::try_from(labels[at]).ok());
    parallel::sort(&mut distinct);
    distinct.dedup();
    distinct.len()
}

/// Checks that the number of classes is not much larger than the number of different labels. A model has one output per
/// class, so a single stray label, such as an id or a timestamp, could otherwise exhaust the memory.
///
/// # Errors
/// Returns a message with an item that has the largest label, the number of different labels, and the bound.
pub(crate) fn check_num_classes(labels: &[i64], num_classes: usize, item: &str) -> Result<(), String> {
    // Nearly all graphs have few classes, so the labels need not be counted.
    if num_classes <= FREE_CLASSES {
        return Ok(());
    }
    let distinct = count_distinct_labels(labels);
    let most = max_classes(distinct);
    if num_classes <= most {
        return Ok(());
    }
    let largest = labels.iter().enumerate().max_by_key(|&(at, &label)| (label, std::cmp::Reverse(at)));
    let named = match largest {
        Some((at, &label)) if label >= 0 => format!("{item} {at} has label {label}, so there are"),
        _ => "there are".to_owned(),
    };
    Err(format!(
        "{named} {num_classes} classes, but the labels have {distinct} different values, which allow at most {most} \
         classes (1000 plus 10 per value): number the classes 0, 1, 2 and so on"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_bounded_by_the_number_of_different_labels() {
        let labels = [0, 5, 5, -1, 1019];
        assert_eq!(count_distinct_labels(&labels), 3);
        check_num_classes(&labels, 1030, "node").unwrap();
        let why = check_num_classes(&labels, 1031, "node").unwrap_err();
        assert!(why.starts_with("node 4 has label 1019, so there are 1031 classes"), "{why}");
        assert!(why.contains("3 different values") && why.contains("at most 1030 classes"), "{why}");
    }

    #[test]
    fn few_classes_need_no_labels_and_many_do() {
        check_num_classes(&[], 1000, "node").unwrap();
        check_num_classes(&[-1; 4], 1001, "node").unwrap_err();
        let dense: Vec<i64> = (0..5000).collect();
        check_num_classes(&dense, 50_000, "node").unwrap();
    }
}
