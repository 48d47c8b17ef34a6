//! Search of whole arrays for invalid values.

use crate::parallel;

/// The number of values tested without a branch in between, so that the compiler can use vector instructions.
const RUN: usize = 4096;

/// Returns the first index whose value is `wrong`.
pub(crate) fn first_position<T: Copy + Sync>(values: &[T], wrong: impl Fn(T) -> bool + Sync) -> Option<usize> {
    let any_wrong = |run: usize| {
        let run = &values[run * RUN..values.len().min((run + 1) * RUN)];
        run.iter().fold(false, |found, &value| found | wrong(value))
    };
    let start = parallel::find_first(values.len().div_ceil(RUN), &any_wrong)? * RUN;
    values[start..].iter().position(|&value| wrong(value)).map(|at| start + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_is_found() {
        let mut values = vec![0_u32; 10 * RUN + 5];
        assert_eq!(first_position(&values, |v| v != 0), None);
        for at in [10 * RUN + 4, 7 * RUN + 3, 7 * RUN, RUN - 1, 0] {
            values[at] = 1;
            assert_eq!(first_position(&values, |v| v != 0), Some(at));
        }
        assert_eq!(first_position(&[] as &[u32], |_| true), None);
    }
}
