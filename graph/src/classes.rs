//! Bounds on the number of classes.

use rayon::prelude::*;

/// Classes that any set of labels may have, whatever its number of distinct labels.
const FREE_CLASSES: usize = 1000;
/// Classes per distinct label that a set of labels may have beyond [`FREE_CLASSES`].
const CLASSES_PER_LABEL: usize = 10;

/// The most classes that labels with `distinct` different values may have.
pub fn max_classes(distinct: usize) -> usize {
    distinct.saturating_mul(CLASSES_PER_LABEL).saturating_add(FREE_CLASSES)
}

/// Returns the number of different labels, -1 (unlabelled) aside.
pub fn count_distinct_labels(labels: &[i64]) -> usize {
    let mut distinct: Vec<i64> = labels.par_iter().copied().filter(|&label| label >= 0).collect();
    distinct.par_sort_unstable();
    distinct.dedup();
    distinct.len()
}

/// Checks that there are not many more classes than different labels. A model has outputs for each class, so that one
/// stray label, such as an id or a time, would take as much memory as its value says.
///
/// # Errors
/// A message that names an item with the largest label, the number of different labels, and the bound.
pub(crate) fn check_num_classes(labels: &[i64], num_classes: usize, item: &str) -> Result<(), String> {
    // Nearly all graphs have few classes, and need no count.
    if num_classes <= FREE_CLASSES {
        return Ok(());
    }
    let distinct = count_distinct_labels(labels);
    let most = max_classes(distinct);
    if num_classes <= most {
        return Ok(());
    }
    let largest = labels.par_iter().enumerate().max_by_key(|&(at, &label)| (label, std::cmp::Reverse(at)));
    let named = match largest {
        Some((at, &label)) if label >= 0 => format!("{item} {at} has label {label}, so that there are"),
        _ => "there are".to_owned(),
    };
    Err(format!(
        "{named} {num_classes} classes, but the labels have {distinct} different values, which allow at most {most} \
         classes (10 for each, and 1000): number the classes 0, 1, 2 and so on"
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
        assert!(why.starts_with("node 4 has label 1019, so that there are 1031 classes"), "{why}");
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
